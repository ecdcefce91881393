"""Estimates the change of a metric with its standard error.

Two designs (``docs/verdicts.md``):

- *between sessions*: the median of the candidate's sessions compared with the median of the
  baseline's. Its error is what history says of such differences (``noise.py``).
- *paired sessions*: sessions with results of baseline and candidate, so that effects of a session
  cancel: the trimmed mean of the differences. It comes first where there are enough of them.

SciPy gives the t distribution. Its ``trim_mean`` has no standard error of a single sample, and its
tests need complete samples per design, so the estimates are computed here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Interval, Method
from harness.check.history.noise import (
    MEDIAN_VARIANCE,
    SessionNoise,
    distributions,
    moderated,
    robust_deviation,
)
from harness.check.history.samples import Floats, Ints, Points, median, medians_by

TRIMMED: Final = 0.25
"""Largest share of the values trimmed at either end, which leaves the interquartile mean."""

_KEPT: Final = 10
"""Values that trimming leaves at least: of fewer, the error of the mean would not be known."""

_ROUNDING: Final = 1e-12
"""Relative difference below which two values are equal except for rounding."""

POWER: Final = 0.9
"""Probability of finding the detectable change."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated change of a metric.

    Attributes:
        method: How it was distinguished from noise.
        baseline: Level of the baseline.
        baseline_error: Its standard error.
        current: Level now.
        error: Standard error of their difference; 0 for a deterministic metric.
        freedom: Degrees of freedom of the error.
        noise: Standard deviation between sessions, in the metric's unit.
    """

    method: Method
    baseline: float
    baseline_error: float
    current: float
    error: float
    freedom: float
    noise: float

    @property
    def change(self) -> float:
        """Difference of the levels."""
        change = self.current - self.baseline
        return 0.0 if abs(change) <= _ROUNDING * abs(self.baseline) else change

    @property
    def p(self) -> float:
        """Two-sided p-value of the change."""
        if self.error == 0:
            return 0.0 if self.change else 1.0
        statistic = abs(self.change) / self.error
        return float(2 * distributions().stdtr(self.freedom, -statistic))

    def moderated(self, typical: float) -> Estimate:
        """Return this change with what the error of the median operator, a share, says of its own.

        Errors at a level of 0 are no shares.
        """
        level = abs(self.baseline)
        if not level:
            return self
        error, freedom = moderated(self.error / level, self.freedom, typical)
        return replace(self, error=error * level, freedom=freedom)

    def interval(self, confidence: float) -> Interval:
        """Return the change with its confidence interval."""
        reach = self.reach(1 - confidence)
        return Interval(self.change, self.change - reach, self.change + reach)

    def baseline_interval(self, confidence: float) -> Interval:
        """Return the level of the baseline with its confidence interval."""
        reach = self._reaches(1 - confidence) * self.baseline_error
        return Interval(self.baseline, self.baseline - reach, self.baseline + reach)

    def reach(self, p: float) -> float:
        """Return the smallest change with this p-value."""
        return self._reaches(p) * self.error

    def _reaches(self, p: float) -> float:
        """Return how many standard errors a change with this p-value is."""
        # The lower tail, because 1 - p / 2 may round to 1, which is infinitely far.
        return -float(distributions().stdtrit(self.freedom, p / 2))

    def detectable(self, p: float, limit: float, tick: float) -> float:
        """Return the change that would be found with probability ``POWER``.

        It has to exceed the limit and the noise, and is measured with an error itself:
        ``need + z(POWER) * error * (1 + need / level)`` with ``need = max(limit, t(1 - p/2) *
        error)``, the minimum detectable effect of Bloom (1995) for noise that grows with the time.

        Args:
            p: Largest p-value of a change that is reported.
            limit: Smallest change that is reported.
            tick: Smallest difference of times that the clock shows: a change of a whole number of
                ticks may be shown as one less, and another one exceeds the limit.
        """
        need = max(limit, self.reach(p))
        grown = 1 + need / abs(self.baseline) if self.baseline else 1.0
        return need + float(distributions().ndtri(POWER)) * self.error * grown + tick


def common_sessions(baseline: Points, now: Points) -> Ints:
    """Return the sessions that have both sides, ascending."""
    if now.sessions.min() > baseline.sessions.max():
        return np.empty(0, np.int64)  # a night of its own: the usual case
    return np.intersect1d(baseline.sessions, now.sessions)


def paired(baseline: Points, now: Points, least: int, rounding: float) -> Estimate | None:
    """Compare within the sessions that have both sides; None if there are fewer than ``least``."""
    common = common_sessions(baseline, now)
    if len(common) < least:
        return None
    before, after = (_medians(side, common) for side in (baseline, now))
    differences = after - before
    differences[np.abs(differences) <= _ROUNDING * np.abs(before)] = 0.0
    change, error, freedom = _trimmed_mean(differences)
    level, level_error, _ = _trimmed_mean(before)
    return Estimate(
        "paired sessions",
        level,
        level_error,
        level + change,
        max(error, rounding * float(np.sqrt(2 / len(common)))),
        freedom,
        robust_deviation(differences) / float(np.sqrt(2)),
    )


def between(baseline: Points, now: Points, noise: SessionNoise) -> Estimate:
    """Compare the median of the candidate's sessions with the median of the baseline's."""
    before, after = baseline.cells.values, now.cells.values
    level, current = median(before), median(after)
    spread = noise.spread * level
    error = noise.error(len(after), len(before)) * level
    return Estimate(
        "between sessions",
        level,
        spread * float(np.sqrt(MEDIAN_VARIANCE / len(before))),
        current,
        error,
        noise.freedom,
        spread,
    )


def exact(level: float, current: float) -> Estimate:
    """Return the change of a metric without noise."""
    return Estimate("exact", level, 0.0, current, 0.0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Looks:
    """A change in the first session of a night, and when it was measured again.

    What is chosen because it is extreme is likely to be less so the next time, so only other
    sessions say whether a suspect change is gone. Those of the same night share what lasts for
    minutes, so only another night says that it holds, or pairs with the baseline's model.

    Attributes:
        first: The change in the first session.
        again: The change in the sessions of the night after it; None without any.
        before: The change in the night before, if it was left out of the baseline; None otherwise.
        lenient: The change in the first session, by the noise of most sessions.
    """

    first: Estimate
    again: Estimate | None
    before: Estimate | None
    lenient: Estimate


def _trimmed_mean(values: Floats) -> tuple[float, float, float]:
    """Return the trimmed mean, its standard error and degrees of freedom.

    The error is the one of the winsorised variance (Tukey and McLaughlin 1963, Yuen 1974).
    """
    count = len(values)
    cut = min(int(TRIMMED * count), max(0, (count - _KEPT) // 2))
    kept = np.sort(values)[cut : count - cut]
    mean = float(kept.mean())
    if count == 1:
        return mean, np.inf, 1.0
    clipped = np.clip(values, kept[0], kept[-1])
    error = float(clipped.std(ddof=1) / (len(kept) / count * np.sqrt(count)))
    return mean, error, float(len(kept) - 1)


def _medians(side: Points, sessions: Any) -> Floats:
    chosen = side
    if len(sessions) < len(side):
        chosen = side.where(np.isin(side.sessions, sessions))
    return medians_by(chosen.sessions, chosen.values)
