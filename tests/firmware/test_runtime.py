"""The C runtime loads and executes .pte files, and survives those that are not."""

from __future__ import annotations

import ctypes as ct
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Kind, read_log
from tests.conftest import FIXTURES, MODELS, ROOT
from tests.support.runtime import TICKS, Memory, RuntimeFailure, Tracer, load

FILES = {name: (MODELS / f"{name}.pte").read_bytes() for name in ("kws_f32", "kws_int8")}
TOLERANCE = {"kws_f32": 1e-4, "kws_int8": 0.0}
RUNTIME = ROOT / "firmware_stub/src/runtime"

names = pytest.mark.parametrize("name", sorted(FILES))
mutated = settings(max_examples=150, deadline=None)


def attempt(library: ct.CDLL, file: bytes) -> RuntimeFailure | None:
    """Load and execute; return how it failed."""
    try:
        load(library, file).execute()
    except RuntimeFailure as failure:
        return failure
    return None


@names
def test_outputs_equal_pytorchs(etstub: ct.CDLL, name: str) -> None:
    fixture = np.load(FIXTURES / f"{name}.npz")
    loaded = load(etstub, FILES[name])
    for value, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
        np.testing.assert_allclose(loaded.run(value), expected, rtol=0, atol=TOLERANCE[name])


def test_a_method_uses_exactly_the_arena_it_states(etstub: ct.CDLL) -> None:
    fixture = np.load(FIXTURES / "kws_int8.npz")
    needed = load(etstub, FILES["kws_int8"]).needed
    exact = load(etstub, FILES["kws_int8"], arena_size=needed)
    assert (exact.run(fixture["inputs"][0]) == fixture["outputs"][0]).all()


@pytest.mark.parametrize("missing", [1, 16, 20_000])
def test_too_small_an_arena_states_the_need(etstub: ct.CDLL, missing: int) -> None:
    needed = load(etstub, FILES["kws_int8"]).needed
    with pytest.raises(RuntimeFailure, match="arena") as caught:
        load(etstub, FILES["kws_int8"], arena_size=needed - missing)
    assert (caught.value.status, caught.value.detail) == ("OUT_OF_MEMORY", needed)


def test_an_operator_without_a_kernel_is_named(etstub: ct.CDLL) -> None:
    file = FILES["kws_f32"].replace(b"aten::relu\0", b"aten::rely\0")
    with pytest.raises(RuntimeFailure, match=r"aten::rely\.out") as caught:
        load(etstub, file)
    assert caught.value.status == "UNSUPPORTED_OPERATOR"
    assert caught.value.detail == 2  # after convolution and batch norm


def test_a_method_of_another_name_is_missing(etstub: ct.CDLL) -> None:
    missing = "forward: method not found; available: advance"
    with pytest.raises(RuntimeFailure, match=missing) as caught:
        load(etstub, FILES["kws_f32"].replace(b"forward\0", b"advance\0"))
    assert (caught.value.status, caught.value.detail) == ("NO_METHOD", 1)


@pytest.mark.parametrize(
    ("offset", "value", "field"),
    [
        (4, b"ET13", "identifier"),
        (12, b"\x17\0\0\0", "extended header"),
        (16, b"\xff\xff\xff\xff\xff\xff\xff\xff", "program size"),
        (24, b"\xff\xff\xff\xff\xff\xff\xff\xff", "segment base"),
        (32, b"\xff\xff\xff\xff\xff\xff\xff\xff", "segments"),
        (0, b"\xff\xff\xff\xff", "program"),
    ],
)
def test_damaged_headers_are_named(etstub: ct.CDLL, offset: int, value: bytes, field: str) -> None:
    file = bytearray(FILES["kws_f32"])
    file[offset : offset + len(value)] = value
    with pytest.raises(RuntimeFailure, match=f"^{field}") as caught:
        load(etstub, bytes(file))
    assert caught.value.status == "BAD_PROGRAM"


@pytest.mark.attack("Files", "a `.pte` file truncated anywhere, on the device", "refused")
@names
@mutated
@given(data=st.data())
def test_truncated_files_are_refused(etstub: ct.CDLL, name: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(FILES[name]) - 1))
    failure = attempt(etstub, FILES[name][:length])
    assert failure is not None
    assert failure.status == "BAD_PROGRAM"
    assert failure.detail <= len(FILES[name])
    assert re.match(r"[a-zA-Z_ ]+: .+", failure.message)


@pytest.mark.attack(
    "Files",
    "any damage of a `.pte` file, on the device",
    "an error code; no access outside its memory",
)
@mutated
@given(data=st.data())
def test_damaged_files_never_reach_outside_their_memory(
    etstub: ct.CDLL, data: st.DataObject
) -> None:
    """The file is only read; a crash would end the test run. Sanitizers look closer: fuzz/."""
    file = bytearray(FILES["kws_int8"])
    program_size = int.from_bytes(file[16:24], "little")
    positions = st.integers(0, program_size - 1)
    for position, byte in data.draw(
        st.lists(st.tuples(positions, st.integers(0, 255)), min_size=1, max_size=4)
    ):
        file[position] = byte
    failure = attempt(etstub, bytes(file))
    if failure is not None:
        assert failure.status != "OK"
        assert failure.message


def test_a_file_is_not_written_to(etstub: ct.CDLL) -> None:
    loaded = load(etstub, FILES["kws_int8"])
    loaded.execute()
    assert loaded.file.read() == FILES["kws_int8"]


def test_events_are_those_of_executorchs_runtime(etstub: ct.CDLL) -> None:
    expected = json.loads((FIXTURES / "kws_f32_signatures.json").read_text())
    log, tracer = Memory(1 << 16), Tracer()
    ticks = TICKS(lambda _context: 0)
    etstub.etd_tracer_init(ct.byref(tracer), ct.c_void_p(log.address), log.size, ticks, None)
    loaded = load(etstub, FILES["kws_f32"], tracer=tracer)
    for _ in expected[1:]:
        loaded.execute()
    image = Memory(etstub.etd_log_size(ct.byref(tracer)))
    etstub.etd_log_read(ct.byref(tracer), 0, ct.c_void_p(image.address), image.size)
    trace = read_log(image.read())

    found = []
    for block in trace.blocks:
        rows = np.arange(block.first, block.first + block.count)
        rows = rows[trace.kind[rows] == Kind.PROFILE]
        events = [
            [trace.names[trace.name[row]], int(trace.chain[row]), int(trace.instruction[row])]
            for row in rows
        ]
        found.append({"block": block.name, "events": events})
    assert found == expected

    allocations = trace.size[trace.kind == Kind.ALLOCATION]
    assert trace.blocks[0].allocators == ("method", "planned_1")
    assert allocations[-1] == loaded.method.planned_bytes
    assert loaded.method.method_bytes - 16 * len(allocations) < sum(allocations[:-1])
    assert sum(allocations[:-1]) <= loaded.method.method_bytes


def test_a_failed_load_still_ends_its_events(etstub: ct.CDLL) -> None:
    log, tracer = Memory(1 << 12), Tracer()
    ticks = TICKS(lambda _context: 0)
    etstub.etd_tracer_init(ct.byref(tracer), ct.c_void_p(log.address), log.size, ticks, None)
    with pytest.raises(RuntimeFailure):
        load(etstub, FILES["kws_int8"], arena_size=1024, tracer=tracer)
    image = Memory(etstub.etd_log_size(ct.byref(tracer)))
    etstub.etd_log_read(ct.byref(tracer), 0, ct.c_void_p(image.address), image.size)
    trace = read_log(image.read())
    assert [trace.names[n] for n in trace.name[trace.kind == Kind.PROFILE]] == [
        "Method::init",
        "Program::load_method",
    ]
    assert trace.failed.any()


def test_field_numbers_are_those_of_the_schema() -> None:
    """program_fields.h repeats for C what schema/program.fbs says by the order of fields."""
    schema = re.sub(r"//.*", "", (ROOT / "schema/program.fbs").read_text())
    numbers: dict[str, int] = {}
    unions = {"KernelTypes", "InstructionArguments"}
    for table, body in re.findall(r"table (\w+) \{(.*?)\}", schema, re.S):
        number = 0
        for field, kind in re.findall(r"(\w+):\s*\[?(\w+)", body):
            if kind in unions:
                numbers[_constant(table, field, "TYPE")] = number
                number += 1
            numbers[_constant(table, field)] = number
            number += 1
    for union, body in re.findall(r"union (\w+) \{(.*?)\}", schema, re.S):
        for number, member in enumerate(re.findall(r"\w+", body), start=1):
            numbers[_constant(union, member)] = number
    header = (RUNTIME / "program_fields.h").read_text()
    constants = dict(re.findall(r"(\w+) = (\d+)", header))
    assert int(constants.pop("VALUE_CONTENT")) == 0
    assert int(constants.pop("KERNEL_TYPES_NONE")) == 0
    assert constants == {name: str(numbers[name]) for name in constants}


def _constant(*words: str) -> str:
    return "_".join(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() for word in words)
