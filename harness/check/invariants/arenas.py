"""Checks allocations: they fit their memory, do not overlap, and are freed (I06 to I09)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.memory import AllocatorMemory
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.trace import Trace
from harness.records.verdict import Check, check

TEMPORARY: Final = "temporary"
"""The allocator whose memory lasts for one execution. All other allocators hold their memory as
long as the method is loaded."""


def memory_checks(subject: Subject) -> Iterator[Check]:
    """Check every allocator with logged allocations.

    An allocator name that several tracers log is skipped: each core or task may have its own
    allocator of this name, and the log does not tell them apart.
    """
    tracer = subject.trace.tracer
    used = [item for item in subject.memory.allocators if len(item.rows)]
    followed = [item for item in used if (tracer[item.rows] == tracer[item.rows[0]]).all()]
    for item in followed:
        yield from _within(subject, item)
    if len(followed) == len(used):
        yield from _arena(subject)
    for item in followed:
        yield _rows(
            *("I07", "live allocations do not overlap", item, item.overlapping),
            *(subject.trace, "allocations overlap a live allocation"),
        )
    if not order_known(subject.trace.losses):
        return
    for item in followed:
        yield _rows(
            *("I08", "every free matches an allocation", item, item.unmatched),
            *(subject.trace, "frees match no live allocation"),
        )
        if item.allocator.label == TEMPORARY and (subject.trace.size[item.rows] < 0).any():
            yield _all_freed(subject, item)


def _within(subject: Subject, item: AllocatorMemory) -> Iterator[Check]:
    """Compare the highest allocated address of an allocator with its capacity.

    Without logged offsets the peak is used, a lower bound of the needed memory.
    """
    capacity = item.planned if item.planned is not None else subject.arena_capacity
    if capacity is None:
        return
    needed = item.peak if item.reach is None else item.reach
    source = "planned" if item.planned is not None else "of the arena"
    yield _fits(_name(item), needed, capacity, source)


def _arena(subject: Subject) -> Iterator[Check]:
    if subject.arena_capacity is not None and len(subject.memory.rows):
        peak = subject.memory.peak
        yield _fits("all allocators together", peak, subject.arena_capacity, "of the arena")


def _fits(subject: str, needed: int, capacity: int, source: str) -> Check:
    passed = needed <= capacity
    relation = "fit in" if passed else "exceed"
    return check(
        "I06",
        rule="allocations fit their memory",
        subject=subject,
        measured=float(needed),
        limit=float(capacity),
        unit="bytes",
        passed=passed,
        reason=f"{needed:,} bytes {relation} the {capacity:,} bytes {source}",
    )


def _rows(
    code: str, rule: str, item: AllocatorMemory, rows: tuple[int, ...], trace: Trace, what: str
) -> Check:
    reason = f"0 {what}"
    if rows:
        size = abs(int(trace.size[rows[0]]))
        offset = int(trace.offset[rows[0]])
        place = f" at offset {offset:,}" if offset >= 0 else ""
        block = int(block_numbers(trace)[rows[0]])
        reason = f"{len(rows):,} {what}, first {size:,} bytes{place} in block {block}"
    return check(
        code,
        rule=rule,
        subject=_name(item),
        measured=float(len(rows)),
        limit=0.0,
        unit="events",
        passed=not rows,
        reason=reason,
    )


def _all_freed(subject: Subject, item: AllocatorMemory) -> Check:
    """Check that 0 bytes are live after the allocator's last event in every block."""
    blocks = block_numbers(subject.trace)[item.rows]
    last = np.flatnonzero(np.diff(blocks, append=-1) != 0)
    kept = last[item.live[last] != 0]
    reason = f"0 bytes are live at the end of {len(last):,} blocks"
    if len(kept):
        first = int(kept[0])
        reason = (
            f"{int(item.live[first]):,} bytes are still live at the end of block "
            f"{int(blocks[first])}; {len(kept):,} of {len(last):,} blocks leave memory allocated"
        )
    return check(
        "I09",
        rule="executions free their temporary memory",
        subject=_name(item),
        measured=float(abs(item.live[last]).max()),
        limit=0.0,
        unit="bytes",
        passed=not len(kept),
        reason=reason,
    )


def _name(item: AllocatorMemory) -> str:
    return item.allocator.label or "(no name)"
