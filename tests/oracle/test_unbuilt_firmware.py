"""ExecuTorch in Arm's image, traced without a rebuild, beside ExecuTorch's own tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector
from executorch.devtools.inspector import TimeScale

import harness
from harness import Trace, operator_statistics
from harness.extensions.mlek.image import find_image
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.oracle

Etharness = Callable[..., CommandResult]
MODEL_AT = "0x90000000"
STOPS = ("--stops", "--counter", "0x49302018", "--counter-hz", "20000000")
WAYS: dict[str, tuple[str, ...]] = {"counting": (), "stops": STOPS}


def traced(etharness: Etharness, model: str, output: Path, way: str) -> Trace:
    load = f"{MODELS / model}.pte@{MODEL_AT}"
    options = ("--model", model, "--load", load, "--return", "arm_ethosu_npu_init", "-o", output)
    more = (*options, *WAYS[way])
    result = etharness("trace", find_image(), "--board", "qemu-mps3-an547", *more)
    assert result.code == 0, result.err
    return harness.read_ed00((output / "trace.etdp").read_bytes())


def rows(trace: Trace, block: str) -> list[tuple[str | None, int, int]]:
    """Names, chains and instructions of the events of the blocks with a name."""
    columns = trace.name.tolist(), trace.chain.tolist(), trace.instruction.tolist()
    events = [(trace.text(name), *place) for name, *place in zip(*columns, strict=True)]
    return [
        event
        for each in trace.blocks
        if each.name == block
        for event in events[each.first : each.first + each.count]
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", ["kws_f32", "rows_m55"])
def test_the_inspector_reads_the_events_that_we_do(
    etharness: Etharness, model: str, way: str, tmp_path: Path
) -> None:
    trace = traced(etharness, model, tmp_path, way)
    inspector = Inspector(
        etdump_path=str(tmp_path / "trace.etdp"),
        source_time_scale=TimeScale.CYCLES,
        target_time_scale=TimeScale.CYCLES,
    )
    theirs = [
        (block.name, event.name, [int(value) for value in event.perf_data.raw])
        for block in inspector.event_blocks
        for event in block.events
    ]
    ours = [
        (each.block, each.name, (trace.end[each.rows] - trace.start[each.rows]).tolist())
        for each in operator_statistics(trace)
    ]
    assert len(ours) > 5
    assert theirs == ours


def test_events_are_those_that_etdumpgen_logs_for_the_model(
    etharness: Etharness, tmp_path: Path
) -> None:
    trace = traced(etharness, "kws_f32", tmp_path / "traced", "counting")
    output = tmp_path / "logged"
    harness.run(MODELS / "kws_f32.pte", board="native-executorch-etdumpgen", output=output)
    logged = harness.read_ed00((output / "trace.etdp").read_bytes())
    assert len(rows(logged, "Execute")) == 2 * 31 + 1
    assert rows(trace, "Execute") == rows(logged, "Execute")
    assert rows(trace, "Default") == rows(logged, "Default")
