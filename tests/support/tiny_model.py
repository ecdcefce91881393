"""Builds the smallest .pte files: each input goes through one relu to its own output.

``python -m tests.support.tiny_model firmware_stub/fuzz/tiny_relu.pte`` makes the file that the
fuzzer of the server loads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flatbuffers import Builder

FLOAT = 6
ALIGNMENT = 16

# Numbers of fields and union members in schema/program.fbs.
TENSOR, KERNEL_CALL = 5, 1


def _table(builder: Builder, **fields: Callable[[int], None]) -> int:
    """Write a table; each field is named after its number, as in ``f0``."""
    builder.StartObject(1 + max(int(name[1:]) for name in fields))
    for name, prepend in fields.items():
        prepend(int(name[1:]))
    return builder.EndObject()


def _i32(builder: Builder, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependInt32(value)
    return builder.EndVector()


def _i64(builder: Builder, values: Sequence[int]) -> int:
    builder.StartVector(8, len(values), 8)
    for value in reversed(values):
        builder.PrependInt64(value)
    return builder.EndVector()


def _offsets(builder: Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def _tensor(builder: Builder, elements: int, place: int) -> int:
    """A float tensor of one dimension at a place in planned memory, as an EValue."""

    def at(field: int) -> None:
        builder.PrependUint32Slot(field, place, 0)

    sizes = _i32(builder, [elements])
    order = builder.CreateByteVector(b"\0")
    memory = _table(
        builder,
        f0=lambda field: builder.PrependUint32Slot(field, 1, 0),
        f1=at,
    )
    tensor = _table(
        builder,
        f0=lambda field: builder.PrependInt8Slot(field, FLOAT, 0),
        f2=lambda field: builder.PrependUOffsetTRelativeSlot(field, sizes, 0),
        f3=lambda field: builder.PrependUOffsetTRelativeSlot(field, order, 0),
        f6=lambda field: builder.PrependUOffsetTRelativeSlot(field, memory, 0),
    )
    return _table(
        builder,
        f0=lambda field: builder.PrependUint8Slot(field, TENSOR, 0),
        f1=lambda field: builder.PrependUOffsetTRelativeSlot(field, tensor, 0),
    )


def _relu(builder: Builder, source: int, target: int) -> int:
    args = _i32(builder, [source, target, target])
    call = _table(
        builder,
        f0=lambda field: builder.PrependInt32Slot(field, 0, 0),
        f1=lambda field: builder.PrependUOffsetTRelativeSlot(field, args, 0),
    )
    return _table(
        builder,
        f0=lambda field: builder.PrependUint8Slot(field, KERNEL_CALL, 0),
        f1=lambda field: builder.PrependUOffsetTRelativeSlot(field, call, 0),
    )


def relu_model(
    inputs: Sequence[int],
    outputs: Sequence[int] | None = None,
    *,
    operator: str = "aten::relu",
    copies: int = 1,
) -> bytes:
    """Return a program whose inputs and outputs have these numbers of elements.

    Outputs of another size than their inputs make the kernel refuse when the program is executed.
    The list of outputs is repeated ``copies`` times.
    """
    builder = Builder()
    elements = [*inputs, *(inputs if outputs is None else outputs)]
    strides = [-(-4 * count // ALIGNMENT) * ALIGNMENT for count in elements]
    places = [sum(strides[:number]) for number in range(len(elements))]
    count = len(inputs)
    members = {
        "f0": builder.CreateString("forward"),
        "f2": _offsets(
            builder,
            [_tensor(builder, size, at) for size, at in zip(elements, places, strict=True)],
        ),
        "f3": _i32(builder, range(count)),
        "f4": _i32(builder, copies * list(range(count, 2 * count))),
        "f5": _offsets(builder, [_chain(builder, count)]),
        "f6": _offsets(builder, [_operator(builder, operator)]),
        "f8": _i64(builder, [0, sum(strides)]),
    }
    plan = _offset_table(builder, members)
    plans = _offsets(builder, [plan])
    program = _offset_table(builder, {"f1": plans})
    builder.Finish(program, file_identifier=b"ET12")
    return bytes(builder.Output())


def _chain(builder: Builder, count: int) -> int:
    calls = [_relu(builder, number, count + number) for number in range(count)]
    return _offset_table(builder, {"f2": _offsets(builder, calls)})


def _operator(builder: Builder, name: str) -> int:
    members = {"f0": builder.CreateString(name), "f1": builder.CreateString("out")}
    return _offset_table(builder, members)


def _offset_table(builder: Builder, members: dict[str, int]) -> int:
    def slot(offset: int) -> Callable[[int], None]:
        return lambda field: builder.PrependUOffsetTRelativeSlot(field, offset, 0)

    return _table(builder, **{name: slot(offset) for name, offset in members.items()})


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(relu_model([4, 3]))
