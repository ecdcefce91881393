"""Takes a nightly run from its plan to its summary, in an order that treats all variants alike.

The arms of a comparison take turns, so that drift during the night (temperature, a clock, other
load on the host) affects all of them equally. Each block runs every variant once; the next block is
its mirror image, so that a steady drift cancels out over the two: ``A B | B A | B A | A B``. Which
variant comes first in a pair of blocks is drawn at random.
"""

from __future__ import annotations

import contextlib
import random
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from harness import __version__
from harness.config.toml_file import Document
from harness.errors import HarnessError, Owner, UsageError
from harness.nightly import folder
from harness.nightly.effects import Effects
from harness.nightly.journal import (
    Began,
    Ended,
    Finished,
    Interrupted,
    Journal,
    JournalError,
    OfUnit,
    Record,
    Resumed,
)
from harness.nightly.plan import NightlyPlan, load_plan, path_of
from harness.nightly.progress import Progress
from harness.nightly.units import NightUnit, units_of
from harness.nightly.worker import Worker
from harness.records.nightly import NightlyStep, UnitEvent

_JOIN_S: Final = 0.2
"""How often the main thread looks whether a signal has come."""

_END_S: Final = 30.0
"""How long units may take to end when the night is ended."""


class Stoppable(Effects, Protocol):
    """Effects that can be ended."""

    def stop(self) -> None:
        """End whatever is under way, and begin nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A night that can begin.

    Attributes:
        plan: What is to be done.
        document: Where that was read.
        units: By which units.
        steps: All of it, by unit, in order.
        patterns: What of the plan is meant, if not all.
    """

    plan: NightlyPlan
    document: Document
    units: tuple[NightUnit, ...]
    steps: dict[str, list[NightlyStep]]
    patterns: tuple[str, ...] = ()

    @property
    def output(self) -> Path:
        """Where nights have their folders."""
        return path_of(self.document, self.plan.output)

    @property
    def all_steps(self) -> list[NightlyStep]:
        """All steps, unit by unit."""
        return [step for steps in self.steps.values() for step in steps]


def prepare(file: Path, units_file: Path | None, patterns: Sequence[str] = ()) -> Prepared:
    """Read a plan, and work out what it means.

    Args:
        file: The plan.
        units_file: The lab's units; None for the default place.
        patterns: Do only what one of these means, as ``UNIT/MODEL``.

    Raises:
        UsageError: The plan is wrong, or means no unit, or the patterns mean nothing.
    """
    plan, document = load_plan(file)
    units = units_of(plan, document, units_file)
    steps = {}
    for unit in units:
        models = [
            model.name
            for model in plan.model
            if not model.boards or unit.board.name in model.boards
        ]
        labels = [variant.label for variant in plan.variants]
        order = (unit.id, unit.board.name, models, labels)
        planned = steps_of(*order, repeats=plan.repeats, seed=plan.seed)
        steps[unit.id] = only(planned, patterns)
    if not any(steps.values()):
        what = (
            f"nothing that {', '.join(patterns)} means" if patterns else "no model for its boards"
        )
        raise UsageError(f"{file}: there is {what}", hint="--dry-run shows what there is")
    chosen = tuple(unit for unit in units if steps[unit.id])
    by_unit = {unit.id: steps[unit.id] for unit in chosen}
    return Prepared(plan, document, chosen, by_unit, tuple(patterns))


class Night:
    """A night whose journal is open.

    Attributes:
        prepared: What is to be done.
        directory: Its folder.
        name: What it is called.
        journal: What has happened.
        progress: What that means.
        began_utc: When it began.
    """

    def __init__(
        self,
        prepared: Prepared,
        directory: Path,
        journal: Journal,
        told: Callable[[Record], None] = lambda _: None,
    ) -> None:
        """Take over an open journal; see ``open_night``.

        Raises:
            UsageError: It is of another plan.
            JournalError: It cannot be written.
        """
        self.prepared, self.directory, self.journal = prepared, directory, journal
        self._told = told
        self._lock = threading.Lock()
        self._fatal: BaseException | None = None
        self.progress = Progress(journal.records)
        made_of = folder.fingerprint(prepared.plan, prepared.document, prepared.units)
        if prepared.patterns:
            made_of["--only"] = " ".join(prepared.patterns)
        began = next((r for r in journal.records if isinstance(r, Began)), None)
        if began is None:
            began = Began(directory.name, _utc(), __version__, made_of)
            self.record(began)
        else:
            folder.check_same(began, made_of, directory)
            self.record(Resumed(_utc(), journal.dropped))
        self.name, self.began_utc = began.night, began.utc

    @property
    def resumed(self) -> bool:
        """Whether it was begun by another process."""
        return any(isinstance(record, Resumed) for record in self.journal.records)

    def record(self, record: Record) -> None:
        """Write into the journal, and take it into account.

        Raises:
            JournalError: It cannot be written.
        """
        with self._lock:
            self.journal.add(record)
            self.progress.learn(record)
            self._told(record)

    def work(self, effects: Stoppable) -> None:
        """Have all units do what is left, at the same time.

        Raises:
            JournalError: The journal cannot be written; everything has been ended.
            KeyboardInterrupt: Somebody ended the night; everything has been ended.
            SystemExit: Likewise.
        """
        night_s = self.prepared.plan.deadlines.night_s
        ends_at = None if night_s is None else effects.monotonic() + night_s
        threads = [
            threading.Thread(
                target=self._work_on, args=(unit, effects, ends_at), name=unit.id, daemon=True
            )
            for unit in self.prepared.units
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_JOIN_S)
        except BaseException as error:
            self._end(threads, effects, error)
            raise
        if self._fatal is not None:
            raise self._fatal

    def worker(self, unit: NightUnit, effects: Effects, ends_at: float | None = None) -> Worker:
        """What does all of a unit; ``ends_at`` on the clock of ``effects``."""
        plan, record = self.prepared.plan, self.record
        return Worker(plan, unit, self.directory, self.progress, effects, record, ends_at)

    def finish(self, exit_code: int) -> None:
        """Say in the journal that it is over."""
        self.record(Finished(_utc(), exit_code))

    def _work_on(self, unit: NightUnit, effects: Stoppable, ends_at: float | None) -> None:
        try:
            self.worker(unit, effects, ends_at).work(self.prepared.steps[unit.id])
        except JournalError as error:
            self._fatal = error
            effects.stop()
        except Exception as error:
            said = error.message if isinstance(error, HarnessError) else traceback.format_exc()
            lost = UnitEvent(unit=unit.id, utc=_utc(), what="lost", owner=Owner.HOST, message=said)
            try:
                self.record(OfUnit(lost))
            except JournalError as second:
                self._fatal = second
                effects.stop()

    def _end(
        self, threads: Sequence[threading.Thread], effects: Stoppable, error: BaseException
    ) -> None:
        effects.stop()
        ends_at = effects.monotonic() + _END_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, ends_at - effects.monotonic()))
        with contextlib.suppress(JournalError):
            self.record(Interrupted(_utc(), type(error).__name__))


def open_night(
    prepared: Prepared, *, fresh: bool = False, told: Callable[[Record], None] = lambda _: None
) -> Night:
    """Go on with the night that was not finished, or begin a new one.

    Args:
        prepared: What is to be done.
        fresh: Begin a new one in any case.
        told: Called with everything that is written into the journal.

    Raises:
        BusyError: Another process is at it.
        UsageError: The night that was not finished is of another plan.
        FormatError: Its journal is damaged.
        InfrastructureError: The journal cannot be kept.
    """
    journal = folder.open_folder(
        prepared.output, prepared.plan.name, datetime.now(UTC), fresh=fresh
    )
    try:
        return Night(prepared, journal.directory, journal, told)
    except BaseException:
        journal.close()
        raise


def ended_attempts(night: Night) -> list[Ended]:
    """All attempts that ended, in the order in which they did."""
    return [record for record in night.journal.records if isinstance(record, Ended)]


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def steps_of(
    unit: str,
    board: str,
    models: Sequence[str],
    variants: Sequence[str],
    *,
    repeats: int,
    seed: int,
) -> Iterator[NightlyStep]:
    """Yield what a unit does: a block per model and repeat, the same for the same seed.

    Of any beginning of this the numbers of steps of a model's variants differ by one at most.

    Args:
        unit: Id of the unit.
        board: Its type.
        models: Names of the models.
        variants: Labels of the variants.
        repeats: How often each variant of each model runs.
        seed: Of the order.
    """
    chance = random.Random(f"{seed}/{unit}")
    blocks: dict[str, list[str]] = {}
    for repeat in range(1, repeats + 1):
        for model in chance.sample(models, len(models)):
            block = blocks.get(model)
            if block is None or repeat % 2:
                block = chance.sample(variants, len(variants))
            else:
                block = block[::-1]
            blocks[model] = block
            for variant in block:
                yield NightlyStep(unit, board, model, variant, repeat)


def only(steps: Iterable[NightlyStep], patterns: Sequence[str]) -> list[NightlyStep]:
    """Those that one of the patterns ``UNIT/MODEL`` means; all without patterns."""
    from fnmatch import fnmatchcase

    return [
        step
        for step in steps
        if not patterns or any(fnmatchcase(f"{step.unit}/{step.model}", p) for p in patterns)
    ]
