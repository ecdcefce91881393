"""Finds steps in a series: lasting changes of a metric's level, and the commits around them.

Ruptures finds the best positions for any number of steps (Killick, Fearnhead and Eckley 2012). Each
step has to reduce the squared error by a penalty. The penalty follows from the noise, estimated
from differences of first and second neighbors, so that steps do not count as noise, but noise that
persists from one nightly run to the next does. Each step is then tested by Student's t, corrected
for the number of possible positions.

SciPy has no change point detection, and no noise estimate that tolerates steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from harness.check.history.comparison import Interval, MetricStep
from harness.check.history.estimate import MAD_SCALE, distributions, robust_deviation
from harness.check.history.samples import Floats, Points, Provenance
from harness.check.history.settings import HistoryLimits
from harness.extras import require

SHORTEST: Final = 3
"""Smallest number of points at a level: one or two outliers are not a step."""

_PENALTY: Final = 3.0
"""Reduction of the squared error that a step needs, in variances times the log of the length."""

_OUTLIER: Final = 3.0
"""Deviations from the median of its neighbors beyond which a point is an outlier (Hampel 1974)."""

_REACH: Final = 3
"""Number of these neighbors on each side."""

_MIN_DEVIATION: Final = 1e-9
"""Smallest standard deviation, as a share of the largest value; below this, values are equal."""

_MAX_CORRELATION: Final = 0.8

_CORRELATED_FROM: Final = 30
"""Points needed to estimate the correlation from medians; shorter series use only residuals."""


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step before the point ``at``.

    Attributes:
        at: Index of the first point of the new level.
        before: Level before the step.
        size: Difference of the levels.
        p: P-value of a step of this size anywhere in the series.
    """

    at: int
    before: float
    size: Interval
    p: float


@dataclass(frozen=True, slots=True)
class _Noise:
    """Variance of a point, corrected for correlation, and degrees of freedom."""

    variance: float
    freedom: float

    @classmethod
    def around(cls, values: Floats, levels: list[tuple[int, int]], deviation: float) -> _Noise:
        """Return the residual noise around the levels with outliers, at least ``deviation``."""
        rest = np.concatenate(
            [values[slice(*part)] - values[slice(*part)].mean() for part in levels]
        )
        squares = float(rest @ rest)
        freedom = len(values) - len(levels)
        correlation = 0.0
        if squares:
            seen = float(rest[1:] @ rest[:-1]) / squares
            # Residuals around fitted levels underestimate it (Marriott and Pope 1954).
            seen += (1 + 3 * max(seen, 0.0)) / len(values)
            correlation = min(max(seen, 0.0), _MAX_CORRELATION)
        # Correlated points count as fewer independent points.
        share = (1 - correlation) / (1 + correlation)
        variance = max(deviation**2, squares / freedom) / share
        return cls(variance, max(freedom * share, 1.0))


def steps_in(
    points: Points,
    results: Sequence[Provenance],
    limit: tuple[float, float],
    limits: HistoryLimits,
) -> tuple[MetricStep, ...]:
    """Return the steps beyond both limits in the history, with sessions in order of their commits.

    A commit is placed where it first occurs, so a baseline that is repeated every night does not
    cause steps. Changes within one commit are not steps. Two commits with common sessions do not
    give a step either: they are compared within these sessions, free of drift between sessions.

    Args:
        points: Values of the metric; ``points.results`` are indices into ``results``.
        results: Provenance of the values.
        limit: Relative limit, and absolute limit in the metric's unit.
        limits: Significance and confidence levels.
    """
    cells = points.cells()
    boundaries = np.flatnonzero(np.diff(cells.origins)) + 1
    if all(_side_by_side(cells, at) for at in boundaries.tolist()):
        return ()  # no position for a step
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
    """Return whether the points before and at ``at`` have one commit or common sessions."""
    old, new = (cells.where(cells.origins == cells.origins[place]) for place in (at - 1, at))
    return len(np.intersect1d(old.sessions, new.sessions)) > 0


def find_steps(values: Floats, confidence: float = 0.95) -> list[FoundStep]:
    """Return the steps of a series of shape (n,), oldest point first."""
    count = len(values)
    if count < 2 * SHORTEST or values.min() == values.max():
        return []
    smooth = _without_outliers(values)
    deviation, correlation = noise_of(smooth)
    deviation = max(deviation, _MIN_DEVIATION * float(np.abs(values).max()))
    [ruptures] = require("history", "a search for steps", "ruptures")
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(smooth / deviation)
    penalty = _PENALTY * (1 + correlation) / (1 - correlation) * np.log(count)
    levels = list(pairwise([0, *map(int, search.predict(pen=penalty))]))
    if len(levels) == 1:
        return []
    noise = _Noise.around(values, levels, deviation)
    # Bonferroni: the number of possible positions, for each step found.
    chances = (count - 2 * SHORTEST + 1) * (len(levels) - 1)
    return [
        _test_step(smooth, before, after, noise, chances, confidence)
        for before, after in pairwise(levels)
    ]


def noise_of(series: Floats) -> tuple[float, float]:
    """Return standard deviation and neighbor correlation of a series with steps.

    For autoregressive noise, differences of neighbors have twice its variance times 1 - r, and
    differences of second neighbors times 1 - r**2, so their ratio is 1 + r. Medians make both
    robust against a few steps.
    """
    one, two = (robust_deviation(series[lag:] - series[:-lag]) for lag in (1, 2))
    if one == 0 or len(series) < _CORRELATED_FROM:
        return max(one, two) / np.sqrt(2), 0.0
    correlation = min(max((two / one) ** 2 - 1, 0.0), _MAX_CORRELATION)
    return one / np.sqrt(2 * (1 - correlation)), correlation


def _test_step(
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
    """Replace points far from the median of their neighbors by this median (Hampel filter)."""
    padded = np.pad(values, _REACH, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _REACH + 1)
    middle = np.median(windows, axis=1)
    reach = _OUTLIER * MAD_SCALE * np.median(np.abs(windows - middle[:, None]), axis=1)
    return np.where(np.abs(values - middle) > reach, middle, values)
