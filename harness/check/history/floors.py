"""Compares the floors of a metric: its values in undisturbed sessions.

Disturbances of a host (other processes, clock rate) make times longer, never shorter. The lowest
values of many sessions therefore vary less than the median, and show changes that the median does
not. They are compared by the precedence test (Nelson 1963): if both sides have one distribution,
every order of their values is equally likely, so the number of values of one side below the lowest
few of the other has an exact distribution, whatever the values' distribution is.

``scipy.stats.nhypergeom`` has this distribution, too, but is 20 times slower and inexact far out in
the tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Interval
from harness.check.history.samples import Floats

MIN_SESSIONS: Final = 32
"""Sessions needed for significance among many operators."""

FLOOR: Final = 0.2
"""The floor is this quantile of the values."""

_PARTS: Final = (8, 4, 2)
"""The lowest eighth, quarter and half of one side are tested; the most significant counts."""


@dataclass(frozen=True, slots=True)
class FloorChange:
    """The change of a floor.

    Attributes:
        baseline: The floor of the baseline.
        change: Difference of the floors.
        p: Two-sided p-value of the change.
    """

    baseline: Interval
    change: Interval
    p: float


def floor_change(before: Floats, after: Floats, confidence: float, special: Any) -> FloorChange:
    """Compare the floors of two samples with one value per session.

    Args:
        before: Values of the baseline, shape (n,).
        after: Values of the candidate, shape (m,).
        confidence: Level of the intervals. The interval of the change follows from the order
            statistics of both sides, which hold jointly with at least this probability.
        special: ``scipy.special``.
    """
    old, new = np.sort(before), np.sort(after)
    each = (1 + confidence) / 2
    was, now = (_interval(side, each, special) for side in (old, new))
    change = Interval(now.value - was.value, now.low - was.high, now.high - was.low)
    ranks = [max(1, min(len(old), len(new)) // part) for part in _PARTS]
    chances = [_precedence(x, y, rank) for rank in ranks for x, y in ((old, new), (new, old))]
    return FloorChange(
        _interval(old, confidence, special), change, min(1.0, len(chances) * min(chances))
    )


def _interval(ordered: Floats, confidence: float, special: Any) -> Interval:
    """Return the floor with its distribution-free interval, by order statistics."""
    count = len(ordered)
    below = special.bdtr(np.arange(count), count, FLOOR)
    rest = (1 - confidence) / 2
    low, high = np.searchsorted(below, rest), np.searchsorted(below, 1 - rest)
    return Interval(
        float(np.quantile(ordered, FLOOR)),
        float(ordered[low - 1]) if low else -np.inf,
        float(ordered[high]) if high < count else np.inf,
    )


def _precedence(low: Floats, high: Floats, rank: int) -> float:
    """Return the one-sided p-value of the precedence test; both samples are sorted.

    Counts values of ``high`` up to the value of ``low`` with this rank. Equal values count, which
    makes the test conservative.
    """
    count = int(np.searchsorted(high, low[rank - 1], side="right"))
    return _precedence_cdf(count, len(low), len(high), rank)


@cache
def _precedence_cdf(count: int, size: int, others: int, rank: int) -> float:
    """Return P(at most ``count`` of ``others`` precede the value of ``size`` with this rank)."""
    ways = sum(
        comb(few + rank - 1, few) * comb(size - rank + others - few, others - few)
        for few in range(count + 1)
    )
    return ways / comb(size + others, others)
