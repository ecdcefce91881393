"""What a tick is: the clock domain an event's raw ticks are counted in, and readings of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class ClockDomain:
    """A counter that stamps events.

    Attributes:
        name: What the target calls it, such as ``systick`` or ``npu``.
        hz: Ticks per second, exact. None when nobody knows: durations then stay in ticks.
        bits: Width of the counter, 8 to 64.
        down: True for a counter that counts down.
    """

    name: str
    hz: Fraction | None
    bits: int = 64
    down: bool = False

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 64:
            raise ValueError(f"clock {self.name!r}: width {self.bits} is not within 8 to 64 bits")
        if self.hz is not None and self.hz <= 0:
            raise ValueError(f"clock {self.name!r}: rate {self.hz} Hz is not positive")

    @property
    def modulus(self) -> int:
        """Ticks after which the counter reads the same again."""
        return 1 << self.bits


HOST_NANOSECONDS = ClockDomain("ns", Fraction(1_000_000_000), 64)
"""The domain of events stamped in nanoseconds by a 64-bit clock, ExecuTorch's default."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A device's clock between two readings of the host's.

    Attributes:
        host_before_ns: Host's monotonic clock before the request was sent, nanoseconds.
        host_after_ns: The same after the answer had come.
        epoch: How often the device's clock has been restarted.
        ticks: Ticks of its clock 0, as wide as the counter.
    """

    host_before_ns: int
    host_after_ns: int
    epoch: int
    ticks: int
