"""Tasks and interrupts: which of them had the core, and what they took of the events of others.

A tracer logs the work of one task, of one interrupt, or of a program without tasks: its own
context, the one that had the core at most of the starts and ends of its scopes. An event's own time
(``harness.analyze.ticks.durations``) is its time on the clock without what other contexts took.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import Ticks, forward, own_scopes, unwrap
from harness.errors import FormatError
from harness.records.trace import NO_CLOCK, NO_NAME, Kind, Trace

_Ints = npt.NDArray[np.int64]

UNKNOWN: Final = -1
"""The program without tasks, or what ran before the log: never counts as taken from anybody."""

SWITCHING: Final = -2
"""Nobody: from the end of a task to the begin of the next one."""


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """Who had the core, and what the events of clock 0 lost to others; one entry per row.

    Attributes:
        time: Ticks of the timeline of clock 0 from which on a context has the core, ascending.
        running: That context: twice the index of its name, plus 1 for an interrupt; or UNKNOWN or
            SWITCHING. As long as ``time``.
        own: The own context of each tracer that has scopes.
        start: Start of each event on this timeline, int64; 0 for events on other clocks.
        lasted: Ticks from this start to the event's end, int64.
        before: Ticks that others than the tracer's own context had before this start, int64.
        taken: Ticks that others had from the event's start to its end, uint64.
    """

    time: _Ints
    running: _Ints
    own: dict[int, int]
    start: _Ints
    lasted: _Ints
    before: _Ints
    taken: Ticks


def contexts(trace: Trace) -> Contexts:
    """Return what is known of the tasks and interrupts of ``trace``."""
    switches = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT)) & (trace.clock == 0)
    try:
        start, end = _instants(trace)
    except FormatError:  # the width of the clock is wrong, which the checks say
        start = end = np.zeros(len(trace), np.int64)
        switches[:] = False
    time, running = _running(trace, start, switches)
    own: dict[int, int] = {}
    before, after = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
    scopes = own_scopes(trace) & (trace.clock == 0)
    tasks = bool((trace.kind == Kind.TASK).any())
    for tracer in np.unique(trace.tracer[scopes]).tolist() if len(time) else ():
        rows = np.flatnonzero((trace.tracer == tracer) & (trace.clock == 0))
        mine = rows[scopes[rows]]
        at = _holders(time, running, np.concatenate([start[mine], end[mine]]))
        found, counts = np.unique(at[(at != UNKNOWN) | (not tasks)], return_counts=True)
        own[tracer] = int(found[np.argmax(counts)]) if len(found) else UNKNOWN
        foreign = ~np.isin(running, (own[tracer], UNKNOWN))
        before[rows] = elapsed(time, foreign, start[rows])
        after[rows] = elapsed(time, foreign, end[rows])
    taken = np.maximum(after - before, 0).astype(np.uint64)
    return Contexts(time, running, own, start, end - start, before, taken)


def elapsed(time: _Ints, chosen: npt.NDArray[np.bool_], instants: _Ints) -> _Ints:
    """Return the ticks within the chosen intervals before each instant; they begin at ``time``."""
    lengths = np.diff(time, append=time[-1:])
    sums = np.concatenate([[0], np.cumsum(np.where(chosen, lengths, 0))])
    place = np.searchsorted(time, instants, side="right") - 1
    within = np.where(chosen[place], instants - time[place], 0)
    return np.where(place >= 0, sums[place] + within, 0)


def _holders(time: _Ints, running: _Ints, instants: _Ints) -> _Ints:
    """Return who has the core at each instant; UNKNOWN before the first switch."""
    place = np.searchsorted(time, instants, side="right") - 1
    return np.where(place >= 0, running[place], UNKNOWN)


def _instants(trace: Trace) -> tuple[_Ints, _Ints]:
    """Return start and end of every event of clock 0 on one timeline.

    Delegates may log their events late, so these are placed before the next scope by its reading.
    """
    main = trace.clock == 0
    placed = main & ~((trace.kind == Kind.PROFILE) & trace.delegated)
    clocks = np.where(placed, trace.clock, NO_CLOCK).astype(np.uint8)
    line = unwrap(replace(trace, clock=clocks))
    start, end = np.where(placed, line.start, 0), np.where(placed, line.end, 0)
    scopes, late = np.flatnonzero(own_scopes(trace) & main), np.flatnonzero(main & ~placed)
    following = np.searchsorted(scopes, late)
    late, scope = late[following < len(scopes)], scopes[following[following < len(scopes)]]
    same = trace.tracer[late] == trace.tracer[scope]
    late, scope = late[same], scope[same]
    for instants, readings in ((start, trace.start), (end, trace.end)):
        gap = forward(trace.clocks[0], readings[late], trace.end[scope]) if len(late) else 0
        instants[late] = end[scope] - np.asarray(gap).astype(np.int64)
    return start, end


def _running(trace: Trace, start: _Ints, switches: npt.NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    """Return the instants of all switches in order of time, and who has the core from each on.

    Interrupts have it before tasks, the one that began last before the others. An end without its
    begin, which was before the log, ends nothing. An interrupt that begins twice has ended.
    """
    rows = np.flatnonzero(switches)
    rows = rows[np.argsort(start[rows], kind="stable")]
    interrupts: list[int] = []
    task, found = UNKNOWN, []
    columns = (trace.kind, trace.name, trace.level)
    for kind, name, begins in zip(*(column[rows].tolist() for column in columns), strict=True):
        context = 2 * name + (kind == Kind.INTERRUPT) if name != NO_NAME else UNKNOWN
        if kind == Kind.TASK:
            task = context if begins else SWITCHING
        else:
            if context in interrupts:
                del interrupts[interrupts.index(context) :]
            interrupts += [context] * bool(begins)
        found.append(interrupts[-1] if interrupts else task)
    ends = start[rows][-1:] if set(trace.full) & set(trace.tracer[rows].tolist()) else start[:0]
    time = np.concatenate([start[rows], ends])  # after a log that was full, nothing is known
    return time, np.array([*found, *[UNKNOWN] * len(ends)], np.int64)
