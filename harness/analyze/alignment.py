"""Alignment: maps ticks of one clock to another, with guaranteed bounds, and checks the rate.

The reference is the host's clock in nanoseconds, with pings around readings of the device's clock,
or the CPU's clock in ticks for a delegate's clock. With a steady rate, a straight line maps one
clock to the other, and passes through every bracket. All such lines are possible,
so the lowest and the highest of them are bounds at any tick, and
their middle has the smallest worst-case error. The position of a reading in its bracket is not
assumed: an asymmetric link makes bounds wide, never wrong.

If no line fits, the counter was reset, slept or changed its rate, and the epoch ends.

A bracket is a reading of one clock between two instants of the other. A ping gives a bracket: the
device read its counter after the host sent the request and before the host received the response. A
delegate call gives one, too: readings of the delegate's counter lie between start and end of the
call on the CPU's clock.

The straight lines that fit all brackets form a convex set, so at any tick the highest and the
lowest of them are hard bounds (``Strip``). They follow from convex hulls, computed in
integers and fractions: a floating-point LP solver such as SciPy's could violate its constraints by
rounding, so its bounds would not be guaranteed.

Every command that asks whether a clock keeps its declared rate asks ``rate_evidence``. A ping
bounds when the counter was read, so a busy host or a slow line makes the evidence weaker, but never
wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, floor
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import does_wrap
from harness.records.trace import HOST_NANOSECONDS, ClockDomain, Ping

_MILLION = 1_000_000
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How steady a clock's rate is.

    Attributes:
        tolerance_ppm: Largest error of the declared rate in parts per million; None if unknown. It
            narrows the strip.
        wander_ppm: Largest change of the rate within any window: maximum over minimum minus 1.
        window_s: Length of these windows in seconds of the other clock; None for whole epochs.
    """

    tolerance_ppm: Fraction | None = None
    wander_ppm: Fraction = Fraction(0)
    window_s: Fraction | None = None

    def __post_init__(self) -> None:
        for name, ppm in (("tolerance", self.tolerance_ppm), ("wander", self.wander_ppm)):
            if ppm is not None and not 0 <= ppm < _MILLION:
                raise ValueError(f"a {name} of {float(ppm):g} ppm is not within 0 to 1,000,000")
        if self.window_s is not None and self.window_s <= 0:
            raise ValueError(f"a window of {float(self.window_s):g} s is not positive")

    @classmethod
    def of(cls, domain: ClockDomain) -> Steadiness:
        """Return the declared steadiness of a clock."""
        ppm = domain.tolerance_ppm
        return cls(None if ppm is None else Fraction(ppm), Fraction(domain.wander_ppm))


PERFECTLY = Steadiness()
"""A rate that never changes, whatever it is."""


@dataclass(frozen=True, slots=True)
class Instants:
    """When readings of a clock were taken, on another clock: shape (n,) each, int64.

    Attributes:
        low: Earliest possible instant.
        mid: Middle between both; its error is at most half their distance.
        high: Latest possible instant.
        known: False for instants without bounds; the other columns are meaningless there.
    """

    low: Ints
    mid: Ints
    high: Ints
    known: npt.NDArray[np.bool_]

    @classmethod
    def between(cls, low: Ints, high: Ints) -> Instants:
        """Return instants with these bounds; the smallest and largest int64 mean unbounded."""
        known = (low > _EARLIEST) & (high < _LATEST) & (low <= high)
        mid = np.where(known, low, 0) + (np.where(known, high, 0) - np.where(known, low, 0)) // 2
        return cls(low, mid, high, known)

    @property
    def half_width(self) -> int | None:
        """Largest possible error of ``mid``, rounded up; None if no instant is known."""
        widths = self.high[self.known] - self.low[self.known]
        return int((int(widths.max()) + 1) // 2) if len(widths) else None


@dataclass(frozen=True, slots=True)
class LinePiece:
    """A strip over some consecutive brackets of an epoch.

    Attributes:
        first: Unwrapped tick from which on it holds.
        last: Up to which.
        strip: All lines that fit.
        slack: How far the truth may be from each line, because no rate is perfectly steady.
        wander: Additional error beyond ``first`` and ``last``, as a share of the elapsed time.
    """

    first: int
    last: int
    strip: Strip
    slack: int
    wander: Fraction

    def bounds(self, ticks: Ints) -> tuple[Ints, Ints]:
        """Return bounds of the instant at which each tick was read, up to the next tick."""
        outside = np.maximum(np.maximum(self.first - ticks, ticks - self.last), 0)
        reach = outside.astype(np.float64) * float(self.strip.slopes[1] * self.wander)
        extra = self.slack + np.ceil(reach * (1 + 2.0**-40)).astype(np.int64)
        return self.strip.lows(ticks) - extra, self.strip.highs(ticks + 1) + extra


@dataclass(frozen=True, slots=True)
class Epoch:
    """Readings that fit one steady rate.

    Attributes:
        stretch: The brackets with unwrapped readings.
        pieces: Strips over windows of brackets, in order; empty if there are no bounds.
        unbounded: Why there are no bounds, else "".
    """

    stretch: Stretch
    pieces: tuple[LinePiece, ...]
    unbounded: str = ""

    @property
    def device_epoch(self) -> int | None:
        """Number of restarts of the device's clock; None if not reported."""
        return self.stretch.brackets[0].epoch

    @property
    def slopes(self) -> tuple[Fraction, Fraction] | None:
        """Smallest and largest length of a tick in units of the reference; None if unknown."""
        if not self.pieces:
            return None
        slopes = [piece.strip.slopes for piece in self.pieces]
        return min(low for low, _ in slopes), max(high for _, high in slopes)

    def instants(self, ticks: Ints) -> Instants:
        """Return the instants of readings, given as unwrapped ticks of this epoch, shape (n,)."""
        low, high = np.full(ticks.shape, _EARLIEST), np.full(ticks.shape, _LATEST)
        covered = np.zeros(ticks.shape, np.bool_)
        bounding: list[tuple[LinePiece, npt.NDArray[np.bool_]]] = []
        for piece in self.pieces:
            inside = (ticks >= piece.first) & (ticks <= piece.last)
            covered |= inside
            bounding.append((piece, inside))
        # Ticks outside of all pieces have the bounds of the pieces on both sides.
        lasts = [_EARLIEST, *(piece.last for piece in self.pieces[:-1])]
        firsts = [*(piece.first for piece in self.pieces[1:]), _LATEST]
        for piece, earlier, later in zip(self.pieces, lasts, firsts, strict=False):
            bounding.append((piece, (ticks > earlier) & (ticks < later) & ~covered))
        for piece, chosen in bounding:
            lows, highs = piece.bounds(ticks[chosen])
            low[chosen] = np.maximum(low[chosen], lows)
            high[chosen] = np.minimum(high[chosen], highs)
        return Instants.between(low, high)


@dataclass(frozen=True, slots=True)
class Alignment:
    """One clock aligned with another.

    Attributes:
        domain: The aligned clock.
        reference: The reference clock; nanoseconds for the host's.
        epochs: In order of time.
    """

    domain: ClockDomain
    reference: ClockDomain
    epochs: tuple[Epoch, ...]

    def instants(self, ticks: Ints, epoch: int = -1) -> Instants:
        """Return the instants on the reference of readings in unwrapped ticks of an epoch.

        Instants are unknown without any epoch.
        """
        if not self.epochs:
            return Instants.between(np.full(ticks.shape, _EARLIEST), np.full(ticks.shape, _LATEST))
        return self.epochs[epoch].instants(ticks)

    def rate_ppm(self, epoch: int = -1) -> tuple[float, float] | None:
        """Return the smallest and largest deviation from the declared rate, in ppm.

        None if either rate is unknown. Positive values mean a fast clock.
        """
        slopes = self.epochs[epoch].slopes if self.epochs else None
        if slopes is None or self.domain.hz is None or self.reference.hz is None or not slopes[0]:
            return None
        declared = self.reference.hz / self.domain.hz
        slow, fast = (float((declared / slope - 1) * _MILLION) for slope in reversed(slopes))
        return slow, fast


def align(
    pings: Iterable[Ping], domain: ClockDomain, steadiness: Steadiness = PERFECTLY
) -> Alignment:
    """Align a device's clock 0 with the host's clock.

    Args:
        pings: In the order in which they were sent.
        domain: The device's clock 0.
        steadiness: Tolerance and wander of its rate.
    """
    brackets = [
        Bracket(ping.host_before_ns, ping.host_after_ns, ping.ticks, ping.ticks, ping.epoch)
        for ping in pings
    ]
    return align_brackets(brackets, domain, HOST_NANOSECONDS, steadiness)


def align_brackets(
    brackets: Sequence[Bracket],
    domain: ClockDomain,
    reference: ClockDomain,
    steadiness: Steadiness = PERFECTLY,
) -> Alignment:
    """Align one clock with another by brackets in order of time.

    Without a tolerance, the rate is assumed to be between 0 and twice the declared rate; readings
    less than about half a wrap apart then determine the number of wraps.
    """
    believed: Rates | None = None
    tight: tuple[Fraction, Fraction | None] | None = None
    if reference.hz is not None and domain.hz is not None:
        rate = domain.hz / reference.hz
        believed = Fraction(0), 2 * rate
        if steadiness.tolerance_ppm is not None:
            off = steadiness.tolerance_ppm / 1_000_000
            believed = rate * (1 - off), rate * (1 + off)
            tight = 1 / believed[1], (1 / believed[0] if believed[0] > 0 else None)
    solver = _Solver(reference, steadiness, tight or (Fraction(0), None))
    epochs: list[Epoch] = []
    for stretch in follow(brackets, domain, believed):
        rest: Stretch | None = stretch
        while rest is not None:
            fitting = solver.longest(rest)
            epochs.append(solver.epoch(rest.part(0, fitting)))
            behind = len(rest.ticks)
            rest = rest.part(fitting, behind, Break.NO_LINE) if fitting < behind else None
    return Alignment(domain, reference, tuple(epochs))


@dataclass(frozen=True, slots=True)
class _Solver:
    """Solves strips of stretches, with the known range of the rate."""

    reference: ClockDomain
    steadiness: Steadiness
    slopes: tuple[Fraction, Fraction | None]

    def longest(self, stretch: Stretch) -> int:
        """Return the length of the longest prefix of brackets that fits one epoch, at least 1.

        A contradiction remains with more brackets, so the prefix is found by bisection.
        """
        if self._fits(stretch):
            return len(stretch.ticks)
        good, bad = 1, len(stretch.ticks)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._fits(stretch.part(0, middle)):
                good = middle
            else:
                bad = middle
        return good

    def _fits(self, stretch: Stretch) -> bool:
        try:
            return all(self._strip(part)[0] is not None for part in self._windows(stretch))
        except UnboundedError:
            return True

    def epoch(self, stretch: Stretch) -> Epoch:
        """Solve all windows of a stretch that fits."""
        pieces, unbounded = [], ""
        for part in self._windows(stretch):
            try:
                strip, slack = self._strip(part)
            except UnboundedError as error:
                unbounded = str(error)
                continue
            if strip is None:  # a single bracket that ends before it starts
                unbounded = "the reading contradicts itself"
                continue
            # Outside the window the rate differs from its mean inside by at most the wander, and
            # the mean from the slope of the line by at most 2 * slack / T.
            wander = self.steadiness.wander_ppm * Fraction(5, 4) / _MILLION
            pieces.append(LinePiece(part.ticks[0][0], part.ticks[-1][1], strip, slack, wander))
        return Epoch(stretch, tuple(pieces), "" if pieces else unbounded)

    def _windows(self, stretch: Stretch) -> Iterator[Stretch]:
        """Yield windows of the stretch, each overlapping the previous by half; or all of it."""
        window = self.steadiness.window_s
        if window is None or self.reference.hz is None:
            yield stretch
            return
        length = window * self.reference.hz
        start, count = 0, len(stretch.brackets)
        while True:
            stop = _first_from(stretch.brackets, start + 1, stretch.brackets[start].low + length)
            yield stretch.part(start, stop)
            if stop >= count:
                return
            middle = stretch.brackets[start].low + length / 2
            start = min(_first_from(stretch.brackets, start + 1, middle), stop)

    def _strip(self, stretch: Stretch) -> tuple[Strip | None, int]:
        """Return the strip, and the deviation of a rate that changes by p within T: p * T / 8.

        The worst case is a rate that is p / 2 higher in one half of the window and lower in the
        other: a tent of height p * T / 4, which the best line halves.
        """
        length = stretch.brackets[-1].high - stretch.brackets[0].low
        slack = ceil(self.steadiness.wander_ppm * length / (8 * _MILLION))
        pairs = list(zip(stretch.ticks, stretch.brackets, strict=True))
        # A tick's first reading was before the next tick, and after ``low``; the last one was
        # reached before ``high`` ended.
        below = [(first + 1, bracket.low - slack) for (first, _), bracket in pairs]
        above = [(last, bracket.high + 1 + slack) for (_, last), bracket in pairs]
        return solve(below, above, self.slopes), slack


def _first_from(brackets: Sequence[Bracket], start: int, instant: Fraction) -> int:
    """Return the index of the first bracket from ``start`` on that ends after an instant."""
    for number in range(start, len(brackets)):
        if brackets[number].high > instant:
            return number
    return len(brackets)


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
            while len(chain) > 1:
                (x0, y0), (x1, y1) = chain[-2:]
                if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                    break
                chain.pop()  # it is above or on the line through the others
            chain.append((x, y))
        edges = pairwise(chain)
        return cls(tuple(chain), tuple(Fraction(q[1] - p[1], q[0] - p[0]) for p, q in edges))

    def intercept(self, slope: Fraction) -> Fraction:
        """Return the intercept at x = 0 of the highest line with this slope below all points."""
        x, y = self.points[bisect_left(self.slopes, slope)]
        return y - slope * x


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

    def part(self, start: int, stop: int, begins: Break | None = None) -> Stretch:
        """Return brackets ``start`` to ``stop``; ticks keep counting from the first reading."""
        return Stretch(
            self.begins if begins is None else begins,
            self.first + start,
            self.brackets[start:stop],
            self.ticks[start:stop],
        )


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
    fewest = max(-((ticks - max(least, 0)) // domain.modulus), 0)
    candidates = range(fewest, (most - ticks) // domain.modulus + 1)  # numbers of whole wraps
    if not candidates:
        return Break.CONTRADICTION
    return Break.AMBIGUOUS if len(candidates) > 1 else ticks + candidates[0] * domain.modulus


UNSTATED_PPM: Final = 10_000.0
"""Accepted error of a rate whose tolerance the board file does not state: trimmed RC oscillators
keep within 1 %."""

ENOUGH_PPM: Final = 50_000.0
"""Widest bounds of a rate that count as evidence, unless the tolerance is wider than half of it: a
clock that is 5 % off is then always found."""

_PERCENT_PPM: Final = 10_000.0
"""Deviation from which on it is written in percent."""

_CONTRADICTIONS: Final = (Break.CONTRADICTION, Break.NO_LINE)


@dataclass(frozen=True, slots=True)
class RateEvidence:
    """What readings of a clock show of its rate.

    Attributes:
        agrees: Whether the readings agree with the declared rate; None if they do not tell.
        ppm: Smallest and largest deviation from the declared rate that the readings allow, parts
            per million; None if they have no bounds.
        reason: The finding in words.
    """

    agrees: bool | None
    ppm: tuple[float, float] | None
    reason: str


def rate_evidence(
    readings: Sequence[Ping], domain: ClockDomain, *, emulated: bool = False
) -> RateEvidence:
    """Return what readings of a clock show of its declared rate.

    Args:
        readings: Readings of the clock, in order; of a run also its restart, first.
        domain: The clock as declared, with its tolerance.
        emulated: It counts steps of an emulator, which follow no real time.
    """
    if emulated:
        return RateEvidence(
            None, None, "no evidence: it counts steps of a simulator, which follow no real time"
        )
    if domain.hz is None:
        return RateEvidence(None, None, "no evidence: its rate is not declared")
    if len(readings) < 2:
        count = "read once" if readings else "not read"
        return RateEvidence(None, None, f"no evidence: the clock was {count}")
    allowed = UNSTATED_PPM if domain.tolerance_ppm is None else domain.tolerance_ppm
    wander = Fraction(domain.wander_ppm)
    declared = align(readings, domain, Steadiness(Fraction(allowed), wander))
    if any(epoch.stretch.begins in _CONTRADICTIONS for epoch in declared.epochs):
        return _contradicted(readings, domain, declared, wander)
    bounds = _narrowest(declared, wander)
    if bounds is None:
        return RateEvidence(None, None, "no evidence: its readings do not bound its rate")
    count = f"{len(readings)} readings"
    if bounds[1] - bounds[0] > max(ENOUGH_PPM, 2 * allowed):
        text = f"no evidence: {count} only show that it is {deviation(*bounds)} off"
        return RateEvidence(None, bounds, text)
    return RateEvidence(True, bounds, f"it is {deviation(*bounds)} off, from {count}")


def stepped_back(one: Ping, two: Ping, domain: ClockDomain, hz: Fraction) -> bool:
    """Return whether a counter went against its direction between two readings of an epoch.

    It passed half its range or more, which it cannot within the host's time for both readings,
    even at twice the rate ``hz``. After longer times nothing can be said.
    """
    most_s = Fraction(two.host_after_ns - one.host_before_ns, 10**9)
    half = domain.modulus // 2
    return domain.passed(one.ticks, two.ticks) >= half and 2 * most_s * hz < half


def deviation(low: float, high: float) -> str:
    """Return bounds of a deviation, given in ppm, as text."""
    scale, unit = (10_000, "%") if max(abs(low), abs(high)) >= _PERCENT_PPM else (1, "ppm")
    digits = 2 if unit == "%" else 1
    return f"{low / scale:+,.{digits}f} to {high / scale:+,.{digits}f} {unit}"


def allowed_deviation(domain: ClockDomain) -> str:
    """Return the accepted deviation of a rate, and who states it."""
    if domain.tolerance_ppm is None:
        return "1 % is allowed without a declared tolerance"
    return f"the board file allows {domain.tolerance_ppm:g} ppm"


def _contradicted(
    readings: Sequence[Ping], domain: ClockDomain, declared: Alignment, wander: Fraction
) -> RateEvidence:
    if fault := _faulty_step(readings, domain):
        return RateEvidence(False, None, fault)
    allowed = allowed_deviation(domain)
    tolerance = UNSTATED_PPM if domain.tolerance_ppm is None else domain.tolerance_ppm
    for alignment in (
        align(readings, domain, Steadiness(None, wander)),
        _shortest(readings, domain),
    ):
        bounds = _narrowest(alignment, wander)
        if bounds is not None and (bounds[0] > tolerance or bounds[1] < -tolerance):
            text = f"the clock is off by {deviation(*bounds)} against the host's clock; {allowed}"
            return RateEvidence(False, bounds, text)
    breaks = dict.fromkeys(
        epoch.stretch.begins for epoch in declared.epochs if epoch.stretch.begins in _CONTRADICTIONS
    )
    text = f"{len(readings)} readings contradict it: {'; '.join(breaks)}; {allowed}"
    return RateEvidence(False, None, text)


def _faulty_step(readings: Sequence[Ping], domain: ClockDomain) -> str:
    """Return how a counter stood still, stepped back or jumped between two readings, or ""."""
    assert domain.hz is not None
    if len({ping.ticks for ping in readings}) == 1:
        return f"the counter does not move: all {len(readings)} readings are {readings[0].ticks:,}"
    for one, two in pairwise(readings):
        if one.epoch != two.epoch:
            continue
        if stepped_back(one, two, domain, domain.hz):
            return f"the counter stepped back, from {one.ticks:,} to {two.ticks:,}"
    return ""


def _shortest(readings: Sequence[Ping], domain: ClockDomain) -> Alignment:
    """Align the latest readings as if the counter had not wrapped completely between two of them.

    The rate may then be any.
    """
    latest = [ping for ping in readings if ping.epoch == readings[-1].epoch]
    steps = [domain.passed(one.ticks, two.ticks) for one, two in pairwise(latest)]
    pings = [
        replace(ping, ticks=ticks)
        for ping, ticks in zip(latest, accumulate(steps, initial=0), strict=True)
    ]
    endless = ClockDomain(domain.name, None, 64)
    return replace(align(pings, endless), domain=domain)


def _narrowest(alignment: Alignment, wander: Fraction) -> tuple[float, float] | None:
    """Return the narrowest bounds of the deviation that an epoch gives, whatever was declared."""
    solver = _Solver(alignment.reference, Steadiness(None, wander), (Fraction(0), None))
    free = replace(
        alignment, epochs=tuple(solver.epoch(epoch.stretch) for epoch in alignment.epochs)
    )
    found = [free.rate_ppm(number) for number in range(len(free.epochs))]
    return min(
        (bounds for bounds in found if bounds is not None),
        key=lambda bounds: bounds[1] - bounds[0],
        default=None,
    )
