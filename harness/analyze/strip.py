"""The feasible strip: every straight line that fits what is known of two clocks, and no other.

Known are points: the line passes above some and below others. All lines that do form a convex set;
at any abscissa the highest and the lowest of them are hard bounds. They are found from the convex
hulls of the points, in integers and fractions: a solver in floating point may violate its own
constraints by rounding, and a bound that may be violated is none.
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
"""Above the relative error of the product of two rounded factors."""


@dataclass(frozen=True, slots=True)
class _Hull:
    """Lower convex hull of points: the part of its outline that is seen from below.

    Attributes:
        points: Its corners, from left to right.
        slopes: Those of its edges, ascending; one less than corners.
    """

    points: tuple[Point, ...]
    slopes: tuple[Fraction, ...]

    @classmethod
    def of(cls, points: Iterable[Point]) -> _Hull:
        """Andrew's monotone chain: O(n) for points that are in order, else O(n log n)."""
        chain: list[Point] = []
        for x, y in sorted(points):
            if chain and chain[-1][0] == x:
                continue  # the lower of the two came first
            while len(chain) > 1 and _is_above(chain[-2], chain[-1], (x, y)):
                chain.pop()
            chain.append((x, y))
        edges = pairwise(chain)
        return cls(tuple(chain), tuple(Fraction(q[1] - p[1], q[0] - p[0]) for p, q in edges))

    def intercept(self, slope: Fraction) -> Fraction:
        """Where the highest line of this slope that is above no point meets the axis x = 0."""
        x, y = self.points[bisect_left(self.slopes, slope)]
        return y - slope * x


def _is_above(left: Point, middle: Point, right: Point) -> bool:
    """Whether the middle point is above the line through the others, or on it."""
    (x0, y0), (x1, y1), (x2, y2) = left, middle, right
    return (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The highest of the lines that are above no point, within a range of slopes, everywhere.

    Attributes:
        knees: Abscissas between which it is straight, ascending.
        lines: (slope, intercept) of each part; one more than knees.
    """

    knees: tuple[int, ...]
    lines: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, hull: _Hull, low: Fraction, high: Fraction) -> _Envelope:
        # A line can be turned about the corner it touches until it lies along the edge above x,
        # or has the last slope that is allowed; left of the hull the flattest is highest.
        slopes = [low, *(min(max(slope, low), high) for slope in hull.slopes), high]
        lines = tuple((slope, hull.intercept(slope)) for slope in slopes)
        return cls(tuple(x for x, _ in hull.points), lines)

    def at(self, x: int) -> Fraction:
        """Its height at ``x``, exact."""
        slope, intercept = self.lines[bisect_left(self.knees, x)]
        return slope * x + intercept

    def above(self, x: Ints) -> Ints:
        """Its height at each ``x``, rounded up; by one more than need be where floats round."""
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
    """All lines y = offset + slope * x that fit.

    Attributes:
        slopes: The smallest and the largest slope of any of them.
    """

    slopes: tuple[Fraction, Fraction]
    _ceiling: _Envelope
    _depth: _Envelope  # of the points below, upside down

    def low(self, x: int) -> Fraction:
        """The lowest that any line is at ``x``, exact."""
        return -self._depth.at(x)

    def high(self, x: int) -> Fraction:
        """The highest that any line is at ``x``, exact."""
        return self._ceiling.at(x)

    def lows(self, x: Ints) -> Ints:
        """``low`` of each, rounded down."""
        return -self._depth.above(x)

    def highs(self, x: Ints) -> Ints:
        """``high`` of each, rounded up."""
        return self._ceiling.above(x)


class UnboundedError(ValueError):
    """Lines of any slope fit, so nothing is known anywhere else."""


def solve(
    below: Iterable[Point],
    above: Iterable[Point],
    slopes: tuple[Fraction, Fraction | None] = (Fraction(0), None),
) -> Strip | None:
    """Find all lines that pass ``below`` these points at most, and ``above`` those at least.

    Args:
        below: Points (x, y) that no line passes below: each is on the line or beneath it.
        above: Points that no line passes above.
        slopes: The range in which the slope is known to be; clocks do not run backwards.

    Returns:
        The strip, or None when there is no such line.

    Raises:
        UnboundedError: The points do not bound the slope, nor does ``slopes``.
    """
    hull = _Hull.of(above)
    mirrored = _Hull.of((x, -y) for x, y in below)
    low, high = slopes
    left, right = mirrored.points[0], hull.points[-1]
    if right[0] > left[0]:
        steepest = Fraction(right[1] + left[1], right[0] - left[0])
        high = steepest if high is None else min(high, steepest)
    if high is None:
        raise UnboundedError("one reading says nothing about the rate")
    if high < low:
        return None
    # The room between both hulls along x = 0 is concave in the slope, and straight between these.
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
    """The slope between the last step with room and the next without at which there is none."""
    slope, room = rooms[last]
    if not 0 <= beyond < len(rooms):
        return slope
    other, missing = rooms[beyond]
    return slope + (other - slope) * room / (room - missing)
