"""A run beside its history: changes against the baseline, and every number through history."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analyze.compare import EXECUTIONS
from harness.check.history.comparison import Compared, Interval, MetricStep
from harness.check.history.measure import TIME_STATISTICS, measure
from harness.check.history.samples import History, Metric, Sample, Series
from harness.check.subject import Subject
from harness.formatting import DisplayUnit, printable
from harness.records.trace import OPERATOR_CALL
from harness.report.changes import ChangeRow, ChangeTable, metric_name, unit_for
from harness.report.description import RunDescription
from harness.report.html.scales import SIZE, axis
from harness.report.html.svg import Curve, Mark, Tick, band, line
from harness.report.text import Limits, brief, left_out, number
from harness.runs.evaluation import EvaluatedRun

_COMMIT = 8
"""Characters of a commit in a picture."""

_LABELS = 3
"""The most labels below a picture."""


@dataclass(frozen=True, slots=True)
class Point:
    """A result in the table of a trend."""

    started: str
    commit: str
    session: str
    value: str
    baseline: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """A number through history, as a picture and as a table."""

    curve: Curve
    points: tuple[Point, ...]
    more: int


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
    trends: tuple[Trend, ...]
    more_trends: int


@dataclass(frozen=True, slots=True)
class _HistoryCurve:
    """A series with the value measured now, the values of its baseline, and its steps."""

    series: Series
    now: Sample
    baseline: tuple[float, ...]
    steps: tuple[MetricStep, ...]

    @property
    def change(self) -> float:
        """How far off the baseline's median it is, as a share; 0 without a baseline."""
        if not self.baseline:
            return 0.0
        level = statistics.median(self.baseline)
        return abs(self.now.value - level) / abs(level) if level else float(self.now.value != level)

    def order(self, place: Mapping[Metric, int]) -> tuple[bool, bool, float, float]:
        """Where it stands among others: as ``place`` says, else the most changed first.

        What never changed comes last, and before it scopes around kernels, which repeat them.
        """
        metric = self.series.metric
        level = len({self.now.value, *(sample.value for sample in self.series.samples)}) == 1
        return level, metric.name == OPERATOR_CALL, place.get(metric, math.inf), -self.change


def history_view(description: RunDescription, limits: Limits) -> HistoryView | None:
    """Draw the history of a run; None without one."""
    run, changes = description.run, description.changes
    history = run.history or History()
    if not history.results and changes is None:
        return None
    numbers = () if run.comparison is None else run.comparison.numbers
    own = results_of_unit(history, run)
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
        trends=tuple(_trend(history, item, limits) for item in held[: limits.trends]),
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
            steps = () if known is None else numbers[known].steps
            results, samples = zip(*kept, strict=True)
            shown = Series(series.metric, results, samples)
            held.append(_HistoryCurve(shown, now[series.metric], values, steps))
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


def results_of_unit(history: History, run: EvaluatedRun) -> set[int]:
    """Results of the unit that the run was on; of all where there are none of it."""
    unit = run.result.unit if run.result is not None else ""
    own = {place for place, result in enumerate(history.results) if result.unit == unit}
    return own or set(range(len(history.results)))


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


def _trend(history: History, held: _HistoryCurve, limits: Limits) -> Trend:
    """The latest points of a series, and the number measured now behind them."""
    series, unit = held.series, unit_for(held.series.metric, [s.value for s in held.series.samples])
    pairs = list(zip(series.results, series.samples, strict=True))[-(limits.points - 1) :]
    values = [sample.value for _, sample in pairs] + [held.now.value]
    along, up = axis([1, len(values)], from_zero=False), axis(values, from_zero=False)
    where = [(along.at(n), SIZE - up.at(value)) for n, value in enumerate(values, start=1)]
    chosen = set(history.baseline)
    marks = []
    for (result, sample), (x, y) in zip(pairs, where, strict=False):
        known = history.results[result]
        kind = "baseline" if result in chosen else "other"
        text = f"{unit.text(sample.value)} {unit.name}, {known.started_utc}"
        if known.commit:
            text += f", commit {brief(known.commit[:_COMMIT])}"
        marks.append(Mark(x, y, text, kind))
    marks.append(Mark(*where[-1], f"now: {unit.text(held.now.value)} {unit.name}", "now"))
    area = ""
    if held.baseline:
        edges = [SIZE - up.at(edge(held.baseline)) for edge in (min, max)]
        area = band(*([(0.0, y), (SIZE, y)] for y in edges))
    shown = [result for result, _ in pairs]
    places = [x for x, _ in where]
    columns = tuple(_commits(history, shown, places))
    name = brief(metric_name(series.metric))
    low, high = min(values), max(values)
    return Trend(
        curve=Curve(
            title=name,
            summary=f"{name}: {len(pairs)} earlier results, from {unit.text(low)} to "
            f"{unit.text(high)} {unit.name}; now {unit.text(held.now.value)} {unit.name}",
            line=line(where),
            area=area,
            marks=tuple(marks),
            rules=(),
            columns=columns,
            steps=tuple(_steps(history, held.steps, unit, shown, places)),
            scale=tuple(
                Tick(100 - up.at(value) / 10, f"{number(value / unit.divisor)} {unit.name}")
                for value in up.ticks(unit.divisor)
            ),
            base=_spread(columns),
        ),
        points=tuple(
            Point(
                started=known.started_utc,
                commit=brief(known.commit[:_COMMIT]),
                session=brief(known.session[:_COMMIT]),
                value=f"{unit.text(sample.value)} {unit.name}",
                baseline=result in chosen,
            )
            for result, sample in reversed(pairs[-limits.rows :])
            for known in (history.results[result],)
        ),
        more=left_out(len(series.results), min(limits.rows, len(pairs))),
    )


def _commits(history: History, results: Sequence[int], places: Sequence[float]) -> list[Tick]:
    """Where another commit begins."""
    found: list[Tick] = []
    before = ""
    for result, x in zip(results, places, strict=False):
        commit = history.results[result].commit
        if commit and commit != before:
            found.append(Tick(round(x / 10, 2), brief(commit[:_COMMIT])))
            before = commit
    return found


def _steps(
    history: History,
    steps: Sequence[MetricStep],
    unit: DisplayUnit,
    results: Sequence[int],
    places: Sequence[float],
) -> Iterator[Tick]:
    """Where a number went to another level: between the last result before it and the next."""
    begun = [history.results[result].started_utc for result in results]
    for step in steps:
        if step.first_bad_utc in begun:
            at = begun.index(step.first_bad_utc)
            place = (places[max(at - 1, 0)] + places[at]) / 2
            size = f"{'+' if step.size.value > 0 else ''}{unit.text(step.size.value)} {unit.name}"
            commits = [brief(c[:_COMMIT]) or "unknown" for c in (step.last_good, step.first_bad)]
            yield Tick(round(place / 10, 2), f"{size} in ({commits[0]}, {commits[1]}]")


def _spread(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Of all labels as many as have room side by side."""
    kept: list[Tick] = []
    for tick in ticks:
        if not kept or tick.place - kept[-1].place >= 100 / _LABELS:
            kept.append(tick)
    return tuple(kept)
