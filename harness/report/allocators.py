"""Allocators of a trace as every report shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.analyze.allocators import AllocatorTotals
from harness.analyze.memory import AllocatorMemory, Memory
from harness.formatting import printable
from harness.report.text import percent


@dataclass(frozen=True, slots=True)
class AllocatorRow:
    """An allocator; sizes are in bytes.

    Attributes:
        totals: Exact values.
        memory: What it held over time; None without a call tree.
        name: Its name, or its number.
        count: Allocations that succeeded.
        held: What it held at the end.
        peak: The most it held at any time.
        largest: The largest allocation.
        failures: Allocations it refused.
        refused: Bytes of these.
        capacity: What it has; a dash where unknown, as below.
        used: The peak as a share of the capacity.
        reach: Where the last byte ended that was ever live.
        fragmentation: Of the free bytes between live ones at the peak.
        changes: Allocations, frees and failures.
    """

    totals: AllocatorTotals
    memory: AllocatorMemory | None
    name: str
    count: str
    held: str
    peak: str
    largest: str
    failures: str
    refused: str
    capacity: str
    used: str
    reach: str
    fragmentation: str
    changes: str


def describe_allocators(
    totals: Iterable[AllocatorTotals], memory: Memory | None = None
) -> tuple[AllocatorRow, ...]:
    """Describe allocators, the one with the highest peak first."""
    over_time = {} if memory is None else {item.allocator.id: item for item in memory.allocators}
    rows = [_row(item, over_time.get(item.id)) for item in totals]
    return tuple(sorted(rows, key=_peak, reverse=True))


def _peak(row: AllocatorRow) -> int:
    return row.totals.peak_bytes if row.memory is None else row.memory.peak


def _row(totals: AllocatorTotals, memory: AllocatorMemory | None) -> AllocatorRow:
    capacity = memory.planned if memory is not None else None
    peak = memory.peak if memory is not None else totals.peak_bytes
    return AllocatorRow(
        totals=totals,
        memory=memory,
        name=printable(totals.label),
        count=f"{totals.count:,}",
        held=f"{totals.total_bytes:,}",
        peak=f"{peak:,}",
        largest=f"{totals.largest_bytes:,}",
        failures=f"{totals.failures:,}",
        refused=f"{totals.failed_bytes:,}",
        capacity=_size(capacity),
        used=percent(peak / capacity if capacity else None),
        reach=_size(memory.reach if memory is not None else None),
        fragmentation=percent(memory.peak_gaps.fragmentation, 0) if memory is not None else "-",
        changes=f"{len(memory.rows):,}" if memory is not None else "-",
    )


def _size(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
