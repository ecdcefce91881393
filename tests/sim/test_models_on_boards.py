"""All models natively and emulated: ExecuTorch's events, PyTorch's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Kind, Region, Trace, read_ed00, tensor_from_bytes, tensor_to_bytes
from harness.testing import State
from tests.conftest import FIXTURES, MODELS
from tests.support.boards import native_board, started
from tests.support.examples import sampled

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]
EMULATED = "qemu-mps2-an385"
BOARDS = ["native", EMULATED]
# The networks in float32 run on another kind of core than those in int8.
EMULATED_FOR_LARGE = "qemu-riscv32-virt"
NETWORKS = ["kws", "ad", "ic", "vww"]
TOLERANCE = 1e-4
on_boards = pytest.mark.parametrize("board", BOARDS)
of_networks = pytest.mark.parametrize("network", NETWORKS)


def is_placed(board: str, network: str) -> bool:
    """Whether a network is placed in the image: QEMU's UARTs take up to 30 s of CPU per MB."""
    return board != "native" and network != "kws"


def inputs_of(board: str, network: str) -> int:
    """How many inputs are compared: under QEMU one of a larger network takes seconds."""
    if network == "kws":
        return 10
    return 3 if board == "native" else 1


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


def outputs(
    board: str, model: str, count: int | None = None, *, placed: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What the board computes for the first inputs of the model's fixture, and what it should.

    Fixtures of a single image or row have outputs without the dimension of the batch.
    """
    fixture = np.load(FIXTURES / f"{model}.npz")
    # With time enough that a busy host is not taken for a lossy line.
    path = MODELS / f"{model}.pte"
    with started(board, path if placed else None, deadline_s=60) as bench:
        info = bench.session.load_model(path.read_bytes())
        assert bench.session.statistics.model_bytes == (0 if placed else path.stat().st_size)
        # A machine that starts slowly is greeted again, and answers each greeting.
        greetings = bench.session.statistics.stale_answers
        pairs = zip(fixture["inputs"][:count], fixture["outputs"][:count], strict=True)
        for array, expected in pairs:
            bench.session.set_input(0, tensor_to_bytes(array, info.inputs[0]))
            bench.session.run(1, timeout_s=100)
            output = tensor_from_bytes(bench.session.read(Region.OUTPUT), info.outputs[0])
            assert output.shape in (expected.shape, (1, *expected.shape))
            yield output.reshape(expected.shape), expected
        assert bench.session.status().state is State.DONE
        assert bench.session.statistics.loss == 0
        assert bench.session.statistics.stale_answers == greetings


@pytest.mark.parametrize(
    ("network", "board"),
    [
        *((network, "native") for network in NETWORKS),
        ("kws", EMULATED),
        *(
            pytest.param(network, EMULATED_FOR_LARGE, marks=pytest.mark.long)
            for network in NETWORKS[1:]
        ),
    ],
)
def test_float32_logs_what_executorch_logs_and_computes_what_pytorch_does(
    board: str, network: str, tmp_path: Path
) -> None:
    """Together, because under QEMU an execution takes seconds."""
    recorded = json.loads((FIXTURES / f"{network}_f32_signatures.json").read_text())
    fixture = np.load(FIXTURES / f"{network}_f32.npz")
    model, runs = MODELS / f"{network}_f32.pte", len(recorded) - 1 if board == "native" else 1
    np.save(tmp_path / "input.npy", fixture["inputs"][0])

    outcome = harness.run(
        model,
        board=board,
        runs=runs,
        output=tmp_path / "run",
        inputs=(tmp_path / "input.npy",),
        placed=is_placed(board, network),
    )

    assert signatures(outcome.trace) == recorded[: 1 + runs]
    etdump = read_ed00((tmp_path / "run/trace.etdp").read_bytes())
    assert signatures(etdump) == recorded[: 1 + runs]
    output = np.load(tmp_path / "run/outputs/0.npy")
    np.testing.assert_allclose(output[0], fixture["outputs"][0], rtol=0, atol=TOLERANCE)


@of_networks
def test_float32_outputs_for_more_inputs_are_pytorchs(network: str) -> None:
    compared, count = 0, inputs_of("native", network)
    for output, expected in outputs("native", f"{network}_f32", count):
        np.testing.assert_allclose(output, expected, rtol=0, atol=TOLERANCE)
        compared += 1
    assert compared == count


@on_boards
@pytest.mark.parametrize("network", sampled(NETWORKS, "kws", "ad"))
def test_int8_outputs_are_the_cortex_m_references_bit_for_bit(board: str, network: str) -> None:
    compared, count = 0, inputs_of(board, network)
    placed = is_placed(board, network)
    for output, expected in outputs(board, f"{network}_int8", count, placed=placed):
        assert output.tobytes() == expected.tobytes()
        compared += 1
    assert compared == count


@on_boards
@pytest.mark.parametrize("model", ["one_m0", "rows_m55", "picture_m4", "picture_m55"])
def test_exports_for_other_cores_run_everywhere(board: str, model: str) -> None:
    """What is exported for a core differs in its kernels' arguments, not in its numbers."""
    compared = 0
    for output, expected in outputs(board, model):
        assert output.tobytes() == expected.tobytes()
        compared += 1
    assert compared == 4


@pytest.mark.parametrize("model", ["kws_int8", "ic_int8"])
def test_another_compiler_changes_no_bit(model: str, tmp_path: Path) -> None:
    compared = 0
    for output, expected in outputs(str(native_board(tmp_path, "native-clang")), model, 3):
        assert output.tobytes() == expected.tobytes()
        compared += 1
    assert compared == 3


@pytest.mark.long
def test_qemu_gives_the_same_trace_tick_for_tick(tmp_path: Path) -> None:
    logs = []
    for name in ("first", "second"):
        harness.run(MODELS / "kws_int8.pte", board=EMULATED, runs=20, output=tmp_path / name)
        logs.append((tmp_path / name / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]
