"""A serial port of another host, over Telnet with COM-PORT-CONTROL (RFC 2217)."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from harness.errors import LinkError, PortError
from harness.link.transports import Transport, open_stream, parse_address, server_message

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
    """Return the data in the beginning of a stream, without its commands; all if not Telnet."""
    try:
        items = TelnetDecoder().feed(stream)
    except TelnetError:
        return stream
    return b"".join(item for item in items if isinstance(item, bytes))


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


_log = logging.getLogger(__name__)

_MAX_PENDING: Final = 1 << 20
"""Limit of data that may arrive while we wait for a confirmation, bytes."""

_SETUP: Final = (
    (Setting.DATASIZE, DATASIZE_8),
    (Setting.PARITY, PARITY_NONE),
    (Setting.STOPSIZE, STOPSIZE_1),
    (Setting.CONTROL, FLOW_NONE),
)
"""Eight bits, no parity, one stop bit, no flow control: fixed for the link."""

_UNCONFIRMED: Final = (
    (Setting.LINESTATE_MASK, bytes((sum(LineState),))),
    (Setting.MODEMSTATE_MASK, b"\x00"),
    (Setting.PURGE, PURGE_RECEIVED),
)
"""Sent without waiting for a confirmation, because not every server confirms these. The server
handles them in order, so PURGE never drops bytes that the board sends in response to ours.
"""


def _setting_text(setting: Setting, value: bytes) -> str:
    return f"{setting.name} {int.from_bytes(value, 'big')}"


def open_rfc2217(address: str, baud: int) -> Rfc2217Transport:
    """Open a port by its address; the plugin ``rfc2217`` of ``etharness.transports``.

    Raises:
        PortError: The port cannot be reached, opened or set up.
    """
    network = parse_address(address)
    assert network is not None
    stream = open_stream(network, address, strip_commands)
    return Rfc2217Transport(stream, address, baud, network.timeout_s)


class Rfc2217Transport:
    """A serial port behind a server that speaks RFC 2217.

    Attributes:
        line_errors: Line errors that the server's port has reported, by kind.
    """

    def __init__(self, inner: Transport, name: str, baud: int, timeout_s: float) -> None:
        """Negotiate RFC 2217 with the server, and set up its port.

        Args:
            inner: The connection; closed if this fails.
            name: Name of the port in messages.
            baud: Bits per second.
            timeout_s: Longest wait for a confirmation, seconds.

        Raises:
            PortError: The server does not speak RFC 2217, hung up, or refused a setting.
        """
        self.line_errors: Counter[LineState] = Counter()
        self._inner = inner
        self._name = name
        self._timeout_s = timeout_s
        self._decoder = TelnetDecoder()
        self._options = Options({BINARY, SUPPRESS_GO_AHEAD, COM_PORT}, {BINARY, SUPPRESS_GO_AHEAD})
        self._data: deque[bytes] = deque()
        """Data that has arrived and was not read yet."""
        self._data_size = 0
        self._unanswered: Counter[Setting] = Counter()
        self._answers: dict[Setting, bytes] = {}
        self._suspended = False
        self._baud = 0
        try:
            self._negotiate()
            self._configure(((Setting.BAUDRATE, baud_value(baud)), *_SETUP))
            self._send(b"".join(port_request(*each) for each in _UNCONFIRMED), timeout_s)
        except PortError:
            inner.close()
            raise
        except LinkError as error:
            inner.close()
            raise PortError(
                f"cannot set up the serial port {name}: {error.message}{self._server_message()}",
                hint=error.hint
                or "check that nobody else has opened the port, and that its server speaks "
                "RFC 2217",
            ) from error
        self._baud = baud

    @property
    def ended(self) -> bool:
        """True once the connection is known to be closed."""
        return bool(getattr(self._inner, "ended", False))

    @property
    def baud(self) -> int:
        """Bits per second, as confirmed by the server."""
        return self._baud

    def read(self, timeout: float) -> bytes:
        """Return the data that has arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The connection has ended.
            LinkError: The server sent invalid Telnet.
        """
        until = time.monotonic() + timeout
        while not self._data:
            left = until - time.monotonic()
            self._process(self._inner.read(max(0.0, left)))
            if left <= 0:
                break
        data = b"".join(self._data)
        self._data.clear()
        self._data_size = 0
        return data

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``, after waiting while the server has suspended the flow.

        Raises:
            TransportClosedError: The connection has ended.
            LinkError: Not everything could be sent within ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        self._process(self._inner.read(0))
        while self._suspended:
            left = until - time.monotonic()
            if left <= 0:
                raise LinkError(
                    f"{self._name}: cannot send {len(data)} bytes within {timeout:g} s: the "
                    "server has suspended the flow"
                )
            self._process(self._inner.read(left))
        self._send(escape(data), max(0.0, until - time.monotonic()))

    def set_baud(self, baud: int) -> None:
        """Change the rate of the server's port; all bytes written before have been sent.

        Raises:
            TransportClosedError: The connection has ended.
            PortError: The port does not support it, or the server does not confirm it.
        """
        self._configure([(Setting.BAUDRATE, baud_value(baud))])
        self._baud = baud

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def _negotiate(self) -> None:
        """Negotiate binary transfer in both directions, and control of the server's port."""
        self._send(self._options.requests(), self._timeout_s)
        until = time.monotonic() + self._timeout_s
        while not ({BINARY, COM_PORT} <= self._options.ours and BINARY in self._options.theirs):
            if COM_PORT in self._options.refused:
                raise PortError(
                    f"{self._name}: the server speaks Telnet, but refuses RFC 2217",
                    hint="allow RFC 2217 there (ser2net: `telnet(rfc2217),...`), or use a "
                    "socket:// address if the port is served raw",
                )
            if BINARY in self._options.refused:
                raise PortError(
                    f"{self._name}: the server refuses binary transfer",
                    hint="use ser2net or another server with RFC 2217, or serve the port raw and "
                    "use a socket:// address",
                )
            if (left := until - time.monotonic()) <= 0:
                raise PortError(
                    f"{self._name}: the server did not agree to RFC 2217 within "
                    f"{self._timeout_s:g} s{self._server_message()}",
                    hint="if it serves the port raw, use a socket:// address",
                )
            self._process(self._inner.read(left))

    def _configure(self, wanted: Sequence[tuple[Setting, bytes]]) -> None:
        """Send all settings at once, and wait until the server has confirmed each."""
        for setting, _ in wanted:
            self._unanswered[setting] += 1
            self._answers.pop(setting, None)
        self._send(b"".join(port_request(*each) for each in wanted), self._timeout_s)
        until = time.monotonic() + self._timeout_s
        for setting, value in wanted:
            while self._answers.get(setting) != value:
                if setting in self._answers and self._unanswered[setting] <= 0:
                    raise self._refusal(setting, value)
                if (left := until - time.monotonic()) <= 0:
                    raise PortError(
                        f"{self._name}: the server did not confirm {_setting_text(setting, value)} "
                        f"within {self._timeout_s:g} s"
                    )
                self._process(self._inner.read(left))

    def _refusal(self, setting: Setting, value: bytes) -> PortError:
        has = int.from_bytes(self._answers[setting], "big")
        return PortError(
            f"the serial port {self._name} does not support {_setting_text(setting, value)}; "
            f"it stays at {has}",
            hint="try another rate with --baud" if setting is Setting.BAUDRATE else "",
        )

    def _send(self, data: bytes, timeout: float) -> None:
        self._inner.write(data, timeout)

    def _process(self, arrived: bytes) -> None:
        """Queue the data that has arrived, and handle the Telnet commands in it."""
        for item in self._decoder.feed(arrived):
            match item:
                case bytes():
                    self._data.append(item)
                    self._data_size += len(item)
                case Negotiation():
                    if reply := self._options.receive(item):
                        self._send(reply, self._timeout_s)
                case Subnegotiation() if item.option == COM_PORT:
                    self._on_com_port(item.body)
        if self._data_size > _MAX_PENDING:
            raise LinkError(
                f"{self._name}: received more than {_MAX_PENDING} bytes before the server "
                "confirmed a setting"
            )

    def _on_com_port(self, body: bytes) -> None:
        match read_port_answer(body):
            case (Setting.SUSPEND, _):
                self._suspended = True
            case (Setting.RESUME, _):
                self._suspended = False
            case (Setting.LINESTATE, state) if state:
                for kind in LineState:
                    if kind & state[0]:
                        self.line_errors[kind] += 1
                        _log.warning("%s: the port reports %s", self._name, kind.name)
            case (Setting() as setting, value):
                self._unanswered[setting] -= 1
                self._answers[setting] = value

    def _server_message(self) -> str:
        """The server's output, quoted for an error message."""
        return server_message(b"".join(self._data))
