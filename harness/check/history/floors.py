"""The floor of a time: what it is in the sessions that nothing disturbed.

What disturbs a host (its neighbours, its clock rate) makes times longer, never shorter. So the
lowest numbers of many sessions lie close together where the middle ones do not, and a change that
the middle cannot tell is plain there. It is judged by the precedence test (Nelson 1963): if both
sides are of one distribution, any order of all their numbers is as likely as another, so how many
numbers of one side come before the lowest few of the other has an exact probability, whatever that
distribution is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any, Final

import numpy as np

from harness.check.history.comparison import Interval
from harness.check.history.samples import Floats

LEAST: Final = 32
"""Sessions from which on the test can tell anything among many operators."""

FLOOR: Final = 0.2
"""Share of the numbers that lie below the floor."""

_PARTS: Final = (8, 4, 2)
"""The lowest eighth, quarter and half of one side are asked about; what tells most counts."""


@dataclass(frozen=True, slots=True)
class FloorChange:
    """How a floor changed.

    Attributes:
        baseline: The floor of the baseline.
        change: What it grew by.
        p: Probability of sides that are so much apart by chance, two-sided.
    """

    baseline: Interval
    change: Interval
    p: float


def floor_change(before: Floats, after: Floats, confidence: float, special: Any) -> FloorChange:
    """Compare the floors of two sides, a number per session each.

    Args:
        before: Of the baseline, shape (n,).
        after: Of what is judged, shape (m,).
        confidence: Level of the intervals. That of the change follows from one of each side, by
            their order statistics, which both hold with that probability at least.
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
    """The floor, and the order statistics that enclose it whatever the distribution is."""
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
    """Probability of as few numbers of ``high`` among the lowest as there are, both ordered.

    Those up to the number of ``low`` with this rank count; equal ones do, which errs towards
    silence.
    """
    count = int(np.searchsorted(high, low[rank - 1], side="right"))
    return _as_few(count, len(low), len(high), rank)


@cache
def _as_few(count: int, size: int, others: int, rank: int) -> float:
    """At most ``count`` of ``others`` come before the one of ``size`` with this rank."""
    ways = sum(
        comb(few + rank - 1, few) * comb(size - rank + others - few, others - few)
        for few in range(count + 1)
    )
    return ways / comb(size + others, others)
