"""Values of debug events in an ED00 file: numbers, tensors and lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.etdump import ed00_schema as ed
from harness.etdump.ed00_schema import ValueType
from harness.flatbuffer import FlatBuffer, Ints, Tables, of_entries, shared_by, split
from harness.trace import DebugValue, TensorValue

# Which field of Value a type means, and how the table in that field stores a number.
_NUMBERS = {
    ValueType.INT: (ed.Value.INT, "<i8"),
    ValueType.BOOL: (ed.Value.BOOL, "?"),
    ValueType.FLOAT: (ed.Value.FLOAT, "<f4"),
    ValueType.DOUBLE: (ed.Value.DOUBLE, "<f8"),
}
_TENSORS = {
    ValueType.TENSOR: ed.Value.TENSOR,
    ValueType.TENSOR_LIST: ed.Value.TENSOR_LIST,
}


def read_values(buffer: FlatBuffer, positions: Ints) -> list[DebugValue]:
    """Decode the Value tables at ``positions``.

    Raises:
        FormatError: An offset leads out of the buffer, or a value is not of the type it states.
    """
    tables = Tables.at(buffer, positions, ed.Value)
    types = tables.scalars(ed.Value.TYPE, "i1", 0)
    known = (types >= ValueType.NULL) & (types <= ValueType.STRING)
    buffer.require(known, positions, "Value.type", "unknown type of value")

    contents: list[Any] = [None] * len(positions)
    for type_, slot in [*((t, s) for t, (s, _) in _NUMBERS.items()), *_TENSORS.items()]:
        targets = tables.references(slot)
        field = f"Value.{slot.name.lower()}"
        buffer.require((targets == 0) | (types == type_), positions, field, "not the stated type")
        rows = np.flatnonzero(targets)
        with of_entries(rows):
            held = _content(buffer, type_, targets[rows])
        for row, content in zip(rows.tolist(), held, strict=True):
            contents[row] = content

    output: list[bool | None] = [None] * len(positions)
    targets = tables.references(ed.Value.OUTPUT)
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
        vectors = Tables.at(buffer, places, ed.TensorList).references(ed.TensorList.TENSORS)
        slots, counts = buffer.items(vectors, 4, "TensorList.tensors")
        with of_entries(np.repeat(np.arange(len(places)), counts)):
            tensors = _tensors(buffer, buffer.follow(slots, "TensorList.tensors"))
    lists = split(tensors, counts)
    return [lists[index] for index in shared.tolist()]


def _numbers(buffer: FlatBuffer, positions: Ints, dtype: str) -> list[Any]:
    values: list[Any] = (
        Tables.at(buffer, positions, ed.Number).scalars(ed.Number.VALUE, dtype, 0).tolist()
    )
    return values


def _tensors(buffer: FlatBuffer, positions: Ints) -> list[TensorValue]:
    places, shared = np.unique(positions, return_inverse=True)
    with shared_by(shared):
        tables = Tables.at(buffer, places, ed.Tensor)
        sizes = buffer.vectors(tables.references(ed.Tensor.SIZES), "<i8", "Tensor.sizes")
        strides = buffer.vectors(tables.references(ed.Tensor.STRIDES), "<i8", "Tensor.strides")
        scalar_types = tables.scalars(ed.Tensor.SCALAR_TYPE, "i1", 0).tolist()
        offsets = tables.scalars(ed.Tensor.OFFSET, "<i8", 0).tolist()
    tensors = [
        TensorValue(*fields) for fields in zip(scalar_types, sizes, strides, offsets, strict=True)
    ]
    return [tensors[index] for index in shared.tolist()]
