"""Reads a ``.pte`` file into a Program, without flatc or torch. Format: ``schema/program.fbs``.

Tables are read column-wise. Every offset and value number is checked, even in tables that are not
read (``harness.decode.flatbuffer``). Constants and delegate data are skipped.

Not ``executorch.exir``'s own deserializer: it needs torch and flatc, which machines that only
decode or report do not have, and it trusts its input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final

import numpy as np

from harness.decode import pte_schema as pte
from harness.decode.bundled_program import program_bytes
from harness.decode.flatbuffer import FlatBuffer, Ints, Tables, split, verify
from harness.decode.program import (
    Call,
    Dynamism,
    Instruction,
    Method,
    Program,
    Tensor,
    Value,
    ValueList,
)
from harness.decode.pte_schema import KernelTypes
from harness.errors import FormatError

_EXTERNAL = 1  # TensorDataLocation
_NUMBERED: Final[dict[KernelTypes, tuple[str, type[int] | type[Tensor], bool]]] = {
    KernelTypes.INT_LIST: ("<i8", int, False),
    KernelTypes.TENSOR_LIST: ("<i4", Tensor, False),
    KernelTypes.OPTIONAL_TENSOR_LIST: ("<i4", Tensor, True),
}
"""Lists of value numbers: dtype, type of the values, and whether items may be missing."""


def read_values(tables: Tables[pte.EValue]) -> list[Value]:
    """Decode the values of one method.

    Raises:
        FormatError: An offset points outside the buffer, or a value is invalid.
    """
    types = tables.scalars(pte.EValue.VAL_TYPE, "u1", 0)
    known = (types > KernelTypes.NONE) & (types <= KernelTypes.OPTIONAL_TENSOR_LIST)
    tables.buffer.require(known, tables.positions, "EValue", "unknown kind of value")
    places = tables.references(pte.EValue.VAL)
    tables.buffer.require(places != 0, tables.positions, "EValue", "has no content")
    values: list[Value] = [None] * len(types)

    for type_, read in _VALUE_READERS.items():
        rows = np.flatnonzero(types == type_)
        for row, value in zip(rows.tolist(), read(tables.buffer, places[rows]), strict=True):
            values[row] = value
    for type_, (dtype, kind, optional) in _NUMBERED.items():
        rows = np.flatnonzero(types == type_)
        vectors = _vectors(tables.buffer, places[rows], dtype)
        for row, numbers in zip(rows.tolist(), vectors, strict=True):
            items = [None if optional and n == -1 else _value(values, n, kind) for n in numbers]
            if any(item is _MISSING for item in items):
                raise FormatError(
                    f"value {row} lists a value that is missing or of another type",
                    offset=int(places[row]),
                    field=type_.name.lower(),
                )
            values[row] = ValueList(tuple(items), numbers)
    return values


_MISSING: Final[Any] = object()


def _value(values: Sequence[Value], number: int, kind: type[int] | type[Tensor]) -> Any:
    """Return the value with this number if it has the type ``kind``, else ``_MISSING``."""
    found = values[number] if 0 <= number < len(values) else None
    return found if isinstance(found, kind) and not isinstance(found, bool) else _MISSING


def _scalars(dtype: str, buffer: FlatBuffer, places: Ints) -> list[Value]:
    tables = Tables.at(buffer, places, pte.Content)
    found: list[Value] = tables.scalars(pte.Content.CONTENT, dtype, 0).tolist()
    return found


def _texts(buffer: FlatBuffer, places: Ints) -> list[str]:
    return Tables.at(buffer, places, pte.Content).texts(pte.Content.CONTENT)


def _vectors(buffer: FlatBuffer, places: Ints, dtype: str) -> list[tuple[Any, ...]]:
    return Tables.at(buffer, places, pte.Content).vectors(pte.Content.CONTENT, dtype)


def _own_items(dtype: str, buffer: FlatBuffer, places: Ints) -> list[ValueList]:
    return [ValueList(items) for items in _vectors(buffer, places, dtype)]


def _tensors(buffer: FlatBuffer, places: Ints) -> list[Tensor]:
    tables = Tables.at(buffer, places, pte.TensorTable)
    sizes = tables.vectors(pte.TensorTable.SIZES, "<i4")
    orders = tables.vectors(pte.TensorTable.DIM_ORDER, "u1")
    dynamism = tables.scalars(pte.TensorTable.SHAPE_DYNAMISM, "i1", 0)
    for place, shape, order, change in zip(
        places.tolist(), sizes, orders, dynamism.tolist(), strict=True
    ):
        if sorted(order) != [*range(len(shape))] or min(shape, default=0) < 0:
            raise FormatError(
                f"invalid sizes {shape} or dim order {order}", offset=place, field="Tensor"
            )
        if change not in list(Dynamism):
            raise FormatError(f"unknown dynamism {change}", offset=place, field="Tensor")
    data = tables.scalars(pte.TensorTable.DATA_BUFFER_IDX, "<u4", 0).tolist()
    pools, offsets = _planned(buffer, tables.references(pte.TensorTable.ALLOCATION_INFO))
    names, external = _extra(buffer, tables.references(pte.TensorTable.EXTRA_TENSOR_INFO))
    columns: list[Any] = [
        tables.scalars(pte.TensorTable.SCALAR_TYPE, "i1", 0).tolist(),
        sizes,
        orders,
        [Dynamism(change) for change in dynamism.tolist()],
        [bool(d or e) and pool == 0 for d, e, pool in zip(data, external, pools, strict=True)],
        pools,
        offsets,
        [d > 0 and pool != 0 for d, pool in zip(data, pools, strict=True)],
        names,
        data,
    ]
    return [Tensor(*fields) for fields in zip(*columns, strict=True)]


def _planned(buffer: FlatBuffer, places: Ints) -> tuple[list[int], list[int]]:
    """Return pools and offsets of tensors; 0 and -1 without a memory plan."""
    rows = np.flatnonzero(places)
    tables = Tables.at(buffer, places[rows], pte.AllocationDetails)
    slots = pte.AllocationDetails
    pools, offsets = [0] * len(places), [-1] * len(places)
    low, high = (
        tables.scalars(slot, "<u4", 0).tolist() for slot in (slots.OFFSET_LOW, slots.OFFSET_HIGH)
    )
    memory = tables.scalars(slots.MEMORY_ID, "<u4", 0).tolist()
    for row, pool, less, more in zip(rows.tolist(), memory, low, high, strict=True):
        pools[row], offsets[row] = pool, more << 32 | less
    return pools, offsets


def _extra(buffer: FlatBuffer, places: Ints) -> tuple[list[str], list[bool]]:
    """Return the names of tensors, and whether their data is outside the file."""
    rows = np.flatnonzero(places)
    tables = Tables.at(buffer, places[rows], pte.ExtraTensorInfo)
    names, external = [""] * len(places), [False] * len(places)
    locations = tables.scalars(pte.ExtraTensorInfo.LOCATION, "i1", 0).tolist()
    found = tables.texts(pte.ExtraTensorInfo.FULLY_QUALIFIED_NAME)
    for row, name, location in zip(rows.tolist(), found, locations, strict=True):
        names[row], external[row] = name, location == _EXTERNAL
    return names, external


_VALUE_READERS: Final[dict[KernelTypes, Callable[[FlatBuffer, Ints], Sequence[Value]]]] = {
    KernelTypes.INT: partial(_scalars, "<i8"),
    KernelTypes.BOOL: partial(_scalars, "?"),
    KernelTypes.DOUBLE: partial(_scalars, "<f8"),
    KernelTypes.TENSOR: _tensors,
    KernelTypes.STRING: _texts,
    KernelTypes.DOUBLE_LIST: partial(_own_items, "<f8"),
    KernelTypes.BOOL_LIST: partial(_own_items, "?"),
}
"""Readers of the types that do not refer to other values."""


_HEADER = struct.Struct("<4sIQ")


def is_program(data: bytes) -> bool:
    """Whether the data has the file identifier of a ``.pte`` file."""
    return data[4:8] == pte.IDENTIFIER


def read_program(data: bytes) -> Program:
    """Read the methods of a ``.pte`` file, or of the one within a bundled program.

    Raises:
        FormatError: The data is not a ``.pte`` file, truncated or damaged; the error has offset and
            field.
    """
    buffer = _window(program_bytes(data))
    start = np.zeros(1, np.int64)
    buffer.inside(start, 8, "file", start)
    place = buffer.follow(start, "root")
    verify(buffer, place, pte.ProgramTable, pte.LAYOUT)
    root = Tables.at(buffer, place, pte.ProgramTable)
    plans, _ = root.children(pte.ProgramTable.EXECUTION_PLAN, pte.ExecutionPlan)
    places = plans.positions
    return Program(
        tuple(
            _method(Tables.at(buffer, places[row : row + 1], pte.ExecutionPlan))
            for row in range(len(places))
        )
    )


def _window(data: bytes) -> FlatBuffer:
    """Return the FlatBuffer in the file; the extended header has its size."""
    if not is_program(data):
        raise FormatError(
            f"no {pte.IDENTIFIER.decode()} identifier",
            offset=4,
            field="file identifier",
            hint="the file is not an ExecuTorch program (.pte)",
        )
    at = pte.HEADER_AT
    if data[at : at + 4] != pte.HEADER_MAGIC:
        return FlatBuffer(data, 0, len(data), table_sizes=False)
    if len(data) < at + _HEADER.size:
        raise FormatError("truncated", offset=len(data), field="extended header")
    _, length, size = _HEADER.unpack_from(data, at)
    if length not in pte.HEADER_LENGTHS:
        raise FormatError(f"impossible length {length}", offset=at + 4, field="extended header")
    if size > len(data):
        raise FormatError(
            f"file is truncated: {size} bytes announced, {len(data)} present",
            offset=at + 8,
            field="extended header",
        )
    return FlatBuffer(data, 0, size, table_sizes=False)


def _method(plan: Tables[pte.ExecutionPlan]) -> Method:
    """Return the method described by the single table of ``plan``."""
    slots = pte.ExecutionPlan
    values = read_values(plan.children(slots.VALUES, pte.EValue)[0])
    inputs, outputs = (plan.vectors(slot, "<i4")[0] for slot in (slots.INPUTS, slots.OUTPUTS))
    _refuse_unknown(plan, [inputs, outputs], len(values), "input or output")
    operators, _ = plan.children(slots.OPERATORS, pte.OperatorTable)
    kernels = [
        f"{name}.{overload}" if overload else name
        for name, overload in zip(
            operators.texts(pte.OperatorTable.NAME),
            operators.texts(pte.OperatorTable.OVERLOAD),
            strict=True,
        )
    ]
    delegates = plan.children(slots.DELEGATES, pte.BackendDelegate)[0].texts(pte.BackendDelegate.ID)
    chains, _ = plan.children(slots.CHAINS, pte.Chain)
    instructions, counts = chains.children(pte.Chain.INSTRUCTIONS, pte.InstructionTable)
    steps = _instructions(instructions, kernels, delegates, len(values))
    return Method(
        name=plan.texts(slots.NAME)[0],
        values=tuple(values),
        inputs=inputs,
        outputs=outputs,
        chains=tuple(split(steps, counts)),
        delegates=tuple(delegates),
        planned=plan.vectors(slots.NON_CONST_BUFFER_SIZES, "<i8")[0],
    )


def _instructions(
    tables: Tables[pte.InstructionTable], kernels: list[str], delegates: list[str], values: int
) -> list[Instruction]:
    types = tables.scalars(pte.InstructionTable.ARGS_TYPE, "u1", 0)
    known = (types >= Call.KERNEL) & (types <= Call.FREE)
    tables.buffer.require(known, tables.positions, "Instruction", "unknown kind of instruction")
    places = tables.references(pte.InstructionTable.ARGS)
    tables.buffer.require(places != 0, tables.positions, "Instruction", "has no arguments")
    found: list[Instruction | None] = [None] * len(types)
    for call in Call:
        rows = np.flatnonzero(types == call)
        read = _INSTRUCTION_READERS[call](tables.buffer, places[rows], kernels, delegates)
        for row, instruction in zip(rows.tolist(), read, strict=True):
            found[row] = instruction
    steps = [step for step in found if step is not None]  # all of them
    _refuse_unknown(tables, [step.args for step in steps], values, "argument")
    return steps


def _called(
    buffer: FlatBuffer, places: Ints, call: Call, names: list[str], field: str
) -> list[Instruction]:
    """Read calls of kernels or delegates: the index of a name, and arguments."""
    tables = Tables.at(buffer, places, pte.IndexedCall)
    indices = tables.scalars(pte.IndexedCall.INDEX, "<i4", 0)
    good = (indices >= 0) & (indices < len(names))
    buffer.require(good, places, field, "index out of range")
    return [
        Instruction(call, names[index], args, index if call is Call.DELEGATE else -1)
        for index, args in zip(
            indices.tolist(), tables.vectors(pte.IndexedCall.ARGS, "<i4"), strict=True
        )
    ]


def _kernels(
    buffer: FlatBuffer, places: Ints, kernels: list[str], _delegates: list[str]
) -> list[Instruction]:
    return _called(buffer, places, Call.KERNEL, kernels, "KernelCall.op_index")


def _delegates(
    buffer: FlatBuffer, places: Ints, _kernels: list[str], delegates: list[str]
) -> list[Instruction]:
    return _called(buffer, places, Call.DELEGATE, delegates, "DelegateCall.delegate_index")


def _numbers(buffer: FlatBuffer, places: Ints, slots: type[IntEnum]) -> list[list[int]]:
    """Return the 32-bit integers of tables that have nothing else, slot by slot."""
    tables = Tables.at(buffer, places, slots)
    return [tables.scalars(slot, "<i4", 0).tolist() for slot in slots]


def _moves(buffer: FlatBuffer, places: Ints, *_: list[str]) -> list[Instruction]:
    pairs = zip(*_numbers(buffer, places, pte.MoveCall), strict=True)
    return [Instruction(Call.MOVE, "", pair) for pair in pairs]


def _jumps(buffer: FlatBuffer, places: Ints, *_: list[str]) -> list[Instruction]:
    pairs = zip(*_numbers(buffer, places, pte.JumpFalseCall), strict=True)
    return [Instruction(Call.JUMP_FALSE, "", (value,), target) for value, target in pairs]


def _frees(buffer: FlatBuffer, places: Ints, *_: list[str]) -> list[Instruction]:
    (values,) = _numbers(buffer, places, pte.FreeCall)
    return [Instruction(Call.FREE, "", (value,)) for value in values]


_INSTRUCTION_READERS: Final[dict[Call, Callable[..., list[Instruction]]]] = {
    Call.KERNEL: _kernels,
    Call.DELEGATE: _delegates,
    Call.MOVE: _moves,
    Call.JUMP_FALSE: _jumps,
    Call.FREE: _frees,
}


def _refuse_unknown(
    tables: Tables[Any], vectors: Sequence[Sequence[int]], values: int, what: str
) -> None:
    """Check that all value numbers exist in the method."""
    for row, numbers in enumerate(vectors):
        if any(not 0 <= number < values for number in numbers):
            place = int(tables.positions[min(row, len(tables.positions) - 1)])
            raise FormatError(
                f"unknown value number: the method has {values} values", offset=place, field=what
            )
