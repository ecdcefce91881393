"""A serial port of another host, over Telnet with COM-PORT-CONTROL (RFC 2217)."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from harness.errors import LinkError, PortError
from harness.link.telnet import (
    BINARY,
    COM_PORT,
    DATASIZE_8,
    FLOW_NONE,
    PARITY_NONE,
    PURGE_RECEIVED,
    STOPSIZE_1,
    SUPPRESS_GO_AHEAD,
    LineState,
    Negotiation,
    Options,
    Setting,
    Subnegotiation,
    TelnetDecoder,
    baud_value,
    escape,
    port_request,
    read_port_answer,
)
from harness.link.transports import Transport

_log = logging.getLogger(__name__)

_MAX_PENDING: Final = 1 << 20
"""Limit of data that may arrive while we wait for a confirmation, bytes."""

MAX_MESSAGE: Final = 200
"""Longest message of a server that is quoted, bytes."""

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


def server_message(words: bytes) -> str:
    """Return the end of an error message that quotes the server's output; "" if there is none."""
    text = words[:MAX_MESSAGE].decode("ascii", "backslashreplace").strip()
    return f"; it sent {text!r}" if text else ""


def _setting_text(setting: Setting, value: bytes) -> str:
    return f"{setting.name} {int.from_bytes(value, 'big')}"


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
