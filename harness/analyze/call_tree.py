"""The call tree of a trace: which event happened within which, and what each took by itself.

A trace says nothing about nesting. Events are logged when they end, so what is inside an event
stands before it in the log (``harness.analyze.postorder_nesting``); delegates may log theirs later,
with ticks of another clock, and then their place in the log says where they belong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.groups import equal_rows, running_maximum
from harness.analyze.postorder_nesting import NO_INSTRUCTION, EndOrdered, adopt
from harness.analyze.ticks import event_nanoseconds, forward
from harness.analyze.unwrap import Timeline, unwrap
from harness.records.trace import DELEGATE_CALL, NO_CLOCK, OPERATOR_CALL, Kind, Trace

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Ticks = npt.NDArray[np.uint64]

WRAPPERS: Final = (OPERATOR_CALL, DELEGATE_CALL)
"""What ExecuTorch calls the scopes around whatever an instruction does."""

_MAIN = 0
"""Clock of a tracer's own scopes; delegates bring others."""

_NOWHERE = np.iinfo(np.int64).min
"""Before everything: the instant of what nothing certain is known of."""


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """Who is inside whom. One entry per row of the trace, allocations and values included.

    Attributes:
        trace: What was logged.
        parent: Row of the innermost event around it, -1 for none, int64. That may be a later row
            or, among events that a delegate logged afterwards, an earlier one.
        depth: Number of events around it, int64.
        start: Its start in ticks on the timeline of its clock, int64; -1 without a time. Delegates
            have timelines of their own, also where a file names only one clock for all.
        total: Duration in ticks of its own clock, uint64; 0 where the end was read a little before
            the start.
        own: Self time in ticks of its own clock: what of its duration no event directly within it
            on the same clock covers, uint64. What happens within it on another clock takes nothing
            away, for how much of it that was cannot be told exactly; so the self time of a
            DELEGATE_CALL includes waiting for a delegate that counts its own ticks. A value that
            was logged within an event, with its time, takes its time away.
        ambiguous: True for events that may belong elsewhere: they took less than a tick, or have no
            time on the clock of what is around them, and neither their instruction nor the log
            tells whether what follows had begun already. bool.
        backward: True for events whose end was read a little before their start; their time is 0.
            bool.
    """

    trace: Trace
    parent: _Ints
    depth: _Ints
    start: _Ints
    total: _Ticks
    own: _Ticks
    ambiguous: _Bools
    backward: _Bools

    @property
    def ambiguous_rows(self) -> _Ints:
        """Rows of the events that may belong elsewhere."""
        return np.flatnonzero(self.ambiguous)

    def children(self, row: int) -> _Ints:
        """Rows directly within ``row`` (-1: within nothing), in log order."""
        return np.flatnonzero(self.parent == row)

    def nanoseconds(self, ticks: _Ticks) -> npt.NDArray[np.float64]:
        """``total`` or ``own`` in nanoseconds, nan where the rate of the clock is unknown."""
        return event_nanoseconds(self.trace, ticks)


def call_tree(trace: Trace, *, across_blocks: bool = False) -> CallTree:
    """Find the event around every event of ``trace``.

    Each tracer has a tree of its own. An event of a delegate lies within another one of the same
    delegate call and clock as their times say, else directly within the call: the DELEGATE_CALL of
    the same chain and instruction that is logged next.

    Args:
        trace: What was logged.
        across_blocks: Let an event hold what earlier blocks logged, such as a scope of the
            application around several executions. Where ticks are coarse, blocks keep apart what
            times do not.
    """
    rows = _Rows(trace, across_blocks)
    parent, ambiguous = _place(rows)
    _nest_delegates(rows, parent, ambiguous)
    total = np.maximum(rows.end - rows.start, 0)
    return CallTree(
        trace=trace,
        parent=parent,
        depth=depths(parent),
        start=rows.start,
        total=total.astype(np.uint64),
        own=(total - _covered(rows, parent, total)).astype(np.uint64),
        ambiguous=ambiguous,
        backward=rows.end < rows.start,
    )


def depths(parent: _Ints) -> _Ints:
    """Return how many ancestors each row has, in as many steps as the logarithm of the largest."""
    depth = (parent >= 0).astype(np.int64)
    above = parent.copy()
    while (inside := np.flatnonzero(above >= 0)).size:
        over = above[inside]
        depth[inside] += depth[over]
        above[inside] = above[over]
    return depth


class _Rows:
    """What placing needs to know of every row of a trace.

    Attributes:
        log: Which log it is in, for ``EndOrdered``.
        delegate: True for an event of a delegate.
        scope: True for a profile event on the tracer's own clock.
        timed: True for what has a time on it, values and allocations included.
        instruction: A number per chain and instruction, or NO_INSTRUCTION.
        start: On the timeline of its clock; delegates have timelines of their own, as a file that
            names no clocks gives their ticks as the tracer's.
        end: Likewise.
    """

    def __init__(self, trace: Trace, across_blocks: bool) -> None:
        self.trace = trace
        profile = trace.kind == Kind.PROFILE
        self.delegate = profile & (trace.delegated | (trace.clock != _MAIN))
        self.scope = profile & ~self.delegate
        self.timed = ~self.delegate & (trace.clock == _MAIN)
        blocks = np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])
        self.log = trace.tracer.astype(np.int64) if across_blocks else blocks
        equal = equal_rows([trace.chain, trace.instruction])
        self.instruction = np.where(trace.chain == -1, NO_INSTRUCTION, equal)
        own, theirs = _timeline(trace, self.timed), _timeline(trace, self.delegate)
        self.start = np.where(self.delegate, theirs.start, own.start)
        self.end = np.where(self.delegate, theirs.end, own.end)

    def named(self, *names: str) -> _Bools:
        """True for scopes with one of these names."""
        numbers = [i for i, name in enumerate(self.trace.names) if name in names]
        chosen: _Bools = self.scope & np.isin(self.trace.name, numbers)
        return chosen


def _timeline(trace: Trace, rows: _Bools) -> Timeline:
    """The timeline of some events, as if there were no others."""
    return unwrap(replace(trace, clock=np.where(rows, trace.clock, NO_CLOCK).astype(np.uint8)))


def _place(rows: _Rows) -> tuple[_Ints, _Bools]:
    """Parents among scopes, of every row."""
    wrapper = rows.named(*WRAPPERS)
    start, placed, unsure = _instants(rows)
    end = np.where(rows.timed, np.maximum(rows.end, start), start)
    events = EndOrdered(rows.log, start, end, ~rows.scope, placed, rows.instruction, wrapper)
    parent, ambiguous = adopt(events)
    return parent, ambiguous | unsure


def _instants(rows: _Rows) -> tuple[_Ints, _Bools, _Bools]:
    """When each row began, or could have been logged at the earliest.

    Also returns which rows were placed where a scope of their instruction began, and for which a
    later scope may have begun already.

    What is logged is logged after what stands before it in the log. So an event whose own time
    means nothing here was logged at that moment at the earliest, and whatever was open then
    contains it. If it is of the instruction of a later scope, that had begun, too.
    """
    before = _latest_end_before(rows)
    start = np.where(rows.timed, rows.start, before)
    leaf_timed = rows.timed & ~rows.scope
    start[leaf_timed] = np.maximum(start[leaf_timed], before[leaf_timed])
    loose = np.flatnonzero(~rows.timed)
    placed, unsure = (np.zeros(len(start), np.bool_) for _ in range(2))
    if not len(loose):
        return start, placed, unsure
    following = next_row(rows.log, rows.scope, loose)
    call = next_row(_same_instruction(rows), rows.named(DELEGATE_CALL), loose)
    same = next_row(_same_instruction(rows), rows.scope, loose)
    owner = np.where(rows.delegate[loose], call, same)
    owner[rows.instruction[loose] == NO_INSTRUCTION] = -1
    certain = owner >= 0
    start[loose[certain]] = np.maximum(start[loose[certain]], rows.start[owner[certain]])
    placed[loose[certain]] = True
    _use_own_times(rows, start, loose[~certain], following[~certain])
    open_later = ~certain & (following >= 0)
    open_later[open_later] = rows.start[following[open_later]] > start[loose[open_later]]
    unsure[loose[open_later]] = True
    return start, placed, unsure


def _latest_end_before(rows: _Rows) -> _Ints:
    """When the last of what stands before a row in its log ended; _NOWHERE for nothing."""
    ends = np.where(rows.timed, rows.end, _NOWHERE)
    first = np.diff(rows.log, prepend=-1) != 0
    return np.where(first, _NOWHERE, np.roll(running_maximum(ends, first), 1))


def _same_instruction(rows: _Rows) -> _Ints:
    return equal_rows([rows.log, rows.instruction])


def next_row(key: _Ints, wanted: _Bools, rows: _Ints) -> _Ints:
    """The first ``wanted`` row behind each of ``rows`` with the same key, -1 for none.

    Args:
        key: From 0 on, shape (n,).
        wanted: Which rows may be found, shape (n,).
        rows: Where to look from, shape (m,), as is what is returned.
    """
    count = len(key)
    candidates = np.flatnonzero(wanted)
    if not len(candidates):
        return np.full(len(rows), -1, np.int64)
    places = key[candidates] * count + candidates
    order = np.argsort(places)
    found = np.searchsorted(places[order], key[rows] * count + rows)
    nearest = candidates[order[np.minimum(found, len(order) - 1)]]
    return np.where((found < len(order)) & (key[nearest] == key[rows]), nearest, -1)


def _use_own_times(rows: _Rows, start: _Ints, loose: _Ints, following: _Ints) -> None:
    """Let events of delegates be where their ticks say if the next scope holds them whole."""
    trace = rows.trace
    candidates = rows.delegate[loose] & (trace.clock[loose] == _MAIN) & (following >= 0)
    inner, outer = loose[candidates], following[candidates]
    if not len(inner):
        return
    lead = _lead(rows, outer, inner)
    inside = lead >= 0
    inner, outer, lead = inner[inside], outer[inside], lead[inside]
    start[inner] = np.maximum(start[inner], rows.start[outer] + lead)


def _lead(rows: _Rows, scope: _Ints, delegate: _Ints) -> _Ints:
    """Ticks from the start of a scope to that of a delegate's event; -1 if it is not all within.

    Both are taken to be readings of the tracer's clock, whatever the timeline of either is.
    """
    trace = rows.trace
    ticks = forward(trace.clocks[_MAIN], trace.start[scope], trace.start[delegate])
    room = (rows.end - rows.start)[scope] - (rows.end - rows.start)[delegate]
    # A room below zero is a huge number here, which the first condition takes care of.
    inside = (room >= 0) & (ticks <= room.astype(np.uint64))
    return np.where(inside, ticks.astype(np.int64), -1)


def _nest_delegates(rows: _Rows, parent: _Ints, ambiguous: _Bools) -> None:
    """Find parents among the events that a delegate logged in one call on one clock."""
    trace = rows.trace
    inner = np.flatnonzero(rows.delegate)
    if len(inner) < 2:
        return
    call = equal_rows([rows.log[inner], parent[inner], trace.clock[inner].astype(np.int64)])
    start, end = rows.start[inner], rows.end[inner]
    # Those that went back in time were logged afterwards: their order in the log means nothing.
    order = np.argsort(call, kind="stable")
    back = (np.diff(end[order]) < 0) & (np.diff(call[order]) == 0)
    late = np.isin(call, call[order][1:][back])
    key_end, key_start = np.where(late, end, 0), np.where(late, -start, 0)
    order = np.lexsort((np.arange(len(inner)), key_start, key_end, call))
    none = np.zeros(len(inner), np.bool_)
    nothing = np.full(len(inner), NO_INSTRUCTION)
    events = EndOrdered(call[order], start[order], end[order], none, none, nothing, none)
    # Most delegates log one step after the other.
    found, unsure = adopt(events, flat=True)
    held = found >= 0
    parent[inner[order[held]]] = inner[order[found[held]]]
    ambiguous[inner[order]] |= unsure


def _covered(rows: _Rows, parent: _Ints, total: _Ints) -> _Ints:
    """Ticks of every row that events directly within it cover, on the same clock, counted once."""
    covered = np.zeros(len(parent), np.int64)
    inner = np.flatnonzero((parent >= 0) & (total > 0))
    inner = inner[rows.trace.clock[inner] == rows.trace.clock[parent[inner]]]
    begin = rows.start[inner] - rows.start[parent[inner]]
    called = rows.delegate[inner] & rows.scope[parent[inner]]
    if called.any():
        begin[called] = _lead(rows, parent[inner[called]], inner[called])
    # Ticks that are none of its caller's, though the file says so, cover nothing.
    known = ~called | (begin >= 0)
    inner, begin = inner[known], begin[known]
    order = np.lexsort((begin, parent[inner]))
    inner, begin = inner[order], begin[order]
    outer = parent[inner]
    end = np.minimum(begin + total[inner], total[outer])
    first = np.diff(outer, prepend=-1) != 0
    reached = running_maximum(end, first)
    before = np.where(first, 0, np.roll(reached, 1))
    np.add.at(covered, outer, np.maximum(end - np.maximum(begin, before), 0))
    return covered
