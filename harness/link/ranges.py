"""Which bytes of a region have not arrived."""

from __future__ import annotations


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
