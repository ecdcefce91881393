"""A trace drawn on one clock in integer nanoseconds; the basis of all timeline formats.

Starts and ends are each rounded down to whole nanoseconds, which preserves nesting. Raw ticks are
kept beside them. Viewers nest by time alone and drop slices that overlap partly. So slices that
would nest otherwise than in the call tree, or overlap, move to a lane of their own.

On the same clock are the phases of the run, the current of a meter, marks, counters of the
application, and when each task and each interrupt had the core.

Slices are called by operator and instruction, or by delegate and its event. The exact name of the
event stands in the slice's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, blocks_of
from harness.analyze.call_tree import CallTree, call_tree
from harness.analyze.contexts import contexts
from harness.analyze.memory import allocator_rows
from harness.analyze.workload import Arguments
from harness.analyze.workload import event_arguments as operands_of
from harness.decode.program import Call, Method
from harness.extensions.exports.event_times import Ints, Placed, floor_nanoseconds, module_place
from harness.extensions.exports.events import count_column
from harness.formatting import OperatorKind, counted, escaped, operator_kind, operator_title
from harness.records.result import RunIdentity
from harness.records.symbols import EventSymbols
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    LOADING,
    NO_COUNT,
    NO_NAME,
    OPERATOR_CALL,
    Kind,
    Trace,
    is_wrapper,
)

if TYPE_CHECKING:
    from harness.records.energy import EventEnergy, MeasuredEnergy


def arrange(
    start: Ints, end: Ints, parent: Ints, lines: Ints
) -> tuple[Ints, Ints, Ints, tuple[tuple[int, int], ...]]:
    """Assign a lane to each slice.

    Args:
        start: Start of each slice.
        end: End of each slice, not before its start.
        parent: Enclosing slice, -1 without one.
        lines: Line of each slice, numbers from 0.

    Returns:
        Slices by start, outer slices first: starts and ends written in this order, inner ends
        first, are in order of time on each track. Then in this order the track of each slice, and
        the number of enclosing slices on it; and line and lane of each track.
    """
    order = sorted(_outer_first(start, end, parent), key=start.tolist().__getitem__)
    starts, ends, parents, wanted = (x.tolist() for x in (start, end, parent, lines))
    # Of each line and lane the open slices, outermost first.
    lanes: list[list[list[int]]] = [[] for _ in range(int(lines.max(initial=-1)) + 1)]
    lane_of = [0] * len(order)
    depth = [0] * len(order)
    for slice_ in order:
        line = lanes[wanted[slice_]]
        around = parents[slice_]
        held = around >= 0 and wanted[around] == wanted[slice_]
        preferred = lane_of[around] if held else 0
        for lane in [preferred, *(n for n in range(len(line) + 1) if n != preferred)]:
            if lane == len(line):
                line.append([])
            stack = line[lane]
            while (
                stack and ends[stack[-1]] <= starts[slice_] and not (held and stack[-1] == around)
            ):
                stack.pop()
            top = stack[-1] if stack else -1
            if top == -1 or (held and top == around and ends[slice_] <= ends[top]):
                break
        lane_of[slice_] = lane
        depth[slice_] = len(stack)
        stack.append(slice_)
    found = sorted({(wanted[slice_], lane_of[slice_]) for slice_ in order})
    number = {track: index for index, track in enumerate(found)}
    tracks = [number[wanted[slice_], lane_of[slice_]] for slice_ in order]
    depths = [depth[slice_] for slice_ in order]
    ordered, track, enclosing = (np.array(x, np.int64) for x in (order, tracks, depths))
    return ordered, track, enclosing, tuple(found)


def _outer_first(start: Ints, end: Ints, parent: Ints) -> list[int]:
    """Return all slices depth-first; siblings by start, then by end, then in log order."""
    children: list[list[int]] = [[] for _ in range(len(parent) + 1)]  # the last entry: roots
    for slice_ in np.lexsort((end, start))[::-1].tolist():
        children[parent[slice_]].append(slice_)
    order: list[int] = []
    stack = children[-1]
    while stack:
        slice_ = stack.pop()
        order.append(slice_)
        stack += children[slice_]
    return order


@dataclass(frozen=True, slots=True)
class Track:
    """A line of the drawing, with nested or consecutive slices.

    Attributes:
        name: Display name.
        tracer: Number of the tracer.
        call: Chain and instruction of the delegate calls it shows; None for the tracer's events.
        lane: 0; from 1 on for slices that overlap others on the same line.
    """

    name: str
    tracer: int
    call: tuple[int, int] | None
    lane: int


@dataclass(frozen=True, slots=True)
class Counter:
    """Live bytes of an allocator over time, running total of a hardware counter, the current, or
    samples of a counter of the application.

    Attributes:
        name: Name of the allocator or of the counter.
        tracer: Number of the tracer.
        time: Times of changes in nanoseconds, int64.
        value: Value from each time on, int64; float64 for samples that are no integers.
        unit: What it counts.
    """

    name: str
    tracer: int
    time: Ints
    value: Ints | npt.NDArray[np.float64]
    unit: Literal["bytes", "count", "uA", "value"] = "bytes"

    @property
    def title(self) -> str:
        """Its name, with the tracer number except for tracer 0."""
        return f"{self.name} of tracer {self.tracer}" if self.tracer else self.name


@dataclass(frozen=True, slots=True)
class Gap:
    """A loss of events between two instants, in nanoseconds."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Slices, one per event with a time, in order of start, outer slices first.

    Attributes:
        trace: The trace.
        tracks: The lines; ``track`` indexes them.
        row: Row of each slice in the trace.
        start: Nanoseconds from the earliest drawn instant, slice or allocation.
        end: Likewise; not before ``start``.
        track: Index of its line.
        parent: Enclosing slice, possibly on another line, -1 without one.
        depth: Number of enclosing slices on its line.
        own: Self time on the same clock, in nanoseconds.
        taken: What other tasks and interrupts took from its start to its end, in nanoseconds; the
            length of the slice contains it.
        titles: Display name and kind of each slice.
        phases: Loading and executions.
        given: Inputs and outputs, if the model is known and the slice executes an instruction
            itself, not as a wrapper.
        slack: Largest error of its position in nanoseconds, for delegate events with their own
            clock; 0 for others.
        flows: Pairs of slices: a delegate call, and a delegate event in it.
        counters: Live bytes per allocator, then running totals of hardware counters, the current,
            and counters of the application.
        marks: Named instants.
        contexts: When each task and each interrupt had the core, in order of time.
        gaps: Losses.
        notes: A line for each kind of missing or uncertain event.
        energy: The energy of the events; None without a meter.
        symbols: The ETRecord data of every event of the trace; None without an ETRecord.
    """

    trace: Trace
    tracks: tuple[Track, ...]
    row: Ints
    start: Ints
    end: Ints
    track: Ints
    parent: Ints
    depth: Ints
    own: Ints
    taken: Ints
    titles: Sequence[SliceTitle]
    phases: tuple[RunPhase, ...]
    given: tuple[Arguments | None, ...]
    slack: Ints
    flows: tuple[tuple[int, int], ...]
    counters: tuple[Counter, ...]
    marks: tuple[RunPhase, ...]
    contexts: tuple[RunPhase, ...]
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]
    energy: MeasuredEnergy | None = None
    symbols: Sequence[EventSymbols | None] | None = None

    def __len__(self) -> int:
        """Number of slices."""
        return len(self.row)

    def blocks(self) -> Ints:
        """Return the block number of each slice."""
        return block_numbers(self.trace)[self.row]

    def name(self, number: int) -> str:
        """Return the exact name of a slice's event, as analyses and other exports know it."""
        return label(self.trace, int(self.row[number]))

    def arguments(self, number: int) -> dict[str, int | str]:
        """Return further data of a slice as integers and text, without unset fields."""
        found = event_arguments(self.trace, int(self.row[number]))
        if (given := self.given[number]) is not None:
            found["operator"] = escaped(given.instruction.name)
            found["inputs"] = ", ".join(item.text for item in given.inputs)
            found["outputs"] = ", ".join(item.text for item in given.outputs)
        if self.symbols is not None:
            found |= module_place(self.symbols[self.row[number]])
        if self.energy is not None:
            found |= energy_arguments(self.energy.events, int(self.row[number]))
        if self.slack[number]:
            found["placed_within_ns"] = int(self.slack[number])
        return found


def draw(
    trace: Trace,
    method: Method | None = None,
    energy: MeasuredEnergy | None = None,
    symbols: Sequence[EventSymbols | None] | None = None,
    *,
    wrappers: bool = False,
) -> Drawing:
    """Return the drawing of all events that have a time.

    Args:
        trace: The trace.
        method: The executed method, for operands and names of delegates.
        energy: The energy of the events; None without a meter.
        symbols: The ETRecord data of every event; None without an ETRecord.
        wrappers: Draw the runtime's scopes that only repeat the time of the kernel within them.
            Without them their own time is that of the scope around them.

    Raises:
        NotComparableError: The trace is not of this method.
        UsageError: The rate of the tracer's clock is unknown, or its time does not fit 63 bits.
        FormatError: The events contradict the width of their counter.
    """
    arguments = operands_of(trace, blocks_of(trace, method)) if method else None
    tree = call_tree(trace)
    placed = Placed(trace, tree.parent)
    parent, own_ticks, folded = tree.parent, tree.own, np.zeros(len(trace), np.bool_)
    if not wrappers:
        parent, own_ticks, folded = _without_wrappers(tree, placed)
    drawn = np.flatnonzero(placed.drawn & ~folded)
    number_of = np.full(len(trace) + 1, -1, np.int64)  # the last is what -1 finds
    number_of[drawn] = np.arange(len(drawn))
    _, lines = np.unique(placed.keys(drawn), axis=0, return_inverse=True)
    lines = lines.reshape(-1).astype(np.int64)
    order, track, depth, tracks = arrange(
        placed.start[drawn], placed.end[drawn], number_of[parent[drawn]], lines
    )
    rows = drawn[order]
    number_of[rows] = np.arange(len(rows))
    inside = number_of[parent[rows]]
    call = number_of[placed.call[rows]]
    flows = np.flatnonzero((call >= 0) & (call == inside))
    start, end = placed.start[rows], placed.end[rows]
    of_delegate = placed.delegate[rows]
    own = np.flatnonzero(~of_delegate)
    return Drawing(
        trace=trace,
        tracks=_tracks(arguments, drawn, placed.keys(drawn), lines, tracks),
        row=rows,
        start=start,
        end=end,
        track=track,
        parent=inside,
        depth=depth,
        own=_nanoseconds(trace, own_ticks, rows),
        taken=_nanoseconds(trace, tree.taken, rows),
        titles=slice_titles(trace, rows, of_delegate, arguments, symbols),
        phases=find_phases(trace, rows[own], block_numbers(trace)[rows[own]], start[own], end[own]),
        given=_given(trace, placed, rows, arguments),
        slack=placed.slack[rows],
        flows=tuple(zip(call[flows].tolist(), flows.tolist(), strict=True)),
        counters=(
            *_counters(trace, placed),
            *_hardware_counters(trace, placed, tree.parent),
            *_current(energy, placed),
            *_samples(trace, placed),
        ),
        marks=tuple(
            RunPhase(label(trace, row), int(trace.tracer[row]), at, at)
            for row in np.flatnonzero(placed.timed & (trace.kind == Kind.MARK)).tolist()
            for at in (int(placed.start[row]),)
        ),
        contexts=tuple(_core_spans(trace, placed)),
        gaps=tuple(_gaps(trace, placed)),
        notes=(*placed.notes(), *_folded_note(int(folded.sum()))),
        energy=energy,
        symbols=symbols,
    )


WITHOUT_WRAPPERS, WITH_WRAPPERS = WRAPPER_FLAVOURS = ("kernels", "scopes")
"""Flavours of drawn formats: without the scopes around kernels, and with them."""


def _without_wrappers(
    tree: CallTree, placed: Placed
) -> tuple[Ints, npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return parents and self times without wrappers of drawn events, and which these are."""
    trace, parent, own = tree.trace, tree.parent.copy(), tree.own.copy()
    inside = np.unique(parent[placed.drawn & (parent >= 0)])
    folded = np.zeros(len(trace), np.bool_)
    folded[inside] = trace.named(*filter(is_wrapper, trace.names), rows=inside)
    while (within := (parent >= 0) & folded[parent]).any():
        parent[within] = tree.parent[parent[within]]
    rows = np.flatnonzero(folded & (parent >= 0))
    rows = rows[trace.clock[rows] == trace.clock[parent[rows]]]
    np.add.at(own, parent[rows], tree.own[rows])
    return parent, own, folded


def _folded_note(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    scopes = counted(count, "scope")
    return (f"{scopes} around kernels, whose time they repeat; --flavour {WITH_WRAPPERS} has them",)


def process_name(identity: RunIdentity) -> str:
    """Return the name of the process that a run is drawn as."""
    if not identity.board:
        return "target"
    return escaped(f"{identity.model} on {identity.board}" if identity.model else identity.board)


def process_labels(identity: RunIdentity) -> list[str]:
    """Return the identity of a run, a text for each part that is known."""
    return [escaped(f"{name}: {text}") for name, text in identity.texts().items() if text]


def event_arguments(trace: Trace, row: int) -> dict[str, int | str]:
    """Return the data of an event except its time, as integers and text, without unset."""
    found: dict[str, int | str] = {"event": row}
    if (name := trace.text(int(trace.name[row]))) is not None:
        found["name"] = escaped(name)
    for key, unset in (("chain", -1), ("instruction", -1), ("delegate_int", -1)):
        if (value := int(getattr(trace, key)[row])) != unset:
            found[key] = value
    if trace.delegate_str[row] != NO_NAME:
        found["delegate_str"] = escaped(trace.names[trace.delegate_str[row]])
    for number, counter in enumerate(trace.counters):
        if (count := int(trace.counts[row, number])) != NO_COUNT:
            found[count_column(escaped(counter.name))] = count
    found |= {"start_ticks": int(trace.start[row]), "end_ticks": int(trace.end[row])}
    found["clock"] = escaped(trace.clocks[trace.clock[row]].name)
    if (metadata := trace.metadata_of(row)) is not None:
        found["metadata"] = metadata.hex()
    return found


def _given(
    trace: Trace,
    placed: Placed,
    rows: Ints,
    found: Sequence[Arguments | None] | None,
) -> tuple[Arguments | None, ...]:
    """Return inputs and outputs of the rows that execute an instruction themselves."""
    if found is None:
        return (None,) * len(rows)
    executes = (trace.kind == Kind.PROFILE) & ~placed.delegate & ~trace.named(OPERATOR_CALL)
    return tuple(found[row] if executes[row] else None for row in rows.tolist())


def _nanoseconds(trace: Trace, ticks: npt.NDArray[np.uint64], rows: Ints) -> Ints:
    own = np.zeros(len(rows), np.int64)
    for number, domain in enumerate(trace.clocks):
        mine = trace.clock[rows] == number
        if mine.any():
            own[mine] = floor_nanoseconds(ticks[rows[mine]].astype(np.int64), domain)
    return own


def _tracks(
    arguments: Sequence[Arguments | None] | None,
    rows: Ints,
    keys: Ints,
    lines: Ints,
    found: tuple[tuple[int, int], ...],
) -> tuple[Track, ...]:
    """Return the tracks of lines and lanes; ``keys`` per row as from ``Placed.keys``."""
    if not len(lines):
        return ()
    _, first = np.unique(lines, return_index=True)
    of_line = keys[first].tolist()
    tracks = []
    for line, lane in found:
        tracer, of_delegate, chain, instruction = of_line[line]
        call = (chain, instruction) if of_delegate else None
        known = arguments[rows[first[line]]] if arguments else None
        name = _track_name(known, tracer, call)
        tracks.append(Track(f"{name} (overlapping {lane})" if lane else name, tracer, call, lane))
    return tuple(tracks)


def _track_name(known: Arguments | None, tracer: int, call: tuple[int, int] | None) -> str:
    """Return a name by which the tracks of delegates sort behind that of their tracer."""
    if call is None:
        return f"operators of tracer {tracer}" if tracer else "operators"
    name = escaped(known.instruction.name) if known and known.instruction.name else "delegate"
    chain, instruction = call
    return f"operators in {name} #{instruction}" + (f", chain {chain}" if chain else "")


def _counters(trace: Trace, placed: Placed) -> Iterator[Counter]:
    """Yield the running sums of successful allocations with a time."""
    succeeded = placed.timed & ~trace.failed
    for allocator, found in allocator_rows(trace).items():
        rows = np.array(found, np.int64)
        rows = rows[succeeded[rows]]
        for tracer in np.unique(trace.tracer[rows]).tolist():
            own = rows[trace.tracer[rows] == tracer]
            live = np.cumsum(trace.size[own])
            yield Counter(escaped(allocator.label), tracer, placed.start[own], live)


def _hardware_counters(trace: Trace, placed: Placed, parent: Ints) -> Iterator[Counter]:
    """Yield the running totals of hardware counters over the innermost events that have a count.

    A total rises during an event by what the event counted. Where between its start and its end is
    unknown, so two points say it. What a scope counted outside of its children is not in the total.
    """
    for number, counter in enumerate(trace.counters):
        recorded = placed.drawn & (trace.counts[:, number] != NO_COUNT)
        around = np.unique(parent[recorded & (parent >= 0)])
        recorded[around] = False
        for tracer in np.unique(trace.tracer[recorded]).tolist():
            rows = np.flatnonzero(recorded & (trace.tracer == tracer))
            rows = rows[np.argsort(placed.start[rows], kind="stable")]
            counts = trace.counts[rows, number]
            total = np.cumsum(counts)
            time = np.stack([placed.start[rows], placed.end[rows]], axis=1).ravel()
            value = np.stack([total - counts, total], axis=1).ravel()
            # Ticks as coarse as the events can overlap them; a total never falls.
            time = np.maximum.accumulate(time)
            yield Counter(escaped(counter.name), tracer, time, value, "count")


def _current(energy: MeasuredEnergy | None, placed: Placed) -> Iterator[Counter]:
    """Yield the current, if it was measured."""
    if energy is not None:
        yield Counter("current [uA]", 0, *current_points(energy, placed), "uA")


def _samples(trace: Trace, placed: Placed) -> Iterator[Counter]:
    """Yield the counters of the application; samples that are no number are left out."""
    sampled = placed.timed & (trace.kind == Kind.SAMPLE) & ~np.isnan(trace.level)
    keys = np.stack([trace.tracer, trace.name], axis=1).astype(np.int64)
    for tracer, name in np.unique(keys[sampled], axis=0).tolist():
        rows = np.flatnonzero(sampled & (keys == (tracer, name)).all(axis=1))
        levels = trace.level[rows]
        whole = (levels == np.rint(levels)) & (np.abs(levels) < 2**53)
        value = levels.astype(np.int64) if whole.all() else levels
        yield Counter(label(trace, int(rows[0])), tracer, placed.start[rows], value, "value")


def _core_spans(trace: Trace, placed: Placed) -> Iterator[RunPhase]:
    """Yield when each task and each interrupt had the core."""
    logged = np.isin(trace.kind, (Kind.TASK, Kind.INTERRUPT)) & (trace.clock == 0)
    rows = np.flatnonzero(placed.timed & logged)
    if not len(rows):
        return
    found = contexts(trace)
    running = found.running.tolist()
    rows = rows[np.argsort(placed.start[rows], kind="stable")]
    shown = (placed.drawn | placed.timed) & (trace.clock == 0)
    goes_on = len(rows) < 2 or found.time[-1] > found.time[-2]
    last = placed.end[shown].max() if goes_on else placed.start[rows[-1]]
    ends = [*placed.start[rows[1:]].tolist(), int(last)]
    columns = zip(rows.tolist(), running, placed.start[rows].tolist(), ends, strict=False)
    for row, context, start, end in columns:
        name, interrupt = divmod(context, 2)
        if context >= 0 and end > start:
            text = escaped(trace.names[name])
            kind = "interrupt" if interrupt else "task"
            text = text if text.startswith(f"{kind} ") else f"{kind} {text}"
            yield RunPhase(text, int(trace.tracer[row]), start, end)


_LOST: Final = {"blocks": "declarations", "damaged": "damaged events or places"}
"""Display names of losses, where the field name is not clear."""

_GAP_SHARE: Final = 20
"""A gap at the end is drawn as this part of the drawn time, as its true length is unknown."""


def _gaps(trace: Trace, placed: Placed) -> Iterator[Gap]:
    """Yield the losses where they happened, as far as that is known.

    Dropped runs are missing after the first block. What did not fit into a full log is missing
    after the last event of its tracer. Other losses may be anywhere.
    """
    rows = np.flatnonzero(placed.drawn)
    if not len(rows):
        return
    first, last = int(placed.start[rows].min()), int(placed.end[rows].max())
    losses = {what: count for what, count in asdict(trace.losses).items() if count}
    if runs := losses.pop("runs", 0):
        second = trace.blocks[1].first if len(trace.blocks) > 1 else len(trace)
        before, behind = rows[rows < second], rows[rows >= second]
        start = int(placed.end[before].max(initial=first))
        end = int(placed.start[behind].min()) if len(behind) else last
        yield Gap(f"{runs} runs lost", start, max(start, end))
    if set(trace.full) >= set(trace.tracer.tolist()):  # every tracer, so all of these are at ends
        full = {what: losses.pop(what) for what in ("events", "blocks") if what in losses}
        lost = ", ".join(f"{count} {_LOST.get(what, what)}" for what, count in full.items())
        length = max((last - first) // _GAP_SHARE, 1)
        text = f"log full: {lost} lost from here on, until an unknown time"
        for tracer in trace.full if lost else ():
            own = rows[trace.tracer[rows] == tracer]
            at = int(placed.end[own].max(initial=first))
            yield Gap(text, at, at + length)
    for what, count in losses.items():
        yield Gap(f"{count} {_LOST.get(what, what)} lost, somewhere here", first, last)


@dataclass(frozen=True, slots=True)
class SliceTitle:
    """Display name and kind of a slice.

    Attributes:
        text: Display name.
        kind: Kind of work.
    """

    text: str
    kind: OperatorKind


def slice_titles(
    trace: Trace,
    rows: Ints,
    of_delegate: Ints,
    arguments: Sequence[Arguments | None] | None,
    symbols: Sequence[EventSymbols | None] | None,
) -> list[SliceTitle]:
    """Return the title of each row; events of one name and instruction share one.

    Args:
        trace: The trace.
        rows: Rows of the trace, shape (n,).
        of_delegate: 1 for rows that are events of a delegate, else 0, shape (n,).
        arguments: The instruction of every event of the trace, for names of backends; None if
            unknown.
        symbols: Symbols of every event of the trace, likewise.
    """
    columns = (
        trace.kind[rows],
        trace.chain[rows],
        trace.instruction[rows],
        trace.name[rows],
        trace.delegate_int[rows],
        trace.delegate_str[rows],
        of_delegate,
    )
    keys = zip(*(column.tolist() for column in columns), strict=True)
    known: dict[tuple[tuple[int, ...], str], SliceTitle] = {}
    found = []
    for row, columns_of_row in zip(rows.tolist(), keys, strict=True):
        key = columns_of_row, _backend(row, arguments, symbols)
        if key not in known:
            known[key] = _title(trace, row, bool(columns_of_row[-1]), key[1])
        found.append(known[key])
    return found


def label(trace: Trace, row: int) -> str:
    """Return the exact name of an event, else its delegate id, else its kind."""
    text = _own_name(trace, row)
    if text:
        return escaped(text)
    if trace.delegate_int[row] != -1:
        return f"[{trace.delegate_int[row]}]"
    return "value" if trace.kind[row] == Kind.DEBUG else "unnamed"


def _own_name(trace: Trace, row: int) -> str:
    name = trace.text(int(trace.name[row])) or trace.text(int(trace.delegate_str[row]))
    return name or ""


def _backend(
    row: int,
    arguments: Sequence[Arguments | None] | None,
    symbols: Sequence[EventSymbols | None] | None,
) -> str:
    """Return the name of the backend that the event's instruction calls, "" if unknown."""
    if symbols is not None and (known := symbols[row]) is not None and known.backend:
        return escaped(known.backend)
    called = arguments[row] if arguments else None
    if called is None or called.instruction.call is not Call.DELEGATE:
        return ""
    return escaped(called.instruction.name)


def _title(trace: Trace, row: int, of_delegate: bool, backend: str) -> SliceTitle:
    name = _own_name(trace, row)
    kind = operator_kind(name, of_delegate)
    if of_delegate:
        own = label(trace, row)
        if backend:
            return SliceTitle(f"{backend}: {own}", kind)
        return SliceTitle(own if name else f"delegate: {own}", kind)
    # The operator in a wrapper has the instruction; once is enough.
    scope = trace.chain[row] == -1 or is_wrapper(name)
    instruction = None if scope else int(trace.instruction[row])
    shown = backend if name == DELEGATE_CALL and backend else name or label(trace, row)
    return SliceTitle(operator_title(shown, instruction), kind)


@dataclass(frozen=True, slots=True)
class RunPhase:
    """Loading, an execution, the work of a task or an interrupt, or a mark; in nanoseconds.

    Attributes:
        name: ``loading``; ``execution`` and its number, from 1; ``task`` or ``interrupt`` and its
            name; the name of a mark.
        tracer: Number of its tracer.
        start: Start.
        end: End; not before ``start``, nor after the start of the tracer's next phase. That of the
            drawing for a task that never ends; the start of a mark.
    """

    name: str
    tracer: int
    start: int
    end: int

    @property
    def track(self) -> str:
        """Name of the track with the phases of its tracer."""
        return f"executions of tracer {self.tracer}" if self.tracer else "executions"


def find_phases(
    trace: Trace, rows: Ints, block: Ints, start: Ints, end: Ints
) -> tuple[RunPhase, ...]:
    """Return the phases of each tracer, in order of time.

    An execution is a scope of ExecuTorch's name. A block without that scope, for example because
    the log was full, is an execution if it has an event of an instruction.

    Args:
        trace: The trace.
        rows: Rows of the tracers' own slices, without those of delegates, shape (n,).
        block: Block of each row.
        start: Its start in nanoseconds.
        end: Its end.
    """
    tracers = trace.tracer[rows]
    found: list[RunPhase] = []
    for tracer in np.unique(tracers).tolist():
        mine = tracers == tracer
        spans = sorted(_spans(trace, rows[mine], block[mine], start[mine], end[mine]))
        number = 0
        for index, (begin, stop, executed) in enumerate(spans):
            number += executed
            name = f"execution {number}" if executed else "loading"
            following = spans[index + 1][0] if index + 1 < len(spans) else stop
            found.append(RunPhase(name, tracer, begin, min(stop, following)))
    return tuple(found)


def _spans(
    trace: Trace, rows: Ints, block: Ints, start: Ints, end: Ints
) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each phase of a tracer, and whether it is an execution."""
    profiled = trace.kind[rows] == Kind.PROFILE
    scopes = profiled & trace.named(EXECUTION, rows=rows)
    yield from (
        (begin, stop, True)
        for begin, stop in zip(start[scopes].tolist(), end[scopes].tolist(), strict=True)
    )
    loading = profiled & trace.named(*LOADING, rows=rows)
    without = (trace.chain[rows] != -1) & ~np.isin(block, block[scopes])
    for group, executed in ((loading, False), (without, True)):
        blocks, of = np.unique(block[group], return_inverse=True)
        first = np.full(len(blocks), np.iinfo(np.int64).max)
        last = np.zeros(len(blocks), np.int64)
        np.minimum.at(first, of, start[group])
        np.maximum.at(last, of, end[group])
        yield from (
            (begin, stop, executed)
            for begin, stop in zip(first.tolist(), last.tolist(), strict=True)
        )


_MOST_POINTS: Final = 50_000
"""Points of a track; of a longer recording each is the mean of several samples."""


def energy_arguments(energy: EventEnergy, row: int) -> Mapping[str, int]:
    """Return the energy of an event for the arguments of a slice, the bound rounded up."""
    if not energy.known[row]:
        return {}
    low, high = float(energy.low[row]) * 1e9, float(energy.high[row]) * 1e9
    joules = round((low + high) / 2)
    return {
        "energy_nJ": joules,
        "energy_bound_nJ": ceil(max(high - joules, joules - low)),
        "average_current_uA": round(float(energy.amperes[row]) * 1e6),
        "peak_current_uA": round(float(energy.peak[row]) * 1e6),
    }


def current_points(energy: MeasuredEnergy, placed: Placed) -> tuple[Ints, Ints]:
    """Return times in nanoseconds of the drawing, and the current from each on in microamperes.

    The events with bounds connect the meter's clock with the drawing's. Between two of them time
    is interpolated; before the first and after the last there are no points.
    """
    starts, ends = placed.drawn[energy.began_rows], placed.drawn[energy.ended_rows]
    meter = np.concatenate([energy.began_ns[starts], energy.ended_ns[ends]])
    drawn = np.concatenate(
        [placed.start[energy.began_rows[starts]], placed.end[energy.ended_rows[ends]]]
    )
    if not len(meter):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((drawn, meter))
    meter, drawn = meter[order], np.maximum.accumulate(drawn[order])
    at = energy.at_ns
    inside = np.flatnonzero((at >= meter[0]) & (at <= meter[-1]))
    firsts = np.arange(0, len(inside), max(-(-len(inside) // _MOST_POINTS), 1))
    if not len(firsts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    means = np.add.reduceat(energy.amperes[inside], firsts) / np.diff(firsts, append=len(inside))
    times = np.interp(at[inside[firsts]], meter, drawn)
    return times.astype(np.int64), np.rint(means * 1e6).astype(np.int64)
