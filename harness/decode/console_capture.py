"""Extracts dumps from a console capture, as printed by ExecuTorch's Arm runner.

Between ``#[RUN THIS]`` and ``#[END]`` are shell commands that write files from base64 text::

    echo "<debug buffer>" | base64 -d >debug_buffer.bin
    echo "<ED00 file>" | base64 -d >etdump.bin

The debug buffer, if there is one, comes first. A recorder may have added a prefix such as the time
to each line, CR LF line ends, and line breaks at the width of a terminal; all of these are removed.
Other text between the commands is ignored; within base64 it is damage.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.errors import FormatError
from harness.records.trace import Damage

_SECTION: Final = rb"#\[RUN THIS\]"
_COMMAND: Final = b'echo "'
_DECODER: Final = b"|base64"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_BLANKS: Final = b" \t\r\n"
_LIKELY: Final = 16
"""Base64 characters after an ``echo`` that make it the beginning of a file."""
_LONGEST_PREFIX: Final = 200


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
        text = bytearray()
        lines = self.lines()
        for at, line in lines:
            piece, quote, behind = line.partition(b'"')
            piece = piece.strip(_BLANKS)
            foreign = piece.translate(None, _ALPHABET)
            if foreign:
                self.defect("other text within base64", at + line.find(foreign[:1]))
                break
            text += piece
            if quote:
                self.check_end(at + len(piece), behind, lines)
                return self.decoded(bytes(text), whole=True)
        else:
            self.defect("the capture ends within base64", len(self.data))
        return self.decoded(bytes(text), whole=False)

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
        rest = behind.translate(None, _BLANKS)
        while len(rest) < len(_DECODER) and (line := next(lines, None)):
            rest += line[1].translate(None, _BLANKS)
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
