"""Operands in the notation of PyTorch's execution trace: values, shapes, types and strides."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from harness.analyze.operands import Argument, planned_ids
from harness.decode.program import Method, Tensor, Value, ValueList
from harness.records.scalar_types import STORED_AS, type_name

_TYPES: Final = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    11: "bool",
    15: "c10::BFloat16",
}
"""PyTorch's names of element types by scalar type; others keep their own names."""

_SCALARS: Final = ("Int", "Double", "Bool")
_CPU: Final = "cpu"


@dataclass(slots=True)
class Operands:
    """Four lists of equal length, nested for operands that are lists."""

    values: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    strides: list[Any] = field(default_factory=list)

    def add(self, value: Any, shape: Any, type_: str, stride: Any) -> None:
        """Append one operand."""
        self.values.append(value)
        self.shapes.append(shape)
        self.types.append(type_)
        self.strides.append(stride)


class TensorNumbers:
    """Gives tensors and storages numbers, counted on from those of the nodes.

    A tensor is a value of the method; a storage is a stay in planned memory (``planned_ids``), or a
    place of its own.
    """

    def __init__(self, method: Method | None, first: int) -> None:
        self._ids = planned_ids(method) if method else {}
        self._next = first
        self._numbers: dict[tuple[str, int], int] = {}

    def operands(self, arguments: Iterable[Argument]) -> Operands:
        """Return the operands of an instruction's inputs or outputs."""
        found = Operands()
        for argument in arguments:
            sizes, strides = argument.sizes, argument.strides
            found.add(*self._operand(argument.number, argument.value, sizes, strides))
        return found

    def _operand(
        self,
        number: int,
        value: Value,
        sizes: tuple[int, ...] | None,
        strides: tuple[int, ...] | None,
    ) -> tuple[Any, Any, str, Any]:
        match value:
            case Tensor():
                sizes = value.sizes if sizes is None else sizes
                shape, stride = list(sizes), list(value.strides if strides is None else strides)
                return self._tuple(number, value, sizes), shape, _tensor_type(value), stride
            case ValueList():
                numbers = value.numbers or (-1,) * len(value.items)
                items = [
                    self._operand(item_number, item, None, None)
                    for item_number, item in zip(numbers, value.items, strict=True)
                ]
                types = ",".join(type_ for _, _, type_, _ in items)
                return (
                    [value for value, *_ in items],
                    [shape for _, shape, *_ in items],
                    f"GenericList[{types}]",
                    [stride for *_, stride in items],
                )
            case None:
                return "<None>", [], "None", []
            case bool():
                return value, [], "Bool", []
            case int():
                return value, [], "Int", []
            case float():
                return (value if math.isfinite(value) else str(value)), [], "Double", []
            case str():
                return value, [], "String", []

    def _tuple(self, number: int, tensor: Tensor, sizes: tuple[int, ...]) -> list[int | str]:
        stay = ("stay", self._ids[number].storage) if number in self._ids else ("own", number)
        elements = math.prod(sizes)
        size = np.dtype(STORED_AS.get(tensor.scalar_type, np.uint8)).itemsize
        tensor_id = self._number(("tensor", number))
        return [tensor_id, self._number(stay), 0, elements, size, _CPU]

    def _number(self, key: tuple[str, int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = self._next
            self._next += 1
        return self._numbers[key]


def _tensor_type(tensor: Tensor) -> str:
    return f"Tensor({_TYPES.get(tensor.scalar_type, type_name(tensor.scalar_type))})"


def profiler_inputs(operands: Operands) -> dict[str, list[Any]]:
    """Return operands as in PyTorch profiler events: dimensions, types, concrete values."""
    found: dict[str, list[Any]] = {
        key: [] for key in ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")
    }
    for value, shape, type_, stride in zip(
        operands.values, operands.shapes, operands.types, operands.strides, strict=True
    ):
        tensors = "Tensor(" in type_
        if type_.startswith("GenericList"):
            name = "TensorList" if tensors else "ScalarList"
        else:
            name = "Scalar" if type_ in _SCALARS else ""
            name = type_[len("Tensor(") : -1] if tensors else name
        found["Concrete Inputs"].append(_concrete(value) if name.startswith("Scalar") else "")
        found["Input type"].append(name)
        found["Input Strides"].append(stride if tensors else [])
        found["Input Dims"].append(shape if tensors else [])
    return found


def _concrete(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_concrete, value))}]"
    text = str(value)
    return text[:-1] if isinstance(value, float) and text.endswith(".0") else text
