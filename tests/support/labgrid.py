"""Coordinators of places, real and fake, behind one interface, for tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.extensions.lab.labgrid import Client, Identity
from tests.support import fake_labgrid

START_S = 300.0
VENV = Path(__file__).resolve().parents[2] / ".venv-labgrid/bin"


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


RACK: dict[str, dict[str, Any]] = {
    "one": {"port": 4001, "comment": "odd: one\n  tags: board=x\nPlace 'two':", "board": "native"},
    "two": {"port": 4002, "board": "native"},
    "other": {"port": 4003, "board": "nucleo-f446re"},
    "bare": {"port": None},
}
"""Places that every coordinator here has: a raw TCP port of this host or nothing, and tags."""


class FakeCoordinator:
    """One whose state is a file."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = "127.0.0.1:1"
        self._state = directory / "state.json"
        self._write({"address": self.address, "hang_s": 0, "down": False, "places": {}})
        program = directory / "labgrid-client"
        program.write_text(f"#!{sys.executable} -SE\n{Path(fake_labgrid.__file__).read_text()}")
        program.chmod(0o755)
        monkeypatch.setenv("ETHARNESS_LABGRID", str(program))
        monkeypatch.setenv("FAKE_LABGRID", str(self._state))
        for name, about in RACK.items():
            self._add(name, **about)

    def _add(self, name: str, port: int | None, comment: str = "", **tags: str) -> None:
        extra = {"proxy": "localhost", "proxy_required": False}
        params = {"host": "127.0.0.1", "port": port, "protocol": "raw", "extra": extra}
        serial = {"avail": True, "cls": "NetworkSerialPort", "params": params}
        self.change(
            name,
            acquired=None,
            allowed=[],
            changed=time.time(),
            comment=comment,
            reservation=None,
            tags=tags,
            resources={} if port is None else {"NetworkSerialPort": serial},
        )

    def move(self, name: str, port: int) -> None:
        """The place's serial port is another from now on."""
        self._add(name, **{**RACK[name], "port": port})

    def acquire(self, name: str, holder: str) -> None:
        self.change(name, acquired=holder)

    def restart(self) -> None:
        """As the real one: it forgets who has what."""
        self._write(self._read() | {"down": False})
        for name in self._read()["places"]:
            self.change(name, acquired=None, allowed=[])

    def stop(self) -> None:
        self._write(self._read() | {"down": True})

    def hang(self, seconds: float) -> None:
        self._write(self._read() | {"hang_s": seconds})

    def change(self, name: str, **fields: Any) -> None:
        data = self._read()
        data["places"][name] = data["places"].get(name, {}) | fields
        self._write(data)

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self._state.read_text()))

    def _write(self, data: dict[str, Any]) -> None:
        self._state.write_text(json.dumps(data))


class RealCoordinator:
    """labgrid's own coordinator, and an exporter, on this host."""

    def __init__(self, directory: Path, terminal: str = "") -> None:
        """Start them; with ``terminal``, its place ``tty`` is that, behind a ser2net."""
        self.address = f"127.0.0.1:{free_port()}"
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        exported = [
            f"{name}:\n  NetworkSerialPort: {{host: 127.0.0.1, port: {port}, protocol: raw}}\n"
            for name, about in RACK.items()
            if (port := about["port"])
        ]
        if terminal:
            exported.append(f"tty:\n  RawSerialPort: {{port: {terminal}, speed: 115200}}\n")
        (directory / "exported.yaml").write_text("".join(exported))
        # Its own file; JSON is YAML. Making places by its client takes seconds.
        tty = {"tty": {"port": None, "board": "terminal"}} if terminal else {}
        places = {name: _stored(name, **about) for name, about in (RACK | tty).items()}
        (directory / "places.yaml").write_text(json.dumps(places))
        self.restart()

    def acquire(self, name: str, holder: str) -> None:
        host, _, user = holder.partition("/")
        self._client("-p", name, "acquire", LG_HOSTNAME=host, LG_USERNAME=user)

    def free(self) -> None:
        """Release all places."""
        for place in Client(self.address).places():
            if place.acquired:
                self._client("-p", place.name, "release", "--kick")

    def restart(self) -> None:
        """And its exporter, which ends with it; a supervisor would start it again."""
        self.stop()
        self._end("exporter")
        self._start("coordinator", "-l", self.address)
        self._until(lambda: self._client("who").returncode == 0)
        named = ("-c", self.address, "-n", "rack", "--hostname", "127.0.0.1")
        self._start("exporter", *named, "exported.yaml")
        self._until(lambda: "rack/other/NetworkSerialPort" in self._client("resources").stdout)

    def stop(self) -> None:
        self._end("coordinator")

    def kill_ser2net(self) -> None:
        """The one that our exporter has started; the exporter does not notice."""
        parent = self._processes["exporter"].pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        assert children
        for child in children:
            os.kill(int(child), 9)

    def close(self) -> None:
        for what in [*self._processes]:
            self._end(what)

    def _start(self, what: str, *arguments: str) -> None:
        with (self._directory / f"{what}.log").open("ab") as log:
            self._processes[what] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", VENV / f"labgrid-{what}", *arguments],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self, what: str) -> None:
        process = self._processes.pop(what, None)
        if process is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            process.kill()
            process.wait()

    def _client(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [VENV / "labgrid-client", *arguments],
            env={**os.environ, "LG_COORDINATOR": self.address, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def _until(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + START_S
        while not ready():
            logs = {file.name: file.read_text() for file in self._directory.glob("*.log")}
            assert time.monotonic() < end, logs
            time.sleep(0.1)


def _stored(name: str, port: int | None, comment: str = "", **tags: str) -> dict[str, Any]:
    """A place as the coordinator stores it."""
    match = {"exporter": "rack", "group": name, "cls": "NetworkSerialPort"}
    return {
        "acquired": None,
        "acquired_resources": [],
        "aliases": [],
        "allowed": [],
        "changed": time.time(),
        "comment": comment,
        "created": time.time(),
        "matches": [{**match, "name": None, "rename": None}],
        "reservation": None,
        "tags": tags,
    }


Coordinator = FakeCoordinator | RealCoordinator


@contextmanager
def real_coordinator(directory: Path, terminal: str = "") -> Iterator[RealCoordinator]:
    if not (VENV / "labgrid-coordinator").exists() or shutil.which("ser2net") is None:
        pytest.skip("labgrid is not installed: tools/setup labgrid")
    running = RealCoordinator(directory, terminal)
    try:
        yield running
    finally:
        running.close()


def expired() -> Identity:
    """One of us on another host, whose time has been over for long."""
    return Identity("elsewhere", "me", 1, 1, "0" * 12, 5, int(time.time()) - 1000, "0" * 8)


def holder_at(coordinator: Coordinator, name: str) -> str:
    return Client(coordinator.address).place(name).acquired
