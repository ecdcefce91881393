"""Allocator totals: how much was asked of each allocator, and what it refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.trace import Kind, Trace


@dataclass(frozen=True, slots=True)
class AllocatorTotals:
    """What one allocator did over the whole trace.

    Attributes:
        name: As declared, or None for an id that no block declares.
        id: Its id, from 1.
        count: Allocations that succeeded.
        total_bytes: Bytes they asked for, minus bytes given back.
        largest_bytes: The largest single one.
        failures: Allocations it refused.
        failed_bytes: Bytes these asked for.
    """

    name: str | None
    id: int
    count: int
    total_bytes: int
    largest_bytes: int
    failures: int
    failed_bytes: int

    @property
    def label(self) -> str:
        """A name to show."""
        return f"allocator {self.id}" if self.name is None else self.name


def allocator_totals(trace: Trace) -> list[AllocatorTotals]:
    """Totals per allocator, declared ones without any allocation included, in first-seen order."""
    pieces: dict[tuple[int, str | None], list[int]] = {}
    for block in trace.blocks:
        for number, name in enumerate(block.allocators, start=1):
            pieces.setdefault((number, name), [])
        within = slice(block.first, block.first + block.count)
        rows = block.first + np.flatnonzero(trace.kind[within] == Kind.ALLOCATION)
        ids = trace.allocator[rows]
        for number in dict.fromkeys(ids.tolist()):
            declared = 0 < number <= len(block.allocators)
            key = (number, block.allocators[number - 1] if declared else None)
            pieces.setdefault(key, []).extend(rows[ids == number].tolist())
    return [_totals(trace, name, number, rows) for (number, name), rows in pieces.items()]


def _totals(trace: Trace, name: str | None, number: int, rows: list[int]) -> AllocatorTotals:
    sizes, failed = trace.size[rows], trace.failed[rows]
    done = sizes[~failed]
    taken = done[done >= 0]
    return AllocatorTotals(
        name=name,
        id=number,
        count=len(taken),
        total_bytes=sum(done.tolist()),
        largest_bytes=int(taken.max(initial=0)),
        failures=int(np.count_nonzero(failed)),
        failed_bytes=sum(sizes[failed].tolist()),
    )
