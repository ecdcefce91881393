"""Rates of counters as people write them: ``100 MHz, 24 bits``, ``3/8``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from harness.errors import UsageError
from harness.timebase import ClockDomain

_UNITS: Final = {"hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
_NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?"
_TEXT: Final = re.compile(
    rf"\s*({_NUMBER}(?:\s*/\s*{_NUMBER})?)\s*(hz|khz|mhz|ghz)?"
    r"((?:\s*,\s*(?:[0-9]+ bits?|down|up))*)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rate:
    """How a counter counts, as far as it differs from what the log says.

    Attributes:
        value: Ticks per second, or how many times the rate of the clock that the log names.
        relative: Whether it is the latter.
        bits: Width of the counter; None for that of the clock that the log names.
        down: Whether it counts down; None for the direction of that clock.
    """

    value: Fraction
    relative: bool = False
    bits: int | None = None
    down: bool | None = None

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError(f"a rate of {self.value} is not positive")
        if self.bits is not None and not 8 <= self.bits <= 64:
            raise ValueError(f"a width of {self.bits} bits is not within 8 to 64")

    def of(self, domain: ClockDomain, name: str) -> ClockDomain:
        """The clock of events that the log has on ``domain``.

        Raises:
            UsageError: The rate is relative to one that nobody knows.
        """
        if self.relative and domain.hz is None:
            raise UsageError(
                f"{self.value} times the rate of clock {domain.name!r} is not known, as that rate "
                "is not",
                hint="state the rate in Hz, kHz, MHz or GHz",
            )
        return ClockDomain(
            name,
            self.value * domain.hz if self.relative and domain.hz is not None else self.value,
            domain.bits if self.bits is None else self.bits,
            domain.down if self.down is None else self.down,
        )


def parse_rate(text: str) -> Rate:
    """Read a rate: a number with a unit (Hz, kHz, MHz, GHz), or a bare number for a multiple.

    A number is a decimal or a fraction. Behind it, apart by commas, may follow the width of the
    counter (``24 bits``) and its direction (``down``, ``up``).

    Example:
        >>> parse_rate("100 MHz, 24 bits").value
        Fraction(100000000, 1)
        >>> parse_rate("3/8").relative
        True

    Raises:
        UsageError: It is no rate.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no rate",
            hint="write it as '100 MHz', '48e6/1001 Hz, 24 bits, down', or '3/8' for a multiple of "
            "the rate that the log says",
        )
    number, unit, options = match.groups()
    try:
        parts = [Fraction(part.strip()) for part in number.split("/")]
        value = parts[0] / parts[1] if len(parts) > 1 else parts[0]
        bits = re.search(r"([0-9]+) bit", options)
        direction = re.search(r"down|up", options.lower())
        return Rate(
            value * _UNITS[unit.lower()] if unit else value,
            relative=unit is None,
            bits=int(bits[1]) if bits else None,
            down=direction[0] == "down" if direction else None,
        )
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no rate: {error}") from error
