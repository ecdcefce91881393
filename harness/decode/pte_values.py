"""Reads the values of a method in a ``.pte`` file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from harness.decode import pte_schema as pte
from harness.decode.flatbuffer import FlatBuffer, Ints, Tables
from harness.decode.program import Dynamism, Tensor, Value, ValueList
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

    for type_, read in _READERS.items():
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
    stored = (tables.scalars(pte.TensorTable.DATA_BUFFER_IDX, "<u4", 0) > 0).tolist()
    pools, offsets = _planned(buffer, tables.references(pte.TensorTable.ALLOCATION_INFO))
    names, external = _extra(buffer, tables.references(pte.TensorTable.EXTRA_TENSOR_INFO))
    columns: list[Any] = [
        tables.scalars(pte.TensorTable.SCALAR_TYPE, "i1", 0).tolist(),
        sizes,
        orders,
        [Dynamism(change) for change in dynamism.tolist()],
        [(s or e) and pool == 0 for s, e, pool in zip(stored, external, pools, strict=True)],
        pools,
        offsets,
        [s and pool != 0 for s, pool in zip(stored, pools, strict=True)],
        names,
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


_READERS: Final[dict[KernelTypes, Callable[[FlatBuffer, Ints], Sequence[Value]]]] = {
    KernelTypes.INT: partial(_scalars, "<i8"),
    KernelTypes.BOOL: partial(_scalars, "?"),
    KernelTypes.DOUBLE: partial(_scalars, "<f8"),
    KernelTypes.TENSOR: _tensors,
    KernelTypes.STRING: _texts,
    KernelTypes.DOUBLE_LIST: partial(_own_items, "<f8"),
    KernelTypes.BOOL_LIST: partial(_own_items, "?"),
}
"""Readers of the types that do not refer to other values."""
