"""A device's clock beside the host's, both known: what an alignment is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from harness import ClockDomain, Ping

Rate = tuple[Fraction, Fraction]
"""From an instant on, so many ticks per nanosecond."""


@dataclass
class TrueClock:
    """A counter whose rate is known at every instant, and with it every tick's instant.

    Attributes:
        domain: What is said of it.
        rates: (instant, ticks per nanosecond) from which on it runs so; ascending.
        phase: Ticks at the first of these instants, with their fraction.
        resets: Instants at which it begins again at zero, ascending.
    """

    domain: ClockDomain
    rates: list[Rate]
    phase: Fraction = Fraction(0)
    resets: list[Fraction] = field(default_factory=list)

    def ticks(self, instant: Fraction) -> Fraction:
        """Ticks that have passed, with their fraction: since zero, or since the last reset."""
        origin = max((reset for reset in self.resets if reset <= instant), default=None)
        begun = self._since_start(instant)
        return begun + self.phase if origin is None else begun - self._since_start(origin)

    def _since_start(self, instant: Fraction) -> Fraction:
        total = Fraction(0)
        ends = [*(begin for begin, _ in self.rates[1:]), None]
        for (begin, rate), end in zip(self.rates, ends, strict=True):
            until = instant if end is None else min(instant, end)
            total += max(until - begin, Fraction(0)) * rate
        return total

    def instant(self, ticks: Fraction) -> Fraction:
        """When, without resets, so many ticks had passed."""
        left = ticks - self.phase
        for (begin, rate), behind in zip(self.rates, [*self.rates[1:], None], strict=True):
            passing = None if behind is None else (behind[0] - begin) * rate
            if passing is None or left < passing:
                return begin + left / rate
            left -= passing
        raise AssertionError("the last rate has no end")

    def reading(self, ticks: int) -> int:
        """What the counter says after so many whole ticks."""
        return (-ticks if self.domain.down else ticks) % self.domain.modulus

    def ping(self, before: Fraction, read: Fraction, after: Fraction, epoch: int = 0) -> Ping:
        """Read it at an instant between two others of the host, whose readings are floors, too."""
        assert before <= read <= after
        ticks = self.reading(floor(self.ticks(read)))
        return Ping(floor(before), floor(after), epoch, ticks)
