"""Tables of a nightly run, shared by all reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.records.nightly import (
    EXIT_CODES,
    NightDocument,
    QuarantineStatus,
    StepOutcome,
    worst_first,
)


@dataclass(frozen=True, slots=True)
class NightTable:
    """A table.

    Attributes:
        title: Heading.
        headers: One per column.
        rows: Cells.
        numbers: Columns of numbers.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()


def headline(night: NightDocument) -> str:
    """Return the outcome of a nightly run in a sentence."""
    counts = night.counts
    parts = [f"{counts['pass']:,} of {night.steps:,} steps passed"]
    parts += [f"{count:,} {name}" for name, count in counts.items() if count and name != "pass"]
    slower = sum(not side.passed for side in night.sides)
    parts += [f"{slower} comparisons with regressions"] if slower else []
    text = ", ".join(parts)
    return f"PASS: {text}" if night.passed else f"FAIL ({night.exit_code}): {text}"


def tables(night: NightDocument) -> Iterator[NightTable]:
    """Yield the tables of a nightly run that are not empty, the most important first."""
    for table in (_failed(night), _not_run(night), _troubles(night), _sides(night)):
        if table.rows:
            yield table
    yield _units(night)
    for table in (_flaky(night), _quarantined(night), quarantine_table(night.quarantine)):
        if table.rows:
            yield table


def _units(night: NightDocument) -> NightTable:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ("unit", "board", "state", "pass", "flaky", *owners, "quarantined", "not run")
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.passed, unit.flaky, *(failed.get(owner, 0) for owner in owners)]
        numbers += [unit.quarantined, unit.not_run, unit.power_cycles]
        rows.append((unit.unit, unit.board, unit.state, *(f"{count:,}" for count in numbers)))
    headers = (*headers, "power cycles")
    return NightTable("Units", headers, tuple(rows), tuple(range(3, len(headers))))


def _failed(night: NightDocument) -> NightTable:
    rows = [
        (str(o.owner or ""), str(o.step), str(len(o.failures)), o.why, _place(o))
        for o in worst_first(night.outcomes)
    ]
    headers = ("owner", "step", "attempts", "why", "directory")
    return NightTable("What failed", headers, tuple(rows), (2,))


def _not_run(night: NightDocument) -> NightTable:
    rows = [
        (unit.unit, unit.state, str(unit.owner or ""), unit.why, f"{unit.not_run:,}")
        for unit in night.units
        if unit.not_run or unit.state != "well"
    ]
    headers = ("unit", "state", "owner", "why", "steps not run")
    return NightTable("Units that did not do all", headers, tuple(rows), (4,))


def _troubles(night: NightDocument) -> NightTable:
    rows = [(str(t.owner), t.message, t.hint) for t in night.troubles]
    return NightTable("What went wrong besides", ("owner", "what", "try"), tuple(rows))


def _sides(night: NightDocument) -> NightTable:
    rows = [
        ("pass" if s.passed else "FAIL", s.board, s.model, s.before, s.after, s.said)
        for s in night.sides
    ]
    headers = ("", "board", "model", "before", "after", "what changed")
    return NightTable("Comparison", headers, tuple(rows))


def _flaky(night: NightDocument) -> NightTable:
    rows = [
        (str(o.step), o.told, o.failures[-1].message, _place(o)) for o in night.outcomes if o.flaky
    ]
    headers = ("step", "how", "what failed before", "directory")
    return NightTable("Passed, but not at once", headers, tuple(rows))


def _quarantined(night: NightDocument) -> NightTable:
    rows = [
        (str(o.owner or ""), str(o.step), o.why, o.quarantine)
        for o in night.outcomes
        if o.quarantine
    ]
    headers = ("owner", "step", "why", "known as")
    return NightTable("Failures that are known and do not count", headers, tuple(rows))


def quarantine_table(entries: Sequence[QuarantineStatus]) -> NightTable:
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
    return NightTable("Quarantine", headers, tuple(rows), (7,))


def _place(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].directory if outcome.attempts else ""
