"""Checks memory: allocations fit, do not overlap and are freed (I06 to I09), allocators have their
planned size and do not grow (I16, I17), and stacks do not overflow (I18).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.memory import AllocatorMemory
from harness.check.invariants.events import order_known
from harness.check.subject import Subject
from harness.formatting import stack_use
from harness.records.trace import Trace
from harness.records.verdict import Check, check, none_of

TEMPORARY: Final = "temporary"
"""The allocator whose memory lasts for one execution. All other allocators hold their memory as
long as the method is loaded."""

_KEPT: Final = re.compile(r"method|unplanned|planned_\d+")
"""Allocators that hold the method and its tensors from loading on."""


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
        what = "allocations overlap a live allocation"
        yield _rows("I07", subject.trace, item, item.overlapping, what)
    if not order_known(subject.trace.losses):
        return
    if used and not subject.trace.filtered_events:
        unused = [item for item in subject.memory.allocators if not len(item.rows)]
        yield from (_planned(item) for item in unused if item.planned)
    for item in followed:
        what = "frees match no live allocation"
        yield _rows("I08", subject.trace, item, item.unmatched, what)
        if item.allocator.label == TEMPORARY and _is_freed(subject.trace, item):
            yield _all_freed(subject, item)
        if item.allocator.label in subject.planned:
            yield _planned(item)
        if _KEPT.fullmatch(item.allocator.label) and subject.planned:
            yield from _no_growth(subject, item)


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
        subject=subject,
        measured=float(needed),
        limit=float(capacity),
        unit="bytes",
        passed=passed,
        reason=f"{needed:,} bytes {relation} the {capacity:,} bytes {source}",
    )


def _rows(
    code: str, trace: Trace, item: AllocatorMemory, rows: tuple[int, ...], what: str
) -> Check:
    reason = f"0 {what}"
    if rows:
        size = abs(int(trace.size[rows[0]]))
        offset = int(trace.offset[rows[0]])
        place = f" at offset {offset:,}" if offset >= 0 else ""
        block = int(block_numbers(trace)[rows[0]])
        reason = f"{len(rows):,} {what}, first {size:,} bytes{place} in block {block}"
    return none_of(code, _name(item), len(rows), reason)


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
    return none_of("I09", _name(item), int(abs(item.live[last]).max()), reason, "bytes")


def _is_freed(trace: Trace, item: AllocatorMemory) -> bool:
    """Return whether the tracer logs frees: it did, or it logs offsets, which ETDump does not."""
    return bool((trace.size[item.rows] < 0).any() or (trace.offset[item.rows] >= 0).all())


def _planned(item: AllocatorMemory) -> Check:
    """Compare the allocated bytes of an allocator with its plan."""
    planned = item.planned or 0
    taken = int(item.live[-1]) if len(item.live) else 0
    relation = "as planned" if taken == planned else f"but {planned:,} bytes are planned"
    return check(
        "I16",
        subject=_name(item),
        measured=float(taken),
        limit=float(planned),
        unit="bytes",
        passed=taken == planned,
        reason=f"{taken:,} bytes are allocated, {relation}",
    )


def _no_growth(subject: Subject, item: AllocatorMemory) -> Iterator[Check]:
    """Check that as many bytes are live after each execution as before it.

    The cold execution is skipped: it may allocate what all executions need.
    """
    warm = [run.order for run in subject.runs if run.executes and not run.cold]
    if not warm:
        return
    change = np.zeros(len(subject.trace.blocks), np.int64)
    np.add.at(change, block_numbers(subject.trace)[item.rows], np.diff(item.live, prepend=0))
    grown = [order for order in warm if change[order]]
    reason = f"its size is the same after {len(warm):,} warm executions"
    if grown:
        reason = (
            f"it changes by {int(change[grown[0]]):,} bytes in block {grown[0]}; {len(grown):,} of "
            f"{len(warm):,} warm executions change it"
        )
    yield none_of("I17", _name(item), int(np.abs(change[grown]).sum()), reason, "bytes")


def stack_checks(subject: Subject) -> Iterator[Check]:
    """Check that no stack was used up to its end, or beyond it."""
    for stack in subject.trace.stacks:
        if not stack.used or not stack.size:
            continue
        yield check(
            "I18",
            subject=f"stack of tracer {stack.tracer}",
            measured=float(stack.used),
            limit=float(stack.size),
            unit="bytes",
            passed=not stack.overflowed,
            reason=stack_use(stack.used, stack.size),
        )


def _name(item: AllocatorMemory) -> str:
    return item.allocator.label or "(no name)"
