"""The call tree merged over repeats: each event once under the same ancestors, with sums of its
times and of what hardware counters counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import SIGNATURE, block_names, equal_rows, in_groups
from harness.analyze.call_tree import CallTree
from harness.analyze.counters import own_counts
from harness.analyze.statistics import WallTimes
from harness.analyze.ticks import nanoseconds_per_tick
from harness.records.signature import Signature
from harness.records.trace import NO_COUNT, Kind

_Ints = npt.NDArray[np.int64]


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
        share: Its total time as a share of the wall time (``WallTimes``); None if unknown.
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
    counters: dict[str, NodeCounts] = msgspec.field(default_factory=dict)


def merged_tree(tree: CallTree) -> list[MergedNode]:
    """Merge the profile events of ``tree`` over repeats and runs.

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
    shares = WallTimes(trace).shares(grouped, starts)
    own = own_counts(tree)
    nodes = [
        _node(tree, names[name_of[group[0]]], group, rates, share, own)
        for group, share in zip(np.split(grouped, starts[1:]), shares, strict=False)
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
    total, own = sum(tree.total[rows].tolist()), sum(tree.own[rows].tolist())
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


def _in_depth(nodes: list[MergedNode], above: list[int]) -> list[MergedNode]:
    """Sort nodes depth-first, and set their parents."""
    within = defaultdict(list)
    for number, parent in enumerate(above):
        within[parent].append(number)
    found: list[MergedNode] = []
    waiting = [(number, -1) for number in reversed(within[-1])]
    while waiting:
        number, parent = waiting.pop()
        waiting += [(inner, len(found)) for inner in reversed(within[number])]
        found.append(msgspec.structs.replace(nodes[number], parent=parent))
    return found
