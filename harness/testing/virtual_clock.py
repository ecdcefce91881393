"""VirtualClock: time that passes only when a test says so."""

from __future__ import annotations

_SHORTEST_WAIT = 1e-9
"""Seconds: what the clock can tell apart. Waits of less, left over by rounding, would add up to it
only after millions of them."""


class VirtualClock:
    """A monotonic clock that tests move. Callable like ``time.monotonic_ns``.

    Attributes:
        now: Seconds.

    Examples:
        >>> from harness.testing import VirtualClock
        >>> clock = VirtualClock()
        >>> clock.wait_until(1.5)
        >>> clock()
        1500000000
    """

    def __init__(self) -> None:
        """Start at 0."""
        self.now = 0.0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return round(self.now * 1e9)

    def after(self, timeout: float) -> float:
        """Return when a wait of ``timeout`` seconds that begins now is over."""
        return self.now + max(timeout, _SHORTEST_WAIT)

    def wait_until(self, time: float) -> None:
        """Let time pass until ``time``, seconds."""
        self.now = max(self.now, time)
