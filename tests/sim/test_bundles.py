"""Bundles of real runs: of boards that work, and of one that crashes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import harness
from tests.conftest import MODELS, CommandResult
from tests.support.debugger import Debugger

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

MODEL = MODELS / "small_int8.pte"


def manifest_of(bundle: Path) -> Any:
    with ZipFile(bundle) as files:
        return json.loads(files.read("manifest.json"))


@pytest.mark.parametrize(
    ("board", "counters"),
    [("native", ""), ("qemu-mps2-an385", ""), ("qemu-riscv32-virt", "cycles,instret")],
)
def test_a_run_says_the_same_again_where_nothing_of_it_is_left(
    board: str, counters: str, etharness: Etharness, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(MODEL, home / "model.pte")
    (home / "budget.toml").write_text(
        "schema = 1\n[[time]]\nevent = 'Method::execute'\nlimit_us = 0\n"
        "[code]\nlimit_ram_bytes = 1\n"
    )
    arguments = ["--board", board, "--model", home / "model.pte", "--runs", "2"]
    arguments += ["--budget", home / "budget.toml", "-o", home / "run"]
    arguments += ["--counters", counters] if counters else []
    ran = etharness("run", *arguments, "--report", tmp_path / "b.zip")
    assert ran.code == 1
    manifest = manifest_of(tmp_path / "b.zip")
    assert not manifest.get("missing")
    assert manifest["model"] == "model/model.pte"
    assert manifest["budget"] == "run/used_budget/budget.toml"
    assert manifest["firmware"].startswith("firmware/")
    shutil.rmtree(home)
    replayed = etharness("replay", tmp_path / "b.zip")
    assert replayed.code == 1
    assert "identical to the verdict of" in replayed.out
    assert "Method::execute" in replayed.out
    assert str(tmp_path) not in replayed.out
    again = etharness("replay", tmp_path / "b.zip", "--report", tmp_path / "again.html")
    assert again.code == 1
    page = (tmp_path / "again.html").read_text()
    assert "Method::execute" in page
    assert "etharness-replay-" not in page, "nobody can look at where it was unpacked"


def test_a_crash_is_told_again(etharness: Etharness, tmp_path: Path) -> None:
    debugger = Debugger(
        *("qemu-mps2-an385", tmp_path, "quantized_linear"),
        stops=4,
        then="set *(short *)$pc = 0xde00",
    )
    with pytest.raises(harness.HarnessError, match="the board restarted") as stopped:
        harness.run(MODEL, board=debugger.board_file, runs=20, output=tmp_path / "run")
    assert stopped.value.exit_code == 4
    harness.load(tmp_path / "run").report(tmp_path / "b.zip")
    replayed = etharness("replay", tmp_path / "b.zip")
    assert replayed.code == 4
    assert "the run failed: RestartedError: qemu-mps2-an385: the board restarted" in replayed.out
    assert "postmortem: HardFault (undefined instruction) in native_call_" in replayed.out
    said = json.loads(etharness("replay", tmp_path / "b.zip", "--json").out)
    assert said["exit_code"] == 4
    assert said["postmortem"]["places"] == {}


def test_a_suggested_budget_without_margin_is_kept_by_the_next_run_under_qemu(
    etharness: Etharness, tmp_path: Path
) -> None:
    arguments = ["--board", "qemu-mps2-an385", "--model", MODEL]
    assert etharness("run", *arguments, "--runs", "2", "-o", tmp_path / "first").code == 0
    budget = tmp_path / "exact.toml"
    suggested = etharness("check", tmp_path / "first", "--suggest", budget, "--margin", "0%")
    assert suggested.code == 0
    assert "limit_ticks" in budget.read_text()
    again = ["run", *arguments, "--runs", "2", "--budget", budget, "-o", tmp_path / "again"]
    assert etharness(*again).code == 0
    tighter = budget.read_text().replace("limit_ticks = ", "limit_ticks = 0", 1)
    budget.write_text(re.sub(r"limit_ticks = 0([\d_]+)", lambda m: _one_less(m[1]), tighter))
    failed = etharness("check", tmp_path / "again", "--budget", budget)
    assert failed.code == 1
    assert "B09 all events in Execute" in failed.out


def _one_less(ticks: str) -> str:
    return f"limit_ticks = {int(ticks.replace('_', '')) - 1}"


def test_references_are_held_against_again(etharness: Etharness, tmp_path: Path) -> None:
    arguments = ["run", "--board", "native", "--model", MODEL]
    assert etharness(*arguments, "-o", tmp_path / "first").code == 0
    reference = tmp_path / "first/outputs/0.npy"
    file = tmp_path / "b.zip"
    again = [*arguments, "--seed", "7", "--reference", reference, "-o", tmp_path / "again"]
    assert etharness(*again, "--report", file).code == 1, "other inputs, another output"
    shutil.rmtree(tmp_path / "again")
    replayed = etharness("replay", file)
    assert replayed.code == 1
    assert "I11" in replayed.out
    assert "identical to the verdict of" in replayed.out


def test_the_history_that_a_run_was_held_against_is_in_its_bundle(
    etharness: Etharness, tmp_path: Path
) -> None:
    store, budget = tmp_path / "history.sqlite", tmp_path / "budget.toml"
    budget.write_text("schema = 1\n[history]\nmin_results = 3\n")
    arguments = ["run", "--board", "native", "--model", MODEL, "--budget", budget]
    arguments += ["--history", store, "-o", tmp_path / "run"]
    for _ in range(3):
        assert etharness(*arguments, "--commit", "aaaa").code == 0
    ran = etharness(*arguments, "--commit", "bbbb", "--baseline", "commit:aaaa", "--json")
    logged = tmp_path / "run/trace.etlog"
    against = ["--history", store, "--baseline", "commit:aaaa"]
    for path, held in ((tmp_path / "run", []), (logged, against)):
        file = tmp_path / "b.zip"
        checked = etharness("check", path, "--budget", budget, *held, "--report", file, "--json")
        assert checked.code == ran.code
        codes = {check["code"] for check in json.loads(checked.out)["checks"]}
        assert any(code.startswith("H") for code in codes)
        replayed = etharness("replay", file, "--json")
        assert replayed.code == ran.code
        said = json.loads(replayed.out)["verdict"]["checks"]
        assert said == json.loads(checked.out)["checks"]
    assert manifest_of(file)["history"] == "history/history.json"
