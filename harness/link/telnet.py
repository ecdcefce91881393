"""Telnet (RFC 854, 855): data, and what two ends agree on, in one stream. Bytes in, items out.

The byte 255 begins a command; as data it comes twice. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from harness.errors import LinkError

BINARY: Final = 0
"""Option: bytes pass as they are (RFC 856)."""
SUPPRESS_GO_AHEAD: Final = 3
"""Option: both ends send when they like (RFC 858)."""

IAC: Final = b"\xff"
"""Begins a command."""

MAX_SUBNEGOTIATION: Final = 1024
"""Bytes of one, as they are on the line: far more than any server has to say."""

_DOUBLED: Final = b"\xff\xff"
_DATA: Final = re.compile(rb"(?:[^\xff]++|\xff\xff)*+")
_BODY: Final = rb"\xff\xfa((?:[^\xff]++|\xff\xff)*+)"
_SUBNEGOTIATION: Final = re.compile(_BODY + rb"\xff\xf0")
_UNFINISHED: Final = re.compile(_BODY + rb"\xff?")


class TelnetCommand(IntEnum):
    """What may follow the byte 255; the others have no parameter and no meaning for a port."""

    SE = 240
    SB = 250
    WILL = 251
    WONT = 252
    DO = 253
    DONT = 254


@dataclass(frozen=True, slots=True)
class Negotiation:
    """One end says what it does or wants of an option."""

    command: TelnetCommand
    option: int


@dataclass(frozen=True, slots=True)
class Subnegotiation:
    """What an option has to say itself; ``body`` is as it was meant, without doubled bytes."""

    option: int
    body: bytes


Item = bytes | Negotiation | Subnegotiation
"""Data, or one of the two kinds of commands that matter."""


class TelnetError(LinkError):
    """What a server sends is not Telnet."""


def escape(data: bytes) -> bytes:
    """Data as it goes over the line."""
    return data.replace(IAC, _DOUBLED)


def negotiation(command: TelnetCommand, option: int) -> bytes:
    """A negotiation as it goes over the line."""
    return bytes((255, command, option))


def subnegotiation(option: int, body: bytes) -> bytes:
    """A subnegotiation as it goes over the line."""
    return b"\xff\xfa" + escape(bytes((option,)) + body) + b"\xff\xf0"


class TelnetDecoder:
    """Takes the stream apart, in pieces of any size; keeps only a command that is not whole yet."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[Item]:
        """Return what has arrived whole, in its order; commands that mean nothing are left out.

        Raises:
            TelnetError: This is no Telnet, or a subnegotiation does not end.
        """
        stream = self._held + data
        items: list[Item] = []
        place = 0
        while place < len(stream):
            # Whole stretches at once: where nothing but data comes, that is all of it.
            run = _DATA.match(stream, place)
            if run is not None and run.end() > place:
                items.append(run[0].replace(_DOUBLED, IAC))
                place = run.end()
            size = _command_size(stream, place)
            if not size:
                break
            if (command := _parse(stream[place : place + size])) is not None:
                items.append(command)
            place += size
        self._held = stream[place:]
        return items


def data_of(stream: bytes) -> bytes:
    """The data of the beginning of a stream, without its commands.

    Raises:
        TelnetError: This is no Telnet.
    """
    return b"".join(item for item in TelnetDecoder().feed(stream) if isinstance(item, bytes))


def _command_size(stream: bytes, place: int) -> int:
    """Bytes of the command at ``place``; 0 while it is not whole."""
    code = stream[place + 1 : place + 2]
    if not code:
        return 0
    if code[0] < TelnetCommand.SE:
        raise TelnetError(
            f"the byte {code[0]} follows a 255, which is no command of Telnet",
            hint="the server may give its port as it is: name it with socket://",
        )
    if code[0] < TelnetCommand.SB:
        return 2
    if code[0] != TelnetCommand.SB:
        return 3 if len(stream) >= place + 3 else 0
    if whole := _SUBNEGOTIATION.match(stream, place):
        return whole.end() - place
    if len(stream) - place > MAX_SUBNEGOTIATION:
        raise TelnetError(f"a subnegotiation did not end within {MAX_SUBNEGOTIATION} bytes")
    if not _UNFINISHED.fullmatch(stream, place):
        raise TelnetError("a subnegotiation holds another command")
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
    """Which options are on at either end, and what to answer to stay in agreement.

    An answer is given only to what changes something, so that two ends never answer each other
    without end (RFC 1143).

    Attributes:
        ours: What we do, as the other end has agreed.
        theirs: What it does, as it has said.
        refused: What it does not want, of what was asked for.
    """

    def __init__(self, ours: Collection[int], theirs: Collection[int]) -> None:
        """Plan an agreement.

        Args:
            ours: Options that we want to do.
            theirs: Options that we want the other end to do.
        """
        self._wanted = {TelnetCommand.WILL: frozenset(ours), TelnetCommand.DO: frozenset(theirs)}
        self._asked = {
            (command, option) for command, all_ in self._wanted.items() for option in all_
        }
        self._on: set[tuple[TelnetCommand, int]] = set()
        self.refused: set[int] = set()

    @property
    def ours(self) -> set[int]:
        """Options that we do."""
        return {option for command, option in self._on if command is TelnetCommand.WILL}

    @property
    def theirs(self) -> set[int]:
        """Options that the other end does."""
        return {option for command, option in self._on if command is TelnetCommand.DO}

    def requests(self) -> bytes:
        """What to begin with."""
        return b"".join(negotiation(*asked) for asked in sorted(self._asked))

    def hear(self, heard: Negotiation) -> bytes:
        """Take what the other end says; return the answer, or nothing when none is due."""
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
