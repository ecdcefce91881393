"""Exports as PyTorch itself would have written them, and its own readers on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import (
    HOST_NANOSECONDS,
    ClockDomain,
    Tensor,
    Trace,
    Value,
    ValueList,
    durations,
    export_trace,
    operator_statistics,
    read_ed00,
    read_log,
    read_program,
    write_ed00,
)
from harness.analyze.workload import Argument
from harness.extensions.exports.kineto import Operands, TensorNumbers, profiler_inputs
from tests.conftest import FIXTURES, MODELS
from tests.support.exports import delegated_trace
from tests.support.logs import CompactLog

torch = pytest.importorskip("torch")
profiler = pytest.importorskip("torch.profiler")
pytestmark = pytest.mark.oracle

FLOAT = Tensor(6, (2, 3), (0, 1))
TURNED = Tensor(6, (2, 3), (1, 0))
DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


def values() -> tuple[Any, Any]:
    return torch.ones(2, 3), torch.ones(3, 2).t()


CALLS: dict[str, tuple[Callable[[], object], tuple[Value, ...]]] = {
    "aten::add": (lambda: torch.add(*values(), alpha=2), (FLOAT, TURNED, 2)),
    "aten::cat": (
        lambda: torch.cat(values()),
        (ValueList((FLOAT, TURNED), (5, 6)), 0),
    ),
    "aten::clamp": (lambda: torch.clamp(values()[0], 0.5), (FLOAT, 0.5, None)),
    "aten::leaky_relu": (
        lambda: torch.nn.functional.leaky_relu(values()[0], 1.0),
        (FLOAT, 1.0),
    ),
    "aten::sum": (
        lambda: torch.sum(values()[0], [0, 1], True),
        (FLOAT, ValueList((0, 1), (8, 9)), True, None),
    ),
    **{
        f"aten::clone {number}": (
            lambda dtype=dtype: torch.zeros(4, dtype=dtype).clone(),  # type: ignore[misc]
            (Tensor(number, (4,), (0,)), None),
        )
        for number, dtype in DTYPES.items()
    },
}


def ours(given: tuple[Value, ...]) -> Operands:
    arguments = [Argument(100 + number, value) for number, value in enumerate(given)]
    return TensorNumbers(None, 1).operands(arguments)


@pytest.mark.parametrize("name", CALLS)
def test_operands_are_spelt_as_in_the_profilers_events(name: str, tmp_path: Path) -> None:
    call, given = CALLS[name]
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiled:
        call()
    profiled.export_chrome_trace(str(tmp_path / "x.json"))
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    event = next(event for event in events if event["name"] == name.split()[0])
    mine = profiler_inputs(ours(given))
    assert {key: event["args"][key] for key in mine} == mine


@pytest.mark.parametrize("name", CALLS)
def test_operands_are_spelt_as_in_the_execution_trace(name: str, tmp_path: Path) -> None:
    call, given = CALLS[name]
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "x.json"))
    observer.start()
    call()
    observer.stop()
    observer.unregister_callback()
    nodes = json.loads((tmp_path / "x.json").read_text())["nodes"]
    inputs = next(node["inputs"] for node in nodes if node["name"] == name.split()[0])
    mine = ours(given)
    assert (inputs["types"], inputs["shapes"], inputs["strides"]) == (
        mine.types,
        mine.shapes,
        mine.strides,
    )
    assert without_ids(inputs["values"]) == without_ids(mine.values)


def without_ids(spelt: Any) -> Any:
    """Values with the numbers of tensors and storages left out."""
    if not isinstance(spelt, list):
        return spelt
    return spelt[2:] if spelt[-1:] == ["cpu"] else [without_ids(item) for item in spelt]


def test_pytorchs_own_readers_find_nothing_wrong(tmp_path: Path) -> None:
    from torch._inductor.analysis.profile_analysis import JsonProfile
    from torch.profiler._trace_validator import validate_trace

    recorded = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    method = read_program((MODELS / "kws_f32.pte").read_bytes()).method("forward")
    for number, (trace, model) in enumerate([(delegated_trace(), None), (recorded, method)]):
        file = tmp_path / f"{number}.json"
        file.write_bytes(export_trace(trace, "kineto", method=model).data)
        assert validate_trace(str(file)) == (True, [])
        read = JsonProfile(str(file))
        assert sum(event["ph"] == "X" for event in read.events) >= len(trace) // 2
        shaped = [event for event in read.events if "Input Dims" in event.get("args", {})]
        assert bool(shaped) == (model is not None)
        assert all(event["args"]["Input type"][0] == "float" for event in shaped)


def test_the_inspector_opens_the_flavour_that_is_for_it(tmp_path: Path) -> None:
    devtools = pytest.importorskip("executorch.devtools", reason="needs executorch")
    scale = pytest.importorskip("executorch.devtools.inspector").TimeScale
    trace = delegated_trace()
    file = tmp_path / "x.etdp"
    exported = export_trace(trace, "ed00", "inspector")
    assert "8 allocations" in exported.notes
    file.write_bytes(exported.data)
    opened = devtools.Inspector(
        etdump_path=str(file), source_time_scale=scale.NS, target_time_scale=scale.NS
    )
    theirs = {
        (block.name, event.name): [int(value) for value in event.perf_data.raw]
        for block in opened.event_blocks
        for event in block.events
    }
    ours = {
        (operator.block, operator.name or operator.delegate_str or str(operator.delegate_int)): (
            durations(trace)[operator.rows].tolist()
        )
        for operator in operator_statistics(trace)
    }
    assert theirs == ours


def drawn_by_executorch(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The slices of ExecuTorch's own Chrome trace of a dump."""
    script = pytest.importorskip("executorch.backends.arm.scripts.etdump_to_chrome_trace")
    out = file.with_suffix(".json")
    arguments = ["x", "--etdump_path", str(file), "--output", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    script.main()
    return [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"]


def drawn_by_us(trace: Trace) -> list[dict[str, Any]]:
    events = json.loads(export_trace(trace, "kineto").data)["traceEvents"]
    return [event for event in events if "Ev Idx" in event.get("args", {})]


def ed00_of(*events: tuple[str, int, int]) -> bytes:
    log = CompactLog().block("Execute")
    for name, _, _ in events:
        log.profile(name, 0, 0)
    trace = read_log(log.image(), [HOST_NANOSECONDS])
    start, end = (np.array([event[n] for event in events], np.uint64) for n in (1, 2))
    return write_ed00(replace(trace, start=start, end=end))


def test_a_drawing_jumps_back_where_the_counter_wraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.etdp"
    file.write_bytes(ed00_of(("a", 2**32 - 16, 16), ("b", 32, 48)))
    theirs = drawn_by_executorch(file, monkeypatch)
    assert [(event["ts"], event["dur"]) for event in theirs] == [
        (pytest.approx(4294967.280), pytest.approx(0.031)),
        (pytest.approx(0.032), pytest.approx(0.016)),
    ]
    clock = ClockDomain("cpu", HOST_NANOSECONDS.hz, 32)
    ours = drawn_by_us(read_ed00(file.read_bytes(), clock))
    assert [(event["ts"], event["dur"]) for event in ours] == [(0.0, 0.032), (0.048, 0.016)]


def test_a_drawing_of_nanoseconds_since_1970_has_steps_of_a_quarter_of_a_microsecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = 1_767_225_600 * 10**9
    file = tmp_path / "x.etdp"
    file.write_bytes(ed00_of(("a", epoch + 10, epoch + 50), ("b", epoch + 60, epoch + 110)))
    a, b = drawn_by_executorch(file, monkeypatch)
    assert b["ts"] == a["ts"]  # one begins with the other
    ours = drawn_by_us(read_ed00(file.read_bytes()))
    assert [(event["ts"], event["dur"]) for event in ours] == [(0.0, 0.04), (0.05, 0.05)]


def test_a_drawing_has_only_the_last_of_repeated_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.etdp"
    file.write_bytes(ed00_of(("loop", 0, 10), ("loop", 10, 30), ("loop", 30, 60)))
    assert [event["ts"] for event in drawn_by_executorch(file, monkeypatch)] == [0.03]
    ours = drawn_by_us(read_ed00(file.read_bytes()))
    assert [event["ts"] for event in ours] == [0.0, 0.01, 0.03]
