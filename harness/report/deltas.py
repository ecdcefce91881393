"""What changed in a run: now, before, and whether the change is more than noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.check.history.checks import percentage
from harness.check.history.comparison import Compared
from harness.check.history.samples import Metric
from harness.formatting import printable
from harness.records.trace import EXECUTION
from harness.report.changes import ChangeTable
from harness.report.description import RunDescription
from harness.report.metric_titles import metric_title
from harness.report.summaries import RunSummary
from harness.report.text import counted, short_size, short_time, three_digits
from harness.report.tracked import TrackedNumber, judgement_word


@dataclass(frozen=True, slots=True)
class DeltaRow:
    """A number beside its baseline; a dash where something is unknown.

    Attributes:
        name: What it is, such as ``median of conv2d #5``.
        now: Its value.
        before: Its level in the baseline.
        change: The difference in per cent.
        noise: Standard deviation between sessions; ``none`` for deterministic numbers.
        detectable: The smallest change that would have been found.
        verdict: What became of it: slower, larger, gone, no detectable change.
    """

    name: str
    now: str
    before: str
    change: str
    noise: str
    detectable: str
    verdict: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as a table shows it."""
        return (
            *(self.name, self.now, self.before, self.change),
            *(self.noise, self.detectable, self.verdict),
        )


DELTA_HEADERS = ("number", "now", "before", "change", "noise", "detectable", "verdict")
"""Headers of the cells of a row."""

DELTA_NUMBERS = range(1, 6)
"""Columns of numbers."""


def describe_deltas(run: RunDescription, summary: RunSummary) -> Iterator[DeltaRow]:
    """Yield execution time and peak memory, changed or not, then all other changed numbers."""
    for tracked in (summary.execution, summary.memory):
        if tracked is not None:
            yield _tracked(tracked, compared=run.changes is not None)
    for row in run.changes.changed if run.changes is not None else ():
        if not _is_execution(row.number.metric):
            several = run.changes is not None and run.changes.several_units
            yield _compared(row.number, several=several)


def counts_text(changes: ChangeTable) -> str:
    """Return how many numbers became what, such as ``1 slower, 14 no detectable change``."""
    counts: dict[str, int] = {}
    for row in (*changes.changed, *changes.others):
        word = judgement_word(row.number)
        counts[word] = counts.get(word, 0) + 1
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    return f"{counted(sum(counts.values()), 'number')} compared: {', '.join(parts)}"


def _is_execution(metric: Metric) -> bool:
    """Whether a metric is the median execution, which has a row of its own."""
    return metric.kind == "operator" and metric.name == EXECUTION and metric.statistic == "p50"


def _tracked(number: TrackedNumber, *, compared: bool) -> DeltaRow:
    found = number.compared
    verdict = number.change_text.rpartition(", ")[2] if number.change_text else "no baseline"
    if not compared and number.before:
        verdict = f"{verdict} (not compared with history)"
    return DeltaRow(
        name=number.name,
        now=number.text,
        before=number.before or "-",
        change=_percent(number.change),
        noise=_noise(found),
        detectable=_detectable(found),
        verdict=verdict,
    )


def _compared(number: Compared, *, several: bool) -> DeltaRow:
    unit = f" on {printable(number.board_unit)}" if several else ""
    before = number.baseline.value if number.baseline is not None else None
    return DeltaRow(
        name=metric_title(number.metric) + unit,
        now=_value(number.metric, number.current),
        before=_value(number.metric, before),
        change=_percent(number.relative),
        noise=_noise(number),
        detectable=_detectable(number),
        verdict=judgement_word(number),
    )


def _value(metric: Metric, value: float | None) -> str:
    if value is None:
        return "-"
    if metric.unit == "bytes":
        return short_size(value)
    if metric.unit in ("ns", "ticks"):
        return short_time(value if metric.unit == "ns" else None, value)
    return f"{three_digits(value)} {printable(metric.unit)}".strip()


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:+.2f} %" if share else "0 %"


def _noise(number: Compared | None) -> str:
    if number is None or number.noise is None:
        return "-"
    return percentage(number.noise) if number.noise else "none"


def _detectable(number: Compared | None) -> str:
    if number is None or number.detectable is None:
        return "-"
    return percentage(number.detectable)
