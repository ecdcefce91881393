"""Shared parts of uploads and downloads: missing byte ranges, timeouts, and log chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.errors import LinkError
from harness.link.exchange import Exchange

_QUIET_SHARE: Final = 1 / 8
"""A silent transfer probes the line after this share of the timeout."""

_QUIET_GAPS: Final = 3
"""But not before this many times the longest gap seen: frames take long on a slow line."""


class MissingRanges:
    """The missing bytes of a region: disjoint half-open ranges in ascending order.

    Attributes:
        count: Number of missing bytes.
    """

    def __init__(self, size: int) -> None:
        self._ranges = [(0, size)] if size else []
        self.count = size

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def first(self) -> tuple[int, int]:
        """Return the first range as (start, end)."""
        return self._ranges[0]

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the missing ranges between ``start`` and ``end``, in ascending order."""
        return [
            (max(low, start), min(high, end))
            for low, high in self._ranges
            if low < end and start < high
        ]

    def remove(self, start: int, end: int) -> int:
        """Remove ``start`` to ``end``; return how many of these bytes were missing."""
        left = []
        for low, high in self._ranges:
            if high <= start or end <= low:
                left.append((low, high))
                continue
            if low < start:
                left.append((low, start))
            if end < high:
                left.append((end, high))
        before, self.count = self.count, sum(high - low for low, high in left)
        self._ranges = left
        return before - self.count


class Timeouts:
    """The timeouts of one transfer. The first timeout sends a probe, the second is a stall."""

    def __init__(
        self, exchange: Exchange, give_up: Callable[[int], LinkError], gap_s: float = 0.0
    ) -> None:
        """Start the first timeout.

        Args:
            exchange: The link.
            give_up: Returns the error to raise, given the number of attempts.
            gap_s: How long a frame took before, seconds; 0 if that is not known.
        """
        self._exchange = exchange
        self._give_up = give_up
        self._progressed_at = exchange.now()
        self._longest_gap = gap_s
        self._probed = False
        self._stalls = 0
        self._losses = 0

    def next_at(self) -> float:
        """Return the time of the next timeout."""
        deadline = self._exchange.deadline_s
        if self._probed:
            return self._progressed_at + deadline
        quiet = max(deadline * _QUIET_SHARE, self._longest_gap * _QUIET_GAPS)
        return self._progressed_at + min(deadline, quiet)

    def progressed(self) -> None:
        """Restart the timeout after new bytes arrived."""
        now = self._exchange.now()
        self._longest_gap = max(self._longest_gap, now - self._progressed_at)
        self._progressed_at = now
        self._stalls = self._losses = 0
        self._probed = False

    def timed_out(self) -> bool:
        """Handle a timeout at `next_at`: first a probe is due, after that it is a stall.

        Returns:
            Whether it is a stall.

        Raises:
            LinkError: Too many stalls.
            TargetError: The target is dead.
        """
        stalled = self._probed
        self._probed = not stalled
        if stalled:
            self._progressed_at = self._exchange.now()
            self._stalls += 1
            if self._stalls > self._exchange.retries:
                raise self._give_up(self._stalls)
            self._exchange.check_alive()
            self._exchange.fall_back()
        return stalled

    def count_loss(self, limit: int) -> None:
        """Count a loss; the limit is ``limit`` per allowed retry without new bytes.

        Raises:
            LinkError: Too many losses.
        """
        self._losses += 1
        if self._losses > limit * (self._exchange.retries + 1):
            raise self._give_up(self._losses)
