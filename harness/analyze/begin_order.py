"""Who is inside whom among events that are known by their begin, on several threads.

The way of the PyTorch profiler: events are replayed in the order of their starts, and each thread
has a stack. It serves what records a begin as it happens: profilers on a host, tasks of an RTOS.
For ETDump logs see ``harness.analyze.postorder_nesting``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).min
"""End of an event that was not seen to end."""

NO_THREAD = 0
"""Forward thread of an event that has none. Thread 0 cannot be one, as in the PyTorch profiler."""


@dataclass(frozen=True, slots=True)
class BeginOrdered:
    """Events in any order. All columns have shape (n,).

    Attributes:
        start: When it started, in ticks or nanoseconds of one clock.
        end: When it ended, or NEVER.
        thread: The thread or task on which it started.
        forward_thread: The thread whose work it carries on (the forward pass of a backward one, the
            task that dispatched it), or NO_THREAD: when nothing is open on its own thread, what is
            open on that one contains it.
        end_thread: The thread on which it ended. That need not be the one on which it started, and
            does not matter to who contains it.
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
    """Who is inside whom, and when it is over. Columns in the order of the events.

    Attributes:
        parent: Index of the event around it, -1 for none.
        end: When it ended. One that was not seen to end inside of another one ended with that; one
            with nothing around it ended when the last of all did.
        finished: False where the end was not seen.
        reversed_events: Events that end before they start, which were taken as instants.
        moved: Events that ended on another thread than they started on.
    """

    parent: _Ints
    end: _Ints
    finished: _Bools
    reversed_events: int
    moved: int


def begin_tree(events: BeginOrdered) -> BeginTree:
    """Replay ``events`` in the order of their starts; equal starts keep their order.

    An event is inside whatever is open on its thread when it starts; an event that ends in the
    very tick in which another starts is still open then. An event that ends closes whatever is open
    within it, on other threads too. Instants contain nothing.
    """
    count = len(events.start)
    replay = _Replay(events)
    for row in np.argsort(events.start, kind="stable").tolist():
        replay.begin(row)
    replay.end_all()
    end = np.array(replay.end, np.int64)
    finished = events.end != NEVER
    last = int(max(events.start.max(initial=0), end.max(initial=0))) if count else 0
    # What is open within an event without an end has that one's end, and that one this.
    end[end == NEVER] = last
    return BeginTree(
        parent=np.array(replay.parent, np.int64),
        end=end,
        finished=finished,
        reversed_events=int(np.count_nonzero(finished & (events.end < events.start))),
        moved=int(np.count_nonzero(finished & (events.end_thread != events.thread))),
    )


class _Replay:
    """The stacks of all threads: the innermost open event of each, with its parents below it."""

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
        # What was open around it is open again, though it may be of another thread.
        if self.parent[row] >= 0:
            self._innermost[thread] = self.parent[row]
        else:
            self._innermost.pop(thread, None)
