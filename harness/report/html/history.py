"""A result beside its history: what it is held against, and every number from result to result."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analyze.compare import EXECUTIONS
from harness.check.history.comparison import Compared, Interval, MetricStep
from harness.check.history.measure import TIME_STATISTICS, measure
from harness.check.history.samples import History, Metric, Sample, Series
from harness.check.subject import Subject
from harness.formatting import DisplayUnit, metric_unit
from harness.records.trace import OPERATOR_CALL
from harness.report.html.curve import SIZE, Curve, Mark, Tick, axis, band, line
from harness.report.html.formatting import Limits, brief, bytes_unit, most, number, percent
from harness.runs.judged_run import JudgedRun

_COMMIT = 8
"""Characters of a commit that are shown in a picture."""

_QUIET = ("same", "too little")
"""What becomes of a number that nobody needs to look at."""

_LABELS = 3
"""The most labels below a picture."""


@dataclass(frozen=True, slots=True)
class Point:
    """A result's line of a trend's table."""

    started: str
    commit: str
    session: str
    value: str
    baseline: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """A number through history: as a picture, and as a table of the same."""

    curve: Curve
    points: tuple[Point, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Versus:
    """A number beside what it is held against.

    Attributes:
        name: What it is of.
        unit: The board it was measured on.
        judgement: What became of it.
        baseline: Its level in the baseline, with the bounds of it.
        now: What was measured now.
        change: By how much it changed, with the bounds of it.
        relative: Likewise, of the baseline.
        limit: What the change was held against.
        noise: Standard deviation between sessions, of the level.
        chance: How probable such a change is by chance, adjusted for how many were judged.
        reason: Why it was judged so.
        bar: The change and its bounds on a line that has 0 in the middle; None when not known.
    """

    name: str
    unit: str
    judgement: str
    baseline: str
    now: str
    change: str
    relative: str
    limit: str
    noise: str
    chance: str
    reason: str
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class Bar:
    """Places along a bar, percent: an estimate and its bounds."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class HistoryView:
    """What is shown of a history.

    Attributes:
        description: How the baseline was chosen.
        results: How many results there are.
        baseline: How many of them are the baseline.
        sessions: Of how many sessions these are.
        changed: Numbers beside their baseline that are not as they were, the worst first.
        more: How many of these are left out.
        others: Those that are, or of which too little is known.
        more_others: How many of these are left out.
        several_units: The unit is worth a column.
        counts: How many numbers there are of each judgement.
        notes: What was left out of the comparison, and why.
        elsewhere: How many results are of other units and not drawn.
        trends: Numbers through history, the worst or most changed first.
        more_trends: How many are left out.
    """

    description: str
    results: int
    baseline: int
    sessions: int
    changed: tuple[Versus, ...]
    more: int
    others: tuple[Versus, ...]
    more_others: int
    several_units: bool
    counts: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]
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


def history_view(run: JudgedRun, limits: Limits) -> HistoryView | None:
    """Hold a run beside its history; None where there is nothing to hold it against."""
    history, comparison = run.history or History(), run.comparison
    if not history.results and comparison is None:
        return None
    numbers = () if comparison is None else comparison.numbers
    changed = [number for number in numbers if number.judgement not in _QUIET]
    others = [number for number in numbers if number.judgement in _QUIET]
    own = _of_unit(history, run)
    held = _held(history, run.subject, own, numbers)
    return HistoryView(
        description=brief(comparison.description if comparison else history.description),
        results=len(history.results),
        baseline=len(history.baseline),
        sessions=len({history.results[index].session for index in history.baseline}),
        changed=tuple(map(_versus, changed[: limits.rows])),
        more=most(len(changed), limits.rows),
        others=tuple(map(_versus, others[: limits.rows])),
        more_others=most(len(others), limits.rows),
        several_units=len({number.board_unit for number in numbers}) > 1,
        counts=tuple(Counter(number.judgement for number in numbers).items()),
        notes=() if comparison is None else tuple(map(brief, comparison.notes)),
        elsewhere=len(history.results) - len(own),
        trends=tuple(_trend(history, item, limits) for item in held[: limits.trends]),
        more_trends=most(len(held), limits.trends),
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


def _of_unit(history: History, run: JudgedRun) -> set[int]:
    """Results of the unit that the run was on; of all where there are none of it."""
    unit = run.result.unit if run.result is not None else ""
    own = {place for place, result in enumerate(history.results) if result.unit == unit}
    return own or set(range(len(history.results)))


def _name(metric: Metric) -> str:
    parts = [brief(metric.name) or "(no name)"]
    if metric.delegate_str is not None or metric.delegate_int != -1:
        delegate = metric.delegate_int if metric.delegate_str is None else metric.delegate_str
        parts.append(f"[{brief(str(delegate))}]")
    if metric.chain != -1:
        parts.append(f"· instruction {metric.instruction}")
    if metric.statistic:
        parts.append(f"· {metric.statistic}")
    return " ".join(parts)


def _unit(metric: Metric, values: Sequence[float]) -> DisplayUnit:
    sizes = [*map(abs, values)]
    return bytes_unit(sizes) if metric.unit == "bytes" else metric_unit(metric.unit, sizes)


def _versus(number: Compared) -> Versus:
    levels = [i for i in (number.baseline, number.change) if i is not None]
    sizes = [abs(interval.value) for interval in levels] + [abs(number.current or 0.0)]
    unit = _unit(number.metric, sizes)
    change = number.change
    return Versus(
        name=_name(number.metric),
        unit=brief(number.board_unit),
        judgement=number.judgement,
        baseline=_interval(number.baseline, unit),
        now="-" if number.current is None else f"{unit.text(number.current)} {unit.name}",
        change=_interval(change, unit, "+"),
        relative="-" if number.relative is None else f"{100 * number.relative:+.2f} %",
        limit=f"{percent(number.relative_limit)} and {unit.text(number.absolute_limit)} "
        f"{unit.name}",
        noise=percent(number.noise, 2),
        chance="-" if number.q is None else f"{number.q:.2g}",
        reason=brief(number.reason, 500),
        bar=None if change is None else _bar(change),
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


def _bar(change: Interval) -> Bar:
    """A change and its bounds, an infinite one at the end of the line."""
    finite = [abs(v) for v in (change.low, change.value, change.high) if math.isfinite(v)]
    widest = max(finite, default=0.0) or 1.0

    def place(value: float) -> float:
        return round(50 + 45 * max(-1.1, min(1.1, value / widest)), 2)

    return Bar(place(change.low), place(change.value), place(change.high))


def _trend(history: History, held: _HistoryCurve, limits: Limits) -> Trend:
    """The latest points of a series, and the number measured now behind them."""
    series, unit = held.series, _unit(held.series.metric, [s.value for s in held.series.samples])
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
    name = _name(series.metric)
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
        more=most(len(series.results), min(limits.rows, len(pairs))),
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
