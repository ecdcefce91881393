"""Transports: the byte stream below the link, over a socket or a serial port, and their addresses.

    /dev/ttyACM0             any device name
    socket://host:port       bytes as they are, over TCP; the rate is the server's own
    rfc2217://host:port      with Telnet's COM-PORT-CONTROL, so the rate can be set

The last two may end in ``?timeout=SECONDS``, the longest wait for the server. ``rfc2217://`` and
other schemes come from plugins of the group ``etharness.transports``, which get the address as it
is. A debug probe (``gdb://host:port``, ``pyocd://``) is no serial port. ``rtt+gdb://`` is the link
through memory that a gdbserver reads and writes.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import logging
import os
import re
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable
from urllib.parse import parse_qsl, urlsplit

from harness.errors import (
    InfrastructureError,
    LinkError,
    PortError,
    TransportClosedError,
    UsageError,
)
from harness.plugins import TRANSPORTS, load_extension, plugin_names, unfit_plugin

if TYPE_CHECKING:
    import serial

_log = logging.getLogger(__name__)


_TRY_EVERY_S: Final = 0.1


_EMULATED_BAUD: Final = 115_200
_READ_SIZE: Final = 65536
"""Limit of one read: large, because each read is a system call."""
_SLICE_S: Final = 0.02
"""Longest single wait of a polled port, seconds; a byte that arrives ends it."""


class Transport(Protocol):
    """A byte stream to a target. Times are seconds."""

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived; ``b""`` only after ``timeout`` seconds without any.

        Raises:
            TransportClosedError: The stream has ended.
        """
        ...

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``.

        Raises:
            TransportClosedError: The stream has ended.
            LinkError: Not everything could be sent within ``timeout`` seconds.
        """
        ...

    def close(self) -> None:
        """Release the stream; further calls do nothing."""
        ...


@runtime_checkable
class RatedTransport(Transport, Protocol):
    """A byte stream with an adjustable baud rate."""

    @property
    def baud(self) -> int:
        """Bits per second."""
        ...

    def set_baud(self, baud: int) -> None:
        """Change the baud rate; all bytes written before have been sent.

        Raises:
            InfrastructureError: The port does not support it.
        """
        ...


class SocketTransport:
    """A connected stream socket, without a baud rate.

    Attributes:
        ended: True once the stream is known to be closed.
    """

    def __init__(self, connection: socket.socket, received: bytes = b"") -> None:
        """Take over a connection.

        Args:
            connection: The socket.
            received: Bytes that have already been read from it.
        """
        self.ended = False
        self._socket = connection
        self._received = received
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            # A request is one small write that must not be delayed until more data follows.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The peer closed the connection.
        """
        if self._received:
            data, self._received = self._received, b""
            return data
        try:
            self._socket.settimeout(max(0.0, timeout))
            data = self._socket.recv(_READ_SIZE)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError as error:
            raise self._closed(error) from error
        if not data:
            raise self._closed("the peer closed the connection")
        return data

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data`` within ``timeout`` seconds.

        Raises:
            TransportClosedError: The peer closed the connection.
            LinkError: Not everything could be sent in time.
        """
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(data)
        except TimeoutError as error:
            raise _blocked(data, timeout) from error
        except OSError as error:
            raise self._closed(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _closed(self, why: object) -> TransportClosedError:
        self.ended = True
        return TransportClosedError(f"the connection to the target ended: {why}")


class EmulatedUart(SocketTransport):
    """A socket to an emulated UART, which receives at any baud rate.

    Attributes:
        baud: The rate set last, bits per second.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.baud = _EMULATED_BAUD

    def set_baud(self, baud: int) -> None:
        """Store the rate."""
        self.baud = baud


class SerialTransport:
    """A serial port opened and configured by pyserial.

    Reads and writes use the file descriptor directly: pyserial's reads wait for the full number of
    bytes, changing its timeouts reconfigures the port, and its non-blocking writes busy-wait.

    Attributes:
        ended: True once the port is known to be gone.
    """

    def __init__(self, port: serial.Serial) -> None:
        self.ended = False
        self._port = port

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The port is gone.
        """
        try:
            ready, _, _ = select.select([self._port.fileno()], [], [], max(0.0, timeout))
            if not ready:
                return b""
            data = os.read(self._port.fileno(), _READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._closed(error) from error
        if not data:
            raise self._closed("end of file")
        return data

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data`` within ``timeout`` seconds.

        Raises:
            TransportClosedError: The port is gone.
            LinkError: Not everything could be sent in time.
        """
        rest = memoryview(data)
        deadline = time.monotonic() + timeout
        while rest:
            try:
                wait = max(0.0, deadline - time.monotonic())
                _, ready, _ = select.select([], [self._port.fileno()], [], wait)
                sent = os.write(self._port.fileno(), rest) if ready else 0
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._closed(error) from error
            if not ready:
                raise _blocked(data, timeout)
            rest = rest[sent:]

    @property
    def baud(self) -> int:
        """Bits per second."""
        return int(self._port.baudrate)

    def set_baud(self, baud: int) -> None:
        """Change the baud rate; all bytes written before have been sent.

        Raises:
            TransportClosedError: The port is gone.
            PortError: The port does not support that rate.
        """
        before = self.baud
        try:
            self._port.baudrate = baud
        except (OSError, ValueError, _terminal_error()) as error:
            self._restore(before)
            raise PortError(
                f"the serial port {self._port.port} does not support {baud} baud: {error}",
                hint="try another rate with --baud",
            ) from error

    def _restore(self, baud: int) -> None:
        try:
            self._port.baudrate = baud
        except (OSError, _terminal_error()) as error:
            raise self._closed(error) from error

    def close(self) -> None:
        """Close the port."""
        with contextlib.suppress(OSError):
            self._port.close()

    def _closed(self, why: object) -> TransportClosedError:
        self.ended = True
        return TransportClosedError(f"the serial port {self._port.port} is gone: {why}")


class PolledSerialTransport(SerialTransport):
    """A serial port where there is no descriptor to wait for, as on Windows.

    Its timeouts are set once: a change of them configures the whole port again.
    """

    def __init__(self, port: serial.Serial) -> None:
        super().__init__(port)
        port.timeout = _SLICE_S

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The port is gone.
        """
        deadline = time.monotonic() + timeout
        try:
            if not self._port.is_open:
                raise self._closed("it was closed")
            if timeout <= 0 and not self._port.in_waiting:
                return b""
            while True:
                # One byte first: read() waits for the full number.
                if first := bytes(self._port.read(1)):
                    return first + bytes(self._port.read(self._port.in_waiting))
                if time.monotonic() >= deadline:
                    return b""
        except OSError as error:
            raise self._closed(error) from error

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data`` within ``timeout`` seconds.

        Raises:
            TransportClosedError: The port is gone.
            LinkError: Not everything could be sent in time.
        """
        import serial

        try:
            if self._port.write_timeout != timeout:
                self._port.write_timeout = timeout
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            raise _blocked(data, timeout) from error
        except (OSError, _terminal_error()) as error:
            raise self._closed(error) from error


def _terminal_error() -> type[Exception]:
    """Return the error of termios, which pyserial lets through on Unix; elsewhere ``OSError``."""
    try:
        error: type[Exception] = importlib.import_module("termios").error
    except ImportError:
        return OSError
    return error


def open_serial(port: str, baud: int) -> SerialTransport:
    """Open a serial port exclusively.

    Args:
        port: Device name, such as ``/dev/ttyACM0`` or ``COM3``.
        baud: Bits per second.

    Raises:
        PortError: The port cannot be opened.
    """
    import serial

    # Where there are no terminals of Unix, pyserial has no descriptor either.
    has_terminals = importlib.util.find_spec("termios") is not None
    transport = SerialTransport if has_terminals else PolledSerialTransport

    try:
        opened = serial.Serial(port, baud, exclusive=True)
    except (OSError, ValueError) as error:
        missing = getattr(error, "errno", None) == errno.ENOENT
        raise PortError(
            f"cannot open the serial port {port}: {'no such device' if missing else error}",
            hint="check that it is plugged in, that you may use it (group dialout), and that no "
            "other program has opened it",
        ) from error
    return transport(opened)


def _blocked(data: bytes, timeout: float) -> LinkError:
    return LinkError(f"sending {len(data)} bytes to the target timed out after {timeout:g} s")


class ReopeningTransport:
    """Reopens the stream when it ends.

    Bytes in flight are lost; the link repeats only the requests that they belonged to.

    Attributes:
        reopened: How often the stream was reopened.
    """

    def __init__(
        self,
        open_: Callable[[], Transport],
        deadline_s: float,
        *,
        check: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the stream.

        Args:
            open_: Opens the stream; called again each time it has ended.
            deadline_s: Longest absence of the port, seconds; 0 for no reopening.
            check: Called before every read and write; may raise to abort them.
            now: The monotonic clock, seconds.
            sleep: Sleeps for a number of seconds.

        Raises:
            InfrastructureError: The stream cannot be opened the first time.
        """
        self.reopened = 0
        self._open = open_
        self._deadline_s = deadline_s
        self._now, self._sleep, self._check = now, sleep, check
        self._transport = open_()

    @property
    def ended(self) -> bool:
        """True if the stream has ended and was not reopened."""
        return bool(getattr(self._transport, "ended", False))

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived; ``b""`` after ``timeout`` seconds or a reopening.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
        """
        self._check()
        try:
            return self._transport.read(timeout)
        except TransportClosedError as error:
            self._reopen(error)
            return b""

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``; it is lost if the stream ends meanwhile and is reopened.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
            LinkError: Not everything could be sent in time.
        """
        self._check()
        try:
            self._transport.write(data, timeout)
        except TransportClosedError as error:
            self._reopen(error)

    @property
    def baud(self) -> int:
        """Baud rate; after a reopening the initial one; 0 if the connection has no rate."""
        return self._transport.baud if isinstance(self._transport, RatedTransport) else 0

    def set_baud(self, baud: int) -> None:
        """Change the baud rate; all bytes written before have been sent.

        If the stream ends meanwhile and is reopened, it has its initial rate.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
            InfrastructureError: The port does not support the rate, or the connection has none.
        """
        if not isinstance(self._transport, RatedTransport):
            raise InfrastructureError("this kind of connection has no baud rate to change")
        try:
            self._transport.set_baud(baud)
        except TransportClosedError as error:
            self._reopen(error)

    def close(self) -> None:
        """Release the stream; further calls do nothing."""
        self._transport.close()

    def _reopen(self, error: TransportClosedError) -> None:
        _log.warning("%s; waiting for it to come back", error.message)
        with contextlib.suppress(InfrastructureError):
            self._transport.close()
        give_up_at = self._now() + self._deadline_s
        while self._now() < give_up_at:
            try:
                self._transport = self._open()
            except InfrastructureError:
                self._sleep(_TRY_EVERY_S)
                continue
            self.reopened += 1
            return
        raise TransportClosedError(
            f"{error.message}, and it did not come back within {self._deadline_s:g} s",
            hint="plug it in again, or check the host that serves it; name a device by its path "
            "in /dev/serial/by-id, which does not change",
        ) from error


TIMEOUT_S: Final = 5.0
"""Longest wait for a server to accept, and to confirm something, seconds."""

_KINDS: Final = "a device name such as /dev/ttyACM0, socket://host:port, or rfc2217://host:port"
_SCHEMES: Final = ("socket", "rfc2217", "gdb")
_GDB: Final = "gdb://"
_PYOCD: Final = "pyocd://"
_RTT: Final = "rtt+"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXTENSIONS: Final = {"rfc2217": "remote", "rtt+gdb": "probes"}
"""The extensions that open addresses with these schemes."""
_MAX_MESSAGE: Final = 200
"""Longest message of a server that is quoted, bytes."""
_HANG_UP_S: Final = 0.1
"""A server whose port is in use accepts, sends a message and hangs up within this time."""
_MOST_RECEIVED: Final = 1 << 16
"""A server that sends more than this has not hung up at once, bytes."""
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 5),
    ("TCP_KEEPALIVE", 5),  # macOS: its name of TCP_KEEPIDLE
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 12_000),  # Linux
)
"""TCP options, if the system has them, that detect a vanished host after about ten seconds."""


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """The address of a port that a server provides: a serial port, or a gdbserver.

    Attributes:
        scheme: Protocol of the server.
        host: Host name in lower case, or IP address without brackets.
        port: TCP port.
        timeout_s: Longest wait for the server, seconds.
    """

    scheme: Literal["socket", "rfc2217", "gdb"]
    host: str
    port: int
    timeout_s: float = TIMEOUT_S


def plugin_scheme(address: str) -> str | None:
    """The scheme of an address that a plugin opens; None for all others. Nothing is imported."""
    scheme, sign, _ = address.partition("://")
    ours = scheme.removeprefix(_RTT) in _SCHEMES or is_probe(address)
    if not sign or not _URL.match(address) or ours:
        return None
    return scheme if scheme in plugin_names(TRANSPORTS) else None


def is_probe(address: object) -> bool:
    """Whether this is the address of a debug probe, which has no serial port."""
    return isinstance(address, str) and address.startswith((_GDB, _PYOCD))


def is_rtt(address: str) -> bool:
    """Whether this is the address of a link through the memory of a board."""
    return address.startswith(_RTT + _GDB)


def split_rtt(address: str) -> tuple[NetworkPort, int, int]:
    """Return the gdbserver of an ``rtt+gdb://`` address, and the memory with the control block.

    Raises:
        UsageError: The address is invalid.
    """
    server, _, query = address.removeprefix(_RTT).partition("?")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True))
        control_block, size = int(options.pop("address"), 0), int(options.pop("size", "0"), 0)
    except (KeyError, ValueError):
        control_block = size = -1
    if control_block < 0 or size < 0:
        raise UsageError(
            f"invalid port address {address!r}: no valid address of the RTT control block",
            hint="use rtt+gdb://host:port?address=0x20000000, the address of _SEGGER_RTT; with "
            "&size=BYTES that much memory is searched",
        )
    rest = "&".join(f"{name}={value}" for name, value in options.items())
    network = parse_address(f"{server}?{rest}" if rest else server)
    assert network is not None
    return network, control_block, size


def parse_address(address: str) -> NetworkPort | None:
    """Parse an address; None for a device name of this host.

    Raises:
        UsageError: It is a URL, but not a valid address of a port.
    """
    if not _URL.match(address):
        return None
    if is_rtt(address):
        return split_rtt(address)[0]
    try:
        url = urlsplit(address)
        host, port = url.hostname, url.port
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise UsageError(
            f"invalid port address {address!r}: {error}", hint=f"use {_KINDS}"
        ) from error
    if url.scheme not in _SCHEMES:
        plugins = [name for name in plugin_names(TRANSPORTS) if name not in _SCHEMES]
        others = "".join(f", {name}://" for name in plugins)
        raise UsageError(
            f"invalid port address {address!r}: unknown scheme {url.scheme}://",
            hint=f"use {_KINDS}{others}",
        )
    if not host or not port or url.path.strip("/") or url.fragment or "@" in url.netloc:
        raise UsageError(
            f"invalid port address {address!r}",
            hint=f"use {url.scheme}://host:port, with brackets around an IPv6 address",
        )
    scheme = next(known for known in _SCHEMES if known == url.scheme)
    return NetworkPort(scheme, host, port, parse_timeout(address, options))


def is_device(address: str) -> bool:
    """Whether an address is a device of this host: ``/dev/ttyACM0``, ``COM3``."""
    return _URL.match(address) is None


def device_path(device: str) -> str:
    """Return the path of a device with links resolved; on Windows its name in lower case."""
    path = os.path.realpath(device) if device.startswith("/") else device
    return os.path.normcase(path)


def port_identity(address: str) -> str:
    """Return an identity of the port behind an address, equal for all its spellings.

    Symbolic links to a device are resolved. The scheme of a network address does not matter, and
    all names of this host are the same host.

    Raises:
        UsageError: The address is invalid.
    """
    if plugin_scheme(address) is not None:
        return address
    here = socket.gethostname()
    if address.startswith(_PYOCD):
        return f"{here}:{address.partition('?')[0]}"
    network = parse_address(address)
    if network is None:
        return f"{here}:{device_path(address)}"
    loopback = network.host in ("localhost", "::1", here.lower()) or re.fullmatch(
        r"127(\.\d{1,3}){3}", network.host
    )
    return f"tcp:{here if loopback else network.host}:{network.port}"


def open_port(address: str, baud: int) -> Transport:
    """Open a port.

    Args:
        address: Device name, or address of a port on another host (see above).
        baud: Bits per second; ignored by ``socket://``, where the server sets the rate.

    Raises:
        UsageError: The address is invalid.
        PortError: The port cannot be reached, opened or set up.
    """
    if is_probe(address):
        raise UsageError(
            f"{address} is a debug probe, not a serial port",
            hint="`etharness pull` and `etharness run` use a probe together with --elf FILE",
        )
    if is_rtt(address):
        return _open_by_plugin(address.partition("://")[0], address, baud)
    if (scheme := plugin_scheme(address)) is not None:
        return _open_by_plugin(scheme, address, baud)
    network = parse_address(address)
    if network is None:
        return open_serial(address, baud)
    if network.scheme == "rfc2217":
        return _open_by_plugin(network.scheme, address, baud)
    return open_stream(network, address)


def open_stream(
    network: NetworkPort, address: str, text: Callable[[bytes], bytes] = lambda received: received
) -> SocketTransport:
    """Connect to the server of a serial port.

    Args:
        network: Its address.
        address: The same as the user gave it, for messages.
        text: Returns what the server has sent without the commands of its protocol.

    Raises:
        PortError: The server cannot be reached, or has hung up at once.
    """
    connection = connect(
        network,
        f"cannot open the serial port {address}",
        "check that the host is up, and that ser2net or another server runs there on this TCP port",
    )
    return SocketTransport(connection, _check_accepted(connection, address, text))


def _open_by_plugin(scheme: str, address: str, baud: int) -> Transport:
    """Open an address with the plugin for its scheme: a function of address and baud rate.

    Raises:
        UsageError: The plugin is missing or broken.
        HarnessError: What the plugin raises.
    """
    extension = _EXTENSIONS.get(scheme, "")
    opener = load_extension(TRANSPORTS, scheme, f"{address}: {scheme}:// is", extension)
    if not callable(opener):
        raise unfit_plugin(TRANSPORTS, scheme, "a function of address and baud rate")
    transport: Transport = opener(address, baud)
    return transport


def parse_timeout(address: str, options: dict[str, str]) -> float:
    """Return the only option of an address, ``timeout``, in seconds.

    Raises:
        UsageError: There are others, or it is no valid number.
    """
    text = options.pop("timeout", str(TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if options or not 0 < seconds < 3600:
        defect = f"unknown option {next(iter(options))!r}" if options else f"timeout {text!r}"
        raise UsageError(
            f"invalid port address {address!r}: {defect}",
            hint="the only option is ?timeout=SECONDS, below 3600",
        )
    return seconds


def connect(network: NetworkPort, failed: str, hint: str) -> socket.socket:
    """Connect to a server, with TCP options that detect a vanished host.

    Args:
        network: Its address.
        failed: Beginning of the message of an error.
        hint: What to try if the host is known, but there is no connection.

    Raises:
        PortError: There is no connection in time.
    """
    try:
        connection = socket.create_connection((network.host, network.port), network.timeout_s)
    except socket.gaierror as error:
        raise PortError(
            f"{failed}: host {network.host!r} not found: {error.strerror}",
            hint="check the host name and the name resolution of this host",
        ) from error
    except OSError as error:
        late = isinstance(error, TimeoutError)
        why = f"timed out after {network.timeout_s:g} s" if late else error.strerror or error
        raise PortError(f"{failed}: {why}", hint=hint) from error
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def server_message(words: bytes) -> str:
    """Return the end of an error message that quotes the server's output; "" if there is none."""
    text = words[:_MAX_MESSAGE].decode("ascii", "backslashreplace").strip()
    return f"; it sent {text!r}" if text else ""


def _check_accepted(
    connection: socket.socket, address: str, text: Callable[[bytes], bytes]
) -> bytes:
    """Wait a moment for a server to hang up, which it does if its serial port is in use.

    A server that sends commands, and no text before a hang-up, has accepted us.

    Returns:
        The bytes that arrived meanwhile.

    Raises:
        PortError: The server hung up.
    """
    received = b""
    give_up_at = time.monotonic() + _HANG_UP_S
    while (left := give_up_at - time.monotonic()) > 0 and len(received) < _MOST_RECEIVED:
        connection.settimeout(left)
        try:
            arrived = connection.recv(_MAX_MESSAGE)
        except TimeoutError:
            break
        except OSError:
            arrived = b""
        received += arrived
        words = text(received[:_MAX_MESSAGE])
        if not arrived:
            connection.close()
            raise PortError(
                f"cannot open the serial port {address}: the server hung up at once"
                f"{server_message(words)}",
                hint="check that nobody else has opened the port, and that the board is plugged in "
                "there",
            )
        if not words:
            break
    return received
