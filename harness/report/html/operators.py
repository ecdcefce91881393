"""Operators as bars: how long each takes beside the one that takes longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analyze.statistics import Operator
from harness.report.limits import Limits, left_out
from harness.report.operators import OperatorListing, OperatorRow, total_time


@dataclass(frozen=True, slots=True)
class OperatorBar:
    """An operator, and places on its bar in percent of the longest one on comparable clocks."""

    row: OperatorRow
    p50: float
    avg: float
    p90: float


@dataclass(frozen=True, slots=True)
class OperatorBars:
    """The operators of a run.

    Attributes:
        table: What is shown.
        operators: The longest operators.
        scopes: The longest scopes.
        more: How many operators are left out.
        more_share: Their share of the total time of all operators.
        more_scopes: How many scopes are left out.
    """

    table: OperatorListing
    operators: tuple[OperatorBar, ...]
    scopes: tuple[OperatorBar, ...]
    more: int
    more_share: float
    more_scopes: int


def operator_bars(table: OperatorListing, limits: Limits) -> OperatorBars:
    """Draw the bars of a table, the first ``limits.rows`` of each kind."""
    totals = [total_time(row.operator) for row in table.operators]
    everything, rest = sum(totals), sum(totals[limits.rows :])
    return OperatorBars(
        table=table,
        operators=_bars(table.operators[: limits.rows]),
        scopes=_bars(table.scopes[: limits.rows]),
        more=left_out(len(table.operators), limits.rows),
        more_share=rest / everything if everything else 0.0,
        more_scopes=left_out(len(table.scopes), limits.rows),
    )


def _bars(rows: Sequence[OperatorRow]) -> tuple[OperatorBar, ...]:
    longest: dict[str, float] = {}
    for row in rows:
        if (times := row.operator.times) is not None:
            scale = _scale(row.operator)
            longest[scale] = max(longest.get(scale, 0.0), times.p90, times.avg)
    return tuple(_bar(row, longest.get(_scale(row.operator), 0.0)) for row in rows)


def _scale(op: Operator) -> str:
    """The clock whose times compare; empty for all clocks of known rate."""
    return op.clock.name if op.ns is None else ""


def _bar(row: OperatorRow, longest: float) -> OperatorBar:
    times = row.operator.times
    if times is None or not longest:
        return OperatorBar(row, 0.0, 0.0, 0.0)
    places = (round(100 * value / longest, 2) for value in (times.p50, times.avg, times.p90))
    return OperatorBar(row, *places)
