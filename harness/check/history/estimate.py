"""By how much a number changed, with a confidence interval, and how likely that is by chance.

Three designs, the first that the results allow (``docs/verdicts.md`` says why, with sources):

- *paired sessions*: sessions that hold results of both sides. What a session does to all its
  results cancels. The differences of the sessions' medians are judged by the t of trimmed means,
  which few wild sessions do not move. Of many such sessions the floors are compared as well
  (``floors.py``), and the clearer of the two counts: *undisturbed sessions*.
- *within sessions*: too few of these, but several results of each side in them: differences from
  the sessions' means, by Student's t.
- *between sessions*: the sides have no session in common. The spread of sessions of one commit
  around their mean says what a session does; Student's t again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.check.history.comparison import Interval, Method
from harness.check.history.floors import LEAST, floor_change
from harness.check.history.samples import Floats, Points, medians_by
from harness.check.history.settings import HistoryLimits
from harness.extras import require

TRIMMED = 0.25
"""Share of the numbers left out at either end: what is left is the interquartile mean."""

_LEAST_FREEDOM = 4
"""Degrees of freedom that a spread within sessions is learnt from, at least."""

_EFFICIENCY = 0.83
"""Of that mean beside the mean of all, of normal numbers."""

_SAME = 1e-12
"""Share of a number below which two are the same but for rounding."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A change; what is not known of it is None.

    Attributes:
        method: How it was told from noise.
        baseline: Level of the baseline.
        current: Level now.
        change: Their difference.
        p: Probability of one at least so large by chance, two-sided.
        noise: Standard deviation between sessions, in the metric's unit.
    """

    method: Method
    baseline: Interval
    current: float
    change: Interval
    p: float
    noise: float


def distributions() -> Any:
    """SciPy's special functions, Student's distribution among them.

    Raises:
        UsageError: SciPy is not installed.
    """
    [special] = require("history", "a comparison with history", "scipy.special")
    return special


def estimate(
    baseline: Points, now: Points, earlier: Points, limits: HistoryLimits
) -> Estimate | None:
    """Estimate the change from ``baseline`` to ``now``; None where there is too little to tell.

    Args:
        baseline: What is compared with, not empty.
        now: What is compared, not empty.
        earlier: All results that tell about noise, those of the baseline among them.
        limits: How many sessions it takes, and the level of intervals.
    """
    common = np.intersect1d(baseline.sessions, now.sessions)
    if len(common) >= limits.min_results:
        return _paired(baseline, now, common, limits)
    if len(common):
        sides = [side.where(np.isin(side.sessions, common)) for side in (baseline, now)]
        if sum(map(len, sides)) - len(common) - 1 >= _LEAST_FREEDOM:
            return _within(sides[0], sides[1], limits)
    return _between(baseline, now, earlier, limits)


def _paired(baseline: Points, now: Points, common: Any, limits: HistoryLimits) -> Estimate:
    before, after = (_medians(side, common) for side in (baseline, now))
    differences = after - before
    differences[np.abs(differences) <= _SAME * np.abs(before)] = 0.0
    change = _middle(differences)
    level = _middle(before)
    paired = Estimate(
        "paired sessions",
        _interval(level, limits.confidence),
        level.value + change.value,
        _interval(change, limits.confidence),
        _probability(change),
        float(_robust_deviation(differences) / np.sqrt(2)),
    )
    return paired if len(common) < LEAST else _clearer(paired, before, after, limits)


def _clearer(paired: Estimate, before: Floats, after: Floats, limits: HistoryLimits) -> Estimate:
    """The paired estimate or that of the floors, and what the choice costs."""
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
    """Differences from the sessions' means: a regression on the side and on every session."""
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
    level = _middle(baseline.values)
    return Estimate(
        "within sessions",
        _interval(level, limits.confidence),
        level.value + change,
        _interval(found, limits.confidence),
        _probability(found),
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
    # Sessions of fewer results than usual vary more; at the worst it is all due to these.
    scatter = variance * max(1.0, float(typical / fewest))
    # Where the baseline is of several commits, these may differ, which its level has to answer for.
    of_level = max(variance, float(cells.values.var(ddof=1)) if len(cells) > 1 else 0.0)
    level, current = (_middle(side.values).value for side in (cells, here))
    errors = [
        float(np.sqrt(value / count / _EFFICIENCY))
        for value, count in ((of_level, len(cells)), (scatter, len(here)))
    ]
    change = current - level
    if abs(change) <= _SAME * abs(level):
        change = 0.0
    found = _Student(change, float(np.hypot(errors[0], errors[1])), freedom)
    return Estimate(
        "between sessions",
        _interval(_Student(level, errors[0], freedom), limits.confidence),
        current,
        _interval(found, limits.confidence),
        _probability(found),
        float(np.sqrt(variance)),
    )


def session_spread(earlier: Points, least: int) -> tuple[float, int] | None:
    """Variance of sessions of one origin around their mean, and its degrees of freedom.

    Where there are too few sessions of the same origin, that of neighbours counts, as if nothing
    had changed between them: differences of successive ones (von Neumann 1941), which a step adds
    one large one to, so it errs towards silence.

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
    # Successive differences share numbers: they tell as much as two thirds of them would alone.
    return float(np.square(steps).mean()) / 2, max(1, round(2 * len(steps) / 3))


@dataclass(frozen=True, slots=True)
class _Student:
    """An estimate with its standard error, which is infinite when unknown, and freedom."""

    value: float
    error: float
    freedom: int


def _middle(values: Floats) -> _Student:
    """Trimmed mean, with the error of Tukey and McLaughlin (1963), by the winsorised variance."""
    count = len(values)
    cut = int(TRIMMED * count)
    kept = np.sort(values)[cut : count - cut]
    mean = float(kept.mean())
    if count == 1:
        return _Student(mean, np.inf, 1)
    clipped = np.clip(values, kept[0], kept[-1])
    error = float(clipped.std(ddof=1) / (len(kept) / count * np.sqrt(count)))
    return _Student(mean, error, max(len(kept) - 1, 1))


def _probability(found: _Student) -> float:
    """Probability of a value at least so far from 0, if it was that."""
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


def _robust_deviation(values: Floats) -> float:
    """Standard deviation by the median absolute deviation, of normal numbers."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
