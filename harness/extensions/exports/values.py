"""Logged values as JSON without rounding, and back."""

from __future__ import annotations

import math
import struct

import msgspec

from harness.errors import FormatError
from harness.records.trace import DebugValue, TensorValue


class ValueDocument(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The value of a debug event; at most one of ``number``, ``tensor`` and ``tensors`` is set.

    Attributes:
        type: ETDump's ValueType.
        output: True for an output of the program, null if unknown.
        number: An integer, Boolean or floating-point number; inf and NaN as text, the 16
            hexadecimal digits of the float64.
        tensor: A tensor.
        tensors: A list of tensors.
    """

    type: int
    output: bool | None = None
    number: bool | int | float | str | None = None
    tensor: TensorValue | None = None
    tensors: tuple[TensorValue, ...] | None = None


def value_document(value: DebugValue) -> ValueDocument:
    """Return ``value`` as it stands in JSON."""
    match value.value:
        case TensorValue():
            return ValueDocument(value.type, value.output, tensor=value.value)
        case tuple():
            return ValueDocument(value.type, value.output, tensors=value.value)
        case float() if not math.isfinite(value.value):
            bits = struct.pack(">d", value.value).hex()
            return ValueDocument(value.type, value.output, number=bits)
    return ValueDocument(value.type, value.output, number=value.value)


def debug_value(document: ValueDocument) -> DebugValue:
    """Return the value that ``document`` describes.

    Raises:
        FormatError: Its number is text, but not 16 hexadecimal digits.
    """
    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    if document.tensor is not None:
        value = document.tensor
    elif document.tensors is not None:
        value = document.tensors
    elif isinstance(document.number, str):
        value = _from_bits(document.number)
    else:
        value = document.number
    return DebugValue(value, document.type, document.output)


def _from_bits(digits: str) -> float:
    try:
        value: float = struct.unpack(">d", bytes.fromhex(digits))[0]
    except (ValueError, struct.error):
        raise FormatError(
            f"invalid float64 {digits!r}: not 16 hexadecimal digits", field="number"
        ) from None
    return value
