"""Runs the steps of a nightly run on all units in parallel, in an order that is fair to all arms.

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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol

from harness import __version__
from harness.config.toml_file import Document
from harness.errors import HarnessError, Owner, UsageError
from harness.nightly import folder
from harness.nightly.journal import (
    Began,
    Ended,
    Finished,
    Interrupted,
    Journal,
    JournalError,
    OfUnit,
    Progress,
    Record,
    Resumed,
)
from harness.nightly.plan import (
    MOST_STEPS,
    NightlyPlan,
    NightUnit,
    load_plan,
    path_of,
    units_of,
)
from harness.nightly.worker import Effects, Worker
from harness.records.nightly import NightlyStep, UnitEvent
from harness.records.result import now_utc

_JOIN_S: Final = 0.2
"""Interval at which the main thread checks for signals."""

_END_S: Final = 30.0
"""Longest wait for units to end when the nightly run is stopped."""


class Stoppable(Effects, Protocol):
    """Effects that can be stopped."""

    def stop(self) -> None:
        """End everything in progress, and start nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A validated plan, ready to run.

    Attributes:
        plan: The plan.
        document: The document of the plan file.
        units: The units that take part.
        steps: The steps by unit id, in order.
        patterns: Patterns that select a part of the plan; () for all of it.
    """

    plan: NightlyPlan
    document: Document
    units: tuple[NightUnit, ...]
    steps: dict[str, list[NightlyStep]]
    patterns: tuple[str, ...] = ()

    @property
    def output(self) -> Path:
        """The folder that contains the folders of nightly runs."""
        return path_of(self.document, self.plan.output)

    @property
    def all_steps(self) -> list[NightlyStep]:
        """All steps, unit by unit."""
        return [step for steps in self.steps.values() for step in steps]


def prepare(file: Path, units_file: Path | None, patterns: Sequence[str] = ()) -> Prepared:
    """Read a plan, and resolve its units and steps.

    Args:
        file: The plan.
        units_file: The lab's ``units.toml``; None for the default.
        patterns: Run only steps that match one of these, ``UNIT/MODEL``.

    Raises:
        UsageError: The plan is invalid or has no unit, or no step matches.
    """
    plan, document = load_plan(file)
    units = units_of(plan, document, units_file)
    models_of = {
        unit.id: [
            model.name
            for model in plan.model
            if not model.boards or unit.board.name in model.boards
        ]
        for unit in units
    }
    labels = [variant.label for variant in plan.variants]
    count = sum(map(len, models_of.values())) * len(labels) * plan.repeats
    if count > MOST_STEPS:
        raise UsageError(
            f"{file}: the plan has {count:,} steps; the limit is {MOST_STEPS:,}",
            hint="reduce repeats, or divide it into several plans",
        )
    steps = {}
    for unit in units:
        models = models_of[unit.id]
        order = (unit.id, unit.board.name, models, labels)
        planned = steps_of(*order, repeats=plan.repeats, seed=plan.seed)
        steps[unit.id] = select_steps(planned, patterns)
    if not any(steps.values()):
        problem = (
            f"no step matches {', '.join(patterns)}" if patterns else "no model for its boards"
        )
        raise UsageError(f"{file}: {problem}", hint="--dry-run lists the steps")
    chosen = tuple(unit for unit in units if steps[unit.id])
    by_unit = {unit.id: steps[unit.id] for unit in chosen}
    return Prepared(plan, document, chosen, by_unit, tuple(patterns))


def steps_of(
    unit: str,
    board: str,
    models: Sequence[str],
    variants: Sequence[str],
    *,
    repeats: int,
    seed: int,
) -> Iterator[NightlyStep]:
    """Yield the steps of a unit: a block per model and repeat, in an order drawn from the seed.

    At any point, the numbers of steps of a model's variants so far differ by at most one.

    Args:
        unit: Id of the unit.
        board: Board type.
        models: Names of the models.
        variants: Labels of the variants.
        repeats: Number of runs of each variant of each model.
        seed: Seed of the order.
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


def select_steps(steps: Iterable[NightlyStep], patterns: Sequence[str]) -> list[NightlyStep]:
    """Return the steps that match one of the patterns ``UNIT/MODEL``; all without patterns."""
    return [
        step
        for step in steps
        if not patterns or any(fnmatchcase(f"{step.unit}/{step.model}", p) for p in patterns)
    ]


def open_night(
    prepared: Prepared, *, fresh: bool = False, on_record: Callable[[Record], None] = lambda _: None
) -> Night:
    """Resume the unfinished nightly run, or begin a new one.

    Args:
        prepared: The plan.
        fresh: Begin a new one in any case.
        on_record: Called with every record added to the journal.

    Raises:
        BusyError: Another process runs it.
        UsageError: The plan has changed since the unfinished run began.
        FormatError: The journal is damaged.
        InfrastructureError: The journal cannot be written.
    """
    journal = folder.open_folder(
        prepared.output, prepared.plan.name, datetime.now(UTC), fresh=fresh
    )
    try:
        return Night(prepared, journal.directory, journal, on_record)
    except BaseException:
        journal.close()
        raise


class Night:
    """A nightly run with an open journal.

    Attributes:
        prepared: The plan.
        directory: Its folder.
        name: Its name, that of the folder.
        journal: Its journal.
        progress: How far it is, derived from the journal.
        resumed: Whether it was resumed by this or an earlier process.
        began_utc: When it began, ISO 8601.
    """

    def __init__(
        self,
        prepared: Prepared,
        directory: Path,
        journal: Journal,
        on_record: Callable[[Record], None] = lambda _: None,
    ) -> None:
        """Take over an open journal; see ``open_night``.

        Raises:
            UsageError: The journal belongs to another plan.
            JournalError: The journal cannot be written.
        """
        self.prepared, self.directory, self.journal = prepared, directory, journal
        self._on_record = on_record
        self._lock = threading.Lock()
        self._fatal: BaseException | None = None
        records = journal.records
        self.progress = Progress(records)
        inputs = folder.fingerprint(prepared.plan, prepared.document, prepared.units)
        if prepared.patterns:
            inputs["--only"] = " ".join(prepared.patterns)
        began = next((record for record in records if isinstance(record, Began)), None)
        self.resumed = began is not None
        if began is None:
            began = Began(directory.name, now_utc(), __version__, inputs)
            self.record(began)
        else:
            folder.check_same(began, inputs, directory)
            self.record(Resumed(now_utc(), journal.dropped))
        self.name, self.began_utc = began.night, began.utc

    def record(self, record: Record) -> None:
        """Add a record to the journal, and update the progress.

        Raises:
            JournalError: The journal cannot be written.
        """
        with self._lock:
            self.journal.add(record)
            self.progress.learn(record)
            self._on_record(record)

    def work(self, effects: Stoppable) -> None:
        """Run the remaining steps of all units in parallel.

        Raises:
            JournalError: The journal cannot be written; all units have been stopped.
            KeyboardInterrupt: The user interrupted; all units have been stopped.
            SystemExit: The process was terminated; all units have been stopped.
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
            self._interrupt(threads, effects, error)
            raise
        if self._fatal is not None:
            raise self._fatal

    def worker(self, unit: NightUnit, effects: Effects, ends_at: float | None = None) -> Worker:
        """Return the worker of a unit; ``ends_at`` is a time of ``effects.monotonic``."""
        plan, record = self.prepared.plan, self.record
        return Worker(plan, unit, self.directory, self.progress, effects, record, ends_at)

    def finish(self, exit_code: int) -> None:
        """Record the end of the nightly run in the journal."""
        self.record(Finished(now_utc(), exit_code))

    def _work_on(self, unit: NightUnit, effects: Stoppable, ends_at: float | None) -> None:
        try:
            self.worker(unit, effects, ends_at).work(self.prepared.steps[unit.id])
        except JournalError as error:
            self._fatal = error
            effects.stop()
        except Exception as error:
            text = error.message if isinstance(error, HarnessError) else traceback.format_exc()
            lost = UnitEvent(
                unit=unit.id, utc=now_utc(), what="lost", owner=Owner.HOST, message=text
            )
            try:
                self.record(OfUnit(lost))
            except JournalError as second:
                self._fatal = second
                effects.stop()

    def _interrupt(
        self, threads: Sequence[threading.Thread], effects: Stoppable, error: BaseException
    ) -> None:
        effects.stop()
        ends_at = effects.monotonic() + _END_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, ends_at - effects.monotonic()))
        with contextlib.suppress(JournalError):
            self.record(Interrupted(now_utc(), type(error).__name__))


def ended_attempts(night: Night) -> list[Ended]:
    """Return all attempts that ended, in the order of their ends."""
    return [record for record in night.journal.records if isinstance(record, Ended)]
