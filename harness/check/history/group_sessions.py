"""Groups results by unit: candidate, baseline, and other earlier results that show the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.check.history.decisions import decisions_for, series_of, used_results
from harness.check.history.samples import (
    Decision,
    History,
    Ints,
    Measured,
    Metric,
    Points,
    Provenance,
    Sample,
    numbered,
    origin_of,
    repeat_key,
    session_of,
)
from harness.errors import UsageError


@dataclass(frozen=True, eq=False)
class MetricHistory:
    """The values of a metric on one unit.

    Attributes:
        earlier: Values in earlier results that show the noise, oldest first. Those before an
            accepted change are moved to its level.
        baseline: True for the earlier results in the baseline, shape (n,).
        now: Values in the candidate results.
        series: Values in all earlier results, also of nights that failed; None for ``earlier``.
    """

    earlier: Points
    baseline: np.ndarray
    now: Points
    series: Points | None = None

    @cached_property
    def baseline_points(self) -> Points:
        """The values in the baseline."""
        return self.earlier.where(self.baseline)

    @property
    def all(self) -> Points:
        """The values of the whole series, then the current ones."""
        return self.whole_series.followed_by(self.now)

    @property
    def whole_series(self) -> Points:
        """The values in all earlier results."""
        return self.earlier if self.series is None else self.series

    def changed(self, change: Callable[[Points], Points]) -> MetricHistory:
        """Return the values after ``change``, for the same results."""
        series = None if self.series is None else change(self.series)
        return MetricHistory(change(self.earlier), self.baseline, change(self.now), series)


@dataclass(frozen=True, eq=False)
class UnitHistory:
    """All results of one unit.

    Attributes:
        unit: Name of the unit.
        earlier: Earlier results of any unit, oldest first.
    """

    unit: str
    earlier: tuple[Provenance, ...]
    _series: Mapping[Metric, tuple[tuple[int, ...], tuple[Sample, ...]]]
    _baseline: frozenset[int]
    _measured: tuple[Measured, ...]
    _history: History

    @cached_property
    def results(self) -> tuple[Provenance, ...]:
        """The earlier results, then the candidates; ``Points.results`` are indices into it."""
        return *self.earlier, *(item.provenance for item in self._measured)

    @cached_property
    def _units(self) -> list[str]:
        return [result.unit for result in self.earlier]

    @property
    def has_baseline(self) -> bool:
        """Whether the baseline has results of this unit."""
        return any(self.earlier[place].unit == self.unit for place in self._baseline)

    @cached_property
    def candidate_metrics(self) -> dict[Metric, None]:
        """The metrics of the candidates, in order of first occurrence."""
        return dict.fromkeys(metric for item in self._measured for metric in item.samples)

    def metrics(self) -> Iterator[tuple[Metric, MetricHistory]]:
        """Yield every metric of the candidates, then every other metric of the baseline."""
        first = self.candidate_metrics
        for metric in [*first, *(metric for metric in self._series if metric not in first)]:
            found = self.metric(metric)
            if len(found.now) or found.baseline.any():
                yield metric, found

    def metric(self, metric: Metric, of_unit: str | None = None) -> MetricHistory:
        """Return the values of a metric; earlier values are those of ``of_unit``, if given."""
        unit = of_unit or self.unit
        places, samples = self._series.get(metric, ((), ()))
        here = [
            (place, sample.value)
            for place, sample in zip(places, samples, strict=True)
            if self._units[place] == unit
        ]
        now = [
            (len(self.earlier) + index, item.samples[metric].value)
            for index, item in enumerate(self._measured)
            if metric in item.samples
        ]
        baseline = np.array([place in self._baseline for place, _ in here], bool)
        points = self._points(here)
        used = used_results(
            self._decisions.get(series_of(metric)) if unit == self.unit else None,
            self._measured[0].provenance,
            [self.earlier[place] for place, _ in here],
            points.values,
            np.array([place in self._failed for place, _ in here], bool),
            baseline,
            rolling=self._history.rolling,
        )
        earlier = points.with_values(points.values + used.shift).where(used.noise)
        return MetricHistory(earlier, used.baseline[used.noise], self._points(now), points)

    @cached_property
    def _failed(self) -> frozenset[int]:
        return frozenset(self._history.failed)

    @cached_property
    def _decisions(self) -> dict[Metric, Decision]:
        return decisions_for(self._history.decisions, self._measured[0].provenance)

    def _points(self, found: Sequence[tuple[int, float]]) -> Points:
        places = np.array([place for place, _ in found], np.int64)
        values = np.array([value for _, value in found], np.float64)
        return Points(values, self._sessions[places], self._origins[places], places)

    @cached_property
    def _sessions(self) -> Ints:
        return numbered(map(session_of, self.results))

    @cached_property
    def _origins(self) -> Ints:
        return numbered(map(origin_of, self.results))

    def tick(self, metric: Metric) -> float:
        """Return the smallest difference of times that the clock shows, in the metric's unit.

        0 for sizes, and for clocks that nothing is known of.
        """
        if metric.unit == "ticks":
            return 1.0
        known = (item.ticks[metric.clock] for item in self._measured if metric.clock in item.ticks)
        return max(known, default=0.0) if metric.kind == "operator" else 0.0

    def executions(self, metric: Metric) -> tuple[float, float] | None:
        """Return the median number of executions per result, in the baseline and now.

        None if either has no result with this metric.
        """
        places, samples = self._series.get(metric, ((), ()))
        old = [
            sample.count
            for place, sample in zip(places, samples, strict=True)
            if place in self._baseline and self.earlier[place].unit == self.unit
        ]
        new = [item.samples[metric].count for item in self._measured if metric in item.samples]
        return (float(np.median(old)), float(np.median(new))) if old and new else None

    def other_units(self) -> list[str]:
        """Return the other units in the baseline, the one with the most results first."""
        units = [self.earlier[place].unit for place in sorted(self._baseline)]
        found = dict.fromkeys(unit for unit in units if unit != self.unit)
        return sorted(found, key=units.count, reverse=True)


def group_by_unit(
    history: History, candidates: Sequence[Measured]
) -> tuple[list[UnitHistory], list[UnitHistory]]:
    """Group results by unit.

    Results in the history with the same origin, unit and occasion as a candidate are repeats: they
    become candidates, unless they are in the baseline. Results of the same origin on other units
    are witnesses.

    Args:
        history: Earlier results; candidates among them are ignored.
        candidates: One or more results of the same commit.

    Returns:
        The units of the candidates, and the units of the witnesses.

    Raises:
        UsageError: The candidates are of several commits.
    """
    ids = {item.provenance.id for item in candidates}
    keys = {repeat_key(item.provenance) for item in candidates}
    origins = {origin_of(item.provenance) for item in candidates}
    if len(origins) > 1:
        commits = ", ".join(sorted({item.provenance.commit or "unknown" for item in candidates}))
        raise UsageError(
            f"results of several commits cannot be compared as one: {commits}",
            hint="compare the results of each commit separately",
        )
    units = {item.provenance.unit for item in candidates}
    baseline = {p for p in history.baseline if history.results[p].id not in ids}
    repeats, witnesses, earlier = [], [], []
    for index, result in enumerate(history.results):
        if result.id in ids:
            continue
        if index not in baseline and repeat_key(result) in keys:
            repeats.append(index)
        elif index not in baseline and origin_of(result) in origins and result.unit not in units:
            witnesses.append(index)
        else:
            earlier.append(index)
    kept = frozenset(earlier)
    series = {item.metric: _only(item.results, item.samples, kept) for item in history.series}

    def by_unit(results: Sequence[Measured]) -> list[UnitHistory]:
        return [
            UnitHistory(
                unit,
                history.results,
                series,
                frozenset(baseline),
                tuple(item for item in results if item.provenance.unit == unit),
                history,
            )
            for unit in dict.fromkeys(item.provenance.unit for item in results)
        ]

    return (
        by_unit([*candidates, *_measured(history, repeats)]),
        by_unit(_measured(history, witnesses)),
    )


def _only(
    results: tuple[int, ...], samples: tuple[Sample, ...], kept: frozenset[int]
) -> tuple[tuple[int, ...], tuple[Sample, ...]]:
    if kept.issuperset(results):
        return results, samples
    pairs = [pair for pair in zip(results, samples, strict=True) if pair[0] in kept]
    return tuple(place for place, _ in pairs), tuple(sample for _, sample in pairs)


def _measured(history: History, places: Sequence[int]) -> list[Measured]:
    found: dict[int, dict[Metric, Sample]] = {place: {} for place in places}
    for series in history.series:
        for place, sample in zip(series.results, series.samples, strict=True):
            if place in found:
                found[place][series.metric] = sample
    return [Measured(history.results[place], samples) for place, samples in found.items()]
