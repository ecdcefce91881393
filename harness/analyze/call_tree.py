"""The call tree of a trace: parent, depth and self time of every event.

A trace does not record nesting. Events are logged when they end, so the children of an event come
before it in the log, and an event takes as children the preceding events without a parent that
started no earlier than itself (``nest_postorder``). Events are never sorted by time, which would
lose the log order if ticks are coarse. Delegates may log their events later, in ticks of another
clock; their position in the log then determines the parent.

``merged_tree`` merges the tree over repeats. A missing count of a hardware counter is never taken
for 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import (
    SIGNATURE,
    block_names,
    block_numbers,
    equal_rows,
    in_groups,
    running_maximum,
)
from harness.analyze.statistics import WallTimes
from harness.analyze.ticks import (
    event_nanoseconds,
    forward,
    nanoseconds_per_tick,
    own_scopes,
    unwrap,
)
from harness.records.trace import (
    DELEGATE_CALL,
    NO_CLOCK,
    NO_COUNT,
    OPERATOR_CALL,
    Kind,
    Signature,
    Trace,
)

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Ticks = npt.NDArray[np.uint64]

WRAPPERS: Final = (OPERATOR_CALL, DELEGATE_CALL)
"""ExecuTorch's names of the scopes around an instruction."""

NO_INSTRUCTION = -1
"""Instruction of an event outside of instructions, such as the scope of a whole method."""

_MAIN = 0
"""Clock of a tracer's own scopes; delegates bring others."""

_NOWHERE = np.iinfo(np.int64).min
"""An instant before all others, for events without a known time."""


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """Nesting of events. One entry per row of the trace, including allocations and values.

    Attributes:
        trace: The trace.
        parent: Row of the parent, -1 without one, int64. Usually a later row; among events that a
            delegate logged afterwards it may be an earlier one.
        depth: Number of ancestors, int64.
        start: Start in ticks on the timeline of its clock, int64; -1 without a time. Delegates have
            timelines of their own, even if a file has only one clock.
        total: Duration in ticks of its own clock, uint64, without ``taken``; 0 if it ends slightly
            before its start.
        taken: Ticks that other tasks and interrupts had from its start to its end, uint64.
        own: Self time in ticks of its own clock, uint64: the part of its duration not covered by
            children on the same clock. Children on another clock are not subtracted, because their
            exact share is unknown; the self time of a DELEGATE_CALL thus includes waiting for a
            delegate with its own clock. Timed values logged within an event are subtracted.
        ambiguous: True for events with an uncertain parent: they took less than a tick, or have no
            time on their parent's clock, and neither instruction nor log tell whether the following
            event had started. bool.
        backward: True for events that end slightly before their start; their duration is 0. bool.
    """

    trace: Trace
    parent: _Ints
    depth: _Ints
    start: _Ints
    total: _Ticks
    own: _Ticks
    taken: _Ticks
    ambiguous: _Bools
    backward: _Bools

    @property
    def end(self) -> _Ints:
        """End in ticks on the timeline of its clock, int64; the start without a duration."""
        return self.start + (self.total + self.taken).astype(np.int64)

    @property
    def ambiguous_rows(self) -> _Ints:
        """Rows of the events with an uncertain parent."""
        return np.flatnonzero(self.ambiguous)

    def children(self, row: int) -> _Ints:
        """Return the children of ``row`` (-1: rows without a parent), in log order."""
        return np.flatnonzero(self.parent == row)

    def nanoseconds(self, ticks: _Ticks) -> npt.NDArray[np.float64]:
        """Convert ``total`` or ``own`` to nanoseconds; NaN if the clock rate is unknown."""
        return event_nanoseconds(self.trace, ticks)


def call_tree(trace: Trace, *, across_blocks: bool = False) -> CallTree:
    """Return the call tree of ``trace``.

    Each tracer has a tree of its own. Delegate events nest by their times within events of the same
    delegate call and clock, otherwise directly in the call: the next logged DELEGATE_CALL with the
    same chain and instruction.

    Args:
        trace: The trace.
        across_blocks: Allow children from earlier blocks, such as in an application scope around
            several executions. By default blocks separate events that coarse ticks do not.
    """
    rows = _Rows(trace, across_blocks)
    start, placed, unsure = _instants(rows)
    parent, ambiguous = nest_postorder(
        log=rows.log,
        start=start,
        end=np.where(rows.timed, np.maximum(rows.end, start), start),
        leaf=~rows.scope,
        placed=placed,
        instruction=rows.instruction,
        wrapper=rows.scope & trace.named(*WRAPPERS),
    )
    ambiguous |= unsure
    _nest_delegates(rows, parent, ambiguous)
    total = np.maximum(rows.end - rows.start, 0)
    backward, start = rows.end < rows.start, rows.start
    taken = np.zeros(len(trace), np.int64)
    if trace.kind.max(initial=0) >= Kind.TASK:
        from harness.analyze.contexts import contexts

        found, main = contexts(trace), trace.clock == _MAIN
        taken = np.minimum(found.taken.astype(np.int64), total)
        total -= taken
        # Children cover their parent on a clock that stands while others have the core.
        rows.start = np.where(main, found.start - found.before, rows.start)
        rows.delegate = rows.delegate & ~main
    return CallTree(
        trace=trace,
        parent=parent,
        depth=depths(parent),
        start=start,
        taken=taken.astype(np.uint64),
        total=total.astype(np.uint64),
        own=(total - _covered(rows, parent, total)).astype(np.uint64),
        ambiguous=ambiguous,
        backward=backward,
    )


def depths(parent: _Ints) -> _Ints:
    """Return the number of ancestors of each row; takes O(log depth) vectorized steps."""
    depth = (parent >= 0).astype(np.int64)
    above = parent.copy()
    while (inside := np.flatnonzero(above >= 0)).size:
        over = above[inside]
        depth[inside] += depth[over]
        above[inside] = above[over]
    return depth


class _Rows:
    """Columns for nesting, one entry per row of the trace.

    Attributes:
        log: Number of its log, for ``nest_postorder``.
        delegate: True for delegate events.
        scope: True for profile events on the tracer's own clock.
        timed: True for rows with a time on this clock, including values and allocations.
        instruction: A number per chain and instruction, or NO_INSTRUCTION.
        start: Start on the timeline of its clock. Delegates have timelines of their own, because a
            file without clocks reports their ticks as the tracer's.
        end: End, likewise.
    """

    def __init__(self, trace: Trace, across_blocks: bool) -> None:
        self.trace = trace
        self.scope = own_scopes(trace)
        self.delegate = (trace.kind == Kind.PROFILE) & ~self.scope
        self.timed = ~self.delegate & np.isin(trace.clock, trace.own_clocks)
        self.log = trace.tracer.astype(np.int64) if across_blocks else block_numbers(trace)
        equal = equal_rows([trace.chain, trace.instruction])
        self.instruction = np.where(trace.chain == -1, NO_INSTRUCTION, equal)
        own, theirs = (
            unwrap(replace(trace, clock=np.where(rows, trace.clock, NO_CLOCK).astype(np.uint8)))
            for rows in (self.timed, self.delegate)
        )
        self.start = np.where(self.delegate, theirs.start, own.start)
        self.end = np.where(self.delegate, theirs.end, own.end)


def _instants(rows: _Rows) -> tuple[_Ints, _Bools, _Bools]:
    """Return the start of each row, or the earliest time at which it was logged.

    Also returns which rows were placed at the start of a scope of their instruction, and for which
    rows a later scope may have started already.

    Log order is time order. So a row without a usable time was logged no earlier than the end of
    the preceding row, and nests in the scopes open at that time. If a later scope belongs to the
    same instruction, that scope had started, too.
    """
    ends = np.where(rows.timed, rows.end, _NOWHERE)
    first = np.diff(rows.log, prepend=-1) != 0
    # The latest end of the rows before each row in its log.
    before = np.where(first, _NOWHERE, np.roll(running_maximum(ends, first), 1))
    start = np.where(rows.timed, rows.start, before)
    leaf_timed = rows.timed & ~rows.scope
    start[leaf_timed] = np.maximum(start[leaf_timed], before[leaf_timed])
    loose = np.flatnonzero(~rows.timed)
    placed, unsure = (np.zeros(len(start), np.bool_) for _ in range(2))
    if not len(loose):
        return start, placed, unsure
    following = next_row(rows.log, rows.scope, loose)
    instruction = equal_rows([rows.log, rows.instruction])
    call = next_row(instruction, rows.scope & rows.trace.named(DELEGATE_CALL), loose)
    same = next_row(instruction, rows.scope, loose)
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


def nest_postorder(
    *,
    log: _Ints,
    start: _Ints,
    end: _Ints,
    leaf: _Bools,
    placed: _Bools,
    instruction: _Ints,
    wrapper: _Bools,
    flat: bool = False,
) -> tuple[_Ints, _Bools]:
    """Return the parent of every event, -1 without one, and True for uncertain parents.

    Times decide, except for an event that starts and ends in the tick in which a later event
    starts: it may be inside that event or before it. Then instructions decide, if possible: events
    of one instruction do not contain events of another, and the wrapper of an instruction contains
    its other events, never the reverse. Undecided events become children, marked as uncertain.

    Args:
        log: Number of the log; events of a log are adjacent, in its order. Events of different logs
            do not nest. This and the following have shape (n,).
        start: Start in ticks.
        end: End in ticks.
        leaf: True for events without children: instants and logged values.
        placed: True for events without a time, placed at the start of an enclosing scope.
        instruction: A number for the instruction it belongs to, or NO_INSTRUCTION.
        wrapper: True for the runtime's scope around an instruction.
        flat: Place undecided events before the later event instead: for logs of consecutive steps.
    """
    parent = np.full(len(start), -1, np.int64)
    above = parent.data
    unsure: list[int] = []
    # Views give Python numbers one at a time; lists of them would take 200 bytes per event.
    columns = (log, start, end, leaf, placed, instruction, wrapper)
    logs, starts, ends, leaves, placements, instructions, wrappers = (
        np.ascontiguousarray(column).data for column in columns
    )
    free: list[int] = []  # events without a parent so far
    current = None
    for row, (its_log, begin, is_leaf) in enumerate(zip(logs, starts, leaves, strict=True)):
        if its_log != current:
            current, free = its_log, []
        while free and not is_leaf and starts[last := free[-1]] >= begin:
            if starts[last] == begin == ends[last] and not placements[last]:
                known = not leaves[last] or instructions[last] != NO_INSTRUCTION
                within = instructions[row] != NO_INSTRUCTION
                same = instructions[last] == instructions[row]
                if within and known and (not same or (wrappers[last] and not wrappers[row])):
                    break
                if not (within and same and wrappers[row] and not wrappers[last]):
                    unsure.append(last)
                    if flat:
                        break
            above[last] = row
            free.pop()
        free.append(row)
    ambiguous = np.zeros(len(parent), np.bool_)
    ambiguous[unsure] = True
    return parent, ambiguous


def next_row(key: _Ints, wanted: _Bools, rows: _Ints) -> _Ints:
    """Return the first ``wanted`` row after each of ``rows`` with the same key, -1 without one.

    Args:
        key: Non-negative keys, shape (n,).
        wanted: Rows to search among, shape (n,).
        rows: Rows to start from, shape (m,); the result has the same shape.
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
    """Place delegate events by their own ticks if they fit completely in the next scope."""
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
    """Return the ticks from a scope's start to a delegate event's start; -1 if it does not fit.

    Both are treated as raw readings of the tracer's clock, independent of their timelines.
    """
    trace = rows.trace
    ticks = forward(trace.clocks[_MAIN], trace.start[scope], trace.start[delegate])
    room = (rows.end - rows.start)[scope] - (rows.end - rows.start)[delegate]
    # A negative room becomes huge as uint64, so it is tested first.
    inside = (room >= 0) & (ticks <= room.astype(np.uint64))
    return np.where(inside, ticks.astype(np.int64), -1)


def _nest_delegates(rows: _Rows, parent: _Ints, ambiguous: _Bools) -> None:
    """Nest the events that a delegate logged in one call on one clock."""
    trace = rows.trace
    inner = np.flatnonzero(rows.delegate)
    if len(inner) < 2:
        return
    call = equal_rows([rows.log[inner], parent[inner], trace.clock[inner].astype(np.int64)])
    start, end = rows.start[inner], rows.end[inner]
    # Times that go back were logged afterwards, in an order unrelated to time.
    order = np.argsort(call, kind="stable")
    back = (np.diff(end[order]) < 0) & (np.diff(call[order]) == 0)
    late = np.isin(call, call[order][1:][back])
    key_end, key_start = np.where(late, end, 0), np.where(late, -start, 0)
    order = np.lexsort((np.arange(len(inner)), key_start, key_end, call))
    none = np.zeros(len(inner), np.bool_)
    # Most delegates log consecutive steps, hence flat.
    found, unsure = nest_postorder(
        log=call[order],
        start=start[order],
        end=end[order],
        leaf=none,
        placed=none,
        instruction=np.full(len(inner), NO_INSTRUCTION),
        wrapper=none,
        flat=True,
    )
    held = found >= 0
    parent[inner[order[held]]] = inner[order[found[held]]]
    ambiguous[inner[order]] |= unsure


def _covered(rows: _Rows, parent: _Ints, total: _Ints) -> _Ints:
    """Return the ticks of every row that its children on the same clock cover, without overlap."""
    covered = np.zeros(len(parent), np.int64)
    inner = np.flatnonzero((parent >= 0) & (total > 0))
    inner = inner[rows.trace.clock[inner] == rows.trace.clock[parent[inner]]]
    begin = rows.start[inner] - rows.start[parent[inner]]
    called = rows.delegate[inner] & rows.scope[parent[inner]]
    if called.any():
        begin[called] = _lead(rows, parent[inner[called]], inner[called])
    # Ticks outside the caller are of another clock, although the file declares the same one.
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


class NodeCounts(msgspec.Struct, frozen=True):
    """What a hardware counter counted in the repeats of a node.

    Attributes:
        events: Number of repeats with a count.
        total: Sum of their counts.
        own: The part that no child on the same clock counted; None if that is unknown for one of
            them, as where a child has no count.
    """

    events: int
    total: int
    own: int | None


class MergedNode(Signature, frozen=True, omit_defaults=True):
    """All repeats of one event under the same ancestors, in blocks of one name.

    Attributes:
        parent: Index of the parent node in the list, -1 without one.
        depth: Number of ancestors.
        clock: Name of the clock of its ticks.
        count: Number of repeats.
        ambiguous: Number of repeats whose parent is uncertain.
        backward: Number of repeats that end before they start; their duration counts as 0.
        total_ticks: Sum of their durations.
        own_ticks: Self time: the part not covered by children on the same clock.
        total_ns: ``total_ticks`` in nanoseconds, None if the clock rate is unknown.
        own_ns: ``own_ticks`` in nanoseconds, likewise.
        share: Its share of the wall time, in the median over executions (``WallTimes``); None if
            unknown.
        taken_ticks: What other tasks and interrupts took, which is in no other time here.
        taken_ns: The same in nanoseconds, likewise.
        counters: Counts by the name of the hardware counter, without those that have none here.
    """

    parent: int
    depth: int
    clock: str
    count: int
    ambiguous: int
    backward: int
    total_ticks: int
    own_ticks: int
    total_ns: float | None
    own_ns: float | None
    share: float | None
    taken_ticks: int = 0
    taken_ns: float | None = 0.0
    counters: dict[str, NodeCounts] = msgspec.field(default_factory=dict)


def merged_tree(tree: CallTree, *, typical: bool = False) -> list[MergedNode]:
    """Merge the profile events of ``tree`` over repeats and runs.

    Args:
        tree: The call tree.
        typical: Only those of the median execution, or of the median block of each name; shares are
            of all of them.

    Returns:
        Nodes in depth-first order, children in order of first occurrence.
    """
    trace = tree.trace
    names, name_of = block_names(trace)
    rows, codes = _codes(tree, name_of)
    order, starts = in_groups(codes)
    grouped = rows[order]
    firsts = grouped[starts]
    place = np.full(len(trace), -1, np.int64)
    place[grouped] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(grouped)))
    above = np.where(tree.parent[firsts] < 0, -1, place[tree.parent[firsts]])
    ticks = map(nanoseconds_per_tick, trace.clocks)
    rates = [None if tick is None else tick.as_integer_ratio() for tick in ticks]
    wall = WallTimes(trace)
    shares = wall.shares(grouped, starts)
    own = own_counts(tree)
    groups = np.split(grouped, starts[1:])
    if typical:
        kept = np.isin(block_numbers(trace), wall.median_blocks())
        groups = [group[kept[group]] for group in groups]
    nodes = [
        _node(tree, names[name_of[group[0]]], group, rates, share, own) if len(group) else None
        for group, share in zip(groups, shares, strict=False)
    ]
    return _in_depth(nodes, above.tolist())


def _codes(tree: CallTree, name_of: _Ints) -> tuple[_Ints, _Ints]:
    """Return the profile events, and a number for each that equals for the same path."""
    trace = tree.trace
    rows = np.flatnonzero(trace.kind == Kind.PROFILE)
    own = np.full(len(trace), -1, np.int64)
    own[rows] = equal_rows([name_of[rows], *(getattr(trace, key)[rows] for key in SIGNATURE)])
    path = [-1] * (len(trace) + 1)  # the last entry is for parent -1
    number: dict[tuple[int, int], int] = {}
    order = rows[np.argsort(tree.depth[rows], kind="stable")]
    columns = (order, tree.parent[order], own[order])
    for row, parent, code in zip(*(column.tolist() for column in columns), strict=True):
        path[row] = number.setdefault((path[parent], code), len(number))
    return rows, np.array(path, np.int64)[rows]


def _node(
    tree: CallTree,
    block: str,
    rows: _Ints,
    rates: Sequence[tuple[int, int] | None],
    share: float | None,
    own_by_row: _Ints,
) -> MergedNode:
    trace = tree.trace
    first = int(rows[0])
    clock, rate = trace.clocks[trace.clock[first]], rates[trace.clock[first]]
    parts = (tree.total, tree.own, tree.taken)
    total, own, taken = (sum(part[rows].tolist()) for part in parts)
    return MergedNode(
        parent=-1,
        depth=int(tree.depth[first]),
        block=block,
        name=trace.text(int(trace.name[first])) or "",
        chain=int(trace.chain[first]),
        instruction=int(trace.instruction[first]),
        delegate_int=int(trace.delegate_int[first]),
        delegate_str=trace.text(int(trace.delegate_str[first])),
        clock=clock.name,
        count=len(rows),
        ambiguous=int(np.count_nonzero(tree.ambiguous[rows])),
        backward=int(np.count_nonzero(tree.backward[rows])),
        total_ticks=total,
        own_ticks=own,
        total_ns=_nanoseconds(total, rate),
        own_ns=_nanoseconds(own, rate),
        share=share,
        taken_ticks=taken,
        taken_ns=_nanoseconds(taken, rate) if taken else 0.0,
        counters=_counts(tree, rows, own_by_row),
    )


def _counts(tree: CallTree, rows: _Ints, own_by_row: _Ints) -> dict[str, NodeCounts]:
    """Return what each counter counted in ``rows``, without those that counted none of them."""
    found = {}
    for column, counter in enumerate(tree.trace.counters):
        counts = tree.trace.counts[rows, column]
        recorded = counts != NO_COUNT
        if recorded.any():
            own = own_by_row[rows[recorded], column]
            known = bool((own != NO_COUNT).all())
            found[counter.name] = NodeCounts(
                events=int(np.count_nonzero(recorded)),
                total=int(counts[recorded].sum()),
                own=int(own.sum()) if known else None,
            )
    return found


def _nanoseconds(ticks: int, rate: tuple[int, int] | None) -> float | None:
    """Convert ticks to nanoseconds; correctly rounded, because division of integers is."""
    return None if rate is None else ticks * rate[0] / rate[1]


def _in_depth(nodes: list[MergedNode | None], above: list[int]) -> list[MergedNode]:
    """Sort nodes depth-first without those that are None, and set their parents."""
    within = defaultdict(list)
    for number, parent in enumerate(above):
        within[parent].append(number)
    found: list[MergedNode] = []
    waiting = [(number, -1) for number in reversed(within[-1])]
    while waiting:
        number, parent = waiting.pop()
        if (node := nodes[number]) is None:
            continue
        waiting += [(inner, len(found)) for inner in reversed(within[number])]
        found.append(msgspec.structs.replace(node, parent=parent))
    return found


def own_counts(tree: CallTree) -> _Ints:
    """Return what each event counted itself, without its children, shape (events, counters).

    Children on another clock are another unit's work, which these counters do not count, so they
    are not subtracted. The part is NO_COUNT where the event or one of its children has no count, or
    where the children together exceed it: the counter wrapped within the event.
    """
    trace = tree.trace
    inner = np.flatnonzero((trace.kind == Kind.PROFILE) & (tree.parent >= 0))
    inner = inner[trace.clock[inner] == trace.clock[tree.parent[inner]]]
    parents, counts = tree.parent[inner], trace.counts[inner]
    missing = counts == NO_COUNT
    of_children = np.zeros_like(trace.counts)
    np.add.at(of_children, parents, np.where(missing, 0, counts))
    unknown = trace.counts == NO_COUNT
    np.logical_or.at(unknown, parents, missing)
    own = trace.counts - of_children
    return np.where(unknown | (own < 0), NO_COUNT, own)
