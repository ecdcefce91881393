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
from harness.check.invariants.scopes import order_known
from harness.check.subject import Subject
from harness.records.trace import Trace
from harness.records.verdict import Check, check

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
        yield _rows(
            *("I07", "live allocations do not overlap", item, item.overlapping),
            *(subject.trace, "allocations overlap a live allocation"),
        )
    if not order_known(subject.trace.losses):
        return
    if used and not subject.trace.filtered_events:
        unused = [item for item in subject.memory.allocators if not len(item.rows)]
        yield from (_planned(item) for item in unused if item.planned)
    for item in followed:
        yield _rows(
            *("I08", "every free matches an allocation", item, item.unmatched),
            *(subject.trace, "frees match no live allocation"),
        )
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
        rule="planned memory has its planned size",
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
    numbers = block_numbers(subject.trace)[item.rows]
    change = np.diff(item.live, prepend=0)
    warm = [run.order for run in subject.runs if run.executes and not run.cold]
    if not warm:
        return
    grown = {order: int(change[numbers == order].sum()) for order in set(numbers.tolist())}
    grown = {order: size for order, size in grown.items() if size and order in warm}
    reason = f"its size is the same after {len(warm):,} warm executions"
    if grown:
        first = min(grown)
        reason = (
            f"it changes by {grown[first]:,} bytes in block {first}; {len(grown):,} of "
            f"{len(warm):,} warm executions change it"
        )
    yield check(
        "I17",
        rule="executions keep no memory of the method",
        subject=_name(item),
        measured=float(sum(grown.values())),
        limit=0.0,
        unit="bytes",
        passed=not grown,
        reason=reason,
    )


def stack_checks(subject: Subject) -> Iterator[Check]:
    """Check that no stack was used up to its end, or beyond it."""
    for stack in subject.trace.stacks:
        if not stack.used or not stack.size:
            continue
        relation = "the stack may have overflowed" if stack.overflowed else "of the stack were used"
        yield check(
            "I18",
            rule="stacks stay within their size",
            subject=f"stack of tracer {stack.tracer}",
            measured=float(stack.used),
            limit=float(stack.size),
            unit="bytes",
            passed=not stack.overflowed,
            reason=f"{stack.used:,} of {stack.size:,} bytes: {relation}",
        )


def _name(item: AllocatorMemory) -> str:
    return item.allocator.label or "(no name)"
