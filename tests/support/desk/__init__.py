"""Commands on a desk without Linux: in a Python that lacks what Windows does not have."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import build_firmware
from tests.conftest import CommandResult
from tests.support.rack.firmware import Firmware

_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Desk:
    """A folder, and a Python without calls of Unix, in an encoding of Windows.

    Attributes:
        folder: Its working directory.
        com3: HOST:PORT that is behind its serial port COM3; "" for none.
    """

    folder: Path
    com3: str = ""

    def python(self, *arguments: str | os.PathLike[str]) -> CommandResult:
        """Run Python there; its output has to be in the code page of Western Europe."""
        programs = self.folder / "no-programs"
        programs.mkdir(exist_ok=True)
        environment = {
            "DESK_COM3": self.com3,
            "HOME": str(self.folder),
            "PATH": str(programs),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(_ROOT)]),
            # Python's own default encoding is ASCII then: files have to name theirs.
            **{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            "PYTHONIOENCODING": "cp1252",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins of others need Linux themselves
            # filelock knows Linux by its name, and warns of its missing locks.
            "PYTHONWARNINGS": "ignore:only soft file lock:UserWarning",
        }
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode("cp1252"), done.stderr.decode())

    def etharness(self, *arguments: str | os.PathLike[str]) -> CommandResult:
        """Run the command line there."""
        return self.python("-m", "harness", *arguments)


@contextmanager
def board_behind_tcp() -> Iterator[str]:
    """Start the native board behind a TCP port, which stands for a board on another host."""
    firmware = Firmware(build_firmware(harness.Board.load("native")).image)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_bridge, args=(server, firmware.line, ended))
        thread.start()
        try:
            yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()
            firmware.end()


def _bridge(server: socket.socket, line: int, ended: threading.Event) -> None:
    """Connect one client after another with the line."""
    server.settimeout(0.05)
    while not ended.is_set():
        try:
            client, _ = server.accept()
        except TimeoutError:
            continue
        with closing(client):
            client.setblocking(True)
            while not ended.is_set():
                ready, _, _ = select.select([client, line], [], [], 0.05)
                if line in ready:
                    client.sendall(os.read(line, 65536))
                if client in ready:
                    data = client.recv(4096)
                    if not data:
                        break
                    _write_all(line, data)


def _write_all(line: int, data: bytes) -> None:
    while data:
        select.select([], [line], [])
        data = data[os.write(line, data) :]
