"""Time that passes only when somebody waits."""

from __future__ import annotations


class VirtualClock:
    """A monotonic clock that tests move. Callable like ``time.monotonic_ns``."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> int:
        return round(self.now * 1e9)

    def wait_until(self, time: float) -> None:
        self.now = max(self.now, time)
