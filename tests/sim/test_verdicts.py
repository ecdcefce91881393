"""Runs held against a history: what became slower is found, and by how much."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CommandResult
from tests.support.sixty import sixty

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]

BUDGET = """schema = 1
[history]
min_results = 3
"""


@pytest.mark.long
def test_one_slower_operator_of_a_simulated_board_is_found(
    etharness: Etharness, tmp_path: Path
) -> None:
    """A simulated board has no noise: three results are enough, and a tick is a change."""
    budget = tmp_path / "budget.toml"
    budget.write_text(BUDGET)
    store = str(tmp_path / "history.sqlite")

    def run(commit: str, slower: int | None, *more: str) -> CommandResult:
        model = tmp_path / commit / "net.pte"
        model.parent.mkdir(exist_ok=True)
        model.write_bytes(sixty(slower, operators=6))
        return etharness(
            *("run", "--board", "qemu-mps2-an386", "--model", model, "--budget", budget),
            *("-o", tmp_path / "out", "--history", store, "--commit", commit, *more),
        )

    assert [run("aaaa", None).code for _ in range(3)] == [0, 0, 0]
    same = run("bbbb", None, "--baseline", "commit:aaaa")
    assert same.code == 0, same.err
    assert "same as commit aaaa: " in same.out
    slower = run("cccc", 3, "--baseline", "commit:aaaa")
    assert slower.code == 1, slower.err
    [reason] = [line for line in slower.out.splitlines() if line.startswith("failed: H01")]
    assert "instruction 3" in reason
    assert "not measured on other units" in reason

    out = tmp_path / "out"
    kept = json.loads((out / "history.json").read_text())
    assert [kept["results"][place]["commit"] for place in kept["baseline"]] == ["aaaa"] * 3
    Path(store).unlink()  # what was judged by is in the directory
    again = etharness("check", out)
    assert (again.code, again.out.splitlines()[-2:]) == (1, slower.out.splitlines()[-2:])


def test_a_history_needs_a_result(etharness: Etharness, tmp_path: Path) -> None:
    file = Path(__file__).parents[1] / "fixtures/kws_f32_executorch.etdp"
    code, _, err = etharness("check", file, "--history", str(tmp_path / "h.sqlite"))
    assert code == 2
    assert "has no result to compare with a history" in err


def test_a_baseline_that_is_not_there_is_said_before_anything_runs(
    etharness: Etharness, tmp_path: Path
) -> None:
    model = tmp_path / "net.pte"
    model.write_bytes(sixty(operators=3))
    code, _, err = etharness(
        *("run", "--board", "native", "--model", model, "-o", tmp_path / "out"),
        *("--history", str(tmp_path / "none.sqlite"), "--baseline", "name:v1"),
    )
    assert code == 2
    assert "none.sqlite" in err
    assert not (tmp_path / "out").exists()
