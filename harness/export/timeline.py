"""A trace on one clock, in integer nanoseconds: what every drawn format begins with.

Starts and ends are rounded down to whole nanoseconds each, which keeps what is nested nested; the
raw ticks go along. The tracer's own clock counts from its first event. A delegate's clock is not
aligned with it: what a delegate logged in a call is placed in the middle of the call, and how
far it may be from there is said with each event. Nothing is moved that its ticks place already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.clock.ticks import forward, nanoseconds_per_tick
from harness.clock.unwrap import unwrap
from harness.errors import UsageError
from harness.export.lanes import arrange
from harness.export.names import escaped
from harness.program.program import Method
from harness.timebase import ClockDomain
from harness.trace import NO_CLOCK, NO_NAME, Kind, Trace
from harness.view.call_tree import call_tree

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_MAIN: Final = 0
_LATEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Track:
    """A line of the drawing, on which slices are nested or one behind the other.

    Attributes:
        name: What to show beside it.
        tracer: Number of the tracer.
        call: Chain and instruction of the calls of the delegate that it is of; None for the
            tracer's own.
        lane: 0, or from 1 on for what overlaps with others on the same track.
    """

    name: str
    tracer: int
    call: tuple[int, int] | None
    lane: int


@dataclass(frozen=True, slots=True)
class Counter:
    """Live bytes of an allocator over time.

    Attributes:
        name: The allocator's.
        tracer: Number of the tracer.
        time: When it changed, nanoseconds, int64.
        live: Bytes live from then on, int64.
    """

    name: str
    tracer: int
    time: _Ints
    live: _Ints


@dataclass(frozen=True, slots=True)
class Gap:
    """Where something is missing: it happened between these instants, in nanoseconds."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Slices, one per event with a time, in the order in which they begin, outer ones first.

    Attributes:
        trace: What was logged.
        tracks: Lines; ``track`` indexes them.
        row: Row in the trace of each slice.
        start: Nanoseconds from the first event of the trace.
        end: Likewise; never before ``start``.
        track: Its line.
        parent: Slice around it, also on another line, -1 for none.
        depth: Number of slices around it on its line.
        own: Nanoseconds of it that nothing within it takes on the same clock.
        slack: How far it may be from where it is drawn, for events of delegates on clocks of their
            own, nanoseconds; 0 for others.
        flows: Slices of calls of a delegate, and of what the delegate logged in each.
        counters: Live bytes per allocator.
        gaps: What is missing.
        notes: What is not drawn, or where it is had to be assumed, a line each.
    """

    trace: Trace
    tracks: tuple[Track, ...]
    row: _Ints
    start: _Ints
    end: _Ints
    track: _Ints
    parent: _Ints
    depth: _Ints
    own: _Ints
    slack: _Ints
    flows: tuple[tuple[int, int], ...]
    counters: tuple[Counter, ...]
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        """Number of slices."""
        return len(self.row)

    def blocks(self) -> _Ints:
        """Number of the block that each slice is in."""
        ends = np.cumsum([block.count for block in self.trace.blocks])
        return np.searchsorted(ends, self.row, side="right")

    def name(self, number: int) -> str:
        """What to call a slice."""
        return label(self.trace, int(self.row[number]))

    def arguments(self, number: int) -> dict[str, int | str]:
        """What else is known of a slice; integers and text, nothing that is unset."""
        found = event_arguments(self.trace, int(self.row[number]))
        if self.slack[number]:
            found["placed_within_ns"] = int(self.slack[number])
        return found


def draw(trace: Trace, method: Method | None = None) -> Drawing:
    """Place every event that has a time.

    Args:
        trace: What was logged.
        method: The method that was executed, which says what its delegates are called.

    Raises:
        UsageError: The rate of the tracer's clock is unknown, or its time does not fit 63 bits.
        FormatError: The events contradict the width of their counter.
    """
    tree = call_tree(trace)
    parent = tree.parent
    placed = _Placed(trace, parent)
    drawn = np.flatnonzero(placed.drawn)
    number_of = np.full(len(trace) + 1, -1, np.int64)  # the last is what -1 finds
    number_of[drawn] = np.arange(len(drawn))
    _, lines = np.unique(placed.keys(drawn), axis=0, return_inverse=True)
    lines = lines.reshape(-1).astype(np.int64)
    arranged = arrange(placed.start[drawn], placed.end[drawn], number_of[parent[drawn]], lines)
    rows = drawn[arranged.order]
    number_of[rows] = np.arange(len(rows))
    inside = number_of[parent[rows]]
    call = number_of[placed.call[rows]]
    flows = np.flatnonzero((call >= 0) & (call == inside))
    return Drawing(
        trace=trace,
        tracks=_tracks(method, placed.keys(drawn), lines, arranged.tracks),
        row=rows,
        start=placed.start[rows],
        end=placed.end[rows],
        track=arranged.track,
        parent=inside,
        depth=arranged.depth,
        own=_own_nanoseconds(trace, tree.own, rows),
        slack=placed.slack[rows],
        flows=tuple(zip(call[flows].tolist(), flows.tolist(), strict=True)),
        counters=tuple(_counters(trace, placed)),
        gaps=tuple(_gaps(trace, placed)),
        notes=placed.notes(),
    )


def label(trace: Trace, row: int) -> str:
    """What to call an event: its name, else its delegate's id, else what it is."""
    text = trace.text(int(trace.name[row])) or trace.text(int(trace.delegate_str[row]))
    if text:
        return escaped(text)
    if trace.delegate_int[row] != -1:
        return f"[{trace.delegate_int[row]}]"
    return "value" if trace.kind[row] == Kind.DEBUG else "unnamed"


def event_arguments(trace: Trace, row: int) -> dict[str, int | str]:
    """What is known of an event beside its name and time; integers and text, nothing unset."""
    found: dict[str, int | str] = {"event": row}
    for key, unset in (("chain", -1), ("instruction", -1), ("delegate_int", -1)):
        if (value := int(getattr(trace, key)[row])) != unset:
            found[key] = value
    if trace.delegate_str[row] != NO_NAME:
        found["delegate_str"] = escaped(trace.names[trace.delegate_str[row]])
    found |= {"start_ticks": int(trace.start[row]), "end_ticks": int(trace.end[row])}
    found["clock"] = escaped(trace.clocks[trace.clock[row]].name)
    if (metadata := trace.metadata_of(row)) is not None:
        found["metadata"] = metadata.hex()
    return found


def floor_nanoseconds(ticks: _Ints, domain: ClockDomain) -> _Ints:
    """Whole nanoseconds of so many ticks, rounded down.

    Raises:
        UsageError: The rate is unknown, or the result does not fit 63 bits.
    """
    length = nanoseconds_per_tick(domain)
    if length is None:
        raise UsageError(
            f"clock {domain.name!r} has no known rate, so nothing can be drawn on it",
            hint="say what it is with --clock-hz",
        )
    p, q = length.numerator, length.denominator
    if int(np.abs(ticks).max(initial=0)) * p > _LATEST:
        exact = [tick * p // q for tick in ticks.tolist()]
        if max(map(abs, exact), default=0) > _LATEST:
            raise UsageError(f"clock {domain.name!r} spans more nanoseconds than 63 bits hold")
        return np.array(exact, np.int64)
    return ticks * np.int64(p) // np.int64(q)


class _Placed:
    """Where every row of a trace is.

    Attributes:
        start: Nanoseconds, int64; of what ``drawn`` or ``timed`` names.
        end: Likewise.
        slack: How far a delegate's events may be from there.
        drawn: True for rows that become slices.
        timed: True for allocations that have a time.
        delegate: True for events of delegates.
        call: Row of the event of the tracer's own that a delegate's event is in, else -1.
    """

    def __init__(self, trace: Trace, parent: _Ints) -> None:
        self.trace = trace
        count = len(trace)
        profile = trace.kind == Kind.PROFILE
        named = (trace.delegate_int != -1) | (trace.delegate_str != NO_NAME)
        timed = trace.clock != NO_CLOCK
        self.delegate = profile & timed & (named | (trace.clock != _MAIN))
        own = ~self.delegate & (trace.clock == _MAIN)
        self.timed = own & (trace.kind == Kind.ALLOCATION)
        self.slack = np.zeros(count, np.int64)
        self.start, self.end = self._own(own)
        self.call = _outermost(parent, self.delegate)
        self.unplaced = self.delegate & ((self.call < 0) | self._rateless())
        self.moved = self.too_long = 0
        self._place_delegates()
        self.drawn = timed & (trace.kind != Kind.ALLOCATION) & ~self.unplaced
        self.drawn &= own | self.delegate
        self.reversed = int(np.count_nonzero(self.drawn & (self.end < self.start)))
        self.end = np.maximum(self.end, self.start)

    def notes(self) -> tuple[str, ...]:
        """What is not as it should be, a line each."""
        kind = self.trace.kind
        values = int(np.count_nonzero((kind == Kind.DEBUG) & ~self.drawn))
        allocations = int(np.count_nonzero((kind == Kind.ALLOCATION) & ~self.timed))
        unplaced = int(np.count_nonzero(self.unplaced))
        counts = {
            "values without a time": values,
            "allocations without a time": allocations,
            "events of delegates that no call or no known rate places": unplaced,
            "calls whose delegate's events are placed in their middle": self.moved,
            "calls shorter than what their delegate logged in them": self.too_long,
            "events that end before they start, drawn without a length": self.reversed,
        }
        return tuple(f"{number} {what}" for what, number in counts.items() if number)

    def keys(self, rows: _Ints) -> _Ints:
        """What tells lines apart, shape (n, 4).

        Tracer, whether of a delegate, and the chain and instruction of its calls.
        """
        trace, of_delegate, call = self.trace, self.delegate[rows], self.call[rows]
        chain = np.where(of_delegate, trace.chain[call], 0)
        instruction = np.where(of_delegate, trace.instruction[call], 0)
        tracer = trace.tracer[rows].astype(np.int64)
        return np.stack([tracer, of_delegate, chain, instruction], axis=1)

    def _own(self, own: _Bools) -> tuple[_Ints, _Ints]:
        trace = self.trace
        start, end = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
        rows = np.flatnonzero(own)
        if len(rows):
            line = unwrap(_only(trace, own))
            start[rows] = floor_nanoseconds(line.start[rows], trace.clocks[_MAIN])
            end[rows] = floor_nanoseconds(line.end[rows], trace.clocks[_MAIN])
        return start, end

    def _rateless(self) -> _Bools:
        without = [number for number, clock in enumerate(self.trace.clocks) if clock.hz is None]
        return np.isin(self.trace.clock, without)

    def _place_delegates(self) -> None:
        """Place what each call's delegate logged on each clock, as one."""
        trace = self.trace
        rows = np.flatnonzero(self.delegate & ~self.unplaced)
        if not len(rows):
            return
        line = unwrap(_only(trace, self.delegate & ~self.unplaced))
        for number, domain in enumerate(trace.clocks):
            mine = rows[trace.clock[rows] == number]
            if len(mine):
                self.start[mine] = floor_nanoseconds(line.start[mine], domain)
                self.end[mine] = floor_nanoseconds(line.end[mine], domain)
        order = np.lexsort((rows, trace.clock[rows], self.call[rows]))
        rows = rows[order]
        key = np.stack([self.call[rows], trace.clock[rows]])
        borders = np.flatnonzero((np.diff(key) != 0).any(axis=0)) + 1
        for group in np.split(rows, borders):
            self._place_group(group)

    def _place_group(self, group: _Ints) -> None:
        call = int(self.call[group[0]])
        low, high = int(self.start[group].min()), int(self.end[group].max())
        begin, room = int(self.start[call]), int(self.end[call] - self.start[call])
        if (lead := self._lead(call, group)) is not None:
            shift = begin + lead - low
        else:
            spare = room - (high - low)
            shift = begin - low + max(spare, 0) // 2
            self.moved += 1
            self.too_long += spare < 0
            self.slack[group] = (abs(spare) + 1) // 2 if spare >= 0 else -spare
        self.start[group] += shift
        self.end[group] += shift

    def _lead(self, call: int, group: _Ints) -> int | None:
        """Nanoseconds from the start of a call to its delegate's first event.

        None when the delegate's ticks are not the caller's: of another clock, or not within the
        call, as in a file that does not name clocks.
        """
        trace = self.trace
        if trace.clock[group[0]] != _MAIN:
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
    """The same, as if no other rows had a time."""
    return replace(trace, clock=np.where(rows, trace.clock, NO_CLOCK).astype(np.uint8))


def _outermost(parent: _Ints, delegate: _Bools) -> _Ints:
    """For every event of a delegate the first one around it that is none, -1 without."""
    call = np.where(delegate, parent, -1)
    while (inside := np.flatnonzero((call >= 0) & delegate[call])).size:
        call[inside] = parent[call[inside]]
    return call


def _own_nanoseconds(trace: Trace, ticks: npt.NDArray[np.uint64], rows: _Ints) -> _Ints:
    own = np.zeros(len(rows), np.int64)
    for number, domain in enumerate(trace.clocks):
        mine = trace.clock[rows] == number
        if mine.any():
            own[mine] = floor_nanoseconds(ticks[rows[mine]].astype(np.int64), domain)
    return own


def _tracks(
    method: Method | None, keys: _Ints, lines: _Ints, found: tuple[tuple[int, int], ...]
) -> tuple[Track, ...]:
    """What the lines and lanes found are; ``keys`` per slice as ``_Placed.keys`` gives them."""
    if not len(lines):
        return ()
    _, first = np.unique(lines, return_index=True)
    of_line = keys[first].tolist()
    tracks = []
    for line, lane in found:
        tracer, of_delegate, chain, instruction = of_line[line]
        call = (chain, instruction) if of_delegate else None
        name = _delegate_name(method, chain, instruction) if call else f"tracer {tracer}"
        tracks.append(Track(f"{name} (overlapping {lane})" if lane else name, tracer, call, lane))
    return tuple(tracks)


def _delegate_name(method: Method | None, chain: int, instruction: int) -> str:
    called = method.instruction(chain, instruction) if method else None
    name = escaped(called.name) if called and called.name else "delegate"
    return f"{name} of instruction {instruction}" + (f", chain {chain}" if chain else "")


def _counters(trace: Trace, placed: _Placed) -> Iterator[Counter]:
    """Running sums, over the allocations that have a time and succeeded."""
    blocks = np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])
    rows = np.flatnonzero(placed.timed & ~trace.failed)
    groups: dict[tuple[int, str], list[int]] = {}
    for row, block, number in zip(
        rows.tolist(), blocks[rows].tolist(), trace.allocator[rows].tolist(), strict=True
    ):
        declared = trace.blocks[block].allocators
        known = 0 < number <= len(declared)
        name = escaped(declared[number - 1]) if known else f"allocator {number}"
        groups.setdefault((int(trace.tracer[row]), name), []).append(row)
    for (tracer, name), members in groups.items():
        yield Counter(name, tracer, placed.start[members], np.cumsum(trace.size[members]))


def _gaps(trace: Trace, placed: _Placed) -> Iterator[Gap]:
    """Runs given up are missing behind the first block; other losses may be anywhere."""
    rows = np.flatnonzero(placed.drawn)
    if not len(rows):
        return
    first, last = int(placed.start[rows].min()), int(placed.end[rows].max())
    losses = trace.losses
    if losses.runs:
        second = trace.blocks[1].first if len(trace.blocks) > 1 else len(trace)
        before, behind = rows[rows < second], rows[rows >= second]
        start = int(placed.end[before].max(initial=first))
        end = int(placed.start[behind].min()) if len(behind) else last
        yield Gap(f"{losses.runs} runs lost", start, max(start, end))
    for what in ("events", "blocks", "values", "chunks", "records"):
        if count := getattr(losses, what):
            yield Gap(f"{count} {what} lost, somewhere here", first, last)
