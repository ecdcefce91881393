"""Every board's default budget holds for what the board can run, on a busy host, too."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness import HarnessError, Run
from tests.conftest import BOARDS, MODELS
from tests.support.examples import sampled
from tests.support.features import every_method, saved_inputs

pytestmark = pytest.mark.sim
SEED = 8
SAMPLE = 3
SMALL_BYTES = 20_000
MOST = "ETHARNESS_EVERY_MODEL" in os.environ
"""Every model on every simulated board, which takes minutes, instead of a few small ones each."""
SIMULATED = [
    name
    for name in BOARDS
    if name.startswith("qemu-")
    and not harness.Board.load(name).links_executorch
    and not harness.Board.load(name).runner
    and name != "qemu-stm32vldiscovery"  # takes no uploads: test_placed_models.py
]
CASES = every_method()


def models_for(board: str) -> list[tuple[str, str]]:
    if MOST:
        return CASES
    small = [case for case in CASES if (MODELS / f"{case[0]}.pte").stat().st_size <= SMALL_BYTES]
    chosen = random.Random(f"{SEED} {board}").sample(small, SAMPLE)
    return sorted({*chosen, ("small_int8", "forward")})


def run(board: str, model: str, method: str, runs: int, directory: Path, **options: bool) -> Run:
    """With inputs that the model takes: random ones may be indexes that a table does not have."""
    paths = saved_inputs(model, method, directory)
    return harness.run(
        MODELS / f"{model}.pte",
        board=board,
        runs=runs,
        output=directory / f"{model}-{method}",
        inputs=paths,
        method=method,
        **options,
    )


def holds(outcome: Run) -> None:
    verdict = outcome.result.verdict
    assert verdict is not None
    assert [check.reason for check in verdict.checks if check.failed] == []
    assert outcome.result.exit_code == 0


@pytest.fixture
def busy() -> Iterator[None]:
    """A process per core, and one more, that do nothing but compute."""
    count = (os.cpu_count() or 1) + 1
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    yield
    for process in others:
        assert process.poll() is None
        process.kill()
        process.wait()


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
@pytest.mark.parametrize(("model", "method"), CASES)
def test_natively_for_every_model(model: str, method: str, stream: bool, tmp_path: Path) -> None:
    holds(run("native", model, method, 3, tmp_path, stream=stream))


@pytest.mark.parametrize("model", ["kws_int8", "small_int8", "ad_f32"])
@pytest.mark.usefixtures("busy")
@pytest.mark.long
def test_natively_on_a_busy_host(model: str, tmp_path: Path) -> None:
    holds(harness.run(MODELS / f"{model}.pte", board="native", runs=20, output=tmp_path / "run"))


@pytest.mark.parametrize("board", sampled(SIMULATED, "qemu-mps2-an385"))
def test_on_simulated_boards(board: str, tmp_path: Path) -> None:
    """For all that they have memory for, and a delegate if it takes one."""
    ran, refused = set(), []
    for model, method in models_for(board):
        try:
            outcome = run(board, model, method, 1, tmp_path)
        except HarnessError as error:
            refused.append((error.exit_code, error.message))
            continue
        holds(outcome)
        ran.add(model)
    assert "small_int8" in ran, f"seed {SEED}"
    known = ("bytes", "no backend")
    assert {code for code, _ in refused} <= {2, 4}
    assert [said for _, said in refused if not any(word in said for word in known)] == []


def test_native_reports_the_stack_that_its_runs_use(tmp_path: Path) -> None:
    """The same each time, so that a change of it is one; a budget may limit it."""
    used = []
    for number, (limit, code) in enumerate([(8_192, 0), (8_192, 0), (256, 1)]):
        budget = tmp_path / "budget.toml"
        budget.write_text(f"schema = 1\n[stack]\nlimit_bytes = {limit}\n")
        directory = tmp_path / str(number)
        outcome = harness.run(
            MODELS / "kws_int8.pte", board="native", runs=3, output=directory, budget=budget
        )
        assert outcome.result.exit_code == code
        assert outcome.result.trace is not None
        assert outcome.result.trace.stack_size == 1 << 20
        used.append(outcome.result.trace.stack_used)
    assert 256 < used[0] == used[1] == used[2] < 8_192
