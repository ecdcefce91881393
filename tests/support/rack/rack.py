"""The rack from outside: starting one, and asking it for what it knows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.rack import control
from tests.support.rack.faults import Fault, Kind

SOCKET = "rack.socket"
INJECTED = "injected.jsonl"
SESSIONS = "sessions.jsonl"
READY_S = 120.0
"""Time until all units answer; the firmware may have to be built."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that has begun.

    Attributes:
        unit: Where.
        session: In which of its sessions with a model.
        kind: Which.
        directory: The run directory of the run that met it; None for one that began between runs.
    """

    unit: str
    session: int
    kind: Kind
    directory: Path | None


@dataclass(frozen=True, slots=True)
class Session:
    """A session with a model that a unit had.

    Attributes:
        unit: Where.
        number: Which one, from 1.
        directory: The run directory of the run that had it, if it could be found.
    """

    unit: str
    number: int
    directory: Path | None


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack that runs.

    Attributes:
        directory: Where its files are.
    """

    directory: Path

    @property
    def units_file(self) -> Path:
        return self.directory / "units.toml"

    @property
    def board_file(self) -> Path:
        return self.directory / "native.toml"

    def ask(self, *words: str) -> Any:
        """Ask it by its socket; see ``serve.py`` for the words."""
        return control.ask(str(self.directory / SOCKET), *words)

    def fault(self, unit: str, kind: Kind) -> None:
        """Have a fault begin in the unit's next session."""
        self.ask("fault", unit, kind)

    def status(self) -> dict[str, dict[str, Any]]:
        """What each unit is doing, by its name."""
        found: dict[str, dict[str, Any]] = self.ask("status")
        return found

    def injected(self) -> list[Injected]:
        """The faults that have begun so far, in order."""
        return [
            Injected(said["unit"], said["session"], Kind(said["kind"]), _path(said["directory"]))
            for said in self._lines(INJECTED)
        ]

    def sessions(self) -> list[Session]:
        """The sessions that units have had so far, in order."""
        return [
            Session(said["unit"], said["session"], _path(said["directory"]))
            for said in self._lines(SESSIONS)
        ]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / name).read_text().splitlines()]


@contextmanager
def rack(
    directory: Path,
    *,
    units: int,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    patience: float = 1.0,
) -> Iterator[Rack]:
    """Start a rack with ``directory`` for its files; it ends with the context."""
    words = ["--units", str(units), "--seed", str(seed), "--patience", str(patience)]
    for fault in faults:
        words += ["--fault", str(fault)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.rack", str(directory), *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said.startswith("ready"), f"the rack said {said!r}"
        yield Rack(directory)
    finally:
        process.terminate()
        process.wait(READY_S)
        process.stdout.close()


def _path(text: str) -> Path | None:
    return Path(text) if text else None
