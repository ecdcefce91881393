"""Noise: how far a session may be from the sessions before it, whatever the code does.

The noise of a metric is how its newest earlier sessions differ from their median: the larger of
their robust deviation and that of winsorised differences. Student's t with the degrees of freedom
of these sessions says how likely a difference is. Neither tails nor two levels are modelled: what
is unlikely is measured again (``runs/repeats.py``).

Few sessions may agree by chance, so the spread of the median operator contributes to that of each.

The temperature of a board, the clock rate of a machine and its neighbors change all times of a run
by one factor: the median, over operators, of the time relative to its own baseline. It is divided
out, so that it neither hides nor imitates the change of an operator, and is compared with the
factors of earlier runs by itself.

Two modes of a metric, such as those of aligned and unaligned cache lines, are reported: a model of
two normal distributions with equal width is compared with one distribution. The split of the sorted
values with the least squares is used. The criterion is the integrated completed likelihood
(Biernacki, Celeux and Govaert 2000): its penalty for the weights avoids splitting flat or wide
distributions. SciPy has no mixture models, and scikit-learn would be a large dependency for an
exhaustive search that takes a few lines of NumPy in one dimension.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Mode
from harness.check.history.group_sessions import Bools, MetricHistory, UnitHistory
from harness.check.history.samples import (
    EXACT_COUNTERS,
    Floats,
    HistoryLimits,
    Metric,
    Points,
    median,
)
from harness.plugins import require

MAD_SCALE: Final = 1.4826
"""Standard deviation divided by the median absolute deviation, for normal values."""

MEDIAN_VARIANCE: Final = np.pi / 2
"""Variance of a median relative to the variance of a mean, for normal values."""

ROUNDING: Final = 12**-0.5
"""Standard deviation of rounding to a tick, in ticks."""

SHARED: Final = 0.5
"""Share of the variance of a session that others of the same night have in common with it: what
lasts for minutes does not average out."""

POOLED: Final = 10
"""Number of operators from which they are evaluated together: what they share is then known well
enough to separate it from the change of one of them."""

_WINDOW: Final = 40
"""Largest number of sessions of a commit, or of different ones, that show the noise."""

_SHORTEST: Final = 3
"""Sessions at a level beside a step."""

_CLEAR: Final = 9.0
"""Factor by which a step reduces the variance, so that it is no noise that lasts."""

_REPEATED: Final = 4
"""Sessions from which a commit shows its noise by itself."""

_PRIOR: Final = 4.0
"""Degrees of freedom that the spread of the median operator counts like in that of each."""

ENOUGH: Final = 15
"""Sessions from which more of them hardly make a comparison more sensitive."""

_FEW: Final = 10
"""Sessions from which single ones are winsorised."""

_CLIP: Final = 3.0
"""Robust deviations beyond which a residual counts as this many: a spike of one night does not hide
the changes of the next ones."""

_SPIKES: Final = 0.1
"""Largest share of residuals that are spikes: more of them are another level, and no accident."""


@dataclass(frozen=True, slots=True)
class SessionNoise:
    """The noise of a metric between sessions.

    Attributes:
        spread: Standard deviation of a session around the level of its series, as a share of it.
        freedom: Degrees of freedom of the spread.
        usual: The same of most sessions, whatever a few of them were like.
        correlation: Correlation of a session with the next one, at least 0.
    """

    spread: float
    freedom: float
    usual: float
    correlation: float = 0.0

    def error(self, candidates: int, baseline: int) -> float:
        """Return the standard error of a change, as a share of the level.

        Args:
            candidates: Number of candidate sessions, of which the median is taken.
            baseline: Number of baseline sessions, likewise.
        """
        variance = SHARED + (1 - SHARED) / candidates + MEDIAN_VARIANCE / baseline
        return float(self.spread * np.sqrt(variance))

    def moderated(self, usual: float, correlation: float) -> SessionNoise:
        """Return this noise with the spread and the correlation of the median operator.

        Few sessions may agree by chance, so their spread is raised. One metric alone does not tell
        correlation from steps.
        """
        spread, freedom = moderated(self.spread, self.freedom, usual)
        return replace(
            self, spread=max(spread, self.spread), freedom=freedom, correlation=correlation
        )

    @property
    def lenient(self) -> SessionNoise:
        """The noise for a first look, of which a second one is sure to follow."""
        return replace(self, spread=self.usual)


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


def session_noise(
    points: Points, least: int, rounding: float, failed: Collection[int] = ()
) -> SessionNoise | None:
    """Return the noise of a metric by itself.

    Args:
        points: All earlier values.
        least: Sessions needed.
        rounding: Standard deviation of the clock's rounding, in the metric's unit: the smallest
            noise that there can be.
        failed: Results of nights that failed: they may be changes that somebody mended, so they
            count as spikes at most.

    Returns:
        None with too few sessions, or with times of no ticks, which have no shares.
    """
    cells = points.cells_in_time
    if len(cells) < least or median(cells.values) <= 0:
        return None
    residuals, spikes = [], []
    for alike in _alike_in_code(cells):
        newest = alike.values[-_WINDOW:]
        levels = _levels(newest)
        if len(newest) > 1 and levels.min() > 0:
            residuals.append(newest / levels - 1)
            spikes.append(np.isin(alike.results[-_WINDOW:], [*failed]))
    count = sum(map(len, residuals))
    if count < least - 1:
        return None
    together, smallest = np.concatenate(residuals), rounding / median(cells.values)
    usual = max(MAD_SCALE * median(np.abs(together)), smallest)
    freedom = float(count - len(residuals))
    spread = _spread(together, usual, np.concatenate(spikes))
    return SessionNoise(spread, freedom, usual, _correlation(together))


def typical(of_operators: Sequence[float]) -> float:
    """Return the positive number of the median operator; 0 if too few have one."""
    known = [number for number in of_operators if number > 0]
    return median(np.array(known)) if len(known) >= POOLED else 0.0


def moderated(spread: float, freedom: float, typical: float) -> tuple[float, float]:
    """Return the spread of an operator and its degrees of freedom, with those of the typical one.

    Each of them estimates the other (Smyth 2004); ``_PRIOR`` says how well. A typical spread of 0
    is unknown.
    """
    if not typical:
        return spread, freedom
    together = _PRIOR + freedom
    squares = (_PRIOR * typical**2 + freedom * spread**2) / together
    return float(np.sqrt(squares)), together


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
    count = len(values)
    places = np.arange(_SHORTEST, count - _SHORTEST + 1)
    level = np.full(count, median(values))
    if not len(places):
        return level
    after = np.arange(count) >= places[:, None]
    levels = np.where(after, _medians(values, after), _medians(values, ~after))
    within = np.square(values - levels).sum(axis=1)
    best = int(np.argmin(within))
    clear = within[best] < np.square(values - level).sum() / _CLEAR
    return levels[best] if clear else level


def _medians(values: Floats, chosen: Bools) -> Floats:
    """Return the median of the chosen values of each row, shape (rows, n) to (rows, 1)."""
    ordered, counts = np.sort(np.where(chosen, values, np.inf)), chosen.sum(axis=1)
    rows = np.arange(len(chosen))
    middle = ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]
    return np.asarray(middle / 2)[:, None]


def _correlation(residuals: Floats) -> float:
    """Return the correlation of neighbors, corrected for its bias (Marriott and Pope 1954)."""
    squares = float(residuals @ residuals)
    if not squares:
        return 0.0
    seen = float(residuals[1:] @ residuals[:-1]) / squares
    return max(seen + (1 + 3 * max(seen, 0.0)) / len(residuals), 0.0)


def _spread(residuals: Floats, usual: float, spikes: Bools) -> float:
    """Return the larger of the usual deviation and that of all residuals but winsorised spikes."""
    reach = _CLIP * usual
    if len(residuals) >= _FEW:
        far = np.abs(residuals) > reach
        if np.count_nonzero(far & ~spikes) <= _SPIKES * len(residuals):
            spikes = far
        residuals = np.where(spikes, np.clip(residuals, -reach, reach), residuals)
    deviation = float(np.sqrt(np.square(residuals).sum() / max(len(residuals) - 1, 1)))
    return max(deviation, usual)


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

_LASTING: Final = 4
"""Newest values in the upper mode that make it a change: it does not come and go any more."""

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
    two modes, and so is an upper one that has lasted to the end.
    """
    if not len(earlier):
        return ()
    counts = np.bincount(earlier.origins)
    largest = earlier.where(earlier.origins == int(np.argmax(counts)))
    cells = earlier.cells_in_time
    # Arms in turns would look like two modes.
    alone = np.bincount(cells.sessions)[cells.sessions] == 1
    for alike in (largest, cells.where(alone & (counts[cells.origins] < MIN_VALUES))):
        found = find_modes(alike.values)
        if found is not None:
            middle = (found[0].center + found[1].center) / 2
            upper = alike.values > middle
            if np.count_nonzero(np.diff(upper)) >= _MIN_FLIPS and not upper[-_LASTING:].all():
                return found
    return ()


_EVIDENT_TICKS: Final = 1000.0
"""Ticks from which a time that never varies shows that its clock has no noise: 0.1 % would be seen.
A shorter time may vary by less than a tick."""


def exact_metrics(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> set[Metric]:
    """Return the metrics without noise: sizes, counts of what a program does, times and counts on
    an emulated clock, and those of a clock that has shown none.

    Noise grows with the time, so it shows in the longest times. A clock shows none if most of its
    times that are long enough never vary, or vary only from commit to commit.
    """
    exact = {
        metric
        for metric, samples in found.items()
        if _is_exact(metric, samples) or _is_emulated(unit, metric, samples)
    }
    clocks: dict[tuple[str, str], list[Metric]] = defaultdict(list)
    for metric, samples in found.items():
        if metric not in exact and len(samples.earlier) >= limits.min_results:
            clocks[metric.clock, metric.statistic].append(metric)
    for members in clocks.values():
        least = _EVIDENT_TICKS * unit.tick(members[0])
        long = [m for m in members if median(found[m].earlier.values) >= least]
        steady = [m for m in long if _constant(found[m].earlier, limits.min_results)]
        if 2 * len(steady) > len(long):
            exact |= {m for m in members if _same_in_repeats(unit, found[m])}
    return exact


def _is_exact(metric: Metric, samples: MetricHistory) -> bool:
    """Return whether a metric has no noise by its kind, or has counted 0 so far."""
    if metric.kind != "counter":
        return metric.kind not in ("operator", "energy")
    counted_nothing = len(samples.earlier) > 0 and not samples.earlier.values.any()
    return metric.statistic in EXACT_COUNTERS or counted_nothing


def _is_emulated(unit: UnitHistory, metric: Metric, samples: MetricHistory) -> bool:
    """Return whether a metric is of an emulated clock, and the results do not contradict that."""
    timed = metric.kind in ("operator", "counter") and unit.emulated_time
    return timed and _same_in_repeats(unit, samples)


def _same_in_repeats(unit: UnitHistory, samples: MetricHistory) -> bool:
    """Return whether results of the same firmware and model are equal, so far and now.

    They may differ on an exact clock if they ran with other inputs.
    """
    earlier, programs = samples.earlier, unit.programs[samples.earlier.results]
    alike = all((part.values == part.values[0]).all() for _, part in earlier.groups(programs))
    return alike and (
        not len(samples.now) or bool((samples.now.values == samples.now.values[0]).all())
    )


def _constant(earlier: Points, least: int) -> bool:
    """Return whether all results of each commit are equal; of all commits, if none has repeats."""
    if (earlier.values == earlier.values[0]).all():
        return True
    order = np.lexsort((earlier.values, earlier.origins))
    values, origins = earlier.values[order], earlier.origins[order]
    repeats = origins[1:] == origins[:-1]
    enough = int(np.count_nonzero(repeats)) >= least - 1
    return enough and bool((np.diff(values)[repeats] == 0).all())


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
        None if whole.noisy is None else whole.noisy.with_values(factors[whole.noisy.results]),
        whole.failed,
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
