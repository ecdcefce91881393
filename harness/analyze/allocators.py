"""Allocator totals: allocated bytes, peaks and failures of each allocator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from harness.records.trace import Kind, Trace


@dataclass(frozen=True, slots=True)
class Allocator:
    """An allocator of a trace.

    Attributes:
        id: Its id, from 1.
        name: As declared, or None for an id that no block declares.
    """

    id: int
    name: str | None

    @property
    def label(self) -> str:
        """Display name."""
        return f"allocator {self.id}" if self.name is None else self.name


@dataclass(frozen=True, slots=True)
class AllocatorTotals:
    """Totals of one allocator over the whole trace.

    Attributes:
        name: As declared, or None for an id that no block declares.
        id: Its id, from 1.
        count: Successful allocations.
        total_bytes: Bytes allocated minus bytes freed.
        peak_bytes: Largest value of this over time.
        largest_bytes: Size of the largest allocation.
        failures: Failed allocations.
        failed_bytes: Bytes requested by failed allocations.
    """

    name: str | None
    id: int
    count: int
    total_bytes: int
    peak_bytes: int
    largest_bytes: int
    failures: int
    failed_bytes: int

    @property
    def label(self) -> str:
        """Display name."""
        return Allocator(self.id, self.name).label


def allocator_rows(trace: Trace) -> dict[Allocator, list[int]]:
    """Return the rows of each allocator's events in log order.

    Allocators are in order of first occurrence, including declared ones without events.
    """
    found: dict[Allocator, list[int]] = {}
    for block in trace.blocks:
        for number, name in enumerate(block.allocators, start=1):
            found.setdefault(Allocator(number, name), [])
        within = slice(block.first, block.first + block.count)
        rows = block.first + np.flatnonzero(trace.kind[within] == Kind.ALLOCATION)
        ids = trace.allocator[rows]
        for number in dict.fromkeys(ids.tolist()):
            declared = 0 < number <= len(block.allocators)
            key = Allocator(number, block.allocators[number - 1] if declared else None)
            found.setdefault(key, []).extend(rows[ids == number].tolist())
    return found


def allocator_totals(trace: Trace) -> list[AllocatorTotals]:
    """Return totals per allocator in order of first occurrence, including unused ones."""
    return [_totals(trace, *item) for item in allocator_rows(trace).items()]


def _totals(trace: Trace, allocator: Allocator, rows: list[int]) -> AllocatorTotals:
    sizes, failed = trace.size[rows], trace.failed[rows]
    done = sizes[~failed]
    taken = done[done >= 0]
    return AllocatorTotals(
        name=allocator.name,
        id=allocator.id,
        count=len(taken),
        total_bytes=sum(done.tolist()),
        peak_bytes=max(accumulate(done.tolist(), initial=0)),
        largest_bytes=int(taken.max(initial=0)),
        failures=int(np.count_nonzero(failed)),
        failed_bytes=sum(sizes[failed].tolist()),
    )
