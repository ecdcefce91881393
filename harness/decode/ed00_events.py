"""Reads the events of an ED00 file, thousands at a time, into the columns of a Trace.

ExecuTorch's ETDumpGen writes a name again for every event, so a dump has as many strings as events,
but few distinct ones. Short strings are compared as 64-bit words, all of one length at once: a hash
(the sum of the words, each times a constant) finds the candidate, and comparing the words confirms
it. Only new strings are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.decode import ed00_schema as ed
from harness.decode.ed00_schema import ValueType
from harness.decode.flatbuffer import FlatBuffer, Ints, Tables, of_entries, shared_by, split
from harness.records.trace import NO_CLOCK, NO_NAME, Kind, Trace
from harness.records.values import DebugValue, TensorValue

_Words = npt.NDArray[np.uint64]

_SHORT = 64
"""Longest string that is compared word by word, bytes."""
_FACTORS = np.random.default_rng(0).integers(0, 2**63, _SHORT // 8, np.uint64) * np.uint64(2) + 1
"""Odd, so that no bit of a word is lost."""


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
            name: column
            for name in Trace.__slots__
            if isinstance(column := getattr(neutral, name), np.ndarray) and name != "record"
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
    has_field = np.isin(types, [*_NUMBERS, *_TENSORS])
    buffer.require(
        stated | ~others | ~has_field, positions, "Value", "no content of the stated type"
    )

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
