"""Both models on both simulated boards: ExecuTorch's events, PyTorch's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.etdump.ed00 import read_ed00
from harness.lab.run import RunRequest, run_model
from harness.lab.tensors import from_bytes, to_bytes
from harness.link.wire import Region, State
from harness.trace import Kind, Trace
from tests.conftest import FIXTURES, MODELS
from tests.support.boards import started

pytestmark = pytest.mark.sim
BOARDS = ["native", "qemu-mps2-an385"]


def signatures(trace: Trace) -> list[dict[str, object]]:
    """Block names with (event name, chain, instruction) of their profile events, in order."""
    return [
        {
            "block": block.name,
            "events": [
                [trace.names[trace.name[i]], int(trace.chain[i]), int(trace.instruction[i])]
                for i in range(block.first, block.first + block.count)
                if trace.kind[i] == Kind.PROFILE
            ],
        }
        for block in trace.blocks
    ]


def outputs(board: str, model: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What the board computes for each input of the model's fixture, and what it should."""
    fixture = np.load(FIXTURES / f"{model}.npz")
    with started(board) as bench:
        info = bench.session.load_model((MODELS / f"{model}.pte").read_bytes())
        for array, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
            bench.session.set_input(0, to_bytes(array, info.inputs[0]))
            bench.session.run(1, timeout_s=60)
            yield from_bytes(bench.session.read(Region.OUTPUT), info.outputs[0])[0], expected
        assert bench.session.status().state is State.DONE
        assert bench.session.statistics.loss == 0
        assert bench.session.statistics.stale_answers == 0


@pytest.mark.parametrize("board", BOARDS)
def test_float32_logs_what_executorch_logs(board: str, tmp_path: Path) -> None:
    recorded = json.loads((FIXTURES / "kws_f32_signatures.json").read_text())

    outcome = run_model(RunRequest(board, MODELS / "kws_f32.pte", 3, tmp_path / "run"))

    assert signatures(outcome.trace) == recorded
    assert signatures(read_ed00((tmp_path / "run" / "trace.etdp").read_bytes())) == recorded


@pytest.mark.parametrize("board", BOARDS)
def test_float32_outputs_are_pytorchs(board: str) -> None:
    compared = 0
    for output, expected in outputs(board, "kws_f32"):
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-4)
        compared += 1
    assert compared == 10


@pytest.mark.parametrize("board", BOARDS)
def test_int8_outputs_are_the_cortex_m_references_bit_for_bit(board: str) -> None:
    compared = 0
    for output, expected in outputs(board, "kws_int8"):
        assert output.tobytes() == expected.tobytes()
        compared += 1
    assert compared == 10


def test_qemu_gives_the_same_trace_tick_for_tick(tmp_path: Path) -> None:
    logs = []
    for name in ("first", "second"):
        request = RunRequest("qemu-mps2-an385", MODELS / "kws_int8.pte", 20, tmp_path / name)
        run_model(request)
        logs.append((tmp_path / name / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]
