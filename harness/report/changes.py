"""A run beside its history, as every report shows it: which numbers changed, and by how much."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from harness.analyze.statistics import Operator
from harness.check.history.comparison import (
    Compared,
    HistoryComparison,
    Interval,
    NumberKind,
    detectable_text,
    gone_text,
    judgement_word,
    number_kind,
    percentage,
)
from harness.check.history.samples import History, Metric
from harness.formatting import DisplayUnit, metric_unit, printable
from harness.records.trace import EXECUTION
from harness.records.verdict import Judgement
from harness.report.words import NO_NAME, ReportTable, bytes_unit, percent, short_size, short_time
from harness.runs.source import EvaluatedRun

LATEST: Final = 20
"""The most earlier values that a sparkline shows."""

_FEWEST: Final = 3
"""Results of a baseline from which its range says anything."""

_DIRECTIONS: Final[tuple[Judgement, ...]] = ("regression", "improvement")


@dataclass(frozen=True, slots=True)
class TrackedNumber:
    """A number of a run, and what it was before.

    Attributes:
        name: What it is, such as ``median execution``.
        value: The number, in ns, ticks or bytes.
        text: The number with its unit, to three digits.
        exact: The number with its unit, to all digits.
        change: Its difference from the median of the baseline, as a share of it; None without.
        change_text: The same with its sign, and a word for it.
        judgement: ``regression`` or ``improvement`` if a comparison with history said so, else
            ``same``.
        earlier: Earlier values on the same unit, oldest first, at most ``LATEST``.
        noise: The smallest and largest value of the baseline; None without one.
        before: The level of the baseline as text; empty without one.
        compared: What a comparison with history says of it; None without one.
    """

    name: str
    value: float
    text: str
    exact: str
    change: float | None = None
    change_text: str = ""
    judgement: str = "same"
    earlier: tuple[float, ...] = ()
    noise: tuple[float, float] | None = None
    before: str = ""
    compared: Compared | None = None

    @property
    def trend(self) -> tuple[float, ...]:
        """The earlier values, and this one."""
        return (*self.earlier, self.value)


def execution_time(run: EvaluatedRun) -> TrackedNumber | None:
    """Return the median execution of a run beside its history; None if no execution was timed."""
    executed = executions_of(run)
    if executed is None or executed.times is None:
        return None
    from harness.check.history.measure import operator_metric

    value, known = executed.times.p50, executed.ns is not None

    def text(number: float) -> str:
        return short_time(number if known else None, number)

    exact = f"{value:,.10g} {'ns' if known else 'ticks'}"
    metric = operator_metric(executed, "")
    found = TrackedNumber("median execution", value, text(value), exact)

    def wanted(other: Metric) -> bool:
        return other.statistic in ("p50", "") and replace(other, statistic="") == metric

    return _beside_history(run, found, "time", wanted, value, text)


def executions_of(run: EvaluatedRun) -> Operator | None:
    """Return the statistics of a run's executions; None without any."""
    operators = run.subject.operators if run.subject is not None else ()
    return next((op for op in operators if op.name == EXECUTION), None)


def peak_memory(run: EvaluatedRun, peak: int) -> TrackedNumber:
    """Return the peak memory of a run, in bytes, beside its history.

    The history has the peak of each allocator, so these are added on both sides of the change.
    """
    found = TrackedNumber("peak memory", peak, short_size(peak), f"{peak:,} bytes")
    allocators = run.subject.allocators if run.subject is not None else ()
    now = float(sum(item.peak_bytes for item in allocators))

    def wanted(metric: Metric) -> bool:
        return metric.kind == "allocator" and metric.statistic == "peak_bytes"

    return _beside_history(run, found, "memory", wanted, now, short_size)


def own_results(history: History, run: EvaluatedRun) -> set[int]:
    """Return the results of the unit that the run was on; all if there are none of it."""
    unit = run.result.unit if run.result is not None else ""
    own = {place for place, result in enumerate(history.results) if result.unit == unit}
    return own or set(range(len(history.results)))


def _beside_history(
    run: EvaluatedRun,
    number: TrackedNumber,
    what: NumberKind,
    wanted: Callable[[Metric], bool],
    now: float,
    text: Callable[[float], str],
) -> TrackedNumber:
    """Add to a number what its history says; ``now`` is the number as the history counts it."""
    history = run.history or History()
    totals: dict[int, float] = {}
    own = own_results(history, run)
    for series in history.series:
        if wanted(series.metric):
            for place, sample in zip(series.results, series.samples, strict=True):
                if place in own:
                    totals[place] = totals.get(place, 0.0) + sample.value
    baseline = [totals[place] for place in history.baseline if place in totals]
    compared = [
        item
        for item in (run.comparison.numbers if run.comparison is not None else ())
        if wanted(replace(item.metric, statistic="p50") if what == "time" else item.metric)
    ]
    level = statistics.median(baseline) if baseline else 0.0
    change = now / level - 1 if level else None
    # A decision may have moved the baseline, and the comparison knows of it.
    same = len(compared) == 1 and compared[0].metric.statistic in ("p50", "peak_bytes")
    if same:
        change = compared[0].relative if compared[0].relative is not None else change
        level = compared[0].baseline.value if compared[0].baseline is not None else level
    noise = (min(baseline), max(baseline)) if baseline else None
    judgement, word = _word(compared, what, change, baseline, now)
    return dataclasses.replace(
        number,
        change=change,
        change_text=_change_text(change, word),
        judgement=judgement,
        earlier=tuple(totals[place] for place in sorted(totals)[-LATEST:]),
        noise=noise if len(baseline) >= _FEWEST else None,
        before=text(level) if level else "",
        compared=compared[0] if same else None,
    )


def _change_text(change: float | None, word: str) -> str:
    if change is None:
        return ""
    return f"{100 * change:+.1f} %, {word}" if change else word


def _word(
    compared: Sequence[Compared],
    what: NumberKind,
    change: float | None,
    baseline: Sequence[float],
    now: float,
) -> tuple[str, str]:
    """Return what became of a number, and the word for it.

    Only a comparison with history tells a regression. Without one, the range of the baseline does
    no more than put a change beside the noise.
    """
    for judgement in _DIRECTIONS:
        if any(item.judgement == judgement for item in compared):
            return judgement, judgement_word(judgement, what)
    if compared:
        return "same", judgement_word(compared[0].judgement, what)
    if not change:
        return "same", "no change"
    if len(baseline) >= _FEWEST and min(baseline) <= now <= max(baseline):
        return "same", "within range"
    return "same", judgement_word("regression" if change > 0 else "improvement", what)


UNCHANGED: Final = ("same", "too little")
"""Judgements that nobody needs to look at."""


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """A comparison with history.

    Attributes:
        description: How the baseline was chosen.
        changed: Numbers that differ from the baseline, the worst first.
        others: Numbers that are the same, or of which too little is known.
        several_units: The numbers are of several boards.
        counts: How many numbers there are of each judgement, by its word.
        detectable: What is gone after it was measured again, and which change would have been
            noticed; empty if no operator was compared.
        notes: What was left out of the comparison, and why.
    """

    description: str
    changed: tuple[Compared, ...]
    others: tuple[Compared, ...]
    several_units: bool
    counts: tuple[tuple[str, int], ...]
    detectable: str
    notes: tuple[str, ...]


def describe_changes(comparison: HistoryComparison) -> ChangeTable:
    """Describe what became of each number."""
    numbers = comparison.numbers
    return ChangeTable(
        description=printable(comparison.description),
        changed=tuple(item for item in numbers if item.judgement not in UNCHANGED),
        others=tuple(item for item in numbers if item.judgement in UNCHANGED),
        several_units=len({item.board_unit for item in numbers}) > 1,
        counts=tuple(Counter(map(compared_word, numbers)).items()),
        detectable=_detectable(comparison),
        notes=tuple(map(printable, comparison.notes)),
    )


def _detectable(comparison: HistoryComparison) -> str:
    compared = any(n.metric.kind == "operator" and n.estimated for n in comparison.numbers)
    if not compared:
        return ""
    return "; ".join(filter(None, [gone_text(comparison), detectable_text(comparison)]))


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


def compared_word(number: Compared) -> str:
    """Return what became of a number, in a word or a few."""
    return judgement_word(number.judgement, number_kind(number.metric))


def change_cells(number: Compared) -> dict[str, str]:
    """Return the cells of a number by the headers of their columns."""
    levels = [i for i in (number.baseline, number.change) if i is not None]
    sizes = [abs(interval.value) for interval in levels] + [abs(number.current or 0.0)]
    unit = unit_for(number.metric, sizes)
    return {
        "": compared_word(number),
        "number": metric_name(number.metric),
        "unit": printable(number.board_unit),
        "baseline": _interval(number.baseline, unit),
        "now": "-" if number.current is None else f"{unit.text(number.current)} {unit.name}",
        "change": _interval(number.change, unit, "+"),
        "relative": "-" if number.relative is None else f"{100 * number.relative:+.2f} %",
        "by chance": "-" if number.q is None else f"{number.q:.2g}",
        "noise": percent(number.noise, 2),
        "detectable": "-" if number.detectable is None else percentage(number.detectable),
        "sessions": f"{number.baseline_sessions:,}, {number.current_sessions:,}",
        "limits": f"{percent(number.relative_limit)} and "
        f"{unit.text(number.absolute_limit)} {unit.name}",
    }


def change_table(
    changes: ChangeTable, shown: Iterable[Compared], columns: Sequence[str]
) -> ReportTable:
    """Return a table of numbers with these columns of ``change_cells``."""
    texts = ["", "number", *["unit"] * changes.several_units]
    headers = [*texts, *columns]
    rows = [[cells[header] for header in headers] for cells in map(change_cells, shown)]
    title, numbers = f"Compared with {changes.description}", range(len(texts), len(headers))
    return ReportTable(title, headers, rows, numbers)


def _interval(interval: Interval | None, unit: DisplayUnit, sign: str = "") -> str:
    """An estimate and its bounds, in a unit."""
    if interval is None:
        return "-"

    def text(value: float) -> str:
        if not math.isfinite(value):
            return "inf" if value > 0 else "-inf"
        return ("+" if sign and value > 0 else "") + unit.text(value)

    known = math.isfinite(interval.low) or math.isfinite(interval.high)
    exact = interval.low == interval.high or (interval.lowest is None and interval.highest is None)
    if exact or not known:
        return f"{text(interval.value)} {unit.name}"
    return f"{text(interval.value)} {unit.name} [{text(interval.low)}, {text(interval.high)}]"
