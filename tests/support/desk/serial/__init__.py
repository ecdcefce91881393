"""A ``pyserial`` of Windows: one port, COM3, which is a TCP connection to ``$DESK_COM3``.

The real one opens no port in a Python without ``termios``.
"""

from __future__ import annotations

import os
import socket
import time


class SerialException(OSError):
    pass


class SerialTimeoutException(SerialException):
    pass


class Serial:
    def __init__(self, port: str, baudrate: int, *, exclusive: bool) -> None:
        host, _, number = os.environ.get(f"DESK_{port}", "").rpartition(":")
        if not host:
            raise SerialException(f"could not open port {port!r}")
        self.port, self.baudrate, self.exclusive = port, baudrate, exclusive
        self.timeout: float | None = None
        self.write_timeout: float | None = None
        self.is_open = True
        self._buffer = b""
        self._socket = socket.create_connection((host, int(number)))

    @property
    def in_waiting(self) -> int:
        self._receive(0)
        return len(self._buffer)

    def read(self, size: int) -> bytes:
        assert self.timeout is not None
        deadline = time.monotonic() + self.timeout
        while len(self._buffer) < size and (left := deadline - time.monotonic()) > 0:
            self._receive(left)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def write(self, data: bytes) -> int:
        self._socket.settimeout(self.write_timeout)
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise SerialTimeoutException("Write timeout") from error
        return len(data)

    def close(self) -> None:
        self.is_open = False
        self._socket.close()

    def _receive(self, timeout: float) -> None:
        self._socket.settimeout(timeout)
        try:
            data = self._socket.recv(4096)
        except (TimeoutError, BlockingIOError):
            return
        if not data:
            raise SerialException("ClearCommError failed")
        self._buffer += data
