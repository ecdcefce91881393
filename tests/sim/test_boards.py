"""Every board with the models that fit it: the reference's numbers, the same ticks again."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from tests.conftest import FIXTURES, MODELS
from tests.sim.test_models_on_boards import outputs
from tests.support.boards import INT8_MODELS_THAT_FIT
from tests.support.examples import sampled

pytestmark = pytest.mark.sim
BUDGET = FIXTURES / "simulated_boards.toml"
EVENTS_ON_THE_SMALLEST = 200


@pytest.mark.parametrize(
    ("board", "model"),
    [
        pytest.param(board, model, marks=pytest.mark.long if model == "kws_int8" else ())
        for board, models in INT8_MODELS_THAT_FIT.items()
        for model in models
    ],
)
def test_int8_outputs_are_the_references_bit_for_bit(board: str, model: str) -> None:
    compared = 0
    for output, expected in outputs(board, model):
        assert output.tobytes() == expected.tobytes()
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("board", sampled(INT8_MODELS_THAT_FIT, "qemu-lm3s6965evb"))
def test_a_simulated_board_gives_the_same_trace_tick_for_tick(board: str, tmp_path: Path) -> None:
    model = MODELS / f"{INT8_MODELS_THAT_FIT[board][-1]}.pte"
    logs = []
    for name in ("first", "second"):
        outcome = harness.run(model, board=board, runs=3, output=tmp_path / name, budget=BUDGET)
        assert outcome.result.exit_code == 0
        logs.append((tmp_path / name / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    "board", sampled(["qemu-mps3-an547", "qemu-riscv32-virt"], "qemu-riscv32-virt")
)
def test_float32_runs_within_budget_on_other_kinds_of_core(board: str, tmp_path: Path) -> None:
    outcome = harness.run(
        MODELS / "kws_f32.pte", board=board, runs=1, output=tmp_path / "run", budget=BUDGET
    )
    assert outcome.result.exit_code == 0


def test_sixteen_kib_of_ram_hold_a_network_and_200_events(tmp_path: Path) -> None:
    model = MODELS / "small_int8.pte"
    outcome = harness.run(model, board="qemu-microbit", runs=14, output=tmp_path / "run")
    assert outcome.result.exit_code == 0
    assert (
        sum(operator.count for operator in outcome.operators(block="*")) >= EVENTS_ON_THE_SMALLEST
    )
    verdict = outcome.result.verdict
    assert verdict is not None
    [stack] = [check for check in verdict.checks if check.rule == "peak stack use"]
    summary = outcome.result.trace
    assert summary is not None
    assert 0 < summary.stack_used < summary.stack_size == 2048
    assert stack.measured == 100 * summary.stack_used / summary.stack_size
