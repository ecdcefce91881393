"""An ED00 file, as ExecuTorch's ETDumpGen writes it, to a Trace.

Events are read column-wise, all of a kind at once; see ``harness.flatbuffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.etdump import ed00_schema as ed
from harness.etdump.ed00_values import read_values
from harness.flatbuffer import FlatBuffer, Ints, Tables
from harness.timebase import HOST_NANOSECONDS, ClockDomain
from harness.trace import NO_NAME, Block, Kind, Trace


@dataclass(frozen=True, slots=True)
class _Runs:
    """The RunData tables, and where their parts are.

    Attributes:
        names: Positions of their names, 0 absent.
        bundled: Bundled input indices.
        allocator_names: Positions of all allocators' names, run after run, 0 absent.
        allocator_counts: Allocators per run.
        events: Positions of all Event tables, run after run.
        event_counts: Events per run.
    """

    names: Ints
    bundled: Ints
    allocator_names: Ints
    allocator_counts: Ints
    events: Ints
    event_counts: Ints


def read_ed00(
    data: bytes, clock: ClockDomain = HOST_NANOSECONDS, *, allow_trailing: bool = False
) -> Trace:
    """Decode an ED00 file, size-prefixed or not.

    Every field of every event is kept, repeats and order included. An absent name of a block or
    allocator reads as ``""``. An allocation of 2**63 bytes or more reads as negative, as does a
    debug event's chain; writing them restores the bits.

    Args:
        data: The whole file.
        clock: What the ticks count. The file does not say; ExecuTorch's hosts use nanoseconds.
        allow_trailing: Ignore bytes after the announced size. A static ETDumpGen that was reset
            leaves older dumps there.

    Raises:
        FormatError: The file is truncated, damaged, or no ED00 file; offset and field say where.
    """
    buffer = _window(data, allow_trailing)
    root = Tables.at(buffer, _root(buffer), ed.Dump)
    version = int(root.scalars(ed.Dump.VERSION, "<u4", 0)[0])
    if version != ed.VERSION:
        raise FormatError(
            f"ETDump version {version} is not known",
            offset=int(root.positions[0]),
            field="ETDump.version",
            hint="the file may be damaged: an output tensor of a type that ETDumpGen cannot write "
            "(half, bfloat16) breaks its dump",
        )
    runs = _read_runs(buffer, root)
    events = Tables.at(buffer, runs.events, ed.Event)
    return _Events(buffer, events).trace(runs, clock)


def _window(data: bytes, allow_trailing: bool) -> FlatBuffer:
    """Find the buffer in the file by its identifier, and honour the size prefix."""
    if data[4:8] == ed.IDENTIFIER:
        return FlatBuffer(data, 0, len(data))
    if data[8:12] != ed.IDENTIFIER:
        raise FormatError(
            f"no {ed.IDENTIFIER.decode()} identifier",
            offset=4,
            field="file identifier",
            hint="this is no ETDump file, or its beginning is damaged",
        )
    end = 4 + int.from_bytes(data[:4], "little")
    if end > len(data):
        raise FormatError(
            f"file is truncated: {end} bytes announced, {len(data)} there",
            offset=len(data),
            field="size prefix",
        )
    if end < len(data) and not allow_trailing:
        raise FormatError(
            f"{len(data) - end} bytes after the announced size",
            offset=end,
            field="size prefix",
            hint="a static ETDumpGen leaves older dumps there; allow trailing bytes to read the "
            "newest one",
        )
    return FlatBuffer(data, 4, end)


def _root(buffer: FlatBuffer) -> Ints:
    start = np.array([buffer.start], np.int64)
    buffer.inside(start, 8, "file", start)
    return buffer.follow(start, "root table")


def _read_runs(buffer: FlatBuffer, root: Tables[ed.Dump]) -> _Runs:
    slots, _ = buffer.items(root.references(ed.Dump.RUN_DATA), 4, "ETDump.run_data")
    runs = Tables.at(buffer, buffer.follow(slots, "ETDump.run_data"), ed.Run)
    allocators, allocator_counts = buffer.items(
        runs.references(ed.Run.ALLOCATORS), 4, "RunData.allocators"
    )
    tables = Tables.at(buffer, buffer.follow(allocators, "RunData.allocators"), ed.Allocator)
    events, event_counts = buffer.items(runs.references(ed.Run.EVENTS), 4, "RunData.events")
    return _Runs(
        names=runs.references(ed.Run.NAME),
        bundled=runs.scalars(ed.Run.BUNDLED_INPUT_INDEX, "<i4", -1),
        allocator_names=tables.references(ed.Allocator.NAME),
        allocator_counts=allocator_counts,
        events=buffer.follow(events, "RunData.events"),
        event_counts=event_counts,
    )


class _Events:
    """The events of a file, split by kind."""

    def __init__(self, buffer: FlatBuffer, events: Tables[ed.Event]) -> None:
        self.buffer = buffer
        self.count = len(events.positions)
        contents = [events.references(slot) for slot in ed.Event]
        filled = sum((content != 0).astype(np.int8) for content in contents)
        buffer.require(
            np.equal(filled, 1), events.positions, "Event", f"not exactly one of {_names(ed.Event)}"
        )
        # Rows of each kind in the trace, and its tables.
        self.rows = {slot: np.flatnonzero(contents[slot]) for slot in ed.Event}
        at = {slot: contents[slot][rows] for slot, rows in self.rows.items()}
        self.profile = Tables.at(buffer, at[ed.Event.PROFILE], ed.Profile)
        self.allocation = Tables.at(buffer, at[ed.Event.ALLOCATION], ed.Allocation)
        self.debug = Tables.at(buffer, at[ed.Event.DEBUG], ed.Debug)

    def trace(self, runs: _Runs, clock: ClockDomain) -> Trace:
        """Build the trace."""
        places = [
            runs.names,
            runs.allocator_names,
            self.profile.references(ed.Profile.NAME),
            self.debug.references(ed.Debug.NAME),
            self.profile.references(ed.Profile.DELEGATE_STR),
            self.debug.references(ed.Debug.DELEGATE_STR),
        ]
        names, columns = _intern(self.buffer, places)
        run_names, allocator_names, *event_names = columns
        trace = Trace.unset(
            self.count,
            names=names,
            blocks=_blocks(runs, names, run_names, allocator_names),
            clocks=[clock],
        )
        profile, debug = self.rows[ed.Event.PROFILE], self.rows[ed.Event.DEBUG]
        trace.name[profile], trace.name[debug] = event_names[:2]
        trace.delegate_str[profile], trace.delegate_str[debug] = event_names[2:]
        self.fill_allocations(trace)
        trace = self.fill_debug(trace)
        return self.fill_profile(trace).sealed()

    def fill_profile(self, trace: Trace) -> Trace:
        rows, tables = self.rows[ed.Event.PROFILE], self.profile
        trace.chain[rows] = tables.scalars(ed.Profile.CHAIN, "<i4", 0)
        trace.instruction[rows] = tables.scalars(ed.Profile.INSTRUCTION, "<i4", -1)
        trace.delegate_int[rows] = tables.scalars(ed.Profile.DELEGATE_INT, "<i4", -1)
        trace.clock[rows] = 0
        trace.start[rows] = tables.scalars(ed.Profile.START, "<u8", 0)
        trace.end[rows] = tables.scalars(ed.Profile.END, "<u8", 0)

        vectors = tables.references(ed.Profile.METADATA)
        present = np.flatnonzero(vectors)
        if not len(present):
            return trace
        lengths = self.buffer.counts(vectors[present], 1, "ProfileEvent.metadata")
        trace.metadata[rows[present], 0] = vectors[present] + 4
        trace.metadata[rows[present], 1] = lengths
        # The file itself, not a copy of its parts: events may share metadata.
        return replace(trace, metadata_bytes=self.buffer.data)

    def fill_allocations(self, trace: Trace) -> None:
        rows, tables = self.rows[ed.Event.ALLOCATION], self.allocation
        trace.kind[rows] = Kind.ALLOCATION
        trace.allocator[rows] = tables.scalars(ed.Allocation.ALLOCATOR, "<i4", 0)
        trace.size[rows] = tables.scalars(ed.Allocation.SIZE, "<i8", 0)

    def fill_debug(self, trace: Trace) -> Trace:
        rows, tables = self.rows[ed.Event.DEBUG], self.debug
        trace.kind[rows] = Kind.DEBUG
        trace.chain[rows] = tables.scalars(ed.Debug.CHAIN, "<i8", 0)
        trace.instruction[rows] = tables.scalars(ed.Debug.INSTRUCTION, "<i4", -1)
        trace.delegate_int[rows] = tables.scalars(ed.Debug.DELEGATE_INT, "<i4", -1)
        entries = tables.references(ed.Debug.ENTRY)
        present = np.flatnonzero(entries)
        places, trace.debug[rows[present]] = np.unique(entries[present], return_inverse=True)
        return replace(trace, debug_values=tuple(read_values(self.buffer, places)))


def _intern(
    buffer: FlatBuffer, columns: Sequence[Ints]
) -> tuple[list[str], list[npt.NDArray[np.int32]]]:
    """Intern columns of string positions together; absent strings (0) get NO_NAME."""
    places = np.concatenate(columns)
    present = np.flatnonzero(places)
    indices = np.full(len(places), NO_NAME, np.int32)
    names, indices[present] = buffer.strings(places[present], "string")
    splits = np.cumsum([len(column) for column in columns])[:-1]
    return names, np.split(indices, splits)


def _blocks(
    runs: _Runs,
    names: Sequence[str],
    run_names: npt.NDArray[np.int32],
    allocator_names: npt.NDArray[np.int32],
) -> list[Block]:
    texts = [*names, ""]  # the last is what NO_NAME (-1) finds
    allocators = [texts[index] for index in allocator_names.tolist()]
    allocator_ends = np.cumsum(runs.allocator_counts)
    columns: list[Any] = [
        run_names,
        np.cumsum(runs.event_counts) - runs.event_counts,
        runs.event_counts,
        runs.bundled,
        allocator_ends - runs.allocator_counts,
        allocator_ends,
    ]
    return [
        Block(texts[name], first, count, bundled, tuple(allocators[begin:end]))
        for name, first, count, bundled, begin, end in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _names(slots: type[IntEnum]) -> str:
    return ", ".join(slot.name.lower() for slot in slots)
