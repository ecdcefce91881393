"""Puts external data into a program, which any runtime then takes as a ``.pte`` file.

The program is read into a tree of tables and written again, with what ExecuTorch would look up in
the ``.ptd`` files as constants, or as the initial state of mutable buffers, in its segments. Data
that no tensor names stays data with a name, for the program's delegates.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from math import prod
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from harness.decode import pte_schema as pte
from harness.decode.ed00_writer import TableBuilder
from harness.decode.flatbuffer import FlatBuffer, Shape, Union, Vector, verified_root
from harness.decode.pte import read_named_program
from harness.errors import FormatError, UsageError, did_you_mean
from harness.extensions.external_data.data_file import StoredTensor, read_data_files
from harness.records.trace import STORED_AS, type_name

_ALIGNMENT: Final = 16
"""Alignment of constants and of data in the FlatBuffer, bytes."""

_SEGMENT_ALIGNMENT: Final = 128
"""Alignment of segments, as the exporter has it by default, bytes."""

_LISTED: Final = 5
"""Most names in a message."""

_HEADER: Final = struct.Struct("<4sIQQQ")
_EXTERNAL: Final = 1
"""``TensorDataLocation`` of a tensor whose data is looked up by its name."""

_Tensor, _Extra = pte.TensorTable, pte.ExtraTensorInfo


class TableNode:
    """A table of a FlatBuffer: its fields by slot, with numbers as bytes; absent ones are not."""

    __slots__ = ("fields", "slots")

    def __init__(self, slots: type[IntEnum], fields: dict[int, Any]) -> None:
        self.slots, self.fields = slots, fields

    def number(self, slot: IntEnum, default: int = 0) -> int:
        """Return an integer field."""
        data = self.fields.get(slot)
        return default if data is None else int.from_bytes(data, "little")

    def put(self, slot: IntEnum, number: int) -> None:
        """Set an integer field."""
        dtype = cast("str", pte.LAYOUT[self.slots][slot])
        self.fields[slot] = number.to_bytes(np.dtype(dtype).itemsize, "little")


def link_program(program: bytes, files: Sequence[Path], name: str = "the program") -> bytes:
    """Return a program that contains its external data, as any runtime takes it.

    Args:
        program: The contents of a ``.pte`` file.
        files: Its ``.ptd`` files.
        name: Name of the program in messages.

    Raises:
        UsageError: A file cannot be read, the program needs other data than there is, or none.
        FormatError: The program or a file is damaged.
    """
    read_named_program(program, name)  # verifies it
    return _Linker(program, name, read_data_files(files)).linked()


class _Linker:
    """A program in the making: its tables, its segments, and the data that it has taken over."""

    def __init__(self, program: bytes, name: str, data: Mapping[str, StoredTensor]) -> None:
        self._name, self._data = name, data
        self._files = ", ".join(sorted({entry.place[0] for entry in data.values()})) or "--data"
        size, base = _window(program)
        self.root = _Reader(program, size).root()
        self.segments: list[bytearray] = []
        for segment in self.root.fields.get(pte.ProgramTable.SEGMENTS, []):
            at = base + segment.number(pte.DataSegment.OFFSET)
            size = segment.number(pte.DataSegment.SIZE)
            self.segments.append(bytearray(program[at : at + size]))
        self._taken: dict[tuple[str, int, int], int] = {}
        self._used: set[str] = set()

    def linked(self) -> bytes:
        """Return the file."""
        own = self._names()
        for method, tensor in list(self._tensors()):
            extra = tensor.fields.get(_Tensor.EXTRA_TENSOR_INFO)
            if extra is None or extra.number(_Extra.LOCATION) != _EXTERNAL:
                continue
            key = _text(extra.fields.get(_Extra.FULLY_QUALIFIED_NAME, b""))
            if key in self._data:
                self._take(method, key, tensor)
            elif key not in own:
                raise self._missing(method, key)
        for _, tensor in self._tensors():
            extra = tensor.fields.get(_Tensor.EXTRA_TENSOR_INFO)
            if tensor.number(_Tensor.DATA_BUFFER_IDX) and extra is not None:
                extra.fields.pop(_Extra.LOCATION, None)
        self._keep_the_rest()
        return self._file()

    def _tensors(self) -> Iterator[tuple[str, TableNode]]:
        """Yield the tensors of all methods, and the names of their methods."""
        for plan in self.root.fields.get(pte.ProgramTable.EXECUTION_PLAN, []):
            method = _text(plan.fields.get(pte.ExecutionPlan.NAME, b""))
            for value in plan.fields.get(pte.ExecutionPlan.VALUES, []):
                if value.number(pte.EValue.VAL_TYPE) == pte.KernelTypes.TENSOR:
                    yield method, value.fields[pte.EValue.VAL]

    def _named(self) -> list[TableNode]:
        named: list[TableNode] = self.root.fields.setdefault(pte.ProgramTable.NAMED_DATA, [])
        return named

    def _names(self) -> set[str]:
        """Return the names of the data that the program has itself."""
        return {_text(entry.fields.get(pte.NamedData.KEY, b"")) for entry in self._named()}

    def _missing(self, method: str, key: str) -> UsageError:
        names = [*map(repr, sorted(self._data))]
        there = ", ".join(names[:_LISTED]) + (", ..." if names[_LISTED:] else "") or "nothing"
        return UsageError(
            f"{self._files}: no data named {key!r}, which method {method!r} of {self._name} needs",
            hint=f"{did_you_mean(key, self._data)}give the .ptd files of the same export; there is "
            f"{there}",
        )

    def _take(self, method: str, key: str, tensor: TableNode) -> None:
        """Make the data of a name the constant, or the initial state, of a tensor."""
        entry = self._data[key]
        self._check(method, key, tensor, entry)
        self._used.add(key)
        if pte.TensorTable.ALLOCATION_INFO in tensor.fields:
            states = self.root.fields.setdefault(pte.ProgramTable.MUTABLE_DATA_SEGMENTS, [])
            number = tensor.fields[_Tensor.EXTRA_TENSOR_INFO].number(
                _Extra.MUTABLE_DATA_SEGMENTS_IDX
            )
            if not states:
                states.append(TableNode(pte.SubsegmentOffsets, {}))
            pieces, of = states[number], number
        else:
            pieces, of = self._constants(), -1
        place = (*entry.place, of)
        if place not in self._taken:
            self._taken[place] = self._append(pieces, entry.data)
        tensor.put(_Tensor.DATA_BUFFER_IDX, self._taken[place])

    def _constants(self) -> TableNode:
        if self.root.fields.get(pte.ProgramTable.CONSTANT_BUFFER):
            raise UsageError(
                f"{self._name} has constants in the layout of 2024, which has no external data",
                hint="export it with a newer ExecuTorch",
            )
        constants: TableNode = self.root.fields.setdefault(
            pte.ProgramTable.CONSTANT_SEGMENT, TableNode(pte.SubsegmentOffsets, {})
        )
        return constants

    def _append(self, pieces: TableNode, data: bytes) -> int:
        """Append data to the segment of a table of offsets; return its index there."""
        slots = pte.SubsegmentOffsets
        offsets = pieces.fields.get(slots.OFFSETS) or b""
        if len(offsets) <= 8:  # the first is that of tensors without data
            pieces.put(slots.SEGMENT_INDEX, len(self.segments))
            self.segments.append(bytearray())
            offsets = bytes(8)
        number = pieces.number(slots.SEGMENT_INDEX)
        segment = self.segments[number]
        segment += bytes(-len(segment) % _ALIGNMENT)
        pieces.fields[slots.OFFSETS] = offsets + len(segment).to_bytes(8, "little")
        segment += data
        return len(offsets) // 8

    def _check(self, method: str, key: str, tensor: TableNode, entry: StoredTensor) -> None:
        """Check that data is for a tensor, as ExecuTorch does."""
        sizes = np.frombuffer(tensor.fields.get(_Tensor.SIZES, b""), "<i4").tolist()
        order = [*tensor.fields.get(_Tensor.DIM_ORDER, b"")]
        scalar_type = tensor.number(_Tensor.SCALAR_TYPE)
        wanted = scalar_type, tuple(sizes), tuple(order)
        expected = f"{type_name(scalar_type)} {_shape(sizes)}"
        hint = "give the .ptd file of the same export as the program"
        of = f"{entry.place[0]}: {key!r}"
        for_ = f"method {method!r} of {self._name}"
        if entry.layout is None:
            raise UsageError(f"{of} is no tensor, {for_} needs {expected}", hint=hint)
        if entry.layout != wanted:
            found, shape, _ = entry.layout
            text = f"{type_name(found)} {_shape(shape)}"
            if text == expected:
                text, expected = "in another dim order", "that of the program"
            raise UsageError(f"{of} is {text}, {for_} needs {expected}", hint=hint)
        nbytes = prod(sizes) * np.dtype(STORED_AS[scalar_type]).itemsize
        if len(entry.data) < nbytes:
            raise FormatError(f"{of} has {len(entry.data):,} bytes, {nbytes:,} expected", hint=hint)

    def _keep_the_rest(self) -> None:
        """Keep data that no tensor names for delegates, which look for it by name."""
        rest = {key: entry for key, entry in self._data.items() if key not in self._used}
        plans = self.root.fields.get(pte.ProgramTable.EXECUTION_PLAN, [])
        if not any(plan.fields.get(pte.ExecutionPlan.DELEGATES) for plan in plans):
            if not self._used:
                raise UsageError(
                    f"{self._name} needs no external data",
                    hint="leave out --data, or give the program that was exported with "
                    f"{self._files}",
                )
            return
        known = self._names()
        numbers: dict[tuple[str, int], int] = {}
        for key, entry in rest.items():
            if key in known:
                continue
            if entry.place not in numbers:
                numbers[entry.place] = len(self.segments)
                self.segments.append(bytearray(entry.data))
            node = TableNode(pte.NamedData, {pte.NamedData.KEY: _raw(key)})
            node.put(pte.NamedData.SEGMENT_INDEX, numbers[entry.place])
            self._named().append(node)

    def _file(self) -> bytes:
        """Return the FlatBuffer with an extended header, and the segments behind it."""
        tables, behind = [], bytearray()
        for segment in self.segments:
            behind += bytes(-len(behind) % _SEGMENT_ALIGNMENT)
            table = TableNode(pte.DataSegment, {})
            table.put(pte.DataSegment.OFFSET, len(behind))
            table.put(pte.DataSegment.SIZE, len(segment))
            tables.append(table)
            behind += segment
        self.root.fields[pte.ProgramTable.SEGMENTS] = tables
        buffer = _Writer().file(self.root)
        size = pte.HEADER_LENGTHS[-1] + len(buffer)
        base = -(-size // _SEGMENT_ALIGNMENT) * _SEGMENT_ALIGNMENT
        header = _HEADER.pack(pte.HEADER_MAGIC, _HEADER.size, size, base, len(behind))
        root = int.from_bytes(buffer[:4], "little") + len(header)
        begin = root.to_bytes(4, "little") + pte.IDENTIFIER + header
        return b"".join(((begin + buffer[8:]).ljust(base, b"\0"), behind))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"


def _window(program: bytes) -> tuple[int, int]:
    """Return the size of the FlatBuffer, and where segments begin."""
    at = pte.HEADER_AT
    if program[at : at + 4] != pte.HEADER_MAGIC:
        return len(program), len(program)
    _, _, size, base, _ = _HEADER.unpack_from(program, at)
    return size, base


class _Reader:
    """Reads a verified FlatBuffer into nodes; tables that are shared become shared nodes."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size
        self._nodes: dict[tuple[type[IntEnum], int], TableNode] = {}

    def root(self) -> TableNode:
        buffer = FlatBuffer(self._data, 0, self._size, table_sizes=False)
        root = verified_root(buffer, pte.ProgramTable, pte.LAYOUT)
        return self._node(int(root.positions[0]), pte.ProgramTable)

    def _u32(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + 4], "little")

    def _node(self, at: int, slots: type[IntEnum]) -> TableNode:
        if (slots, at) in self._nodes:
            return self._nodes[slots, at]
        node = self._nodes[slots, at] = TableNode(slots, {})
        vtable = at - int.from_bytes(self._data[at : at + 4], "little", signed=True)
        length = int.from_bytes(self._data[vtable : vtable + 2], "little")
        entries = np.frombuffer(self._data, "<u2", length // 2 - 2, vtable + 4).tolist()
        shapes = pte.LAYOUT[slots]
        if any(entries[len(shapes) :]):
            raise FormatError(
                f"a {slots.__name__.removesuffix('Table')} has fields of a later version of "
                "ExecuTorch",
                offset=at,
                hint="export the model with its constants in the .pte file (without "
                "`external_constants`)",
            )
        for slot, entry in enumerate(entries[: len(shapes)]):
            if entry:
                node.fields[slot] = self._field(at + entry, shapes[slot], node, slot)
        return node

    def _field(self, at: int, shape: Shape, node: TableNode, slot: int) -> Any:
        if isinstance(shape, str):
            return self._data[at : at + np.dtype(shape).itemsize]
        at += self._u32(at)
        if isinstance(shape, Union):
            of = shape.of.get(node.fields.get(slot - 1, b"\0")[0])
            return None if of is None else self._node(at, of)
        if not isinstance(shape, Vector):
            if issubclass(shape, str):
                return self._data[at + 4 : at + 4 + self._u32(at)]
            return self._node(at, shape)
        count, items = self._u32(at), at + 4
        if isinstance(shape.of, str):
            return self._data[items : items + count * np.dtype(shape.of).itemsize]
        places = range(items, items + 4 * count, 4)
        return [self._node(place + self._u32(place), shape.of) for place in places]


class _Writer:
    """Writes nodes as a FlatBuffer: children before parents, shared nodes once."""

    def __init__(self) -> None:
        self._builder: Any = TableBuilder(1 << 16)
        self._offsets: dict[int, int] = {}

    def file(self, root: TableNode) -> bytes:
        self._builder.Finish(self._table(root), pte.IDENTIFIER)
        return bytes(self._builder.Output())

    def _table(self, node: TableNode) -> int:
        if id(node) in self._offsets:
            return self._offsets[id(node)]
        shapes = pte.LAYOUT[node.slots]
        references = {
            slot: self._reference(value, shapes[slot])
            for slot, value in node.fields.items()
            if value is not None and not isinstance(shapes[slot], str)
        }
        builder = self._builder
        builder.StartObject(len(shapes))
        by_size = sorted(node.fields, key=lambda slot: -_size(shapes[slot]))
        for slot in by_size:
            shape = shapes[slot]
            if isinstance(shape, str):
                data = node.fields[slot]
                builder.Prep(len(data), 0)
                self._place(data)
                builder.Slot(slot)
            elif slot in references:
                builder.PrependUOffsetTRelativeSlot(slot, references[slot], 0)
        self._offsets[id(node)] = offset = int(builder.EndObject())
        return offset

    def _reference(self, value: Any, shape: Shape) -> int:
        builder = self._builder
        if isinstance(value, TableNode):
            return self._table(value)
        if not isinstance(shape, Vector):
            return int(builder.CreateString(value))
        if isinstance(shape.of, str):
            item = np.dtype(shape.of).itemsize
            builder.StartVector(item, len(value) // item, _ALIGNMENT if item == 1 else item)
            self._place(value)
            return int(builder.EndVector())
        offsets = [self._table(node) for node in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def _place(self, data: bytes) -> None:
        """Place bytes for which there is room, as the builder does with those of strings."""
        builder = self._builder
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data


def _size(shape: Shape) -> int:
    return np.dtype(shape).itemsize if isinstance(shape, str) else 4
