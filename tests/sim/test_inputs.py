"""Inputs per operator, of runs of the runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import harness
from harness import NO_NAME, Tensor, read_program
from harness.analyze.blocks import executed_methods
from harness.analyze.workload import event_arguments
from tests.conftest import FIXTURES, MODELS

pytestmark = pytest.mark.sim


def test_sizes_that_are_only_bounds_in_the_file_are_known_from_logged_values(
    tmp_path: Path,
) -> None:
    model, fixture = MODELS / "dynamic.pte", np.load(FIXTURES / "dynamic.npz")
    inputs = [tmp_path / f"{number}.npy" for number in range(2)]
    for number, path in enumerate(inputs):
        np.save(path, fixture[f"rows5.input{number}"])
    level = "intermediate"
    outcome = harness.run(
        model, board="native", runs=2, output=tmp_path / "run", values=level, inputs=tuple(inputs)
    )
    trace = outcome.trace
    found = event_arguments(trace, executed_methods(trace, read_program(model.read_bytes())))
    produced: dict[tuple[int, int], tuple[int, ...]] = {}
    kernels = narrowed = 0
    block_of = [number for number, block in enumerate(trace.blocks) for _ in range(block.count)]
    for row, arguments in enumerate(found):
        name = trace.names[trace.name[row]] if trace.name[row] != NO_NAME else ""
        if arguments is None or not name.startswith("native_call_"):
            continue
        kernels += 1
        for item in arguments.inputs:
            key = block_of[row], item.number
            if isinstance(item.value, Tensor) and key in produced:
                assert item.sizes == produced[key], name
        for item in arguments.outputs:
            if isinstance(item.value, Tensor):
                assert item.logged is not None, name
                assert item.sizes is not None
                assert all(n <= m for n, m in zip(item.sizes, item.value.sizes, strict=True))
                narrowed += item.sizes != item.value.sizes
                produced[block_of[row], item.number] = item.sizes
    assert kernels > 20
    # Five rows were given where the file has room for eight.
    assert narrowed > 10
