"""Networks with a state: PyTorch's numbers step by step, on both runtimes."""

from __future__ import annotations

import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import numpy as np
from executorch.runtime import Runtime

import harness
from harness import UsageError, read_bundled_program
from tests.conftest import MODELS
from tests.support.stateful import NAMES, bundled, unpacked

pytestmark = pytest.mark.oracle


@cache
def script() -> dict[str, Any]:
    """What the script defines that exports them."""
    sys.path.insert(0, str(MODELS))
    try:
        return runpy.run_path(str(MODELS / "export_steps.py"))
    finally:
        sys.path.remove(str(MODELS))


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_steps_are_those_of_pytorch(name: str) -> None:
    stored = read_bundled_program(bundled(name).read_bytes()).test_sets
    for step, (inputs, outputs) in zip(stored, script()["steps"](name), strict=True):
        for mine, theirs in zip(step.inputs, inputs, strict=True):
            np.testing.assert_array_equal(mine, theirs.numpy())
        for mine, theirs in zip(step.expected, outputs, strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_both_runtimes_compute_each_step_alike(name: str, tmp_path: Path) -> None:
    """ExecuTorch's own Python runtime, our board with it, and the bundled runtime."""
    program, steps = unpacked(name, tmp_path)
    method = Runtime.get().load_program(str(program)).load_method("forward")
    assert method is not None
    runs = {
        board: harness.run(program, board=board, steps=steps, runs=2, output=tmp_path / board)
        for board in ("native", "native-executorch")
    }
    theirs = [method.execute(inputs) for inputs, _ in script()["steps"](name)]
    for board, run in runs.items():
        assert run.verdict.exit_code == 0, board
        for number, outputs in enumerate(theirs):
            for index, output in enumerate(outputs):
                file = tmp_path / board / f"steps/{number:03}/outputs/{index}.npy"
                np.testing.assert_allclose(np.load(file), output.numpy(), rtol=1e-5, atol=1e-6)


def test_a_trace_that_ends_when_it_is_read_is_refused(tmp_path: Path) -> None:
    program, steps = unpacked("stream", tmp_path)
    with pytest.raises(UsageError, match="its runtime writes the trace by itself"):
        harness.run(
            program, board="native-executorch-etdumpgen", steps=steps, output=tmp_path / "run"
        )
