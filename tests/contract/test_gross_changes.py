"""A change that no noise explains fails, from the first earlier result on."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

MODELS = Path(__file__).parents[2] / "firmware_stub" / "models"
Command = Callable[..., Any]

NOISY_NS, SLOW_NS = "1300", "20000"
"""Time between two readings of the clock: with noise, and of a slow model; it is 1000 ns."""


def model_named(folder: Path, content: bytes) -> Path:
    """Write a model; a history knows it by its file name."""
    folder.mkdir(exist_ok=True)
    file = folder / "net.pte"
    file.write_bytes(content)
    return file


def run(etharness: Command, tmp_path: Path, name: str, model: Path, board: str) -> Any:
    return etharness(
        *("run", "--board", board, "--model", model, "--runs", "5", "-o", tmp_path / name),
        *("--history", tmp_path / "history.sqlite", "--baseline", "last:20"),
        *("--commit", f"{name}00", "--json"),
        *("--report", tmp_path / f"{name}.md"),
    )


def failed_checks(out: str) -> list[dict[str, Any]]:
    checks = json.loads(out)["verdict"]["checks"]
    return [one for one in checks if not one["passed"] and one["severity"] == "error"]


def judged(etharness: Command, before: Path, after: Path) -> str:
    """Return what a comparison of two runs says of an execution, and check that it shows it."""
    document = json.loads(etharness("compare", before, after, "--json").out)
    operators = {one["name"]: one for one in document["comparison"]["operators"]}
    judgement = str(operators["Method::execute"]["judgement"])
    shown = etharness("compare", before, after, "-v").out
    word = {"regression": "slower", "improvement": "faster", "same": "no detectable change"}
    assert word[judgement] in shown
    assert any(one.judgement == judgement for one in harness.load(after).compare(before).operators)
    return judgement


@pytest.mark.extension("history")
@pytest.mark.long
def test_a_board_with_noise_fails_on_a_swapped_model(
    etharness: Command, tmp_path: Path, steady_clock: pytest.MonkeyPatch
) -> None:
    """The native board with a clock of chosen times, so that no load of the host adds to them."""
    small = model_named(tmp_path / "small", (MODELS / "small_int8.pte").read_bytes())
    large = model_named(tmp_path / "large", (MODELS / "kws_int8.pte").read_bytes())
    assert run(etharness, tmp_path, "first", small, "native").code == 0
    steady_clock.setenv("STEADY_CLOCK_NS", SLOW_NS)
    swapped = run(etharness, tmp_path, "swapped", large, "native")
    assert swapped.code == 1
    slower = [one for one in failed_checks(swapped.out) if one["code"] == "H01"]
    assert any(one["subject"].startswith("Method::execute") for one in slower)
    assert all("no noise explains" in one["reason"] for one in slower)
    comment = (tmp_path / "swapped.md").read_text("utf-8")
    assert "| slower |" in comment
    assert etharness("check", tmp_path / "swapped").code == 1
    assert judged(etharness, tmp_path / "first", tmp_path / "swapped") == "regression"
    assert judged(etharness, tmp_path / "swapped", tmp_path / "first") == "improvement"
    # What failed is no baseline, and the same change fails again.
    assert run(etharness, tmp_path, "again", large, "native").code == 1
    steady_clock.setenv("STEADY_CLOCK_NS", NOISY_NS)
    same = run(etharness, tmp_path, "same", small, "native")
    assert same.code == 0
    table, history = tmp_path / "table.csv", tmp_path / "history.sqlite"
    assert etharness("history", "export", "-o", table, "--history", history).code == 0
    with table.open() as lines:
        assert {row["emulated_time"].lower() for row in csv.DictReader(lines)} == {"false"}


@pytest.mark.long
def test_a_gross_improvement_passes(
    etharness: Command, tmp_path: Path, steady_clock: pytest.MonkeyPatch
) -> None:
    small = model_named(tmp_path / "small", (MODELS / "small_int8.pte").read_bytes())
    large = model_named(tmp_path / "large", (MODELS / "kws_int8.pte").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEADY_CLOCK_NS", SLOW_NS)
        run(etharness, tmp_path, "first", large, "native")
    swapped = run(etharness, tmp_path, "swapped", small, "native")
    assert swapped.code == 0
    assert "| faster |" in (tmp_path / "swapped.md").read_text("utf-8")


@pytest.mark.sim
@pytest.mark.long
def test_an_emulated_clock_fails_beyond_the_limits(etharness: Command, tmp_path: Path) -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    whole = (MODELS / "functions.pte").read_bytes()
    slow = model_named(tmp_path / "slow", whole)
    fast = model_named(tmp_path / "fast", whole.replace(b"aten::abs", b"aten::sin"))
    board = "qemu-mps2-an385"
    assert run(etharness, tmp_path, "first", fast, board).code == 0
    same = run(etharness, tmp_path, "same", fast, board)
    assert same.code == 0
    codes = {one["code"]: one for one in json.loads(same.out)["verdict"]["checks"]}
    assert "no detectable change" in (tmp_path / "same.md").read_text("utf-8")
    assert "H06" not in codes
    # Other inputs reach the operators behind, which takes less than half again as long.
    slower = run(etharness, tmp_path, "slower", slow, board)
    assert slower.code == 1
    assert any(
        one["code"] == "H01" and one["subject"].startswith("Method::execute")
        for one in failed_checks(slower.out)
    )
    assert judged(etharness, tmp_path / "first", tmp_path / "slower") == "regression"
    assert judged(etharness, tmp_path / "first", tmp_path / "same") == "same"
    assert "| slower |" in (tmp_path / "slower.md").read_text("utf-8")
