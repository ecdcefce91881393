"""Detects two modes of a metric, such as those of aligned and unaligned cache lines.

A model of two normal distributions with equal width is compared with one distribution. The split
of the sorted values with the least squares is used. The criterion is the integrated completed
likelihood (Biernacki, Celeux and Govaert 2000): its penalty for the weights avoids splitting flat
or wide distributions. SciPy has no mixture models, and scikit-learn would be a large dependency for
an exhaustive search that takes a few lines of NumPy in one dimension.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.check.history.comparison import Mode
from harness.check.history.samples import Floats, Points, median

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
