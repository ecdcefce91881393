"""Alignment: where ticks of one clock lie on another, between bounds that hold.

The other clock is the host's, in nanoseconds, when pings say what it read around readings of the
device's; or the CPU's, in ticks, for a delegate's clock. As long as the rate of one against the
other is steady, a straight line maps them, and every bracket is a gap that the line passes through.
Every line that does is possible (``harness.analyze.strip``), so at any tick the lowest and the
highest of them are bounds, and the middle between them has the smallest worst error. Nothing is
assumed about where in a bracket a reading was taken: an asymmetric link makes bounds wide, never
wrong.

Where no line fits, the counter was reset, slept or changed its rate: there an epoch ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from harness.analyze.brackets import Bracket, Break, Stretch, follow, of_pings, usual_rates
from harness.analyze.strip import Ints, Strip, UnboundedError, solve
from harness.records.clock_domain import HOST_NANOSECONDS, ClockDomain, Ping

_MILLION = 1_000_000
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How steady a clock's rate is.

    Attributes:
        tolerance_ppm: How far the rate may be off the declared one, parts per million; None when
            nothing is known or it is not to be relied on. It narrows the strip.
        wander_ppm: By how much the rate may change within any window: the largest rate in it is at
            most so much above the smallest.
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
            raise ValueError(f"a window of {float(self.window_s):g} s is none")


PERFECTLY = Steadiness()
"""A rate that never changes, whatever it is."""


@dataclass(frozen=True, slots=True)
class Instants:
    """When readings of a clock were taken, on another clock: shape (n,) each, int64.

    Attributes:
        low: Not before this.
        mid: In the middle between both, so at most half their distance off.
        high: Not after this.
        known: False where nothing bounds them; there the others mean nothing.
    """

    low: Ints
    mid: Ints
    high: Ints
    known: npt.NDArray[np.bool_]

    @classmethod
    def between(cls, low: Ints, high: Ints) -> Instants:
        """Instants within these bounds; a bound at the end of the range is none."""
        known = (low > _EARLIEST) & (high < _LATEST) & (low <= high)
        mid = np.where(known, low, 0) + (np.where(known, high, 0) - np.where(known, low, 0)) // 2
        return cls(low, mid, high, known)

    @property
    def half_width(self) -> int | None:
        """How far ``mid`` may be off at most where it is known, rounded up; None if nowhere."""
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
        wander: By which part of the time that passes it may be off beyond ``first`` and ``last``.
    """

    first: int
    last: int
    strip: Strip
    slack: int
    wander: Fraction

    def bounds(self, ticks: Ints) -> tuple[Ints, Ints]:
        """Bounds of when each tick was read, which the counter then said until the next one."""
        outside = np.maximum(np.maximum(self.first - ticks, ticks - self.last), 0)
        reach = outside.astype(np.float64) * float(self.strip.slopes[1] * self.wander)
        extra = self.slack + np.ceil(reach * (1 + 2.0**-40)).astype(np.int64)
        return self.strip.lows(ticks) - extra, self.strip.highs(ticks + 1) + extra


@dataclass(frozen=True, slots=True)
class Epoch:
    """Readings that one steady rate explains.

    Attributes:
        stretch: The brackets, and their readings unwrapped.
        pieces: Strips over windows of them, in order; none when nothing is known.
        unbounded: Why there are none, else "".
    """

    stretch: Stretch
    pieces: tuple[LinePiece, ...]
    unbounded: str = ""

    @property
    def device_epoch(self) -> int | None:
        """How often the device says its clock had been restarted before; None if it does not."""
        return self.stretch.brackets[0].epoch

    @property
    def slopes(self) -> tuple[Fraction, Fraction] | None:
        """Least and largest length of a tick in units of the other clock; None when unknown."""
        if not self.pieces:
            return None
        slopes = [piece.strip.slopes for piece in self.pieces]
        return min(low for low, _ in slopes), max(high for _, high in slopes)

    @property
    def momentary_slopes(self) -> tuple[Fraction, Fraction] | None:
        """The same at any moment, rather than of a line through all of an epoch."""
        slopes = self.slopes
        if slopes is None:
            return None
        wander = self.pieces[0].wander
        return slopes[0] * (1 - wander), slopes[1] * (1 + wander)

    def instants(self, ticks: Ints) -> Instants:
        """When readings were taken, given as unwrapped ticks of this epoch, shape (n,)."""
        low, high = np.full(ticks.shape, _EARLIEST), np.full(ticks.shape, _LATEST)
        covered = np.zeros(ticks.shape, np.bool_)

        def narrow(piece: LinePiece, chosen: npt.NDArray[np.bool_]) -> None:
            lows, highs = piece.bounds(ticks[chosen])
            low[chosen] = np.maximum(low[chosen], lows)
            high[chosen] = np.minimum(high[chosen], highs)

        for piece in self.pieces:
            inside = (ticks >= piece.first) & (ticks <= piece.last)
            covered |= inside
            narrow(piece, inside)
        for piece, neighbours in self._beyond(ticks):
            narrow(piece, neighbours & ~covered)
        return Instants.between(low, high)

    def _beyond(self, ticks: Ints) -> Iterator[tuple[LinePiece, npt.NDArray[np.bool_]]]:
        """The ticks outside each piece to which no other piece is nearer on the same side."""
        for number, piece in enumerate(self.pieces):
            earlier = self.pieces[number - 1].last if number else _EARLIEST
            later = self.pieces[number + 1].first if number + 1 < len(self.pieces) else _LATEST
            yield piece, (ticks > earlier) & (ticks < later)


@dataclass(frozen=True, slots=True)
class Alignment:
    """One clock on another.

    Attributes:
        domain: The clock whose ticks are placed.
        reference: The clock they are placed on, which counts nanoseconds for the host's.
        epochs: In order of time.
    """

    domain: ClockDomain
    reference: ClockDomain
    epochs: tuple[Epoch, ...]

    def instants(self, ticks: Ints, epoch: int = -1) -> Instants:
        """Place readings, given as unwrapped ticks of an epoch (the last one), on the reference.

        Without any epoch nothing is known.
        """
        if not self.epochs:
            return Instants.between(np.full(ticks.shape, _EARLIEST), np.full(ticks.shape, _LATEST))
        return self.epochs[epoch].instants(ticks)

    def lasting(self, ticks: Ints, epoch: int = -1) -> Instants:
        """How long durations of so many ticks lasted: only the rate counts, no offset.

        A duration is the difference of two readings, so the truth is within one tick of it.
        """
        rates = self.epochs[epoch].momentary_slopes if self.epochs else None
        if rates is None:
            return Instants.between(np.full(ticks.shape, _EARLIEST), np.full(ticks.shape, _LATEST))
        shortest = np.maximum(ticks - 1, 0).astype(np.float64) * float(rates[0])
        longest = (ticks + 1).astype(np.float64) * float(rates[1])
        return Instants.between(
            np.floor(shortest * (1 - 2.0**-50)).astype(np.int64),
            np.ceil(longest * (1 + 2.0**-50)).astype(np.int64),
        )

    def rate_ppm(self, epoch: int = -1) -> tuple[float, float] | None:
        """How far the rate is off the declared one at least and at most, parts per million.

        None when either is unknown. Positive: the clock is fast.
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
    """Place a device's clock 0 on the host's clock.

    Args:
        pings: In the order in which they were sent.
        domain: The device's clock 0.
        steadiness: What is known of its rate.
    """
    return align_brackets(of_pings(pings), domain, HOST_NANOSECONDS, steadiness)


def align_brackets(
    brackets: Sequence[Bracket],
    domain: ClockDomain,
    reference: ClockDomain,
    steadiness: Steadiness = PERFECTLY,
) -> Alignment:
    """Place one clock on another by brackets, which are in order of time."""
    believed = tight = None
    if reference.hz is not None:
        believed = usual_rates(domain, steadiness.tolerance_ppm, reference.hz)
        if believed is not None and steadiness.tolerance_ppm is not None:
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
    """Strips of stretches, given what is known of the rate."""

    reference: ClockDomain
    steadiness: Steadiness
    slopes: tuple[Fraction, Fraction | None]

    def longest(self, stretch: Stretch) -> int:
        """How many of its brackets, from the first on, one epoch explains: one at least.

        Brackets that contradict each other do so with more of them, too, so the place where that
        begins is found by halving.
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
            return all(self._strip(part) is not None for part in self._windows(stretch))
        except UnboundedError:
            return True

    def epoch(self, stretch: Stretch) -> Epoch:
        """Solve all windows of a stretch that fits."""
        pieces, unbounded = [], ""
        for part in self._windows(stretch):
            try:
                piece = self._piece(part)
            except UnboundedError as error:
                unbounded = str(error)
            else:
                pieces.append(piece)
        return Epoch(stretch, tuple(pieces), "" if pieces else unbounded)

    def _windows(self, stretch: Stretch) -> Iterator[Stretch]:
        """Parts as long as a window, each overlapping the one before by half; or all of it."""
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

    def _slack(self, stretch: Stretch) -> int:
        """A rate that changes by a part p of itself within T leaves some line within p * T / 8.

        The worst is half of the change up for one half of the time and down for the other: a tent
        of height p * T / 4, which a line halves.
        """
        length = stretch.brackets[-1].high - stretch.brackets[0].low
        return ceil(self.steadiness.wander_ppm * length / (8 * _MILLION))

    def _strip(self, stretch: Stretch) -> Strip | None:
        slack = self._slack(stretch)
        return solve(stretch.below(slack), stretch.above(slack), self.slopes)

    def _piece(self, stretch: Stretch) -> LinePiece:
        strip = self._strip(stretch)
        if strip is None:  # a single bracket whose end is before its beginning
            raise UnboundedError("the reading contradicts itself")
        # Beyond the window the rate may differ by the wander from its mean within, and that mean
        # by 2 * slack / T from the slope of the line that the slack allows for.
        wander = self.steadiness.wander_ppm * Fraction(5, 4) / _MILLION
        last = stretch.ticks[-1][1]
        return LinePiece(stretch.ticks[0][0], last, strip, self._slack(stretch), wander)


def _first_from(brackets: Sequence[Bracket], start: int, instant: Fraction) -> int:
    """Number of the first bracket, from ``start`` on, that ends after an instant."""
    for number in range(start, len(brackets)):
        if brackets[number].high > instant:
            return number
    return len(brackets)
