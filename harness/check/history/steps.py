"""Steps in a series: where a number went to another level and stayed there.

Ruptures finds the best places for any number of steps (Killick, Fearnhead and Eckley 2012), each of
which has to reduce the squares by a penalty. The penalty follows from the noise, which is learnt
from differences of neighbours and next neighbours, so steps do not count as noise, and that noise
of one night often resembles that of the night before does. What is found is then judged: by
Student's t, multiplied by the places there were for a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from harness.check.history.comparison import Interval
from harness.check.history.estimate import distributions
from harness.check.history.points import Floats
from harness.extras import require

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
