"""Numbers of a run beside its history: what tiles, tables of many runs and matrices show of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from harness.analyze.statistics import Operator
from harness.check.history.comparison import Compared
from harness.check.history.measure import operator_metric
from harness.check.history.samples import History, Metric
from harness.records.trace import EXECUTION
from harness.report.text import short_size, short_time
from harness.runs.evaluation import EvaluatedRun

LATEST: Final = 20
"""The most earlier values that a sparkline shows."""

_FEWEST: Final = 3
"""Results of a baseline from which its range says anything."""

_JUDGED: Final = {
    "changed": "changed",
    "same": "no detectable change",
    "appeared": "new",
    "vanished": "gone",
    "too little": "too few results to tell",
}


CHANGE_WORDS: Final = {
    "time": {"regression": "slower", "improvement": "faster"},
    "memory": {"regression": "larger", "improvement": "smaller"},
    "count": {"regression": "more", "improvement": "less"},
}
"""Changes of a number in words, by what it is."""


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
    value, known = executed.times.p50, executed.ns is not None

    def text(number: float) -> str:
        return short_time(number if known else None, number)

    exact = f"{value:,.10g} {'ns' if known else 'ticks'}"
    metric = operator_metric(executed, "")
    found = TrackedNumber("median execution", value, text(value), exact)

    def wanted(other: Metric) -> bool:
        return _same_operator(metric, other)

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
    return _beside_history(run, found, "memory", _is_peak, now, short_size)


def judgement_word(number: Compared) -> str:
    """Return what became of a number, as a reader says it: slower, larger, gone."""
    what = "memory" if number.metric.unit == "bytes" else "count"
    words = CHANGE_WORDS["time" if number.metric.kind == "operator" else what]
    return words.get(number.judgement) or _JUDGED[number.judgement]


def own_results(history: History, run: EvaluatedRun) -> set[int]:
    """Return the results of the unit that the run was on; all if there are none of it."""
    unit = run.result.unit if run.result is not None else ""
    own = {place for place, result in enumerate(history.results) if result.unit == unit}
    return own or set(range(len(history.results)))


def _same_operator(metric: Metric, other: Metric) -> bool:
    return other.statistic in ("p50", "") and replace(other, statistic="") == metric


def _is_peak(metric: Metric) -> bool:
    return metric.kind == "allocator" and metric.statistic == "peak_bytes"


def _beside_history(
    run: EvaluatedRun,
    number: TrackedNumber,
    what: str,
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
    return TrackedNumber(
        number.name,
        number.value,
        number.text,
        number.exact,
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
    what: str,
    change: float | None,
    baseline: Sequence[float],
    now: float,
) -> tuple[str, str]:
    """Return what became of a number, and the word for it.

    Only a comparison with history tells a regression. Without one, the range of the baseline does
    no more than put a change beside the noise.
    """
    words = CHANGE_WORDS[what]
    for judgement in ("regression", "improvement"):
        if any(item.judgement == judgement for item in compared):
            return judgement, words[judgement]
    if compared:
        return "same", judgement_word(compared[0])
    if not change:
        return "same", "no change"
    if len(baseline) >= _FEWEST and min(baseline) <= now <= max(baseline):
        return "same", "within range"
    return "same", words["regression" if change > 0 else "improvement"]
