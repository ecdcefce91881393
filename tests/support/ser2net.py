"""ser2net, serving serial ports of this host over TCP."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

READY_S = 200.0
CONFIGURATION = """\
connection: &board
  accepter: {accepter},127.0.0.1,{port}
  connector: serialdev,{device},115200n81,local
  options:
    max-connections: 1
"""
ACCEPTERS = {"socket": "tcp", "rfc2217": "telnet(rfc2217),tcp"}


def need_ser2net() -> str:
    path = shutil.which("ser2net") or shutil.which("ser2net", path="/usr/sbin:/sbin")
    if path is None:
        pytest.skip("ser2net is not installed; tools/setup test installs it")
    return path


def free_port() -> int:
    """A TCP port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Ser2net:
    """A server by its configuration.

    Attributes:
        address: What to give as ``--port``, if it serves one device.
    """

    def __init__(self, file: Path, port: int, address: str) -> None:
        """Start it.

        Args:
            file: Its configuration.
            port: A TCP port that it serves.
            address: What to give as ``--port``.
        """
        self._program = need_ser2net()
        self._port = port
        self._file = file
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        # -d: in the foreground, and what it has to say on standard error.
        self._process = subprocess.Popen(
            [self._program, "-d", "-u", "-P", f"{self._file}.pid", "-c", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self._listens():
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        assert self._process.stderr is not None
        pytest.fail(f"ser2net did not start: {self._process.stderr.read()!r}")

    def _listens(self) -> bool:
        # Asked of the kernel: to connect would be to take the only connection there may be.
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        sockets = ((fields[1], fields[3]) for fields in map(str.split, lines))
        return (f"0100007F:{self._port:04X}", "0A") in sockets

    def kill(self) -> None:
        """End it without a word, as a power cut does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextmanager
def served(directory: Path, device: str, scheme: str) -> Iterator[Ser2net]:
    """Serve a device in a way: ``socket`` or ``rfc2217``."""
    port = free_port()
    text = CONFIGURATION.format(accepter=ACCEPTERS[scheme], port=port, device=device)
    with configured(directory, text, port, f"{scheme}://127.0.0.1:{port}") as server:
        yield server


@contextmanager
def configured(directory: Path, text: str, port: int, address: str = "") -> Iterator[Ser2net]:
    """Serve what a configuration says, which is up when it serves ``port``."""
    file = directory / f"ser2net-{port}.yaml"
    file.write_text(text)
    server = Ser2net(file, port, address)
    try:
        yield server
    finally:
        server.kill()
