"""Estimates the change of a metric with a confidence interval and a p-value.

Uses the first of three designs that the results allow (``docs/verdicts.md`` gives reasons and
sources):

- *paired sessions*: sessions with results of baseline and candidate, so that effects of a session
  cancel. The differences of the sessions' medians are tested by the t of trimmed means, which is
  robust against a few outliers. With many such sessions the floors are compared as well
  (``floors.py``), and the smaller p-value counts: *undisturbed sessions*.
- *within sessions*: too few of these sessions, but several results on each side: differences from
  the sessions' means, by Student's t.
- *between sessions*: no common sessions. The spread of sessions of one commit around their mean
  estimates the noise; Student's t again.

SciPy gives the t distribution. Its ``trim_mean`` has no standard error of a single sample, and its
tests need complete samples per design, so the estimates are computed here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.check.history.comparison import Interval, Method
from harness.check.history.floors import MIN_SESSIONS, floor_change
from harness.check.history.samples import Floats, Points, medians_by
from harness.check.history.settings import HistoryLimits
from harness.extras import require

TRIMMED = 0.25
"""Share of the values trimmed at either end, which leaves the interquartile mean."""

_MIN_FREEDOM = 4
"""Degrees of freedom needed to estimate the spread within sessions."""

MAD_SCALE = 1.4826
"""Standard deviation divided by the median absolute deviation, for normal values."""

_EFFICIENCY = 0.83
"""Efficiency of the interquartile mean relative to the mean, for normal values."""

_ROUNDING = 1e-12
"""Relative difference below which two values are equal except for rounding."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated change of a metric.

    Attributes:
        method: How it was distinguished from noise.
        baseline: Level of the baseline.
        current: Level now.
        change: Their difference.
        p: Two-sided p-value of the change.
        noise: Standard deviation between sessions, in the metric's unit.
    """

    method: Method
    baseline: Interval
    current: float
    change: Interval
    p: float
    noise: float


def distributions() -> Any:
    """Return ``scipy.special``, which has Student's distribution.

    Raises:
        UsageError: SciPy is not installed.
    """
    [special] = require("history", "a comparison with history", "scipy.special")
    return special


def estimate(
    baseline: Points, now: Points, earlier: Points, limits: HistoryLimits
) -> Estimate | None:
    """Estimate the change from ``baseline`` to ``now``; None with too few sessions.

    Args:
        baseline: Values of the baseline, not empty.
        now: Values of the candidate, not empty.
        earlier: All earlier values, which estimate the noise; includes the baseline.
        limits: Minimum number of sessions, and confidence level.
    """
    common = np.intersect1d(baseline.sessions, now.sessions)
    if len(common) >= limits.min_results:
        return _paired(baseline, now, common, limits)
    if len(common):
        sides = [side.where(np.isin(side.sessions, common)) for side in (baseline, now)]
        if sum(map(len, sides)) - len(common) - 1 >= _MIN_FREEDOM:
            return _within(sides[0], sides[1], limits)
    return _between(baseline, now, earlier, limits)


def _paired(baseline: Points, now: Points, common: Any, limits: HistoryLimits) -> Estimate:
    before, after = (_medians(side, common) for side in (baseline, now))
    differences = after - before
    differences[np.abs(differences) <= _ROUNDING * np.abs(before)] = 0.0
    change = _trimmed_mean(differences)
    level = _trimmed_mean(before)
    paired = Estimate(
        "paired sessions",
        _interval(level, limits.confidence),
        level.value + change.value,
        _interval(change, limits.confidence),
        _p_value(change),
        robust_deviation(differences) / float(np.sqrt(2)),
    )
    return paired if len(common) < MIN_SESSIONS else _clearer(paired, before, after, limits)


def _clearer(paired: Estimate, before: Floats, after: Floats, limits: HistoryLimits) -> Estimate:
    """Return the paired or the floor estimate, whichever has the smaller p-value.

    The p-value is doubled, because the choice is between two tests.
    """
    floor = floor_change(before, after, limits.confidence, distributions())
    if floor.p >= paired.p:
        return replace(paired, p=min(1.0, 2 * paired.p))
    return Estimate(
        "undisturbed sessions",
        floor.baseline,
        floor.baseline.value + floor.change.value,
        floor.change,
        min(1.0, 2 * floor.p),
        paired.noise,
    )


def _within(baseline: Points, now: Points, limits: HistoryLimits) -> Estimate:
    """Compare differences from session means, by linear regression on side and session."""
    values = np.concatenate([baseline.values, now.values])
    side = np.repeat([0.0, 1.0], [len(baseline), len(now)])
    sessions = np.concatenate([baseline.sessions, now.sessions])
    for session in np.unique(sessions):
        here = sessions == session
        values = np.where(here, values - values[here].mean(), values)
        side = np.where(here, side - side[here].mean(), side)
    weight = float(side @ side)
    change = float(side @ values) / weight
    freedom = len(values) - len(np.unique(sessions)) - 1
    rest = values - change * side
    variance = float(rest @ rest) / freedom
    found = _Student(change, float(np.sqrt(variance / weight)), freedom)
    level = _trimmed_mean(baseline.values)
    return Estimate(
        "within sessions",
        _interval(level, limits.confidence),
        level.value + change,
        _interval(found, limits.confidence),
        _p_value(found),
        float(np.sqrt(variance)),
    )


def _between(
    baseline: Points, now: Points, earlier: Points, limits: HistoryLimits
) -> Estimate | None:
    spread = session_spread(earlier, limits.min_results)
    if spread is None:
        return None
    variance, freedom = spread
    cells, here = baseline.cells(), now.cells()
    typical = np.median(np.unique(earlier.sessions, return_counts=True)[1])
    fewest = np.unique(now.sessions, return_counts=True)[1].min()
    # Sessions with fewer results than usual vary more; assume the worst case.
    scatter = variance * max(1.0, float(typical / fewest))
    # Commits of a baseline may differ, which adds to the error of its level.
    of_level = max(variance, float(cells.values.var(ddof=1)) if len(cells) > 1 else 0.0)
    level, current = (_trimmed_mean(side.values).value for side in (cells, here))
    errors = [
        float(np.sqrt(value / count / _EFFICIENCY))
        for value, count in ((of_level, len(cells)), (scatter, len(here)))
    ]
    change = current - level
    if abs(change) <= _ROUNDING * abs(level):
        change = 0.0
    found = _Student(change, float(np.hypot(errors[0], errors[1])), freedom)
    return Estimate(
        "between sessions",
        _interval(_Student(level, errors[0], freedom), limits.confidence),
        current,
        _interval(found, limits.confidence),
        _p_value(found),
        float(np.sqrt(variance)),
    )


def session_spread(earlier: Points, least: int) -> tuple[float, int] | None:
    """Return the variance of sessions of one origin around their mean, and its degrees of freedom.

    With too few sessions per origin, successive sessions are compared as if nothing had changed
    between them, by the mean square successive difference (von Neumann 1941). A step in the series
    increases this estimate, so errors are on the side of missed changes, not of false alarms.

    Returns:
        None if there are fewer than ``least`` sessions.
    """
    cells = earlier.cells()
    if len(cells) < least:
        return None
    squares, freedom = 0.0, 0
    for _, alike in cells.groups(cells.origins):
        squares += float(np.square(alike.values - alike.values.mean()).sum())
        freedom += len(alike) - 1
    if freedom >= least - 1:
        return squares / freedom, freedom
    steps = np.diff(cells.values)
    # Successive differences share values, which leaves two thirds of the degrees of freedom.
    return float(np.square(steps).mean()) / 2, max(1, round(2 * len(steps) / 3))


@dataclass(frozen=True, slots=True)
class _Student:
    """An estimate with its standard error, infinite if unknown, and its degrees of freedom."""

    value: float
    error: float
    freedom: int


def _trimmed_mean(values: Floats) -> _Student:
    """Return the trimmed mean with its error by the winsorised variance.

    Source: Tukey and McLaughlin (1963).
    """
    count = len(values)
    cut = int(TRIMMED * count)
    kept = np.sort(values)[cut : count - cut]
    mean = float(kept.mean())
    if count == 1:
        return _Student(mean, np.inf, 1)
    clipped = np.clip(values, kept[0], kept[-1])
    error = float(clipped.std(ddof=1) / (len(kept) / count * np.sqrt(count)))
    return _Student(mean, error, max(len(kept) - 1, 1))


def _p_value(found: _Student) -> float:
    """Return the two-sided p-value of an estimate under the hypothesis that it is 0."""
    if found.error == 0:
        return 0.0 if found.value else 1.0
    return float(2 * distributions().stdtr(found.freedom, -abs(found.value) / found.error))


def _interval(found: _Student, confidence: float) -> Interval:
    value = found.value
    if not np.isfinite(found.error):
        return Interval(value, -np.inf, np.inf)
    reach = float(distributions().stdtrit(found.freedom, 0.5 + confidence / 2)) * found.error
    return Interval(value, value - reach, value + reach)


def _medians(side: Points, sessions: Any) -> Floats:
    chosen = side.where(np.isin(side.sessions, sessions))
    return medians_by(chosen.sessions, chosen.values)


def robust_deviation(values: Floats) -> float:
    """Return the standard deviation by the median absolute deviation, for normal values.

    ``scipy.stats.median_abs_deviation`` gives the same, but takes eight times as long for the short
    arrays of a history, of which a comparison has thousands.
    """
    return float(MAD_SCALE * np.median(np.abs(values - np.median(values))))
