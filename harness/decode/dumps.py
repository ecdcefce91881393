"""Reads all traces in a file: ED00 files, device logs, console captures.

The format is detected from the contents, never from the file name. A console capture is what
ExecuTorch's Arm runner prints. Between ``#[RUN THIS]`` and ``#[END]`` are shell commands that write
files from base64 text::

    echo "<debug buffer>" | base64 -d >debug_buffer.bin
    echo "<ED00 file>" | base64 -d >etdump.bin

The debug buffer, if there is one, comes first. A recorder may have added a prefix such as the time
to each line, colours, CR LF line ends, and line breaks at the width of a terminal; all of these are
removed. Other text between the commands is ignored. Lines of other tasks within base64 are left out
if all lines that remain are equally long, so that no character is lost; other text within it is
damage. Base64 without the padding at its end is read if the ED00 file in it announces this size.

Captures may be UTF-16 with a byte order mark, and any of these files may be packed by gzip.
"""

from __future__ import annotations

import binascii
import codecs
import re
import zlib
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from harness.decode.device_log_format import MAGIC, RECORD_SIZE
from harness.decode.ed00_reader import NO_IDENTIFIER, Window, find_dump, read_dump
from harness.decode.ed00_schema import IDENTIFIER
from harness.errors import FormatError
from harness.files import Content, is_padding
from harness.plugins import CAPTURES, CONTAINERS, POSTMORTEMS, load_plugin, plugin_names
from harness.records.trace import HOST_NANOSECONDS, ClockDomain, Damage, Losses, Trace

_SECTION: Final = rb"#\[RUN THIS\]"
_COMMAND: Final = b'echo "'
_OTHER_FILE: Final = re.compile(rb'#\[(RUN THIS|END)\]|echo "')
"""What the end of a file, or the next one, begins with."""
_DECODER: Final = b"|base64"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_BLANKS: Final = b" \t\r\n"
_COLOUR: Final = re.compile(rb"\x1b\[[0-9;]*[mK]")
"""A colour, its end, or the erasure of the rest of a line."""
_LIKELY: Final = 16
"""Base64 characters after an ``echo`` that make it the beginning of a file."""
_LONGEST_PREFIX: Final = 200
_GZIP: Final = b"\x1f\x8b\x08"
_Unpack = Callable[[bytes, list[Damage] | None], bytes | None]
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Payload:
    """A file in a capture.

    Attributes:
        offset: Offset of its base64 text in the capture.
        section: Number of ``#[RUN THIS]`` lines before it.
        data: Its bytes, as far as they could be read.
    """

    offset: int
    section: int
    data: bytes


def is_capture(data: bytes) -> bool:
    """Whether the data is console text that contains files."""
    return next(_commands(data), None) is not None


def read_payloads(data: bytes, damage: list[Damage] | None = None) -> list[Payload]:
    """Find the files in a capture, in order.

    Args:
        data: The capture.
        damage: None makes every defect an error. With a list, defects are appended to it, and a
            damaged file is kept up to its first defect.

    Raises:
        FormatError: Base64 text is damaged or incomplete, and ``damage`` is None.
    """
    sections = [match.start() for match in re.finditer(_SECTION, data)]
    return [
        Payload(at, bisect(sections, at), _Command(data, at, damage).content())
        for at in _commands(data)
    ]


def _commands(data: bytes) -> Iterator[int]:
    """Yield the offset of the base64 text of each command."""
    at = data.find(_COMMAND)
    while at >= 0:
        begin = at + len(_COMMAND)
        likely = data[begin : begin + _LIKELY]
        if len(likely) == _LIKELY and not likely.translate(None, _ALPHABET):
            yield begin
        at = data.find(_COMMAND, begin)


class _Command:
    """One command: collects its base64 text line by line."""

    def __init__(self, data: bytes, begin: int, damage: list[Damage] | None) -> None:
        self.data, self.begin, self.damage = data, begin, damage
        line = data.rfind(b"\n", 0, begin) + 1
        before = data[line : begin - len(_COMMAND)][-_LONGEST_PREFIX:]
        if not before.translate(None, _ALPHABET):
            before = b""  # cannot be distinguished from base64
        # Numbers in the prefix, such as the time, differ from line to line.
        self.prefix = re.compile(re.sub(rb"\d+", rb"\\d+", re.escape(before)))

    def content(self) -> bytes:
        """Return the decoded file, as far as it can be read."""
        text, lengths = bytearray(), list[int]()
        other: tuple[int, int] | None = None  # where other text begins, and the base64 before it
        lines = self.lines()
        for at, line in lines:
            piece, quote, behind = line.partition(b'"')
            piece = _COLOUR.sub(b"", piece).strip(_BLANKS)
            foreign = piece.translate(None, _ALPHABET)
            if foreign:
                uncoloured = _COLOUR.sub(lambda colour: b"A" * len(colour[0]), line)
                other = other or (at + uncoloured.find(foreign[:1]), len(text))
                if _OTHER_FILE.search(line):
                    break
                continue
            text += piece
            lengths.append(len(piece) + (len(_COMMAND) if at == self.begin else 0))
            if quote:
                if other is not None and not _are_whole(lengths):
                    break
                self.check_end(at + len(piece), behind, lines)
                return self.decoded(bytes(text), whole=True)
        if other is None:
            self.defect("the capture ends within base64", len(self.data))
            return self.decoded(bytes(text), whole=False)
        self.defect("other text within base64", other[0])
        return self.decoded(bytes(text[: other[1]]), whole=False)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rest of the command's line and the next lines, without their prefixes."""
        at = self.begin
        while at < len(self.data):
            end = self.data.find(b"\n", at)
            end = len(self.data) if end < 0 else end
            if at > self.begin and (prefix := self.prefix.match(self.data, at, end)):
                at = prefix.end()
            yield at, self.data[at:end]
            at = end + 1

    def check_end(self, at: int, behind: bytes, lines: Iterator[tuple[int, bytes]]) -> None:
        """Check that the text is piped to base64; this line may be broken, too."""
        rest = _COLOUR.sub(b"", behind).translate(None, _BLANKS)
        while len(rest) < len(_DECODER) and (line := next(lines, None)):
            rest += _COLOUR.sub(b"", line[1]).translate(None, _BLANKS)
        if not rest.startswith(_DECODER):
            self.defect("the command does not decode base64", at)

    def decoded(self, text: bytes, *, whole: bool) -> bytes:
        """Decode all complete groups of four characters."""
        sound = text[: len(text) // 4 * 4]
        padding = sound.find(b"=")
        if 0 <= padding < len(sound) - 2:
            self.defect("padding within base64", self.begin)
            sound = sound[: padding // 4 * 4]
        elif whole and len(sound) < len(text):
            if (unpadded := _without_padding(text)) is not None:
                return unpadded
            message = f"{len(text)} base64 characters, not a multiple of 4"
            self.defect(message, self.begin)
        try:
            return binascii.a2b_base64(sound, strict_mode=True)
        except binascii.Error as error:
            self.defect(f"base64 is damaged: {error}", self.begin)
            return binascii.a2b_base64(sound[:-4])

    def defect(self, message: str, offset: int) -> None:
        error = FormatError(
            message,
            offset=offset,
            field="console capture",
            hint="record the console without losing characters, or read what is intact with "
            "--salvage",
        )
        if self.damage is None:
            raise error
        self.damage.append(Damage.of(error, None))


def _are_whole(lengths: Sequence[int]) -> bool:
    """Return whether lines were broken at the width of a terminal only: the last may be shorter."""
    *whole, last = lengths
    return len(whole) > 1 and len({*whole}) == 1 and last <= whole[0]


def _without_padding(text: bytes) -> bytes | None:
    """Return the dump in base64 without ``=`` at its end; None if a character may be missing."""
    if len(text) % 4 == 1 or b"=" in text:
        return None
    data = binascii.a2b_base64(text + b"=" * (-len(text) % 4))
    window = find_dump(data)
    prefixed = window is not None and window.begin < window.start
    return data if window and prefixed and window.announced == len(data) else None


MOST_UNPACKED: Final = 1 << 30
"""Largest file that gzip packed, unpacked, bytes."""

_ZEROS: Final = 64
"""Most padding zeros between two dumps."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A trace with its debug buffer.

    Attributes:
        trace: The trace.
        debug_buffer: Bytes of the logged tensors, or None.
        offset: Offset of the dump in the data; in a capture, of its base64 text.
    """

    trace: Trace
    debug_buffer: bytes | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FoundDumps:
    """All dumps of a file.

    Attributes:
        dumps: Dumps in file order. A static ETDumpGen that was reset leaves older dumps after newer
            ones.
        damage: Defects; the affected parts are left out.
        padding: Bytes behind the last dump that only fill the file.
    """

    dumps: tuple[Dump, ...]
    damage: tuple[Damage, ...] = ()
    padding: int = 0


def read_dumps(
    data: Content, clocks: Sequence[ClockDomain] = (), *, salvage: bool = False
) -> FoundDumps:
    """Decode everything in ``data``.

    Args:
        data: One or several consecutive ED00 dumps, a device log, or console text that contains
            ED00 dumps and debug buffers.
        clocks: The device's clock domains, by clock number; events of ED00 files use the first.
        salvage: Read the intact parts of damaged data and report the damage, instead of failing.
            Missing events are counted in ``Trace.losses``.

    Raises:
        FormatError: The format is unknown, or the data is damaged and ``salvage`` is False; the
            error has offset and field.
    """
    damage: list[Damage] | None = [] if salvage else None
    clock = clocks[0] if clocks else HOST_NANOSECONDS
    padding = 0
    if not find_dump(data):  # whose first bytes may look like the mark of another format
        data = _unpacked(data[:], damage)
    if isinstance(data, bytes) and data[:4] == MAGIC.to_bytes(4, "little"):
        from harness.decode.device_log import read_log
        from harness.decode.device_log_chunks import trailing_padding

        dumps = [Dump(read_log(data, clocks, damage))]
        padding = trailing_padding(data)
    elif find_dump(data):
        dumps, padding = _dumps(data, clock, damage)
    elif isinstance(data, bytes) and is_capture(data):
        dumps = _captured(data, clock, damage)
        for name in plugin_names(CAPTURES):
            complete = cast("Callable[[Trace, bytes], Trace]", load_plugin(CAPTURES, name))
            dumps = [replace(dump, trace=complete(dump.trace, data)) for dump in dumps]
    else:
        raise _unknown(data[:])
    return FoundDumps(
        tuple(_accounted(dumps, damage)) if damage else tuple(dumps), tuple(damage or ()), padding
    )


def _unpacked(data: bytes, damage: list[Damage] | None) -> bytes:
    """Return what gzip or a plugin's format packed, and UTF-16 as bytes of one character each.

    Raises:
        FormatError: The packed data is damaged, or too large.
    """
    if data.startswith(_GZIP):
        unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            data = unpacking.decompress(data, MOST_UNPACKED)
        except zlib.error as error:
            raise FormatError(f"gzip data is damaged: {error}", offset=0, field="gzip") from error
        if not unpacking.eof:
            too_large = len(data) >= MOST_UNPACKED
            reason = f"unpacks to more than {MOST_UNPACKED:,} bytes" if too_large else "is cut off"
            raise FormatError(f"gzip data {reason}", offset=0, field="gzip")
    if data.startswith(_UTF_16):
        data = data.decode("utf-16", "replace").encode("latin-1", "replace")
    mark = MAGIC.to_bytes(4, "little")
    # A recording may begin with the mark, but not with a whole log.
    if mark in data[1:] and (data[:4] != mark or data[5] != RECORD_SIZE):
        for name in plugin_names(CONTAINERS):
            unpacked = cast("_Unpack", load_plugin(CONTAINERS, name))(data, damage)
            data = data if unpacked is None else unpacked
    return data


def _accounted(dumps: list[Dump], damage: list[Damage]) -> list[Dump]:
    """Add damage outside of all dumps to the losses of the last dump.

    Raises:
        FormatError: No dump is intact.
    """
    if not dumps:
        first = damage[0]
        raise FormatError(
            f"nothing could be salvaged: {first.reason}", offset=first.offset, field=first.field
        )
    counted = sum(dump.trace.losses.damaged for dump in dumps)
    outside = Losses(damaged=sum(item.events or 1 for item in damage) - counted)
    trace = dumps[-1].trace
    counting = replace(trace, losses=trace.losses + outside)
    return [*dumps[:-1], replace(dumps[-1], trace=counting)]


def _unknown(data: bytes) -> FormatError:
    crashes: Any = load_plugin(POSTMORTEMS, "device")
    if crashes is not None and crashes.is_postmortem(data):
        return FormatError(
            "this file is a postmortem", offset=0, field="magic", hint="use etharness postmortem"
        )
    for name in plugin_names(CONTAINERS):  # which may know what is missing
        cast("_Unpack", load_plugin(CONTAINERS, name))(data, None)
    return FormatError(
        NO_IDENTIFIER,
        offset=4,
        field="file identifier",
        hint="the file is not an ETDump, a device log or a console capture, or its beginning is "
        "damaged",
    )


def _dumps(
    data: Content, clock: ClockDomain, damage: list[Damage] | None
) -> tuple[list[Dump], int]:
    """Read consecutive dumps; return them, and the number of padding bytes behind the last one."""
    dumps: list[Dump] = []
    window, end = find_dump(data), 0
    while window:
        dumps.append(Dump(read_dump(data, window, clock, damage), offset=window.begin))
        end = window.end
        window = _next(data, window, damage)
    return dumps, len(data) - end if is_padding(data, end) else 0


def _next(data: Content, window: Window, damage: list[Damage] | None) -> Window | None:
    """Return the window of the next dump, or None at the end."""
    end = window.end
    if is_padding(data, end):
        return None
    found = data.find(IDENTIFIER, end, end + 8 + _ZEROS + len(IDENTIFIER))
    # Four bytes before a dump may be its size prefix, or zeros before a dump without a prefix.
    prefixed = found >= end + 8 and any(data[found - 8 : found - 4])
    begin = found - (8 if prefixed else 4)
    if begin >= end and not any(data[end:begin]):
        return find_dump(data, begin)
    trailing = FormatError(
        f"{len(data) - end} bytes after the announced size are not a dump",
        offset=end,
        field="size prefix",
        hint="use --salvage to read the dump before them",
    )
    if damage is None:
        raise trailing
    damage.append(Damage.of(trailing, None))
    return None


def _captured(data: bytes, clock: ClockDomain, damage: list[Damage] | None) -> list[Dump]:
    """Read the dumps in console text; a file before a dump in its section is its debug buffer."""
    dumps: list[Dump] = []
    waiting: Payload | None = None
    for payload in read_payloads(data, damage):
        same_section = waiting is not None and waiting.section == payload.section
        if not find_dump(payload.data):
            _refuse(waiting, damage)
            waiting = payload
            continue
        if not same_section:
            _refuse(waiting, damage)
        debug_buffer = waiting.data if waiting and same_section else None
        waiting = None
        try:
            found, _ = _dumps(payload.data, clock, damage)
        except FormatError as error:
            place = f"in the dump at byte {payload.offset} of the capture"
            message = f"{place}: {error.message}"
            raise FormatError(message, offset=error.offset, field=error.field) from error
        dumps += [Dump(dump.trace, debug_buffer, payload.offset) for dump in found]
    _refuse(waiting, damage)
    return dumps


def _refuse(payload: Payload | None, damage: list[Damage] | None) -> None:
    """Report a file in a capture that is neither a dump nor a debug buffer."""
    if payload is None:
        return
    error = FormatError(
        f"a file of {len(payload.data)} bytes is neither an ETDump nor followed by one",
        offset=payload.offset,
        field="console capture",
        hint="the beginning of its base64 may be damaged; use --salvage to read the others",
    )
    if damage is None:
        raise error
    damage.append(Damage.of(error, None))
