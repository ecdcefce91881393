"""Transports: the byte stream below the link, over a socket or a serial port."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from harness.errors import InfrastructureError, LinkError, PortError, TransportClosedError

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
        raise PortError(
            f"cannot open the serial port {port}: {error}",
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
