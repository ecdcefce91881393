"""Clock domains of raw ticks, and readings of a device's clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


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
    """

    name: str
    hz: Fraction | None
    bits: int = 64
    down: bool = False
    monotonic: bool = False

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 64:
            raise ValueError(f"clock {self.name!r}: width {self.bits} is not within 8 to 64 bits")
        if self.hz is not None and self.hz <= 0:
            raise ValueError(f"clock {self.name!r}: rate {self.hz} Hz is not positive")

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
