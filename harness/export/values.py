"""Logged values as JSON, and back: nothing of them is rounded."""

from __future__ import annotations

import math
import struct

import msgspec

from harness.errors import FormatError
from harness.records.trace import DebugValue, TensorValue


class TensorDocument(msgspec.Struct, frozen=True, gc=False):
    """A logged tensor; ``offset`` is into the debug buffer, -1 when it has none of its bytes."""

    scalar_type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class ValueDocument(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The value of a debug event; at most one of ``number``, ``tensor`` and ``tensors`` is set.

    Attributes:
        type: ETDump's ValueType.
        output: True for an output of the program, null when the log does not say.
        number: An integer, a truth value or a floating-point number; what JSON has no number for
            (inf, nan) is the 16 hexadecimal digits of its float64, as text.
        tensor: A tensor.
        tensors: A list of tensors.
    """

    type: int
    output: bool | None = None
    number: bool | int | float | str | None = None
    tensor: TensorDocument | None = None
    tensors: tuple[TensorDocument, ...] | None = None


def value_document(value: DebugValue) -> ValueDocument:
    """Return ``value`` as it stands in JSON."""
    match value.value:
        case TensorValue():
            return ValueDocument(value.type, value.output, tensor=_tensor(value.value))
        case tuple():
            tensors = tuple(map(_tensor, value.value))
            return ValueDocument(value.type, value.output, tensors=tensors)
        case float() if not math.isfinite(value.value):
            bits = struct.pack(">d", value.value).hex()
            return ValueDocument(value.type, value.output, number=bits)
    return ValueDocument(value.type, value.output, number=value.value)


def debug_value(document: ValueDocument) -> DebugValue:
    """Return the value that ``document`` describes.

    Raises:
        FormatError: Its number is text, but not of 16 hexadecimal digits.
    """
    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    if document.tensor is not None:
        value = _tensor_value(document.tensor)
    elif document.tensors is not None:
        value = tuple(map(_tensor_value, document.tensors))
    elif isinstance(document.number, str):
        value = _from_bits(document.number)
    else:
        value = document.number
    return DebugValue(value, document.type, document.output)


def _tensor(tensor: TensorValue) -> TensorDocument:
    return TensorDocument(tensor.scalar_type, tensor.sizes, tensor.strides, tensor.offset)


def _tensor_value(document: TensorDocument) -> TensorValue:
    return TensorValue(document.scalar_type, document.sizes, document.strides, document.offset)


def _from_bits(digits: str) -> float:
    try:
        value: float = struct.unpack(">d", bytes.fromhex(digits))[0]
    except (ValueError, struct.error):
        raise FormatError(
            f"{digits!r} is no float64 of 16 hexadecimal digits", field="number"
        ) from None
    return value
