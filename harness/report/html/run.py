"""One run on a page: its description, within limits, with the pictures drawn from its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.analyze.merged_tree import merged_tree
from harness.report.description import RunDescription
from harness.report.facts import Loss, link_line
from harness.report.html.baseline import BaselineNumbers
from harness.report.html.energy import EnergyView, energy_view
from harness.report.html.first_screen import FirstScreen, first_screen
from harness.report.html.history import HistoryView, history_view
from harness.report.html.icicle import Icicle, icicles
from harness.report.html.memory import MemoryView, memory_view
from harness.report.html.operators import OperatorsView, operators_view
from harness.report.html.plan import PlanView, plan_view
from harness.report.html.roofline import RooflineView, roofline_view
from harness.report.html.timeline import TimelineView, timeline_view
from harness.report.text import Limits, brief, counted


@dataclass(frozen=True, slots=True)
class RunView:
    """One run on a page.

    Attributes:
        run: What is shown.
        limits: How much of it is shown.
        anchor: Prefix of the ids of its elements.
        title: Model and board, or where it was found.
        label: The same with the number of the run, unique on the page.
        first: What its first screen says.
        timeline: Its executions; None without any.
        operators: Its operators; None without events.
        roofline: Its operators against what the core can do; None where that is unknown.
        history: How its numbers were in the past; None without a history.
        icicles: Its call tree.
        memory: Its memory over time; None without allocators.
        plan: Its memory plan; None if its model plans no memory.
        energy: Its energy; None without a meter.
    """

    run: RunDescription
    limits: Limits
    anchor: str
    title: str
    label: str
    first: FirstScreen
    timeline: TimelineView | None
    operators: OperatorsView | None
    roofline: RooflineView | None
    history: HistoryView | None
    icicles: list[Icicle]
    memory: MemoryView | None
    plan: PlanView | None
    energy: EnergyView | None

    @property
    def warned(self) -> str:
        """How many warnings and notes there are."""
        counts = Counter(row.outcome for row in self.run.verdict.warned)
        texts = [counted(count, outcome) for outcome, count in counts.items()]
        codes = sorted({row.code for row in self.run.verdict.warned})
        return f"{', '.join(texts)}: {', '.join(codes)}"

    @property
    def losses(self) -> list[Loss]:
        """What is missing and may matter."""
        return [item for item in self.run.losses if item.count and item.kind != "harmless"]

    @property
    def no_losses(self) -> list[Loss]:
        """What is complete, or is missing without harm."""
        return [item for item in self.run.losses if not item.count or item.kind == "harmless"]

    @property
    def link(self) -> str:
        """How the line did, in a sentence."""
        result = self.run.run.result
        return "" if result is None else link_line(result.link)[1]

    @property
    def codes(self) -> Iterator[str]:
        """Codes of the checks that are shown."""
        if self.first.closest is not None:
            yield self.first.closest.code
        verdict = self.run.verdict
        for row in (*verdict.failed, *verdict.warned)[: self.limits.rows]:
            yield row.code
        for row in verdict.checks[: self.limits.checks]:
            yield row.code


def run_view(run: RunDescription, index: int, limits: Limits) -> RunView:
    """Prepare a run, the ``index``-th of its page."""
    model = run.model.replace(".pte", "", 1)
    title = brief(f"{model} on {run.board}" if model and run.board else run.board or run.title)
    subject = run.run.subject
    nested = None if run.untold else subject
    numbers = BaselineNumbers(run.run)
    timeline = timeline_view(nested, limits) if nested else None
    operators = None
    if run.operators is not None and subject is not None:
        drawn = timeline.numbers if timeline is not None else ()
        operators = operators_view(run.operators, subject, numbers, drawn, limits)
    return RunView(
        run=run,
        limits=limits,
        anchor=f"run-{index + 1}",
        title=title,
        label=f"run {index + 1}, {title}",
        first=first_screen(run, numbers),
        timeline=timeline,
        operators=operators,
        roofline=roofline_view(run.roofline, limits),
        history=history_view(run, limits),
        icicles=icicles(merged_tree(nested.tree), limits) if nested else [],
        plan=plan_view(run, f"run-{index + 1}", limits),
        energy=energy_view(run),
        memory=memory_view(nested, run.allocators, limits) if nested else None,
    )
