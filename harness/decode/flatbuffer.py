"""Reads FlatBuffers column-wise: many tables at once, every offset checked before it is followed.

Not the ``flatbuffers`` package, which reads one field at a time and checks nothing: a million
events would take minutes, and a damaged file would raise from anywhere.

The format (https://flatbuffers.dev/internals): a table begins with a signed 32-bit distance back
to its vtable; a vtable holds its own size, the table's size, and per slot the offset of the field
in the table, 0 when absent; references are unsigned 32-bit distances forward; vectors and strings
begin with a 32-bit count, strings end with a NUL that is not counted. Everything is little-endian.
Tables may share vtables, and references may share targets.

Positions are byte offsets in the whole file, int64 arrays. Position 0 means "absent": no table,
vector or string can be there.

Everything that FlatBuffers' own verifier refuses is refused, when a field is read, or in the whole
buffer by ``verify``; docs/reading.md lists the additional checks.

Defects raise ``DefectError``, which names all entries that fail a check. Callers that read a subset
translate its entries (``of_entries``), so that a salvaging reader knows which of its own rows to
leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.files import Content

Ints = npt.NDArray[np.int64]
_Slot = TypeVar("_Slot", bound=IntEnum)
_Child = TypeVar("_Child", bound=IntEnum)
_Item = TypeVar("_Item")

MAX_SIZE: Final = (1 << 31) - 1
"""A buffer has fewer bytes than this: distances back have a sign."""


class DefectError(FormatError):
    """Bytes that contradict the format.

    Attributes:
        entries: Indices of all bad entries among those requested.
    """

    def __init__(self, message: str, *, offset: int, field: str, entries: Ints) -> None:
        super().__init__(message, offset=offset, field=field)
        self.entries = entries


@contextmanager
def of_entries(rows: Ints) -> Iterator[None]:
    """Translate entries of a DefectError: inner entry i belongs to outer entry ``rows[i]``."""
    try:
        yield
    except DefectError as defect:
        defect.entries = np.unique(rows[defect.entries])
        raise


@contextmanager
def shared_by(inverse: Ints) -> Iterator[None]:
    """Translate entries of a DefectError: inner entry ``inverse[i]`` belongs to outer entry i."""
    try:
        yield
    except DefectError as defect:
        defect.entries = np.flatnonzero(np.isin(inverse, defect.entries))
        raise


class FlatBuffer:
    """One buffer with checked read methods."""

    def __init__(
        self,
        data: Content,
        start: int,
        end: int,
        *,
        bases: tuple[int, ...] = (),
        table_sizes: bool = True,
    ) -> None:
        """Read ``data[start:end]``; references outside of it are errors.

        Fields are aligned to their sizes relative to one of ``bases``, by default ``start``: of
        several, the one that most of the first 8-byte fields agree with. Their distances to
        ``start`` are multiples of 4 bytes.

        ``table_sizes`` says whether the table sizes in vtables are right. In buffers of
        flatbuffers' Python builder they are not: tables of different sizes share a vtable if their
        fields have the same offsets. Fields are then only checked to be in the buffer.

        Raises:
            FormatError: The buffer is larger than the format allows.
        """
        if end - start >= MAX_SIZE:
            raise FormatError(
                f"a FlatBuffer has less than {MAX_SIZE} bytes, this has {end - start}",
                offset=start,
                field="file",
            )
        self.bases = bases or (start,)
        self.table_sizes = table_sizes
        self.data = data
        self.start = start
        self.end = end

    def load(self, dtype: npt.DTypeLike, positions: Ints) -> npt.NDArray[Any]:
        """Load a value of ``dtype`` at each position; positions must have been checked.

        The view that is gathered from has one entry per byte, so nothing needs to be aligned.
        """
        item = np.dtype(dtype)
        count = max(self.end - item.itemsize + 1, 0)
        view: npt.NDArray[Any] = np.ndarray((count,), item, self.data, 0, (1,))
        return view[positions]

    def require(self, good: npt.NDArray[np.bool_], positions: Ints, field: str, why: str) -> None:
        """Raise DefectError for positions that are not ``good``, with the first as its offset."""
        if not good.all():
            entries = np.flatnonzero(~good)
            raise DefectError(why, offset=int(positions[entries[0]]), field=field, entries=entries)

    def aligned(
        self, places: Ints, size: int, absent: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return whether each field of ``size`` bytes is aligned or absent."""
        good: list[npt.NDArray[np.bool_]]
        good = [((places - base) & (size - 1) == 0) | absent for base in self.bases]
        best = max(range(len(good)), key=lambda number: np.count_nonzero(good[number]))
        if not absent.all():
            self.bases = (self.bases[best],)
        return good[best]

    def inside(self, positions: Ints, size: int | Ints, field: str, where: Ints) -> None:
        """Require ``size`` bytes at each position; ``where`` are the referring positions."""
        good = (positions >= self.start) & (positions <= self.end - size)
        self.require(good, where, field, "points outside the buffer")

    def follow(self, positions: Ints, field: str) -> Ints:
        """Return the targets of the references at ``positions``; each has at least 4 bytes."""
        distance = self.load("<u4", positions).astype(np.int64)
        self.require(distance != 0, positions, field, "reference to itself")
        targets = positions + distance
        aligned = (targets - self.start) & 3 == 0  # every target begins with a 32-bit number
        self.require(aligned, positions, field, "misaligned reference")
        self.inside(targets, 4, field, positions)
        return targets

    def counts(self, positions: Ints, item_size: int, field: str) -> Ints:
        """Return the lengths of the vectors at ``positions``; their items are in the buffer."""
        counts = self.load("<u4", positions).astype(np.int64)
        self.inside(positions + 4, counts * item_size, field, positions)
        return counts

    def items(self, positions: Ints, item_size: int, field: str) -> tuple[Ints, Ints]:
        """Positions of all items of vectors, one vector after the other, and the vectors' lengths.

        Raises:
            FormatError: As ``lengths``.
        """
        counts = self.lengths(positions, item_size, field)
        items = VectorItems(positions, counts, item_size)
        return items.between(0, items.count), counts

    def lengths(self, positions: Ints, item_size: int, field: str) -> Ints:
        """Return the lengths of vectors; those at position 0 are absent and have no items.

        Raises:
            FormatError: A vector is truncated, or all together are longer than the buffer: with
                overlapping vectors, a small file could otherwise fill any amount of memory.
        """
        counts = np.zeros(len(positions), np.int64)
        present = np.flatnonzero(positions)
        with of_entries(present):
            counts[present] = self.counts(positions[present], item_size, field)
        self.fit(counts * item_size, positions, field, "vectors overlap")
        return counts

    def fit(self, sizes: Ints, positions: Ints, field: str, why: str) -> None:
        """Require that the total size fits into the buffer; the largest entries fail."""
        room = self.end - self.start
        if int(sizes.sum()) > room:
            largest_last = np.argsort(sizes, kind="stable")
            good = np.zeros(len(sizes), np.bool_)
            good[largest_last] = np.cumsum(sizes[largest_last]) <= room
            self.require(good, positions, field, why)

    def vectors(self, positions: Ints, dtype: npt.DTypeLike, field: str) -> list[tuple[Any, ...]]:
        """Return the vectors of numbers at ``positions``, empty where absent (0)."""
        places, shared = np.unique(positions, return_inverse=True)
        with shared_by(shared):
            slots, counts = self.items(places, np.dtype(dtype).itemsize, field)
        vectors = split(self.load(dtype, slots).tolist(), counts)
        return [vectors[index] for index in shared.tolist()]

    def string_lengths(self, positions: Ints, field: str) -> Ints:
        """Return the lengths of the strings at ``positions``, bytes; check their terminators."""
        lengths = self.load("<u4", positions).astype(np.int64)
        self.inside(positions + 4, lengths + 1, field, positions)
        terminators = self.load("u1", positions + 4 + lengths)
        self.require(terminators == 0, positions, field, "string without a terminator")
        return lengths

    def text(self, position: int) -> bytes:
        """Return the bytes of the (already checked) string at ``position``."""
        first = position + 4
        return self.data[first : first + int.from_bytes(self.data[position:first], "little")]

    def texts(self, positions: Ints, field: str) -> list[str]:
        """Return the strings at ``positions``; invalid UTF-8 becomes surrogate escapes."""
        places, shared = np.unique(positions, return_inverse=True)
        with shared_by(shared):
            lengths = self.string_lengths(places, field)
            self.fit(lengths, places, field, "strings overlap")
        texts = [self.text(place).decode("utf-8", "surrogateescape") for place in places.tolist()]
        return [texts[index] for index in shared.tolist()]


class VectorItems:
    """The positions of the items of vectors, one vector after the other, computed on demand.

    Attributes:
        count: Number of items of all vectors.
    """

    def __init__(self, positions: Ints, counts: Ints, item_size: int) -> None:
        """Take positions and lengths of the vectors, which are in the buffer."""
        self._size, self._ends = item_size, np.cumsum(counts)
        self._firsts = positions + 4 - (self._ends - counts) * item_size
        self.count = int(self._ends[-1]) if len(self._ends) else 0

    def between(self, first: int, behind: int) -> Ints:
        """Return the positions of the items from ``first`` on, before ``behind``."""
        numbers = np.arange(first, min(behind, self.count), dtype=np.int64)
        vectors = np.searchsorted(self._ends, numbers, side="right")
        return self._firsts[vectors] + numbers * self._size


def split(items: Sequence[_Item], counts: Ints) -> list[tuple[_Item, ...]]:
    """Divide consecutive items into groups of ``counts``."""
    ends = np.cumsum(counts).tolist()
    return [
        tuple(items[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Tables(Generic[_Slot]):
    """Tables of one type.

    Attributes:
        buffer: Their buffer.
        positions: Their positions, shape (n,).
        name: Name of the type, for messages.
        vtables: Positions of the distinct vtables, shape (d,).
        vtable_of: Index into ``vtables`` per table, shape (n,), or None when there is only one.
    """

    buffer: FlatBuffer
    positions: Ints
    name: str
    vtables: Ints
    vtable_of: Ints | None

    @classmethod
    def at(cls, buffer: FlatBuffer, positions: Ints, slots: type[_Slot]) -> Tables[_Slot]:
        """Check tables and their vtables. At least 4 bytes must be at each position.

        Args:
            buffer: Their buffer.
            positions: Their positions.
            slots: The slots of the type; its name is used in messages.
        """
        name = slots.__name__.removesuffix("Table")
        vtables = positions - buffer.load("<i4", positions)
        buffer.inside(vtables, 4, f"{name} vtable", positions)
        aligned = (vtables - buffer.start) & 1 == 0
        buffer.require(aligned, positions, f"{name} vtable", "misaligned reference")
        vtable_of: Ints | None = None
        if len(vtables) and (vtables == vtables[0]).all():
            vtables = vtables[:1]
        else:
            vtables, vtable_of = np.unique(vtables, return_inverse=True)
        sizes = buffer.load("<u2", vtables).astype(np.int64)
        good = (sizes >= 4) & (sizes % 2 == 0)
        with shared_by(np.zeros(len(positions), np.int64) if vtable_of is None else vtable_of):
            buffer.require(good, vtables, f"{name} vtable", "impossible size")
            buffer.inside(vtables, sizes, f"{name} vtable", vtables)
            table_sizes = buffer.load("<u2", vtables + 2).astype(np.int64)
            # The first field is at byte 4, so a smaller size would make any table look empty.
            buffer.require(table_sizes >= 4, vtables, f"{name} vtable", "impossible table size")
        of_each = table_sizes if vtable_of is None else table_sizes[vtable_of]
        buffer.inside(positions, of_each, name, positions)
        return cls(buffer, positions, name, vtables, vtable_of)

    def has(self, slot: _Slot) -> bool:
        """Whether any table has the field in ``slot``, according to the vtables."""
        return bool(self._entries(slot)[1].any())

    def scalars(self, slot: _Slot, dtype: npt.DTypeLike, default: float) -> npt.NDArray[Any]:
        """Return the field in ``slot`` of every table, ``default`` if absent, shape (n,)."""
        item = np.dtype(dtype)
        places = self._fields(slot, item.itemsize)
        if places.all():
            return self.buffer.load(item, places)
        values = np.full(len(places), default, item)
        present = np.flatnonzero(places)
        values[present] = self.buffer.load(item, places[present])
        return values

    def references(self, slot: _Slot) -> Ints:
        """Return the target of the reference in ``slot`` of every table, 0 if absent."""
        places = self._fields(slot, 4)
        if places.all():
            return self.buffer.follow(places, self._field(slot))
        present = np.flatnonzero(places)
        with of_entries(present):
            targets = self.buffer.follow(places[present], self._field(slot))
        places[present] = targets
        return places

    def texts(self, slot: _Slot) -> list[str]:
        """Return the string in ``slot`` of every table, "" if absent."""
        places = self.references(slot)
        present = np.flatnonzero(places)
        with of_entries(present):
            texts = iter(self.buffer.texts(places[present], self._field(slot)))
        return [next(texts) if place else "" for place in places.tolist()]

    def vectors(self, slot: _Slot, dtype: npt.DTypeLike) -> list[tuple[Any, ...]]:
        """Return the vector of numbers in ``slot`` of every table, empty if absent."""
        return self.buffer.vectors(self.references(slot), dtype, self._field(slot))

    def children(self, slot: _Slot, slots: type[_Child]) -> tuple[Tables[_Child], Ints]:
        """Return the tables in every table's vector in ``slot``, one vector after the other.

        Returns:
            The tables, and their number per vector.
        """
        field = self._field(slot)
        places, counts = self.buffer.items(self.references(slot), 4, field)
        return Tables.at(self.buffer, self.buffer.follow(places, field), slots), counts

    def unions(
        self,
        slots: tuple[_Slot, _Slot],
        readers: Mapping[Any, Callable[[FlatBuffer, Ints], Sequence[_Item]]],
        *,
        field: str,
        unknown: str,
        missing: str,
    ) -> list[_Item]:
        """Return the content of the union in every table.

        Args:
            slots: The slot of the content's type, and that of the content.
            readers: Reads the contents at some positions, by their type.
            field: The union, for messages.
            unknown: Message for a type without a reader.
            missing: Message for a table without content.
        """
        types = self.scalars(slots[0], "u1", 0)
        self.buffer.require(np.isin(types, [*readers]), self.positions, field, unknown)
        places = self.references(slots[1])
        self.buffer.require(places != 0, self.positions, field, missing)
        found: dict[int, _Item] = {}
        for type_, read in readers.items():
            rows = np.flatnonzero(types == type_)
            found |= zip(rows.tolist(), read(self.buffer, places[rows]), strict=True)
        return [found[row] for row in range(len(types))]

    def _field(self, slot: _Slot) -> str:
        return f"{self.name}.{slot.name.lower()}"

    def _fields(self, slot: _Slot, size: int) -> Ints:
        """Return the position of the field in ``slot`` of every table, 0 if absent, shape (n,)."""
        entries, offsets = self._entries(slot)
        fits = offsets >= 4
        if self.buffer.table_sizes:
            fits &= offsets + size <= self.buffer.load("<u2", self.vtables + 2)
        absent, of_tables = offsets == 0, self.vtable_of
        with shared_by(np.zeros(len(self.positions), np.int64) if of_tables is None else of_tables):
            field = self._field(slot)
            self.buffer.require(fits | absent, entries, field, "field outside its table")
            # Tables are aligned to 4 bytes, so alignment up to 4 depends only on the vtable.
            aligned = offsets % min(size, 4) == 0
            self.buffer.require(aligned, entries, field, "misaligned field")
        if self.vtable_of is not None:
            offsets, absent = offsets[self.vtable_of], absent[self.vtable_of]
        places = self.positions + offsets
        if size > 4:
            aligned = self.buffer.aligned(places, size, absent)
            self.buffer.require(aligned, places, field, "misaligned field")
        if absent.any():
            places[np.broadcast_to(absent, places.shape)] = 0
        if not self.buffer.table_sizes:
            present = np.flatnonzero(places)
            with of_entries(present):
                self.buffer.inside(places[present], size, field, places[present])
        return places

    def _entries(self, slot: _Slot) -> tuple[Ints, Ints]:
        """Return per vtable the position of its entry for ``slot``, and the entry (0: absent)."""
        entry = 4 + 2 * int(slot)
        long_enough = self.buffer.load("<u2", self.vtables) >= entry + 2
        entries = np.where(long_enough, self.vtables + entry, self.vtables)
        offsets = self.buffer.load("<u2", entries).astype(np.int64)
        return entries, np.where(long_enough, offsets, 0)


@dataclass(frozen=True, slots=True)
class Vector:
    """A field that is a vector.

    Attributes:
        of: The dtype of its numbers, or the slots of its tables.
    """

    of: str | type[IntEnum]


@dataclass(frozen=True, slots=True)
class Union:
    """A field that is a union; the slot before it holds the number of its type.

    Attributes:
        of: The slots of the tables, by type number.
    """

    of: Mapping[int, type[IntEnum]]


Shape = str | type[str] | type[IntEnum] | Vector | Union
"""Type of a field: a number of this dtype, a string, a table with these slots, or as above."""
Layout = Mapping[type[IntEnum], Sequence[Shape]]
"""The shapes of the fields of every type of table, in the order of the slots."""

_Found = Iterator[tuple[type[IntEnum], Ints]]


def verified_root(buffer: FlatBuffer, slots: type[_Slot], layout: Layout) -> Tables[_Slot]:
    """Return the root table of a whole file, once everything that it refers to is verified.

    Raises:
        FormatError: An offset points outside the buffer.
    """
    start = np.zeros(1, np.int64)
    buffer.inside(start, 8, "file", start)
    place = buffer.follow(start, "root")
    verify(buffer, place, slots, layout)
    return Tables.at(buffer, place, slots)


def verify(buffer: FlatBuffer, positions: Ints, root: type[IntEnum], layout: Layout) -> None:
    """Check everything reachable from tables, including fields that are never read.

    Args:
        buffer: Their buffer.
        positions: Positions of the tables of type ``root``; each has at least 4 bytes.
        root: The slots of these tables.
        layout: Types of the fields of all tables.

    Raises:
        DefectError: A reference points outside the buffer, is misaligned, or a string is not
            terminated.
    """
    waiting = [(root, positions)]
    verified: dict[type[IntEnum], Ints] = {}
    while waiting:
        slots, places = waiting.pop()
        known = verified.get(slots, np.zeros(0, np.int64))
        new = np.setdiff1d(places, known)  # shared tables only once, against exponential time
        verified[slots] = np.union1d(known, new)
        if len(new):
            tables = Tables.at(buffer, new, slots)
            for slot, shape in zip(slots, layout[slots], strict=True):
                if tables.has(slot):
                    waiting += _verify_field(tables, slot, shape)


def _verify_field(tables: Tables[Any], slot: IntEnum, shape: Shape) -> _Found:
    """Check a field of all tables, and yield the tables that it refers to."""
    buffer, field = tables.buffer, f"{tables.name}.{slot.name.lower()}"
    if isinstance(shape, str):
        tables.scalars(slot, shape, 0)
        return
    targets = tables.references(slot)
    if isinstance(shape, Union):
        types = tables.scalars(type(slot)(slot - 1), "u1", 0)
        for number, slots in shape.of.items():
            yield slots, targets[(types == number) & (targets != 0)]
        return
    places = np.unique(targets[targets != 0])
    if not isinstance(shape, Vector):
        if issubclass(shape, str):
            buffer.string_lengths(places, field)
        else:
            yield shape, places
    elif isinstance(of := shape.of, str):
        buffer.counts(places, np.dtype(of).itemsize, field)
    else:
        yield of, buffer.follow(buffer.items(places, 4, field)[0], field)
