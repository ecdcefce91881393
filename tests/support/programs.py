"""Builds small .pte files: any values and instructions, without an exporter.

    program = ProgramBuilder(planned=[0, 64])
    x = program.tensor((4,), memory=(1, 0))
    y = program.tensor((4,), memory=(1, 16))
    program.call("aten::relu", x, y)
    file = program.finish(inputs=[x], outputs=[y])

Field numbers are those of ``schema/program.fbs``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import flatbuffers
import flatbuffers.number_types as types
import numpy as np
import numpy.typing as npt

from tests.support.runtime import ALIGNMENT, DTYPES

Field = tuple[str, int | float] | None
Slot = tuple[int, Field]
_TYPES = {
    "u8": types.Uint8Flags,
    "i32": types.Int32Flags,
    "u32": types.Uint32Flags,
    "i64": types.Int64Flags,
    "f64": types.Float64Flags,
    "offset": types.UOffsetTFlags,
}
VALUE_TYPES = {"null": 1, "int": 2, "bool": 3, "double": 4, "tensor": 5, "string": 6}
VALUE_TYPES |= {"int_list": 7, "double_list": 8, "bool_list": 9, "tensor_list": 10}
HEADER_SIZE = 32
CALL_TYPES = {"kernel": 1, "delegate": 2, "move": 3, "jump_false": 4, "free": 5}


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class ProgramBuilder:
    """One method ``forward`` of one chain; constants are inline."""

    def __init__(self, planned: Sequence[int] = (0,)) -> None:
        self.planned = planned
        self._builder = flatbuffers.Builder(1024)
        self._values: list[int] = []
        self._instructions: list[int] = []
        self._operators: list[int] = []
        self._delegates: list[int] = []
        self._delegate_data: list[int] = []
        self._constants: list[int] = [self._constant(b"")]
        self._segments: list[bytes] = []
        self._named: dict[str, int] = {}

    def value(self, kind: str, content: Field = None) -> int:
        """Append a value whose table has one field, and return its number."""
        return self._append(VALUE_TYPES[kind], self._table([(0, content)]))

    def text(self, string: str) -> int:
        return self.value("string", ("offset", self._builder.CreateString(string)))

    def integers(self, *numbers: int) -> int:
        items = [self.value("int", ("i64", number)) for number in numbers]
        return self._append(VALUE_TYPES["int_list"], self._table([(0, self._vector(items, "i64"))]))

    def floats(self, *numbers: float) -> int:
        table = self._table([(0, self._vector(numbers, "f64"))])
        return self._append(VALUE_TYPES["double_list"], table)

    def tensors(self, *numbers: int, optional: bool = False) -> int:
        kind = VALUE_TYPES["tensor_list"] + (1 if optional else 0)
        return self._append(kind, self._table([(0, self._vector(numbers, "i32"))]))

    def constant(
        self, data: npt.NDArray[np.generic], dim_order: Sequence[int] | None = None
    ) -> int:
        """Append a constant tensor, in memory in the order given."""
        stored = data if dim_order is None else data.transpose(dim_order)
        self._constants.append(self._constant(stored.tobytes()))
        number = len(self._constants) - 1
        return self.tensor(data.shape, data.dtype.type, constant=number, dim_order=dim_order)

    def segment(self, data: bytes) -> int:
        """Append a segment, and return its number."""
        self._segments.append(data)
        return len(self._segments) - 1

    def name(self, key: str, data: bytes) -> None:
        """Append named data."""
        self._named[key] = self.segment(data)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: npt.DTypeLike = np.float32,
        *,
        memory: tuple[int, int] | None = None,
        constant: int = 0,
        dim_order: Sequence[int] | None = None,
        dynamism: int = 0,
        storage_offset: int = 0,
        scalar_type: int | None = None,
        location: int = 0,
        name: str | None = None,
        device: int = 0,
    ) -> int:
        """Append a tensor: ``memory`` is a planned buffer and an offset in it."""
        order = bytes(range(len(shape)) if dim_order is None else dim_order)
        fields: list[Slot] = [
            (0, ("u8", DTYPES[np.dtype(dtype)] if scalar_type is None else scalar_type)),
            (1, ("i32", storage_offset)),
            (2, self._vector(shape, "i32")),
            (3, ("offset", self._builder.CreateByteVector(order))),
            (5, ("u32", constant)),
            (8, ("u8", dynamism)),
        ]
        if memory is not None:
            place = self._table([(0, ("u32", memory[0])), (1, ("u32", memory[1]))])
            fields.append((6, ("offset", place)))
        if location or device:
            extra: list[Slot] = [(2, ("u8", location)), (3, ("u8", device))]
            if name is not None:
                extra.append((1, ("offset", self._builder.CreateString(name))))
            fields.append((9, ("offset", self._table(extra))))
        return self._append(VALUE_TYPES["tensor"], self._table(fields))

    def call(self, name: str, *args: int, overload: str = "out") -> None:
        """Append a kernel call."""
        text = [self._builder.CreateString(part) for part in (name, overload)]
        self._operators.append(self._table([(i, ("offset", t)) for i, t in enumerate(text)]))
        op = ("i32", len(self._operators) - 1)
        self._instruct("kernel", [(0, op), (1, self._vector(args, "i32"))])

    def move(self, source: int, target: int) -> None:
        self._instruct("move", [(0, ("i32", source)), (1, ("i32", target))])

    def jump_if_false(self, condition: int, destination: int) -> None:
        self._instruct("jump_false", [(0, ("i32", condition)), (1, ("i32", destination))])

    def free(self, value: int) -> None:
        self._instruct("free", [(0, ("i32", value))])

    def delegate(
        self,
        name: str,
        *args: int,
        processed: bytes = b"",
        specs: Mapping[str, bytes] | None = None,
        location: int = 0,
        index: int | None = None,
    ) -> None:
        """Append a delegate, its processed bytes (inline), and a call of it."""
        self._delegate_data.append(self._constant(processed))
        number = len(self._delegate_data) - 1 if index is None else index
        options = [
            self._table([(0, ("offset", self._builder.CreateString(key))), (1, self._bytes(value))])
            for key, value in (specs or {}).items()
        ]
        reference = self._table([(0, ("u8", location)), (1, ("u32", number))])
        fields: list[Slot] = [
            (0, ("offset", self._builder.CreateString(name))),
            (1, ("offset", reference)),
            (2, self._offsets(options)),
        ]
        self._delegates.append(self._table(fields))
        self.call_delegate(len(self._delegates) - 1, *args)

    def call_delegate(self, delegate: int, *args: int) -> None:
        """Append a call of a delegate that is there, or is not."""
        self._instruct("delegate", [(0, ("i32", delegate)), (1, self._vector(args, "i32"))])

    def finish(
        self,
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        states: tuple[int, Sequence[int]] = (0, ()),
        *,
        for_executorch: bool = False,
    ) -> bytes:
        """Return the file. ExecuTorch reads none with inline constants, so it gets none.

        ``states`` is the segment that has what mutable buffers begin with, and offsets in it: the
        first is that of the buffers whose ``constant`` is 1.
        """
        chain = self._table([(2, self._offsets(self._instructions))])
        name = ("offset", self._builder.CreateString("forward"))
        plan = self._table(
            [
                (0, name),
                (2, self._offsets(self._values)),
                (3, self._vector(inputs, "i32")),
                (4, self._vector(outputs, "i32")),
                (5, self._offsets([chain])),
                (6, self._offsets(self._operators)),
                (7, self._offsets(self._delegates)),
                (8, self._vector(self.planned, "i64")),
            ]
        )
        root: list[Slot] = [
            (1, self._offsets([plan])),
            (3, self._offsets(self._delegate_data)),
        ]
        if for_executorch:
            segment = self._table([(0, ("u32", self.segment(b""))), (1, self._vector([0], "i64"))])
            root.append((5, ("offset", segment)))
        else:
            root.append((2, self._offsets(self._constants)))
        root += self._segment_fields(states)
        self._builder.Finish(self._table(root), file_identifier=b"ET12")
        program = bytes(self._builder.Output())
        return self._with_segments(program) if self._segments else program

    def _segment_fields(self, states: tuple[int, Sequence[int]]) -> list[Slot]:
        places = np.cumsum([0, *(_padded(len(data)) for data in self._segments)])
        segments = [
            self._table([(0, ("i64", int(place))), (1, ("i64", len(data)))])
            for place, data in zip(places, self._segments, strict=False)
        ]
        named = []
        for key, number in self._named.items():
            text = ("offset", self._builder.CreateString(key))
            named.append(self._table([(0, text), (1, ("u32", number))]))
        fields: list[Slot] = [(4, self._offsets(segments)), (7, self._offsets(named))]
        if states[1]:
            offsets = self._vector([0, *states[1]], "i64")
            table = self._table([(0, ("u32", states[0])), (1, offsets)])
            fields.append((6, self._offsets([table])))
        return fields

    def _with_segments(self, program: bytes) -> bytes:
        """Put the extended header before the root table, and the segments behind everything."""
        root, identifier, rest = int.from_bytes(program[:4], "little"), program[4:8], program[8:]
        size = len(program) + HEADER_SIZE
        data = b"".join(data.ljust(_padded(len(data)), b"\0") for data in self._segments)
        header = struct.pack("<4sIQQQ", b"eh00", HEADER_SIZE, size, _padded(size), len(data))
        start = struct.pack("<I4s", root + HEADER_SIZE, identifier)
        return (start + header + rest).ljust(_padded(size), b"\0") + data

    def _append(self, kind: int, content: int) -> int:
        self._values.append(self._table([(0, ("u8", kind)), (1, ("offset", content))]))
        return len(self._values) - 1

    def _instruct(self, kind: str, fields: Sequence[Slot]) -> None:
        content = ("offset", self._table(fields))
        self._instructions.append(self._table([(0, ("u8", CALL_TYPES[kind])), (1, content)]))

    def _constant(self, data: bytes) -> int:
        # The builder fills the file from its end, so what follows keeps the alignment.
        self._builder.StartVector(1, len(data), 16)
        self._builder.head -= len(data)
        self._builder.Bytes[self._builder.head : self._builder.head + len(data)] = data
        storage = self._builder.EndVector()
        return self._table([(0, ("offset", storage))])

    def _bytes(self, data: bytes) -> Field:
        return ("offset", int(self._builder.CreateByteVector(data)))

    def _table(self, fields: Sequence[Slot]) -> int:
        self._builder.StartObject(16)
        for number, content in fields:
            if content is None:
                continue
            kind, value = content
            if kind == "offset":
                self._builder.PrependUOffsetTRelativeSlot(number, int(value), 0)
            else:
                self._builder.PrependSlot(_TYPES[kind], number, value, None)
        return int(self._builder.EndObject())

    def _vector(self, numbers: Sequence[int], kind: str) -> Field:
        size = _TYPES[kind].bytewidth
        return self._fill(numbers, size, lambda n: self._builder.Prepend(_TYPES[kind], n))

    def _offsets(self, offsets: Sequence[int]) -> Field:
        return self._fill(offsets, 4, self._builder.PrependUOffsetTRelative)

    def _fill(self, items: Sequence[int], size: int, prepend: Callable[[int], object]) -> Field:
        self._builder.StartVector(size, len(items), size)
        for item in reversed(items):
            prepend(item)
        return ("offset", int(self._builder.EndVector()))
