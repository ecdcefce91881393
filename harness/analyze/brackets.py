"""Brackets: readings of a counter between two instants of another clock, and their wraps.

A ping gives a bracket: the device read its counter after the host sent the request and before the
host received the response. A delegate call gives one, too: readings of the delegate's counter lie
between start and end of the call on the CPU's clock.
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
        ticks.append((first, first + passed(domain, bracket.first, bracket.last)))
    if brackets:
        stretches.append(Stretch(begins, start, tuple(brackets[start:]), tuple(ticks)))
    return stretches


def passed(domain: ClockDomain, start: int, end: int) -> int:
    """Return the ticks from one raw reading to another, less than a wrap."""
    return (start - end if domain.down else end - start) % domain.modulus


def _step(before: Bracket, after: Bracket, domain: ClockDomain, rates: Rates | None) -> int | Break:
    """Return the ticks between the first readings of two brackets, or why they are unknown."""
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
    """Return the numbers of whole wraps for which ticks are in ``least`` to ``most``."""
    lowest = max(-((ticks - least) // domain.modulus), 0)
    return range(lowest, (most - ticks) // domain.modulus + 1)
