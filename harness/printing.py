r"""Prints text that others wrote, so that none of it acts on a terminal or on a CI system.

Names, messages and lines of logs come from devices, files and tools. A terminal obeys their control
sequences, and a CI system obeys commands in the log of a job. All output of the command line is
printed here or by `harness.report.terminal`. Control characters become ``\xNN``, and commands get
one escaped character.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

INDENT: Final = "    "
"""Before each line of a message but the first."""

_COMMAND: Final = re.compile(
    r"(?P<line>^[ ]*):(?=:[^\s:])|\#(?=\#(?:\[|vso\[|teamcity\[))", re.MULTILINE | re.VERBOSE
)
"""First character of a command: GitHub's runner ignores spaces before ``::name``, and finds
``##[name]`` anywhere in a line (ActionCommand.cs in actions/runner); so does Azure's agent with
``##vso[``."""

_PLURALS: Final = {"is": "are", "was": "were", "has": "have", "does": "do", "matches": "match"}
_NOT_ASCII: Final = re.compile(r"[^\n -~]")


def printable(text: str) -> str:
    r"""Escape control characters and bytes that are not UTF-8 as ``\xNN``.

    Names come from devices and files, and could otherwise send control sequences to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return a count, its noun and its verb, which agree: ``1 scope lasts``, ``2 scopes last``."""
    if count == 1:
        return f"1 {noun} {verb}".rstrip()
    return f"{count:,} {noun}s {_PLURALS.get(verb, verb.removesuffix('s'))}".rstrip()


def without_commands(text: str) -> str:
    """Return lines in which no CI system finds a command, as they are printed: after folding."""
    return _COMMAND.sub(lambda found: f"{found['line'] or ''}\\x{ord(found[0][-1]):02x}", text)


def message_lines(message: str, indent: str = INDENT) -> list[str]:
    """Return the lines of a message, printable; all but the first are indented.

    Tools write several lines, and none of them may look like one of ours.
    """
    first, *others = (printable(line.rstrip("\r").expandtabs()) for line in message.split("\n"))
    return [first, *(f"{indent}{line}".rstrip() for line in others)]


def print_text(text: str, *, error: bool = False) -> None:
    """Print lines on standard output, or on standard error."""
    lines = "\n".join(map(printable, text.split("\n")))
    _write(f"{without_commands(lines)}\n", error=error)


def print_message(message: str, *, error: bool = False) -> None:
    """Print a message that may hold lines of a tool, as `message_lines`."""
    print_text("\n".join(message_lines(message)), error=error)


def print_command(command: str, *, error: bool = False) -> None:
    """Print a command that the user asked for, such as an annotation, for a CI system to obey."""
    _write(f"{printable(command)}\n", error=error)


def print_document(document: bytes) -> None:
    """Print a JSON document; what a terminal or a CI system would obey is escaped as in JSON."""
    text = document.decode()
    text = _NOT_ASCII.sub(lambda found: _json_escape(found[0]), text)
    text = _COMMAND.sub(lambda found: _json_escape(found[0], always=True), text)
    stream = sys.stdout
    if stream is None:
        return
    stream.flush()
    if binary := getattr(stream, "buffer", None):
        binary.write(text.encode())
    else:
        stream.write(text)
    stream.flush()


class LogFormatter(logging.Formatter):
    """Formats log messages of several lines, tracebacks included, as `message_lines`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return without_commands("\n".join(message_lines(super().format(record))))


def _write(text: str, *, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # closed by the caller
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape kept
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(char: str, *, always: bool = False) -> str:
    if char.isprintable() and not always:
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
