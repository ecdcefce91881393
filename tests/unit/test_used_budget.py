"""Where the budget of a recorded verdict is found, of results of older versions, too."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

import harness
from harness import DamagedError, Run, UsageError, VerdictRecord, write_ed00
from harness.runs.directory import RunDirectory
from tests.support.reported import FINISHED, SMALL

STRICT = """schema = 1
[[time]]
event = "relu"
limit_us = 0.001
"""


def run_of(folder: Path, budget: str, copy: str = "") -> Run:
    """Load a run whose verdict names a budget, and its copy."""
    directory = RunDirectory.create(folder / "run")
    directory.write("trace.etdp", write_ed00(SMALL))
    verdict = VerdictRecord(passed=True, budget=budget, checks=(), budget_copy=copy)
    directory.finish(replace(FINISHED, runs_requested=1, runs_completed=1, verdict=verdict))
    return harness.load(folder / "run")


def test_an_older_run_reads_its_budget_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "budget.toml"
    file.write_text(STRICT)
    assert not run_of(tmp_path, str(file)).passed
    assert run_of(tmp_path, "").passed


def test_the_packaged_budget_replaces_one_of_an_environment_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = "/gone/lib/python3.11/site-packages/harness/_data/boards/budgets/default.toml"
    with caplog.at_level(logging.WARNING):
        assert run_of(tmp_path, gone).passed
    assert "the packaged budget of this version is used" in caplog.text


def test_a_budget_that_is_gone_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is gone: /gone/budget\.toml") as error:
        _ = run_of(tmp_path, "/gone/budget.toml").passed
    assert "--budget FILE" in error.value.hint


@pytest.mark.parametrize("copy", ["used_budget/none.toml", "../budget.toml", "/etc/x.toml"])
def test_a_copy_that_is_no_file_of_the_run_is_damage(tmp_path: Path, copy: str) -> None:
    (tmp_path / "budget.toml").write_text("schema = 1\n")
    with pytest.raises(DamagedError, match="is not a file of the run"):
        _ = run_of(tmp_path, "", copy).passed
