"""Transports: the byte stream below the link, over a socket or a serial port."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import termios
import time
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from harness.errors import LinkError, PortError, TransportClosedError

if TYPE_CHECKING:
    import serial

_EMULATED_BAUD: Final = 115_200
_READ_SIZE: Final = 65536
"""Limit of one read: large, because each read is a system call."""


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

    def __init__(self, connection: socket.socket) -> None:
        self.ended = False
        self._socket = connection
        if connection.family != socket.AF_UNIX:
            # A request is one small write that must not be delayed until more data follows.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The peer closed the connection.
        """
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
        except (OSError, ValueError, termios.error) as error:
            self._restore(before)
            raise PortError(
                f"the serial port {self._port.port} does not support {baud} baud: {error}",
                hint="try another rate with --baud",
            ) from error

    def _restore(self, baud: int) -> None:
        try:
            self._port.baudrate = baud
        except (OSError, termios.error) as error:
            raise self._closed(error) from error

    def close(self) -> None:
        """Close the port."""
        with contextlib.suppress(OSError):
            self._port.close()

    def _closed(self, why: object) -> TransportClosedError:
        self.ended = True
        return TransportClosedError(f"the serial port {self._port.port} is gone: {why}")


def open_serial(port: str, baud: int) -> SerialTransport:
    """Open a serial port exclusively.

    Args:
        port: Device name, such as ``/dev/ttyACM0``.
        baud: Bits per second.

    Raises:
        PortError: The port cannot be opened.
    """
    import serial

    try:
        opened = serial.Serial(port, baud, exclusive=True)
    except (OSError, ValueError) as error:
        raise PortError(
            f"cannot open the serial port {port}: {error}",
            hint="check that it is plugged in, that you may use it (group dialout), and that no "
            "other program has opened it",
        ) from error
    return SerialTransport(opened)


def _blocked(data: bytes, timeout: float) -> LinkError:
    return LinkError(f"sending {len(data)} bytes to the target timed out after {timeout:g} s")
