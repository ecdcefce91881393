"""Places every event of a trace on one clock: integer nanoseconds from the earliest drawn event.

The tracer's own events are placed by their ticks. A delegate's clock has another zero: its events
are placed in their call, in the middle of the range that all calls of the trace together allow
(``harness.analyze.placement``). Delegate events with ticks of the tracer's clock are not
moved. The drawn formats are an extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.call_tree import call_tree
from harness.analyze.placement import Placement, align_delegate, in_log
from harness.analyze.ticks import Timeline, forward, nanoseconds_per_tick, unwrap
from harness.errors import UsageError
from harness.formatting import escaped
from harness.records.symbols import EventSymbols
from harness.records.trace import NO_CLOCK, ClockDomain, Kind, Trace

if TYPE_CHECKING:
    from harness.records.energy import EventEnergy

Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_MAIN: Final = 0
_LATEST: Final = 2**63 - 1


def floor_nanoseconds(ticks: Ints, domain: ClockDomain) -> Ints:
    """Convert ticks to whole nanoseconds, rounded down.

    Raises:
        UsageError: The rate is unknown, or the result does not fit 63 bits.
    """
    length = nanoseconds_per_tick(domain)
    if length is None:
        raise UsageError(
            f"clock {domain.name!r}: the rate is unknown, so its events cannot be drawn",
            hint="give the rate with --clock-hz",
        )
    p, q = length.numerator, length.denominator
    if int(np.abs(ticks).max(initial=0)) * p > _LATEST:
        exact = [tick * p // q for tick in ticks.tolist()]
        if max(map(abs, exact), default=0) > _LATEST:
            raise _too_long(domain)
        return np.array(exact, np.int64)
    return ticks * np.int64(p) // np.int64(q)


def context_notes(trace: Trace) -> tuple[str, ...]:
    """Return a line for each thing that is not known of tasks and interrupts."""
    if trace.kind.max(initial=0) < Kind.TASK:
        return ()
    from harness.analyze.contexts import contexts

    return tuple(map(escaped, contexts(trace).notes))


def _too_long(domain: ClockDomain) -> UsageError:
    return UsageError(
        f"clock {domain.name!r}: the time span exceeds 63 bits of nanoseconds",
        hint="correct the rate or width of the clock with --clock-hz or --clock-bits",
    )


class Placed:
    """Start and end of every row of a trace on one clock.

    Attributes:
        start: Nanoseconds since the earliest ``drawn`` or ``timed`` row, int64, not negative;
            meaningless for other rows.
        end: Likewise.
        slack: Largest error of the position of a delegate's events, in nanoseconds.
        drawn: True for rows that become slices.
        timed: True for allocations with a time, and for marks, samples, tasks and interrupts.
        delegate: True for delegate events.
        call: Row of the tracer's event that contains a delegate event, else -1.
    """

    def __init__(self, trace: Trace, parent: Ints) -> None:
        self.trace = trace
        count = len(trace)
        profile = trace.kind == Kind.PROFILE
        timed = trace.clock != NO_CLOCK
        on_own = np.isin(trace.clock, trace.own_clocks)
        self.delegate = profile & timed & (trace.delegated | ~on_own)
        own = ~self.delegate & on_own
        instants = trace.kind >= Kind.TASK
        self.timed = own & (instants | (trace.kind == Kind.ALLOCATION))
        self.slack = np.zeros(count, np.int64)
        line = unwrap(_only(trace, own)) if own.any() else None
        self.start, self.end = np.zeros(count, np.int64), np.zeros(count, np.int64)
        loose = line.unplaced if line is not None else ()
        self.loose_tracers = tuple(f"drawn where it may not have been: {why}" for why in loose)
        if line is not None:
            self._place_tracers(line, own)
        self.call = _outermost(parent, self.delegate)
        self.unplaced = self.delegate & ((self.call < 0) | self._rateless())
        self.loose = self.too_long = 0
        if line is not None:
            self._place_delegates(in_log(_only(trace, own), line.start, line.end))
        self.drawn = timed & ~instants & (trace.kind != Kind.ALLOCATION) & ~self.unplaced
        self.drawn &= own | self.delegate
        self.reversed = int(np.count_nonzero(self.drawn & (self.end < self.start)))
        self.end = np.maximum(self.end, self.start)
        self._begin_at_zero()

    def _place_tracers(self, line: Timeline, own: _Bools) -> None:
        """Place the tracers' own events: clock 0 from its zero, other counters behind it."""
        trace = self.trace
        numbers = np.intersect1d(trace.own_clocks, trace.clock[own]).tolist()
        begins = [line.begins[number] if line.begins else None for number in numbers]
        zero, placed = np.zeros(1, np.int64), None not in begins
        for number, begin in zip(numbers, begins, strict=True):
            rows, domain = own & (trace.clock == number), trace.clocks[number]
            ahead = begin if placed and begin is not None else 0
            if number == _MAIN and ahead:
                zero = floor_nanoseconds(np.array([ahead], np.int64), domain)
            self.start[rows] = floor_nanoseconds(line.start[rows] + ahead, domain) - zero
            self.end[rows] = floor_nanoseconds(line.end[rows] + ahead, domain) - zero

    def notes(self) -> tuple[str, ...]:
        """Return a line for each kind of missing or uncertain event."""
        kinds = self.trace.kind
        values = int(np.count_nonzero((kinds == Kind.DEBUG) & ~self.drawn))
        allocations = int(np.count_nonzero((kinds == Kind.ALLOCATION) & ~self.timed))
        unplaced = int(np.count_nonzero(self.unplaced))
        counts = {
            "values without a time": values,
            "allocations without a time": allocations,
            "delegate events without a call or with an unknown clock rate": unplaced,
            "calls with delegate events that may be earlier or later than drawn": self.loose,
            "calls shorter than the delegate events in them": self.too_long,
            "events that end before they start, drawn with zero length": self.reversed,
        }
        notes = [f"{number} {kind}" for kind, number in counts.items() if number]
        return (*notes, *self.loose_tracers, *context_notes(self.trace))

    def keys(self, rows: Ints) -> Ints:
        """Return the key of the line of each row, shape (n, 4).

        Columns: tracer, whether a delegate event, chain and instruction of the delegate's calls.
        """
        trace, of_delegate, call = self.trace, self.delegate[rows], self.call[rows]
        chain = np.where(of_delegate, trace.chain[call], 0)
        instruction = np.where(of_delegate, trace.instruction[call], 0)
        tracer = trace.tracer[rows].astype(np.int64)
        return np.stack([tracer, of_delegate, chain, instruction], axis=1)

    def _begin_at_zero(self) -> None:
        """Shift times to the earliest drawn instant, which may be a delegate event.

        Raises:
            UsageError: The latest is more than 63 bits of nanoseconds later.
        """
        shown = np.flatnonzero(self.drawn | self.timed)
        if not len(shown):
            return
        zero, last = int(self.start[shown].min()), int(self.end[shown].max())
        if last - zero > _LATEST:
            raise _too_long(self.trace.clocks[_MAIN])
        self.start[shown] -= zero
        self.end[shown] -= zero

    def _rateless(self) -> _Bools:
        without = [number for number, clock in enumerate(self.trace.clocks) if clock.hz is None]
        return np.isin(self.trace.clock, without)

    def _place_delegates(self, own: Placement) -> None:
        """Place the events of each call and clock as a group."""
        trace = self.trace
        rows = np.flatnonzero(self.delegate & ~self.unplaced)
        if not len(rows):
            return
        line = unwrap(_only(trace, self.delegate & ~self.unplaced))
        likely, slack = np.full(len(trace), -1, np.int64), np.zeros(len(trace), np.int64)
        for number, domain in enumerate(trace.clocks):
            mine = rows[trace.clock[rows] == number]
            if len(mine):
                self.start[mine] = floor_nanoseconds(line.start[mine], domain)
                self.end[mine] = floor_nanoseconds(line.end[mine], domain)
                if number != _MAIN:
                    self._align(number, own, likely, slack)
        order = np.lexsort((rows, trace.clock[rows], self.call[rows]))
        rows = rows[order]
        key = np.stack([self.call[rows], trace.clock[rows]])
        borders = np.flatnonzero((np.diff(key) != 0).any(axis=0)) + 1
        for group in np.split(rows, borders):
            self._place_group(group, likely, slack)

    def _align(self, clock: int, own: Placement, likely: Ints, slack: Ints) -> None:
        """Estimate the start of events on a delegate's clock, and its largest error.

        Args:
            clock: Index of the clock.
            own: The tracer's own events.
            likely: Estimated start in nanoseconds per row; set for events with bounds.
            slack: Largest error in nanoseconds, likewise.
        """
        times = align_delegate(self.trace, clock, own)
        began, _ = times.placement.instants(times.alignment)
        rows, main = times.placement.rows[began.known], self.trace.clocks[_MAIN]
        likely[rows] = floor_nanoseconds(began.mid[began.known], main)
        widths = (began.high - began.low)[began.known]
        slack[rows] = floor_nanoseconds(widths // 2 + 1, main) + 1

    def _place_group(self, group: Ints, likely: Ints, slack: Ints) -> None:
        call, first = int(self.call[group[0]]), int(group[np.argmin(self.start[group])])
        low, high = int(self.start[first]), int(self.end[group].max())
        begin, room = int(self.start[call]), int(self.end[call] - self.start[call])
        if (lead := self._lead(call, group)) is not None:
            at = begin + lead
        else:
            spare = room - (high - low)
            latest = begin + max(spare, 0)
            middle, within = (begin + latest) // 2, (abs(spare) + 1) // 2
            if likely[first] >= 0 and spare >= 0 and slack[first] < within:
                middle, within = min(max(int(likely[first]), begin), latest), int(slack[first])
            self.slack[group] = within if spare >= 0 else -spare
            self.loose += 1
            self.too_long += spare < 0
            at = middle
        if at + (high - low) > _LATEST:
            raise _too_long(self.trace.clocks[_MAIN])
        self.start[group] = self.start[group] - low + at
        self.end[group] = self.end[group] - low + at

    def _lead(self, call: int, group: Ints) -> int | None:
        """Return the nanoseconds from the start of a call to its first delegate event.

        None if the delegate's ticks are not of the caller's clock: they have another clock, or are
        outside of the call, as in a file without clocks. Also None if the call ends before it
        starts.
        """
        trace = self.trace
        if trace.clock[group[0]] != _MAIN or self.end[call] < self.start[call]:
            return None
        clock = trace.clocks[_MAIN]
        begin = trace.start[[call]]
        whole = forward(clock, begin, trace.end[[call]])
        starts = forward(clock, begin, trace.start[group])
        ends = forward(clock, begin, trace.end[group])
        if (ends > whole).any() or (starts > ends).any():
            return None
        return int(floor_nanoseconds(starts.min(keepdims=True).astype(np.int64), clock)[0])


def _only(trace: Trace, rows: _Bools) -> Trace:
    """Return the trace without the times of all other rows."""
    return replace(trace, clock=np.where(rows, trace.clock, NO_CLOCK).astype(np.uint8))


def _outermost(parent: Ints, delegate: _Bools) -> Ints:
    """For each delegate event, return its nearest non-delegate ancestor (-1: none)."""
    call = np.where(delegate, parent, -1)
    while (inside := np.flatnonzero((call >= 0) & delegate[call])).size:
        call[inside] = parent[call[inside]]
    return call


Symbols = Sequence[EventSymbols | None] | None
"""The ETRecord data of every event of a trace; None without an ETRecord."""


def place_columns(
    trace: Trace, symbols: Symbols = None
) -> tuple[dict[str, list[int | None] | list[str | None]], tuple[str, ...]]:
    """Return the columns by name, and lines on what is not on a common timeline.

    ``start_ns`` is the start of each event in nanoseconds from the earliest one, on the timeline of
    the drawn formats: with unwrapped counters, and the events of delegates within their calls. With
    an ETRecord, ``module`` and ``module_type`` are the innermost module around an event. Cells are
    None where it is unknown.
    """
    starts, notes = _starts(trace)
    columns: dict[str, list[int | None] | list[str | None]] = {"start_ns": starts}
    if symbols is not None:
        places = [module_place(known) for known in symbols]
        for name in ("module", "module_type"):
            columns[name] = [place.get(name) for place in places]
    return columns, notes


def _starts(trace: Trace) -> tuple[list[int | None], tuple[str, ...]]:
    try:
        placed = Placed(trace, call_tree(trace).parent)
    except UsageError as error:
        return [None] * len(trace), (f"no start_ns: {error}",)
    known = (placed.drawn | placed.timed).tolist()
    starts = zip(placed.start.tolist(), known, strict=True)
    return [start if here else None for start, here in starts], placed.loose_tracers


def module_place(known: EventSymbols | None) -> dict[str, str]:
    """Return path and class of the innermost module around an event, as far as they are known."""
    if known is None or not known.module:
        return {}
    module = known.module[-1]
    path = {"module": escaped(module.path)} if module.path else {}  # "" is the model itself
    return path | {"module_type": escaped(module.type)}


def energy_columns(energy: EventEnergy) -> dict[str, list[float | None]]:
    """Return the columns of a table; an event without bounds has None."""
    found = {
        "joules": (energy.low + energy.high) / 2,
        "joules_bound": (energy.high - energy.low) / 2,
        "average_amperes": energy.amperes,
        "peak_amperes": energy.peak,
    }
    known = energy.known.tolist()
    return {
        name: [value if here else None for value, here in zip(values.tolist(), known, strict=True)]
        for name, values in found.items()
    }
