"""The rack's own process: its units, its files, and what it does when asked."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.rack import control
from tests.support.rack.faults import Fault, Kind
from tests.support.rack.firmware import make_images
from tests.support.rack.rack import INJECTED, SESSIONS, SOCKET
from tests.support.rack.unit import HOST, SimulatedUnit

BOARD = """\
schema = 1
name = "native"
description = "the firmware as a process behind a TCP port"
cpu = "host"
timer = {{ source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }}
build = {{ preset = "native" }}
target = {{ kind = "serial" }}
flash = {{ order = ["command"], options = {{ command = {{ write = {flash} }} }} }}
deadlines = {{ boot_s = {boot}, request_s = {request}, execute_s = {execute}, reopen_s = {reopen} }}
"""
DEADLINES_S = {"boot": 3.0, "request": 0.6, "execute": 2.0, "reopen": 1.5}
"""As long as tests need; a crowded machine needs more (``--patience``)."""
UNIT = """
[[unit]]
id = "{name}"
board = "native.toml"
port = "socket://{host}:{port}"
power = {{ kind = "command", on = {on}, off = {off} }}
settle_s = 0.1
"""


def names(count: int) -> list[str]:
    """What the lab calls its units."""
    return [f"u{number:02}" for number in range(1, count + 1)]


class Serving:
    """The rack."""

    def __init__(
        self, directory: Path, units: int, seed: int, faults: Sequence[Fault], patience: float
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory.resolve()
        self._deadlines = {name: time * patience for name, time in DEADLINES_S.items()}
        self._ended = asyncio.Event()
        made = make_images(self._directory)
        self._units = {
            name: SimulatedUnit(name, made, f"{seed} {name}", self._report) for name in names(units)
        }
        for fault in faults:
            self._units[fault.unit].plan[fault.session] = fault.kind
        for name in (INJECTED, SESSIONS):
            (self._directory / name).write_text("")

    async def run(self) -> None:
        """Serve until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._ended.set)
        place = self._directory / SOCKET
        place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, place)
        try:
            for unit in self._units.values():
                await unit.start()
            self._write_files()
            print(f"ready: {len(self._units)} units in {self._directory}", flush=True)
            await self._ended.wait()
        finally:
            server.close()
            for unit in self._units.values():
                unit.close()

    def _write_files(self) -> None:
        program = [sys.executable, "-S", control.__file__, str(self._directory / SOCKET)]
        described = [
            UNIT.format(
                name=unit.name,
                host=HOST,
                port=unit.port,
                on=json.dumps([*program, "power", unit.name, "on"]),
                off=json.dumps([*program, "power", unit.name, "off"]),
            )
            for unit in self._units.values()
        ]
        (self._directory / "native.toml").write_text(
            BOARD.format(
                flash=json.dumps([*program, "flash", "{port}", "{image}"]), **self._deadlines
            )
        )
        (self._directory / "units.toml").write_text("schema = 1\n" + "".join(described))

    def _report(self, unit: SimulatedUnit, kind: Kind | None, directory: Path | None) -> None:
        """Write down that a session has begun, or a fault in one."""
        said = {
            "unit": unit.name,
            "session": unit.sessions,
            "kind": kind,
            "directory": str(directory or ""),
        }
        with (self._directory / (INJECTED if kind else SESSIONS)).open("a") as file:
            file.write(json.dumps(said) + "\n")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = json.loads(await reader.readline())
            said: dict[str, Any] = {"answer": await self._do(*words)}
        except Exception as error:  # whoever asked is told, and the rack goes on
            said = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(said).encode() + b"\n")
        writer.close()

    async def _do(self, action: str, *words: str) -> object:
        """Do what was asked for.

        power UNIT on|off, flash PORT IMAGE; fault UNIT KIND for its next session, cure UNIT;
        status; stop.
        """
        match action, *words:
            case "power", unit, ("on" | "off") as state:
                await self._units[unit].power(on=state == "on")
            case "flash", port, image:
                (unit,) = (u for u in self._units.values() if port.endswith(f":{u.port}"))
                await unit.flash(Path(image))
            case "fault", unit, kind:
                self._units[unit].meet(Kind(kind))
            case "cure", unit:
                await self._units[unit].cure()
            case ("status",):
                return {name: unit.status() for name, unit in self._units.items()}
            case ("stop",):
                self._ended.set()
            case _:
                raise ValueError(f"no such request: {action} {words}")
        return None
