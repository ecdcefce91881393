"""Dumps in what a console has recorded, as ExecuTorch's Arm runner prints them.

Between ``#[RUN THIS]`` and ``#[END]`` stand shell commands that make files of base64 text::

    echo "<debug buffer>" | base64 -d >debug_buffer.bin
    echo "<ED00 file>" | base64 -d >etdump.bin

The debug buffer, if there is one, comes first. Whoever recorded the console may have put a prefix
before each line, such as the time, may have ended lines with CR LF, and may have broken them at the
width of a terminal; all of that is undone. Other text between the commands does not matter; within
base64 it is damage.
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
"""Characters of base64 after which an ``echo`` is taken for the beginning of a file."""
_LONGEST_PREFIX: Final = 200


@dataclass(frozen=True, slots=True)
class Payload:
    """A file that stands in a capture.

    Attributes:
        offset: Of its base64 text in the capture.
        section: How many ``#[RUN THIS]`` stand before it.
        data: Its bytes, as far as they could be read.
    """

    offset: int
    section: int
    data: bytes


def is_capture(data: bytes) -> bool:
    """Tell a console's text with files in it from other files."""
    return next(_commands(data), None) is not None


def read_payloads(data: bytes, damage: list[Damage] | None = None) -> list[Payload]:
    """Find the files in a capture, in order.

    Args:
        data: The capture.
        damage: None makes every defect an error. A list gets all defects; of a damaged file what
            stands before the defect is kept.

    Raises:
        FormatError: Base64 text is damaged or not ended, and ``damage`` is None.
    """
    sections = [match.start() for match in re.finditer(_SECTION, data)]
    return [
        Payload(at, bisect(sections, at), _Command(data, at, damage).content())
        for at in _commands(data)
    ]


def _commands(data: bytes) -> Iterator[int]:
    """Where the base64 text of each command begins."""
    at = data.find(_COMMAND)
    while at >= 0:
        begin = at + len(_COMMAND)
        likely = data[begin : begin + _LIKELY]
        if len(likely) == _LIKELY and not likely.translate(None, _ALPHABET):
            yield begin
        at = data.find(_COMMAND, begin)


class _Command:
    """One command: its base64 text, gathered line by line."""

    def __init__(self, data: bytes, begin: int, damage: list[Damage] | None) -> None:
        self.data, self.begin, self.damage = data, begin, damage
        line = data.rfind(b"\n", 0, begin) + 1
        before = data[line : begin - len(_COMMAND)][-_LONGEST_PREFIX:]
        if not before.translate(None, _ALPHABET):
            before = b""  # it could not be told from base64
        # Every number in it may be another one on the next line.
        self.prefix = re.compile(re.sub(rb"\d+", rb"\\d+", re.escape(before)))

    def content(self) -> bytes:
        """The bytes of the file that it makes, as far as they can be read."""
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
        """The rest of the command's line and the lines after it, without their prefixes."""
        at = self.begin
        while at < len(self.data):
            end = self.data.find(b"\n", at)
            end = len(self.data) if end < 0 else end
            if at > self.begin and (prefix := self.prefix.match(self.data, at, end)):
                at = prefix.end()
            yield at, self.data[at:end]
            at = end + 1

    def check_end(self, at: int, behind: bytes, lines: Iterator[tuple[int, bytes]]) -> None:
        """Require that the text goes to base64, be that line broken, too."""
        rest = behind.translate(None, _BLANKS)
        while len(rest) < len(_DECODER) and (line := next(lines, None)):
            rest += line[1].translate(None, _BLANKS)
        if not rest.startswith(_DECODER):
            self.defect("no command that decodes the base64 before", at)

    def decoded(self, text: bytes, *, whole: bool) -> bytes:
        """The bytes that whole groups of four characters stand for."""
        sound = text[: len(text) // 4 * 4]
        padding = sound.find(b"=")
        if 0 <= padding < len(sound) - 2:
            self.defect("padding within base64", self.begin)
            sound = sound[: padding // 4 * 4]
        elif whole and len(sound) < len(text):
            message = f"{len(text)} characters of base64, which is no multiple of 4"
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
