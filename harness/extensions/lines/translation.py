"""Lines that translate bytes, such as a terminal server in text mode or XON/XOFF flow control.

A byte that a line translates is found by PINGs with it and without it; random damage does not
tell them apart. What is done to it shows in a damaged answer that is whole once that is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from typing import Final

from harness.errors import HarnessError, UsageError
from harness.link.exchange import Exchange
from harness.link.frames import Frame, FrameDecoder, encode_frame
from harness.link.wire import RESPONSE, SOH, Op

_CR, _LF, _FF, _HIGH = 0x0D, 0x0A, 0xFF, 0xC3

_NAMES: Final = {
    _HIGH: "the eighth bit of bytes",
    _LF: "LF (0x0A)",
    _CR: "CR (0x0D)",
    0x11: "XON (0x11)",
    0x13: "XOFF (0x13)",
    _FF: "0xFF",
}
"""Bytes that lines translate, in the order of the search, and what messages call them."""

_WAIT_S: Final = 0.25
_PINGS: Final = 8
_ANSWERED: Final = 6
"""PINGs of each kind for a byte, and how many without it have to be answered: damage at random
that hits all with the byte and at most two of the others is less probable than 1 in 1,000."""

_ECHOES: Final = 3
"""PINGs whose answers without an eighth bit are no accident."""
_SHORT: Final = 48
"""Longest frame in which two dropped bytes are looked for: a thousand pairs of places."""
_AMBIGUOUS: Final = 8
"""Most bytes of a frame that may be either of two: 256 frames to try."""


def find_translation(exchange: Exchange) -> HarnessError | None:
    """Return the error for a line that translates bytes; None if it is not proven to.

    Args:
        exchange: One that has received or caused damage, and failed.
    """
    try:
        found = _of_all_frames(exchange) or _of_a_byte(exchange)
    except HarnessError:  # the line has ended, or the target has died
        return None
    if not found:
        return None
    return UsageError(
        f"{exchange.board}: the port {found}; it has to pass all bytes unchanged",
        hint="set raw mode on what stands between this computer and the board: `stty raw -echo`, "
        "`socat ...,rawer`, ser2net without telnet; no flow control by XON/XOFF",
    )


def _of_all_frames(exchange: Exchange) -> str:
    """What damages every frame from the board: none arrived whole."""
    frames = list(exchange.corrupt_frames)
    if exchange.statistics.frames_received or not frames:
        return ""
    if any(_is_whole(part) for frame in frames for part in _parts(frame)):
        return "drops NUL (0x00), the end of every frame from the board"
    plain = [n for n in _sequences(None) if n & 0xFF and n >> 8]
    if all(_is_echoed(exchange, sequence) for sequence in plain[:_ECHOES]):
        return f"drops {_NAMES[_HIGH]} from the board"
    return ""


def _is_echoed(exchange: Exchange, sequence: int) -> bool:
    """Whether the answer to a PING comes as it is but for the eighth bit of its type."""
    exchange.corrupt_frames.clear()
    _is_answered(exchange, sequence)
    # In the coding a mark and the length of what follows stand before the type.
    answer = bytes((Op.PING, sequence & 0xFF, sequence >> 8))
    return any(frame[2:5] == answer for frame in exchange.corrupt_frames)


def _of_a_byte(exchange: Exchange) -> str:
    if not any(_is_answered(exchange, sequence) for sequence in _sequences(None)[:3]):
        return ""
    for byte, name in _NAMES.items():
        exchange.corrupt_frames.clear()
        if _is_lost(exchange, byte):
            undone = (_undone(frame) for frame in exchange.corrupt_frames)
            return next(filter(None, undone), f"changes or drops {name} on the way to the board")
    return ""


def _is_lost(exchange: Exchange, byte: int) -> bool:
    """Whether the board and this computer understand each other only without that byte."""
    asked = _sequences(byte)
    if _is_answered(exchange, asked[0]):
        return False
    without = 0
    for number in range(_PINGS):
        if _is_answered(exchange, asked[(number + 1) % len(asked)]):
            return False
        without += _is_answered(exchange, _sequences(None)[number])
    return without >= _ANSWERED


def _is_answered(exchange: Exchange, sequence: int) -> bool:
    exchange.send(Op.PING, sequence, b"")
    until = exchange.now() + _WAIT_S
    while (heard := exchange.listen(until)) is not None:
        if isinstance(heard, Frame) and (heard.type, heard.sequence) == (
            Op.PING | RESPONSE,
            sequence,
        ):
            return True
    return False


@cache
def _sequences(byte: int | None) -> list[int]:
    """Numbers of PINGs with no byte in them that lines translate, but for ``byte``."""
    numbers = range(1, 0x10000) if byte is None else range(byte, 0x10000, 0x100)
    return [number for number in numbers if _bytes_of(number) == {byte} - {None}]


def _bytes_of(sequence: int) -> set[int]:
    frame = encode_frame(Op.PING, sequence, b"")
    return {byte for byte in frame if byte in _NAMES or byte >= 0x80}


def _is_whole(encoded: bytes) -> bool:
    items = FrameDecoder(len(encoded)).feed(encoded + b"\0")
    return len(items) == 1 and isinstance(items[0], Frame)


def _parts(frame: bytes) -> Iterator[bytes]:
    """What may be frames in frames without ends between them."""
    starts = [place for place, byte in enumerate(frame) if byte == SOH]
    for first, last in combinations([*starts, len(frame)], 2):
        if last - first < len(frame):
            yield frame[first:last]


def _undone(frame: bytes) -> str:
    """What a line did to a frame from the board; "" if no translation explains the damage."""
    for pair, single, words in (
        (b"\r\n", b"\n", "translates LF to CR LF"),
        (b"\r\n", b"\r", "translates CR to CR LF"),
        (b"\xff\xff", b"\xff", "doubles 0xFF, as Telnet does,"),
    ):
        if pair in frame and _is_whole(frame.replace(pair, single)):
            return f"{words} in what the board sends"
    for was, became, words in (
        (_CR, _LF, "translates CR to LF"),
        (_LF, _CR, "translates LF to CR"),
    ):
        if any(map(_is_whole, _exchanged(frame, was, became))):
            return f"{words} in what the board sends"
    for byte in (_CR, _LF, 0x11, 0x13, _FF):
        if any(map(_is_whole, _completed(frame, byte))):
            return f"drops {_NAMES[byte]} from what the board sends"
    return ""


def _exchanged(frame: bytes, was: int, became: int) -> Iterator[bytes]:
    places = [place for place, byte in enumerate(frame) if byte == became]
    if len(places) <= _AMBIGUOUS:
        for chosen in product((was, became), repeat=len(places)):
            whole = bytearray(frame)
            for place, byte in zip(places, chosen, strict=True):
                whole[place] = byte
            yield bytes(whole)


def _completed(frame: bytes, byte: int) -> Iterator[bytes]:
    """The frame with that byte once or, if it is short, twice more than it has it."""
    for place in range(len(frame) + 1):
        once = frame[:place] + bytes((byte,)) + frame[place:]
        yield once
        if len(frame) <= _SHORT:
            for second in range(place + 1, len(once) + 1):
                yield once[:second] + bytes((byte,)) + once[second:]
