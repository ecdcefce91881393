"""Numbers of a run beside their baseline: change in per cent, noise, and the last values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from harness.analyze.statistics import Operator
from harness.check.history.checks import percentage
from harness.check.history.comparison import Compared
from harness.check.history.measure import operator_metric
from harness.check.history.samples import History, Metric
from harness.formatting import printable
from harness.report.html.series import series_axis
from harness.report.html.svg import sparkline
from harness.report.text import three_digits
from harness.report.tracked import LATEST, own_results
from harness.runs.evaluation import EvaluatedRun

if TYPE_CHECKING:
    from markupsafe import Markup

_SMALLEST: Final = 5e-4
"""Per cent; a smaller change is written as none."""

_STATISTICS: Final = ("p50", "avg", "total", "min", "p10", "p90", "max")
"""Statistics of a time, the most wanted first."""


@dataclass(frozen=True, slots=True)
class Delta:
    """How a number stands beside its baseline.

    Attributes:
        text: Its change in per cent, with the sign; empty if it is unknown.
        judgement: What became of it, as the class of its colour.
        note: Judgement, noise and detectable change in words.
    """

    text: str
    judgement: str
    note: str


@dataclass(frozen=True)
class BaselineNumbers:
    """The comparison and the history of a run, by metric."""

    run: EvaluatedRun

    @cached_property
    def _compared(self) -> dict[Metric, Compared]:
        comparison = self.run.comparison
        numbers = () if comparison is None else comparison.numbers
        return {number.metric: number for number in reversed(numbers)}

    @cached_property
    def _history(self) -> History:
        return self.run.history or History()

    @cached_property
    def _series(self) -> dict[Metric, tuple[float, ...]]:
        """The last values of each series on the unit of the run."""
        own = own_results(self._history, self.run)
        found = {}
        for series in self._history.series:
            pairs = zip(series.results, series.samples, strict=True)
            values = [sample.value for result, sample in pairs if result in own]
            found[series.metric] = tuple(values[1 - LATEST :])  # with that of the run, LATEST
        return found

    def of_operator(self, operator: Operator) -> Delta | None:
        """The change of an operator's time: of its median, or of another statistic, which it names.

        Of the statistics that are compared a comparison reports the one that saw most.
        """
        for statistic in _STATISTICS:
            found = self._delta(operator_metric(operator, statistic))
            if found is not None:
                return found
        return None

    def _delta(self, metric: Metric) -> Delta | None:
        found = self._compared.get(metric)
        if found is None or found.judgement == "appeared":
            return None
        notes: list[str] = [found.judgement]
        if found.noise is not None:
            notes.append(f"noise {percentage(found.noise)}")
        if found.detectable is not None and found.detectable < 1:
            notes.append(f"detectable {percentage(found.detectable)}")
        text = "" if found.relative is None else f"{_signed(100 * found.relative)} %"
        of = "" if metric.statistic in ("p50", "peak_bytes") else f" ({metric.statistic})"
        return Delta(text and text + of, found.judgement.replace(" ", "-"), ", ".join(notes))

    def trend(self, operator: Operator) -> Markup | None:
        """Draw the last medians of an operator; None without a history of it."""
        metric = operator_metric(operator, "p50")
        earlier = self._series.get(metric, ())
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
    def allocators(self) -> Delta | None:
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
        if found is None or found.text == "±0 %":
            return found
        return Delta(found.text, found.judgement, f"{printable(metric.name)}: {found.note}")

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


def _signed(value: float) -> str:
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
