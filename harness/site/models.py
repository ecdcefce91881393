"""A model on a unit: its series, compared with their history, and its pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import msgspec

from harness.check.history.compare import compare_with_history
from harness.check.history.comparison import CommonChange, Compared, HistoryComparison, MetricStep
from harness.check.history.decisions import series_of
from harness.check.history.samples import Decision, History, Measured, Metric, Series
from harness.check.history.settings import HistoryLimits
from harness.formatting import printable
from harness.records.measurement import describe_settings, settings_of_key
from harness.records.result import microseconds
from harness.records.trace import EXECUTION, OPERATOR_CALL
from harness.report.html.series import SeriesChart, series_chart
from harness.report.metric_titles import metric_title
from harness.report.text import Limits, brief
from harness.site.documents import (
    ModelOnUnit,
    SeriesKind,
    SiteResult,
    SiteSeries,
    SiteStep,
    slug_of,
)
from harness.site.groups import ResultGroup

LIMITS: Final = HistoryLimits(statistics=("p50",))
"""Limits of comparisons: no budget is known, and pages show medians."""

POINTS: Final = 400
"""Results of a model on a unit that the site shows, the newest."""

_CHART: Final = replace(Limits.of(1), points=POINTS + 1, rows=POINTS)

_KINDS: Final[dict[str, SeriesKind]] = {
    "bytes": "memory",
    "count": "count",
    "nJ": "energy",
    "ns": "time",
    "ticks": "time",
}
_MOST_LINES: Final = 40
"""Lines at which commits begin in a chart."""

_DIGITS: Final = 9
"""Significant digits of values in data files."""


@dataclass(frozen=True, slots=True)
class ChartedSeries:
    """A series and its chart.

    Attributes:
        series: The series.
        chart: The chart.
    """

    series: SiteSeries
    chart: SeriesChart


def describe_model(
    group: ResultGroup, results: Sequence[SiteResult], history: History
) -> tuple[ModelOnUnit, list[ChartedSeries]]:
    """Return a model on a unit with all its series, and a chart of each.

    Args:
        group: Its results.
        results: The same as the site shows them.
        history: Their numbers.
    """
    slug = group.slug
    places = {entry.provenance.id: place for place, entry in enumerate(group.entries)}
    compared, undisturbed = _compared(history)
    charted = []
    model = brief(group.model.removesuffix(".pte"))
    board = brief(group.board)
    for series in sorted(_shown(history.series), key=_rank):
        number = compared.get(series.metric)
        if number is not None and (plain := undisturbed.get(series.metric)) is not None:
            number = _with_all_steps(number, plain.steps)
        at = [places.get(history.results[place].id) for place in series.results]
        described = _series(slug, series, at, len(results), number, history.decisions)
        chart = series_chart(history, series, _CHART, compared=number, where=f"{model} on {board}")
        charted.append(ChartedSeries(described, _thinned(chart)))
    found = ModelOnUnit(
        slug=slug,
        board=board,
        unit=brief(group.unit),
        model=model,
        method=brief(group.method),
        settings=printable(describe_settings(settings_of_key(group.settings))),
        results=tuple(results),
        left_out=group.left_out,
        series=tuple(item.series for item in charted),
    )
    return found, charted


def _thinned(chart: SeriesChart) -> SeriesChart:
    """Return a chart without the lines at which commits begin, if they would be all there is."""
    if len(chart.curve.columns) <= _MOST_LINES:
        return chart
    return replace(chart, curve=replace(chart.curve, columns=()))


def _shown(every: Sequence[Series]) -> Iterator[Series]:
    """Yield the series with pages; scopes repeat operators, and most allocators refuse nothing."""
    for series in every:
        refused = series.metric.statistic == "failed_bytes"
        if series.metric.name == OPERATOR_CALL and series.metric.kind == "operator":
            continue
        if not refused or any(sample.value for sample in series.samples):
            yield series


def _rank(series: Series) -> int:
    """Order of series: executions, memory, sizes, then the rest as it is."""
    kind = series.metric.kind
    ranks = {"execution": 0, "peak": 1, "": {"result": 2, "allocator": 3}.get(kind, 4)}
    return ranks[_role(series.metric)]


def _role(metric: Metric) -> Literal["execution", "peak", ""]:
    if metric.kind == "operator" and metric.name == EXECUTION:
        return "execution"
    is_peak = metric.kind == "allocator" and metric.statistic == "peak_bytes"
    return "peak" if is_peak else ""


def _compared(
    history: History,
) -> tuple[Mapping[Metric, Compared], Mapping[Metric, Compared]]:
    """Compare the newest result with its history: with decisions, and without any.

    A decision that holds hides the steps up to it, and pages show all of them.
    """
    if not history.baseline:
        return {}, {}
    last = len(history.results) - 1
    newest = Measured(
        history.results[last],
        {
            series.metric: series.samples[-1]
            for series in history.series
            if series.results[-1] == last
        },
    )
    found = _by_metric(compare_with_history(history, [newest], LIMITS))
    if not history.decisions:
        return found, found
    undecided = msgspec.structs.replace(history, decisions=())
    return found, _by_metric(compare_with_history(undecided, [newest], LIMITS))


def _by_metric(comparison: HistoryComparison) -> dict[Metric, Compared]:
    """Return the numbers of a comparison as they were measured.

    What all operators of a session have in common is taken out before each is compared, and judged
    by itself. Pages show values that contain it, so it is put back into changes, noise and
    judgements.
    """
    common = {item.clock: item for item in comparison.common}
    return {
        number.metric: _as_measured(number, common[number.metric.clock])
        if number.metric.kind == "operator" and number.metric.clock in common
        else number
        for number in comparison.numbers
    }


def _as_measured(number: Compared, common: CommonChange) -> Compared:
    """Put what all operators have in common back into the number of one."""
    noise, relative, judgement = number.noise, number.relative, number.judgement
    if noise is not None:
        noise = math.hypot(noise, common.noise or 0.0)
    if relative is not None:
        relative = (1 + relative) * (1 + number.common) - 1
        shift = common.change.value
        with_all = relative * shift > 0 and abs(relative) > number.relative_limit
        if judgement == "same" and with_all:
            if common.judgement == "regression":
                judgement = "regression"
            elif common.judgement == "improvement":
                judgement = "improvement"
    return msgspec.structs.replace(number, noise=noise, relative=relative, judgement=judgement)


def _with_all_steps(number: Compared, every: Sequence[MetricStep]) -> Compared:
    """Return a number with also the steps that a decision hides; these are decided."""
    undecided = {step.first_bad_utc for step in number.steps if step.undecided}
    steps = (
        msgspec.structs.replace(step, undecided=step.first_bad_utc in undecided) for step in every
    )
    return msgspec.structs.replace(number, steps=tuple(steps))


def _series(
    slug: str,
    series: Series,
    places: Sequence[int | None],
    results: int,
    number: Compared | None,
    decisions: Sequence[Decision],
) -> SiteSeries:
    metric = series.metric
    values: list[float | None] = [None] * results
    for place, sample in zip(places, series.samples, strict=True):
        if place is not None:  # else added since the results were read
            values[place] = _rounded(sample.value)
    own = [decision for decision in decisions if decision.metric == series_of(metric)]
    page = f"series/{slug}/{slug_of(metric_title(metric), *_identity(metric))}.html"
    title = brief(metric_title(metric))
    found = SiteSeries(
        page=page,
        title=title,
        name=brief(metric.name),
        kind=_KINDS[metric.unit],
        role=_role(metric),
        unit=metric.unit,
        values=tuple(values),
    )
    if number is None:
        return found
    return msgspec.structs.replace(
        found,
        judgement=number.judgement,
        baseline=None if number.baseline is None else _rounded(number.baseline.value),
        change=_known(number.relative),
        noise=_known(number.noise),
        detectable=_known(number.detectable),
        relative_limit=number.relative_limit,
        absolute_limit=number.absolute_limit,
        steps=tuple(_step(step, own) for step in number.steps),
        decision="" if number.decision is None else brief(number.decision.describe()),
    )


def _identity(metric: Metric) -> tuple[str, ...]:
    return tuple(str(value) for value in msgspec.structs.astuple(metric))


def _step(step: MetricStep, decisions: Sequence[Decision]) -> SiteStep:
    """Return a step with the newest decision about a level that begins there."""
    good, bad = microseconds(step.last_good_utc), microseconds(step.first_bad_utc)
    about = [item for item in decisions if good < microseconds(item.since_utc) <= bad]
    return SiteStep(
        last_good=brief(step.last_good),
        first_bad=brief(step.first_bad),
        since=step.first_bad_utc,
        before=_rounded(step.before),
        after=_rounded(step.before + step.size.value),
        p=step.p,
        decision=brief(about[-1].describe()) if about else "",
        undecided=step.undecided,
    )


def _known(share: float | None) -> float | None:
    return None if share is None or not math.isfinite(share) else float(f"{share:.4g}")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else 0.0
