"""Files with one bit flipped, beside FlatBuffers' own verifier and the code that flatc generates.

What is accepted is what the verifier accepts, with the same content; what is refused nevertheless
is in the list of docs/reading.md. Every bit of small real files, when ``ETHARNESS_EVERY_BIT`` is
set; else a sample of them.
"""

from __future__ import annotations

import base64
import math
import os
import re
import struct
import subprocess
import sysconfig
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from harness import (
    Call,
    FormatError,
    Kind,
    Program,
    Tensor,
    TensorValue,
    Trace,
    ValueList,
    ValueType,
    read_ed00,
    read_program,
    write_ed00,
)
from harness.extensions.executorch.linking import find_executorch
from harness.runs.source import load_source
from harness.target.build import cxx_compiler
from tests.conftest import ROOT
from tests.property.test_etdump_roundtrip import full_trace
from tests.support.captures import printed, recorded
from tests.support.dumps import Generator, record
from tests.support.exported import Exported
from tests.unit.test_etdump_ed00 import RECORDED

SOURCE = Path(__file__).parent / "flatbuffers_reference.cpp"
SCHEMAS = ("schema/program.fbs", "schema/scalar_type.fbs")
DUMP_SCHEMA = "devtools/etdump/etdump_schema_flatcc.fbs"
UNFLIPPED = -1
_ABSENT = 0xFFFFFFFF


class Reference:
    """The program around the verifier, with the headers and the flatc of tosa-tools' wheel."""

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


EVERY_BIT = "ETHARNESS_EVERY_BIT"
SEED = 20261122
MODELS = ROOT / "firmware_stub/models"
PAGE = Path(__file__).parents[2] / "docs" / "reading.md"

# By the words of the list in docs/reading.md: what our reader says of what it alone refuses.
STRICTER = {
    "A vtable shorter than four bytes": r"(impossible size|outside .*) in \w+ vtable at",
    "A table shorter than four bytes": r"impossible table size",
    "A table that ends outside the buffer": r"points outside the buffer in \w+ at",
    "A field outside its table": r"field outside its table",
    "An item of a vector that refers to itself": r"reference to itself",
    "An event that is not exactly one": r"not exactly one of",
    "A value of another type than it states": r"content of the stated type|unknown type of value",
    "Another version": r"unsupported ETDump version \d+",
    "Vectors, or strings, larger in total than the file": r"(vectors|strings) overlap",
    "A tensor of an impossible shape": (
        r"sizes, but \d+ strides|dimensions, more than|negative size|impossibly large"
        r"|stride below 1|elements overlap"
    ),
    "A segment that ends behind the file": r"a segment ends \d+ bytes behind it",
    "A value, an argument or an operator of a program": (
        r"unknown kind of|has no content|has no arguments|index out of range"
        r"|the method has \d+ values|lists a value that|invalid sizes|unknown dynamism"
    ),
}
SIZES = "A size that differs from the announced one"
"""What flips in a size prefix or an extended header lead to, in whatever words."""

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(7200 if os.environ.get(EVERY_BIT) else 900)]

EVERY_KIND = """
    block Default
    allocator planned_1
    allocator method
    allocation 1 4096
    allocation 2 96
    block Execute
    profile Method::execute -1 0 1000 9000
    profile OPERATOR_CALL 0 3 1100 1900
    delegate conv -1 0 5 3000 4000 cycles=1200
    delegate - 8 0 5 4000 4294967300 -
    value 0 3 -5
    double 0.25
    output 0 4 1
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("flatbuffers"))


def bits_of(data: bytes, sample: int) -> list[int]:
    """The bits to flip; the first is none."""
    every = range(8 * len(data))
    if os.environ.get(EVERY_BIT):
        return [UNFLIPPED, *every]
    print(f"seed {SEED}")
    return [UNFLIPPED, *Random(SEED).sample(every, sample)]


def read_dump(data: bytes) -> int:
    """CRC of what users read."""
    [dump] = load_source(data).dumps
    return content_of_dump(dump.trace)


def read_pte(data: bytes) -> int:
    return content_of_program(read_program(data))


def listed(error: FormatError, bit: int, sizes: range) -> str | None:
    """Where docs/reading.md lists what our reader alone refuses."""
    if bit in sizes:
        return SIZES
    said = (words for words, message in STRICTER.items() if re.search(message, error.message))
    return next(said, None)


def compare(
    reference: Reference,
    kind: str,
    data: bytes,
    read: Callable[[bytes], int],
    sample: int,
    sizes: range,
) -> None:
    """Flip bits of ``data``, each alone; those in ``sizes`` say how long it is."""
    bits = bits_of(data, sample)
    found: Counter[str] = Counter()
    wrong: list[Any] = []
    for bit, theirs in zip(bits, reference.read(kind, data, bits), strict=True):
        try:
            ours = read(flipped(data, bit))
        except FormatError as error:
            if theirs is None:
                found["refused by both"] += 1
            elif words := listed(error, bit, sizes):
                found[words] += 1
            else:
                wrong.append((bit, "refused without being listed", error.message))
            continue
        if theirs is None:
            wrong.append((bit, "accepted, the verifier refuses it"))
        elif ours != theirs:
            wrong.append((bit, "other content"))
        elif bit != UNFLIPPED:
            found["same content"] += 1
    print(f"{len(data)} bytes, {len(bits) - 1} bits: {dict(found)}")
    assert not wrong, (len(wrong), wrong[:20])
    assert found["same content"]
    assert found["refused by both"]


def compare_dump(reference: Reference, data: bytes) -> None:
    compare(reference, "etdump", data, read_dump, sample=400, sizes=range(32))


def test_recorded(reference: Reference) -> None:
    compare_dump(reference, RECORDED.read_bytes())


def test_every_kind(reference: Reference, generator: Generator) -> None:
    compare_dump(reference, generator.make(EVERY_KIND).read_bytes())


def test_logged_tensors(reference: Reference, portable_model: Exported, tmp_path: Path) -> None:
    compare_dump(reference, record(portable_model, tmp_path, 1).etdump_path.read_bytes())


@pytest.mark.parametrize("model", ["unplanned", "npu_str", "functions"])
def test_program(reference: Reference, model: str) -> None:
    data = (MODELS / f"{model}.pte").read_bytes()
    [length] = struct.unpack_from("<I", data, 12)
    header = range(8 * 8, 8 * (8 + length))  # the last of its sizes is that of the segments
    compare(reference, "program", data, read_pte, sample=120, sizes=header)


def test_every_model(reference: Reference) -> None:
    models = sorted(MODELS.glob("*.pte"))
    assert len(models) > 10
    for path in models:
        data = path.read_bytes()
        assert [read_pte(data)] == list(reference.read("program", data, [UNFLIPPED])), path


def test_what_we_write(reference: Reference) -> None:
    for trace in (full_trace(), read_ed00(RECORDED.read_bytes())):
        data = write_ed00(trace)
        assert [read_dump(data)] == list(reference.read("etdump", data, [UNFLIPPED]))


def test_console_capture(reference: Reference, generator: Generator) -> None:
    """A flip in a capture is refused, or what its base64 holds is what the verifier accepts."""
    dump = generator.make(EVERY_KIND).read_bytes()
    capture = recorded(printed(dump))
    command = range(capture.index(b"echo"), capture.index(b"| base64"))
    bits = [bit for bit in bits_of(capture, 400)[1:] if bit // 8 in command][:100_000]
    accepted = 0
    for bit in bits:
        changed = flipped(capture, bit)
        try:
            ours = read_dump(changed)
        except FormatError:
            continue
        accepted += 1
        [text] = re.findall(rb'"([^"]*)" \| base64', changed)
        [theirs] = reference.read("etdump", base64.b64decode(text), [UNFLIPPED])
        assert ours == theirs, bit
    print(f"{len(bits)} bits of the command, {accepted} accepted")
    assert accepted


def test_what_we_alone_refuse_is_listed() -> None:
    page = " ".join(PAGE.read_text().split())
    assert [words for words in (*STRICTER, SIZES) if f"- **{words}**" not in page] == []
