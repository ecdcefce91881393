"""What uploads and downloads share: missing bytes, timeouts, and log chunks put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.errors import LinkError
from harness.link.answers import LogPart
from harness.link.exchange import Exchange


class MissingRanges:
    """Disjoint half-open byte ranges in ascending order.

    Attributes:
        count: Bytes that are missing.
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
        """Return what is missing between ``start`` and ``end``, in ascending order."""
        return [
            (max(low, start), min(high, end))
            for low, high in self._ranges
            if low < end and start < high
        ]

    def remove(self, start: int, end: int) -> int:
        """Take ``start`` to ``end`` out; return how many bytes of it had been missing."""
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


_QUIET_SHARE: Final = 1 / 8
"""A transfer looks whether the line still carries after this share of the deadline."""


_QUIET_GAPS: Final = 3
"""But not before so many times the longest gap it has seen: on a slow line frames take long."""


class Timeouts:
    """The waits of one transfer. Silence is first answered with a probe, then it is a stall."""

    def __init__(self, exchange: Exchange, give_up: Callable[[int], LinkError]) -> None:
        """Begin waiting.

        Args:
            exchange: The link.
            give_up: Makes the error to raise, given how often the transfer has been tried.
        """
        self._exchange = exchange
        self._give_up = give_up
        self._moved_at = exchange.now()
        self._longest_gap = 0.0
        self._probed = False
        self._stalls = 0
        self._fruitless = 0

    def until(self) -> float:
        """When silence calls for the next step."""
        deadline = self._exchange.deadline_s
        if self._probed:
            return self._moved_at + deadline
        quiet = max(deadline * _QUIET_SHARE, self._longest_gap * _QUIET_GAPS)
        return self._moved_at + min(deadline, quiet)

    def moved(self) -> None:
        """New bytes have arrived."""
        now = self._exchange.now()
        self._longest_gap = max(self._longest_gap, now - self._moved_at)
        self._moved_at = now
        self._stalls = self._fruitless = 0
        self._probed = False

    def silent(self) -> bool:
        """Nothing has arrived by `until`: time to probe, and when that did not help, a stall.

        Returns:
            Whether it is a stall.

        Raises:
            LinkError: One too many.
            TargetError: The target is dead.
        """
        stalled = self._probed
        self._probed = not stalled
        if stalled:
            self._moved_at = self._exchange.now()
            self._stalls += 1
            if self._stalls > self._exchange.retries:
                raise self._give_up(self._stalls)
            self._exchange.check_alive()
            self._exchange.fall_back()
        return stalled

    def fruitless(self, limit: int) -> None:
        """Something was lost again; ``limit`` times per retry without new bytes is too often.

        Raises:
            LinkError: It is.
        """
        self._fruitless += 1
        if self._fruitless > limit * (self._exchange.retries + 1):
            raise self._give_up(self._fruitless)


class LogChunks:
    """Chunks as their parts arrive. The device sends each part once; what is lost stays lost."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[bytearray, MissingRanges]] = {}

    def add(self, part: LogPart) -> None:
        """Take a part."""
        image, missing = self._images.setdefault(
            part.chunk, (bytearray(part.size), MissingRanges(part.size))
        )
        end = part.offset + len(part.data)
        if end <= len(image):
            image[part.offset : end] = part.data
            missing.remove(part.offset, end)

    def whole(self) -> tuple[bytes, ...]:
        """Return the images that arrived whole, in order."""
        return tuple(bytes(self._images[n][0]) for n in sorted(self._images) if self._is_whole(n))

    def broken(self) -> int:
        """Return of how many chunks some parts arrived and others did not."""
        return sum(not self._is_whole(number) for number in self._images)

    def _is_whole(self, number: int) -> bool:
        return not self._images[number][1]
