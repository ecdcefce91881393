"""Brackets of two clocks: readings of one between instants of the other, and lines that fit.

A ping gives a bracket: the device read its counter after the host sent the request and before the
host received the response. A delegate call gives one, too: readings of the delegate's counter lie
between start and end of the call on the CPU's clock.

The straight lines that fit all brackets form a convex set, so at any tick the highest and the
lowest of them are hard bounds (``Strip``). They follow from convex hulls, computed in
integers and fractions: a floating-point LP solver such as SciPy's could violate its constraints by
rounding, so its bounds would not be guaranteed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import does_wrap
from harness.records.clock_domain import ClockDomain, Ping

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


Rates = tuple[Fraction, Fraction]
"""Smallest and largest number of ticks per unit of the other clock."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two readings of a counter, less than one wrap apart, between two instants of another clock.

    All four values are readings that stay the same until the next tick.

    Attributes:
        low: Reading of the other clock before ``first``.
        high: Reading of the other clock after ``last``.
        first: First raw reading of the counter.
        last: Last raw reading of the counter.
        epoch: Number of restarts of the counter, as reported by the device; None if not reported.
    """

    low: int
    high: int
    first: int
    last: int
    epoch: int | None = None


def of_pings(pings: Iterable[Ping]) -> list[Bracket]:
    """Return the brackets of pings, in host nanoseconds."""
    return [
        Bracket(ping.host_before_ns, ping.host_after_ns, ping.ticks, ping.ticks, ping.epoch)
        for ping in pings
    ]


class Break(StrEnum):
    """Why a stretch of readings begins, instead of continuing the one before."""

    FIRST = "first reading"
    RESTARTED = "the device restarted its clock"
    CONTRADICTION = "no number of wraps fits the elapsed time: reset, sleep or another rate"
    AMBIGUOUS = "several numbers of wraps fit the elapsed time: declare the clock's tolerance"
    NO_LINE = "no steady rate fits: reset, sleep or another rate"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Brackets with readings on one unwrapped timeline.

    Attributes:
        begins: Why the stretch begins.
        first: Index of its first bracket.
        brackets: The brackets.
        ticks: Unwrapped first and last reading of each, in ticks since the first of all.
    """

    begins: Break
    first: int
    brackets: tuple[Bracket, ...]
    ticks: tuple[tuple[int, int], ...]

    def below(self, slack: int = 0) -> list[Point]:
        """Return the points below the line from ticks to the other clock.

        ``first`` was read before the next tick, and after ``low``.
        """
        pairs = zip(self.ticks, self.brackets, strict=True)
        return [(first + 1, bracket.low - slack) for (first, _), bracket in pairs]

    def above(self, slack: int = 0) -> list[Point]:
        """Return the points above the line: ``last`` was reached before ``high`` ended."""
        pairs = zip(self.ticks, self.brackets, strict=True)
        return [(last, bracket.high + 1 + slack) for (_, last), bracket in pairs]

    def part(self, start: int, stop: int, begins: Break | None = None) -> Stretch:
        """Return brackets ``start`` to ``stop``; ticks keep counting from the first reading."""
        return Stretch(
            self.begins if begins is None else begins,
            self.first + start,
            self.brackets[start:stop],
            self.ticks[start:stop],
        )


def usual_rates(
    domain: ClockDomain, tolerance_ppm: Fraction | None, per_second: Fraction
) -> Rates | None:
    """Return the accepted range of a counter's rate; None if its rate is unknown.

    Args:
        domain: The counter.
        tolerance_ppm: Tolerance of its declared rate. If None, the rate is assumed to be between 0
            and twice the declared rate; readings less than about half a wrap apart then determine
            the number of wraps.
        per_second: Units of the other clock per second.
    """
    if domain.hz is None:
        return None
    rate = domain.hz / per_second
    if tolerance_ppm is None:
        return Fraction(0), 2 * rate
    off = tolerance_ppm / 1_000_000
    return rate * (1 - off), rate * (1 + off)


def follow(brackets: Sequence[Bracket], domain: ClockDomain, rates: Rates | None) -> list[Stretch]:
    """Unwrap the readings of consecutive brackets into stretches.

    Between two brackets, the ticks of the counter are known modulo its range, and the time on the
    other clock is known to within the brackets. If exactly one number of wraps fits the rates, the
    stretch continues; otherwise a new one begins.
    """
    stretches: list[Stretch] = []
    start, begins = 0, Break.FIRST
    ticks: list[tuple[int, int]] = []
    for number, bracket in enumerate(brackets):
        first = 0
        if number:
            step = _step(brackets[number - 1], bracket, domain, rates)
            if isinstance(step, Break):
                part = tuple(brackets[start:number])
                stretches.append(Stretch(begins, start, part, tuple(ticks)))
                start, begins, ticks = number, step, []
            else:
                first = ticks[-1][0] + step
        ticks.append((first, first + domain.passed(bracket.first, bracket.last)))
    if brackets:
        stretches.append(Stretch(begins, start, tuple(brackets[start:]), tuple(ticks)))
    return stretches


def _step(before: Bracket, after: Bracket, domain: ClockDomain, rates: Rates | None) -> int | Break:
    """Return the ticks between the first readings of two brackets, or why they are unknown."""
    if before.epoch != after.epoch:
        return Break.RESTARTED
    ticks = domain.passed(before.first, after.first)
    if rates is None:
        if does_wrap(domain):
            return Break.AMBIGUOUS
        return ticks if ticks < domain.modulus // 2 else Break.CONTRADICTION
    least = floor((after.low - before.high - 1) * rates[0]) - 1
    most = ceil((after.high + 1 - before.low) * rates[1]) + 1
    candidates = wraps_between(ticks, max(least, 0), most, domain)
    if not candidates:
        return Break.CONTRADICTION
    return Break.AMBIGUOUS if len(candidates) > 1 else ticks + candidates[0] * domain.modulus


def wraps_between(ticks: int, least: int, most: int, domain: ClockDomain) -> range:
    """Return the numbers of whole wraps for which ticks are in ``least`` to ``most``."""
    lowest = max(-((ticks - least) // domain.modulus), 0)
    return range(lowest, (most - ticks) // domain.modulus + 1)
