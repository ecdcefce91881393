"""Separates what all operators of a run have in common from what happened to single ones.

The temperature of a board, the clock rate of a machine and its neighbors change all times of a run
by one factor: the median, over operators, of the time relative to its own baseline. It is divided
out, so that it neither hides nor imitates the change of an operator, and is compared with the
factors of earlier runs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.check.history.group_sessions import MetricHistory
from harness.check.history.noise import POOLED
from harness.check.history.samples import Floats, Metric, Points, median

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
