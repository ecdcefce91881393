"""Two levels between which a number flips, such as those of a cache that is aligned or not.

Two normal distributions of one width are held against one. Of all ways to part the sorted numbers
in two the one with the least squares counts; the criterion is the integrated completed likelihood
(Biernacki, Celeux and Govaert 2000), which charges for the weights, so that it does not part what
is merely flat or wide.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.check.history.comparison import Mode
from harness.check.history.samples import Floats, Points

LEAST: Final = 12
"""Numbers it takes to tell."""

_LEAST_WEIGHT: Final = 0.15
"""Share of the numbers that a mode has at least: fewer are outliers."""

_STRONG: Final = 10.0
"""Difference of the criterion that counts as very strong evidence (Kass and Raftery 1995)."""

_LEAST_FLIPS: Final = 4
"""How often numbers of one origin go from one mode to the other: once is a step."""

_LEAST_GAP: Final = 1.0
"""Widths of a mode between the largest number of the lower and the smallest of the upper."""

_FINEST: Final = 1e-6
"""Widths below this share of the distance of the modes are all the same."""


def find_modes(values: Floats) -> tuple[Mode, Mode] | None:
    """Return the two modes of numbers in any order, shape (n,), lower first; None for one."""
    count = len(values)
    ordered = np.sort(values)
    fewest = max(3, int(np.ceil(_LEAST_WEIGHT * count)))
    if count < LEAST or ordered[0] == ordered[-1]:
        return None
    parts = np.arange(fewest, count - fewest + 1)
    if not len(parts):
        return None
    ordered = ordered - ordered.mean()
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    below = squares[parts - 1] - sums[parts - 1] ** 2 / parts
    above_sum, above_count = sums[-1] - sums[parts - 1], count - parts
    above = squares[-1] - squares[parts - 1] - above_sum**2 / above_count
    within = below + above
    best = int(np.argmin(within))
    part = int(parts[best])
    whole = squares[-1] / count
    floor = (_FINEST * (ordered[-1] - ordered[0])) ** 2
    width = max(float(within[best]) / count, floor)
    weights = np.array([part, count - part]) / count
    # Twice the gain of likelihood, less the penalty for a level, and for a weight.
    gain = count * np.log(whole / width) + 2 * count * float(weights @ np.log(weights))
    if gain - 2 * np.log(count) < _STRONG:
        return None
    sides = np.split(np.sort(values), [part])
    if sides[1][0] - sides[0][-1] < _LEAST_GAP * np.sqrt(width):
        return None
    low, high = (
        Mode(float(np.median(side)), float(np.sqrt(width)), len(side) / count) for side in sides
    )
    return low, high


def modes_of(earlier: Points) -> tuple[Mode, ...]:
    """Return the modes of results of one origin, that of which there are most; empty for one.

    Numbers that change their level once are no modes but a step.
    """
    if not len(earlier):
        return ()
    largest = max(
        (alike for _, alike in earlier.groups(earlier.origins)),
        key=lambda alike: (len(alike), alike.origins[0]),
    )
    found = find_modes(largest.values)
    if found is None:
        return ()
    upper = mode_of(largest.values, found)
    return found if np.count_nonzero(np.diff(upper)) >= _LEAST_FLIPS else ()


def mode_of(values: Floats, modes: tuple[Mode, ...]) -> np.ndarray:
    """Number of the mode that is nearest to each number, shape (n,)."""
    centers = np.array([mode.center for mode in modes])
    return np.asarray(np.argmin(np.abs(values[:, None] - centers), axis=1))


def without_modes(points: Points, modes: tuple[Mode, ...]) -> Points:
    """The same numbers as if all were of the mode that most of ``modes`` are of."""
    if not modes:
        return points
    centers = np.array([mode.center for mode in modes])
    heaviest = max(modes, key=lambda mode: mode.weight).center
    return points.with_values(points.values - centers[mode_of(points.values, modes)] + heaviest)
