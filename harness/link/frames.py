"""Frames on the wire: COBS, CRC-32, and a decoder that separates frames from console text.

No I/O: bytes in, values out. ``docs/protocol.md`` describes the coding, and the device's decoder
(``firmware_stub/src/link``) agrees with this one on every byte stream.

The ``cobs`` package would replace only ``cobs_encode`` and ``cobs_decode``: the rest depends on the
first byte that tells frames from text, and this decoder has to match the one on the device.
"""

from __future__ import annotations

import codecs
import zlib
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

from harness.link.wire import CRC_SIZE, HEADER_SIZE, SOH

OVERHEAD: Final = HEADER_SIZE + CRC_SIZE
"""Bytes of a payload that are not its body."""

_LONGEST_BLOCK: Final = 254
_FULL_BLOCK: Final = _LONGEST_BLOCK + 1
"""Code byte of a COBS block of the greatest length, which is not followed by a zero."""

_IN_TEXT: Final = frozenset((SOH, *b"\a\b\t\n\v\f\r\x1b"))
"""Control characters that programs print, and SOH, which starts every frame."""

_CONTROL: Final = bytes(c for c in (*range(32), 127) if c not in _IN_TEXT)
"""Control characters that do not occur in console text."""


class CorruptReason(StrEnum):
    """Why a frame was rejected, in the order in which the decoder checks."""

    TOO_LONG = auto()
    COBS = auto()
    TOO_SHORT = auto()
    MARKER = auto()
    """Part of the protocol, but cannot occur: SOH, which starts a frame, is the COBS code of a zero
    byte, the marker."""
    CRC = auto()
    BODY = auto()
    """The frame is good, but its body does not parse. Set by the exchange, not by the decoder."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that passed every check."""

    type: int
    sequence: int
    body: bytes


@dataclass(frozen=True, slots=True)
class CorruptFrame:
    """A frame that was rejected.

    Attributes:
        reason: The first check it failed.
        encoded: Its bytes as received, without delimiters; an over-long frame is truncated.
    """

    reason: CorruptReason
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """Console text from between two frames."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes skipped after the truncated part of an over-long frame, up to the next delimiter."""

    data: bytes


Item = Frame | CorruptFrame | Text | Skipped


def cobs_encode(data: bytes) -> bytes:
    """Encode ``data`` so that it contains no zero byte, without delimiters."""
    blocks = data.split(b"\0")
    last = len(blocks) - 1
    pieces = []
    for number, block in enumerate(blocks):
        rest = block
        while len(rest) >= _LONGEST_BLOCK:
            pieces.append(b"\xff" + rest[:_LONGEST_BLOCK])
            rest = rest[_LONGEST_BLOCK:]
        # A full block does not imply a zero. If one follows, an empty block has to encode it.
        if rest or number < last or not block:
            pieces.append(bytes((len(rest) + 1,)) + rest)
    return b"".join(pieces)


def cobs_decode(encoded: bytes) -> bytes | None:
    """Decode the bytes between two delimiters, strictly.

    Returns:
        The data, or None if the input contains a zero byte or a code points past the end.
    """
    if 0 in encoded:
        return None
    # Replace each code byte by the zero it encodes. The first one, and those after a full block,
    # encode nothing and are removed.
    decoded = bytearray(encoded)
    surplus = []
    position, end = 0, len(encoded)
    while position < end:
        code = encoded[position]
        decoded[position] = 0
        position += code
        if code == _FULL_BLOCK:
            surplus.append(position)
    if position != end:
        return None
    for index in reversed(surplus):
        del decoded[index : index + 1]
    return bytes(decoded[1:])


def encode_frame(type_: int, sequence: int, body: bytes) -> bytes:
    """Return a frame as it goes on the wire, delimiters included."""
    payload = bytes((0, type_)) + sequence.to_bytes(2, "little") + body
    crc = zlib.crc32(payload).to_bytes(CRC_SIZE, "little")
    return b"\0" + cobs_encode(payload + crc) + b"\0"


def longest_encoded(mtu: int) -> int:
    """Return the longest encoded frame, without delimiters, that a decoder for ``mtu`` accepts."""
    return mtu + mtu // _LONGEST_BLOCK + 1


def _check(encoded: bytes) -> Frame | CorruptFrame:
    payload = cobs_decode(encoded)
    if payload is None:
        return CorruptFrame(CorruptReason.COBS, encoded)
    if len(payload) < OVERHEAD:
        return CorruptFrame(CorruptReason.TOO_SHORT, encoded)
    checked, crc = payload[:-CRC_SIZE], payload[-CRC_SIZE:]
    if zlib.crc32(checked) != int.from_bytes(crc, "little"):
        return CorruptFrame(CorruptReason.CRC, encoded)
    return Frame(checked[1], int.from_bytes(checked[2:4], "little"), checked[HEADER_SIZE:])


class _State(Enum):
    TEXT = auto()
    FRAME = auto()
    SKIP = auto()


class FrameDecoder:
    """Turns a byte stream, in pieces of any size, into frames, corrupt frames and text.

    Attributes:
        mtu: Longest payload accepted, bytes. May be raised while decoding.
    """

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu
        self._state = _State.TEXT
        self._encoded = bytearray()

    def feed(self, data: bytes) -> list[Item]:
        """Decode the next bytes; return the items that they complete, in order.

        Text is returned as soon as it arrives. Stray delimiters do not split it.
        """
        items: list[Item] = []
        position = 0
        while position < len(data):
            match self._state:
                case _State.TEXT:
                    position = self._text(data, position, items)
                case _State.FRAME:
                    position = self._frame(data, position, items)
                case _State.SKIP:
                    position = self._skip(data, position, items)
        return items

    def _text(self, data: bytes, position: int, items: list[Item]) -> int:
        start = data.find(SOH, position)
        end = len(data) if start < 0 else start
        text = data[position:end].replace(b"\0", b"")
        if text:
            items.append(Text(text))
        if start < 0:
            return end
        self._encoded = bytearray((SOH,))
        self._state = _State.FRAME
        return start + 1

    def _frame(self, data: bytes, position: int, items: list[Item]) -> int:
        delimiter = data.find(0, position)
        end = len(data) if delimiter < 0 else delimiter
        room = max(0, longest_encoded(self.mtu) - len(self._encoded))
        if end - position > room:
            self._encoded += data[position : position + room]
            items.append(CorruptFrame(CorruptReason.TOO_LONG, bytes(self._encoded)))
            self._state = _State.SKIP
            return position + room
        self._encoded += data[position:end]
        if delimiter < 0:
            return end
        items.append(_check(bytes(self._encoded)))
        self._state = _State.TEXT
        return delimiter + 1

    def _skip(self, data: bytes, position: int, items: list[Item]) -> int:
        delimiter = data.find(0, position)
        end = len(data) if delimiter < 0 else delimiter
        if end > position:
            items.append(Skipped(data[position:end]))
        if delimiter < 0:
            return end
        self._state = _State.TEXT
        return delimiter + 1


def is_text(data: bytes) -> bool:
    """Whether a corrupt frame is really UTF-8 console text that happens to begin with SOH.

    A frame from a device with one inverted bit, one lost byte, or a lost end is never taken for
    text, unless only its SOH is left: the type of a response cannot begin a UTF-8 character, and
    the zeros in the first bytes of every response and notification are sent as COBS codes, which
    are control characters.
    """
    if data.translate(None, _CONTROL) != data:
        return False
    try:
        # Incremental, because a character may be split by a frame and continue after it.
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True
