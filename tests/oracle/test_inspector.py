"""ExecuTorch's own tools read what we write, and we read what its runtime writes."""

from __future__ import annotations

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import executorch.data.bin
from executorch.devtools import Inspector
from executorch.devtools.etdump import schema_flatcc as flatcc
from executorch.devtools.etdump.serialize import (
    deserialize_from_etdump_flatcc,
    serialize_to_etdump_flatcc,
)
from executorch.devtools.inspector import TimeScale

from harness import (
    ClockDomain,
    DebugValue,
    Kind,
    LeftOut,
    TensorValue,
    Trace,
    left_out,
    read_ed00,
    read_log,
    write_ed00,
)
from tests.conftest import ROOT
from tests.support.logs import CompactLog

pytestmark = pytest.mark.oracle

RECORDED = Path(__file__).parent.parent / "fixtures" / "kws_f32_executorch.etdp"
SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)
FLATC = Path(executorch.data.bin.__file__).parent / "flatc"


def device_trace() -> Trace:
    """Three runs as a device logs them, with allocators and allocation events."""
    log = CompactLog().block("Default").allocator("method").allocation(1, 4096)
    log.profile("Method::init", 5, 90, chain=-1)
    tick = 100
    for run in range(3):
        log.block("Execute").allocation(1, 64, tick=tick)
        for instruction in range(4):
            log.profile(f"native_call_{instruction}.out", tick, tick + 10 * (run + 1))
            log.profile("OPERATOR_CALL", tick, tick + 12 * (run + 1), instruction=instruction)
            tick += 50
        log.profile("Method::execute", tick - 200, tick, chain=-1)
    return read_log(log.image(), [SYSTICK])


def official(trace: Trace) -> list[flatcc.RunData]:
    """What ``deserialize_from_etdump_flatcc`` gives for the trace's file, built from the trace."""
    return [
        flatcc.RunData(
            name=block.name,
            bundled_input_index=block.bundled_input_index,
            # The runtime writes no vector when there is none, nor do we.
            allocators=[flatcc.Allocator(name) for name in block.allocators] or None,
            events=[
                official_event(trace, row) for row in range(block.first, block.first + block.count)
            ],
        )
        for block in trace.blocks
    ]


def official_event(trace: Trace, row: int) -> flatcc.Event:
    # Absent strings and vectors are None there as here.
    def number(column: str) -> int:
        return int(getattr(trace, column)[row])

    if trace.kind[row] == Kind.ALLOCATION:
        size = number("size") % 2**64
        allocation = flatcc.AllocationEvent(number("allocator"), size)
        return flatcc.Event(None, allocation, None)
    common = {
        "name": trace.text(number("name")),
        "instruction_id": number("instruction"),
        "delegate_debug_id_int": number("delegate_int"),
        "delegate_debug_id_str": trace.text(number("delegate_str")),
    }
    if trace.kind[row] == Kind.DEBUG:
        entry = official_value(trace.debug_values[number("debug")])
        debug = flatcc.DebugEvent(**common, chain_index=number("chain") % 2**64, debug_entry=entry)
        return flatcc.Event(None, None, debug)
    profile = flatcc.ProfileEvent(
        **common,
        chain_index=number("chain"),
        delegate_debug_metadata=trace.metadata_of(row),
        start_time=number("start"),
        end_time=number("end"),
    )
    return flatcc.Event(profile, None, None)


def through_json(number: float) -> float:
    """What is left of a double: ExecuTorch reads ED00 by way of flatc's JSON, of 12 decimals."""
    return float(f"{number:.12f}")


def official_value(value: DebugValue) -> flatcc.Value:
    def tensor(held: TensorValue) -> flatcc.Tensor:
        types = dict(enumerate(flatcc.ScalarType))
        named = next(t for t in types.values() if t.value == held.scalar_type)
        return flatcc.Tensor(named, list(held.sizes), list(held.strides), held.offset)

    held: Any = value.value
    fields: dict[str, Any] = dict.fromkeys(
        ["tensor", "tensor_list", "int_value", "float_value", "double_value", "bool_value"]
    )
    names = ["Null", "Int", "Bool", "Float", "Double", "Tensor", "TensorList", "String"]
    make = {
        1: ("int_value", flatcc.Int),
        2: ("bool_value", flatcc.Bool),
        3: ("float_value", flatcc.Float),
        4: ("double_value", lambda number: flatcc.Double(through_json(number))),
        5: ("tensor", tensor),
        6: ("tensor_list", lambda list_: flatcc.TensorList([tensor(item) for item in list_])),
    }
    if value.type in make:
        field, build = make[value.type]
        fields[field] = build(held)
    output = None if value.output is None else flatcc.Bool(value.output)
    return flatcc.Value(val=names[value.type], **fields, output=output)


def sample() -> flatcc.ETDumpFlatCC:
    """A dump with every kind of event and value, for ExecuTorch's own serialiser."""
    tensor = flatcc.Tensor(flatcc.ScalarType.FLOAT, [1, 2], [2, 1], 64)
    values = [
        ("Int", {"int_value": flatcc.Int(-5)}),
        ("Bool", {"bool_value": flatcc.Bool(True)}),
        ("Float", {"float_value": flatcc.Float(0.5)}),
        ("Double", {"double_value": flatcc.Double(2.5)}),
        ("Tensor", {"tensor": tensor, "output": flatcc.Bool(True)}),
        ("TensorList", {"tensor_list": flatcc.TensorList([tensor, tensor])}),
    ]
    blank = dict.fromkeys(["tensor", "tensor_list", "int_value", "float_value"])
    blank |= dict.fromkeys(["double_value", "bool_value", "output"])
    events = [
        flatcc.Event(None, None, flatcc.DebugEvent("op", 2**64 - 1, 3, -1, "d", entry))
        for entry in (flatcc.Value(val=name, **(blank | fields)) for name, fields in values)
    ]
    metadata: Any = [0, 255, 3]  # its serialiser wants a list, its reader gives bytes
    profile = flatcc.ProfileEvent("native_call", -1, 7, 12, None, metadata, 2**63, 2**64 - 1)
    events.insert(1, flatcc.Event(profile, None, None))
    events.append(flatcc.Event(flatcc.ProfileEvent(None, 1, 0, -1, "id", None, 1, 2), None, None))
    events.insert(0, flatcc.Event(None, flatcc.AllocationEvent(1, 2**40), None))
    allocators = [flatcc.Allocator("method"), flatcc.Allocator("temp")]
    runs = [
        flatcc.RunData("Default", -1, allocators, events),
        flatcc.RunData("Execute", 4, None, []),
    ]
    return flatcc.ETDumpFlatCC(version=0, run_data=runs)


def test_inspector_shows_our_file_with_the_same_names_and_ticks() -> None:
    trace = device_trace()
    assert left_out(trace, allocation_events=False).allocations == 4
    inspector = Inspector(
        etdump_data=write_ed00(trace, allocation_events=False),
        source_time_scale=TimeScale.CYCLES,
        target_time_scale=TimeScale.CYCLES,
    )
    blocks = {block.name: block.events for block in inspector.event_blocks}
    assert list(blocks) == ["Default", "Execute"]
    shown = [(event.name, event.perf_data.raw) for event in blocks["Execute"]]
    expected: list[tuple[str, list[int]]] = []
    for instruction in range(4):
        expected.append((f"native_call_{instruction}.out", [10, 20, 30]))
        expected.append(("OPERATOR_CALL", [12, 24, 36]))
    # Inspector orders events by instruction and chain; ours are compared as a set with repeats.
    assert sorted(shown) == sorted([*expected, ("Method::execute", [200, 200, 200])])


def test_inspector_still_refuses_allocation_events() -> None:
    """The reason for ``allocation_events=False``; when this fails, the option can go."""
    with pytest.raises(ValueError, match="Unable to find populated event"):
        Inspector(etdump_data=write_ed00(device_trace()))


@pytest.mark.parametrize("allocation_events", [True, False])
def test_official_deserialisation_of_our_file_equals_the_trace(allocation_events: bool) -> None:
    data = write_ed00(device_trace(), allocation_events=allocation_events)
    assert deserialize_from_etdump_flatcc(data).run_data == official(read_ed00(data))


def test_we_read_what_the_runtime_recorded_as_executorch_does() -> None:
    data = RECORDED.read_bytes()
    trace = read_ed00(data)
    dump = deserialize_from_etdump_flatcc(data)
    assert dump.version == trace.version == 0
    assert dump.run_data == official(trace)
    # And again from the file we make of it.
    again = write_ed00(trace)
    assert left_out(trace) == LeftOut()
    assert deserialize_from_etdump_flatcc(again) == dump


def test_inspector_shows_a_recorded_dump_and_our_copy_alike() -> None:
    def shown(data: bytes) -> list[Any]:
        inspector = Inspector(etdump_data=data)
        return [
            (block.name, [(event.name, event.perf_data.raw) for event in block.events])
            for block in inspector.event_blocks
        ]

    data = RECORDED.read_bytes()
    assert shown(write_ed00(read_ed00(data))) == shown(data)


def test_we_read_every_kind_of_event_as_executorch_wrote_it() -> None:
    data = serialize_to_etdump_flatcc(sample())
    trace = read_ed00(data)
    # Its serialiser adds no size prefix; its reader is told so.
    assert deserialize_from_etdump_flatcc(data, size_prefixed=False).run_data == official(trace)
    assert np.count_nonzero(trace.kind == Kind.DEBUG) == 6
    rewritten = write_ed00(trace)
    assert deserialize_from_etdump_flatcc(rewritten).run_data == official(trace)


def test_our_schema_describes_the_recorded_file_like_executorchs(tmp_path: Path) -> None:
    """flatc decodes the file with our schema and with theirs to the same JSON."""
    recorded = tmp_path / "dump.etdp"
    recorded.write_bytes(write_ed00(read_ed00(serialize_to_etdump_flatcc(sample()))))
    texts = []
    theirs = Path(flatcc.__file__).parent
    for name, source, schema in (
        ("ours", ROOT / "schema", "etdump.fbs"),
        ("theirs", theirs, "etdump_schema_flatcc.fbs"),
    ):
        directory = tmp_path / name
        directory.mkdir()
        for file in (schema, "scalar_type.fbs"):
            shutil.copy(source / file, directory)
        command = [str(FLATC), "--json", "--strict-json", "--defaults-json", "--size-prefixed"]
        command += ["-o", str(directory), str(directory / schema), "--", str(recorded)]
        subprocess.run(command, check=True, timeout=600)
        texts.append((directory / "dump.json").read_text())
    assert texts[0] == texts[1]
    assert "TensorList" in texts[0]
