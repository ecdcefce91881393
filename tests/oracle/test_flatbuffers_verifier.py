"""Files with one bit flipped, beside FlatBuffers' own verifier and the code that flatc generates.

What is accepted is what the verifier accepts, with the same content; what is refused nevertheless
is in the list of docs/reading.md. Every bit of small real files, when ``ETHARNESS_EVERY_BIT`` is
set; else a sample of them.
"""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from harness.decode.ed00 import read_ed00, write_ed00
from harness.decode.pte import read_program
from harness.errors import FormatError
from harness.files import data_directory
from harness.runs.source import load_source
from tests.property.test_etdump_roundtrip import full_trace
from tests.support.captures import printed, recorded
from tests.support.dumps import Generator, record
from tests.support.exported import Exported
from tests.support.flatbuffers_reference import (
    UNFLIPPED,
    Reference,
    content_of_dump,
    content_of_program,
    flipped,
)
from tests.unit.test_etdump_ed00 import RECORDED

EVERY_BIT = "ETHARNESS_EVERY_BIT"
SEED = 20261122
MODELS = data_directory("firmware_stub") / "models"
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
    "A value, an argument or an operator of a program": (
        r"unknown kind of|has no content|has no arguments|index out of range"
        r"|the method has \d+ values|lists a value that|invalid sizes|unknown dynamism"
    ),
}
SIZES = "A size that differs from the announced one"
"""What flips in a size prefix or an extended header lead to, in whatever words."""

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(7200 if os.environ.get(EVERY_BIT) else 120)]

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
    header = range(8 * 8, 8 * 24)
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
