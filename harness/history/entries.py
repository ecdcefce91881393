"""Selection of stored results, and the entry that a store records for a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.check.history.measure import (
    HistoryNumbers,
    history_numbers,
    numbers_of,
    program_outline,
    ticks_of,
)
from harness.check.history.samples import (
    HistoryLimits,
    LinkFigures,
    Measured,
    Provenance,
    StoredResult,
)
from harness.check.subject import Subject
from harness.errors import NotComparableError
from harness.records.result import Result, VerdictRecord, bytes_carried, corrupt_frames
from harness.records.trace import NOTHING_LOST, Losses
from harness.records.verdict import exit_code_of

_INVARIANT: Final = "I"
"""First letter of the codes of invariants."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects results; a field that is None does not restrict them.

    Attributes:
        board: Board type.
        unit: Unit, one physical board.
        model: File name of the model.
        method: Method that ran.
        session: Label for results recorded together.
        commit: Beginning of the tested commit.
        build_id: Build id of the firmware.
        since: Results that began at this time or later, ISO 8601.
        before: Results that began earlier than this, ISO 8601.
        passed: Verdict.
        sound: Whether the result may be part of a baseline.
        ids: Result ids.
        newest: Only this many of the newest results.
        complete: Whether its numbers are part of a series.
        until_us: Results that began at this time or earlier, microseconds since 1970.
        settings: Key of the measurement settings; ``UNRECORDED`` for results without.
    """

    board: str | None = None
    unit: str | None = None
    model: str | None = None
    method: str | None = None
    session: str | None = None
    commit: str | None = None
    build_id: str | None = None
    since: str | None = None
    before: str | None = None
    passed: bool | None = None
    sound: bool | None = None
    ids: Sequence[str] | None = None
    newest: int | None = None
    complete: bool | None = None
    until_us: int | None = None
    settings: str | None = None


def entry_of(
    result: Result, subject: Subject | None = None, verdict: VerdictRecord | None = None
) -> tuple[StoredResult, HistoryNumbers]:
    """Return the entry and the measurements that a store records for a result.

    Args:
        result: The result of the run.
        subject: Its trace with model, outputs and sizes; None for a run without a trace.
        verdict: The verdict to record; by default the result's own.
    """
    verdict = verdict or result.verdict
    kept = history_numbers(subject) if subject is not None else HistoryNumbers({}, {})
    losses = subject.trace.losses if subject is not None else _losses(result)
    complete = subject is not None and _complete(result, losses)
    entry = StoredResult(
        provenance=provenance_of(result, subject),
        duration_s=result.duration_s,
        exit_code=result.exit_code,
        passed=None,
        budget="",
        failed={},
        warned={},
        failure=result.failure.kind if result.failure else "",
        failure_message=result.failure.message if result.failure else "",
        runs_requested=result.runs_requested,
        runs_completed=result.runs_completed,
        link=_link(result),
        clocks=result.clock_quality,
        losses=losses,
        indistinct=kept.indistinct,
        complete=complete,
        sound=complete and result.exit_code == 0,
    )
    return (entry if verdict is None else with_verdict(entry, verdict)), kept


def provenance_of(result: Result, subject: Subject | None = None) -> Provenance:
    """Return the provenance of a result, with the ticks of the clocks of its trace."""
    target, model = result.target, result.model
    return Provenance(
        id=result.id,
        started_utc=result.started_utc,
        board=result.board,
        unit=result.unit,
        model=model.known_as if model else "",
        model_sha256=model.sha256 if model else "",
        method=model.method if model else "",
        build_id=target.build_id if target else "",
        tool_version=result.tool_version,
        commit=result.commit,
        session=result.session,
        settings=result.settings,
        emulated_time=result.emulated_time,
        ticks=ticks_of(subject) if subject is not None else {},
    )


def measured_of(result: Result, subject: Subject, limits: HistoryLimits) -> Measured:
    """Return the values of a result that a comparison within ``limits`` needs."""
    return Measured(
        provenance_of(result, subject), numbers_of(subject, limits), program_outline(subject)
    )


def with_verdict(entry: StoredResult, verdict: VerdictRecord) -> StoredResult:
    """Return the entry of a result with another verdict."""
    failed, warned = _counts(verdict)
    # A failed invariant: the numbers are wrong. A failed limit says nothing of that.
    wrong = any(check.failed and check.code.startswith(_INVARIANT) for check in verdict.checks)
    complete = entry.complete and not wrong
    return msgspec.structs.replace(
        entry,
        passed=verdict.passed,
        budget=verdict.budget,
        failed=failed,
        warned=warned,
        complete=complete,
        sound=complete and _passed(verdict) and not verdict.disturbed,
    )


def _counts(verdict: VerdictRecord) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of failed checks by code: errors, and warnings with notes."""
    failed: dict[str, int] = {}
    warned: dict[str, int] = {}
    for check in verdict.checks:
        if not check.passed:
            counts = failed if check.failed else warned
            counts[check.code] = counts.get(check.code, 0) + 1
    return failed, warned


def _complete(result: Result, losses: Losses) -> bool:
    lost = losses.events or losses.blocks or losses.chunks or losses.records or losses.damaged
    ended = result.failure is None and result.runs_completed >= max(result.runs_requested, 1)
    return ended and not lost


def _passed(verdict: VerdictRecord) -> bool:
    """Whether nothing failed but that the history says too little: more results are the cure.

    A change that is suspect must not become the baseline before it has been measured again.
    """
    too_little = exit_code_of(verdict.checks) == NotComparableError.exit_code
    suspect = any(check.code == "H12" and check.failed for check in verdict.checks)
    return verdict.passed or (too_little and not suspect)


def _losses(result: Result) -> Losses:
    if (trace := result.trace) is None:
        return NOTHING_LOST
    return Losses(
        events=trace.dropped_events,
        blocks=trace.dropped_blocks,
        values=trace.dropped_values,
        runs=trace.dropped_runs,
        chunks=trace.missing_chunks,
        records=trace.missing_records,
    )


def _link(result: Result) -> LinkFigures:
    link = result.link
    read_us = link.get("read_us", 0)
    return LinkFigures(
        baud=result.baud,
        bytes_carried=bytes_carried(link),
        corrupt_frames=corrupt_frames(link),
        retries=link.get("retries", 0),
        goodput=1e6 * link.get("read_bytes", 0) / read_us if read_us else None,
    )
