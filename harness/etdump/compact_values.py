"""Values in a device log: VALUE records and their content to the values of debug events."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from harness.etdump import log_format as fmt
from harness.etdump.compact_records import Records
from harness.etdump.log_format import Record, Value
from harness.trace import DebugValue, TensorValue

_TENSOR = struct.Struct("<BBHIII")
_NUMBERS = {Value.INT: "<q8x", Value.DOUBLE: "<d8x", Value.BOOL: "<?15x"}
_LARGEST_TYPE = 127
"""ExecuTorch's scalar types are signed bytes, and an ED00 file holds no others."""


def read_values(records: Records, debug_size: int, base: int) -> list[DebugValue]:
    """Decode the values among ``records``, in log order.

    Args:
        records: Those of one chunk.
        debug_size: Bytes of the chunk's debug buffer, which offsets are checked against.
        base: Where that begins in the debug buffer of the whole log.

    Raises:
        FormatError: A value's content is not what its record announces.
    """
    values = []
    numbers = records.numbers(Record.VALUE)
    rows = records.all_of(Record.VALUE)[["type", "count"]].tolist()
    for number, (type_, count) in zip(numbers.tolist(), rows, strict=True):
        content = records.raw[number + 1 : number + 1 + count].tobytes()
        values.append(_Content(records, number, content, debug_size, base).value(type_))
    return values


class _Content:
    """What stands behind one VALUE record."""

    def __init__(
        self, records: Records, number: int, content: bytes, debug_size: int, base: int
    ) -> None:
        self.records, self.number, self.content = records, number, content
        self.debug_size, self.base = debug_size, base

    def value(self, flags: int) -> DebugValue:
        type_ = flags & fmt.VALUE_TYPE_MASK
        known = fmt.VALUE_TYPE_MASK | fmt.VALUE_IS_OUTPUT
        self.refuse(bool(flags & ~known) or type_ not in list(Value), 1, "type", "unknown type")
        output = True if flags & fmt.VALUE_IS_OUTPUT else None
        held: Any = None
        if type_ in _NUMBERS:
            layout = struct.Struct(_NUMBERS[Value(type_)])
            self.refuse(len(self.content) != layout.size, 2, "count", "not one record of content")
            [held] = layout.unpack(self.content)
            zeros = self.content.strip(b"\0") if type_ == Value.BOOL else self.content[8:]
            self.refuse(zeros not in (b"", b"\1", bytes(8)), 16, "content", "not zero behind it")
        else:
            tensors = self.tensors()
            expected = {Value.NONE: 0, Value.TENSOR: 1}.get(Value(type_), len(tensors))
            self.refuse(len(tensors) != expected, 2, "count", f"{len(tensors)} tensors")
            held = {Value.NONE: None, Value.TENSOR_LIST: tensors}.get(
                Value(type_), tensors[0] if tensors else None
            )
        return DebugValue(held, type_, output)

    def tensors(self) -> tuple[TensorValue, ...]:
        """Read tensor after tensor to the end of the content."""
        tensors, at = [], 0
        while at < len(self.content):
            dtype, ndim, zero, offset, nbytes, zero1 = _TENSOR.unpack_from(self.content, at)
            self.refuse(dtype > _LARGEST_TYPE, fmt.RECORD_SIZE + at, "scalar type", "negative")
            dims = at + fmt.RECORD_SIZE
            end = dims + -(-8 * ndim // fmt.RECORD_SIZE) * fmt.RECORD_SIZE
            within = fmt.RECORD_SIZE + at
            self.refuse(end > len(self.content), within + 1, "dimensions", "more than there are")
            padding = any(self.content[dims + 8 * ndim : end])
            self.refuse(bool(zero or zero1 or padding), within + 2, "reserved", "not zero")
            shape = np.frombuffer(self.content, "<i4", 2 * ndim, dims).tolist()
            sizes, strides = tuple(shape[:ndim]), tuple(shape[ndim:])
            self.refuse(min(sizes, default=0) < 0, dims + fmt.RECORD_SIZE, "size", "negative")
            empty = 0 in sizes
            self.refuse((nbytes == 0) != empty, within + 8, "bytes", "not what the sizes say")
            lost = offset == fmt.NO_OFFSET
            inside = lost or offset + nbytes <= self.debug_size
            self.refuse(not inside, within + 4, "offset", "outside of the debug buffer")
            tensors.append(
                TensorValue(
                    scalar_type=dtype,
                    sizes=sizes,
                    strides=strides,
                    offset=-1 if lost else self.base + offset,
                )
            )
            at = end
        return tuple(tensors)

    def refuse(self, bad: bool, within: int, field: str, message: str) -> None:
        numbers = np.array([self.number])
        self.records.refuse(np.array([bad]), numbers, within, f"VALUE {field}", message)
