"""A PPK2 on a pseudo-terminal, and a board's marker pin as a socket that QEMU's UART writes to."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import tty
from collections.abc import Callable, Iterable, Iterator
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import numpy as np

from tests.support.currents import METADATA

_LENGTHS = {0x0C: 2, 0x0D: 3, 0x11: 2, 0x25: 7}
"""Bytes of the commands that have arguments."""


class Unplugged(Exception):
    """Raised by what a PPK2 plays: somebody pulls its cable."""


class FakePpk2:
    """Speaks a PPK2's protocol, and plays samples after START.

    Attributes:
        port: The pseudo-terminal.
        commands: Everything it was told, in order.
    """

    def __init__(self, play: Callable[[], Iterable[bytes]], metadata: str = METADATA) -> None:
        self._play, self._metadata = play, metadata.encode()
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.port = os.ttyname(self._slave)
        self.commands: list[bytes] = []
        self._closed: set[int] = set()
        self._stopped = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Unplug it."""
        self._ending.set()
        self._thread.join()
        for descriptor in {self._master, self._slave} - self._closed:
            os.close(descriptor)

    def idle(self) -> Iterator[bytes]:
        """Yield samples of a board whose pin is not wired, until STOP."""
        numbers = np.arange(64)
        while not self._stopped.wait(0.02):
            yield (1000 | 2 << 14 | numbers << 18).astype("<u4").tobytes()

    def _serve(self) -> None:
        try:
            self._answer()
        except Unplugged:
            empty = 0
            while empty < 3 and not self._ending.wait(0.01):  # a pipe loses what nobody has read
                (unread,) = struct.unpack("i", ioctl(self._slave, FIONREAD, bytes(4)))
                empty = 0 if unread else empty + 1
            os.close(self._master)
            self._closed.add(self._master)

    def _answer(self) -> None:
        data, playing = b"", iter(())
        pending = b""
        while not self._ending.is_set():
            writable = [self._master] if pending else []
            readable, writable, _ = select.select([self._master], writable, [], 0.002)
            if readable:
                data += os.read(self._master, 4096)
            while data and len(data) >= _LENGTHS.get(data[0], 1):
                size = _LENGTHS.get(data[0], 1)
                command, data = data[:size], data[size:]
                self.commands.append(command)
                if command == b"\x19":
                    pending += self._metadata
                elif command == b"\x06":
                    self._stopped.clear()
                    playing = iter(self._play())
                elif command == b"\x07":
                    self._stopped.set()
            if not pending:  # after STOP, too: what is on its way still arrives
                pending = next(playing, b"")
            if pending and writable:
                pending = pending[os.write(self._master, pending) :]


class MarkerPin:
    """Hears the edges of the marker pin that QEMU's second UART sends.

    Attributes:
        path: The socket.
        edges: Levels of the pin, in order.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.edges = path, ""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            while heard := connection.recv(64):
                self.edges += heard.decode()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
