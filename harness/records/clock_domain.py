"""Clock domains of raw ticks, readings of a device's clock, and hardware counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import msgspec


@dataclass(frozen=True, slots=True)
class ClockDomain:
    """A counter that timestamps events.

    Attributes:
        name: The target's name of it, such as ``systick`` or ``npu``.
        hz: Ticks per second, exact; None if unknown: durations then stay in ticks.
        bits: Width of the counter, 8 to 64.
        down: True for a counter that counts down.
        monotonic: True if no reading is earlier than the one logged before it, so every step is
            forward: from 10 to 9 it is a wrap less a tick. Otherwise a small step back is one, as
            several cores and interrupts cause.
        tolerance_ppm: Largest error of the rate, parts per million; None if it is not declared.
        wander_ppm: Largest change of the rate while a model runs, parts per million.
    """

    name: str
    hz: Fraction | None
    bits: int = 64
    down: bool = False
    monotonic: bool = False
    tolerance_ppm: float | None = None
    wander_ppm: float = 0.0

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 64:
            raise ValueError(f"clock {self.name!r}: width {self.bits} is not within 8 to 64 bits")
        if self.hz is not None and self.hz <= 0:
            raise ValueError(f"clock {self.name!r}: rate {self.hz} Hz is not positive")

    @property
    def rate(self) -> tuple[int, int]:
        """Numerator and denominator of the rate as records have them, 0/1 if it is unknown."""
        return (self.hz or Fraction(0)).as_integer_ratio()

    @property
    def modulus(self) -> int:
        """Ticks after which the counter wraps."""
        return 1 << self.bits

    def passed(self, start: int, end: int) -> int:
        """Return the ticks from one raw reading to another, less than a wrap."""
        return (start - end if self.down else end - start) % self.modulus


HOST_NANOSECONDS = ClockDomain("ns", Fraction(1_000_000_000), 64)
"""The domain of 64-bit timestamps in nanoseconds, ExecuTorch's default."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A reading of the device's clock, bracketed by two readings of the host's clock.

    Attributes:
        host_before_ns: Host's monotonic clock before the request was sent, nanoseconds.
        host_after_ns: Host's monotonic clock after the response arrived, nanoseconds.
        epoch: How often the device's clock has been restarted.
        ticks: Ticks of its clock 0, as wide as the counter.
    """

    host_before_ns: int
    host_after_ns: int
    epoch: int
    ticks: int


CYCLES: Final = "cycles"
"""The counter of the core's cycles."""


@dataclass(frozen=True, slots=True)
class HardwareCounter:
    """A hardware counter that the target read at the start and at the end of events.

    Attributes:
        name: Name, such as ``instret`` or ``load_stall``; unique in a trace.
        bits: Width. The target records end minus start modulo ``2**bits``, so more counts than that
            within one event cannot be told from fewer.
        overhead: Counts of an empty event, so of the tracer in each event; 0 unknown.
        parent_overhead: Counts that an empty event adds to the event around it; 0 unknown.
    """

    name: str
    bits: int = 32
    overhead: int = field(default=0, compare=False)
    parent_overhead: int = field(default=0, compare=False)


class CounterPassesRecord(msgspec.Struct, frozen=True):
    """Several runs that together read more hardware counters than the board counts at once.

    Attributes:
        counters: The counters of each run; times are those of the first one.
        common: What all runs counted: a counter, or ``ticks`` without one.
        event_difference: Largest difference of ``common`` between runs in an event, as a share.
        event_name: The name of this event.
        execution_difference: Largest such difference in an execution.
        unmatched_events: Events without counts, because not every run has them.
    """

    counters: tuple[tuple[str, ...], ...]
    common: str
    event_difference: float
    event_name: str
    execution_difference: float
    unmatched_events: int
