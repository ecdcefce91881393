"""Reads an ED00 file, as written by ExecuTorch's ETDumpGen, into a Trace.

Events are read column-wise, thousands at a time, so that the working set fits into the cache; see
``harness.decode.flatbuffer``. Damage is an error, or is left out and reported.

ExecuTorch's ETDumpGen writes a name again for every event, so a dump has as many strings as events,
but few distinct ones. Short strings are compared as 64-bit words, all of one length at once: a hash
(the sum of the words, each times a constant) finds the candidate, and comparing the words confirms
it. Only new strings are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from harness.decode import ed00_schema as ed
from harness.decode.ed00_schema import ValueType
from harness.decode.flatbuffer import (
    DefectError,
    FlatBuffer,
    Ints,
    Tables,
    VectorItems,
    of_entries,
    shared_by,
    split,
)
from harness.errors import FormatError
from harness.files import Content, is_padding, release
from harness.records.trace import (
    HOST_NANOSECONDS,
    NO_CLOCK,
    NO_NAME,
    Block,
    ClockDomain,
    Damage,
    DebugValue,
    Kind,
    Losses,
    TensorValue,
    Trace,
)

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
        # ETDumpGen and the tracer of devices align fields to their size prefix, which may have been
        # removed; ExecuTorch's Python serializer aligns them to what it puts a prefix before.
        bases = (window.begin, window.begin - 4)
        self.buffer = FlatBuffer(data, window.start, window.end, bases=bases)
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
        return items.between(0, items.count), counts

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
            buffer.fit(there[rows] * 4, vectors[rows], field, "vectors overlap")

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
        columns = Columns(events.count)
        lost = np.zeros(events.count if self.damage is not None else 0, np.bool_)
        filled = 0
        for first in range(0, events.count, _SLICE):
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


_Words = npt.NDArray[np.uint64]

_SHORT = 64
"""Longest string that is compared word by word, bytes."""
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, n, 1 << 64) for n in range(1, 9)], np.uint64)
"""Powers of an odd number, the golden ratio of 2**64, so that no bit of a word is lost."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Distinct strings of one length, sorted by hash key.

    Attributes:
        keys: Hash keys, ascending and unique.
        words: Their bytes, one array per word.
        codes: Their indices.
    """

    keys: _Words
    words: list[_Words]
    codes: npt.NDArray[np.int32]

    def find(self, keys: _Words, words: list[_Words]) -> tuple[npt.NDArray[np.int32], Ints]:
        """Return the indices of strings, and the rows of unknown strings (index invalid)."""
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        same = self.keys[at] == keys
        if len(words) > 1:  # for a single word the key is unique, because the factor is odd
            for mine, theirs in zip(self.words, words, strict=True):
                same &= mine[at] == theirs
        return self.codes[at], np.flatnonzero(~same)


class Interner:
    """Assigns indices to strings in order of first use.

    Attributes:
        texts: The strings by index; bytes that are not UTF-8 are surrogate escapes.
    """

    def __init__(self, buffer: FlatBuffer) -> None:
        self.texts: list[str] = []
        self._buffer = buffer
        self._codes: dict[bytes, int] = {}
        self._known: dict[int, _Known] = {}
        self._long: dict[int, int] = {}  # indices of long strings by position
        self._room = buffer.end - buffer.start  # limit for the total size of further long strings

    def check(self, places: Ints, field: str) -> None:
        """Check the strings at ``places``; required before `codes`.

        Raises:
            DefectError: A string is truncated or not terminated, or all together are longer than
                the buffer: overlapping long strings could otherwise take unlimited time.
        """
        buffer = self._buffer
        lengths = buffer.string_lengths(places, field)
        long = np.flatnonzero(lengths > _SHORT)
        if not len(long):
            return
        distinct, shared = np.unique(places[long], return_inverse=True)
        unseen = np.array([place not in self._long for place in distinct.tolist()])
        sizes = np.where(unseen, buffer.load("<u4", distinct).astype(np.int64), 0)
        good = np.ones(len(places), np.bool_)
        good[long] = (np.cumsum(sizes) <= self._room)[shared]
        buffer.require(good, places, field, "strings overlap")

    def codes(self, places: Ints) -> npt.NDArray[np.int32]:
        """Return the indices of the strings at ``places``, shape (n,)."""
        lengths = self._buffer.load("<u4", places).astype(np.int64)
        # A string at the very end of the buffer cannot be read in whole words.
        short = (lengths <= _SHORT) & (places <= self._buffer.end - 4 - (lengths + 7 & -8))
        kinds = np.where(short, lengths, _SHORT + 1)
        codes = np.empty(len(places), np.int32)
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            rows = np.flatnonzero(kinds == kind)
            if kind > _SHORT:
                codes[rows] = self._one_by_one(places[rows])
            elif kind == 0:
                codes[rows] = self._code(b"")
            else:
                codes[rows] = self._short(places[rows], kind)
        return codes

    def _short(self, places: Ints, length: int) -> npt.NDArray[np.int32]:
        words = [self._buffer.load("<u8", places + (4 + at)) for at in range(0, length, 8)]
        if length % 8:
            words[-1] &= np.uint64((1 << 8 * (length % 8)) - 1)
        keys = words[0] * _FACTORS[0]
        for word, factor in zip(words[1:], _FACTORS[1:], strict=False):
            keys += word * factor
        known = self._known.get(length)
        if known is None:
            known = self._learn(length, places, keys, words)
        codes, new = known.find(keys, words)
        if len(new):
            parts = [word[new] for word in words]
            known = self._learn(length, places[new], keys[new], parts)
            codes[new], colliding = known.find(keys[new], parts)
            codes[new[colliding]] = self._one_by_one(places[new[colliding]])
        return codes

    def _learn(self, length: int, places: Ints, keys: _Words, words: list[_Words]) -> _Known:
        """Add the strings with new hash keys to the known ones."""
        keys, first = np.unique(keys, return_index=True)
        known = self._known.get(length)
        if known is not None:
            new = ~np.isin(keys, known.keys)
            keys, first = keys[new], first[new]
        # Indices in order of first use, which is easier to read in listings.
        numbers = np.empty(len(first), np.int32)
        in_order = np.argsort(first)
        numbers[in_order] = [self._code_at(place) for place in places[first[in_order]].tolist()]
        words = [word[first] for word in words]
        if known is not None:
            keys = np.concatenate([known.keys, keys])
            numbers = np.concatenate([known.codes, numbers])
            words = [np.concatenate(pair) for pair in zip(known.words, words, strict=True)]
        order = np.argsort(keys)
        learnt = _Known(keys[order], [word[order] for word in words], numbers[order])
        self._known[length] = learnt
        return learnt

    def _one_by_one(self, places: Ints) -> npt.NDArray[np.int32]:
        distinct, shared = np.unique(places, return_inverse=True)
        for place in distinct.tolist():
            if place not in self._long:
                self._long[place] = self._code_at(place)
                self._room -= int.from_bytes(self._buffer.data[place : place + 4], "little")
        return np.array([self._long[place] for place in distinct.tolist()], np.int32)[shared]

    def _code_at(self, place: int) -> int:
        return self._code(self._buffer.text(place))

    def _code(self, raw: bytes) -> int:
        code = self._codes.setdefault(raw, len(self.texts))
        if code == len(self.texts):
            self.texts.append(raw.decode("utf-8", "surrogateescape"))
        return code


Fields = dict[str, Any]
"""Values by column name: an array, or one number for all rows."""

_SCALARS = (
    ("chain", "CHAIN", 0),
    ("instruction", "INSTRUCTION", -1),
    ("delegate_int", "DELEGATE_INT", -1),
)
_STRINGS = (("name", "NAME"), ("delegate_str", "DELEGATE_STR"))


# By type, the field of Value that holds the number, and the dtype of the number in its table.
_NUMBERS = {
    ValueType.INT: (ed.ValueTable.INT, "<i8"),
    ValueType.BOOL: (ed.ValueTable.BOOL, "?"),
    ValueType.FLOAT: (ed.ValueTable.FLOAT, "<f4"),
    ValueType.DOUBLE: (ed.ValueTable.DOUBLE, "<f8"),
}


_TENSORS = {
    ValueType.TENSOR: ed.ValueTable.TENSOR,
    ValueType.TENSOR_LIST: ed.ValueTable.TENSOR_LIST,
}


class Columns:
    """The columns of a trace, allocated on first use.

    Initially every row has the default values of a profile event. Most columns of most dumps stay
    that way and take no memory.
    """

    def __init__(self, count: int) -> None:
        neutral = Trace.unset(1)
        neutral.chain[:] = neutral.clock[:] = 0
        self._count = count
        self._neutral = {
            name: column for name, column in neutral.columns.items() if name != "record"
        }
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def put(self, name: str, rows: Ints | slice, values: npt.ArrayLike) -> None:
        """Set some rows of a column."""
        column = self._columns.get(name)
        if column is None:
            neutral = self._neutral[name]
            column = np.zeros((self._count, *neutral.shape[1:]), neutral.dtype)
            if neutral.any():  # otherwise the pages need not be touched
                column[:] = neutral
            self._columns[name] = column
        column[rows] = values

    def finished(self, count: int) -> dict[str, Any]:
        """Return the first ``count`` rows of all columns."""
        return {
            "record": np.arange(count, dtype=np.int64),
            **{
                name: np.broadcast_to(neutral, (count, *neutral.shape[1:]))
                for name, neutral in self._neutral.items()
            },
            **{name: column[:count] for name, column in self._columns.items()},
        }


class EventReader:
    """Reads events; shared strings and values are read once.

    Attributes:
        strings: All strings so far.
        debug_values: All values of debug events so far.
        has_metadata: Whether any event had metadata.
    """

    def __init__(self, buffer: FlatBuffer) -> None:
        self.strings = Interner(buffer)
        self.debug_values: list[DebugValue] = []
        self.has_metadata = False
        self._buffer = buffer
        self._numbers: dict[int, int] = {}  # of values, by their places

    def read(self, slots: Ints) -> list[tuple[Ints, Fields]]:
        """Read the events that the references at ``slots`` point to.

        Returns:
            Per kind of event, the indices in ``slots`` of its events and their fields.

        Raises:
            DefectError: An event is damaged; the error's entries are indices of ``slots``. The
                reader's state is then unchanged.
        """
        buffer = self._buffer
        events = Tables.at(buffer, buffer.follow(slots, "RunData.events"), ed.EventTable)
        contents = {slot: events.references(slot) for slot in ed.EventTable}
        filled = sum((content != 0).astype(np.int8) for content in contents.values())
        buffer.require(
            np.equal(filled, 1),
            events.positions,
            "Event",
            f"not exactly one of {_names(ed.EventTable)}",
        )
        parts = []
        for slot, read in (
            (ed.EventTable.PROFILE, self._profile),
            (ed.EventTable.ALLOCATION, self._allocation),
            (ed.EventTable.DEBUG, self._debug),
        ):
            rows = np.flatnonzero(contents[slot])
            if len(rows):
                with of_entries(rows):
                    parts.append((rows, read(contents[slot][rows])))
        for _, fields in parts:
            self._remember(fields)
        return parts

    def text_codes(self, places: Ints) -> npt.NDArray[np.int32]:
        """Return the indices of the checked strings at ``places``; NO_NAME for position 0."""
        codes = np.full(len(places), NO_NAME, np.int32)
        present = np.flatnonzero(places)
        if len(present) == len(places):
            return self.strings.codes(places)
        codes[present] = self.strings.codes(places[present])
        return codes

    def check_strings(self, places: Ints, field: str) -> Ints:
        """Check the strings at nonzero ``places``, and return ``places``."""
        present = np.flatnonzero(places)
        with of_entries(present):
            self.strings.check(places[present], field)
        return places

    def _profile(self, places: Ints) -> Fields:
        tables = Tables.at(self._buffer, places, ed.Profile)
        fields = self._common(tables, ed.Profile, "<i4")
        for name, slot in (("start", ed.Profile.START), ("end", ed.Profile.END)):
            if tables.has(slot):
                fields[name] = tables.scalars(slot, "<u8", 0)
        if tables.has(ed.Profile.METADATA):
            vectors = tables.references(ed.Profile.METADATA)
            present = np.flatnonzero(vectors)
            metadata = np.tile(np.array([0, -1], np.int64), (len(places), 1))
            metadata[present, 0] = vectors[present] + 4
            with of_entries(present):
                lengths = self._buffer.counts(vectors[present], 1, "ProfileEvent.metadata")
            metadata[present, 1] = lengths
            fields["metadata"] = metadata
        return fields

    def _allocation(self, places: Ints) -> Fields:
        tables = Tables.at(self._buffer, places, ed.Allocation)
        return {
            "kind": Kind.ALLOCATION,
            "clock": NO_CLOCK,
            "chain": -1,
            "allocator": tables.scalars(ed.Allocation.ALLOCATOR, "<i4", 0),
            "size": tables.scalars(ed.Allocation.SIZE, "<i8", 0),
        }

    def _debug(self, places: Ints) -> Fields:
        tables = Tables.at(self._buffer, places, ed.Debug)
        fields = self._common(tables, ed.Debug, "<i8")
        entries = tables.references(ed.Debug.ENTRY)
        distinct, shared = np.unique(entries, return_inverse=True)
        known = [place == 0 or place in self._numbers for place in distinct.tolist()]
        new = np.flatnonzero(~np.array(known, np.bool_))
        with shared_by(shared), of_entries(new):
            values = read_values(self._buffer, distinct[new])
        fields["values"] = dict(zip(distinct[new].tolist(), values, strict=True))
        return {**fields, "kind": Kind.DEBUG, "clock": NO_CLOCK, "debug": entries}

    def _common(self, tables: Tables[Any], slots: type[IntEnum], chain: str) -> Fields:
        """Read the common fields of profile and debug events; strings as positions."""
        fields: Fields = {}
        for name, slot, default in _SCALARS:
            if tables.has(slots[slot]):
                dtype = chain if name == "chain" else "<i4"
                fields[name] = tables.scalars(slots[slot], dtype, default)
        for name, slot in _STRINGS:
            if tables.has(slots[slot]):
                places = tables.references(slots[slot])
                fields[name] = self.check_strings(places, f"{tables.name}.{name}")
        return fields

    def _remember(self, fields: Fields) -> None:
        """Replace positions of strings and values by their indices."""
        for place, value in fields.pop("values", {}).items():
            self._numbers[place] = len(self.debug_values)
            self.debug_values.append(value)
        if "debug" in fields:
            numbers = [self._numbers.get(place, -1) for place in fields["debug"].tolist()]
            fields["debug"] = np.array(numbers, np.int64)
        self.has_metadata |= "metadata" in fields
        for name, _ in _STRINGS:
            if name in fields:
                fields[name] = self.text_codes(fields[name])


def _names(slots: Sequence[IntEnum] | type[IntEnum]) -> str:
    return ", ".join(slot.name.lower() for slot in slots)


def read_values(buffer: FlatBuffer, positions: Ints) -> list[DebugValue]:
    """Decode the Value tables at ``positions``.

    Raises:
        FormatError: An offset points outside the buffer, or a value has not its declared type.
    """
    tables = Tables.at(buffer, positions, ed.ValueTable)
    types = tables.scalars(ed.ValueTable.TYPE, "i1", 0)
    known = (types >= ValueType.NULL) & (types <= ValueType.STRING)
    buffer.require(known, positions, "Value.type", "unknown type of value")

    contents: list[Any] = [None] * len(positions)
    # Fields of other types than the stated one are unused; they are checked, but not kept.
    stated, others = (np.zeros(len(positions), np.bool_) for _ in range(2))
    for type_, slot in [*((t, s) for t, (s, _) in _NUMBERS.items()), *_TENSORS.items()]:
        targets = tables.references(slot)
        rows = np.flatnonzero(targets)
        with of_entries(rows):
            held = _content(buffer, type_, targets[rows])
        for row, content in zip(rows.tolist(), held, strict=True):
            if types[row] == type_:
                contents[row] = content
        stated |= (targets != 0) & (types == type_)
        others |= (targets != 0) & (types != type_)
    buffer.require(stated | ~others, positions, "Value", "no content of the stated type")

    output: list[bool | None] = [None] * len(positions)
    targets = tables.references(ed.ValueTable.OUTPUT)
    rows = np.flatnonzero(targets)
    with of_entries(rows):
        flags = _numbers(buffer, targets[rows], "?")
    for row, flag in zip(rows.tolist(), flags, strict=True):
        output[row] = flag
    return [
        DebugValue(content, type_, flag)
        for content, type_, flag in zip(contents, types.tolist(), output, strict=True)
    ]


def _content(buffer: FlatBuffer, type_: ValueType, positions: Ints) -> list[Any]:
    if type_ in _NUMBERS:
        return _numbers(buffer, positions, _NUMBERS[type_][1])
    if type_ is ValueType.TENSOR:
        return _tensors(buffer, positions)
    places, shared = np.unique(positions, return_inverse=True)
    with shared_by(shared):
        vectors = Tables.at(buffer, places, ed.TensorListTable).references(
            ed.TensorListTable.TENSORS
        )
        slots, counts = buffer.items(vectors, 4, "TensorList.tensors")
        with of_entries(np.repeat(np.arange(len(places)), counts)):
            tensors = _tensors(buffer, buffer.follow(slots, "TensorList.tensors"))
    lists = split(tensors, counts)
    return [lists[index] for index in shared.tolist()]


def _numbers(buffer: FlatBuffer, positions: Ints, dtype: str) -> list[Any]:
    values: list[Any] = (
        Tables.at(buffer, positions, ed.NumberTable)
        .scalars(ed.NumberTable.VALUE, dtype, 0)
        .tolist()
    )
    return values


def _tensors(buffer: FlatBuffer, positions: Ints) -> list[TensorValue]:
    places, shared = np.unique(positions, return_inverse=True)
    with shared_by(shared):
        tables = Tables.at(buffer, places, ed.LoggedTensorTable)
        sizes = buffer.vectors(tables.references(ed.LoggedTensorTable.SIZES), "<i8", "Tensor.sizes")
        strides = buffer.vectors(
            tables.references(ed.LoggedTensorTable.STRIDES), "<i8", "Tensor.strides"
        )
        scalar_types = tables.scalars(ed.LoggedTensorTable.SCALAR_TYPE, "i1", 0).tolist()
        offsets = tables.scalars(ed.LoggedTensorTable.OFFSET, "<i8", 0).tolist()
        tensors = [
            TensorValue(*fields)
            for fields in zip(scalar_types, sizes, strides, offsets, strict=True)
        ]
        defects = [tensor.defect for tensor in tensors]
        sound = np.array([not defect for defect in defects], np.bool_)
        message = next(filter(None, defects), "")
        buffer.require(sound, places, "Tensor.sizes", message)
    return [tensors[index] for index in shared.tolist()]
