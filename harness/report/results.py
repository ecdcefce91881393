"""Evaluated runs as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from harness.analyze.roofline import Bound, RooflinePoint
from harness.analyze.statistics import Summary
from harness.check.history.comparison import HistoryComparison
from harness.formatting import (
    printable,
    with_printable_keys,
    with_printable_names,
    with_printable_text,
)
from harness.records.nightly import NightDocument
from harness.records.result import Result, encode
from harness.records.signature import Signature
from harness.records.verdict import Check
from harness.report.description import RunDescription, describe
from harness.report.facts import LossKind
from harness.report.operators import OperatorRow
from harness.runs.evaluation import EvaluatedRun, all_passed

_STATISTICS: Final = ("total", "avg", "p50", "p90", "min", "max")


class ReportedRoofline(msgspec.Struct, frozen=True):
    """An operator against what its core can do at most.

    ``bytes`` are those of its tensors, ``cycles`` the median of the measured ones, and
    ``fewest_cycles`` what the core needs at least. ``bound`` says what limits the operator.
    """

    macs: int
    bytes: int
    cycles: float
    fewest_cycles: float
    bound: Bound


class ReportedOperator(Signature, frozen=True, omit_defaults=True):
    """An operator, or a scope around operators.

    Times are in ``unit``: ``ns``, or ``ticks`` if the rate of ``clock`` is unknown. They are null
    if all durations are unknown, which ``unknown`` counts. ``cold`` is the average in the first
    execution after loading. ``share`` is the total time as a share of the wall time of executions,
    or of loading, null if that is unknown (docs/reports.md). ``counters`` are statistics of what
    each hardware counter counted, over the events with a count; absent if none was recorded.
    ``roofline`` is its work against what the core can do; absent where that is unknown.
    """

    clock: str
    count: int
    unknown: int
    unit: str
    total: float | None
    avg: float | None
    p50: float | None
    p90: float | None
    min: float | None
    max: float | None
    cold: float | None
    share: float | None
    counters: dict[str, Summary] = msgspec.field(default_factory=dict)
    roofline: ReportedRoofline | None = None


class ReportedLoss(msgspec.Struct, frozen=True):
    """A number of things that are missing.

    ``lost`` makes totals lower bounds. ``by request`` was left out on purpose. ``harmless`` was
    sent again, or is missing from a copy only. ``note`` says where it is missing and what to try,
    "" if that is unknown.
    """

    what: str
    count: int
    kind: LossKind
    note: str


class ReportedDocument(msgspec.Struct, frozen=True):
    """An evaluated run, or a trace alone.

    ``passed`` is false for a run that failed, too; why is in its ``result``, which is null for a
    trace alone. ``headline`` is the verdict in a sentence. ``events`` is null for a run that left
    no trace. ``checks`` are all that were made now, failed ones first; those of the result were
    made when it ran. ``comparison`` is null without a comparison with history. ``operators`` and
    ``scopes`` are of executions, ``loading`` is everything outside them; each has the largest
    median times calls first.
    """

    title: str
    passed: bool
    headline: str
    events: int | None
    checks: tuple[Check, ...]
    operators: tuple[ReportedOperator, ...]
    scopes: tuple[ReportedOperator, ...]
    loading: tuple[ReportedOperator, ...]
    losses: tuple[ReportedLoss, ...]
    comparison: HistoryComparison | None
    result: Result | None


class ReportDocument(msgspec.Struct, frozen=True):
    """What ``etharness report --json`` prints, and ``--report FILE.json`` writes.

    ``night`` is the nightly run that the runs are a part of; null without one.
    """

    passed: bool
    runs: list[ReportedDocument]
    night: NightDocument | None = None


def report_document(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return the JSON of ``runs``, and of the nightly run that they are of."""
    documents = [_reported(describe(run)) for run in runs]
    passed = all_passed(runs) if night is None else night.passed
    return encode(ReportDocument(passed, documents, night))


def _reported(run: RunDescription) -> ReportedDocument:
    table, subject, comparison = run.operators, run.run.subject, run.run.comparison
    places = {} if run.roofline is None else {id(i.row): i.point for i in run.roofline.rows}
    return ReportedDocument(
        title=run.title,
        passed=run.verdict.outcome == "pass",
        headline=run.verdict.headline,
        events=None if subject is None else len(subject.trace),
        checks=tuple(with_printable_text(row.check) for row in run.verdict.checks),
        operators=tuple(_operator(row, places.get(id(row))) for row in table.operators)
        if table is not None
        else (),
        scopes=tuple(map(_operator, table.scopes)) if table is not None else (),
        loading=tuple(map(_operator, table.loading)) if table is not None else (),
        losses=tuple(
            ReportedLoss(item.what, item.count, item.kind, item.note) for item in run.losses
        ),
        comparison=comparison and _printable_comparison(comparison),
        result=run.run.result,
    )


def _operator(row: OperatorRow, point: RooflinePoint | None = None) -> ReportedOperator:
    op, times = row.operator, row.operator.times
    values = [None if times is None else getattr(times, name) for name in _STATISTICS]
    values += [None if op.cold is None else op.cold.avg, row.share]
    found = ReportedOperator(
        *with_printable_names(op).signature,
        printable(op.clock.name),
        row.count,
        op.unknown,
        "ticks" if op.clock.hz is None else "ns",
        *values,  # type: ignore[arg-type]  # all of them numbers or None
    )
    found = replace(found, counters=with_printable_keys(op.counters))
    if point is None:
        return found
    place = ReportedRoofline(point.macs, point.bytes, point.cycles, point.fewest, point.bound)
    return replace(found, roofline=place)


def _printable_comparison(comparison: HistoryComparison) -> HistoryComparison:
    """The same with texts that JSON can hold."""
    numbers = []
    for number in comparison.numbers:
        metric = number.metric
        delegate = metric.delegate_str and printable(metric.delegate_str)
        name, block = printable(metric.name), printable(metric.block)
        metric = replace(metric, name=name, block=block, delegate_str=delegate)
        unit, reason = printable(number.board_unit), printable(number.reason)
        numbers.append(replace(number, metric=metric, board_unit=unit, reason=reason))
    return replace(
        comparison,
        description=printable(comparison.description),
        units=tuple(map(printable, comparison.units)),
        numbers=tuple(numbers),
        notes=tuple(map(printable, comparison.notes)),
    )
