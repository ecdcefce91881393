"""Steps: lasting changes of a metric's level, with the commits around them, and creeping ones.

Ruptures finds the best positions for any number of steps (Killick, Fearnhead and Eckley 2012). Each
step has to reduce the squared error by a penalty. The penalty follows from the noise, estimated
from differences of first and second neighbors, so that steps do not count as noise, but noise that
persists from one nightly run to the next does. Each step is then tested by Student's t, corrected
for the number of possible positions.

SciPy has no change point detection, and no noise estimate that tolerates steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from harness.check.history.comparison import Interval, MetricStep
from harness.check.history.noise import MAD_SCALE, distributions, robust_deviation
from harness.check.history.samples import Floats, HistoryLimits, Points, Provenance, median
from harness.plugins import require

SHORTEST: Final = 3
"""Smallest number of points at a level: one or two outliers are not a step."""

_REACH: Final = 3
"""Neighbors on each side whose median shows outliers, but no steps (Hampel 1974)."""

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

ANCHOR: Final = (20, 60)
"""Sessions before the newest ones whose level a slow change is compared with."""

_RECENT: Final = 5
"""Newest sessions, tonight's among them, that all have to be off for a slow change."""

_FAR: Final = 3.5
"""Standard deviations that a slow change exceeds."""

_ANCHORED: Final = 10
"""Sessions of long ago that show their level and its noise."""


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


def crept(series: Points, now: Points, known: float = 0.0) -> tuple[float, float] | None:
    """Return the levels before and after growth by steps that are too small to be seen one by one.

    The last five sessions are all above everything between 20 and 60 sessions before them, and by
    more than 3.5 standard deviations of what a level does by itself.

    Args:
        series: Values of earlier results, without nights that failed; those before an accepted
            change are at its level.
        now: Values of the candidate.
        known: What other metrics show of the correlation of sessions.
    """
    cells = series.cells_in_time
    cells = cells.where(~np.isin(cells.sessions, now.sessions))
    anchor = cells.values[-ANCHOR[1] : -ANCHOR[0]]
    recent = np.append(cells.values[len(cells) - _RECENT + 1 :], median(now.values))
    if len(anchor) < _ANCHORED or recent.min() <= anchor.max():
        return None
    before, after = median(anchor), median(recent)
    deviation, _ = noise_of(cells.values, known)
    return (before, after) if after - before > _FAR * deviation else None


def steps_in(
    points: Points,
    results: Sequence[Provenance],
    limit: tuple[float, float],
    limits: HistoryLimits,
    correlation: float = 0.0,
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
    """
    cells = points.cells
    changes = (np.flatnonzero(np.diff(cells.origins)) + 1).tolist()
    of = cells.origins.tolist()
    sessions: dict[int, set[int]] = defaultdict(set)
    for origin, session in zip(of, cells.sessions.tolist(), strict=True):
        sessions[origin].add(session)
    # Two commits of common sessions are compared within these sessions.
    boundaries = [at for at in changes if not sessions[of[at - 1]] & sessions[of[at]]]
    if not boundaries:
        return ()  # no position for a step
    relative, absolute = limit
    found = []
    for step in find_steps(cells.values, limits.confidence, correlation):
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


def find_steps(values: Floats, confidence: float = 0.95, known: float = 0.0) -> list[FoundStep]:
    """Return the steps of a series of shape (n,), oldest point first.

    Args:
        values: The series.
        confidence: Level of the intervals.
        known: What other metrics show of the correlation of its neighbors.
    """
    count = len(values)
    if count < 2 * SHORTEST or values.min() == values.max():
        return []
    smooth = _without_outliers(values)
    deviation, correlation = noise_of(smooth, known)
    deviation = max(deviation, _MIN_DEVIATION * float(np.abs(values).max()))
    [ruptures] = require("history", "a search for steps", "ruptures")
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(smooth / deviation)
    penalty = _PENALTY * (1 + correlation) / (1 - correlation) * np.log(count)
    levels = list(pairwise([0, *map(int, search.predict(pen=penalty))]))
    if len(levels) == 1:
        return []
    # Bonferroni: the number of possible positions, for each step found. Between two steps lies a
    # level whose beginning and end were both chosen.
    positions = count - 2 * SHORTEST + 1
    chances = positions ** min(len(levels) - 1, 2) * (len(levels) - 1)
    variance, freedom = _variance_around(values, levels, deviation, known)
    found = []
    for before, after in pairwise(levels):
        # Medians of noise with two modes have levels that the noise has not, and single outliers
        # make levels of the series as it is; a step shows in both.
        sides = [
            tuple(float(one[slice(*part)].mean()) for part in (before, after))
            for one in (smooth, values)
        ]
        old, new = min(sides, key=lambda side: abs(side[1] - side[0]))
        lengths = before[1] - before[0], after[1] - after[0]
        error = float(np.sqrt(variance * (1 / lengths[0] + 1 / lengths[1])))
        # A level is off only if more than half of its points are (Hampel's filter moves the rest).
        tail = min(freedom, _TAIL * (min(lengths) + 1) / 2)
        size, special = new - old, distributions()
        reach = float(special.stdtrit(tail, 0.5 + confidence / 2)) * error
        p = float(2 * special.stdtr(tail, -abs(size) / error)) * chances
        earliest, latest = _positions(smooth[before[0] : after[1]], lengths[0], variance)
        places = after[0], before[0] + earliest, before[0] + latest
        interval = Interval(size, size - reach, size + reach)
        found.append(FoundStep(*places, old, interval, min(p, 1.0)))
    return found


def noise_of(series: Floats, known: float = 0.0) -> tuple[float, float]:
    """Return standard deviation and neighbor correlation of a series with steps.

    For autoregressive noise, differences of neighbors have twice its variance times 1 - r, and
    differences of second neighbors times 1 - r**2, so their ratio is 1 + r. Medians make both
    robust against a few steps.

    Args:
        series: The series, shape (n,).
        known: What other metrics show of the correlation.
    """
    one, two = (robust_deviation(series[lag:] - series[:-lag]) for lag in (1, 2))
    correlation = 0.0
    if one and len(series) >= _CORRELATED_FROM:
        correlation = min(max((two / one) ** 2 - 1, 0.0), _MAX_ESTIMATED)
    correlation = max(correlation, min(known, _MAX_CORRELATION))
    return max(one / np.sqrt(2 * (1 - correlation)), 0.0 if correlation else two / np.sqrt(2)), (
        correlation
    )


def _variance_around(
    values: Floats, levels: Sequence[tuple[int, int]], deviation: float, correlation: float
) -> tuple[float, float]:
    """Return the variance of a point, as in a mean of them, and its degrees of freedom.

    It is that of the residuals around the levels with outliers, at least ``deviation`` squared.
    """
    rest = np.concatenate([values[slice(*part)] - values[slice(*part)].mean() for part in levels])
    squares, freedom = float(rest @ rest), len(values) - len(levels)
    if squares:
        seen = float(rest[1:] @ rest[:-1]) / squares
        # Residuals around fitted levels underestimate it (Marriott and Pope 1954).
        correlation = max(seen + (1 + 3 * max(seen, 0.0)) / len(values), correlation)
    correlation = min(correlation, _MAX_CORRELATION)
    # Correlated points count as fewer independent points.
    share = (1 - correlation) / (1 + correlation)
    return max(deviation**2, squares / freedom) / share, max(freedom * share, 1.0)


def _positions(values: Floats, at: int, variance: float) -> tuple[int, int]:
    """Return the first and last position of a step that explain two levels as well as ``at``.

    These are the positions within a likelihood ratio of ``_LIKELY`` that adjoin ``at``.
    """
    before = np.arange(1, len(values))
    sums = np.cumsum(values - values.mean())[:-1]
    explained = sums**2 * (1 / before + 1 / (len(values) - before))
    likely = explained >= explained[at - 1] - 2 * np.log(_LIKELY) * variance
    unlikely = np.flatnonzero(~likely) + 1
    earliest = max((place + 1 for place in unlikely.tolist() if place < at), default=1)
    latest = min((place - 1 for place in unlikely.tolist() if place > at), default=len(values) - 1)
    return earliest, latest


def _without_outliers(values: Floats) -> Floats:
    """Replace points far from the median of their neighbors by this median (Hampel 1974)."""
    padded = np.pad(values, _REACH, mode="reflect" if len(values) > _REACH else "edge")
    near = np.lib.stride_tricks.sliding_window_view(padded, 2 * _REACH + 1)
    middle = np.median(near, axis=1)
    reach = _OUTLIER * MAD_SCALE * np.median(np.abs(near - middle[:, None]), axis=1)
    return np.where(np.abs(values - middle) > reach, middle, values)
