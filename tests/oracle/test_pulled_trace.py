"""A pulled trace opens in ExecuTorch's Inspector, and the fixtures are what their script makes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector
from executorch.devtools.inspector import TimeScale

import harness
from harness import Method, Value, ValueList, operator_statistics, read_program
from tests.conftest import FIXTURES, MODELS

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("model", ["kws_f32", "kws_int8"])
def test_the_inspector_shows_the_names_and_durations_that_we_do(model: str, tmp_path: Path) -> None:
    outcome = harness.run(MODELS / f"{model}.pte", board="native", runs=5, output=tmp_path / "run")

    inspector = Inspector(
        etdump_path=str(tmp_path / "run" / "trace.etdp"),
        source_time_scale=TimeScale.NS,
        target_time_scale=TimeScale.NS,
    )

    theirs = [
        (block.name, event.name, [int(value) for value in event.perf_data.raw])
        for block in inspector.event_blocks
        for event in block.events
    ]
    ours = [
        (operator.block, operator.name, _durations(outcome.trace, operator.rows))
        for operator in operator_statistics(outcome.trace)
    ]
    assert len(ours) > 30
    assert theirs == ours


def _durations(trace: object, rows: np.ndarray) -> list[int]:
    start, end = trace.start[rows], trace.end[rows]  # type: ignore[attr-defined]
    return [int((e - s) % 2**32) for s, e in zip(start.tolist(), end.tolist(), strict=True)]


def test_the_export_script_makes_the_committed_files(tmp_path: Path) -> None:
    """Bit for bit on the CPU that made them; elsewhere PyTorch's float32 sums round otherwise.

    What calibration measures then differs in its last bits, and so do scales: some int8 values
    land on the other side of a step, which softmax enlarges.
    """
    # All four take minutes.
    networks = ["ad", "ic", "kws", "vww"] if "ETHARNESS_EVERY_MODEL" in os.environ else ["ad"]
    script = [sys.executable, MODELS / "export.py", "--models", tmp_path, "--fixtures", tmp_path]
    chosen = [f"--network={name}" for name in networks]
    subprocess.run([*script, *chosen], check=True, capture_output=True)
    programs = sorted(tmp_path.glob("*.pte"))
    names = {file.name for name in networks for file in MODELS.glob(f"{name}_*.pte")}
    assert {program.name for program in programs} == names
    for program in programs:
        fixture = f"{program.stem}.npz"
        made, kept = np.load(tmp_path / fixture), np.load(FIXTURES / fixture)
        np.testing.assert_array_equal(made["inputs"], kept["inputs"])
        apart = np.abs(made["outputs"] - kept["outputs"])
        if program.stem.endswith("_f32"):
            assert apart.max() <= 1e-4
        else:
            span = np.ptp(kept["outputs"])
            assert apart.max() <= 0.2 * span, program.stem
            assert np.mean(apart > 0.02 * span) <= 0.1, program.stem
        data, committed = program.read_bytes(), (MODELS / program.name).read_bytes()
        assert len(data) == len(committed)
        assert _without_numbers(data) == _without_numbers(committed)


def _without_numbers(model: bytes) -> list[Method]:
    """The methods of a program: all but the numbers that its kernels are given."""
    return [
        replace(method, values=tuple(map(_without_number, method.values)))
        for method in read_program(model).methods
    ]


def _without_number(value: Value) -> Value:
    if isinstance(value, ValueList):
        return replace(value, items=tuple(map(_without_number, value.items)))  # type: ignore[arg-type]
    return 0 if isinstance(value, int | float) else value
