"""A serial port of another machine, by Telnet with COM-PORT-CONTROL (RFC 2217)."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from harness.errors import LinkError, PortError
from harness.link import com_port
from harness.link.com_port import COM_PORT, LineState, Setting
from harness.link.telnet import (
    BINARY,
    SUPPRESS_GO_AHEAD,
    Negotiation,
    Options,
    Subnegotiation,
    TelnetDecoder,
    escape,
)
from harness.link.transports import Transport

_log = logging.getLogger(__name__)

_MAX_WAITING: Final = 1 << 20
"""Bytes that may arrive while we wait for something else than data."""

_MOST_WORDS: Final = 200

_SETUP: Final = (
    (Setting.DATASIZE, com_port.DATASIZE_8),
    (Setting.PARITY, com_port.PARITY_NONE),
    (Setting.STOPSIZE, com_port.STOPSIZE_1),
    (Setting.CONTROL, com_port.FLOW_NONE),
)
"""Eight bits, no parity, one stop bit, no flow control: what the link takes for granted."""

_UNCONFIRMED: Final = (
    (Setting.LINESTATE_MASK, bytes((sum(LineState),))),
    (Setting.MODEMSTATE_MASK, b"\x00"),
    (Setting.PURGE, com_port.PURGE_RECEIVED),
)
"""Asked for, but not waited for: not every server answers these. All keeps its order, so
that what the board sends after our first bytes is not purged.
"""


def said(words: bytes) -> str:
    """The end of a message about a server that said something instead; "" if it said nothing."""
    text = words[:_MOST_WORDS].decode("ascii", "backslashreplace").strip()
    return f"; it said {text!r}" if text else ""


def _shown(setting: Setting, value: bytes) -> str:
    return f"{setting.name} {int.from_bytes(value, 'big')}"


class Rfc2217Transport:
    """A serial port behind a server that speaks RFC 2217.

    Attributes:
        line_errors: What the server's port has told of damage, by kind.
    """

    def __init__(self, inner: Transport, where: str, baud: int, timeout_s: float) -> None:
        """Agree with the server, and set up its port.

        Args:
            inner: The connection; closed when the server does not agree.
            where: What messages call the port.
            baud: Bits per second.
            timeout_s: Longest wait for the server to confirm something, seconds.

        Raises:
            PortError: It does not speak RFC 2217, hung up, or cannot do what was asked for.
        """
        self.line_errors: Counter[LineState] = Counter()
        self._inner = inner
        self._where = where
        self._timeout_s = timeout_s
        self._decoder = TelnetDecoder()
        self._options = Options({BINARY, SUPPRESS_GO_AHEAD, COM_PORT}, {BINARY, SUPPRESS_GO_AHEAD})
        self._waiting: deque[bytes] = deque()
        """Data that arrived while something else was waited for."""
        self._waiting_size = 0
        self._unanswered: Counter[Setting] = Counter()
        self._answers: dict[Setting, bytes] = {}
        self._suspended = False
        self._baud = 0
        try:
            self._agree()
            self._set(((Setting.BAUDRATE, com_port.baud_value(baud)), *_SETUP))
            self._send(b"".join(com_port.request(*each) for each in _UNCONFIRMED), timeout_s)
        except PortError:
            inner.close()
            raise
        except LinkError as error:
            inner.close()
            raise PortError(
                f"cannot set up the serial port {where}: {error.message}{self._said()}",
                hint=error.hint
                or "has somebody else opened the port, and does its server speak RFC 2217?",
            ) from error
        self._baud = baud

    @property
    def ended(self) -> bool:
        """True once the connection has been found closed."""
        return bool(getattr(self._inner, "ended", False))

    @property
    def baud(self) -> int:
        """Bits per second, as the server has confirmed."""
        return self._baud

    def read(self, timeout: float) -> bytes:
        """Return the data that has arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The connection has ended.
            LinkError: What arrived is no Telnet.
        """
        until = time.monotonic() + timeout
        while not self._waiting:
            left = until - time.monotonic()
            self._take(self._inner.read(max(0.0, left)))
            if left <= 0:
                break
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_size = 0
        return data

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``, when the server takes any.

        Raises:
            TransportClosedError: The connection has ended.
            LinkError: Not everything could be sent within ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        self._take(self._inner.read(0))
        while self._suspended:
            left = until - time.monotonic()
            if left <= 0:
                raise LinkError(
                    f"the server of {self._where} did not take {len(data)} bytes within "
                    f"{timeout:g} s: it has suspended the flow"
                )
            self._take(self._inner.read(left))
        self._send(escape(data), max(0.0, until - time.monotonic()))

    def set_baud(self, baud: int) -> None:
        """Change the rate of the server's port; what has been written is out already.

        Raises:
            TransportClosedError: The connection has ended.
            PortError: The port does not take it, or the server does not confirm it.
        """
        self._set([(Setting.BAUDRATE, com_port.baud_value(baud))])
        self._baud = baud

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def _agree(self) -> None:
        """Agree with the server that both send bytes as they are, and that we control its port."""
        self._send(self._options.requests(), self._timeout_s)
        until = time.monotonic() + self._timeout_s
        while not ({BINARY, COM_PORT} <= self._options.ours and BINARY in self._options.theirs):
            if COM_PORT in self._options.refused:
                raise PortError(
                    f"the server of {self._where} speaks Telnet, but does not let its port be "
                    "controlled",
                    hint="allow RFC 2217 there (ser2net: `telnet(rfc2217),...`), or name the port "
                    "with socket:// if it is served raw",
                )
            if BINARY in self._options.refused:
                raise PortError(f"the server of {self._where} refuses to pass bytes as they are")
            if (left := until - time.monotonic()) <= 0:
                raise PortError(
                    f"the server of {self._where} did not agree to RFC 2217 within "
                    f"{self._timeout_s:g} s{self._said()}",
                    hint="if it gives its port as it is, name it with socket://",
                )
            self._take(self._inner.read(left))

    def _set(self, wanted: Sequence[tuple[Setting, bytes]]) -> None:
        """Ask for settings, all at once, and wait until the server confirms them."""
        for setting, _ in wanted:
            self._unanswered[setting] += 1
            self._answers.pop(setting, None)
        self._send(b"".join(com_port.request(*each) for each in wanted), self._timeout_s)
        until = time.monotonic() + self._timeout_s
        for setting, value in wanted:
            while self._answers.get(setting) != value:
                if setting in self._answers and self._unanswered[setting] <= 0:
                    raise self._refusal(setting, value)
                if (left := until - time.monotonic()) <= 0:
                    raise PortError(
                        f"the server of {self._where} did not confirm {_shown(setting, value)} "
                        f"within {self._timeout_s:g} s"
                    )
                self._take(self._inner.read(left))

    def _refusal(self, setting: Setting, value: bytes) -> PortError:
        has = int.from_bytes(self._answers[setting], "big")
        return PortError(
            f"the serial port {self._where} does not take {_shown(setting, value)}: it stays at "
            f"{has}",
            hint="try another rate with --baud" if setting is Setting.BAUDRATE else "",
        )

    def _send(self, data: bytes, timeout: float) -> None:
        self._inner.write(data, timeout)

    def _take(self, arrived: bytes) -> None:
        """Keep the data of what has arrived, and do what the rest of it asks for."""
        for item in self._decoder.feed(arrived):
            match item:
                case bytes():
                    self._waiting.append(item)
                    self._waiting_size += len(item)
                case Negotiation():
                    if reply := self._options.hear(item):
                        self._send(reply, self._timeout_s)
                case Subnegotiation() if item.option == COM_PORT:
                    self._hear(item.body)
        if self._waiting_size > _MAX_WAITING:
            raise LinkError(
                f"{self._where}: more than {_MAX_WAITING} bytes came while the server was to "
                "confirm something"
            )

    def _hear(self, body: bytes) -> None:
        match com_port.read_answer(body):
            case (Setting.SUSPEND, _):
                self._suspended = True
            case (Setting.RESUME, _):
                self._suspended = False
            case (Setting.LINESTATE, state) if state:
                for kind in LineState:
                    if kind & state[0]:
                        self.line_errors[kind] += 1
                        _log.warning("%s: the port reports %s", self._where, kind.name)
            case (Setting() as setting, value):
                self._unanswered[setting] -= 1
                self._answers[setting] = value

    def _said(self) -> str:
        """What the server said instead, for a message."""
        return said(b"".join(self._waiting))
