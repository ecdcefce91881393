"""Nests events that are recorded when they start, on several threads.

Uses the algorithm of the PyTorch profiler: events are replayed in the order of their starts, with a
stack per thread. It applies to recorders of start times, such as profilers on a host and RTOS task
traces. For ETDump logs see ``harness.analyze.call_tree``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).min
"""End of an event without a recorded end."""

NO_THREAD = 0
"""Forward thread of events without one; thread 0 is reserved, as in the PyTorch profiler."""


@dataclass(frozen=True, slots=True)
class BeginOrdered:
    """Events in any order. All columns have shape (n,).

    Attributes:
        start: When it started, in ticks or nanoseconds of one clock.
        end: When it ended, or NEVER.
        thread: The thread or task on which it started.
        forward_thread: The thread whose work it continues (the forward pass of a backward one, the
            task that dispatched it), or NO_THREAD. If no event is open on its own thread, the
            innermost open event of this thread is its parent.
        end_thread: The thread on which it ended, possibly another one; does not affect nesting.
    """

    start: _Ints
    end: _Ints
    thread: _Ints
    forward_thread: _Ints
    end_thread: _Ints

    def __post_init__(self) -> None:
        columns = (self.start, self.end, self.thread, self.forward_thread, self.end_thread)
        if len({column.shape for column in columns}) != 1:
            raise ValueError("columns of different lengths")


@dataclass(frozen=True, slots=True)
class BeginTree:
    """Nesting and ends of events. Columns in the order of the events.

    Attributes:
        parent: Index of the enclosing event, -1 without one.
        end: End of the event. Without a recorded end, an event ends with its parent; without a
            parent, at the last instant of all events.
        finished: False for events without a recorded end.
        reversed_events: Number of events that end before they start; treated as instants.
        moved: Number of events that ended on another thread than they started on.
    """

    parent: _Ints
    end: _Ints
    finished: _Bools
    reversed_events: int
    moved: int


def begin_tree(events: BeginOrdered) -> BeginTree:
    """Nest ``events`` by replaying them in start order; equal starts keep their order.

    The parent of an event is the innermost open event of its thread. An event that ends in the tick
    in which another starts is still open then. The end of an event closes all events open within
    it, also on other threads. Instants have no children.
    """
    count = len(events.start)
    replay = _Replay(events)
    for row in np.argsort(events.start, kind="stable").tolist():
        replay.begin(row)
    replay.end_all()
    end = np.array(replay.end, np.int64)
    finished = events.end != NEVER
    last = int(max(events.start.max(initial=0), end.max(initial=0))) if count else 0
    # Unfinished events inherited NEVER from unfinished parents: they end at the last instant.
    end[end == NEVER] = last
    return BeginTree(
        parent=np.array(replay.parent, np.int64),
        end=end,
        finished=finished,
        reversed_events=int(np.count_nonzero(finished & (events.end < events.start))),
        moved=int(np.count_nonzero(finished & (events.end_thread != events.thread))),
    )


class _Replay:
    """The stacks of all threads: the innermost open event of each, linked to its parents."""

    def __init__(self, events: BeginOrdered) -> None:
        self.start = events.start.tolist()
        self.end = events.end.tolist()
        self._thread = events.thread.tolist()
        self._forward = events.forward_thread.tolist()
        self.parent = [-1] * len(self.start)
        self._closed = [False] * len(self.start)
        self._innermost: dict[int, int] = {}
        self._ends: list[tuple[int, int]] = []

    def begin(self, row: int) -> None:
        now, thread = self.start[row], self._thread[row]
        while self._ends and self._ends[0][0] < now:
            self._close(heapq.heappop(self._ends)[1])
        parent = self._innermost.get(thread, -1)
        if parent < 0 and self._forward[row] != NO_THREAD:
            parent = self._innermost.get(self._forward[row], -1)
        self.parent[row] = parent
        if self.end[row] == NEVER:
            self._innermost[thread] = row
        elif self.end[row] > now:
            self._innermost[thread] = row
            heapq.heappush(self._ends, (self.end[row], row))
        else:
            self._closed[row] = True

    def end_all(self) -> None:
        while self._ends:
            self._close(heapq.heappop(self._ends)[1])

    def _close(self, row: int) -> None:
        if self._closed[row]:
            return
        thread = self._thread[row]
        closing = [self._innermost.get(thread, row)]
        while closing[-1] != row:
            closing.append(self.parent[closing[-1]])
        for inner in reversed(closing):
            self._closed[inner] = True
            if self.end[inner] == NEVER:
                self.end[inner] = self.end[self.parent[inner]]
        # The parent becomes the innermost open event again, even if it is of another thread.
        if self.parent[row] >= 0:
            self._innermost[thread] = self.parent[row]
        else:
            self._innermost.pop(thread, None)
