"""The budget that judged a run is part of its directory, so a run is judged alike elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

Command = Callable[..., Any]

IMPOSSIBLE = '[[time]]\nid = "speed"\nevent = "Method::execute"\nlimit_us = 0.001\n'


@pytest.fixture
def run(etharness: Command, tmp_path: Path) -> Path:
    """A run that fails the limit of a budget which another budget extends."""
    budgets = tmp_path / "budgets"
    (budgets / "boards").mkdir(parents=True)
    (budgets / "common.toml").write_text(f"schema = 1\n{IMPOSSIBLE}")
    own = budgets / "boards" / "native.toml"
    own.write_text('schema = 1\nextends = "../common.toml"\n')
    done = etharness(
        *("run", "--board", "native", "--model", "small_int8", "--runs", "2"),
        *("--budget", own, "-o", tmp_path / "run"),
    )
    assert done.code == 1
    return tmp_path / "run"


def checks(etharness: Command, path: Path) -> tuple[int, list[dict[str, Any]]]:
    done = etharness("check", path, "--json")
    return done.code, json.loads(done.out)["checks"]


def test_a_run_is_judged_alike_where_its_budget_is_gone(
    etharness: Command, run: Path, tmp_path: Path
) -> None:
    before = checks(etharness, run)
    assert before[0] == 1
    shutil.rmtree(tmp_path / "budgets")
    moved = tmp_path / "elsewhere"
    run.rename(moved)
    assert checks(etharness, moved) == before
    assert checks(etharness, moved / "trace.etlog") == before
    assert etharness("report", moved, "--output", tmp_path / "report.md").code == 1
    assert "0.001" in (tmp_path / "report.md").read_text("utf-8")
    assert not harness.load(moved).verdict.passed


@pytest.mark.extension("bundles")
def test_a_bundle_is_replayed_and_checked_elsewhere(
    etharness: Command, run: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "run.zip"
    assert etharness("report", run, "--output", bundle).code == 1
    before = checks(etharness, run)
    shutil.rmtree(tmp_path / "budgets")
    shutil.rmtree(run)
    unpacked = tmp_path / "unpacked"
    replayed = etharness("replay", bundle, "--out", unpacked)
    assert "identical to the verdict" in replayed.out
    assert checks(etharness, unpacked / "run") == before


def test_a_changed_copy_is_damage(etharness: Command, run: Path) -> None:
    [common] = run.rglob("common.toml")
    common.write_text("schema = 1\n")
    done = etharness("check", run)
    assert done.code == 2
    assert "common.toml: damaged" in done.err


def test_a_given_budget_replaces_it(etharness: Command, run: Path, tmp_path: Path) -> None:
    lenient = tmp_path / "lenient.toml"
    lenient.write_text("schema = 1\n")
    assert etharness("check", run, "--budget", lenient).code == 0
    assert etharness("check", run).code == 1


def test_the_packaged_budget_is_part_of_a_run(etharness: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert etharness("run", "--board", "native", "--model", "small_int8", "-o", out).code == 0
    recorded = json.loads((out / "result.json").read_text("utf-8"))
    copy = recorded["verdict"]["budget_copy"]
    assert (out / copy).is_file()
    assert copy in recorded["files"]
    # A second run into the directory replaces it.
    other = tmp_path / "other.toml"
    other.write_text("schema = 1\n")
    again = ("run", "--board", "native", "--model", "small_int8", "-o", out, "--budget", other)
    assert etharness(*again).code == 0
    assert [file.name for file in (out / copy).parent.iterdir()] == ["other.toml"]
