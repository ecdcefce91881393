"""Hardware counters of single events: what an event counted itself, and sums of several events.

Statistics per operator are in ``harness.analyze.statistics``, sums over the call tree in
``harness.analyze.merged_tree``. A missing count is never taken for 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.analyze.call_tree import CallTree
from harness.records.trace import NO_COUNT, Kind

_Ints = npt.NDArray[np.int64]


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
