"""Tables of a nightly run, shared by all reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.records.nightly import (
    EXIT_CODES,
    NightDocument,
    NightVerdict,
    QuarantineStatus,
    StepOutcome,
    state_counts,
    worst_first,
)
from harness.report.words import OUTCOME_WORDS, ReportTable, counted, counts_text, word_of


def counts_sentence(night: NightVerdict) -> str:
    """Return how the planned runs of a nightly run ended, such as ``2 planned runs: 2 passed``."""
    return f"{counted(night.steps, 'planned run')}: {counts_text(state_counts(night.counts))}"


def tables(night: NightDocument) -> Iterator[ReportTable]:
    """Yield the tables of a nightly run that are not empty, the most important first."""
    for table in (_causes(night), _failed(night), _not_run(night), _troubles(night), _sides(night)):
        if table.rows:
            yield table
    yield _units(night)
    for table in (_flaky(night), _quarantined(night), quarantine_table(night.quarantine)):
        if table.rows:
            yield table


def _causes(night: NightDocument) -> ReportTable:
    rows = [
        (word_of(cause.state), cause.sentence, f"{cause.runs:,}", cause.command)
        for cause in night.causes
    ]
    return ReportTable("What failed", ("", "what", "runs", "next"), rows, (2,))


def _units(night: NightDocument) -> ReportTable:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ("unit", "board", "state", "pass", "flaky", "regression", *owners)
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.passed, unit.flaky, unit.regressions]
        numbers += [failed.get(owner, 0) for owner in owners]
        numbers += [unit.quarantined, unit.not_run, unit.power_cycles]
        rows.append((unit.unit, unit.board, unit.state, *(f"{count:,}" for count in numbers)))
    headers = (*headers, "quarantined", "not made", "power cycles")
    return ReportTable("Units", headers, rows, range(3, len(headers)))


def _failed(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.owner or ""), str(o.step), str(len(o.failures)), o.why, _place(o))
        for o in worst_first(night.outcomes)
        if o.outcome == "fail"
    ]
    headers = ("owner", "run", "attempts", "why", "directory")
    return ReportTable("Failed runs", headers, rows, (2,))


def _not_run(night: NightDocument) -> ReportTable:
    rows = [
        (unit.unit, unit.state, str(unit.owner or ""), unit.why, f"{unit.not_run:,}")
        for unit in night.units
        if unit.not_run or unit.state != "well"
    ]
    headers = ("unit", "state", "owner", "why", "runs not made")
    return ReportTable("Units with skipped runs", headers, rows, (4,))


def _troubles(night: NightDocument) -> ReportTable:
    rows = [(str(t.owner), t.message, t.hint) for t in night.troubles]
    return ReportTable("Other failures", ("owner", "what", "try"), rows)


def _sides(night: NightDocument) -> ReportTable:
    rows = [
        (
            OUTCOME_WORDS["pass" if s.passed else "fail"],
            s.board,
            s.model,
            s.before,
            s.after,
            s.summary,
        )
        for s in night.arms
    ]
    headers = ("", "board", "model", "before", "after", "what changed")
    return ReportTable("Comparison", headers, rows)


def _flaky(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.step), o.told, o.failures[-1].message, _place(o)) for o in night.outcomes if o.flaky
    ]
    headers = ("step", "how", "what failed before", "directory")
    return ReportTable("Passed after a retry", headers, rows)


def _quarantined(night: NightDocument) -> ReportTable:
    rows = [
        (str(o.owner or ""), str(o.step), o.why, o.quarantine)
        for o in night.outcomes
        if o.quarantine
    ]
    headers = ("owner", "step", "why", "known as")
    return ReportTable("Known failures, which do not count", headers, rows)


def quarantine_table(entries: Sequence[QuarantineStatus]) -> ReportTable:
    """Return the status of quarantine entries."""
    said = {
        "applies": "applies",
        "ready": "ready to be removed",
        "proved": "proved: counts again, remove it",
        "expired": "expired: counts again",
    }
    rows = [
        (
            *(said[e.state], e.about, e.reason, e.owner, e.issue, e.expires),
            *(f"{e.passes} of {e.wanted}", str(e.excused)),
        )
        for e in entries
    ]
    headers = ("state", "about", "reason", "owner", "issue", "until", "passes", "excused tonight")
    return ReportTable("Quarantine", headers, rows, (7,))


def _place(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].directory if outcome.attempts else ""
