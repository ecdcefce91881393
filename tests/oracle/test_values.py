"""Logged values are those that ExecuTorch's runtime logs, and its Inspector shows PyTorch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import torch
from executorch.devtools import Inspector
from executorch.exir import to_edge
from executorch.extension.pybindings import portable_lib

import harness
from harness import LoggedValues, read_ed00
from tests.conftest import FIXTURES, MODELS
from tests.support.values import logged_tensors

pytestmark = pytest.mark.oracle
DEBUG_CAPACITY = 1 << 24


class Network(torch.nn.Module):
    """A sequence whose every step is one operator of ExecuTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 6))
        self.bias = torch.nn.Parameter(torch.randn(6))

    def steps(self, x: torch.Tensor) -> list[torch.Tensor]:
        product = torch.mm(x, self.weight)
        total = product + self.bias
        positive = torch.relu(total)
        turned = torch.permute(positive, (1, 0))
        return [product, total, positive, turned, torch.softmax(turned, dim=1)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps(x)[-1]


def run(
    model: Path, directory: Path, level: LoggedValues, value: np.ndarray, board: str = "native"
) -> harness.Run:
    given = directory.with_suffix(".npy")
    np.save(given, value)
    return harness.run(model, board=board, runs=2, output=directory, inputs=(given,), values=level)


def test_executorchs_runtime_logs_the_same_values(tmp_path: Path) -> None:
    program = (MODELS / "kws_f32.pte").read_bytes()
    value = np.load(FIXTURES / "kws_f32.npz")["inputs"][0]
    module = portable_lib._load_for_executorch_from_buffer(
        program, enable_etdump=True, debug_buffer_size=DEBUG_CAPACITY
    )
    for _ in range(2):
        module.run_method("forward", (torch.from_numpy(value),))
    module.write_etdump_result_to_file(str(tmp_path / "etdp"), str(tmp_path / "debug"))
    theirs = logged_tensors(
        read_ed00((tmp_path / "etdp").read_bytes()), (tmp_path / "debug").read_bytes()
    )

    run(MODELS / "kws_f32.pte", tmp_path / "run", "intermediate", value)
    ours = logged_tensors(
        read_ed00((tmp_path / "run" / "trace.etdp").read_bytes()),
        (tmp_path / "run" / "debug_buffer.bin").read_bytes(),
    )
    assert len(ours) > 20
    assert [value.kind for value in ours] == [value.kind for value in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.array, yours.array, rtol=0, atol=1e-4)


def test_inspector_shows_what_pytorch_computes(tmp_path: Path) -> None:
    torch.manual_seed(3)
    network, value = Network().eval(), torch.randn(4, 8)
    model = tmp_path / "network.pte"
    model.write_bytes(to_edge(torch.export.export(network, (value,))).to_executorch().buffer)
    outcome = run(model, tmp_path / "run", "intermediate", value.numpy())
    with torch.no_grad():
        steps = network.steps(value)

    inspector = Inspector(
        etdump_path=str(tmp_path / "run" / "trace.etdp"),
        debug_buffer_path=str(tmp_path / "run" / "debug_buffer.bin"),
    )
    [block] = [block for block in inspector.event_blocks if block.name == "Execute"]
    shown = [event.debug_data for event in block.events if event.name.startswith("native_call_")]
    assert [len(data) for data in shown] == [1] * len(steps)
    for [found], expected in zip(shown, steps, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    [output] = block.run_output
    torch.testing.assert_close(output, steps[-1], rtol=0, atol=1e-5)

    summary = outcome.result.trace
    assert summary is not None
    assert (summary.values, summary.dropped_values) == (2 * (len(steps) + 1), 0)
    assert summary.etdp_left_out_values == 0
    # The two executions of one run are equal, and each has memory of its own in the buffer.
    sizes = [-(-step.numpy().nbytes // 16) * 16 for step in [*steps, steps[-1]]]
    assert summary.debug_bytes == 2 * sum(sizes)
