"""FlatBuffers read column-wise: many tables at once, every offset checked before it is followed.

The format (https://flatbuffers.dev/internals): a table begins with a signed 32-bit distance back
to its vtable; a vtable holds its own size, the table's size, and per slot the offset of the field
in the table, 0 when absent; references are unsigned 32-bit distances forward; vectors and strings
begin with a 32-bit count, strings end with a NUL that is not counted. Everything is little-endian.
Tables may share vtables, and references may share targets.

Positions are byte offsets in the whole file, int64 arrays. Position 0 stands for "absent": no
table, vector or string can be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError

Ints = npt.NDArray[np.int64]
_Slot = TypeVar("_Slot", bound=IntEnum)
_Child = TypeVar("_Child", bound=IntEnum)
_Item = TypeVar("_Item")


class FlatBuffer:
    """The bytes of one buffer and checked ways to read them."""

    def __init__(self, data: bytes, start: int, end: int, *, table_sizes: bool = True) -> None:
        """Read ``data[start:end]``; references are not followed out of it.

        ``table_sizes`` says whether vtables know the sizes of their tables. Those of flatbuffers'
        Python builder do not: tables of different sizes share one, when their fields begin at the
        same offsets. What is checked then is that fields lie in the buffer.
        """
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
        """Raise FormatError for the first position that is not ``good``."""
        if not good.all():
            raise FormatError(why, offset=int(positions[np.argmin(good)]), field=field)

    def inside(self, positions: Ints, size: int | Ints, field: str, where: Ints) -> None:
        """Require ``size`` bytes at each position; ``where`` is what led there, for the message."""
        good = (positions >= self.start) & (positions <= self.end - size)
        self.require(good, where, field, "points outside the buffer")

    def follow(self, positions: Ints, field: str) -> Ints:
        """Where the references at ``positions`` lead; at least 4 bytes are there."""
        distance = self.load("<u4", positions).astype(np.int64)
        self.require(distance != 0, positions, field, "reference to itself")
        targets = positions + distance
        self.inside(targets, 4, field, positions)
        return targets

    def counts(self, positions: Ints, item_size: int, field: str) -> Ints:
        """Lengths of the vectors at ``positions``, whose items are inside the buffer."""
        counts = self.load("<u4", positions).astype(np.int64)
        self.inside(positions + 4, counts * item_size, field, positions)
        return counts

    def items(self, positions: Ints, item_size: int, field: str) -> tuple[Ints, Ints]:
        """Positions of all items of vectors, one vector after the other, and the vectors' lengths.

        Vectors at position 0 are absent and have no items.

        Raises:
            FormatError: A vector is cut off, or all together are longer than the buffer: vectors
                that overlap could otherwise fill any memory from a small file.
        """
        counts = np.zeros(len(positions), np.int64)
        present = np.flatnonzero(positions)
        counts[present] = self.counts(positions[present], item_size, field)
        total = int(counts.sum())
        if total * item_size > self.end - self.start:
            raise FormatError("vectors overlap", offset=int(positions[present[0]]), field=field)
        before = np.cumsum(counts) - counts
        firsts = positions + 4 - before * item_size
        return np.repeat(firsts, counts) + np.arange(total, dtype=np.int64) * item_size, counts

    def vectors(self, positions: Ints, dtype: npt.DTypeLike, field: str) -> list[tuple[Any, ...]]:
        """The vectors of numbers at ``positions``, empty where absent (0)."""
        places, shared = np.unique(positions, return_inverse=True)
        slots, counts = self.items(places, np.dtype(dtype).itemsize, field)
        vectors = split(self.load(dtype, slots).tolist(), counts)
        return [vectors[index] for index in shared.tolist()]

    def strings(self, positions: Ints, field: str) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Intern the strings at ``positions``, none of them absent.

        Returns:
            The distinct strings in the order of their first use, and the index of each position's
            string among them. Bytes that are not UTF-8 become surrogate escapes.
        """
        places, inverse = np.unique(positions, return_inverse=True)
        lengths = self.load("<u4", places).astype(np.int64)
        self.inside(places + 4, lengths + 1, field, places)
        terminator = self.load("u1", places + 4 + lengths)
        self.require(terminator == 0, places, field, "string without a terminator")
        if int(lengths.sum()) > self.end - self.start:
            raise FormatError("strings overlap", offset=int(places[0]), field=field)

        codes = np.zeros(len(places), np.int64)
        examples: list[int] = []  # a place of each distinct string
        for length in np.unique(lengths).tolist():
            alike = np.flatnonzero(lengths == length)
            if length:
                # Strings of one length are equal when their bytes are, trailing NULs included.
                content = self.load(f"S{length}", places[alike] + 4)
                _, first, code = np.unique(content, return_index=True, return_inverse=True)
            else:
                first, code = np.zeros(1, np.int64), np.zeros(len(alike), np.int64)
            codes[alike] = code + len(examples)
            examples += places[alike[first]].tolist()
        return self._in_order(codes[inverse], examples)

    def _in_order(
        self, codes: Ints, examples: list[int]
    ) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Decode the strings at ``examples``, renumbered by their first appearance in ``codes``."""
        _, first = np.unique(codes, return_index=True)
        order = np.argsort(first)
        rank = np.zeros(len(examples), np.int32)
        rank[order] = np.arange(len(examples), dtype=np.int32)
        texts = []
        for place in (examples[number] for number in order.tolist()):
            length = int.from_bytes(self.data[place : place + 4], "little")
            texts.append(
                self.data[place + 4 : place + 4 + length].decode("utf-8", "surrogateescape")
            )
        return texts, rank[codes]


def split(items: Sequence[_Item], counts: Ints) -> list[tuple[_Item, ...]]:
    """Divide items that stand one behind the other into groups of ``counts``."""
    ends = np.cumsum(counts).tolist()
    return [
        tuple(items[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Tables(Generic[_Slot]):
    """Tables of one type.

    Attributes:
        buffer: Where they are.
        positions: Where each begins, shape (n,).
        name: Of the type, for messages.
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
            buffer: Where they are.
            positions: Where each begins.
            slots: The slots of the type; its name is the type's, for messages.
        """
        name = slots.__name__
        vtables = positions - buffer.load("<i4", positions)
        buffer.inside(vtables, 4, f"{name} vtable", positions)
        vtable_of: Ints | None = None
        if len(vtables) and (vtables == vtables[0]).all():
            vtables = vtables[:1]
        else:
            vtables, vtable_of = np.unique(vtables, return_inverse=True)
        sizes = buffer.load("<u2", vtables).astype(np.int64)
        good = (sizes >= 4) & (sizes % 2 == 0)
        buffer.require(good, vtables, f"{name} vtable", "impossible size")
        buffer.inside(vtables, sizes, f"{name} vtable", vtables)
        table_sizes = buffer.load("<u2", vtables + 2).astype(np.int64)
        of_each = table_sizes if vtable_of is None else table_sizes[vtable_of]
        buffer.inside(positions, np.maximum(of_each, 4), name, positions)
        return cls(buffer, positions, name, vtables, vtable_of)

    def scalars(self, slot: _Slot, dtype: npt.DTypeLike, default: float) -> npt.NDArray[Any]:
        """The field in ``slot`` of every table, ``default`` where it is absent, shape (n,)."""
        item = np.dtype(dtype)
        places = self._fields(slot, item.itemsize)
        if (places != 0).all():
            return self.buffer.load(item, places)
        values = np.full(len(places), default, item)
        present = np.flatnonzero(places)
        values[present] = self.buffer.load(item, places[present])
        return values

    def references(self, slot: _Slot) -> Ints:
        """Where the reference in ``slot`` of every table leads, 0 where it is absent."""
        places = self._fields(slot, 4)
        present = np.flatnonzero(places)
        places[present] = self.buffer.follow(places[present], self._field(slot))
        return places

    def texts(self, slot: _Slot) -> list[str]:
        """The string in ``slot`` of every table, "" where it is absent."""
        places = self.references(slot)
        texts = np.full(len(places), -1, np.int64)
        present = np.flatnonzero(places)
        names, texts[present] = self.buffer.strings(places[present], self._field(slot))
        return [*map([*names, ""].__getitem__, texts.tolist())]

    def vectors(self, slot: _Slot, dtype: npt.DTypeLike) -> list[tuple[Any, ...]]:
        """The vector of numbers in ``slot`` of every table, empty where it is absent."""
        return self.buffer.vectors(self.references(slot), dtype, self._field(slot))

    def children(self, slot: _Slot, slots: type[_Child]) -> tuple[Tables[_Child], Ints]:
        """The tables of every table's vector in ``slot``, one vector after the other.

        Returns:
            The tables, and how many each table has.
        """
        field = self._field(slot)
        places, counts = self.buffer.items(self.references(slot), 4, field)
        return Tables.at(self.buffer, self.buffer.follow(places, field), slots), counts

    def _field(self, slot: _Slot) -> str:
        return f"{self.name}.{slot.name.lower()}"

    def _fields(self, slot: _Slot, size: int) -> Ints:
        """Where the field in ``slot`` of every table is, 0 where absent, shape (n,)."""
        entry = 4 + 2 * int(slot)
        load = self.buffer.load
        sizes = load("<u2", self.vtables)
        long_enough = sizes >= entry + 2
        entries = np.where(long_enough, self.vtables + entry, self.vtables)
        offsets = np.where(long_enough, load("<u2", entries).astype(np.int64), 0)
        fits = offsets >= 4
        if self.buffer.table_sizes:
            fits &= offsets + size <= load("<u2", self.vtables + 2)
        good = fits | (offsets == 0)
        self.buffer.require(good, entries, self._field(slot), "field outside its table")
        if self.vtable_of is not None:
            offsets = offsets[self.vtable_of]
        places = np.where(offsets != 0, self.positions + offsets, 0)
        if not self.buffer.table_sizes:
            present = places[places != 0]
            self.buffer.inside(present, size, self._field(slot), present)
        return places
