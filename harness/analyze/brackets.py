"""Brackets: readings of a counter between two instants of another clock, and their wraps.

A ping is one: the device's counter was read after the host had sent and before it had received. So
is a call of a delegate on the CPU's clock, around what the delegate's own counter said in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor

from harness.analyze.strip import Point
from harness.analyze.unwrap import does_wrap
from harness.records.clock_domain import ClockDomain, Ping

Rates = tuple[Fraction, Fraction]
"""The least and the most ticks that pass per unit of the other clock."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """The counter read ``first`` and, less than one wrap later, ``last``; both within the bracket.

    All four are readings, which stay the same until the next tick.

    Attributes:
        low: The other clock's reading before ``first`` was read.
        high: The other clock's reading after ``last`` was read.
        first: Raw reading of the counter.
        last: Raw reading of the counter.
        epoch: How often the device says the counter was restarted; None when it does not say.
    """

    low: int
    high: int
    first: int
    last: int
    epoch: int | None = None


def of_pings(pings: Iterable[Ping]) -> list[Bracket]:
    """Brackets on the host's nanoseconds."""
    return [
        Bracket(ping.host_before_ns, ping.host_after_ns, ping.ticks, ping.ticks, ping.epoch)
        for ping in pings
    ]


class Break(StrEnum):
    """Why a stretch of readings begins where it does, and does not go on from the one before."""

    FIRST = "first reading"
    RESTARTED = "the device restarted its clock"
    CONTRADICTION = "no number of wraps fits the time that passed: reset, sleep or another rate"
    AMBIGUOUS = "several numbers of wraps fit the time that passed: state the rate's tolerance"
    NO_LINE = "no steady rate fits: reset, sleep or another rate"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Brackets whose readings are on one unwrapped timeline.

    Attributes:
        begins: Why it begins.
        first: Number of its first bracket.
        brackets: Them.
        ticks: First and last reading of each, unwrapped: ticks since the very first of them.
    """

    begins: Break
    first: int
    brackets: tuple[Bracket, ...]
    ticks: tuple[tuple[int, int], ...]

    def below(self, slack: int = 0) -> list[Point]:
        """Points that the line from ticks to the other clock passes above.

        ``first`` was read before the next tick, and after ``low``.
        """
        pairs = zip(self.ticks, self.brackets, strict=True)
        return [(first + 1, bracket.low - slack) for (first, _), bracket in pairs]

    def above(self, slack: int = 0) -> list[Point]:
        """Points that the line passes below: ``last`` had been reached before ``high`` was over."""
        pairs = zip(self.ticks, self.brackets, strict=True)
        return [(last, bracket.high + 1 + slack) for (_, last), bracket in pairs]

    def part(self, start: int, stop: int, begins: Break | None = None) -> Stretch:
        """Brackets ``start`` to ``stop`` of it; ticks still count from its first reading."""
        return Stretch(
            self.begins if begins is None else begins,
            self.first + start,
            self.brackets[start:stop],
            self.ticks[start:stop],
        )


def usual_rates(
    domain: ClockDomain, tolerance_ppm: Fraction | None, per_second: Fraction
) -> Rates | None:
    """The rates between which a counter is believed to run; None when nobody knows its rate.

    Args:
        domain: The counter.
        tolerance_ppm: How far its declared rate may be off. When that is unknown it is believed to
            run at most twice as fast as declared, or to stop: then readings settle the number of
            wraps when they are less than about half a wrap apart.
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
    """Put the readings of consecutive brackets on timelines, as long as these can be followed.

    Between two brackets the counter has passed some ticks, known modulo its range, while on the
    other clock there passed a time known within both brackets. Where one number of whole wraps fits
    the rates, the timeline goes on; where none does or several do, a new one begins.
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
        ticks.append((first, first + passed(domain, bracket.first, bracket.last)))
    if brackets:
        stretches.append(Stretch(begins, start, tuple(brackets[start:]), tuple(ticks)))
    return stretches


def passed(domain: ClockDomain, start: int, end: int) -> int:
    """Ticks from one raw reading to another, less than a wrap."""
    return (start - end if domain.down else end - start) % domain.modulus


def _step(before: Bracket, after: Bracket, domain: ClockDomain, rates: Rates | None) -> int | Break:
    """Ticks from the first reading of one bracket to that of the next."""
    if before.epoch != after.epoch:
        return Break.RESTARTED
    ticks = passed(domain, before.first, after.first)
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
    """Numbers of whole wraps that bring these ticks between ``least`` and ``most``."""
    lowest = max(-((ticks - least) // domain.modulus), 0)
    return range(lowest, (most - ticks) // domain.modulus + 1)
