"""One run on a page: its description, within limits, with the pictures drawn from its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analyze.merged_tree import merged_tree
from harness.analyze.statistics import Operator
from harness.report.description import RunDescription
from harness.report.html.energy import EnergyView, energy_view
from harness.report.html.history import HistoryView, history_view
from harness.report.html.icicle import Icicle, icicles
from harness.report.html.memory import MemoryView, memory_view
from harness.report.html.roofline import RooflineView, roofline_view
from harness.report.operators import OperatorListing, OperatorRow
from harness.report.text import Limits, brief, left_out


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
        loading: The longest events outside executions.
        more: How many operators are left out.
        more_share: The sum of their shares; None if one is unknown.
        more_scopes: How many scopes are left out.
        more_loading: How many events outside executions are left out.
    """

    table: OperatorListing
    operators: tuple[OperatorBar, ...]
    scopes: tuple[OperatorBar, ...]
    loading: tuple[OperatorBar, ...]
    more: int
    more_share: float | None
    more_scopes: int
    more_loading: int


def operator_bars(table: OperatorListing, limits: Limits) -> OperatorBars:
    """Draw the bars of a table, the first ``limits.rows`` of each kind."""
    rest = [row.share for row in table.operators[limits.rows :]]
    known = [share for share in rest if share is not None]
    return OperatorBars(
        table=table,
        operators=_bars(table.operators[: limits.rows]),
        scopes=_bars(table.scopes[: limits.rows]),
        loading=_bars(table.loading[: limits.rows]),
        more=left_out(len(table.operators), limits.rows),
        more_share=sum(known) if len(known) == len(rest) else None,
        more_scopes=left_out(len(table.scopes), limits.rows),
        more_loading=left_out(len(table.loading), limits.rows),
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


@dataclass(frozen=True, slots=True)
class RunView:
    """One run on a page.

    Attributes:
        run: What is shown.
        limits: How much of it is shown.
        anchor: Prefix of the ids of its elements.
        title: Model and board, or where it was found.
        label: The same with the number of the run, unique on the page.
        operators: Its operators with bars; None without events.
        roofline: Its operators against what the core can do; None where that is unknown.
        history: How its numbers were in the past; None without a history.
        icicles: Its call tree.
        memory: Its memory over time; None without allocators.
        energy: Its energy; None without a meter.
    """

    run: RunDescription
    limits: Limits
    anchor: str
    title: str
    label: str
    operators: OperatorBars | None
    roofline: RooflineView | None
    history: HistoryView | None
    icicles: list[Icicle]
    memory: MemoryView | None
    energy: EnergyView | None

    @property
    def codes(self) -> Iterator[str]:
        """Codes of the checks that are shown."""
        verdict = self.run.verdict
        for row in (*verdict.failed, *verdict.warned)[: self.limits.rows]:
            yield row.code
        for row in verdict.checks[: self.limits.checks]:
            yield row.code


def run_view(run: RunDescription, index: int, limits: Limits) -> RunView:
    """Prepare a run, the ``index``-th of its page."""
    named = f"{run.model} on {run.board}" if run.model and run.board else run.board or run.title
    title = brief(named)
    nested = None if run.untold else run.run.subject
    return RunView(
        run=run,
        limits=limits,
        anchor=f"run-{index + 1}",
        title=title,
        label=f"run {index + 1}, {title}",
        operators=operator_bars(run.operators, limits) if run.operators else None,
        roofline=roofline_view(run.roofline, limits),
        history=history_view(run, limits),
        icicles=icicles(merged_tree(nested.tree), limits) if nested else [],
        energy=energy_view(run),
        memory=memory_view(nested, run.allocators, limits) if nested else None,
    )
