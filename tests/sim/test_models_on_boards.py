"""Both models on both simulated boards: the same events as ExecuTorch logs, the same numbers as PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.etdump.ed00_reader import read_ed00
from harness.lab.run import Outcome, RunRequest, run_model
from harness.trace import Kind, Trace
from tests.conftest import FIXTURES, MODELS

pytestmark = pytest.mark.sim
BOARDS = ["native", "qemu-mps2-an385"]


def run(board: str, model: str, output: Path, *, index: int = 0, runs: int = 1) -> Outcome:
    array = np.load(FIXTURES / f"{model}.npz")["inputs"][index]
    output.mkdir(parents=True, exist_ok=True)
    np.save(output.parent / f"{output.name}-input.npy", array)
    return run_model(
        RunRequest(
            board=board,
            model=MODELS / f"{model}.pte",
            runs=runs,
            output=output,
            inputs=(output.parent / f"{output.name}-input.npy",),
        )
    )


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


@pytest.mark.parametrize("board", BOARDS)
def test_float32_logs_what_executorch_logs(board: str, tmp_path: Path) -> None:
    recorded = json.loads((FIXTURES / "kws_f32_signatures.json").read_text())

    outcome = run(board, "kws_f32", tmp_path / "run", runs=3)

    assert signatures(outcome.trace) == recorded
    assert signatures(read_ed00((tmp_path / "run" / "trace.etdp").read_bytes())) == recorded


@pytest.mark.parametrize("board", BOARDS)
def test_float32_outputs_are_pytorchs(board: str, tmp_path: Path) -> None:
    expected = np.load(FIXTURES / "kws_f32.npz")["outputs"]
    for index, reference in enumerate(expected):
        run(board, "kws_f32", tmp_path / "run", index=index)
        output = np.load(tmp_path / "run" / "outputs" / "0.npy")[0]
        np.testing.assert_allclose(output, reference, rtol=0, atol=1e-4)


@pytest.mark.parametrize("board", BOARDS)
def test_int8_outputs_are_the_cortex_m_references_bit_for_bit(board: str, tmp_path: Path) -> None:
    expected = np.load(FIXTURES / "kws_int8.npz")["outputs"]
    for index, reference in enumerate(expected):
        run(board, "kws_int8", tmp_path / "run", index=index)
        output = np.load(tmp_path / "run" / "outputs" / "0.npy")[0]
        assert output.tobytes() == reference.tobytes()


def test_qemu_gives_the_same_trace_tick_for_tick(tmp_path: Path) -> None:
    logs = []
    for name in ("first", "second"):
        run("qemu-mps2-an385", "kws_int8", tmp_path / name, runs=20)
        logs.append((tmp_path / name / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]
