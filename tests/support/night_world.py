"""A made-up world for nights: boards that do what a script says, a process that dies anywhere.

Whatever a night does to the world passes points; at any of them the process can be killed. What is
on the disk then stays, everything else is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness import BusyError, Failure, NightlyStep, Owner, Result
from harness.extensions.lab.nightly.plan import NightUnit
from harness.extensions.lab.nightly.worker import Cause, Ending
from harness.records import result as results
from harness.records.result import UNFINISHED

HOW = ("pass", "product", "crash", "test", "link", "host", "wrong firmware", "killed", "hang")
"""How a run may end: what it leaves, and how its process ends."""

OWNERS = {
    "product": Owner.PRODUCT,
    "crash": Owner.PRODUCT,
    "test": Owner.TEST,
    "link": Owner.LINK,
    "host": Owner.HOST,
    "wrong firmware": Owner.FLASH,
    "killed": Owner.HOST,
    "hang": Owner.PRODUCT,
}

CODES = {"pass": 0, "product": 1, "crash": 4, "test": 2, "link": 75, "host": 75}
CODES |= {"wrong firmware": 4}


class Killed(BaseException):
    """The process is no more."""


class World:
    """Boards and disks, which outlive the process.

    Attributes:
        script: How the runs of each step end, in order; the last one again and again.
        completed: How the completed runs of each step ended.
        results: What run directories say.
        well: Whether each unit answers when it is asked.
        cures: A power cycle makes it well.
        expected: What those who wait were told.
        waits: How long each lease may be waited for.
        flashings: What is wrong with each flashing, None if nothing; at their end nothing is.
        points: Points that were passed.
        kill_at: The points at which the process is killed.
        did: What was done to units, in order.
    """

    def __init__(self, script: Mapping[NightlyStep, Sequence[str]] | None = None) -> None:
        self.script = dict(script or {})
        self.completed: dict[NightlyStep, list[str]] = defaultdict(list)
        self.results: dict[Path, Result] = {}
        self.leases: set[str] = set()
        self.well: dict[str, bool] = defaultdict(lambda: True)
        self.cures = True
        self.flashings: Iterator[Failure | None] = iter(())
        self.busy: dict[str, str] = {}
        self.expected: list[float] = []
        self.waits: list[float] = []
        self.points = 0
        self.kill_at: set[int] = set()
        self.did: list[tuple[str, str]] = []
        self.clock = 0.0
        self.stopped = False

    def point(self) -> None:
        self.points += 1
        if self.points in self.kill_at:
            self.leases.clear()  # the kernel frees them
            raise Killed

    def stop(self) -> None:
        self.stopped = True

    def monotonic(self) -> float:
        return self.clock

    def utc(self) -> str:
        self.clock += 1
        return f"2026-11-22T00:{int(self.clock) // 60 % 60:02}:{int(self.clock) % 60:02}+00:00"

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.did.append(("", f"sleep {seconds:g}"))

    @contextmanager
    def lease(self, unit: NightUnit, timeout_s: float) -> Iterator[None]:
        self.point()
        self.waits.append(timeout_s)
        if unit.id in self.busy:
            raise BusyError(f"it is held by {self.busy[unit.id]}")
        assert unit.id not in self.leases
        self.leases.add(unit.id)
        try:
            self.point()
            yield
        finally:
            self.leases.discard(unit.id)

    def expect(self, unit: NightUnit, seconds: float) -> None:
        assert unit.id in self.leases
        self.expected.append(seconds)

    @contextmanager
    def slot(self, unit: NightUnit) -> Iterator[None]:
        yield

    def examine(self, unit: NightUnit) -> Cause:
        self.point()
        self.did.append((unit.id, "examine"))
        well = self.well[unit.id]
        return Cause(passed=True) if well else Cause(owner=Owner.BOARD, message="no answer")

    def power_cycle(self, unit: NightUnit) -> Cause:
        self.point()
        self.did.append((unit.id, "power cycle"))
        self.well[unit.id] = self.well[unit.id] or self.cures
        self.point()
        return Cause(passed=True)

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        self.point()
        self.did.append((unit.id, f"flash {image.name}{' again' if again else ''}"))
        self.point()
        failure = next(self.flashings, None)
        return Ending(0 if failure is None else 75, False, False, 1.0, ""), failure

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        self.point()
        assert unit.unit is None or unit.id in self.leases
        assert directory not in self.results, "a run directory is used once"
        own_id = f"{len(self.results):032x}"
        unfinished = _result(own_id, step, "killed")
        self.results[directory] = unfinished
        self.point()
        said = self.script.get(step, ("pass",))
        how = said[min(len(self.completed[step]), len(said) - 1)]
        self.completed[step].append(how)
        self.clock += 10
        if how not in ("killed", "hang"):
            self.results[directory] = _result(own_id, step, how)
        self.did.append((unit.id, f"run {how}"))
        self.point()
        if how == "hang":
            return Ending(None, True, False, deadline_s, "")
        return Ending(-9 if how == "killed" else CODES[how], False, False, 10.0, "")

    def result(self, directory: Path) -> Result | None:
        return self.results.get(directory)


def _result(own_id: str, step: NightlyStep, how: str) -> Result:
    known: dict[str, Any] = {
        "id": own_id,
        "tool_version": "1",
        "started_utc": "2026-11-22T00:00:00+00:00",
        "duration_s": 10.0,
        "board": step.board,
        "port": None,
        "unit": step.unit,
        "commit": "",
        "session": "s",
        "runs_requested": 1,
        "runs_completed": 1,
        "seed": 0,
        "exit_code": CODES.get(how, 75),
    }
    result = results.Result(**known)
    if how == "killed":
        return replace(result, failure=Failure(UNFINISHED, "cut off", "", Owner.HOST))
    if how in ("pass", "product"):
        return result
    kinds = {"crash": "TargetError", "test": "UsageError", "link": "LinkError"}
    kind = kinds.get(how, "HostError" if how == "host" else "WrongFirmwareError")
    return replace(result, failure=Failure(kind, f"it was {how}", "", OWNERS[how]))
