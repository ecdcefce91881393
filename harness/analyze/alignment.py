"""Alignment: maps ticks of one clock to another, with guaranteed bounds.

The reference is the host's clock in nanoseconds, with pings around readings of the device's clock,
or the CPU's clock in ticks for a delegate's clock. With a steady rate, a straight line maps one
clock to the other, and passes through every bracket. All such lines are possible
(``harness.analyze.brackets``), so the lowest and the highest of them are bounds at any tick, and
their middle has the smallest worst-case error. The position of a reading in its bracket is not
assumed: an asymmetric link makes bounds wide, never wrong.

If no line fits, the counter was reset, slept or changed its rate, and the epoch ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from harness.analyze.brackets import (
    Bracket,
    Break,
    Ints,
    Stretch,
    Strip,
    UnboundedError,
    follow,
    of_pings,
    solve,
    usual_rates,
)
from harness.records.clock_domain import HOST_NANOSECONDS, ClockDomain, Ping

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

    @property
    def momentary_slopes(self) -> tuple[Fraction, Fraction] | None:
        """``slopes`` widened by the wander: at any moment, not averaged over the epoch."""
        slopes = self.slopes
        if slopes is None:
            return None
        wander = self.pieces[0].wander
        return slopes[0] * (1 - wander), slopes[1] * (1 + wander)

    def instants(self, ticks: Ints) -> Instants:
        """Return the instants of readings, given as unwrapped ticks of this epoch, shape (n,)."""
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
        """Yield each piece with True for ticks between its neighboring pieces."""
        for number, piece in enumerate(self.pieces):
            earlier = self.pieces[number - 1].last if number else _EARLIEST
            later = self.pieces[number + 1].first if number + 1 < len(self.pieces) else _LATEST
            yield piece, (ticks > earlier) & (ticks < later)


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

    def lasting(self, ticks: Ints, epoch: int = -1) -> Instants:
        """Return the length of durations in ticks on the reference; depends on the rate only.

        A duration is the difference of two readings, so its error is less than one tick.
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
    return align_brackets(of_pings(pings), domain, HOST_NANOSECONDS, steadiness)


def align_brackets(
    brackets: Sequence[Bracket],
    domain: ClockDomain,
    reference: ClockDomain,
    steadiness: Steadiness = PERFECTLY,
) -> Alignment:
    """Align one clock with another by brackets in order of time."""
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

    def _slack(self, stretch: Stretch) -> int:
        """Return the deviation from the best line for a rate that changes by p within T: p * T / 8.

        The worst case is a rate that is p / 2 higher in one half of the window and lower in the
        other: a tent of height p * T / 4, which the best line halves.
        """
        length = stretch.brackets[-1].high - stretch.brackets[0].low
        return ceil(self.steadiness.wander_ppm * length / (8 * _MILLION))

    def _strip(self, stretch: Stretch) -> Strip | None:
        slack = self._slack(stretch)
        return solve(stretch.below(slack), stretch.above(slack), self.slopes)

    def _piece(self, stretch: Stretch) -> LinePiece:
        strip = self._strip(stretch)
        if strip is None:  # a single bracket that ends before it starts
            raise UnboundedError("the reading contradicts itself")
        # Outside the window the rate differs from its mean inside by at most the wander, and the
        # mean from the slope of the line by at most 2 * slack / T.
        wander = self.steadiness.wander_ppm * Fraction(5, 4) / _MILLION
        last = stretch.ticks[-1][1]
        return LinePiece(stretch.ticks[0][0], last, strip, self._slack(stretch), wander)


def _first_from(brackets: Sequence[Bracket], start: int, instant: Fraction) -> int:
    """Return the index of the first bracket from ``start`` on that ends after an instant."""
    for number in range(start, len(brackets)):
        if brackets[number].high > instant:
            return number
    return len(brackets)
