"""Reads an ED00 file, as written by ExecuTorch's ETDumpGen, into a Trace.

Events are read column-wise, thousands at a time, so that the working set fits into the cache; see
``harness.decode.flatbuffer``. Damage is an error, or is left out and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from harness.decode import ed00_schema as ed
from harness.decode.ed00_events import Columns, EventReader
from harness.decode.flatbuffer import DefectError, FlatBuffer, Ints, Tables, VectorItems
from harness.decode.padding import is_padding
from harness.errors import FormatError
from harness.files import Content, release
from harness.records.clock_domain import HOST_NANOSECONDS, ClockDomain
from harness.records.trace import Block, Damage, Losses, Trace

_Result = TypeVar("_Result")

NO_IDENTIFIER: Final = f"no {ed.IDENTIFIER.decode()} identifier"
"""Error message for data that is not an ED00 file."""

_SLICE: Final = 1 << 14
"""Events per batch."""
_RELEASED: Final = 1 << 18
"""Events after which the pages of a mapped file are given back."""
_BROKEN_BY_ETDUMPGEN: Final = (
    "the file may be damaged: an output tensor of a type that ETDumpGen cannot write (half, "
    "bfloat16) breaks its dump"
)


@dataclass(frozen=True, slots=True)
class Window:
    """Position of a dump in a file.

    Attributes:
        begin: Offset of the dump, including its size prefix if it has one.
        start: Offset of its FlatBuffer.
        end: End offset of the bytes present.
        announced: End offset according to its size prefix; ``end`` without a prefix.
    """

    begin: int
    start: int
    end: int
    announced: int

    @property
    def base(self) -> int:
        """Base of the alignment of its fields: the offset of its size prefix.

        Including the prefix, the size of a dump with 8-byte fields is a multiple of 8. So the
        length of a dump without a prefix shows whether the prefix was removed.
        """
        cut_off = self.begin == self.start and (self.end - self.start) % 8 == 4
        return self.begin - 4 if cut_off else self.begin


@dataclass(frozen=True, slots=True)
class _Runs:
    """The RunData tables and the positions of their parts.

    Attributes:
        names: Positions of their names, 0 absent.
        bundled: Bundled input indices.
        allocator_names: Positions of all allocators' names, run after run, 0 absent.
        allocator_counts: Allocators per run.
        events: Positions of the vectors of references to Event tables, 0 absent.
        event_counts: Events per run.
    """

    names: Ints
    bundled: Ints
    allocator_names: Ints
    allocator_counts: Ints
    events: Ints
    event_counts: Ints


def read_ed00(
    data: Content, clock: ClockDomain = HOST_NANOSECONDS, *, allow_trailing: bool = False
) -> Trace:
    """Decode an ED00 file of one dump, size-prefixed or not.

    Every field of every event is kept, including duplicates and order. A missing name of a block or
    allocator becomes ``""``. An allocation size or a debug event's chain of 2**63 or more becomes
    negative; writing it restores the bits.

    Args:
        data: The whole file.
        clock: Clock domain of the ticks, which the file does not contain; ExecuTorch's hosts use
            nanoseconds.
        allow_trailing: Ignore bytes after the announced size, not only padding. A static ETDumpGen
            that was reset leaves older dumps there.

    Raises:
        FormatError: The file is truncated, damaged or not an ED00 file; the error has offset and
            field.
    """
    window = find_dump(data)
    if window is None:
        raise FormatError(
            NO_IDENTIFIER,
            offset=4,
            field="file identifier",
            hint="the file is not an ETDump, or its beginning is damaged",
        )
    if not allow_trailing and not is_padding(data, window.end):
        raise FormatError(
            f"{len(data) - window.end} bytes after the announced size",
            offset=window.end,
            field="size prefix",
            hint="a static ETDumpGen leaves older dumps there; allow trailing bytes to read the "
            "newest one",
        )
    return read_dump(data, window, clock)


def find_dump(data: Content, at: int = 0) -> Window | None:
    """Return the window of the dump at offset ``at``, or None if there is no dump.

    A dump without a size prefix ends with the file, because it does not contain its size.
    """
    if data[at + 4 : at + 8] == ed.IDENTIFIER:
        return Window(at, at, len(data), len(data))
    if data[at + 8 : at + 12] == ed.IDENTIFIER:
        announced = at + 4 + int.from_bytes(data[at : at + 4], "little")
        return Window(at, at + 4, min(announced, len(data)), announced)
    return None


def read_dump(
    data: Content,
    window: Window,
    clock: ClockDomain = HOST_NANOSECONDS,
    damage: list[Damage] | None = None,
) -> Trace:
    """Decode one dump of a file.

    Args:
        data: The whole file.
        window: Position of the dump.
        clock: Clock domain of the ticks.
        damage: None makes every defect an error. With a list, defects are appended to it, and only
            the affected parts are left out of the trace.

    Raises:
        FormatError: The dump is truncated or damaged, and ``damage`` is None.
    """
    return _DumpReader(data, window, clock, damage).read()


class _DumpReader:
    def __init__(
        self, data: Content, window: Window, clock: ClockDomain, damage: list[Damage] | None
    ) -> None:
        self.buffer = FlatBuffer(data, window.start, window.end, base=window.base)
        self.window, self.clock, self.damage = window, clock, damage
        self.events = EventReader(self.buffer)
        self.lost = 0

    def read(self) -> Trace:
        """Build the trace."""
        window = self.window
        if window.end < window.announced:
            message = f"file is truncated: {window.announced} bytes announced, {window.end} present"
            self.leave_out(FormatError(message, offset=window.end, field="size prefix"), 0)
        try:
            slots = self.run_slots()
        except FormatError as error:
            self.leave_out(error, None)
            slots = np.zeros(0, np.int64)
        return self.trace(self.runs(slots))

    def leave_out(self, error: FormatError, events: int | None) -> None:
        """Append a defect; ``events`` is the number of lost events, None if unknown.

        Raises:
            FormatError: The reader is strict.
        """
        if self.damage is None:
            raise error
        self.damage.append(Damage.of(error, events))
        self.lost += events or 1

    def surviving(
        self, entries: Ints, read: Callable[[Ints], _Result], *, events: int | None
    ) -> tuple[_Result, Ints]:
        """Read all intact entries; return the result and their indices.

        A failed check names all entries that fail it, so there are at most as many attempts as
        checks. ``events`` is the number of events lost per damaged entry.
        """
        kept = np.arange(len(entries))
        while True:
            try:
                return read(entries[kept]), kept
            except DefectError as defect:
                self.leave_out(defect, None if events is None else events * len(defect.entries))
                kept = np.delete(kept, defect.entries)

    def run_slots(self) -> Ints:
        """Return the positions of the references to the runs."""
        buffer = self.buffer
        start = np.array([buffer.start], np.int64)
        buffer.inside(start, 8, "file", start)
        root = Tables.at(buffer, buffer.follow(start, "root table"), ed.DumpTable)
        version = int(root.scalars(ed.DumpTable.VERSION, "<u4", 0)[0])
        if version != ed.VERSION:
            wrong = FormatError(
                f"unsupported ETDump version {version}",
                offset=int(root.positions[0]),
                field="ETDump.version",
                hint=_BROKEN_BY_ETDUMPGEN,
            )
            self.leave_out(wrong, 0)
        return self.items(root.references(ed.DumpTable.RUN_DATA), "ETDump.run_data")[0]

    def runs(self, slots: Ints) -> _Runs:
        """Read the runs and the positions of their parts."""
        buffer = self.buffer

        def read(slots: Ints) -> tuple[Ints, Ints, Ints]:
            runs = Tables.at(buffer, buffer.follow(slots, "ETDump.run_data"), ed.RunTable)
            bundled = runs.scalars(ed.RunTable.BUNDLED_INPUT_INDEX, "<i4", -1)
            return runs.positions, bundled, runs.references(ed.RunTable.EVENTS)

        (tables, bundled, vectors), _ = self.surviving(slots, read, events=None)
        event_counts = self.counts(vectors, "RunData.events", are_events=True)
        allocators, allocator_counts = self.items(
            self.optional(
                tables,
                lambda at: Tables.at(buffer, at, ed.RunTable).references(ed.RunTable.ALLOCATORS),
            ),
            "RunData.allocators",
        )
        return _Runs(
            names=self.optional(tables, lambda at: self.names(at, ed.RunTable, ed.RunTable.NAME)),
            bundled=bundled,
            allocator_names=self.optional(
                allocators,
                lambda slots: self.names(
                    buffer.follow(slots, "RunData.allocators"),
                    ed.AllocatorTable,
                    ed.AllocatorTable.NAME,
                ),
            ),
            allocator_counts=allocator_counts,
            events=vectors,
            event_counts=event_counts,
        )

    def items(self, vectors: Ints, field: str) -> tuple[Ints, Ints]:
        """Return the positions of the references in vectors, and the number present in each."""
        counts = self.counts(vectors, field)
        items = VectorItems(vectors, counts, 4)
        return items.between(0, len(items)), counts

    def counts(self, vectors: Ints, field: str, *, are_events: bool = False) -> Ints:
        """Return the number of references that are present in vectors."""
        buffer = self.buffer
        if self.damage is None:
            return buffer.lengths(vectors, 4, field)
        counts = np.zeros(len(vectors), np.int64)
        present = np.flatnonzero(vectors)
        counts[present] = buffer.load("<u4", vectors[present])
        there = np.where(vectors != 0, np.minimum(counts, (buffer.end - vectors - 4) // 4), 0)
        for row in np.flatnonzero(counts > there).tolist():
            place, count = int(vectors[row]), int(counts[row])
            # A count that exceeds the whole file is itself damaged, not a number of lost events.
            fits = are_events and place + 4 + 4 * count <= self.window.announced
            cut = FormatError(f"{count} announced, {there[row]} present", offset=place, field=field)
            self.leave_out(cut, count - int(there[row]) if fits else None)

        def fitting(rows: Ints) -> None:
            buffer.fits(vectors[rows], there[rows], 4, field)

        _, kept = self.surviving(np.arange(len(vectors)), fitting, events=None)
        held = np.zeros(len(vectors), np.int64)
        held[kept] = there[kept]
        return held

    def optional(self, entries: Ints, read: Callable[[Ints], Ints]) -> Ints:
        """Return the result of ``read`` per entry, 0 for damaged entries."""
        found = np.zeros(len(entries), np.int64)
        places, kept = self.surviving(entries, read, events=0)
        found[kept] = places
        return found

    def names(self, tables: Ints, slots: Any, slot: Any) -> Ints:
        """Return the positions of the names of tables."""
        found = Tables.at(self.buffer, tables, slots)
        return self.events.check_strings(found.references(slot), f"{found.name}.name")

    def trace(self, runs: _Runs) -> Trace:
        """Read all events, and build the trace."""
        run_names = self.events.text_codes(runs.names)
        allocator_names = self.events.text_codes(runs.allocator_names)
        events = VectorItems(runs.events, runs.event_counts, 4)
        columns = Columns(len(events))
        lost = np.zeros(len(events) if self.damage is not None else 0, np.bool_)
        filled = 0
        for first in range(0, len(events), _SLICE):
            slots = events.between(first, first + _SLICE)
            if first % _RELEASED == 0:
                release(self.buffer.data)
            parts, kept = self.surviving(slots, self.events.read, events=1)
            for rows, fields in parts:
                whole = len(rows) == len(kept)
                target = slice(filled, filled + len(rows)) if whole else rows + filled
                for name, values in fields.items():
                    columns.put(name, target, values)
            filled += len(kept)
            if len(kept) < len(slots):
                lost[first + np.setdiff1d(np.arange(len(slots)), kept)] = True
        names = self.events.strings.texts
        return replace(
            Trace.unset(0),
            names=tuple(names),
            blocks=tuple(_blocks(_without(runs, lost), names, run_names, allocator_names)),
            clocks=(self.clock,),
            # The whole file instead of copies of its parts, because events may share metadata.
            metadata_bytes=bytes(self.buffer.data) if self.events.has_metadata else b"",
            debug_values=tuple(self.events.debug_values),
            losses=Losses(damaged=self.lost),
            **columns.finished(filled),
        ).sealed()


def _without(runs: _Runs, lost: npt.NDArray[np.bool_]) -> _Runs:
    """Return the runs without the lost events."""
    if not lost.any():
        return runs
    before = np.concatenate([[0], np.cumsum(lost)])
    ends = np.cumsum(runs.event_counts)
    lost_of_each = before[ends] - before[ends - runs.event_counts]
    return replace(runs, event_counts=runs.event_counts - lost_of_each)


def _blocks(
    runs: _Runs,
    names: Sequence[str],
    run_names: npt.NDArray[np.int32],
    allocator_names: npt.NDArray[np.int32],
) -> list[Block]:
    texts = [*names, ""]  # the last one is for NO_NAME (-1)
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
