"""Steps in a series: where a metric went to another level and stayed, and between which commits.

Ruptures finds the best places for any number of steps (Killick, Fearnhead and Eckley 2012); each
step has to reduce the squared error by a penalty. The penalty follows from the noise, estimated
from differences of neighbours and of next neighbours, so that steps do not count as noise and noise
that persists from one night to the next does. Each step found is then tested by Student's t,
corrected for the number of places where it could have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from harness.check.history.comparison import Interval, MetricStep
from harness.check.history.estimate import distributions
from harness.check.history.samples import Floats, Points, Provenance
from harness.check.history.settings import HistoryLimits
from harness.extras import require


def steps_in(
    points: Points,
    results: Sequence[Provenance],
    limit: tuple[float, float],
    limits: HistoryLimits,
) -> tuple[MetricStep, ...]:
    """Return the steps beyond both limits among sessions in the order of their commits.

    A commit has its place where it was first seen: a baseline that is run again every night does
    not make steps up and down. What changes within one commit is not its doing, and no step. Two
    commits that ran in the same sessions are compared there, and not by where the sessions drift.

    Args:
        points: What the metric was; ``points.results`` are indices into ``results``.
        results: Where the numbers come from.
        limit: Relative limit, and absolute limit in the metric's unit.
        limits: What else counts as a change.
    """
    cells = points.cells()
    boundaries = np.flatnonzero(np.diff(cells.origins)) + 1
    if all(_side_by_side(cells, at) for at in boundaries.tolist()):
        return ()  # nowhere could be a step
    relative, absolute = limit
    found = []
    for step in find_steps(cells.values, limits.confidence):
        size = abs(step.size.value)
        if step.p > limits.fdr or size <= relative * abs(step.before) or size <= absolute:
            continue
        last, first = (results[cells.results[place]] for place in (step.at - 1, step.at))
        if _side_by_side(cells, step.at):
            continue
        found.append(
            MetricStep(
                last_good=last.commit,
                first_bad=first.commit,
                last_good_utc=last.started_utc,
                first_bad_utc=first.started_utc,
                size=step.size,
                before=step.before,
                p=step.p,
            )
        )
    return tuple(found)


def _side_by_side(cells: Points, at: int) -> bool:
    """Whether the points in front of ``at`` and there are of one commit, or share sessions."""
    old, new = (cells.where(cells.origins == cells.origins[place]) for place in (at - 1, at))
    return len(np.intersect1d(old.sessions, new.sessions)) > 0


SHORTEST: Final = 3
"""Points that a level has at least: one outlier is no step, nor are two."""


_PENALTY: Final = 3.0
"""By how many variances times the logarithm of the length a step must reduce the squares."""


_OUTLIER: Final = 3.0
"""Deviations from the median of the neighbours beyond which a point is an outlier (Hampel 1974)."""


_REACH: Final = 3
"""Neighbours on each side."""


_FINEST: Final = 1e-9
"""Share of the largest number below which two are the same."""


_MOST_CORRELATED: Final = 0.8


_CORRELATED_FROM: Final = 30
"""Points from which such a ratio of medians says something; before, what is left says it."""


_NORMAL: Final = 1.4826
"""Standard deviation by the median absolute deviation, of normal numbers."""


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step in front of the point ``at``.

    Attributes:
        at: Index of the first point of the new level.
        before: The level before it.
        size: By how much it changed.
        p: Probability of a step so clear at any place, if there was none.
    """

    at: int
    before: float
    size: Interval
    p: float


def find_steps(values: Floats, confidence: float = 0.95) -> list[FoundStep]:
    """Return the steps of a series, oldest point first, shape (n,)."""
    count = len(values)
    if count < 2 * SHORTEST or values.min() == values.max():
        return []
    smooth = _without_outliers(values)
    deviation, correlation = noise_of(smooth)
    deviation = max(deviation, _FINEST * float(np.abs(values).max()))
    [ruptures] = require("history", "a search for steps", "ruptures")
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(smooth / deviation)
    penalty = _PENALTY * (1 + correlation) / (1 - correlation) * np.log(count)
    levels = list(pairwise([0, *map(int, search.predict(pen=penalty))]))
    if len(levels) == 1:
        return []
    noise = _Noise.around(values, levels, deviation)
    # As many places as there were for a step, for each of those that were found.
    chances = (count - 2 * SHORTEST + 1) * (len(levels) - 1)
    return [
        _judged(smooth, before, after, noise, chances, confidence)
        for before, after in pairwise(levels)
    ]


@dataclass(frozen=True, slots=True)
class _Noise:
    """Variance of a point, as far as it is not correlated with others, and degrees of freedom."""

    variance: float
    freedom: float

    @classmethod
    def around(cls, values: Floats, levels: list[tuple[int, int]], deviation: float) -> _Noise:
        """What is left around the levels, outliers too, if that is more than neighbours differ."""
        rest = np.concatenate(
            [values[slice(*part)] - values[slice(*part)].mean() for part in levels]
        )
        squares = float(rest @ rest)
        freedom = len(values) - len(levels)
        correlation = 0.0
        if squares:
            seen = float(rest[1:] @ rest[:-1]) / squares
            # Estimated around levels of its own it comes out too small (Marriott and Pope 1954).
            seen += (1 + 3 * max(seen, 0.0)) / len(values)
            correlation = min(max(seen, 0.0), _MOST_CORRELATED)
        # Correlated points are worth fewer of others.
        share = (1 - correlation) / (1 + correlation)
        variance = max(deviation**2, squares / freedom) / share
        return cls(variance, max(freedom * share, 1.0))


def noise_of(series: Floats) -> tuple[float, float]:
    """Standard deviation and correlation of neighbours of a series with steps.

    The variance of differences of neighbours is twice that of the noise times 1 - r, that of next
    neighbours times 1 - r**2, if the noise is autoregressive: their ratio is 1 + r. Medians make
    both indifferent to a few steps.
    """
    one, two = (_deviation(series[lag:] - series[:-lag]) for lag in (1, 2))
    if one == 0 or len(series) < _CORRELATED_FROM:
        return max(one, two) / np.sqrt(2), 0.0
    correlation = min(max((two / one) ** 2 - 1, 0.0), _MOST_CORRELATED)
    return one / np.sqrt(2 * (1 - correlation)), correlation


def _judged(
    series: Floats,
    before: tuple[int, int],
    after: tuple[int, int],
    noise: _Noise,
    chances: int,
    confidence: float,
) -> FoundStep:
    special = distributions()
    sides = [series[slice(*part)] for part in (before, after)]
    old, new = (float(np.mean(side)) for side in sides)
    error = float(np.sqrt(sum(noise.variance / len(side) for side in sides)))
    size = new - old
    reach = float(special.stdtrit(noise.freedom, 0.5 + confidence / 2)) * error
    p = float(2 * special.stdtr(noise.freedom, -abs(size) / error)) * chances
    return FoundStep(after[0], old, Interval(size, size - reach, size + reach), min(p, 1.0))


def _without_outliers(values: Floats) -> Floats:
    """Points far from the median of their neighbours, as that."""
    padded = np.pad(values, _REACH, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _REACH + 1)
    middle = np.median(windows, axis=1)
    reach = _OUTLIER * _NORMAL * np.median(np.abs(windows - middle[:, None]), axis=1)
    return np.where(np.abs(values - middle) > reach, middle, values)


def _deviation(values: Floats) -> float:
    return float(_NORMAL * np.median(np.abs(values - np.median(values))))
