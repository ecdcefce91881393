"""Runs a nightly run to its end: the steps, the history, the comparison of arms, the reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from harness import __version__
from harness.check.history.baseline import DEFAULT_BASELINE, parse_baseline
from harness.errors import DamagedError, HarnessError, Owner, UsageError
from harness.files import write_atomic
from harness.nightly.arms import compare_arms
from harness.nightly.child import allow_open_files, return_memory
from harness.nightly.commands import Commands
from harness.nightly.folder import (
    DOCUMENT,
    documents,
    earlier_nights,
    history_url,
    nights,
    store_late,
    store_results,
    unstored_nights,
)
from harness.nightly.journal import Account, Record, Stored, ended_of
from harness.nightly.orchestrator import Night, Prepared, Stoppable, ended_attempts, open_night
from harness.nightly.plan import NightUnit, path_of
from harness.nightly.quarantine import no_quarantine, outcomes_of_nights, with_passes
from harness.records.nightly import (
    EXIT_CODES,
    ArmComparison,
    NightDocument,
    NightlyStep,
    QuarantineStatus,
    StepOutcome,
    Trouble,
    UnitEvent,
    UnitOutcome,
    worst_first,
)
from harness.records.result import encode, moment, now_utc
from harness.runs.baseline import HistoryRef
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import EvaluatedRun, evaluate_path, with_trends

Quarantined = Callable[[StepOutcome], str]
"""Returns a description of the entry that applies to a failure; "" without one."""

_ENDS = ("not leased", "benched", "out of time", "lost")
"""Events that end the work of a unit early."""


_MOST_FAILED: Final = 100
"""Largest number of failed runs that reports show in full."""


class ReportWriter(Protocol):
    """Writes reports of a nightly run; the caller chooses it, so this room needs no renderer."""

    def check_report_file(self, file: Path) -> None:
        """Raise UsageError unless a report can be written to ``file``."""

    def write_report(self, file: Path, runs: Sequence[EvaluatedRun], night: NightDocument) -> None:
        """Write a report of ``night`` that shows ``runs``; its suffix selects the format."""


def run_nightly(
    prepared: Prepared,
    units_file: Path | None,
    writer: ReportWriter,
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
        writer: Writes the reports that the plan lists.
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
        return run_to_end(night, effects, writer)


def run_to_end(night: Night, effects: Stoppable, writer: ReportWriter) -> NightDocument:
    """Run the remaining steps of a nightly run, and finish it.

    Raises:
        HarnessError: The quarantine file is invalid, or the journal cannot be written.
    """
    plan, document = night.prepared.plan, night.prepared.document
    today = moment(night.began_utc).date()
    quarantine = no_quarantine(today)
    if plan.quarantine is not None:
        # Read here, so that an invalid file is reported before anything starts.
        earlier = outcomes_of_nights(earlier_nights(night.directory, plan.name))
        quarantine = with_passes(path_of(document, plan.quarantine), earlier, today)
    for report in plan.reports:
        writer.check_report_file(night.directory / report)
    night.work(effects)
    account = Account(night.journal.records)
    outcomes = outcomes_of(night.prepared.all_steps, account, quarantine)
    troubles, notes = _store(night, effects)
    troubles += _damaged_results(night)
    arms: tuple[ArmComparison, ...] = ()
    try:
        labels = [variant.label for variant in plan.variants]
        tonight = [ended.attempt.result for ended in ended_attempts(night)]
        compared = compare_arms(
            night.directory, outcomes, labels, _baseline(night), [*filter(None, tonight)]
        )
        arms = tuple(compared)
    except HarnessError as error:
        troubles.append(_trouble(error))
    status = quarantine.status(outcomes)
    found = summary_of(night, account, outcomes, arms, troubles, notes, status)
    if plan.reports:
        late = _report(night, found, writer)
        found = summary_of(night, account, outcomes, arms, [*troubles, *late], notes, status)
    write_document(night.directory, found)
    night.finish(found.exit_code)
    return found


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


def summary_of(
    night: Night,
    account: Account,
    outcomes: Sequence[StepOutcome],
    arms: tuple[ArmComparison, ...],
    troubles: Sequence[Trouble],
    notes: Sequence[str],
    quarantine: tuple[QuarantineStatus, ...],
) -> NightDocument:
    """Return the summary of a nightly run."""
    prepared = night.prepared
    units = units_summary(prepared.units, outcomes, account)
    attempts = [attempt for ended in account.attempts.values() for attempt in ended]
    interrupted = sum(attempt.outcome == "interrupted" for attempt in attempts)
    fails = prepared.plan.not_run == "fail"
    code = exit_code_of(outcomes, units, arms, troubles, not_run_fails=fails)
    return NightDocument(
        name=prepared.plan.name,
        night=night.name,
        tool_version=__version__,
        directory=str(night.directory),
        started_utc=night.began_utc,
        ended_utc=now_utc(),
        exit_code=code,
        passed=code == 0,
        steps=len(outcomes),
        attempts=len(attempts) - interrupted,
        interrupted=interrupted,
        counts=counts_of(outcomes),
        outcomes=tuple(outcomes),
        units=units,
        arms=arms,
        quarantine=quarantine,
        troubles=tuple(troubles),
        notes=tuple(notes),
    )


def outcomes_of(
    steps: Iterable[NightlyStep], account: Account, quarantined: Quarantined = lambda _: ""
) -> tuple[StepOutcome, ...]:
    """Return the outcome of every step."""
    found = []
    for step in steps:
        outcome = _outcome(step, account)
        if outcome.outcome == "fail":
            outcome = replace(outcome, quarantine=quarantined(outcome))
        found.append(outcome)
    return tuple(found)


def units_summary(
    units: Sequence[NightUnit], outcomes: Sequence[StepOutcome], account: Account
) -> tuple[UnitOutcome, ...]:
    """Return the outcome of every unit, in the order of the plan."""
    by_unit: dict[str, list[StepOutcome]] = {unit.id: [] for unit in units}
    for outcome in outcomes:
        by_unit[outcome.step.unit].append(outcome)
    return tuple(_unit(unit, by_unit[unit.id], account.events.get(unit.id, [])) for unit in units)


def counts_of(outcomes: Sequence[StepOutcome]) -> dict[str, int]:
    """Return the numbers of steps: passed, flaky, failed by owner, quarantined, not run."""
    counted = dict.fromkeys(["pass", "flaky", *map(str, EXIT_CODES), "quarantined", "not run"], 0)
    for outcome in outcomes:
        if outcome.outcome == "pass":
            counted["pass"] += 1
            counted["flaky"] += outcome.flaky
        elif outcome.outcome == "not run":
            counted["not run"] += 1
        elif outcome.quarantine:
            counted["quarantined"] += 1
        else:
            counted[str(outcome.owner or Owner.HOST)] += 1
    return counted


def exit_code_of(
    outcomes: Iterable[StepOutcome],
    units: Iterable[UnitOutcome],
    arms: Iterable[ArmComparison],
    troubles: Iterable[Trouble],
    *,
    not_run_fails: bool,
) -> int:
    """Return the exit code: the code of the owner of the worst failure.

    A nightly run in which nothing ran fails in any case: it tested no model.
    """
    outcomes = list(outcomes)
    nothing_ran = all(outcome.outcome == "not run" for outcome in outcomes)
    owners = {outcome.owner or Owner.HOST for outcome in outcomes if outcome.counts}
    owners |= {Owner.PRODUCT for arm in arms if not arm.passed}
    owners |= {trouble.owner for trouble in troubles}
    if not_run_fails or nothing_ran:
        owners |= {unit.owner or Owner.HOST for unit in units if unit.not_run}
    return next((code for owner, code in EXIT_CODES.items() if owner in owners), 0)


def _outcome(step: NightlyStep, account: Account) -> StepOutcome:
    attempts = tuple(account.attempts.get(step, ()))
    ended = ended_of(attempts)
    if not ended:
        last = _end(account.events.get(step.unit, []))
        owner, why = (last.owner, f"{last.what}: {last.message}") if last else (None, "not reached")
        return StepOutcome(step=step, outcome="not run", owner=owner, why=why, attempts=attempts)
    last_attempt = ended[-1]
    if last_attempt.outcome == "pass":
        return StepOutcome(step=step, outcome="pass", attempts=attempts)
    return StepOutcome(
        step=step,
        outcome="fail",
        owner=last_attempt.owner,
        why=last_attempt.message,
        attempts=attempts,
    )


def _unit(
    unit: NightUnit, outcomes: Sequence[StepOutcome], events: Sequence[UnitEvent]
) -> UnitOutcome:
    failed = Counter(o.owner or Owner.HOST for o in outcomes if o.counts)
    not_run = sum(o.outcome == "not run" for o in outcomes)
    last = _end(events)
    state = "well"
    if last is not None and (not_run or last.what == "benched"):
        state = last.what
    elif not_run:
        state = "interrupted"
    return UnitOutcome(
        unit=unit.id,
        board=unit.board.name,
        state=state,  # type: ignore[arg-type]
        owner=last.owner if last and state != "well" else None,
        why=last.message if last and state != "well" else "",
        passed=sum(o.outcome == "pass" for o in outcomes),
        flaky=sum(o.flaky for o in outcomes),
        failed=dict(failed),
        quarantined=sum(bool(o.quarantine) for o in outcomes),
        not_run=not_run,
        power_cycles=sum(event.what == "power cycled" for event in events),
        events=tuple(events),
    )


def _end(events: Sequence[UnitEvent]) -> UnitEvent | None:
    """Return the event that ended the work of a unit, unless it was well afterwards."""
    for event in reversed(events):
        if event.what in _ENDS:
            return event
        if event.what in ("well", "leased"):
            return None
    return None


def _store(night: Night, effects: Stoppable) -> tuple[list[Trouble], list[str]]:
    """Add all results to the history, and those of earlier nightly runs that are not in it."""
    plan = night.prepared.plan
    if plan.history is None:
        return [], []
    url = history_url(night.prepared.document, plan.history)
    notes: list[str] = []
    for folder in unstored_nights(night.directory, plan.name):
        added, trouble = store_late(folder, url, effects.utc, effects.sleep)
        notes += added
        if trouble is not None:
            return [trouble], notes
    refused, trouble = store_results(url, result_directories(night.directory, night), effects.sleep)
    if trouble is not None:
        return [trouble], notes
    night.record(Stored(effects.utc()))
    return [], notes + refused


def _damaged_results(night: Night) -> list[Trouble]:
    """Return a trouble for each run directory with damaged files.

    Comparison and reports leave such runs out without a message; the message is here.
    """
    troubles = []
    for path in result_directories(night.directory, night):
        try:
            RunDirectory(path).load_result()
        except DamagedError as error:
            troubles.append(_trouble(error))
        except (HarnessError, OSError):
            continue  # the history reports an unreadable result
    return troubles


def result_directories(directory: Path, night: Night) -> list[Path]:
    """Return the run directories of all attempts with a result."""
    ended = ended_attempts(night)
    return [directory / item.attempt.directory for item in ended if item.attempt.result]


def _baseline(night: Night) -> HistoryRef | None:
    return None if night.prepared.plan.baseline is None else _history(night)


def _history(night: Night) -> HistoryRef | None:
    """Return the history of the plan, with its baseline or the default one."""
    plan = night.prepared.plan
    if plan.history is None:
        return None
    url = history_url(night.prepared.document, plan.history)
    return HistoryRef(url, parse_baseline(plan.baseline) if plan.baseline else DEFAULT_BASELINE)


def _report(night: Night, document: NightDocument, writer: ReportWriter) -> list[Trouble]:
    """Write all reports; return the troubles."""
    troubles: list[Trouble] = []
    runs = []
    history = _history(night)
    for path in shown_runs(document.outcomes):
        try:
            run = evaluate_path(night.directory / path)
            runs.append(run if history is None else with_trends(run, history))
        except (HarnessError, OSError) as error:
            message = error.message if isinstance(error, HarnessError) else str(error)
            troubles.append(
                Trouble(owner=Owner.HOST, message=f"{path} is missing from the reports: {message}")
            )
    for name in night.prepared.plan.reports:
        try:
            writer.write_report(night.directory / name, runs, document)
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


def write_document(directory: Path, document: NightDocument) -> None:
    """Write ``night.json`` atomically."""
    write_atomic(directory / DOCUMENT, encode(document))
