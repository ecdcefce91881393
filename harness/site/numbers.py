"""Numbers of a series as text, and beside those before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.formatting import DisplayUnit, metric_unit
from harness.report.text import bytes_unit, short_size, short_time, three_digits
from harness.report.tracked import LATEST, TrackedNumber
from harness.site.documents import ModelOnUnit, SiteSeries
from harness.site.news import change_text

_REACH: Final = 2.0
"""The band of the noise reaches so many standard deviations to each side."""


def value_text(series: SiteSeries, value: float) -> str:
    """Return a value of a series with its unit, to three digits."""
    if series.unit == "bytes":
        return short_size(value)
    if series.unit in ("ns", "ticks"):
        return short_time(value if series.unit == "ns" else None, value)
    unit = metric_unit("nJ" if series.unit == "nJ" else "count", [value])
    return f"{three_digits(value / unit.divisor)} {unit.name}"


def unit_of(series: SiteSeries, values: Sequence[float]) -> DisplayUnit:
    """Return the unit for several values of a series."""
    if series.unit == "bytes":
        return bytes_unit(values)
    return metric_unit(series.unit, values)  # type: ignore[arg-type]


def tracked(series: SiteSeries) -> TrackedNumber | None:
    """Return the newest value of a series beside those before it; None without any."""
    values = series.measured
    if not values:
        return None
    noise = None
    if series.baseline is not None and series.noise:
        reach = _REACH * series.noise * abs(series.baseline)
        noise = (series.baseline - reach, series.baseline + reach)
    return _number(
        series.title,
        series,
        values,
        change=series.change,
        text=change_text(series),
        judgement=series.judgement,
        noise=noise,
    )


def execution_of(model: ModelOnUnit) -> TrackedNumber | None:
    """Return the median execution of a model on a unit; None if none was timed."""
    found = next((series for series in model.series if series.role == "execution"), None)
    return None if found is None else tracked(found)


def memory_of(model: ModelOnUnit) -> TrackedNumber | None:
    """Return the peaks of all allocators together; None without allocators."""
    peaks = [series for series in model.series if series.role == "peak"]
    if not peaks:
        return None
    if len(peaks) == 1:
        return tracked(peaks[0])
    columns = zip(*(series.values for series in peaks), strict=True)
    totals = [
        sum(value for value in column if value is not None)
        for column in columns
        if any(value is not None for value in column)
    ]
    levels = [series.baseline for series in peaks if series.baseline is not None]
    change = totals[-1] / level - 1 if (level := sum(levels)) and totals else None
    judgements = {series.judgement for series in peaks}
    judgement = next((one for one in ("regression", "improvement") if one in judgements), "same")
    text = "" if not change else f"{100 * change:+.1f} %"
    return _number("peak memory", peaks[0], totals, change, text, judgement, None)


def _number(
    name: str,
    series: SiteSeries,
    values: Sequence[float],
    change: float | None,
    text: str,
    judgement: str,
    noise: tuple[float, float] | None,
) -> TrackedNumber:
    return TrackedNumber(
        name,
        values[-1],
        value_text(series, values[-1]),
        f"{values[-1]:,.10g} {series.unit}",
        change=change,
        change_text=text,
        judgement=judgement if judgement in ("regression", "improvement") else "same",
        earlier=tuple(values[-LATEST - 1 : -1]),
        noise=noise,
    )
