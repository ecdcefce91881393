"""Telnet (RFC 854, 855) and its option COM-PORT-CONTROL (RFC 2217). Bytes in, items out; no I/O.

The byte 255 begins a command; in data it is doubled. (The standard library's ``telnetlib`` is
gone since Python 3.13.)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from harness.errors import LinkError

BINARY: Final = 0
"""Option: binary transfer (RFC 856)."""
SUPPRESS_GO_AHEAD: Final = 3
"""Option: both ends send at any time (RFC 858)."""

IAC: Final = b"\xff"
"""Begins a command."""

MAX_SUBNEGOTIATION: Final = 1024
"""Longest subnegotiation accepted, encoded bytes; real ones are far shorter."""


COM_PORT: Final = 44
"""The option's number."""


_SERVER: Final = 100
"""Offset of a server's message numbers to those of the client."""


DATASIZE_8: Final = b"\x08"


PARITY_NONE: Final = b"\x01"


STOPSIZE_1: Final = b"\x01"


FLOW_NONE: Final = b"\x01"
"""CONTROL: neither XON/XOFF nor RTS/CTS."""


PURGE_RECEIVED: Final = b"\x01"
"""PURGE: drop bytes that the server has received from the port and not sent yet."""


_DOUBLED: Final = b"\xff\xff"
_DATA: Final = re.compile(rb"(?:[^\xff]++|\xff\xff)*+")
_BODY: Final = rb"\xff\xfa((?:[^\xff]++|\xff\xff)*+)"
_SUBNEGOTIATION: Final = re.compile(_BODY + rb"\xff\xf0")
_UNFINISHED: Final = re.compile(_BODY + rb"\xff?")


class TelnetCommand(IntEnum):
    """Commands that are handled. All others have no parameter and are ignored."""

    SE = 240
    SB = 250
    WILL = 251
    WONT = 252
    DO = 253
    DONT = 254


class Setting(IntEnum):
    """Requests of a client; the server's confirmations and notifications."""

    SIGNATURE = 0
    BAUDRATE = 1
    DATASIZE = 2
    PARITY = 3
    STOPSIZE = 4
    CONTROL = 5
    LINESTATE = 6
    MODEMSTATE = 7
    SUSPEND = 8
    RESUME = 9
    LINESTATE_MASK = 10
    MODEMSTATE_MASK = 11
    PURGE = 12


class LineState(IntFlag):
    """The error bits of LINESTATE."""

    OVERRUN = 2
    PARITY = 4
    FRAMING = 8
    BREAK = 16


@dataclass(frozen=True, slots=True)
class Negotiation:
    """An option that one end offers, requests or refuses."""

    command: TelnetCommand
    option: int


@dataclass(frozen=True, slots=True)
class Subnegotiation:
    """A message of an option; in ``body`` doubled bytes are single again."""

    option: int
    body: bytes


Item = bytes | Negotiation | Subnegotiation
"""Data, or one of the two kinds of commands that are handled."""


class TelnetError(LinkError):
    """The server sent invalid Telnet."""


def escape(data: bytes) -> bytes:
    """Return data as sent over the line, with byte 255 doubled."""
    return data.replace(IAC, _DOUBLED)


def negotiation(command: TelnetCommand, option: int) -> bytes:
    """Return an encoded negotiation."""
    return bytes((255, command, option))


def subnegotiation(option: int, body: bytes) -> bytes:
    """Return an encoded subnegotiation."""
    return b"\xff\xfa" + escape(bytes((option,)) + body) + b"\xff\xf0"


class TelnetDecoder:
    """Decodes a stream that arrives in pieces of any size; buffers only an incomplete command."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[Item]:
        """Return the complete items in order; ignored commands are left out.

        Raises:
            TelnetError: The stream is not Telnet, or a subnegotiation is too long.
        """
        stream = self._held + data
        items: list[Item] = []
        position = 0
        while position < len(stream):
            # A match takes the longest run of data, normally the whole input.
            run = _DATA.match(stream, position)
            if run is not None and run.end() > position:
                items.append(run[0].replace(_DOUBLED, IAC))
                position = run.end()
            size = _command_size(stream, position)
            if not size:
                break
            if (command := _parse(stream[position : position + size])) is not None:
                items.append(command)
            position += size
        self._held = stream[position:]
        return items


def strip_commands(stream: bytes) -> bytes:
    """Return the data in the beginning of a stream, without its commands.

    Raises:
        TelnetError: The stream is not Telnet.
    """
    return b"".join(item for item in TelnetDecoder().feed(stream) if isinstance(item, bytes))


def _command_size(stream: bytes, position: int) -> int:
    """Return the size of the command at ``position``; 0 while it is incomplete."""
    code = stream[position + 1 : position + 2]
    if not code:
        return 0
    if code[0] < TelnetCommand.SE:
        raise TelnetError(
            f"invalid Telnet: byte {code[0]} after a 255",
            hint="if the server serves the port raw, use a socket:// address",
        )
    if code[0] < TelnetCommand.SB:
        return 2
    if code[0] != TelnetCommand.SB:
        return 3 if len(stream) >= position + 3 else 0
    if whole := _SUBNEGOTIATION.match(stream, position):
        return whole.end() - position
    if len(stream) - position > MAX_SUBNEGOTIATION:
        raise TelnetError(f"a subnegotiation did not end within {MAX_SUBNEGOTIATION} bytes")
    if not _UNFINISHED.fullmatch(stream, position):
        raise TelnetError("invalid Telnet: a command within a subnegotiation")
    return 0


def _parse(command: bytes) -> Negotiation | Subnegotiation | None:
    match command[1]:
        case (
            TelnetCommand.WILL | TelnetCommand.WONT | TelnetCommand.DO | TelnetCommand.DONT as code
        ):
            return Negotiation(TelnetCommand(code), command[2])
        case TelnetCommand.SB:
            content = command[2:-2].replace(_DOUBLED, IAC)
            return Subnegotiation(content[0], content[1:]) if content else None
    return None


class Options:
    """State of the options at both ends, and the responses to negotiations.

    Only a negotiation that changes a state gets a response, so that two ends never answer each
    other forever (RFC 1143).

    Attributes:
        ours: Options enabled at our end.
        theirs: Options enabled at the other end.
        refused: Options that we requested and the other end refused.
    """

    def __init__(self, ours: Collection[int], theirs: Collection[int]) -> None:
        """Set the options to negotiate.

        Args:
            ours: Options to enable at our end.
            theirs: Options to enable at the other end.
        """
        self._wanted = {TelnetCommand.WILL: frozenset(ours), TelnetCommand.DO: frozenset(theirs)}
        self._asked = {
            (command, option) for command, all_ in self._wanted.items() for option in all_
        }
        self._on: set[tuple[TelnetCommand, int]] = set()
        self.refused: set[int] = set()

    @property
    def ours(self) -> set[int]:
        """Options enabled at our end."""
        return {option for command, option in self._on if command is TelnetCommand.WILL}

    @property
    def theirs(self) -> set[int]:
        """Options enabled at the other end."""
        return {option for command, option in self._on if command is TelnetCommand.DO}

    def requests(self) -> bytes:
        """Return the encoded negotiations to start with."""
        return b"".join(negotiation(*asked) for asked in sorted(self._asked))

    def receive(self, heard: Negotiation) -> bytes:
        """Process a negotiation; return the encoded response, ``b""`` if it needs no response."""
        ask, refuse = {
            TelnetCommand.DO: (TelnetCommand.WILL, TelnetCommand.WONT),
            TelnetCommand.DONT: (TelnetCommand.WILL, TelnetCommand.WONT),
            TelnetCommand.WILL: (TelnetCommand.DO, TelnetCommand.DONT),
            TelnetCommand.WONT: (TelnetCommand.DO, TelnetCommand.DONT),
        }[heard.command]
        option = heard.option
        key = (ask, option)
        was_asked, was_on = key in self._asked, key in self._on
        self._asked.discard(key)
        if heard.command in (TelnetCommand.DO, TelnetCommand.WILL):
            if option not in self._wanted[ask]:
                return negotiation(refuse, option)
            self._on.add(key)
            return b"" if was_asked or was_on else negotiation(ask, option)
        self._on.discard(key)
        if was_asked:
            self.refused.add(option)
        return negotiation(refuse, option) if was_on else b""


def port_request(setting: Setting, value: bytes = b"") -> bytes:
    """Return an encoded message of a client."""
    return subnegotiation(COM_PORT, bytes((setting,)) + value)


def port_answer(setting: Setting, value: bytes = b"") -> bytes:
    """Return an encoded message of a server."""
    return subnegotiation(COM_PORT, bytes((setting + _SERVER,)) + value)


def read_port_answer(body: bytes) -> tuple[Setting, bytes] | None:
    """Parse a server's message into setting and value; None for an unknown message."""
    try:
        return Setting(body[0] - _SERVER), body[1:]
    except (IndexError, ValueError):
        return None


def baud_value(baud: int) -> bytes:
    """Return the value of BAUDRATE for a rate in bits per second."""
    return baud.to_bytes(4, "big")
