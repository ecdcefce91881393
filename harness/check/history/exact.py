"""Numbers without noise: sizes, and the ticks of a target that always takes as many."""

from __future__ import annotations

import numpy as np

from harness.check.history.comparison import Interval
from harness.check.history.estimate import Estimate
from harness.check.history.points import Points
from harness.check.history.settings import HistoryLimits


def is_exact(earlier: Points, limits: HistoryLimits) -> bool:
    """Whether a number is the same in all results of the same, of which there are enough.

    Results of different commits that are all alike count as well.
    """
    if len(earlier) < limits.min_results:
        return False
    if (earlier.values == earlier.values[0]).all():
        return True
    groups = [alike for _, alike in earlier.groups(earlier.origins)]
    repeats = sum(len(alike) - 1 for alike in groups)
    constant = all((alike.values == alike.values[0]).all() for alike in groups)
    return constant and repeats >= limits.min_results - 1


def exact_change(baseline: Points, now: Points) -> Estimate:
    """The change of a number without noise.

    The baseline's level is its middle number; where it has several, the newest result may have been
    one of another commit. What is judged is the largest of the results now.
    """
    ordered = np.sort(baseline.values)
    level = float(ordered[(len(ordered) - 1) // 2])
    current = float(now.values.max())
    change = current - level
    return Estimate(
        "exact",
        Interval(level, float(ordered[0]), float(ordered[-1])),
        current,
        Interval(change, change, change),
        0.0 if change else 1.0,
        0.0,
    )
