"""Estimates the change of a metric with its standard error, and finds the steps in its series.

Three designs, of which the first one that the results allow counts (``docs/verdicts.md``):

- *paired sessions*: sessions with results of baseline and candidate, so that effects of a session
  cancel: the trimmed mean of the differences.
- *between sessions*: the median of the candidate's sessions compared with the median of the
  baseline's. Its error is what history says of such differences (``noise.py``).
- *within sessions*: a short history, and too few common sessions, but several results on each side:
  least squares for the side and for each session.

SciPy gives the t distribution. Its ``trim_mean`` has no standard error of a single sample, and its
tests need complete samples per design, so the estimates are computed here.

Steps are lasting changes of a metric's level; they have the commits around them.

Ruptures finds the best positions for any number of steps (Killick, Fearnhead and Eckley 2012). Each
step has to reduce the squared error by a penalty. The penalty follows from the noise, estimated
from differences of first and second neighbors, so that steps do not count as noise, but noise that
persists from one nightly run to the next does. Each step is then tested by Student's t, corrected
for the number of possible positions.

SciPy has no change point detection, and no noise estimate that tolerates steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Interval, Method, MetricStep
from harness.check.history.noise import (
    MAD_SCALE,
    MEDIAN_VARIANCE,
    REACH,
    SessionNoise,
    TypicalSpread,
    distributions,
    neighbor_medians,
    neighborhoods,
    robust_deviation,
)
from harness.check.history.samples import (
    Floats,
    HistoryLimits,
    Ints,
    Points,
    Provenance,
    median,
    medians_by,
)
from harness.plugins import require

TRIMMED: Final = 0.25
"""Largest share of the values trimmed at either end, which leaves the interquartile mean."""

_KEPT: Final = 10
"""Values that trimming leaves at least: of fewer, the error of the mean would not be known."""

_MIN_FREEDOM: Final = 4
"""Degrees of freedom needed to estimate the spread within sessions."""

_ROUNDING: Final = 1e-12
"""Relative difference below which two values are equal except for rounding."""

UNKNOWN_SPREAD: Final = TypicalSpread()
"""Of too few operators to say anything of each."""

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


def estimate(
    baseline: Points,
    now: Points,
    noise: SessionNoise | None,
    pairs: Estimate | None,
    rounding: float,
    typical: TypicalSpread = UNKNOWN_SPREAD,
) -> Estimate | None:
    """Estimate the change from ``baseline`` to ``now`` by the design that the results allow.

    Args:
        baseline: Values of the baseline, not empty.
        now: Values of the candidate, not empty.
        noise: Noise between sessions; None if history has too few.
        pairs: The comparison of paired sessions; None if there are too few.
        rounding: Standard deviation of the clock's rounding.
        typical: Errors of the paired changes of all operators, as shares.

    Returns:
        None if there are too few sessions for any design.
    """
    if pairs is not None:
        level = abs(pairs.baseline)
        if not level:  # errors at a level of 0 are no shares
            return pairs
        error, freedom = typical.moderated(pairs.error / level, pairs.freedom)
        return replace(pairs, error=error * level, freedom=freedom)
    if noise is not None:
        return between(baseline, now, noise)
    common = common_sessions(baseline, now)
    before, after = (side.where(np.isin(side.sessions, common)) for side in (baseline, now))
    if not len(common) or len(before) + len(after) - len(common) - 1 < _MIN_FREEDOM:
        return None
    return _within(before, after, rounding)


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


def _within(baseline: Points, now: Points, rounding: float) -> Estimate:
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
    variance = max(float(rest @ rest) / freedom, rounding**2)
    level, level_error, _ = _trimmed_mean(baseline.values)
    return Estimate(
        "within sessions",
        level,
        level_error,
        level + change,
        float(np.sqrt(variance / weight)),
        freedom,
        float(np.sqrt(variance)),
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


@dataclass(frozen=True, slots=True)
class Looks:
    """A change in the first session of a night, and when it was measured again.

    What is chosen because it is extreme is likely to be less so the next time, so only other
    sessions say whether a suspect change is gone. Those of the same night share what lasts for
    minutes, so only another night says that it holds.

    Attributes:
        first: The change in the first session.
        again: The change in the sessions of the night after it; None without any.
        before: The change in the night before, if it was left out of the baseline; None otherwise.
    """

    first: Estimate
    again: Estimate | None
    before: Estimate | None


def looks(baseline: Points, now: Points, before: Points, noise: SessionNoise) -> Looks:
    """Return the changes of a metric by when they were measured.

    Args:
        baseline: Values of the baseline, not empty.
        now: Values of the candidate, not empty.
        before: Values of another occasion: of the candidate, or the one before it.
        noise: Noise between sessions.
    """
    cells = now.cells_in_time
    place = np.arange(len(cells))
    first, later = cells.where(place == 0), cells.where(place > 0)
    again, yesterday = (
        between(baseline, some, noise) if len(some) else None for some in (later, before)
    )
    return Looks(between(baseline, first, noise), again, yesterday)


def exact_change(baseline: Points, now: Points) -> Estimate:
    """Return the change of a deterministic metric.

    The baseline's level is its median, because a baseline of several commits may have several
    values. The current value is the largest of the results.
    """
    ordered = np.sort(baseline.values)
    level = float(ordered[(len(ordered) - 1) // 2])
    return Estimate("exact", level, 0.0, float(now.values.max()), 0.0, 1.0, 0.0)


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


SHORTEST: Final = 3
"""Smallest number of points at a level: one or two outliers are not a step."""

_PENALTY: Final = 3.0
"""Reduction of the squared error that a step needs, in variances times the log of the length."""

_OUTLIER: Final = 3.0
"""Deviations from the median of its neighbors beyond which a point is an outlier (Hampel 1974)."""

_MIN_DEVIATION: Final = 1e-9
"""Smallest standard deviation, as a share of the largest value; below this, values are equal."""

_LIKELY: Final = 100.0
"""Likelihood ratio beyond which a position of a step is ruled out."""

_MAX_CORRELATION: Final = 0.95

_MAX_ESTIMATED: Final = 0.8
"""Largest correlation that medians of one short series can show."""

_TAIL: Final = 5.0
"""Degrees of freedom of the t distribution of a point: there are spikes."""

_CORRELATED_FROM: Final = 30
"""Points needed to estimate the correlation from medians; shorter series use only residuals."""


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step before the point ``at``.

    Attributes:
        at: Index of the first point of the new level.
        earliest: Smallest index that explains the series nearly as well.
        latest: Largest one.
        before: Level before the step.
        size: Difference of the levels.
        p: P-value of a step of this size anywhere in the series.
    """

    at: int
    earliest: int
    latest: int
    before: float
    size: Interval
    p: float


@dataclass(frozen=True, slots=True)
class _Noise:
    """Variance of a point, corrected for correlation, and degrees of freedom.

    Attributes:
        variance: Variance that a mean of n points has, times n.
        point: Variance of a single point.
        freedom: Degrees of freedom of the variance.
    """

    variance: float
    point: float
    freedom: float

    @classmethod
    def around(
        cls,
        values: Floats,
        levels: list[tuple[int, int]],
        deviation: float,
        correlation: float,
    ) -> _Noise:
        """Return the residual noise around the levels with outliers, at least ``deviation``."""
        rest = np.concatenate(
            [values[slice(*part)] - values[slice(*part)].mean() for part in levels]
        )
        squares = float(rest @ rest)
        freedom = len(values) - len(levels)
        if squares:
            seen = float(rest[1:] @ rest[:-1]) / squares
            # Residuals around fitted levels underestimate it (Marriott and Pope 1954).
            correlation = max(seen + (1 + 3 * max(seen, 0.0)) / len(values), correlation)
        correlation = min(correlation, _MAX_CORRELATION)
        # Correlated points count as fewer independent points.
        share = (1 - correlation) / (1 + correlation)
        point = max(deviation**2, squares / freedom)
        return cls(point / share, point, max(freedom * share, 1.0))


def steps_in(
    points: Points,
    results: Sequence[Provenance],
    limit: tuple[float, float],
    limits: HistoryLimits,
    correlation: float = 0.0,
    scatters: Floats | None = None,
) -> tuple[MetricStep, ...]:
    """Return the steps beyond both limits in the history, with sessions in order of their commits.

    A commit is placed where it first occurs, so a baseline that is repeated every night does not
    cause steps. Changes within one commit are not steps. Two commits with common sessions do not
    give a step either: they are compared within these sessions, free of drift between sessions.

    The commits around a step are the closest ones that explain the series: where noise hides at
    which of several commits the level changed, all of them are between the two.

    Args:
        points: Values of the metric; ``points.results`` are indices into ``results``.
        results: Provenance of the values.
        limit: Relative limit, and absolute limit in the metric's unit.
        limits: Significance and confidence levels.
        correlation: What many metrics show of the correlation of sessions.
        scatters: How noisy each result was, at least 1, shape (results,).
    """
    cells = points.cells
    changes = (np.flatnonzero(np.diff(cells.origins)) + 1).tolist()
    sessions = {origin: {*part.sessions.tolist()} for origin, part in cells.groups(cells.origins)}
    of = cells.origins.tolist()
    # Two commits of common sessions are compared within these sessions.
    boundaries = [at for at in changes if not sessions[of[at - 1]] & sessions[of[at]]]
    if not boundaries:
        return ()  # no position for a step
    relative, absolute = limit
    found = []
    of_points = None if scatters is None else scatters[cells.results]
    for step in find_steps(cells.values, limits.confidence, correlation, of_points):
        size = abs(step.size.value)
        if step.p > limits.fdr or size <= relative * abs(step.before) or size <= absolute:
            continue
        places = [at for at in boundaries if step.earliest <= at <= step.latest]
        if not places:
            continue
        last, first = (results[cells.results[at]] for at in (places[0] - 1, places[-1]))
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


def find_steps(
    values: Floats,
    confidence: float = 0.95,
    known: float = 0.0,
    scatters: Floats | None = None,
) -> list[FoundStep]:
    """Return the steps of a series of shape (n,), oldest point first.

    Args:
        values: The series.
        confidence: Level of the intervals.
        known: What other metrics show of the correlation of its neighbors.
        scatters: How noisy each point is, at least 1, shape (n,); None for equally noisy points.
    """
    count = len(values)
    if scatters is None:
        scatters = np.ones(count)
    else:
        middle = neighbor_medians(values)
        values = middle + (values - middle) / scatters
    if count < 2 * SHORTEST or values.min() == values.max():
        return []
    smooth = _without_outliers(values)
    deviation, correlation = noise_of(smooth)
    correlation = max(correlation, min(known, _MAX_CORRELATION))
    deviation = max(deviation, _MIN_DEVIATION * float(np.abs(values).max()))
    [ruptures] = require("history", "a search for steps", "ruptures")
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(smooth / deviation)
    penalty = _PENALTY * (1 + correlation) / (1 - correlation) * np.log(count)
    levels = list(pairwise([0, *map(int, search.predict(pen=penalty))]))
    if len(levels) == 1:
        return []
    noise = _Noise.around(values, levels, deviation, known)
    # Bonferroni: the number of possible positions, for each step found. Between two steps lies a
    # level whose beginning and end were both chosen.
    positions = count - 2 * SHORTEST + 1
    chances = positions ** min(len(levels) - 1, 2) * (len(levels) - 1)
    return [
        _test_step((smooth, values), scatters, before, after, noise, chances, confidence)
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
    correlation = min(max((two / one) ** 2 - 1, 0.0), _MAX_ESTIMATED)
    return one / np.sqrt(2 * (1 - correlation)), correlation


def _test_step(
    series: tuple[Floats, Floats],
    scatters: Floats,
    before: tuple[int, int],
    after: tuple[int, int],
    noise: _Noise,
    chances: int,
    confidence: float,
) -> FoundStep:
    """Test a step in a series without outliers, and in the series as it is.

    Medians of noise with two modes have levels that the noise has not, and single outliers make
    levels of the series as it is; a step shows in both.

    A level of noisy points is less certain. Noisy points were moved towards the medians of their
    neighbors, and a median of normal points of unequal widths has the error of equal points whose
    width is the harmonic mean.
    """
    special = distributions()
    levels = [[float(one[slice(*part)].mean()) for part in (before, after)] for one in series]
    sides = [range(*part) for part in (before, after)]
    old, new = min(levels, key=lambda level: abs(level[1] - level[0]))
    parts = [(len(side), np.sum(1 / scatters[side.start : side.stop])) for side in sides]
    error = float(np.sqrt(sum(noise.variance * count / weight**2 for count, weight in parts)))
    size = new - old
    # A level is off only if more than half of its points are (Hampel's filter moves the others).
    together = (min(map(len, sides)) + 1) / 2
    freedom = min(noise.freedom, _TAIL * together)
    reach = float(special.stdtrit(freedom, 0.5 + confidence / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(size) / error)) * chances
    both = slice(before[0], after[1])
    weights = 1 / scatters[both] ** 2
    earliest, latest = _positions(series[0][both], weights, len(sides[0]), noise.point)
    interval = Interval(size, size - reach, size + reach)
    at = after[0]
    return FoundStep(at, before[0] + earliest, before[0] + latest, old, interval, min(p, 1.0))


def _positions(values: Floats, weights: Floats, at: int, variance: float) -> tuple[int, int]:
    """Return the first and last position of a step that explain two levels as well as ``at``.

    These are the positions within a likelihood ratio of ``_LIKELY`` that adjoin ``at``. A point of
    a noisy night says little of where the step was.
    """
    centered = values - np.average(values, weights=weights)
    sums = np.cumsum(weights * centered)[:-1]
    before = np.cumsum(weights)[:-1]
    explained = sums**2 * (1 / before + 1 / (weights.sum() - before))
    likely = explained >= explained[at - 1] - 2 * np.log(_LIKELY) * variance
    unlikely = np.flatnonzero(~likely) + 1
    earliest = max((place + 1 for place in unlikely.tolist() if place < at), default=1)
    latest = min((place - 1 for place in unlikely.tolist() if place > at), default=len(values) - 1)
    return earliest, latest


def _without_outliers(values: Floats) -> Floats:
    """Replace points far from the median of their neighbors by this median (Hampel 1974)."""
    middle = neighbor_medians(values)
    distances = np.abs(neighborhoods(values) - middle[:, None])
    reach = _OUTLIER * MAD_SCALE * np.sort(distances, axis=1)[:, REACH]
    return np.where(np.abs(values - middle) > reach, middle, values)
