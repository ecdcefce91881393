"""A whole night: what its boards do, then the history, the comparison, the reports, the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, Protocol

from harness import __version__
from harness.check.history.baseline import parse_baseline
from harness.errors import DamagedError, HarnessError, Owner, UsageError
from harness.nightly.arms import compare_sides
from harness.nightly.commands import Commands
from harness.nightly.folder import nights
from harness.nightly.journal import Record, Stored
from harness.nightly.orchestrator import Night, Prepared, Stoppable, ended_attempts, open_night
from harness.nightly.plan import path_of
from harness.nightly.previous import (
    DOCUMENT,
    documents,
    earlier_nights,
    history_url,
    keep_late,
    keep_results,
    unstored_nights,
)
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
from harness.records.result import encode
from harness.records.timestamps import moment
from harness.runs.baseline import HistoryRef
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import judged_path
from harness.runs.judged_run import NOTHING_GIVEN, JudgedRun
from harness.runs.source import Source, load_given


class ReportWriter(Protocol):
    """Writes reports of a nightly run; the caller chooses it, so this room needs no renderer."""

    def check_report_file(self, file: Path) -> None:
        """Raise UsageError unless a report can be written to ``file``."""

    def write_report(self, file: Path, runs: Sequence[JudgedRun], night: NightDocument) -> None:
        """Write a report of ``night`` that shows ``runs``; its suffix selects the format."""


_MOST_FAILED: Final = 100
"""Failed runs that reports show in full."""


def whole_night(
    prepared: Prepared,
    units_file: Path | None,
    writer: ReportWriter,
    *,
    fresh: bool = False,
    told: Callable[[Record], None] = lambda _: None,
    said: Callable[[str], None] = lambda _: None,
) -> NightDocument:
    """Go on with the night that was not finished or begin one, and bring it to its end.

    Args:
        prepared: What is to be done.
        units_file: The lab's units; None for the default place.
        writer: Writes the reports that the plan asks for.
        fresh: Begin a new one in any case.
        told: Called with everything that is written into the journal.
        said: Called with what else people should know on the way.

    Raises:
        HarnessError: It cannot be begun, or its journal cannot be kept.
    """
    night = open_night(prepared, fresh=fresh, told=told)
    with night.journal:
        said(f"{night.name}: {'goes on' if night.resumed else 'begins'} in {night.directory}")
        if night.journal.dropped:
            said(f"{night.journal.dropped} bytes of a torn line of its journal were dropped")
        effects = Commands(
            prepared.plan, prepared.document, units_file, night.directory, night.name
        )
        return end_of(night, effects, writer)


def end_of(night: Night, effects: Stoppable, writer: ReportWriter) -> NightDocument:
    """Do what is left of a night, and end it.

    Raises:
        HarnessError: The quarantine file is wrong, or the journal cannot be kept.
    """
    plan, document = night.prepared.plan, night.prepared.document
    today = moment(night.began_utc).date()
    quarantine = no_quarantine(today)
    if plan.quarantine is not None:
        # What is wrong with it shows before anything is started.
        earlier = outcomes_of_nights(earlier_nights(night.directory, plan.name))
        quarantine = with_passes(path_of(document, plan.quarantine), earlier, today)
    for report in plan.reports:
        writer.check_report_file(night.directory / report)
    night.work(effects)
    outcomes = outcomes_of(night.prepared.all_steps, night.progress, quarantine)
    troubles, notes = _keep(night, effects)
    troubles += _damaged(night)
    sides: tuple[ArmComparison, ...] = ()
    try:
        labels = [variant.label for variant in plan.variants]
        tonight = [ended.attempt.result for ended in ended_attempts(night)]
        found_sides = compare_sides(
            night.directory, outcomes, labels, _baseline(night), [*filter(None, tonight)]
        )
        sides = tuple(found_sides)
    except HarnessError as error:
        troubles.append(_trouble(error))
    found = summary_of(night, outcomes, sides, troubles, notes, quarantine.status(outcomes))
    if plan.reports:
        late = _report(night, found, writer)
        found = summary_of(
            night, outcomes, sides, [*troubles, *late], notes, quarantine.status(outcomes)
        )
    write_document(night.directory, found)
    night.finish(found.exit_code)
    return found


def quarantine_of(prepared: Prepared, today: date) -> tuple[QuarantineStatus, ...]:
    """How the entries of a plan's quarantine stand after all nights that there were.

    Raises:
        UsageError: The plan names no quarantine, or its file is wrong.
    """
    plan = prepared.plan
    if plan.quarantine is None:
        raise UsageError(
            f"{prepared.document.path} names no quarantine",
            hint='say where it is with quarantine = "quarantine.toml"',
        )
    past = outcomes_of_nights(documents(nights(prepared.output, plan.name)))
    return with_passes(path_of(prepared.document, plan.quarantine), past, today).status(())


def summary_of(
    night: Night,
    outcomes: Sequence[StepOutcome],
    sides: tuple[ArmComparison, ...],
    troubles: Sequence[Trouble],
    notes: Sequence[str],
    quarantine: tuple[QuarantineStatus, ...],
) -> NightDocument:
    """What came of a night."""
    prepared = night.prepared
    units = units_summary(prepared.units, outcomes, night.progress)
    attempts = [ended.attempt for ended in ended_attempts(night)]
    interrupted = sum(attempt.outcome == "interrupted" for attempt in attempts)
    fails = prepared.plan.not_run == "fail"
    code = exit_code_of(outcomes, units, sides, troubles, not_run_fails=fails)
    return NightDocument(
        name=prepared.plan.name,
        night=night.name,
        tool_version=__version__,
        directory=str(night.directory),
        started_utc=night.began_utc,
        ended_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        exit_code=code,
        passed=code == 0,
        steps=len(outcomes),
        attempts=len(attempts) - interrupted,
        interrupted=interrupted,
        counts=counts_of(outcomes),
        outcomes=tuple(outcomes),
        units=units,
        sides=sides,
        quarantine=quarantine,
        troubles=tuple(troubles),
        notes=tuple(notes),
    )


def _keep(night: Night, effects: Stoppable) -> tuple[list[Trouble], list[str]]:
    """Add all results to the history, with those of earlier nights that could not be added."""
    plan = night.prepared.plan
    if plan.history is None:
        return [], []
    url = history_url(night.prepared.document, plan.history)
    notes: list[str] = []
    for folder in unstored_nights(night.directory, plan.name):
        added, trouble = keep_late(folder, url, effects.utc, effects.sleep)
        notes += added
        if trouble is not None:
            return [trouble], notes
    refused, trouble = keep_results(url, result_directories(night.directory, night), effects.sleep)
    if trouble is not None:
        return [trouble], notes
    night.record(Stored(effects.utc()))
    return [], notes + refused


def _damaged(night: Night) -> list[Trouble]:
    """Run directories of this one whose files are not as their runs left them.

    What comes after leaves them out, each for itself; here that does not pass in silence.
    """
    troubles = []
    for path in result_directories(night.directory, night):
        try:
            RunDirectory(path).load_result()
        except DamagedError as error:
            troubles.append(_trouble(error))
        except (HarnessError, OSError):
            continue  # a result that cannot be read is said by the history
    return troubles


def result_directories(directory: Path, night: Night) -> list[Path]:
    """Run directories of all attempts that left a result."""
    ended = ended_attempts(night)
    return [directory / item.attempt.directory for item in ended if item.attempt.result]


def _baseline(night: Night) -> HistoryRef | None:
    plan = night.prepared.plan
    if plan.baseline is None or plan.history is None:
        return None
    url = history_url(night.prepared.document, plan.history)
    return HistoryRef(url, parse_baseline(plan.baseline))


def _report(night: Night, document: NightDocument, writer: ReportWriter) -> list[Trouble]:
    """Write all reports; what cannot be written is said."""
    troubles: list[Trouble] = []
    runs = []
    for path in shown_runs(document.outcomes):
        try:
            runs.append(judged_path(night.directory / path, load_source_of))
        except (HarnessError, OSError) as error:
            message = error.message if isinstance(error, HarnessError) else str(error)
            troubles.append(Trouble(owner=Owner.HOST, message=f"{path} is in no report: {message}"))
    for name in night.prepared.plan.reports:
        try:
            writer.write_report(night.directory / name, runs, document)
        except HarnessError as error:
            troubles.append(_trouble(error))
    return troubles


def load_source_of(path: Path) -> Source:
    """Read what is in a run directory."""
    return load_given(path, NOTHING_GIVEN)


def shown_runs(outcomes: Sequence[StepOutcome]) -> list[str]:
    """Run directories that reports show in full: what failed, and the last run of each kind."""
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
    """Write ``night.json``, whole or not at all."""
    partial = directory / ".night.json.partial"
    partial.write_bytes(encode(document))
    partial.replace(directory / DOCUMENT)
