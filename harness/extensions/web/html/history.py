"""A run beside its history on a page: changes, series through history, deltas beside numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from msgspec import structs

from harness.analyze.compare import Change, OperatorChange
from harness.analyze.statistics import EXECUTIONS, Operator
from harness.check.history.align import aligned
from harness.check.history.compare import DEFAULT_LIMITS
from harness.check.history.comparison import (
    Compared,
    Interval,
    MetricStep,
    judgement_word,
    number_kind,
    percentage,
)
from harness.check.history.group_sessions import series_of
from harness.check.history.measure import TIME_STATISTICS, measure, operator_metric
from harness.check.history.samples import Decision, History, Metric, Provenance, Sample, Series
from harness.check.subject import Subject
from harness.extensions.web.html.svg import (
    SIZE,
    Axis,
    Curve,
    Limits,
    Mark,
    Tick,
    View,
    axis,
    band,
    line,
    sparkline,
)
from harness.formatting import DisplayUnit, printable
from harness.history.entries import measured_of
from harness.records.trace import EXECUTION, SUM_OF_OPERATORS, is_wrapper
from harness.records.verdict import Judgement
from harness.report.changes import (
    LATEST,
    UNCHANGED,
    TrackedNumber,
    change_cells,
    own_results,
    unit_for,
)
from harness.report.description import RunDescription
from harness.report.overview import name_of
from harness.report.words import brief, counted, left_out, metric_title, three_digits
from harness.runs.source import EvaluatedRun

if TYPE_CHECKING:
    from markupsafe import Markup


_NOISE: Final = 2.0
"""A scale spans at least so many times the band of the noise, four times its reach to a side."""

_LEAST: Final = 0.05
"""A scale spans at least this part of the numbers."""

_DEVIATIONS: Final = 2.0
"""The band of the noise reaches so many standard deviations to each side."""

_FENCE: Final = 3.0
"""A value is an outlier that far from the quartiles, in multiples of their distance."""

_FEWEST: Final = 3
"""Results of a baseline from which its range is drawn as its noise."""

_COMMIT: Final = 8
"""Characters of a commit in a picture."""

_APART: Final = 18.0
"""Middles of labels of commits and dates are at least that far from each other, percent."""

_NARROW: Final = 40.0
"""The same where the picture is narrow, as on a phone."""

_STEP_APART: Final = 45.0
"""The same for names of steps."""

_OUTERMOST: Final = 8.0
"""Labels that near to an edge, percent, begin or end there."""


@dataclass(frozen=True, slots=True)
class _Level:
    """What a series is compared with: its level, and the band of its noise around it."""

    value: float
    name: str
    noise: tuple[float, float] | None

    def percent(self, value: float) -> str:
        """The difference of a value from the level, in percent."""
        if not self.value:
            return ""
        change = 100 * (value / self.value - 1)
        if not change:
            return "±0 %"
        return f"{change:+.2g} %" if abs(change) < 100 else f"{change:+,.0f} %"


def series_axis(values: Sequence[float], noise: tuple[float, float] | None) -> Axis:
    """Return a scale on which a step of one tick looks as small as it is.

    Args:
        values: The numbers, at least one.
        noise: The band of the noise; None if it is unknown.
    """
    shown = [*values, *(noise or ())]
    least = _LEAST * abs(statistics.median(values))
    if noise is not None:
        least = max(least, _NOISE * (noise[1] - noise[0]))
    return axis(shown, from_zero=False, least=least)


def trend_line(tracked: TrackedNumber) -> Markup | str:
    """Draw the last values of a number without labels; empty without an earlier one."""
    if not tracked.earlier:
        return ""
    scale = series_axis(tracked.trend, tracked.noise)
    noise = None
    if tracked.noise is not None:
        low, high = tracked.noise
        noise = (scale.down(high), scale.down(low))
    summary = f"{tracked.name}: {len(tracked.earlier)} earlier results"
    if tracked.change_text:
        summary += f"; now {tracked.text}, {tracked.change_text}"
    return sparkline([scale.down(value) for value in tracked.trend], summary, noise)


def series_chart(
    history: History,
    series: Series,
    limits: Limits,
    *,
    now: Sample | None = None,
    compared: Compared | None = None,
    where: str = "",
    subjects: Mapping[str, str] | None = None,
) -> View:
    """Draw a series of a history: a picture, what it shows in words, and a table.

    The table has the latest results, newest first; ``more`` earlier ones are left out of it.

    Args:
        history: The history.
        series: One of its series, or a part of one, with a result at least.
        limits: How many points are drawn, and how many are listed.
        now: The same number in a run that is not in the history; None without one.
        compared: What a comparison with the history said of the number; None without one.
        where: Model and board, for the title.
        subjects: Subjects of commits; those of others are unknown.
    """
    pairs = list(zip(series.results, series.samples, strict=True))[-(limits.points - 1) :]
    results = [history.results[place] for place, _ in pairs]
    values = [sample.value for _, sample in pairs] + ([now.value] if now is not None else [])
    unit = unit_for(series.metric, values)
    level = _level(history, series, compared, values)
    clipped = outliers(values, level.noise, last_counts=now is not None)
    inside = [value for n, value in enumerate(values) if n not in clipped]
    up, along = series_axis(inside, level.noise), axis([1, len(values)], from_zero=False)
    places = [along.at(n) for n in range(1, len(values) + 1)]
    heights = [min(max(up.down(value), 0.0), SIZE) for value in values]
    chosen = set(history.baseline)
    marks = [
        Mark(
            x, y, _about(result, sample.value, unit, level), "baseline" if at in chosen else "other"
        )
        for result, (at, sample), x, y in zip(results, pairs, places, heights, strict=False)
    ]
    if now is not None:
        marks.append(Mark(places[-1], heights[-1], f"now: {_value(now.value, unit, level)}", "now"))
    for n, above in clipped.items():
        marks[n] = replace(marks[n], kind="clipped above" if above else "clipped below")
    dates = [*_dates(results, places)]
    narrow = _spread(dates, _NARROW)
    steps = compared.steps if compared is not None else ()
    title = metric_title(series.metric)
    if where:
        title = f"{title} of {where}"
    named = [_step_text(step, series.metric) for step in steps]
    sentence = _sentence(
        *(values, unit, level, compared, steps),
        step=_with_subject(named, steps, subjects or {}),
        has_now=now is not None,
    )
    curve = Curve(
        title=brief(title),
        summary=f"{brief(title)}: {len(pairs)} earlier results. {sentence}",
        line=line(
            [point for n, point in enumerate(zip(places, heights, strict=True)) if n not in clipped]
        ),
        area=_noise_area(level, up),
        marks=tuple(marks),
        rules=tuple(_detectable(level, up, compared)),
        columns=tuple(_commits(results, places)),
        steps=tuple(_steps(results, places, steps, named)),
        scale=up.scale(unit.divisor, unit.name),
        base=narrow,
        wide=tuple(tick for tick in _spread(dates, _APART, narrow) if tick not in narrow),
        percent=tuple(
            Tick(up.down(value) / 10, level.percent(value)) for value in up.ticks(unit.divisor)
        ),
        flags=tuple(_flags(history.decisions, series, results, places)),
        notes=tuple(
            Mark(
                places[n],
                heights[n],
                f"{'▲' if above else '▼'} {three_digits(values[n] / unit.divisor)} {unit.name}",
                "above" if above else "below",
            )
            for n, above in clipped.items()
        ),
    )
    listed = pairs[-limits.rows :]
    return {
        "title": brief(title),
        "sentence": sentence,
        "curve": curve,
        "legend": [*_legend(curve, level, up, unit, compared)],
        "points": [
            {
                "started": history.results[at].started_utc,
                "commit": brief(history.results[at].commit[:_COMMIT]),
                "session": brief(history.results[at].session[:_COMMIT]),
                "value": f"{unit.text(sample.value)} {unit.name}",
                "change": level.percent(sample.value),
                "baseline": at in chosen,
            }
            for at, sample in reversed(listed)
        ],
        "more": left_out(len(series.results), len(listed)),
    }


def outliers(
    values: Sequence[float], noise: tuple[float, float] | None, *, last_counts: bool
) -> dict[int, bool]:
    """Return places of outliers that would squeeze the rest of a picture, and whether above it.

    An outlier stands alone: a value whose neighbours are far away, too, is a step, and is drawn.
    So is the last value where it is the one to look at.
    """
    if len(values) < 2 * _FEWEST:
        return {}
    low, _, high = statistics.quantiles(values, n=4)
    width = noise[1] - noise[0] if noise is not None else 0.0
    room = max(_FENCE * (high - low), 2 * width, 2 * _LEAST * abs(statistics.median(values)))
    sides = [(value > high + room) - (value < low - room) for value in values]
    found = {}
    for place, side in enumerate(sides):
        beside = [*sides[max(place - 1, 0) : place], *sides[place + 1 : place + 2]]
        is_last = place == len(sides) - 1
        if side and side not in beside and not (is_last and last_counts):
            found[place] = side > 0
    return found


def _level(
    history: History, series: Series, compared: Compared | None, values: Sequence[float]
) -> _Level:
    chosen = set(history.baseline)
    known = zip(series.results, series.samples, strict=True)
    baseline = [sample.value for at, sample in known if at in chosen]
    if compared is not None and compared.baseline is not None:
        value, name = compared.baseline.value, "the baseline"
    elif baseline:
        value, name = statistics.median(baseline), "the baseline's median"
    else:
        value, name = statistics.median(values), "the median"
    if compared is not None and compared.noise:
        reach = _DEVIATIONS * compared.noise
        return _Level(value, name, (value * (1 - reach), value * (1 + reach)))
    usual = _usual(baseline)
    return _Level(value, name, usual if usual and usual[0] < usual[1] else None)


def _usual(baseline: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of a baseline without outliers; None where it has too few results."""
    if len(baseline) < _FEWEST:
        return None
    low, _, high = statistics.quantiles(baseline, n=4)
    room = _FENCE / 2 * (high - low)
    inside = [value for value in baseline if low - room <= value <= high + room]
    return min(inside), max(inside)


def _value(value: float, unit: DisplayUnit, level: _Level) -> str:
    change = level.percent(value)
    text = f"{unit.text(value)} {unit.name}"
    return f"{text}, {change} from {level.name}" if change and value != level.value else text


def _about(result: Provenance, value: float, unit: DisplayUnit, level: _Level) -> str:
    text = f"{_value(value, unit, level)}, {result.started_utc}"
    return f"{text}, commit {brief(result.commit[:_COMMIT])}" if result.commit else text


def _noise_area(level: _Level, up: Axis) -> str:
    if level.noise is None:
        return ""
    low, high = (up.down(edge) for edge in level.noise)
    return band([(0.0, low), (SIZE, low)], [(0.0, high), (SIZE, high)])


def _detectable(level: _Level, up: Axis, compared: Compared | None) -> Iterator[Tick]:
    """Lines at the smallest change that would be found, where the scale reaches them."""
    if compared is None or not compared.detectable:
        return
    for share in (compared.detectable, -compared.detectable):
        value = level.value * (1 + share)
        if up.low <= value <= up.high:
            sign = "+" if share > 0 else "-"
            text = f"{sign}{percentage(abs(share))}: detectable change"
            yield Tick(up.down(value) / 10, text)


def _legend(
    curve: Curve, level: _Level, up: Axis, unit: DisplayUnit, compared: Compared | None
) -> Iterator[str]:
    if curve.area and compared is not None and compared.noise:
        reach = percentage(_DEVIATIONS * compared.noise)
        yield f"Band: noise between sessions: ±{reach} around the baseline."
    elif curve.area:
        yield "Band: range of the baseline without outliers."
    if compared is not None and compared.detectable and not curve.rules:
        yield (f"The detectable change, {percentage(compared.detectable)}, is beyond this scale.")
    if any(tick.text for tick in curve.percent):
        yield f"Percent: of {level.name}, {three_digits(level.value / unit.divisor)} {unit.name}."
    if up.low > 0:
        yield f"The scale begins at {three_digits(up.low / unit.divisor)} {unit.name}, not at 0."
    if curve.notes:
        yield "Arrows: outliers beyond the scale, with their values."


def _sentence(
    values: Sequence[float],
    unit: DisplayUnit,
    level: _Level,
    compared: Compared | None,
    steps: Sequence[MetricStep],
    *,
    step: str,
    has_now: bool,
) -> str:
    """What happened to a series, and what would have been noticed."""
    parts = []
    if steps:
        levels = steps[-1].before, steps[-1].before + steps[-1].size.value
        old, new = (three_digits(level / unit.divisor) for level in levels)
        if old == new:
            old, new = map(unit.text, levels)
        earlier = f" ({counted(len(steps) - 1, 'earlier step')})" if len(steps) > 1 else ""
        parts.append(f"{step}: from {old} to {new} {unit.name}{earlier}.")
    elif min(values) == max(values):
        parts.append(f"Always {unit.text(values[0])} {unit.name}.")
    else:
        parts.append(f"From {unit.text(min(values))} to {unit.text(max(values))} {unit.name}.")
    if has_now:
        word = (
            ""
            if compared is None
            else judgement_word(compared.judgement, number_kind(compared.metric))
        )
        judged = f" ({word})" if word else ""
        parts.append(f"Now {_value(values[-1], unit, level)}{judged}.")
    if compared is not None and compared.detectable:
        parts.append(f"Detectable change: {percentage(compared.detectable)}.")
    return " ".join(parts)


def _step_text(step: MetricStep, metric: Metric) -> str:
    """Say what a step is, and since when: ``12.4 % slower since a1b2c3d4``."""
    judgement: Judgement = "regression" if step.size.value > 0 else "improvement"
    word = judgement_word(judgement, number_kind(metric))
    size = f"{abs(100 * step.size.value / step.before):.1f} % " if step.before else ""
    return f"{size}{word} since {brief(step.first_bad[:_COMMIT]) or step.first_bad_utc[:10]}"


def _with_subject(
    named: Sequence[str], steps: Sequence[MetricStep], subjects: Mapping[str, str]
) -> str:
    """Return the name of the newest step with the subject of its commit; empty without a step."""
    if not steps:
        return ""
    subject = subjects.get(brief(steps[-1].first_bad), "")
    return f"{named[-1]}: {subject}" if subject else named[-1]


def _dates(results: Sequence[Provenance], places: Sequence[float]) -> Iterator[Tick]:
    """Where another day begins; where another minute does if all results are of one day."""
    days = {result.started_utc[:10] for result in results}
    shown = slice(0, 10) if len(days) > 1 else slice(11, 16)
    before = ""
    for result, x in zip(results, places, strict=False):
        if (text := brief(result.started_utc[shown])) != before:
            yield Tick(round(x / 10, 2), text)
            before = text


def _commits(results: Sequence[Provenance], places: Sequence[float]) -> Iterator[Tick]:
    """Where another commit begins."""
    before = ""
    for result, x in zip(results, places, strict=False):
        if result.commit and result.commit != before:
            yield Tick(round(x / 10, 2), brief(result.commit[:_COMMIT]))
            before = result.commit


def _between(
    results: Sequence[Provenance], places: Sequence[float], first_utc: str
) -> float | None:
    """The place between the result that began at a time and the one before it, percent."""
    begun = [result.started_utc for result in results]
    at = next((n for n, utc in enumerate(begun) if utc >= first_utc), None)
    if at is None:
        return None
    return round((places[max(at - 1, 0)] + places[at]) / 20, 2)


def _steps(
    results: Sequence[Provenance],
    places: Sequence[float],
    steps: Sequence[MetricStep],
    named: Sequence[str],
) -> Iterator[Tick]:
    """Where a number went to another level: between the last result before it and the next.

    The newest ones are named, and as many others as have room beside them.
    """
    found = []
    for step, text in zip(steps, named, strict=True):
        place = _between(results, places, step.first_bad_utc)
        if place is not None:
            found.append(Tick(place, text))
    kept = _spread(found[::-1], _STEP_APART)
    yield from (tick if tick in kept else replace(tick, text="") for tick in found)


def _flags(
    decisions: Sequence[Decision],
    series: Series,
    results: Sequence[Provenance],
    places: Sequence[float],
) -> Iterator[Tick]:
    """Where a person accepted another level."""
    units = {result.unit for result in results}
    for decision in decisions:
        if decision.metric == series_of(series.metric) and decision.unit in units:
            place = _between(results, places, decision.since_utc)
            if place is not None:
                yield Tick(place, f"⚑ {brief(decision.describe())}")


def _spread(ticks: Sequence[Tick], apart: float, given: Sequence[Tick] = ()) -> tuple[Tick, ...]:
    """Of all labels as many as have room side by side; ``given`` ones are among them."""
    kept = [*given]
    for tick in ticks:
        if all(abs(_middle(tick, apart) - _middle(other, apart)) >= apart for other in kept):
            kept.append(tick)
    return tuple(kept)


def _middle(tick: Tick, wide: float) -> float:
    """Where the middle of a label is; the outermost ones do not reach beyond the picture."""
    if tick.place < _OUTERMOST:
        return tick.place + wide / 2
    return tick.place - wide / 2 if tick.place > 100 - _OUTERMOST else tick.place


_SMALLEST: Final = 5e-4
"""Per cent; a smaller change is written as none."""

_STATISTICS: Final = ("p50", "avg", "total", "min", "p10", "p90", "max")
"""Statistics of a time, the most wanted first."""


class BaselineNumbers:
    """The comparison and the history of a run, by metric.

    A number beside its baseline has a ``text``, its change in per cent with the sign, empty if it
    is unknown; a ``judgement``, the class of its colour; and a ``note``: judgement, noise and
    detectable change in words.
    """

    def __init__(self, run: EvaluatedRun) -> None:
        history, self._gone = _history_of_program(run)
        numbers = run.comparison.numbers if run.comparison else ()
        self._compared = {number.metric: number for number in reversed(numbers)}
        own = own_results(history, run)
        self.history = history
        self._own = own
        self._earlier: dict[Metric, float] | None = None
        self._series: dict[Metric, tuple[float, ...]] = {}
        for series in history.series:
            pairs = zip(series.results, series.samples, strict=True)
            values = [sample.value for result, sample in pairs if result in own]
            self._series[series.metric] = tuple(
                values[1 - LATEST :]
            )  # with that of the run, LATEST

    def of_operator(self, operator: Operator) -> View | None:
        """The change of an operator's time: of its median, or of another statistic, which it names.

        Of the statistics that are compared a comparison reports the one that saw most.
        """
        for statistic in _STATISTICS if self._compared else ():
            found = self._delta(operator_metric(operator, statistic))
            if found is not None:
                return found
        return None

    @property
    def earlier(self) -> dict[Metric, float]:
        """The medians of operators in the baseline, or without one in the result before this one.

        Of several results of a baseline the median.
        """
        if self._earlier is None:
            own = sorted(self._own)
            chosen = {*self.history.baseline} & self._own or {*own[-1:]}
            self._earlier = {}
            for series in (*self.history.series, *self._gone):
                if series.metric.kind == "operator" and series.metric.statistic == "p50":
                    pairs = zip(series.results, series.samples, strict=True)
                    values = [sample.value for result, sample in pairs if result in chosen]
                    if values:
                        self._earlier[series.metric] = statistics.median(values)
        return self._earlier

    @property
    def earlier_name(self) -> str:
        """What ``earlier`` is of; empty if there is nothing."""
        if not self.earlier:
            return ""
        if self.history.baseline:
            return f"baseline ({printable(self.history.description)})"
        last = self.history.results[max(self._own)]
        commit = f", commit {brief(last.commit[:_COMMIT])}" if last.commit else ""
        started = last.started_utc[:16].replace("T", " ")
        return f"result before this one ({started} UTC{commit})"

    def change_of(self, operator: Operator) -> OperatorChange | None:
        """The change of the median of an operator; None without times, or without a history."""
        if operator.times is None or not self.earlier:
            return None
        metric = operator_metric(operator, "p50")
        numbers = (
            self._compared.get(operator_metric(operator, statistic)) for statistic in _STATISTICS
        )
        judged = next((number.judgement for number in numbers if number), None)
        before = self.earlier.get(metric)
        return _change_of(metric, before, operator.times.p50, judged if before and judged else "")

    def changes(self, subject: Subject) -> list[OperatorChange]:
        """The changes of all operators, then what there was before and is no more."""
        if not self.earlier:
            return []
        blocks = Counter(block.name for block in subject.trace.blocks)
        found = [
            structs.replace(change, per_run=Change.of(None, len(op.rows) / blocks[op.block]))
            for op in subject.operators
            if (change := self.change_of(op)) is not None
        ]
        measured = {operator_metric(op, "p50") for op in subject.operators}
        gone = (m for m in self.earlier if m not in measured and m.name != SUM_OF_OPERATORS)
        return [*found, *(_change_of(m, self.earlier[m], None, "") for m in gone)]

    def _delta(self, metric: Metric) -> View | None:
        found = self._compared.get(metric)
        if found is None or found.judgement == "appeared":
            return None
        notes = [judgement_word(found.judgement, number_kind(found.metric))]
        if found.noise is not None:
            notes.append(f"noise {percentage(found.noise)}")
        if found.detectable is not None and found.detectable < 1:
            notes.append(f"detectable {percentage(found.detectable)}")
        text = "" if found.relative is None else f"{signed(100 * found.relative)} %"
        of = "" if metric.statistic in ("p50", "peak_bytes") else f" ({metric.statistic})"
        judgement = found.judgement.replace(" ", "-")
        return {"text": text and text + of, "judgement": judgement, "note": ", ".join(notes)}

    def trend(self, operator: Operator) -> Markup | None:
        """Draw the last medians of an operator; None without a history of it."""
        metric = operator_metric(operator, "p50") if self._series else None
        earlier = self._series.get(metric, ()) if metric is not None else ()
        if not earlier or operator.times is None:
            return None
        noises = (
            found.noise
            for statistic in _STATISTICS
            if (found := self._compared.get(operator_metric(operator, statistic)))
        )
        level = statistics.median(earlier)
        return _sparkline([*earlier, operator.times.p50], level, next(noises, None))

    @property
    def allocators(self) -> View | None:
        """The largest change of the peak of an allocator; None without a baseline."""
        peaks = [
            (metric, number)
            for metric, number in self._compared.items()
            if metric.kind == "allocator" and metric.statistic == "peak_bytes"
        ]
        known = [(metric, number) for metric, number in peaks if number.judgement != "appeared"]
        if not known:
            return None
        metric, _ = max(known, key=lambda item: abs(item[1].relative or 0.0))
        found = self._delta(metric)
        if found is None or found["text"] == "±0 %":
            return found
        return found | {"note": f"{printable(metric.name)}: {found['note']}"}

    def allocator_trend(self, now: float) -> Markup | None:
        """Draw the last sums of all allocators' peaks; None without any."""
        series = [
            values
            for metric, values in self._series.items()
            if metric.kind == "allocator" and metric.statistic == "peak_bytes" and values
        ]
        if not series:
            return None
        shortest = min(map(len, series))
        sums = [sum(values[n - shortest] for values in series) for n in range(shortest)]
        return _sparkline([*sums, now], statistics.median(sums), None)


def _change_of(
    metric: Metric, before: float | None, after: float | None, judged: Judgement | Literal[""]
) -> OperatorChange:
    one = Change.of(1.0 if before is not None else None, 1.0 if after is not None else None)
    return OperatorChange(
        *(metric.block, metric.name, metric.chain, metric.instruction),
        *(metric.delegate_int, metric.delegate_str),
        unit="ticks" if metric.unit == "ticks" else "ns",
        time=Change.of(before, after),
        count=one,
        per_run=one,
        judgement=judged,
    )


def signed(value: float) -> str:
    """Return per cent with their sign, to three digits."""
    if abs(value) < _SMALLEST:
        return "±0"
    return ("+" if value > 0 else "-") + three_digits(abs(value))


def _sparkline(values: Sequence[float], level: float, noise: float | None) -> Markup:
    """Draw values around their level; a change of the size of the noise does not fill the line."""
    width = (noise or 0.0) * abs(level)
    up = series_axis(values, (level - width, level + width))
    change = percentage(abs(values[-1] - level) / abs(level)) if level else "0 %"
    way = "above" if values[-1] > level else "below"
    return sparkline(
        [up.down(value) for value in values],
        f"last {len(values)} values, oldest first; now {change} {way} their median",
        None if noise is None else (up.down(level + width), up.down(level - width)),
    )


def _history_of_program(run: EvaluatedRun) -> tuple[History, tuple[Series, ...]]:
    """Return the history of a run, empty without one, with the metrics of the run's own program.

    Also what only earlier programs had.
    """
    history = run.history or History()
    if not history.results or run.result is None or run.subject is None:
        return history, ()
    measured = [measured_of(run.result, run.subject, DEFAULT_LIMITS)]
    found = aligned(history, measured)[0]
    if len(found.series) >= len(history.series):
        return found, ()
    kept = {series.metric for series in found.series}
    everything = aligned(history, measured, keep_gone=True)[0].series
    return found, tuple(series for series in everything if series.metric not in kept)


def history_view(
    description: RunDescription, beside: BaselineNumbers, limits: Limits
) -> View | None:
    """Draw the history of a run; None without one.

    Changed numbers have the worst first, and trends the worst or most changed.
    """
    run, changes, history = description.run, description.changes, beside.history
    if not history.results and changes is None:
        return None
    numbers = () if run.comparison is None else run.comparison.numbers
    own = own_results(history, run)
    everything = _held(history, run.subject, own, numbers)
    held = [item for item in everything if not _is_flat(item[0], item[1])]
    flat = [(series, now) for series, now, _ in everything if _is_flat(series, now)]
    changed, others = (changes.changed, changes.others) if changes is not None else ((), ())
    return {
        "description": printable(history.description) if changes is None else changes.description,
        "changes": changes,
        "causes": description.causes,
        "results": len(history.results),
        "baseline": len(history.baseline),
        "sessions": len({history.results[index].session for index in history.baseline}),
        "changed": [*map(_change_bar, changed[: limits.rows])],
        "more": left_out(len(changed), limits.rows),
        "others": [*map(_change_bar, others[: limits.rows])],
        "more_others": left_out(len(others), limits.rows),
        "elsewhere": len(history.results) - len(own),  # of other units, and not drawn
        "trends": [
            series_chart(
                *(history, series, limits),
                now=now,
                compared=compared,
                where=name_of(description),
            )
            for series, now, compared in held[: limits.trends]
        ],
        "flat": len(flat),
        "flat_names": [_flat_text(series.metric, now.value) for series, now in flat[:_NAMED]],
        "more_flat": left_out(len(flat), _NAMED),
        "more_trends": left_out(len(held), limits.trends),
    }


def _held(
    history: History, subject: Subject | None, own: Collection[int], numbers: Sequence[Compared]
) -> list[tuple[Series, Sample, Compared | None]]:
    """Return series that go on now, with their value now, in the order of the comparison.

    Of their results only ``own`` ones are taken. Others have the most changed first. What never
    changed comes last, before it scopes around kernels, which repeat them, and before these what is
    the same as the baseline and had no step.
    """
    measured = {} if subject is None else _measured(history, subject)
    place = {number.metric: index for index, number in reversed([*enumerate(numbers)])}
    chosen = set(history.baseline)
    held = []
    for series in history.series:
        metric, pairs = series.metric, zip(series.results, series.samples, strict=True)
        kept = [pair for pair in pairs if pair[0] in own]
        if metric not in measured or not kept:
            continue
        now, known = measured[metric], place.get(metric)
        compared = None if known is None else numbers[known]
        baseline = [sample.value for result, sample in kept if result in chosen]
        order = (
            len({now.value, *(sample.value for _, sample in kept)}) == 1,
            is_wrapper(metric.name),
            metric.name != EXECUTION and _is_settled(compared),
            math.inf if known is None else known,
            -_change(now.value, baseline),
        )
        results, samples = zip(*kept, strict=True)
        held.append((order, Series(metric, results, samples), now, compared))
    held.sort(key=lambda item: item[0])
    return [(series, now, compared) for _, series, now, compared in held]


_NAMED: Final = 8
"""Numbers that are named as never changed."""


def _is_flat(series: Series, now: Sample) -> bool:
    """Whether a number was the same in all results."""
    return all(sample.value == now.value for sample in series.samples)


def _flat_text(metric: Metric, value: float) -> str:
    unit = unit_for(metric, [value])
    return f"{brief(metric_title(metric))} ({unit.text(value)} {unit.name})"


def _is_settled(compared: Compared | None) -> bool:
    """Whether nothing asks for a look at a number: neither a change nor a step."""
    return compared is None or (compared.judgement in UNCHANGED and not compared.steps)


def _change(now: float, baseline: Sequence[float]) -> float:
    """Return how far off the baseline's median a value is, as a share; 0 without a baseline."""
    if not baseline:
        return 0.0
    level = statistics.median(baseline)
    return abs(now - level) / abs(level) if level else float(now != level)


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


def _change_bar(number: Compared) -> View:
    """Return a number beside its baseline, its cells, and its change with its bounds along a bar.

    The bar has three places in percent; it is None if the change is unknown.
    """
    bar = None if number.change is None else _bar(number.change)
    cells = change_cells(number)
    exact, title = cells["number"], metric_title(number.metric)
    return {"number": number, "cells": cells, "bar": bar, "title": title, "exact": exact}


def _bar(change: Interval) -> tuple[float, float, float]:
    """A change between its bounds, an infinite one at the end of the line."""
    finite = [abs(v) for v in (change.low, change.value, change.high) if math.isfinite(v)]
    widest = max(finite, default=0.0) or 1.0

    def place(value: float) -> float:
        return round(50 + 45 * max(-1.1, min(1.1, value / widest)), 2)

    return place(change.low), place(change.value), place(change.high)
