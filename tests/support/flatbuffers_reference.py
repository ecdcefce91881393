"""FlatBuffers' own verifier and generated code, from the wheel of tosa-tools, as a reference.

It brings FlatBuffers' headers and the flatc of the same version. ``content_of_dump`` and
``content_of_program`` pack what we read as ``flatbuffers_reference.cpp`` packs what it reads.
"""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sysconfig
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.decode.ed00_schema import ValueType
from harness.decode.program import Call, Program, Tensor, ValueList
from harness.records.trace import Kind, Trace
from harness.records.values import TensorValue
from harness.target.executorch import cxx_compiler, find_executorch

SOURCE = Path(__file__).parent.parent / "oracle" / "flatbuffers_reference.cpp"
SCHEMAS = ("schema/program.fbs", "schema/scalar_type.fbs")
DUMP_SCHEMA = "devtools/etdump/etdump_schema_flatcc.fbs"
UNFLIPPED = -1
_ABSENT = 0xFFFFFFFF


class Reference:
    """The program around the verifier."""

    def __init__(self, directory: Path) -> None:
        """Build it in ``directory``, from ExecuTorch's schemas."""
        packages, executorch = Path(sysconfig.get_path("platlib")), find_executorch()
        assert executorch is not None
        schemas = [executorch / name for name in (*SCHEMAS, DUMP_SCHEMA)]
        flatc = [packages / "bin/flatc", "--cpp", "--scoped-enums", "-o", directory]
        # Each schema includes the element types by a name beside it; all of them are the same.
        subprocess.run([*flatc, *schemas], check=True)
        self._program, self._directory = directory / "reference", directory
        headers = [f"-I{directory}", "-isystem", str(packages / "include")]
        made = ["-o", str(self._program), str(SOURCE)]
        strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([cxx_compiler(), *strict, *headers, *made], check=True)

    def read(self, kind: str, data: bytes, bits: Iterable[int]) -> Iterator[int | None]:
        """CRCs of what is read with each of ``bits`` flipped alone; None where it is refused."""
        path = self._directory / f"{os.getpid()}.{kind}"
        path.write_bytes(data)
        asked = "\n".join(map(str, bits))
        done = subprocess.run(
            [self._program, kind, path], input=asked, text=True, check=True, capture_output=True
        )
        return (None if line == "refused" else int(line) for line in done.stdout.splitlines())


def flipped(data: bytes, bit: int) -> bytes:
    """``data`` with one bit flipped."""
    if bit == UNFLIPPED:
        return data
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


def content_of_dump(trace: Trace) -> int:
    """CRC of the content of a trace of one dump."""
    parts = [struct.pack("<II", 0, len(trace.blocks))]
    for block in trace.blocks:
        parts += [_text(block.name), struct.pack("<i", block.bundled_input_index)]
        parts += [struct.pack("<I", len(block.allocators)), *map(_text, block.allocators)]
        parts.append(struct.pack("<I", block.count))
        parts += [_event(trace, row) for row in range(block.first, block.first + block.count)]
    return zlib.crc32(b"".join(parts))


def content_of_program(program: Program) -> int:
    """CRC of the content of a program."""
    parts = [struct.pack("<I", len(program.methods))]
    for method in program.methods:
        parts += [_text(method.name), struct.pack("<I", len(method.values))]
        parts += map(_planned_value, method.values)
        parts += [_numbers(method.inputs), _numbers(method.outputs)]
        parts.append(struct.pack("<I", len(method.chains)))
        for chain in method.chains:
            parts.append(struct.pack("<I", len(chain)))
            for step in chain:
                parts.append(struct.pack("<B", step.call))
                if step.call is Call.DELEGATE:
                    parts += [struct.pack("<i", step.target), _numbers(step.args), _text(step.name)]
                elif step.call is Call.KERNEL:
                    parts += [_numbers(step.args), _text(step.name)]
                elif step.call is Call.JUMP_FALSE:
                    parts.append(struct.pack("<ii", *step.args, step.target))
                else:
                    parts.append(struct.pack(f"<{len(step.args)}i", *step.args))
        parts += [struct.pack("<I", len(method.delegates)), *map(_text, method.delegates)]
        parts.append(_numbers(method.planned))
    return zlib.crc32(b"".join(parts))


def _text(text: str | None) -> bytes:
    if text is None:
        return struct.pack("<I", _ABSENT)
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<I", len(data)) + data


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<I{len(numbers)}q", len(numbers), *numbers)


def _real(number: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(number) else number)


def _event(trace: Trace, row: int) -> bytes:
    kind = Kind(int(trace.kind[row]))
    if kind is Kind.ALLOCATION:
        numbers = int(trace.allocator[row]), int(trace.size[row])
        return struct.pack("<Biq", 2, *numbers)
    common = [
        struct.pack("<B", 1 if kind is Kind.PROFILE else 4),
        _optional(trace, int(trace.name[row])),
        struct.pack(
            "<qii", *(int(c[row]) for c in (trace.chain, trace.instruction, trace.delegate_int))
        ),
        _optional(trace, int(trace.delegate_str[row])),
    ]
    if kind is Kind.PROFILE:
        metadata = trace.metadata_of(row)
        length = struct.pack("<I", _ABSENT if metadata is None else len(metadata))
        times = struct.pack("<QQ", int(trace.start[row]), int(trace.end[row]))
        return b"".join([*common, length, metadata or b"", times])
    number = int(trace.debug[row])
    if number < 0:
        return b"".join([*common, b"\0"])
    value = trace.debug_values[number]
    output = struct.pack("<B", 2 if value.output is None else value.output)
    return b"".join([*common, b"\1", _content(ValueType(value.type), value.value), output])


def _optional(trace: Trace, code: int) -> bytes:
    return _text(trace.names[code] if code >= 0 else None)


_BITS = {
    ValueType.TENSOR: 1,
    ValueType.TENSOR_LIST: 2,
    ValueType.INT: 4,
    ValueType.FLOAT: 8,
    ValueType.DOUBLE: 16,
    ValueType.BOOL: 32,
}


def _content(type_: ValueType, value: Any) -> bytes:
    """A value of a debug event: its type, the fields that are set, and the one of the type."""
    if value is None:
        return struct.pack("<BB", type_, 0)
    packed = struct.pack("<BB", type_, _BITS[type_])
    if isinstance(value, TensorValue):
        return packed + _tensor(value)
    if isinstance(value, tuple):
        return packed + struct.pack("<I", len(value)) + b"".join(map(_tensor, value))
    if type_ in (ValueType.FLOAT, ValueType.DOUBLE):
        return packed + _real(value)
    return packed + struct.pack("<?" if type_ is ValueType.BOOL else "<q", value)


def _tensor(tensor: TensorValue) -> bytes:
    sizes = _numbers(tensor.sizes) + _numbers(tensor.strides)
    return struct.pack("<b", tensor.scalar_type) + sizes + struct.pack("<q", tensor.offset)


def _planned_value(value: Any) -> bytes:
    """A value of a method."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return struct.pack("<c?", b"B", value)
    if isinstance(value, int):
        return struct.pack("<cq", b"I", value)
    if isinstance(value, float):
        return b"D" + _real(value)
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, Tensor):
        return b"T" + _planned_tensor(value)
    assert isinstance(value, ValueList)
    if value.numbers or not value.items:
        return b"L" + _numbers(value.numbers)
    if isinstance(value.items[0], bool):
        return struct.pack(f"<cI{len(value.items)}?", b"F", len(value.items), *value.items)
    reals = b"".join(_real(float(item)) for item in value.items if isinstance(item, float))
    return struct.pack("<cI", b"E", len(value.items)) + reals


def _planned_tensor(tensor: Tensor) -> bytes:
    shape = _numbers(tensor.sizes) + _numbers(tensor.dim_order)
    place = struct.pack("<b?I", tensor.dynamism, tensor.constant, tensor.pool)
    state = struct.pack("<q?", tensor.offset, tensor.initial_state)
    return struct.pack("<b", tensor.scalar_type) + shape + place + state + _text(tensor.name)
