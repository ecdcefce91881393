"""Runs a nightly run to its end: the steps, the history, the comparison of arms, the reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Final, Protocol

from harness import __version__
from harness.check.history.baseline import parse_baseline
from harness.errors import DamagedError, HarnessError, Owner, UsageError
from harness.files import write_atomic
from harness.nightly.arms import compare_arms
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
from harness.nightly.journal import Record, Stored
from harness.nightly.orchestrator import Night, Prepared, Stoppable, ended_attempts, open_night
from harness.nightly.plan import path_of
from harness.nightly.quarantine import no_quarantine, outcomes_of_nights, with_passes
from harness.nightly.summary import counts_of, exit_code_of, outcomes_of, units_summary
from harness.records.nightly import (
    ArmComparison,
    NightDocument,
    QuarantineStatus,
    StepOutcome,
    Trouble,
    worst_first,
)
from harness.records.result import encode, moment, now_utc
from harness.runs.baseline import HistoryRef
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import EvaluatedRun, evaluate_path

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
    on_record: Callable[[Record], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> NightDocument:
    """Resume the unfinished nightly run or begin a new one, and run it to its end.

    Args:
        prepared: The plan.
        units_file: The lab's ``units.toml``; None for the default.
        writer: Writes the reports that the plan lists.
        fresh: Begin a new one in any case.
        on_record: Called with every record added to the journal.
        on_message: Called with further messages for people.

    Raises:
        HarnessError: The nightly run cannot begin, or its journal cannot be written.
    """
    night = open_night(prepared, fresh=fresh, on_record=on_record)
    with night.journal:
        verb = "resumes" if night.resumed else "begins"
        on_message(f"{night.name} {verb} in {night.directory}")
        if night.journal.dropped:
            on_message(f"dropped {night.journal.dropped} bytes of a torn line of the journal")
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
    outcomes = outcomes_of(night.prepared.all_steps, night.progress, quarantine)
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
    found = summary_of(night, outcomes, arms, troubles, notes, quarantine.status(outcomes))
    if plan.reports:
        late = _report(night, found, writer)
        found = summary_of(
            night, outcomes, arms, [*troubles, *late], notes, quarantine.status(outcomes)
        )
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
    outcomes: Sequence[StepOutcome],
    arms: tuple[ArmComparison, ...],
    troubles: Sequence[Trouble],
    notes: Sequence[str],
    quarantine: tuple[QuarantineStatus, ...],
) -> NightDocument:
    """Return the summary of a nightly run."""
    prepared = night.prepared
    units = units_summary(prepared.units, outcomes, night.progress)
    attempts = [ended.attempt for ended in ended_attempts(night)]
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
    plan = night.prepared.plan
    if plan.baseline is None or plan.history is None:
        return None
    url = history_url(night.prepared.document, plan.history)
    return HistoryRef(url, parse_baseline(plan.baseline))


def _report(night: Night, document: NightDocument, writer: ReportWriter) -> list[Trouble]:
    """Write all reports; return the troubles."""
    troubles: list[Trouble] = []
    runs = []
    for path in shown_runs(document.outcomes):
        try:
            runs.append(evaluate_path(night.directory / path))
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
