"""Runs a nightly run to its end: the steps, the history, the comparison of arms, the reports.

The steps of all units run in parallel, in an order that is fair to all arms: the arms of a
comparison take turns, so that drift during the night (temperature, a clock, other load on the host)
affects all of them equally. Each block runs every variant once; the next block is its mirror image,
so that a steady drift cancels out over the two: ``A B | B A | B A | A B``. Which variant comes
first in a pair of blocks is drawn at random.
"""

from __future__ import annotations

import contextlib
import random
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from harness import __version__
from harness.check.history.samples import DEFAULT_BASELINE, parse_baseline
from harness.config.toml_file import Document
from harness.errors import DamagedError, HarnessError, Owner, UsageError
from harness.extensions.lab.nightly.commands import Commands, allow_open_files, return_memory
from harness.extensions.lab.nightly.journal import (
    DOCUMENT,
    Account,
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
    Started,
    Stored,
    check_same,
    documents,
    earlier_nights,
    fingerprint,
    nights,
    open_folder,
    store_late,
    store_results,
    store_verdict,
    unstored_nights,
)
from harness.extensions.lab.nightly.plan import (
    MOST_STEPS,
    NightlyPlan,
    NightUnit,
    PlannedRun,
    load_plan,
    model_file,
    options_of,
    path_of,
    units_of,
)
from harness.extensions.lab.nightly.verdict import (
    ComparedArm,
    Quarantine,
    compare_arms,
    night_verdict,
    outcomes_of,
    outcomes_of_nights,
    with_passes,
)
from harness.extensions.lab.nightly.worker import Effects, Worker
from harness.files import write_atomic
from harness.flash.image import read_image
from harness.plugins import EXPLANATIONS, load_plugin
from harness.records.nightly import (
    ArmComparison,
    NightDocument,
    NightlyStep,
    QuarantineStatus,
    StepOutcome,
    Trouble,
    UnitEvent,
    worst_first,
)
from harness.records.result import encode, moment, now_utc
from harness.records.run_settings import SETTINGS
from harness.report.formats import check_report_file, write_report
from harness.report.words import counted
from harness.runs.baseline import keep_image, keep_model, read_program_file
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import evaluate_path
from harness.runs.history import HistoryRef, with_trends
from harness.runs.repeats import notices
from harness.runs.source import DEFAULT_OPTIONS, EvaluatedRun
from harness.target.build import built_image

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
        units_file: The lab's ``units.toml``; None for the default.
    """

    plan: NightlyPlan
    document: Document
    units: tuple[NightUnit, ...]
    steps: dict[str, list[NightlyStep]]
    patterns: tuple[str, ...] = ()
    units_file: Path | None = None

    @property
    def output(self) -> Path:
        """The folder that contains the folders of nightly runs."""
        return path_of(self.document, self.plan.output)

    @property
    def history(self) -> HistoryRef | None:
        """The history of the plan, with its baseline or the default one."""
        if self.plan.history is None:
            return None
        url = self.plan.history.within(self.document.path.parent)
        baseline = parse_baseline(self.plan.baseline) if self.plan.baseline else DEFAULT_BASELINE
        return HistoryRef(url, baseline)

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
            model.label
            for model in plan.model
            if not model.boards or unit.board.name in model.boards
        ]
        for unit in units
    }
    labels = [variant.label for variant in plan.variants]
    count = sum(map(len, models_of.values())) * len(labels) * plan.repeats
    if count > MOST_STEPS:
        raise UsageError(
            f"{file}: the plan has {counted(count, 'run')}; the limit is {MOST_STEPS:,}",
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
    return Prepared(plan, document, chosen, by_unit, tuple(patterns), units_file)


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
    journal = open_folder(prepared.output, prepared.plan.name, datetime.now(UTC), fresh=fresh)
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
        again: Steps beyond the plan, which measured again what was suspect.
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
        inputs = fingerprint(prepared.plan, prepared.document, prepared.units)
        if prepared.patterns:
            inputs["--only"] = " ".join(prepared.patterns)
        began = next((record for record in records if isinstance(record, Began)), None)
        self.resumed = began is not None
        if began is None:
            began = Began(directory.name, now_utc(), __version__, inputs)
            self.record(began)
        else:
            check_same(began, inputs, directory)
            self.record(Resumed(now_utc(), journal.dropped))
        self.name, self.began_utc = began.night, began.utc
        planned = {*prepared.all_steps}
        begun = (record.step for record in records if isinstance(record, Started))
        self.again = [*dict.fromkeys(step for step in begun if step not in planned)]
        self._ends_at: float | None = None

    @property
    def all_steps(self) -> list[NightlyStep]:
        """The planned steps, then those that measured again what was suspect."""
        return [*self.prepared.all_steps, *self.again]

    def record(self, record: Record) -> None:
        """Add a record to the journal, and update the progress.

        Raises:
            JournalError: The journal cannot be written.
        """
        with self._lock:
            self.journal.add(record)
            self.progress.learn(record)
            self._on_record(record)

    def work(self, effects: Stoppable, only: Collection[str] | None = None) -> None:
        """Run the remaining steps of all units in parallel, or of some, by their ids.

        Raises:
            JournalError: The journal cannot be written; all units have been stopped.
            KeyboardInterrupt: The user interrupted; all units have been stopped.
            SystemExit: The process was terminated; all units have been stopped.
        """
        night_s = self.prepared.plan.deadlines.night_s
        if night_s is not None and self._ends_at is None:
            self._ends_at = effects.monotonic() + night_s
        steps: dict[str, list[NightlyStep]] = {}
        for step in self.all_steps:
            steps.setdefault(step.unit, []).append(step)
        threads = [
            threading.Thread(
                target=self._work_on,
                args=(unit, steps[unit.id], effects),
                name=unit.id,
                daemon=True,
            )
            for unit in self.prepared.units
            if only is None or unit.id in only
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

    def measure_again(self, steps: Sequence[NightlyStep], effects: Stoppable) -> None:
        """Run steps beyond the plan; those that could not begin are none of the night's."""
        self.again += steps
        self.work(effects, only={step.unit for step in steps})
        attempted = Account(self.journal.records).attempts
        self.again = [step for step in self.again if step in attempted]

    def finish(self, exit_code: int) -> None:
        """Record the end of the nightly run in the journal."""
        self.record(Finished(now_utc(), exit_code))

    def _work_on(self, unit: NightUnit, steps: Sequence[NightlyStep], effects: Stoppable) -> None:
        try:
            self.worker(unit, effects, self._ends_at).work(steps)
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


_PUBLISH_TRIES: Final = 3
"""How often a verdict is written if writing it fails, and so changes it."""

_NOT_COMPARED: Final = (
    "nothing was compared with earlier nights, as the plan names no baseline: "
    'add baseline = "last:20"'
)

_MOST_FAILED: Final = 100
"""Largest number of failed runs that reports show in full."""


def run_nightly(
    prepared: Prepared,
    units_file: Path | None,
    *,
    fresh: bool = False,
    on_begin: Callable[[Night], None] = lambda _: None,
    on_record: Callable[[Record], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> NightDocument:
    """Resume the unfinished nightly run or begin a new one, and run it to its end.

    Args:
        prepared: The plan.
        units_file: The lab's ``units.toml``; None for the default.
        fresh: Begin a new one in any case.
        on_begin: Called with the opened nightly run, before anything runs.
        on_record: Called with every record added to the journal.
        on_message: Called with further messages for people.

    Raises:
        HarnessError: The nightly run cannot begin, or its journal cannot be written.
    """
    allow_open_files(len(prepared.units))
    return_memory()
    night = open_night(prepared, fresh=fresh, on_record=on_record)
    with night.journal:
        verb = "resumes" if night.resumed else "begins"
        on_message(f"{night.name} {verb} in {night.directory}")
        if night.journal.dropped:
            on_message(f"dropped {night.journal.dropped} bytes of a torn line of the journal")
        on_begin(night)
        effects = Commands(
            prepared.plan, prepared.document, units_file, night.directory, night.name
        )
        return run_to_end(night, effects)


def run_to_end(night: Night, effects: Stoppable) -> NightDocument:
    """Run the remaining steps of a nightly run, and finish it.

    Raises:
        HarnessError: The quarantine file is invalid, or the journal cannot be written.
    """
    plan = night.prepared.plan
    # Read here, so that an invalid file is reported before anything starts.
    quarantine = quarantine_tonight(night)
    for report in plan.reports:
        check_report_file(night.directory / report)
    night.work(effects)
    late, notes = _store_late(night, effects)
    compared, failures = _compare(night)
    cost = _look_again(night, effects, compared)
    if cost:
        compared, failures = _compare(night)
    account = Account(night.journal.records)
    ended = [record for record in night.journal.records if isinstance(record, Ended)]
    results = [item.attempt for item in ended if item.attempt.result]
    directories = [night.directory / attempt.directory for attempt in results]
    troubles, refused = _store(night, effects, directories, late)
    notes += [*refused, *cost]
    stored = plan.history is not None and not troubles
    troubles += [*_damaged_results(directories), *failures]
    outcomes = outcomes_of(night.all_steps, account)
    arms = tuple(_with_causes(night, one.arm, outcomes) for one in compared)
    if stored:
        troubles += _store_comparisons(night, compared)
    ended_utc = now_utc()

    def verdict() -> NightDocument:
        return verdict_of(night, account, quarantine, ended_utc, arms, troubles, notes)

    found = verdict()
    runs, missing = _shown_runs(night, found) if plan.reports else ([], [])
    if missing:
        troubles += missing
        found = verdict()
    for _ in range(_PUBLISH_TRIES):
        unwritten = _store_verdict(night, found) if stored else []
        stored = stored and not unwritten
        unwritten += _report(night, found, runs)
        if all(trouble in troubles for trouble in unwritten):
            break
        # What cannot be written is a failure, which all that can be written has to show.
        troubles += [trouble for trouble in unwritten if trouble not in troubles]
        found = verdict()
    write_atomic(night.directory / DOCUMENT, encode(found))
    if stored:
        night.record(Stored(effects.utc()))
    night.finish(found.exit_code)
    return found


def _compare(night: Night) -> tuple[list[ComparedArm], list[Trouble]]:
    """Compare all arms, also with the baseline; return them and the troubles."""
    plan, account = night.prepared.plan, Account(night.journal.records)
    labels = [variant.label for variant in plan.variants]
    baseline = night.prepared.history if plan.baseline else None
    tonight = [one.result for found in account.attempts.values() for one in found if one.result]
    outcomes = outcomes_of(night.all_steps, account)
    try:
        return [*compare_arms(night.directory, outcomes, labels, baseline, tonight)], []
    except HarnessError as error:
        return [], [_trouble(error)]


def _with_causes(
    night: Night, arm: ArmComparison, outcomes: Iterable[StepOutcome]
) -> ArmComparison:
    """Add to a comparison with changes what changed in the program, as the run's report says it."""
    explain: Any = load_plugin(EXPLANATIONS, "compare")
    history = night.prepared.history
    if explain is None or (arm.passed and not arm.changed):
        return arm
    last = {
        one.step.variant: night.directory / one.attempts[-1].directory
        for one in outcomes
        if (one.step.board, one.step.model) == (arm.board, arm.model)
        if one.attempts and one.attempts[-1].result
    }
    try:
        if arm.after in last and arm.before in last:
            sources = [DEFAULT_OPTIONS.load(last[name]) for name in (arm.before, arm.after)]
            why = explain.explain_runs(sources)
        elif arm.after in last and history is not None:
            why = explain.explain_history(with_trends(evaluate_path(last[arm.after]), history))
        else:
            return arm
    except (HarnessError, OSError):  # the run is named as a trouble
        return arm
    return arm if why is None or why.same else replace(arm, program=why)


def _look_again(night: Night, effects: Stoppable, compared: Sequence[ComparedArm]) -> list[str]:
    """Measure again once what is suspect, or to be detected; return a note about what that cost.

    That run compares itself with the baseline, and runs in turns with what it ran where that is at
    hand. What it shows alone would show in further runs of this night, too: the next one decides.
    """
    if not night.again and (steps := _steps_again(night.prepared, compared)):
        night.measure_again(steps, effects)
    if not night.again:
        return []
    attempts = [
        one
        for step, found in Account(night.journal.records).attempts.items()
        if step in night.again
        for one in found
    ]
    seconds = sum(one.duration_s for one in attempts)
    in_turns = sum(_further_runs(night.directory / one.directory) for one in attempts)
    runs = counted(len(night.again) + in_turns, "run")
    turns = f", {in_turns} of them in turns with the baseline" if in_turns else ""
    time_text = f"{seconds:,.0f} s of the boards' time"
    detect = any("detect" in one.given() for one in _options(night.prepared).values())
    what = "suspect or not detectable yet" if detect else "suspect"
    return [f"what was {what} was measured again: {runs}{turns}, {time_text}"]


def _options(prepared: Prepared) -> dict[str, PlannedRun]:
    """Return the options of each model."""
    return {model.label: options_of(prepared.plan, model) for model in prepared.plan.model}


def _further_runs(directory: Path) -> int:
    """Return the number of further runs that the verdict of a run rests on."""
    try:
        verdict = RunDirectory(directory).read_result().verdict
    except (HarnessError, OSError):
        return 0
    return verdict.repeats if verdict is not None else 0


def _steps_again(prepared: Prepared, compared: Sequence[ComparedArm]) -> list[NightlyStep]:
    """Return a further run of everything to measure again, with the arm it is compared with."""
    options = _options(prepared)
    wanted = {
        (one.arm.board, one.arm.model, label)
        for one in compared
        if _is_open(one, options[one.arm.model].given())
        for label in (one.arm.before, one.arm.after)
    }
    repeat = prepared.plan.repeats + 1
    found = (replace(step, repeat=repeat) for step in prepared.all_steps)
    return [
        step for step in dict.fromkeys(found) if (step.board, step.model, step.variant) in wanted
    ]


def _is_open(compared: ComparedArm, options: Mapping[str, Any]) -> bool:
    """Return whether a further run would say more about a comparison."""
    share = options.get("detect")
    if share is not None and compared.of_baseline and not notices(compared.comparison, share):
        return True
    looks = options.get("look_again", SETTINGS["look_again"].default)
    return bool(looks and (compared.arm.counts.get("suspect") or compared.pairs_decide))


def verdict_of(
    night: Night,
    account: Account,
    quarantine: Quarantine | None,
    ended_utc: str = "",
    arms: Sequence[ArmComparison] = (),
    troubles: Sequence[Trouble] = (),
    notes: Sequence[str] = (),
) -> NightDocument:
    """Return a nightly run with its verdict, as far as it is; ``ended_utc`` is "" while it runs."""
    prepared = night.prepared
    return night_verdict(
        *(prepared.units, night.all_steps, account),
        name=prepared.plan.name,
        night=night.name,
        directory=str(night.directory),
        units_file=prepared.units_file,
        times=(night.began_utc, ended_utc),
        not_run_fails=prepared.plan.not_run == "fail",
        quarantine=quarantine,
        arms=arms,
        troubles=troubles,
        notes=notes,
    )


def quarantine_tonight(night: Night) -> Quarantine | None:
    """Return the quarantine of a nightly run, with the passes before it; None without a file.

    Raises:
        UsageError: The quarantine file is invalid.
    """
    plan, today = night.prepared.plan, moment(night.began_utc).date()
    if plan.quarantine is None:
        return None
    earlier = outcomes_of_nights(earlier_nights(night.directory, plan.name))
    return with_passes(path_of(night.prepared.document, plan.quarantine), earlier, today)


def quarantine_of(prepared: Prepared, today: date) -> tuple[QuarantineStatus, ...]:
    """Return the status of a plan's quarantine entries after all its nightly runs.

    Raises:
        UsageError: The plan has no quarantine, or the quarantine file is invalid.
    """
    plan = prepared.plan
    if plan.quarantine is None:
        raise UsageError(
            f"{prepared.document.path} has no quarantine file",
            hint='add one: quarantine = "quarantine.toml"',
        )
    past = outcomes_of_nights(documents(nights(prepared.output, plan.name)))
    return with_passes(path_of(prepared.document, plan.quarantine), past, today).status(())


def _store_late(night: Night, effects: Stoppable) -> tuple[Trouble | None, list[str]]:
    """Add the results of earlier nightly runs that are not in the history yet."""
    plan, history = night.prepared.plan, night.prepared.history
    notes: list[str] = []
    if history is None:
        return None, notes
    if plan.baseline is None and len(plan.variants) < 2:
        notes.append(_NOT_COMPARED)
    for folder in unstored_nights(night.directory, plan.name):
        added, trouble = store_late(folder, history.url, effects.utc, effects.sleep)
        notes += added
        if trouble is not None:
            return trouble, notes
    return None, notes


def _store(
    night: Night, effects: Stoppable, directories: Sequence[Path], late: Trouble | None
) -> tuple[list[Trouble], list[str]]:
    """Add all results to the history, unless those of earlier ones could not be.

    What they ran is kept, with which later nights can measure in turns.

    Returns:
        The troubles, and a note for each result that was refused.
    """
    history = night.prepared.history
    if history is None:
        return [], []
    if late is not None:
        return [late], []
    refused, trouble = store_results(history.url, directories, effects.sleep)
    if trouble is not None:
        return [trouble], []
    _keep(night.prepared, directories)
    return [], refused


def _store_comparisons(night: Night, compared: Sequence[ComparedArm]) -> list[Trouble]:
    """Record what comparisons found with the results in the history; return the troubles."""
    history = night.prepared.history
    try:
        if history is not None:
            for one in compared:
                one.store_verdicts(history)
    except HarnessError as error:
        return [_trouble(error)]
    return []


def _keep(prepared: Prepared, directories: Sequence[Path]) -> None:
    """Keep the models of a plan, and the firmware that it flashed or that its results name."""
    for model, variant in product(prepared.plan.model, prepared.plan.variants):
        with contextlib.suppress(HarnessError):  # gone since it ran
            keep_model(read_program_file(model_file(prepared.document, model, variant)))
    flashed = {
        (u.board.name, image) for u in prepared.units for image in u.images.values() if image
    }
    for board, image in flashed:
        with contextlib.suppress(HarnessError):
            keep_image(image, board, read_image(image).build_id() or "")
    started = {unit.board.name: unit.board for unit in prepared.units if unit.started_here}
    builds = set()
    for directory in directories:
        with contextlib.suppress(HarnessError, OSError):
            result = RunDirectory(directory).read_result()
            if result.target is not None and result.board in started:
                builds.add((result.board, result.target.build_id))
    for board, build_id in builds:
        with contextlib.suppress(HarnessError):
            if (built := built_image(started[board], build_id)) is not None:
                keep_image(built, board, build_id)


def _damaged_results(directories: Sequence[Path]) -> list[Trouble]:
    """Return a trouble for each run directory with damaged files.

    Comparison and reports leave such runs out without a message; the message is here.
    """
    troubles = []
    for path in directories:
        try:
            RunDirectory(path).load_result()
        except DamagedError as error:
            troubles.append(_trouble(error))
        except (HarnessError, OSError):
            continue  # the history reports an unreadable result
    return troubles


def _shown_runs(night: Night, document: NightDocument) -> tuple[list[EvaluatedRun], list[Trouble]]:
    """Return the runs that reports show, and a trouble for each that cannot be read."""
    troubles: list[Trouble] = []
    runs = []
    history = night.prepared.history
    for path in shown_runs(document.outcomes):
        try:
            run = evaluate_path(night.directory / path)
            runs.append(run if history is None else with_trends(run, history))
        except (HarnessError, OSError) as error:
            message = error.message if isinstance(error, HarnessError) else str(error)
            troubles.append(
                Trouble(owner=Owner.HOST, message=f"{path} is missing from the reports: {message}")
            )
    return runs, troubles


def _store_verdict(night: Night, document: NightDocument) -> list[Trouble]:
    """Record the verdict in the history; return the troubles."""
    history = night.prepared.history
    try:
        if history is not None:
            store_verdict(history.url, document)
    except HarnessError as error:
        message = f"the verdict was not recorded in the history: {error.message}"
        return [Trouble(owner=_trouble(error).owner, message=message, hint=error.hint)]
    return []


def _report(night: Night, document: NightDocument, runs: Sequence[EvaluatedRun]) -> list[Trouble]:
    """Write all reports; return the troubles."""
    troubles: list[Trouble] = []
    for name in night.prepared.plan.reports:
        try:
            write_report(night.directory / name, runs, document)
        except HarnessError as error:
            troubles.append(_trouble(error))
    return troubles


def shown_runs(outcomes: Sequence[StepOutcome]) -> list[str]:
    """Return the runs that reports show in full: failures, and the last pass of each kind."""
    failed = [o.attempts[-1] for o in worst_first(outcomes)]
    shown = [attempt.directory for attempt in failed if attempt.result][:_MOST_FAILED]
    last: dict[tuple[str, str, str], str] = {}
    for outcome in outcomes:
        if outcome.outcome == "pass":
            step = outcome.step
            last[step.board, step.model, step.variant] = outcome.attempts[-1].directory
    return [*shown, *last.values()]


def _trouble(error: HarnessError) -> Trouble:
    return Trouble(owner=error.owner, message=error.message, hint=error.hint)
