"""A run on the simulated NPU, with what its exporter knew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness.inspector import Inspector
from tests.conftest import MODELS, CommandResult
from tests.support.documents import document

pytestmark = pytest.mark.sim


def test_delegated_operators_are_known_by_their_ids(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    harness.run(MODELS / "npu_str.pte", board="native", runs=3, output=tmp_path / "run")
    known = ["--etrecord", MODELS / "npu_str.etrecord", "--model", MODELS / "npu_str.pte"]
    out = etharness("decode", tmp_path / "run", *known, "--by", "module", "--json").out
    found = document("decode", out)
    named = {
        (op["instruction"], op["delegate_str"]): op["origin"]
        for op in found["operators"]
        if op["delegate_str"] is not None
    }
    assert {key: origin["op_types"] for key, origin in named.items()} == {
        (0, "0:linear"): ["aten.linear.default"],
        (2, "0:linear"): ["aten.linear.default"],
        (2, "1:add"): ["aten.add.Tensor"],
        (2, "2:relu"): ["aten.relu.default"],
    }
    assert named[0, "0:linear"]["module"] == "narrow"
    assert {origin["backend"] for origin in named.values()} == {"SimulatedNpu"}
    calls = [op["ns"]["total"] for op in found["operators"] if op["name"] == "DELEGATE_CALL"]
    kernels = [
        op["ns"]["total"] for op in found["operators"] if op["name"].startswith("native_call_")
    ]
    whole = next(item for item in found["modules"] if item["path"] == "")
    assert whole["total_ns"] == pytest.approx(sum(calls) + sum(kernels))


def test_the_inspector_reads_a_run_directory_on_its_clocks(tmp_path: Path) -> None:
    outcome = harness.run(
        MODELS / "npu_int.pte", board="qemu-mps2-an385", runs=2, output=tmp_path / "run"
    )
    inspector = Inspector(tmp_path / "run", etrecord=MODELS / "npu_int.etrecord")
    assert len(inspector.trace) == len(outcome.trace)
    (block,) = (block for block in inspector.event_blocks if block.name == "Execute")
    assert len(block.runs) == 2
    clocks = {clock.name: clock for clock in outcome.trace.clocks}
    assert len(clocks) == 2
    for event in block.events:
        assert event.perf_data is not None
        domain = outcome.trace.clocks[outcome.trace.clock[event.rows[0]]]
        assert domain.hz is not None
        for row, found in zip(event.rows, event.perf_data.raw, strict=True):
            ticks = int(outcome.trace.end[row]) - int(outcome.trace.start[row])
            expected = float(ticks % domain.modulus * 1000 / domain.hz)
            assert found == pytest.approx(expected, rel=1e-12)
