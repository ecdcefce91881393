"""The feasible strip: all straight lines that fit the brackets between two clocks.

The constraints are points: lines pass above some and below others. The feasible lines form a convex
set; at any x the highest and the lowest of them are hard bounds. They follow from the convex hulls
of the points, computed in integers and fractions. A floating-point LP solver such as SciPy's could
violate its constraints by rounding, so its bounds would not be guaranteed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

Point = tuple[int, int]
Ints = npt.NDArray[np.int64]

_ROUNDING = 2.0**-50
"""Larger than the relative error of a product of two rounded factors."""


@dataclass(frozen=True, slots=True)
class _Hull:
    """Lower convex hull of points.

    Attributes:
        points: Its corners, from left to right.
        slopes: Slopes of its edges, ascending; one less than corners.
    """

    points: tuple[Point, ...]
    slopes: tuple[Fraction, ...]

    @classmethod
    def of(cls, points: Iterable[Point]) -> _Hull:
        """Compute the hull by Andrew's monotone chain: O(n) for sorted points, else O(n log n)."""
        chain: list[Point] = []
        for x, y in sorted(points):
            if chain and chain[-1][0] == x:
                continue  # the lower point of the two came first
            while len(chain) > 1 and _is_above(chain[-2], chain[-1], (x, y)):
                chain.pop()
            chain.append((x, y))
        edges = pairwise(chain)
        return cls(tuple(chain), tuple(Fraction(q[1] - p[1], q[0] - p[0]) for p, q in edges))

    def intercept(self, slope: Fraction) -> Fraction:
        """Return the intercept at x = 0 of the highest line with this slope below all points."""
        x, y = self.points[bisect_left(self.slopes, slope)]
        return y - slope * x


def _is_above(left: Point, middle: Point, right: Point) -> bool:
    """Return whether the middle point is above or on the line through the others."""
    (x0, y0), (x1, y1), (x2, y2) = left, middle, right
    return (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """Maximum over all lines below the points with a slope in a range, a piecewise linear function.

    Attributes:
        knees: x of its corners, ascending.
        lines: (slope, intercept) of each part; one more than knees.
    """

    knees: tuple[int, ...]
    lines: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, hull: _Hull, low: Fraction, high: Fraction) -> _Envelope:
        # The maximum at x is along the hull's edge above x, clipped to the range of slopes; left of
        # the hull it has the smallest slope.
        slopes = [low, *(min(max(slope, low), high) for slope in hull.slopes), high]
        lines = tuple((slope, hull.intercept(slope)) for slope in slopes)
        return cls(tuple(x for x, _ in hull.points), lines)

    def at(self, x: int) -> Fraction:
        """Return the value at ``x``, exact."""
        slope, intercept = self.lines[bisect_left(self.knees, x)]
        return slope * x + intercept

    def above(self, x: Ints) -> Ints:
        """Return the value at each ``x``, rounded up; may be one too large due to rounding."""
        result = np.zeros(x.shape, np.int64)
        parts = np.searchsorted(np.array(self.knees, np.int64), x)
        for part in np.flatnonzero(np.bincount(parts)).tolist():
            chosen = parts == part
            near = self.knees[min(part, len(self.knees) - 1)]
            slope, intercept = self.lines[part]
            rise = (x[chosen] - near).astype(np.float64) * float(slope)
            upward = np.ceil(rise + np.abs(rise) * _ROUNDING).astype(np.int64)
            result[chosen] = upward + ceil(slope * near + intercept)
        return result


@dataclass(frozen=True, slots=True)
class Strip:
    """All feasible lines y = offset + slope * x.

    Attributes:
        slopes: Smallest and largest slope of these lines.
    """

    slopes: tuple[Fraction, Fraction]
    _ceiling: _Envelope
    _depth: _Envelope  # of the points below, with y negated

    def low(self, x: int) -> Fraction:
        """Return the minimum of all lines at ``x``, exact."""
        return -self._depth.at(x)

    def high(self, x: int) -> Fraction:
        """Return the maximum of all lines at ``x``, exact."""
        return self._ceiling.at(x)

    def lows(self, x: Ints) -> Ints:
        """Return ``low`` at each ``x``, rounded down."""
        return -self._depth.above(x)

    def highs(self, x: Ints) -> Ints:
        """Return ``high`` at each ``x``, rounded up."""
        return self._ceiling.above(x)


class UnboundedError(ValueError):
    """Lines of any slope are feasible, so there are no bounds between the points."""


def solve(
    below: Iterable[Point],
    above: Iterable[Point],
    slopes: tuple[Fraction, Fraction | None] = (Fraction(0), None),
) -> Strip | None:
    """Return all lines above the points ``below`` and below the points ``above``.

    Args:
        below: Points (x, y) on or below every line.
        above: Points on or above every line.
        slopes: Known range of the slope; not negative, because clocks do not run backwards.

    Returns:
        The strip, or None if no line is feasible.

    Raises:
        UnboundedError: Neither the points nor ``slopes`` bound the slope.
    """
    hull = _Hull.of(above)
    mirrored = _Hull.of((x, -y) for x, y in below)
    low, high = slopes
    left, right = mirrored.points[0], hull.points[-1]
    if right[0] > left[0]:
        steepest = Fraction(right[1] + left[1], right[0] - left[0])
        high = steepest if high is None else min(high, steepest)
    if high is None:
        raise UnboundedError("a single reading does not determine the rate")
    if high < low:
        return None
    # The gap between both hulls at x = 0 is concave in the slope, and linear between these slopes.
    steps = {low, high, *hull.slopes, *(-slope for slope in mirrored.slopes)}
    steps = {step for step in steps if low <= step <= high}
    rooms = [(s, hull.intercept(s) + mirrored.intercept(-s)) for s in sorted(steps)]
    fitting = [index for index, (_, room) in enumerate(rooms) if room >= 0]
    if not fitting:
        return None
    flattest = _closing(rooms, fitting[0], fitting[0] - 1)
    steepest = _closing(rooms, fitting[-1], fitting[-1] + 1)
    return Strip(
        (flattest, steepest),
        _Envelope.of(hull, flattest, steepest),
        _Envelope.of(mirrored, -steepest, -flattest),
    )


def _closing(rooms: list[tuple[Fraction, Fraction]], last: int, beyond: int) -> Fraction:
    """Return the slope at which the gap closes, between the last open step and the next."""
    slope, room = rooms[last]
    if not 0 <= beyond < len(rooms):
        return slope
    other, missing = rooms[beyond]
    return slope + (other - slope) * room / (room - missing)
