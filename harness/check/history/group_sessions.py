"""The results on one unit, put in order: what is judged, the baseline, what else tells of noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.check.history.samples import (
    History,
    Ints,
    Measured,
    Metric,
    Points,
    Provenance,
    Sample,
    numbered,
    occasion_of,
    origin_of,
    session_of,
)
from harness.errors import UsageError


@dataclass(frozen=True, eq=False)
class OneMetric:
    """A metric on one unit.

    Attributes:
        earlier: What it was in every earlier result, oldest first.
        baseline: Which of these are of the baseline, shape (n,).
        now: What it is in those that are judged.
    """

    earlier: Points
    baseline: np.ndarray
    now: Points

    @cached_property
    def held_against(self) -> Points:
        """What it was in the baseline."""
        return self.earlier.where(self.baseline)

    @property
    def all(self) -> Points:
        """What it was earlier, then what it is now."""
        return self.earlier.followed_by(self.now)


@dataclass(frozen=True, eq=False)
class OnUnit:
    """All results on one unit.

    Attributes:
        unit: The unit.
        earlier: Earlier results of any unit, oldest first.
    """

    unit: str
    earlier: tuple[Provenance, ...]
    _series: Mapping[Metric, tuple[tuple[int, ...], tuple[Sample, ...]]]
    _baseline: frozenset[int]
    _measured: tuple[Measured, ...]

    @cached_property
    def results(self) -> tuple[Provenance, ...]:
        """The earlier results, then those that are judged; ``Points.results`` are indices of it."""
        return *self.earlier, *(item.provenance for item in self._measured)

    @cached_property
    def _units(self) -> list[str]:
        return [result.unit for result in self.earlier]

    @property
    def has_baseline(self) -> bool:
        """Whether the baseline has results of this unit."""
        return any(self.earlier[place].unit == self.unit for place in self._baseline)

    @cached_property
    def judged_metrics(self) -> dict[Metric, None]:
        """The metrics of what is judged."""
        return dict.fromkeys(metric for item in self._measured for metric in item.samples)

    def metrics(self) -> Iterator[tuple[Metric, OneMetric]]:
        """Every metric of the baseline or of what is judged, those of what is judged first."""
        judged = self.judged_metrics
        for metric in [*judged, *(metric for metric in self._series if metric not in judged)]:
            found = self.metric(metric)
            if len(found.now) or found.baseline.any():
                yield metric, found

    def metric(self, metric: Metric, of_unit: str | None = None) -> OneMetric:
        """Put together what is known of a metric, earlier on ``of_unit``, this one by default."""
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
        return OneMetric(self._points(here), baseline, self._points(now))

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

    def executions(self, metric: Metric) -> tuple[float, float] | None:
        """Median number of executions per result, in the baseline and now; None without both."""
        places, samples = self._series.get(metric, ((), ()))
        old = [
            sample.count
            for place, sample in zip(places, samples, strict=True)
            if place in self._baseline and self.earlier[place].unit == self.unit
        ]
        new = [item.samples[metric].count for item in self._measured if metric in item.samples]
        return (float(np.median(old)), float(np.median(new))) if old and new else None

    def other_units(self) -> list[str]:
        """The other units that have results in the baseline, the one with most first."""
        units = [self.earlier[place].unit for place in sorted(self._baseline)]
        found = dict.fromkeys(unit for unit in units if unit != self.unit)
        return sorted(found, key=units.count, reverse=True)


def arrange(history: History, judged: Sequence[Measured]) -> tuple[list[OnUnit], list[OnUnit]]:
    """Put results in order, by unit.

    Results in the history that were made on the same occasion as one that is judged, of the same on
    the same unit, are repeats of it and are judged with it, unless they are of the baseline. Those
    of the same commit on other units are witnesses.

    Args:
        history: Earlier results; what is judged is left out if it is among them.
        judged: One or several results of the same commit.

    Returns:
        The units of what is judged, and those of the witnesses.

    Raises:
        UsageError: What is judged is of several commits.
    """
    ids = {item.provenance.id for item in judged}
    keys = {_repeats(item.provenance) for item in judged}
    origins = {origin_of(item.provenance) for item in judged}
    if len(origins) > 1:
        commits = ", ".join(sorted({item.provenance.commit or "unknown" for item in judged}))
        raise UsageError(
            f"results of several commits cannot be judged as one: {commits}",
            hint="judge those of each commit by themselves",
        )
    units = {item.provenance.unit for item in judged}
    baseline = {p for p in history.baseline if history.results[p].id not in ids}
    more, witnesses, left = [], [], []
    for place, result in enumerate(history.results):
        if result.id in ids:
            continue
        if place not in baseline and _repeats(result) in keys:
            more.append(place)
        elif place not in baseline and origin_of(result) in origins and result.unit not in units:
            witnesses.append(place)
        else:
            left.append(place)
    kept = frozenset(left)
    series = {item.metric: _only(item.results, item.samples, kept) for item in history.series}
    everything = [*judged, *_measured(history, more)]
    elsewhere = _measured(history, witnesses)

    def on(unit: str, results: Sequence[Measured]) -> OnUnit:
        here = tuple(item for item in results if item.provenance.unit == unit)
        return OnUnit(unit, history.results, series, frozenset(baseline), here)

    return (
        [on(unit, everything) for unit in _units(everything)],
        [on(unit, elsewhere) for unit in _units(elsewhere)],
    )


def _repeats(result: Provenance) -> tuple[str, str, str]:
    return result.unit, origin_of(result), occasion_of(result)


def _units(results: Sequence[Measured]) -> list[str]:
    return list(dict.fromkeys(item.provenance.unit for item in results))


def _only(
    results: tuple[int, ...], samples: tuple[Sample, ...], kept: frozenset[int]
) -> tuple[tuple[int, ...], tuple[Sample, ...]]:
    pairs = [pair for pair in zip(results, samples, strict=True) if pair[0] in kept]
    return tuple(place for place, _ in pairs), tuple(sample for _, sample in pairs)


def _measured(history: History, places: Sequence[int]) -> list[Measured]:
    found: dict[int, dict[Metric, Sample]] = {place: {} for place in places}
    for series in history.series:
        for place, sample in zip(series.results, series.samples, strict=True):
            if place in found:
                found[place][series.metric] = sample
    return [Measured(history.results[place], samples) for place, samples in found.items()]
