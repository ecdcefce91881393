"""Public behaviour of ExecuTorch's Inspector that scripts rely on, of both Inspectors."""

from __future__ import annotations

import base64
import inspect
import json
import runpy
import sys
from pathlib import Path
from typing import Any, get_args

import flatbuffers
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import executorch.devtools
import executorch.devtools.inspector as their_module
import torch
from executorch.devtools.inspector import numerical_comparator as their_comparators
from executorch.devtools.inspector._inspector_utils import DebugHandle as TheirDebugHandle
from executorch.devtools.inspector.numerical_comparator.numerical_comparator_base import (
    IntermediateOutputMapping as TheirMapping,
)

import harness.inspector as our_module
from harness import ValueType, write_ed00
from harness.decode import ed00_schema as ed
from tests.support.dumps import Generator
from tests.support.traces import EventSpec, RunSpec, trace_of

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
BOTH = pytest.mark.parametrize("module", [their_module, our_module], ids=["executorch", "harness"])
SCRIPT = "block Execute\nprofile a 0 0 5000000 7000000\ndelegate - 0 0 1 8000000 8000100 -"


def test_all_public_names_are_there() -> None:
    names = [*their_module.__all__, *their_comparators.__all__]
    assert [name for name in names if not hasattr(our_module, name)] == []
    assert get_args(our_module.DebugHandle) == get_args(TheirDebugHandle)
    assert [get_args(part)[1] for part in get_args(our_module.IntermediateOutputMapping)] == [
        get_args(part)[1] for part in get_args(TheirMapping)
    ]


@pytest.mark.parametrize("name", ["Event", "EventBlock", "Inspector", "PerfData"])
def test_all_public_attributes_are_there(name: str) -> None:
    theirs, ours = getattr(their_module, name), getattr(our_module, name)
    public = {
        item for item in {*dir(theirs), *getattr(theirs, "__annotations__", ())} if item[0] != "_"
    }
    there = {*dir(ours), *getattr(ours, "__annotations__", ())}
    assert public - there - {"get_op_list", "write_tensorboard_artifact"} == set()


@pytest.mark.parametrize("name", ["Inspector", "EventBlock", "compare_results"])
def test_arguments_have_the_same_names_and_order(name: str) -> None:
    theirs, ours = (
        [*inspect.signature(getattr(module, name)).parameters]
        for module in (their_module, our_module)
    )
    assert ours[: len(theirs)] == theirs


@BOTH
@pytest.mark.parametrize("scale", ["ns", "us", "ms"])
def test_starts_are_raw_ticks(module: Any, scale: str, generator: Generator) -> None:
    inspector = module.Inspector(
        str(generator.make(SCRIPT)), target_time_scale=module.TimeScale(scale)
    )
    first, second = inspector.event_blocks[0].events
    assert (first.start_time, second.start_time) == ([5_000_000], [8_000_000])
    for units in (True, False):
        assert [*inspector.to_dataframe(include_units=units)["start_time"]] == [
            [5_000_000],
            [8_000_000],
        ]


@BOTH
def test_missing_files_are_not_found(module: Any, generator: Generator, tmp_path: Path) -> None:
    dump, missing = str(generator.make(SCRIPT)), str(tmp_path / "missing")
    for arguments in (
        {"etdump_path": missing},
        {"etdump_path": dump, "debug_buffer_path": missing},
        {"etdump_path": dump, "etrecord": missing},
    ):
        with pytest.raises(FileNotFoundError):
            module.Inspector(**arguments)


@BOTH
def test_wrong_arguments_raise_alike(module: Any, generator: Generator) -> None:
    dump = str(generator.make(SCRIPT))
    with pytest.raises(RuntimeError):
        module.Inspector(dump, source_time_scale=module.TimeScale.CYCLES)
    with pytest.raises(RuntimeError):
        module.Inspector(dump, target_time_scale=module.TimeScale.CYCLES)
    with pytest.raises(ValueError, match="exactly one"):
        module.Inspector()
    with pytest.raises(ValueError, match="exactly one"):
        module.Inspector(dump, b"data")
    with pytest.raises(TypeError):
        module.Inspector(dump, etrecord=3)
    wrong = module.Inspector(dump, delegate_metadata_parser=lambda _: 3)
    with pytest.raises((ValueError, TypeError)):
        wrong.to_dataframe(include_delegate_debug_data=True)


@BOTH
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_data_may_be_any_bytes(module: Any, kind: Any, generator: Generator) -> None:
    data = kind(generator.make(SCRIPT).read_bytes())
    (block,) = module.Inspector(etdump_data=data).event_blocks
    assert [event.name for event in block.events] == ["a", "0"]


def test_their_time_scale_is_taken_by_value(generator: Generator) -> None:
    scale = their_module.TimeScale
    inspector = our_module.Inspector(
        generator.make(SCRIPT), source_time_scale=scale.US, target_time_scale=scale.S
    )
    (block,) = inspector.event_blocks
    assert (block.source_time_scale, block.target_time_scale) == (scale.US, scale.S)
    assert block.events[0].perf_data.raw == [2.0]


@BOTH
def test_blocks_can_be_made_with_references(module: Any) -> None:
    event = module.Event(name="op", perf_data=module.PerfData([1.0, 3.0]))
    block = module.EventBlock(name="Execute", events=[event], reference_output=[1])
    assert block.reference_output == [1]
    assert [*block.to_dataframe()["avg"]] == [2.0]


@BOTH
def test_plots_are_drawn_instead_of_printed(
    module: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra 'plot'").use("Agg")
    monkeypatch.chdir(tmp_path)
    reference, run = [torch.tensor([3.0, 4.0])], [torch.tensor([3.0, 3.0])]
    found = module.compare_results(reference, run, ["mse"], plot=True)
    assert found == {"mse": [0.5]}
    assert [path.name for path in tmp_path.iterdir()] == ["mse_output_plot.png"]
    assert capsys.readouterr().out == ""


@BOTH
def test_neural_statistics_are_parsed(module: Any) -> None:
    blob = {"available": True, "encoding": "base64", "data": base64.b64encode(b"\1\2").decode()}
    segment = {"statistics_memory": blob, "debug_database": {"available": False}, "more": 1}
    record = {
        "schema": "executorch.vgf.neural_statistics",
        "schema_version": 1,
        "segments": [segment],
    }
    metadata = json.dumps(record).encode()
    run = RunSpec(
        [
            EventSpec(None, 0, 1, delegate="vgf", metadata=metadata),
            EventSpec(None, 1, 2, delegate="other", metadata=b"cycles=3"),
        ]
    )
    inspector = module.Inspector(etdump_data=write_ed00(trace_of(run)))
    found = inspector.get_vgf_neural_statistics()
    expected = {**segment, "statistics_memory": {**blob, "raw_data": b"\1\2"}}
    expected["debug_database"] = {"available": False, "raw_data": b""}
    assert found == [{**record, "segments": [expected]}]
    assert module.parse_vgf_neural_statistics_metadata(metadata) == found[0]
    for wrong in (metadata[:-2], metadata.replace(b": 1", b": 2"), metadata.replace(b"AQI=", b"?")):
        with pytest.raises(ValueError, match=r".+"):
            module.parse_vgf_neural_statistics_delegate_metadata([wrong])


def value_with(fields: dict[str, int], stated: ValueType) -> bytes:
    """A dump of one value, with content for each of these fields."""
    builder = flatbuffers.Builder(0)
    tables = {}
    for slot, number in fields.items():
        builder.StartObject(1)
        builder.PrependInt64Slot(0, number, 0)
        tables[ed.ValueTable[slot]] = builder.EndObject()
    builder.StartObject(8)
    builder.PrependInt8Slot(ed.ValueTable.TYPE, stated, 0)
    for field, offset in tables.items():
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    value = builder.EndObject()
    builder.StartObject(6)
    builder.PrependUOffsetTRelativeSlot(ed.Debug.ENTRY, value, 0)
    debug = builder.EndObject()
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(ed.EventTable.DEBUG, debug, 0)
    event = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(event)
    events, name = builder.EndVector(), builder.CreateString("Execute")
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(ed.RunTable.NAME, name, 0)
    builder.PrependUOffsetTRelativeSlot(ed.RunTable.EVENTS, events, 0)
    run = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(run)
    runs = builder.EndVector()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(ed.DumpTable.RUN_DATA, runs, 0)
    builder.FinishSizePrefixed(builder.EndObject(), file_identifier=ed.IDENTIFIER)
    return bytes(builder.Output())


@BOTH
def test_unused_alternatives_of_a_value_are_ignored(module: Any) -> None:
    for stated, expected in ((ValueType.INT, 5), (ValueType.DOUBLE, 0.0)):
        data = value_with({"INT": 5, "DOUBLE": 0}, stated)
        (block,) = module.Inspector(etdump_data=data).event_blocks
        assert block.events[0].debug_data == [expected]


@BOTH
def test_a_converter_may_have_offsets_and_need_not_be_linear(
    module: Any, generator: Generator
) -> None:
    path = str(
        generator.make("block Execute\ndelegate - 3 0 1 1000 1010 -\ndelegate x -1 0 1 1010 1040 -")
    )
    asked: list[tuple[object, object]] = []

    def convert(name: int | str, time: float) -> float:
        asked.append((name, time))
        return time * time + 7

    (block,) = module.Inspector(path, delegate_time_scale_converter=convert).event_blocks
    assert [event.perf_data.raw for event in block.events] == [[20_100.0], [61_500.0]]
    assert asked == [("3", 1000), ("3", 1010), ("x", 1010), ("x", 1040)]


def test_arms_script_draws_the_same_trace_with_ours(
    generator: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = generator.make(SCRIPT)
    script = Path(executorch.__path__[0]) / "backends/arm/scripts/etdump_to_chrome_trace.py"
    drawn = []
    for module in (their_module, our_module):
        monkeypatch.setattr(executorch.devtools, "Inspector", module.Inspector)
        monkeypatch.setitem(sys.modules, "executorch.devtools.inspector", module)
        output = tmp_path / f"{module.__name__}.json"
        monkeypatch.setattr(
            sys, "argv", [str(script), "--etdump_path", str(path), "--output", str(output)]
        )
        runpy.run_path(str(script), run_name="__main__")
        drawn.append(json.loads(output.read_text())["traceEvents"])
    assert [event.get("ts") for event in drawn[1]] == [None, 5000.0, 8000.0]
    for theirs, ours in zip(*drawn, strict=True):
        durations = [event.pop("dur", 0.0) for event in (theirs, ours)]
        assert durations[1] == pytest.approx(durations[0], rel=1e-9)
        assert ours == theirs
