"""Small TensorFlow Lite models: a chain of operators on one float tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import flatbuffers

RELU, LOGISTIC, NEG, SQRT, ABS = 19, 14, 59, 75, 101
"""Numbers of operators without options (``BuiltinOperator`` of TensorFlow Lite's schema)."""

_VERSION: Final = 3


def chain_of(operators: Sequence[int], elements: int) -> bytes:
    """Return a model that applies operators to a float tensor, one after the other."""
    builder: Any = flatbuffers.Builder(1024)
    kinds = sorted(set(operators))
    codes = [
        _table(builder, 4, lambda kind=kind: _code(builder, kind))  # type: ignore[misc]
        for kind in kinds
    ]
    tensors = []
    for number in range(len(operators) + 1):
        name = builder.CreateString(f"t{number}")
        shape = builder.CreateNumpyVector(_ints([1, elements]))
        tensors.append(_table(builder, 5, lambda s=shape, n=name: _tensor(builder, s, n)))  # type: ignore[misc]
    calls = []
    for number, kind in enumerate(operators):
        given = builder.CreateNumpyVector(_ints([number]))
        made = builder.CreateNumpyVector(_ints([number + 1]))
        index = kinds.index(kind)
        calls.append(
            _table(builder, 5, lambda i=index, g=given, m=made: _operator(builder, i, g, m))  # type: ignore[misc]
        )
    inputs = builder.CreateNumpyVector(_ints([0]))
    outputs = builder.CreateNumpyVector(_ints([len(operators)]))
    parts = _vector(builder, tensors), inputs, outputs, _vector(builder, calls)
    graph = _table(builder, 5, lambda: _references(builder, parts))
    buffer = _table(builder, 1, lambda: None)
    codes_at, graphs = _vector(builder, codes), _vector(builder, [graph])
    description, buffers = builder.CreateString("chain"), _vector(builder, [buffer])

    def model() -> None:
        builder.PrependUint32Slot(0, _VERSION, 0)
        for slot, offset in enumerate((codes_at, graphs, description, buffers), 1):
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)

    builder.Finish(_table(builder, 5, model), b"TFL3")
    return bytes(builder.Output())


def _ints(values: Sequence[int]) -> Any:
    import numpy as np

    return np.array(values, np.int32)


def _table(builder: Any, slots: int, fill: Callable[[], None]) -> int:
    builder.StartObject(slots)
    fill()
    return int(builder.EndObject())


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _references(builder: Any, offsets: Sequence[int]) -> None:
    for slot, offset in enumerate(offsets):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)


def _code(builder: Any, kind: int) -> None:
    builder.PrependInt8Slot(0, min(kind, 127), 0)
    builder.PrependInt32Slot(2, 1, 0)
    builder.PrependInt32Slot(3, kind, 0)


def _tensor(builder: Any, shape: int, name: int) -> None:
    builder.PrependUOffsetTRelativeSlot(0, shape, 0)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)


def _operator(builder: Any, index: int, inputs: int, outputs: int) -> None:
    builder.PrependUint32Slot(0, index, 0)
    builder.PrependUOffsetTRelativeSlot(1, inputs, 0)
    builder.PrependUOffsetTRelativeSlot(2, outputs, 0)
