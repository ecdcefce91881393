r"""Names and logged values as other tools' formats can hold them, without rounding, and back.

A name may be any bytes of a device or file. In text formats, a backslash becomes ``\\``, and a
control character or an invalid UTF-8 byte becomes ``\xNN``. So no name breaks a line of a table,
and different names stay different.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

import msgspec

from harness.errors import FormatError
from harness.records.trace import DebugValue, TensorValue

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")


def escaped(name: str) -> str:
    """Return ``name`` as text for a file of another format."""
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), name)


def unescaped(text: str) -> str:
    """Return the name for escaped ``text``."""
    return _ESCAPE.sub(_character, text)


def _escape(code: int) -> str:
    if code == ord("\\"):
        return r"\\"
    if code < 0x80:
        return f"\\x{code:02x}"
    # surrogateescape keeps a byte in the low half of a surrogate.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code if code < 0x80 else code + 0xDC00)
    return chr(int(found[2], 16)) if found[2] else "\\"


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
