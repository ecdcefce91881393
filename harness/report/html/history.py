"""A run beside its history: changes against the baseline, and every number through history."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.analyze.compare import EXECUTIONS
from harness.check.history.comparison import Compared, Interval
from harness.check.history.measure import TIME_STATISTICS, measure
from harness.check.history.samples import History, Metric, Sample, Series
from harness.check.subject import Subject
from harness.formatting import printable
from harness.records.trace import EXECUTION, OPERATOR_CALL
from harness.report.changes import UNCHANGED, ChangeRow, ChangeTable
from harness.report.description import RunDescription
from harness.report.html.series import SeriesChart, series_chart
from harness.report.summaries import name_of
from harness.report.text import Limits, left_out
from harness.report.tracked import own_results


@dataclass(frozen=True, slots=True)
class Bar:
    """Places along a bar, percent: an estimate and its bounds."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class ChangeBar:
    """A number beside its baseline; no bar if its change is unknown."""

    row: ChangeRow
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The history of a run on a page.

    Attributes:
        description: How the baseline was chosen.
        changes: The comparison; None without one.
        results: How many results there are.
        baseline: How many of them are the baseline.
        sessions: In how many sessions these were recorded.
        changed: Numbers that differ from the baseline, the worst first.
        more: How many of these are left out.
        others: The other numbers.
        more_others: How many of these are left out.
        elsewhere: How many results are of other units and not drawn.
        trends: Numbers through history, the worst or most changed first.
        more_trends: How many are left out.
    """

    description: str
    changes: ChangeTable | None
    results: int
    baseline: int
    sessions: int
    changed: tuple[ChangeBar, ...]
    more: int
    others: tuple[ChangeBar, ...]
    more_others: int
    elsewhere: int
    trends: tuple[SeriesChart, ...]
    more_trends: int


@dataclass(frozen=True, slots=True)
class _HistoryCurve:
    """A series with the value measured now, the values of its baseline, and what became of it."""

    series: Series
    now: Sample
    baseline: tuple[float, ...]
    compared: Compared | None

    @property
    def change(self) -> float:
        """How far off the baseline's median it is, as a share; 0 without a baseline."""
        if not self.baseline:
            return 0.0
        level = statistics.median(self.baseline)
        return abs(self.now.value - level) / abs(level) if level else float(self.now.value != level)

    @property
    def settled(self) -> bool:
        """Whether nothing asks for a look at it: neither a change nor a step, nor executions."""
        if self.series.metric.name == EXECUTION:
            return False
        found = self.compared
        return found is None or (found.judgement in UNCHANGED and not found.steps)

    def order(self, place: Mapping[Metric, int]) -> tuple[bool, bool, bool, float, float]:
        """Where it stands among others: as ``place`` says, else the most changed first.

        What never changed comes last, before it scopes around kernels, which repeat them, and
        before these what is the same as the baseline and had no step.
        """
        metric = self.series.metric
        level = len({self.now.value, *(sample.value for sample in self.series.samples)}) == 1
        known = place.get(metric, math.inf)
        return level, metric.name == OPERATOR_CALL, self.settled, known, -self.change


def history_view(description: RunDescription, limits: Limits) -> HistoryView | None:
    """Draw the history of a run; None without one."""
    run, changes = description.run, description.changes
    history = run.history or History()
    if not history.results and changes is None:
        return None
    numbers = () if run.comparison is None else run.comparison.numbers
    own = own_results(history, run)
    held = _held(history, run.subject, own, numbers)
    changed, others = (changes.changed, changes.others) if changes is not None else ((), ())
    return HistoryView(
        description=printable(history.description) if changes is None else changes.description,
        changes=changes,
        results=len(history.results),
        baseline=len(history.baseline),
        sessions=len({history.results[index].session for index in history.baseline}),
        changed=tuple(map(_change_bar, changed[: limits.rows])),
        more=left_out(len(changed), limits.rows),
        others=tuple(map(_change_bar, others[: limits.rows])),
        more_others=left_out(len(others), limits.rows),
        elsewhere=len(history.results) - len(own),
        trends=tuple(
            series_chart(
                history,
                item.series,
                limits,
                now=item.now,
                compared=item.compared,
                where=name_of(description),
            )
            for item in held[: limits.trends]
        ),
        more_trends=left_out(len(held), limits.trends),
    )


def _held(
    history: History, subject: Subject | None, own: Collection[int], numbers: Sequence[Compared]
) -> list[_HistoryCurve]:
    """Series that go on now: in the order of the comparison, then the most changed first.

    Of their results only ``own`` ones are taken.
    """
    now = {} if subject is None else _measured(history, subject)
    place = {number.metric: index for index, number in reversed([*enumerate(numbers)])}
    chosen = set(history.baseline)
    held = []
    for series in history.series:
        pairs = zip(series.results, series.samples, strict=True)
        kept = [pair for pair in pairs if pair[0] in own]
        if series.metric in now and kept:
            values = tuple(sample.value for result, sample in kept if result in chosen)
            known = place.get(series.metric)
            compared = None if known is None else numbers[known]
            results, samples = zip(*kept, strict=True)
            shown = Series(series.metric, results, samples)
            held.append(_HistoryCurve(shown, now[series.metric], values, compared))
    return sorted(held, key=lambda item: item.order(place))


def _measured(history: History, subject: Subject) -> dict[Metric, Sample]:
    """The numbers of ``subject`` by every statistic that the history has."""
    wanted = {series.metric.statistic for series in history.series}
    found = measure(subject)
    for executions in EXECUTIONS:
        for statistic in TIME_STATISTICS:
            text = statistic if executions == "all" else f"{executions} {statistic}"
            if text in wanted:
                found |= measure(subject, statistic, executions)
    return found


def _change_bar(row: ChangeRow) -> ChangeBar:
    change = row.number.change
    return ChangeBar(row, None if change is None else _bar(change))


def _bar(change: Interval) -> Bar:
    """A change and its bounds, an infinite one at the end of the line."""
    finite = [abs(v) for v in (change.low, change.value, change.high) if math.isfinite(v)]
    widest = max(finite, default=0.0) or 1.0

    def place(value: float) -> float:
        return round(50 + 45 * max(-1.1, min(1.1, value / widest)), 2)

    return Bar(place(change.low), place(change.value), place(change.high))
