"""Tasks and interrupts: which of them had the core, and what they took of the events of others.

Each scope has an own context: the task that has the core at its start and at its end, or a program
without tasks. An event's own time (``harness.analyze.ticks.durations``) is its time on the clock
without what other contexts took. Nothing is taken in a log that may lack switches, or whose
switches contradict each other or the scopes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import Ticks, forward, own_scopes, unwrap
from harness.errors import FormatError
from harness.records.trace import NO_CLOCK, NO_NAME, Kind, Trace

_MOST_FAULTS: Final = 1000
_DEEPEST: Final = 256
_MOST_AT_ONCE: Final = 64
"""Most contexts within a tick that are compared with a start or an end."""

_Ints = npt.NDArray[np.int64]

UNKNOWN: Final = -1
"""The program without tasks, or what ran before the log: never counts as taken from anybody."""

SWITCHING: Final = -2
"""Nobody: from the end of a task to the begin of the next one."""

_TIED: Final = -3
"""Several tasks may have the core at both ends of a scope."""


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """Who had the core, and what the events of clock 0 lost to others; one entry per row.

    Attributes:
        time: Ticks of the timeline of clock 0 from which on a context has the core, ascending. At
            the last one the log ends.
        running: That context: twice the index of its name, plus 1 for an interrupt; or UNKNOWN or
            SWITCHING. As long as ``time``.
        own: The own context of each event; UNKNOWN for the program without tasks.
        start: Start of each event on this timeline, int64; 0 for events on other clocks.
        lasted: Ticks from this start to the event's end, int64.
        before: Ticks that others than the event's own context had before this start, int64.
        taken: Ticks that others had from the event's start to its end, uint64.
        faults: Why the switches cannot all be true, in words; nothing is taken then.
        certain: False if it is not known what others took: nothing is taken.
        notes: Sentences on what is not known.
    """

    time: _Ints
    running: _Ints
    own: _Ints
    start: _Ints
    lasted: _Ints
    before: _Ints
    taken: Ticks
    faults: tuple[str, ...]
    certain: bool
    notes: tuple[str, ...]


def contexts(trace: Trace) -> Contexts:
    """Return what is known of the tasks and interrupts of ``trace``."""
    logged = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT))
    switches = logged & (trace.clock == 0)
    try:
        start, end = _instants(trace)
    except FormatError:  # the width of the clock is wrong, which the checks say
        start = end = np.zeros(len(trace), np.int64)
        switches[:] = False
    line = _Switches(trace, start, np.flatnonzero(switches))
    own, before = np.full(len(trace), UNKNOWN), np.zeros(len(trace), np.int64)
    time, after, main = line.time, before.copy(), np.flatnonzero(trace.clock == 0)
    if len(time):
        _find_own(line, start, end, own)
        last = time[-1] if line.gaps else max(time[-1], end[main].max())
        time = np.append(time, last)
    running = np.array([*line.found, UNKNOWN][: len(time)], np.int64)
    reason = line.doubt()
    for context in () if reason or not len(time) else np.unique(own[main]).tolist():
        rows = main[own[main] == context]
        foreign = ~np.isin(running, (context, UNKNOWN))
        before[rows] = elapsed(time, foreign, start[rows])
        after[rows] = elapsed(time, foreign, end[rows])
    notes = [f"what other tasks and interrupts took is unknown, and part of all times: {reason}"]
    notes = notes if reason else []
    if (logged & (trace.clock != 0)).any():
        other = trace.tracer[logged & (trace.clock != 0)]
        which = ", ".join(map(str, np.unique(other).tolist()))
        apart = f"{len(other):,} switches of tracer {which} are on another"
        notes.append(f"{apart} counter than clock 0: what they took is part of all times")
    if line.twins:
        names = ", ".join(sorted(_name(trace, context) for context in line.twins))
        notes.append(f"{names}: begins right after its own end; tasks of one name count as one")
    taken = np.maximum(after - before, 0).astype(np.uint64)
    known = (tuple(line.faults), not reason, tuple(notes))
    return Contexts(time, running, own, start, end - start, before, taken, *known)


def _name(trace: Trace, context: int) -> str:
    """Return a context as text."""
    if context < 0:
        return "a task without a name" if context == UNKNOWN else "the scheduler"
    text, kind = trace.names[context >> 1], "interrupt" if context & 1 else "task"
    return text if text.startswith(f"{kind} ") else f"{kind} {text}"


def _find_own(line: _Switches, start: _Ints, end: _Ints, own: _Ints) -> None:
    """Find the task, or the program, that has the core at both ends of each scope.

    Of several contexts at the tick of a start or an end, it is the one that both have; of several
    of these the usual one of the tracer. Other events are of the scope that follows them.
    """
    trace, held = line.trace, np.array([UNKNOWN, *line.found], np.int64)
    rows = np.flatnonzero(own_scopes(trace) & (trace.clock == 0))
    instants = np.stack([start[rows], end[rows]])
    first = np.searchsorted(line.time, instants, side="left")
    last = np.searchsorted(line.time, instants, side="right")
    begin, finish = held[last[0]], held[first[1]]
    found = np.where(begin == UNKNOWN, finish, begin)
    odd = (begin != finish) & (begin != UNKNOWN) & (finish != UNKNOWN)
    odd |= (found != UNKNOWN) & ((found < 0) | (found & 1 == 1)) | (first != last).any(axis=0)
    tasks = bool((trace.kind == Kind.TASK).any())
    odd |= (begin != finish) & (not tasks)
    for place in np.flatnonzero(odd).tolist():
        both = zip(first[:, place].tolist(), last[:, place].tolist(), strict=True)
        ends = [{*held[low : high + 1][:_MOST_AT_ONCE].tolist()} for low, high in both]
        open_ = [
            {one for end_ in ends for one in end_} if tasks and -1 in at else at for at in ends
        ]
        common = [one for one in open_[0] & open_[1] if one >= 0 and not one & 1]
        found[place] = common[0] if len(common) == 1 else _TIED if common else UNKNOWN
        if not common and UNKNOWN not in ends[0] & ends[1]:
            at, (low, high) = int(rows[place]), (int(begin[place]), int(finish[place]))
            where = f"begins in {_name(trace, low)} and ends in {_name(trace, high)}"
            line.fault(f"{trace.text(int(trace.name[at]))} of tracer {trace.tracer[at]} {where}")
    for tracer in np.unique(trace.tracer[rows]).tolist():
        events, mine = np.flatnonzero(trace.tracer == tracer), trace.tracer[rows] == tracer
        tied, certain = mine & (found == _TIED), found[mine & (found >= 0)]
        if tied.any() and not len(certain):
            line.fault(f"scopes of tracer {tracer} begin and end in the ticks of switches")
        found[tied] = np.bincount(certain).argmax() if len(certain) else UNKNOWN
        scope = np.minimum(np.searchsorted(rows[mine], events), np.count_nonzero(mine) - 1)
        own[events] = found[mine][scope]


def elapsed(time: _Ints, chosen: npt.NDArray[np.bool_], instants: _Ints) -> _Ints:
    """Return the ticks within the chosen intervals before each instant; they begin at ``time``."""
    lengths = np.diff(time, append=time[-1:])
    sums = np.concatenate([[0], np.cumsum(np.where(chosen, lengths, 0))])
    place = np.searchsorted(time, instants, side="right") - 1
    within = np.where(chosen[place], instants - time[place], 0)
    return np.where(place >= 0, sums[place] + within, 0)


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


class _Switches:
    """Replays all switches of clock 0 in order of time.

    Interrupts have the core before tasks, the one that began last before the others. An end without
    its begin, which was before the log, ends nothing.

    Attributes:
        time: The instants of the switches.
        found: Who has the core from each on.
        faults: Which of them cannot be true, in words; none in a log that may lack switches.
        twins: Tasks that begin right after their own end.
        gaps: Tracers of switches that may lack some.
        unnamed: Number of switches without a name.
    """

    def __init__(self, trace: Trace, start: _Ints, rows: _Ints) -> None:
        self.trace, self.found, self.faults = trace, list[int](), list[str]()
        self.twins, self._late = set[int](), dict[int, int]()  # the tick when it must have ended
        self.unnamed = int(np.count_nonzero(trace.name[rows] == NO_NAME))
        tracers = {*trace.tracer[rows].tolist()}
        self.gaps = sorted(tracers if trace.losses.damaged else tracers & {*trace.incomplete})
        dump = np.zeros(len(rows), np.int64)  # a later one does not go on where another ended
        for tracer in tracers:
            mine = trace.tracer[rows] == tracer
            dump[mine] = np.cumsum(np.diff(trace.record[rows[mine]], prepend=0) < 0)
        order = np.lexsort((start[rows], dump))
        rows, dump = rows[order], dump[order]
        self.time = np.maximum.accumulate(start[rows]) if len(rows) else start[:0]
        self._begin_dump()
        columns = (self.time, trace.kind[rows], trace.name[rows], trace.level[rows], dump)
        number = 0
        for at, kind, name, begins, later in zip(*(c.tolist() for c in columns), strict=True):
            if later > number:
                number = later
                self._begin_dump()
            context = 2 * name + (kind == Kind.INTERRUPT) if name != NO_NAME else UNKNOWN
            switch = self._switch_task if kind == Kind.TASK else self._switch_interrupt
            switch(context, at, bool(begins))
            self.found.append(self._active[-1] if self._active else self._task)
        for context in self._late:
            self.fault(f"{_name(trace, context)} goes on when what it interrupted has ended")

    def doubt(self) -> str:
        """Return why it is not known what others took; "" if it is."""
        if self.gaps:
            which = ", ".join(map(str, self.gaps))
            return f"tracer {which}, which logs switches, was paused or has losses"
        if self.unnamed:
            return f"{self.unnamed:,} switches have no name"
        return self.faults[0] if self.faults else ""

    def fault(self, text: str) -> None:
        """Add what cannot be true."""
        if len(self.faults) < _MOST_FAULTS and not self.gaps and not self.unnamed:
            self.faults.append(text)

    def _begin_dump(self) -> None:
        self._active: list[int] = []
        self._seen: set[int] = set()
        self._task = self._ended = UNKNOWN

    def _switch_task(self, context: int, _at: int, begins: bool) -> None:
        had = self._task
        if had not in ((UNKNOWN, SWITCHING) if begins else (UNKNOWN, context)):
            name, holder = _name(self.trace, context), _name(self.trace, had)
            self.fault(f"{name} {'begins' if begins else 'ends'} while {holder} has the core")
        elif begins and had == SWITCHING and context == self._ended:
            self.twins.add(context)
        self._task = context if begins else SWITCHING
        self._ended = UNKNOWN if begins else context

    def _switch_interrupt(self, context: int, at: int, begins: bool) -> None:
        active = self._active
        if self._late.pop(context, at) < at:
            self.fault(f"{_name(self.trace, context)} goes on when what it interrupted has ended")
        if begins:
            if context in active or len(active) == _DEEPEST:
                which = "it has" if context in active else f"{_DEEPEST} others have"
                self.fault(f"{_name(self.trace, context)} begins before {which} ended")
                active.remove(context if context in active else active[0])
            active.append(context)
        elif context in active:
            place = active.index(context)
            self._late = dict.fromkeys(active[place + 1 :], at) | self._late
            del active[place]
        elif context in self._seen or self._task != UNKNOWN:
            self.fault(f"{_name(self.trace, context)} ends without a begin")
        self._seen.add(context)
