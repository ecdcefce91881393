"""Noise: how far a session may be from the sessions before it, whatever the code does.

The noise of a metric is how its newest earlier sessions differ from their median: the larger of
their robust deviation and that of winsorised differences. Student's t with the degrees of freedom
of these sessions says how likely a difference is. Tails are not modelled: what is unlikely is
measured again (``runs/repeats.py``).

A night that disturbed most operators counts with as much less weight, so it does not widen later
limits. Few sessions may agree by chance, so the typical spread of all operators then adds to each.

Two modes of a metric, such as those of aligned and unaligned cache lines, are detected: a model of
two normal distributions with equal width is compared with one distribution. The split of the sorted
values with the least squares is used. The criterion is the integrated completed likelihood
(Biernacki, Celeux and Govaert 2000): its penalty for the weights avoids splitting flat or wide
distributions. SciPy has no mixture models, and scikit-learn would be a large dependency for an
exhaustive search that takes a few lines of NumPy in one dimension.

The temperature of a board, the clock rate of a machine and its neighbors change all times of a run
by one factor: the median, over operators, of the time relative to its own baseline. It is divided
out, so that it neither hides nor imitates the change of an operator, and is compared with the
factors of earlier runs by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Mode
from harness.check.history.group_sessions import MetricHistory, UnitHistory
from harness.check.history.samples import (
    EXACT_COUNTERS,
    Floats,
    HistoryLimits,
    Ints,
    Metric,
    Points,
    median,
)
from harness.plugins import require

MAD_SCALE: Final = 1.4826
"""Standard deviation divided by the median absolute deviation, for normal values."""

_MAD_ERROR: Final = 1.17
"""Standard error of the median absolute deviation of normal values, as a share, times the root of
their number."""

MEDIAN_VARIANCE: Final = np.pi / 2
"""Variance of a median relative to the variance of a mean, for normal values."""

SHARED: Final = 0.5
"""Share of the variance of a session that others of the same night have in common with it: what
lasts for minutes does not average out."""

POOLED: Final = 10
"""Number of operators from which they are evaluated together: what they share is then known well
enough to separate it from the change of one of them."""

_WINDOW: Final = 20
"""Largest number of sessions of a commit, or of different ones, that show the noise."""

REACH: Final = 3
"""Neighbors on each side whose median shows outliers, but no steps (Hampel 1974)."""

_SHORTEST: Final = 3
"""Sessions at a level beside a step."""

_CLEAR: Final = 9.0
"""Factor by which a step reduces the variance, so that it is no noise that lasts."""

_REPEATED: Final = 4
"""Sessions from which a commit shows its noise by itself."""

_PRIOR: Final = 4.0
"""Degrees of freedom that the spreads of all operators count like in the spread of each, where it
is not estimated."""

ENOUGH: Final = 15
"""Sessions from which more of them hardly make a comparison more sensitive."""

_FEW: Final = 10
"""Earlier nights from which it is known what is usual, and so which of them are unusual."""

_CLIP: Final = 3.0
"""Robust deviations beyond which a residual counts as this many: a spike of one night does not hide
the changes of the next twenty."""

_FREEDOM: Final = np.array(
    [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 1000]
)
"""Degrees of freedom that the spreads of operators may count like."""


@dataclass(frozen=True, slots=True)
class SessionNoise:
    """The noise of a metric between sessions.

    Attributes:
        spread: Standard deviation of a session around the level of its series, as a share of it.
        residuals: Differences of earlier sessions from their level, as shares, shape (sessions,).
        results: Index of the first result of each of these sessions, shape (sessions,).
        freedom: Degrees of freedom of the spread.
        scatter: Factor by which the candidate is noisier than the usual session, at least 1.
        correlation: Correlation of a session with the next one in the median metric, at least 0;
            one metric alone does not tell it from steps.
    """

    spread: float
    residuals: Floats
    results: Ints
    freedom: float
    scatter: float = 1.0
    correlation: float = 0.0

    def error(self, candidates: int, baseline: int) -> float:
        """Return the standard error of a change, as a share of the level.

        Args:
            candidates: Number of candidate sessions, of which the median is taken.
            baseline: Number of baseline sessions, likewise.
        """
        alone = (1 - SHARED) / candidates
        variance = SHARED + alone + MEDIAN_VARIANCE / baseline
        return float(self.spread * self.scatter * np.sqrt(variance))


@cache
def distributions() -> Any:
    """Return ``scipy.special``, which has Student's distribution.

    Raises:
        UsageError: SciPy is not installed.
    """
    [special] = require("history", "a comparison with history", "scipy.special")
    return special


def robust_deviation(values: Floats) -> float:
    """Return the standard deviation by the median absolute deviation, for normal values.

    ``scipy.stats.median_abs_deviation`` gives the same, but takes eight times as long for the short
    arrays of a history, of which a comparison has thousands.
    """
    return MAD_SCALE * median(np.abs(values - median(values)))


def session_noise(points: Points, least: int, rounding: float) -> SessionNoise | None:
    """Return the noise of a metric by itself.

    Args:
        points: All earlier values.
        least: Sessions needed.
        rounding: Standard deviation of the clock's rounding, in the metric's unit: the smallest
            noise that there can be.

    Returns:
        None with too few sessions, or with times of no ticks, which have no shares.
    """
    cells = points.cells_in_time
    if len(cells) < least or median(cells.values) <= 0:
        return None
    residuals, results = [], []
    for alike in _alike_in_code(cells):
        newest = alike.where(np.arange(len(alike)) >= len(alike) - _WINDOW)
        levels = _levels(newest.values)
        if len(newest) > 1 and levels.min() > 0:
            residuals.append(newest.values / levels - 1)
            results.append(newest.results)
    count = sum(map(len, residuals))
    if count < least - 1:
        return None
    together = np.concatenate(residuals)
    smallest = rounding / median(cells.values)
    freedom = float(count - len(residuals))
    return SessionNoise(_spread(together, smallest), together, np.concatenate(results), freedom)


def pooled(noises: Sequence[SessionNoise], rounding: Sequence[float]) -> list[SessionNoise]:
    """Return noises with what all metrics of the same sessions show together.

    With fewer than ``POOLED`` metrics each is evaluated by itself.

    Args:
        noises: Noises of metrics of the same results.
        rounding: The smallest spread of each, as a share of its level.
    """
    if len(noises) < POOLED:
        return list(noises)
    usual = [MAD_SCALE * median(np.abs(noise.residuals)) for noise in noises]
    scatter = noisier(scatters(noises, usual), len(noises))
    spreads = [
        _spread(noise.residuals / scatter[noise.results], smallest)
        for noise, smallest in zip(noises, rounding, strict=True)
    ]
    typical = TypicalSpread(median(np.array(spreads)), _PRIOR)
    correlation = median(np.array([_correlation(noise.residuals) for noise in noises]))
    found = []
    for noise, spread in zip(noises, spreads, strict=True):
        moderated, freedom = typical.moderated(spread, noise.freedom)
        found.append(replace(noise, spread=moderated, freedom=freedom, correlation=correlation))
    return found


@dataclass(frozen=True, slots=True)
class TypicalSpread:
    """What the spreads of all operators say about each (Smyth 2004).

    Attributes:
        spread: Median spread of the operators, as a share of their levels; 0 if unknown.
        freedom: Degrees of freedom that it counts like: the more, the more alike operators are.
    """

    spread: float = 0.0
    freedom: float = 0.0

    @classmethod
    def of(cls, spreads: Sequence[float], freedom: float) -> TypicalSpread:
        """Return what these spreads say, each estimated with so many degrees of freedom.

        The variance of their logarithms beyond that of such estimates is the one of the operators
        themselves.
        """
        known = [spread for spread in spreads if spread > 0]
        if len(known) < POOLED:
            return cls()
        special = distributions()
        excess = float(np.var(2 * np.log(known), ddof=1)) - special.polygamma(1, freedom / 2)
        alike = special.polygamma(1, _FREEDOM / 2) >= excess
        within = _FREEDOM[alike & (_FREEDOM <= _WINDOW)]
        return cls(median(np.array(known)), float(within[-1]) if len(within) else 0.0)

    def moderated(self, spread: float, freedom: float) -> tuple[float, float]:
        """Return a spread, raised towards the typical one, and its degrees of freedom.

        A few values may agree by chance; ``_WINDOW`` or more speak for themselves.
        """
        if freedom >= _WINDOW or not self.freedom:
            return spread, freedom
        together = self.freedom + freedom
        squares = (self.freedom * self.spread**2 + freedom * spread**2) / together
        return max(spread, float(np.sqrt(squares))), together


def scatters(noises: Sequence[SessionNoise], spreads: Sequence[float]) -> Floats:
    """Return how noisy each earlier result was over all metrics, shape (results,); NaN: unknown.

    Args:
        noises: Noises of the metrics.
        spreads: The usual spread of each.
    """
    count = 1 + max(int(noise.results.max()) for noise in noises)
    standard = np.full((len(noises), count), np.nan)
    for row, noise, spread in zip(standard, noises, spreads, strict=True):
        if spread > 0:
            row[noise.results] = np.abs(noise.residuals) / spread
    found = np.full(count, np.nan)
    known = np.count_nonzero(~np.isnan(standard), axis=0) >= POOLED
    if known.any():
        found[known] = MAD_SCALE * np.nanmedian(standard[:, known], axis=0)
    return found


def noisier(scatter: Floats, metrics: int) -> Floats:
    """Return the scatter where it is larger than chance explains, else 1.

    The scatter of so many metrics has a relative error of its own; a night that seems quieter than
    usual proves nothing.
    """
    by_chance = 1 + 2 * _MAD_ERROR / np.sqrt(metrics)
    return np.where(scatter > by_chance, scatter, 1.0)


def scatter_of(changes: Iterable[float]) -> float:
    """Return how large the changes of all metrics are, in standard deviations; about 1 is usual."""
    return float(MAD_SCALE * np.median(np.abs(np.fromiter(changes, np.float64))))


def scatter_p_value(now: float, earlier: Floats) -> float:
    """Return the p-value of a scatter, one-sided, from those of earlier results.

    Logarithms are compared, by Student's t: scatters are positive, and some nights wild.
    """
    known = np.log(earlier[earlier > 0])
    if len(known) < _FEW or now <= 0:
        return 1.0
    middle = float(np.median(known))
    spread = _spread(known - middle, 0.0) * np.sqrt(1 + MEDIAN_VARIANCE / len(known))
    if spread == 0:
        return 1.0
    return float(distributions().stdtr(len(known) - 1, (middle - np.log(now)) / spread))


def _alike_in_code(cells: Points) -> Iterator[Points]:
    """Yield sessions that are compared with each other.

    Sessions of one commit differ by noise alone. Commits with few sessions are compared with each
    other: they may differ by changes, which are rare.
    """
    counts = np.bincount(cells.origins)
    alone = counts[cells.origins] < _REPEATED
    if alone.any():
        yield cells.where(alone)
    for number in np.flatnonzero(counts >= _REPEATED).tolist():
        yield cells.where(cells.origins == number)


def _levels(values: Floats) -> Floats:
    """Return the level around each value, shape (n,): the median, or those beside one clear step.

    A step that stands out from both sides is a change, accepted or not, and no noise.
    """
    whole, found = np.square(values - median(values)).sum(), np.full(len(values), median(values))
    least = whole / _CLEAR
    for at in range(_SHORTEST, len(values) - _SHORTEST + 1):
        levels = np.full(len(values), median(values[:at]))
        levels[at:] = median(values[at:])
        if (within := np.square(values - levels).sum()) < least:
            least, found = within, levels
    return found


def neighbor_medians(values: Floats) -> Floats:
    """Return the median of each value and its neighbors, shape (n,)."""
    return np.asarray(np.sort(neighborhoods(values), axis=1)[:, REACH])


def neighborhoods(values: Floats) -> Floats:
    """Return each value and its neighbors, shape (n, 2 * REACH + 1), reflected at the ends."""
    return np.asarray(values[_neighborhood_places(len(values))])


@lru_cache(maxsize=64)
def _neighborhood_places(count: int) -> Ints:
    """Return the places of each value's neighborhood: the same for all operators of a history."""
    padded = np.pad(np.arange(count), REACH, mode="reflect" if count > REACH else "edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * REACH + 1).copy()


def _correlation(residuals: Floats) -> float:
    """Return the correlation of neighbors, corrected for its bias (Marriott and Pope 1954)."""
    squares = float(residuals @ residuals)
    if not squares:
        return 0.0
    seen = float(residuals[1:] @ residuals[:-1]) / squares
    return max(seen + (1 + 3 * max(seen, 0.0)) / len(residuals), 0.0)


def _spread(residuals: Floats, smallest: float) -> float:
    """Return the larger of the robust deviation and that of winsorised residuals."""
    robust = MAD_SCALE * median(np.abs(residuals))
    if len(residuals) >= _FEW and robust > 0:
        residuals = np.clip(residuals, -_CLIP * robust, _CLIP * robust)
    deviation = float(np.sqrt(np.square(residuals).sum() / max(len(residuals) - 1, 1)))
    return max(robust, deviation, smallest)


FACTOR: Final = 2.0
"""A change beyond this factor is gross."""

SINGLE_FACTOR: Final = 4.0
"""The same for a time that was measured once, as of loading: one disturbance may double it."""

DISTURBANCE_NS: Final = 10e6
"""A gross change of a time that was measured once is larger, ns: interrupts and the turns of other
processes on a host take less."""

GROSS: Final = "outside of all earlier results, and so large that no noise explains it"
"""Reason of a gross change."""


def gross_direction(
    earlier: Floats, now: Floats, tick: float, factor: float = FACTOR, least: float = 0.0
) -> int:
    """Return 1 if a number grew grossly, -1 if it shrank grossly, else 0.

    It did if it is beyond ``factor`` times its level, and outside of everything seen, even if the
    clock's resolution is taken off: the difference of two readings is off by less than a tick.

    Args:
        earlier: Earlier values, shape (n,).
        now: Values now, shape (m,).
        tick: Smallest difference that the clock shows, in the unit of the values; 0 for none.
        factor: ``FACTOR``, or ``SINGLE_FACTOR``.
        least: Smallest change, in the unit of the values; ``DISTURBANCE_NS`` for a time that was
            measured once.
    """
    if not len(earlier) or not len(now):
        return 0
    before, after = median(earlier), median(now)
    if abs(after - before) <= least:
        return 0
    if now.min() - tick > earlier.max() + tick and after - tick > factor * (before + tick):
        return 1
    if now.max() + tick < earlier.min() - tick and factor * (after + tick) < before - tick:
        return -1
    return 0


MIN_VALUES: Final = 12
"""Values needed to detect modes."""

_MIN_WEIGHT: Final = 0.15
"""Smallest share of values in a mode; a smaller share counts as outliers."""

_STRONG: Final = 10.0
"""Difference of the criterion that counts as very strong evidence (Kass and Raftery 1995)."""

_MIN_FLIPS: Final = 4
"""Smallest number of changes between modes in results of one origin; one change is a step."""

_MIN_GAP: Final = 1.0
"""Smallest gap between the values of the lower and the upper mode, in widths of a mode."""

_WITHIN: Final = 0.95
"""Share of the values of a mode on its side of the gap: of many values some are between modes."""

_MIN_WIDTH: Final = 1e-6
"""Smallest width of a mode, as a share of the range of the values."""


def find_modes(values: Floats) -> tuple[Mode, Mode] | None:
    """Return the two modes of values in any order, shape (n,), lower first; None for one mode."""
    count = len(values)
    if count < MIN_VALUES:
        return None
    extent = float(np.ptp(values))
    if not extent:
        return None
    fewest = max(3, int(np.ceil(_MIN_WEIGHT * count)))
    parts = np.arange(fewest, count - fewest + 1)
    in_order = np.sort(values)
    ordered = in_order - in_order.mean()
    squares = float(ordered @ ordered)
    # Sums below each split; those above are the same with the other sign.
    sums = np.cumsum(ordered)[parts - 1]
    within = squares - sums**2 * (1 / parts + 1 / (count - parts))
    best = int(np.argmin(within))
    part = int(parts[best])
    whole = squares / count
    width = max(float(within[best]) / count, (_MIN_WIDTH * extent) ** 2)
    weights = np.array([part, count - part]) / count
    # Twice the gain in log-likelihood, minus the penalties for a level and for a weight.
    gain = count * np.log(whole / width) + 2 * count * float(weights @ np.log(weights))
    if gain - 2 * np.log(count) < _STRONG:
        return None
    sides = in_order[:part], in_order[part:]
    gap = np.quantile(sides[1], 1 - _WITHIN) - np.quantile(sides[0], _WITHIN)
    if gap < _MIN_GAP * np.sqrt(width):
        return None
    low, high = (Mode(median(side), float(np.sqrt(width)), len(side) / count) for side in sides)
    return low, high


def modes_of(earlier: Points) -> tuple[Mode, ...]:
    """Return the modes of a metric's history; empty for one mode.

    The commit with the most results shows them best. Where each commit has few, they are learnt
    from all of these together, in the order of time. A level that changes only once is a step, not
    two modes.
    """
    if not len(earlier):
        return ()
    counts = np.bincount(earlier.origins)
    largest = earlier.where(earlier.origins == int(np.argmax(counts)))
    few = _alone_in_session(earlier.cells_in_time)
    few = few.where(counts[few.origins] < MIN_VALUES)
    for alike in (largest, few):
        found = find_modes(alike.values)
        if found is not None:
            upper = mode_of(alike.values, found)
            if np.count_nonzero(np.diff(upper)) >= _MIN_FLIPS:
                return found
    return ()


def _alone_in_session(cells: Points) -> Points:
    """Return the cells of sessions with one commit: arms in turns would look like two modes."""
    return cells.where(np.bincount(cells.sessions)[cells.sessions] == 1)


def mode_of(values: Floats, modes: tuple[Mode, ...]) -> np.ndarray:
    """Return the index of the nearest mode for each value, shape (n,)."""
    centers = np.array([mode.center for mode in modes])
    return np.asarray(np.argmin(np.abs(values[:, None] - centers), axis=1))


def without_modes(points: Points, modes: tuple[Mode, ...]) -> Points:
    """Return the values shifted as if all were in the mode with the largest weight."""
    if not modes:
        return points
    centers = np.array([mode.center for mode in modes])
    heaviest = max(modes, key=lambda mode: mode.weight).center
    return points.with_values(points.values - centers[mode_of(points.values, modes)] + heaviest)


_EVIDENT_TICKS: Final = 1000.0
"""Ticks of the longest of several times that never vary, from which the clock would show a noise of
0.1 %; a shorter time may vary by less than a tick."""


def exact_metrics(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> set[Metric]:
    """Return the metrics without noise: sizes, counts of what a program does, times and counts on
    an emulated clock, and others that never vary within a commit.

    Noise grows with the time, so it shows first in the longest times. A time counts as
    deterministic only if no longer one of its clock and statistic varies, and if the longest has
    enough ticks to show it; else the clock may hide the noise.
    """
    exact = {
        metric
        for metric, samples in found.items()
        if _is_exact(metric, samples) or _is_emulated(unit, metric, samples)
    }
    groups: dict[tuple[str, str], list[tuple[float, Metric]]] = defaultdict(list)
    for metric, samples in found.items():
        if metric not in exact and len(samples.earlier) >= limits.min_results:
            level = median(samples.earlier.values)
            groups[metric.clock, metric.statistic].append((level, metric))
    for members in groups.values():
        members.sort(key=lambda member: -member[0])
        tick = unit.tick(members[0][1])
        if tick and members[0][0] < _EVIDENT_TICKS * tick:
            continue
        for _, metric in members:
            if not _constant(found[metric].earlier, limits.min_results):
                break
            if _alike(found[metric].now):
                exact.add(metric)
    return exact


def _is_exact(metric: Metric, samples: MetricHistory) -> bool:
    """Return whether a metric has no noise by its kind, or has counted 0 so far."""
    if metric.kind != "counter":
        return metric.kind not in ("operator", "energy")
    counted_nothing = len(samples.earlier) > 0 and not samples.earlier.values.any()
    return metric.statistic in EXACT_COUNTERS or counted_nothing


def _is_emulated(unit: UnitHistory, metric: Metric, samples: MetricHistory) -> bool:
    """Return whether a metric is of an emulated clock, and the results do not contradict that.

    Repeats of a program, the same firmware and model, may differ if they ran with other inputs.
    """
    if metric.kind not in ("operator", "counter") or not unit.emulated_time:
        return False
    earlier, programs = samples.earlier, unit.programs[samples.earlier.results]
    alike = all((part.values == part.values[0]).all() for _, part in earlier.groups(programs))
    return alike and _alike(samples.now)


def _constant(earlier: Points, least: int) -> bool:
    """Return whether all results of each commit are equal; of all commits, if none has repeats."""
    if (earlier.values == earlier.values[0]).all():
        return True
    order = np.lexsort((earlier.values, earlier.origins))
    values, origins = earlier.values[order], earlier.origins[order]
    repeats = origins[1:] == origins[:-1]
    enough = int(np.count_nonzero(repeats)) >= least - 1
    return enough and bool((np.diff(values)[repeats] == 0).all())


def _alike(now: Points) -> bool:
    return not len(now) or bool((now.values == now.values[0]).all())


_NOTABLE: Final = 0.001
"""Smallest factor, as a share, that a reason mentions."""


@dataclass(frozen=True, slots=True, eq=False)
class CommonFactors:
    """The common factor of each result.

    Attributes:
        factors: Factor of each result, 1 where it is unknown, shape (results,). The median of the
            baseline is 1.
        history: The factors as a metric of its own.
    """

    factors: Floats
    history: MetricHistory

    def without(self, samples: MetricHistory) -> MetricHistory:
        """Return the values of an operator without the common factor."""
        return samples.changed(self._divided)

    def restored(self, samples: MetricHistory) -> MetricHistory:
        """Return the values of an operator with the common factor again."""
        return samples.changed(self._multiplied)

    def _multiplied(self, points: Points) -> Points:
        return points.with_values(points.values * self.factors[points.results])

    def _divided(self, points: Points) -> Points:
        return points.with_values(points.values / self.factors[points.results])

    @property
    def change(self) -> float:
        """The common change of the candidate from the baseline, as a share."""
        return median(self.history.now.values) - 1


def common_factors(found: Mapping[Metric, MetricHistory], results: int) -> CommonFactors | None:
    """Return the common factors of the results; None with fewer than ``POOLED`` operators.

    Args:
        found: Operators of one clock by one statistic.
        results: Number of results.
    """
    known = [samples for samples in found.values() if _has_level(samples)]
    if len(known) < POOLED:
        return None
    ratios = np.array([_ratios(samples, results) for samples in known])
    enough = np.count_nonzero(~np.isnan(ratios), axis=0) >= POOLED
    factors = np.ones(results)
    factors[enough] = np.nanmedian(ratios[:, enough], axis=0)
    unknown = ~enough | (factors <= 0)
    factors[unknown] = 1.0
    whole = max(known, key=lambda samples: (len(samples.earlier), len(samples.now)))
    cells = whole.baseline_points.with_values(factors[whole.baseline_points.results]).cells
    factors[~unknown] /= median(cells.values)
    history = MetricHistory(
        whole.earlier.with_values(factors[whole.earlier.results]),
        whole.baseline,
        whole.now.with_values(factors[whole.now.results]),
        whole.whole_series.with_values(factors[whole.whole_series.results]),
    )
    return CommonFactors(factors, history)


def _has_level(samples: MetricHistory) -> bool:
    """Return whether an operator has times now that can be compared with those before."""
    return (
        len(samples.now) > 0
        and bool(samples.baseline.any())
        and median(samples.earlier.values) > 0
        and _level(samples.baseline_points.values) > 0
    )


def _ratios(samples: MetricHistory, results: int) -> Floats:
    """Return the times relative to the baseline, shape (results,); NaN where there is none."""
    level = _level(samples.baseline_points.values)
    ratios = np.full(results, np.nan)
    for side in (samples.whole_series, samples.now):
        ratios[side.results] = side.values / level
    return ratios


def _level(values: Floats) -> float:
    """Return the interquartile mean: a median would be one of the values, whose ratio is 1."""
    cut = len(values) // 4
    return float(np.sort(values)[cut : len(values) - cut].mean())


def correction(share: float) -> str:
    """Return the text that says by how much times were corrected; empty for nearly nothing."""
    if abs(share) < _NOTABLE:
        return ""
    return f"without the {100 * share:+.2g} % of all operators"


def share_moved(changes: Sequence[float], shift: float) -> int:
    """Return how many changes are closer to the common shift than to nothing."""
    return sum(abs(change - shift) < abs(change) for change in changes)
