"""One run on a page: its description, within limits, with the pictures drawn from its trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.analyze.merged_tree import merged_tree
from harness.report.description import RunDescription
from harness.report.html.history import HistoryView, history_view
from harness.report.html.icicle import Icicle, icicles
from harness.report.html.memory import MemoryView, memory_view
from harness.report.html.operators import OperatorBars, operator_bars
from harness.report.limits import Limits
from harness.report.text import brief


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
        history: How its numbers were in the past; None without a history.
        icicles: Its call tree.
        memory: Its memory over time; None without allocators.
    """

    run: RunDescription
    limits: Limits
    anchor: str
    title: str
    label: str
    operators: OperatorBars | None
    history: HistoryView | None
    icicles: list[Icicle]
    memory: MemoryView | None

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
        history=history_view(run, limits),
        icicles=icicles(merged_tree(nested.tree), limits) if nested else [],
        memory=memory_view(nested, run.allocators, limits) if nested else None,
    )
