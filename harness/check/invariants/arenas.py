"""Whether allocations lie within the memory there is, apart, and are given back (I06 to I09)."""

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

GIVEN_BACK: Final = "temporary"
"""The allocator whose memory lasts for one execution. All others keep theirs for as long as the
method is loaded."""


def memory_checks(subject: Subject) -> Iterator[Check]:
    """Check every allocator that gave memory.

    Allocators of one name that several tracers log are left out: each core or task may have its
    own, and nobody can tell.
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
            *("I07", "live pieces do not overlap", item, item.overlapping),
            *(subject.trace, "overlap a live one"),
        )
    if not order_known(subject.trace.losses):
        return
    for item in followed:
        yield _rows(
            *("I08", "what is freed was allocated", item, item.unmatched),
            *(subject.trace, "free what is not live"),
        )
        if item.allocator.label == GIVEN_BACK and (subject.trace.size[item.rows] < 0).any():
            yield _given_back(subject, item)


def _within(subject: Subject, item: AllocatorMemory) -> Iterator[Check]:
    """Compare the end of the last piece with the bytes that the allocator has.

    Without offsets, that is the most that it held, which takes as much at least.
    """
    room = item.planned if item.planned is not None else subject.arena_capacity
    if room is None:
        return
    needed = item.peak if item.reach is None else item.reach
    of = "planned for it" if item.planned is not None else "of the arena"
    yield _room(_name(item), needed, room, of)


def _arena(subject: Subject) -> Iterator[Check]:
    if subject.arena_capacity is not None and len(subject.memory.rows):
        peak = subject.memory.peak
        yield _room("all allocators together", peak, subject.arena_capacity, "of the arena")


def _room(subject: str, needed: int, room: int, of: str) -> Check:
    passed = needed <= room
    return check(
        "I06",
        rule="allocations lie within their memory",
        subject=subject,
        measured=float(needed),
        limit=float(room),
        unit="bytes",
        passed=passed,
        reason=f"{needed:,} bytes {'fit' if passed else 'do not fit'} into the {room:,} {of}",
    )


def _rows(
    code: str, rule: str, item: AllocatorMemory, rows: tuple[int, ...], trace: Trace, what: str
) -> Check:
    reason = "all are sound"
    if rows:
        size = abs(int(trace.size[rows[0]]))
        at = int(trace.offset[rows[0]])
        place = f" at offset {at:,}" if at >= 0 else ""
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


def _given_back(subject: Subject, item: AllocatorMemory) -> Check:
    """Look at what is live after the last event of the allocator in every block."""
    blocks = block_numbers(subject.trace)[item.rows]
    last = np.flatnonzero(np.diff(blocks, append=-1) != 0)
    kept = last[item.live[last] != 0]
    reason = f"nothing is live at the end of {len(last):,} blocks"
    if len(kept):
        first = int(kept[0])
        reason = (
            f"{int(item.live[first]):,} bytes are live at the end of block {int(blocks[first])}"
            f", and not 0 at the end of {len(kept):,} blocks in all"
        )
    return check(
        "I09",
        rule="what an execution takes it gives back",
        subject=_name(item),
        measured=float(abs(item.live[last]).max()),
        limit=0.0,
        unit="bytes",
        passed=not len(kept),
        reason=reason,
    )


def _name(item: AllocatorMemory) -> str:
    return item.allocator.label or "(no name)"
