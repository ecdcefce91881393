"""A comparison with history as every report shows it: which numbers changed, and by how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.check.history.checks import detectable_text, percentage
from harness.check.history.comparison import Compared, HistoryComparison, Interval
from harness.check.history.samples import Metric
from harness.formatting import DisplayUnit, metric_unit, printable
from harness.report.text import NO_NAME, bytes_unit, percent

UNCHANGED: Final = ("same", "too little")
"""Judgements that nobody needs to look at."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A number beside its baseline.

    Attributes:
        number: Exact values.
        name: The operator, allocator or size, and the statistic.
        unit: The board it was measured on.
        judgement: What became of it.
        baseline: Its level in the baseline, with the bounds of it.
        now: What was measured now.
        change: By how much it changed, with the bounds of it.
        relative: Likewise, of the baseline.
        limit: The smallest change that counts as one.
        noise: Standard deviation between sessions, of the level.
        detectable: The smallest change that would have been found.
        chance: Probability of this change by chance, adjusted for the number of comparisons.
        sessions: Sessions in the baseline, and now.
        reason: Reason of the evaluation.
    """

    number: Compared
    name: str
    unit: str
    judgement: str
    baseline: str
    now: str
    change: str
    relative: str
    limit: str
    noise: str
    detectable: str
    chance: str
    sessions: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """A comparison with history.

    Attributes:
        description: How the baseline was chosen.
        changed: Numbers that differ from the baseline, the worst first.
        others: Numbers that are the same, or of which too little is known.
        several_units: The numbers are of several boards.
        counts: How many numbers there are of each judgement.
        detectable: Which change would have been noticed; empty if no operator was compared.
        notes: What was left out of the comparison, and why.
    """

    description: str
    changed: tuple[ChangeRow, ...]
    others: tuple[ChangeRow, ...]
    several_units: bool
    counts: tuple[tuple[str, int], ...]
    detectable: str
    notes: tuple[str, ...]


def describe_changes(comparison: HistoryComparison) -> ChangeTable:
    """Describe what became of each number."""
    rows = [_row(number) for number in comparison.numbers]
    return ChangeTable(
        description=printable(comparison.description),
        changed=tuple(row for row in rows if row.judgement not in UNCHANGED),
        others=tuple(row for row in rows if row.judgement in UNCHANGED),
        several_units=len({row.number.board_unit for row in rows}) > 1,
        counts=tuple(Counter(row.judgement for row in rows).items()),
        detectable=_detectable(comparison),
        notes=tuple(map(printable, comparison.notes)),
    )


def _detectable(comparison: HistoryComparison) -> str:
    compared = any(n.metric.kind == "operator" and n.change for n in comparison.numbers)
    return detectable_text(comparison) if compared else ""


def metric_name(metric: Metric) -> str:
    """The event, its delegate id and instruction, and the statistic."""
    parts = [printable(metric.name) or NO_NAME]
    if metric.delegate_str is not None or metric.delegate_int != -1:
        delegate = metric.delegate_int if metric.delegate_str is None else metric.delegate_str
        parts.append(f"[{printable(str(delegate))}]")
    if metric.chain != -1:
        parts.append(f"· instruction {metric.instruction}")
    if metric.statistic:
        parts.append(f"· {metric.statistic}")
    return " ".join(parts)


def unit_for(metric: Metric, values: Sequence[float]) -> DisplayUnit:
    """The unit for ``values`` of a metric, chosen by the largest."""
    sizes = [*map(abs, values)]
    return bytes_unit(sizes) if metric.unit == "bytes" else metric_unit(metric.unit, sizes)


def _row(number: Compared) -> ChangeRow:
    levels = [i for i in (number.baseline, number.change) if i is not None]
    sizes = [abs(interval.value) for interval in levels] + [abs(number.current or 0.0)]
    unit = unit_for(number.metric, sizes)
    limit = f"{unit.text(number.absolute_limit)} {unit.name}"
    return ChangeRow(
        number=number,
        name=metric_name(number.metric),
        unit=printable(number.board_unit),
        judgement=number.judgement,
        baseline=_interval(number.baseline, unit),
        now="-" if number.current is None else f"{unit.text(number.current)} {unit.name}",
        change=_interval(number.change, unit, "+"),
        relative="-" if number.relative is None else f"{100 * number.relative:+.2f} %",
        limit=f"{percent(number.relative_limit)} and {limit}",
        noise=percent(number.noise, 2),
        detectable="-" if number.detectable is None else percentage(number.detectable),
        chance="-" if number.q is None else f"{number.q:.2g}",
        sessions=f"{number.baseline_sessions:,}, {number.current_sessions:,}",
        reason=printable(number.reason),
    )


def _interval(interval: Interval | None, unit: DisplayUnit, sign: str = "") -> str:
    """An estimate and its bounds, in a unit."""
    if interval is None:
        return "-"

    def text(value: float) -> str:
        if not math.isfinite(value):
            return "inf" if value > 0 else "-inf"
        return ("+" if sign and value > 0 else "") + unit.text(value)

    if interval.low == interval.high:
        return f"{text(interval.value)} {unit.name}"
    return f"{text(interval.value)} {unit.name} [{text(interval.low)}, {text(interval.high)}]"
