"""Where the budget of a recorded verdict is found, of results of older versions, too."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from harness import DamagedError, UsageError
from harness.runs.evaluation import find_used_budget


def test_an_older_run_reads_its_budget_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "budget.toml"
    file.write_text("schema = 1\n")
    assert find_used_budget(tmp_path, str(file), "") == file
    assert find_used_budget(tmp_path, "", "") is None


def test_the_packaged_budget_replaces_one_of_an_environment_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = "/gone/lib/python3.11/site-packages/harness/_data/boards/budgets/default.toml"
    with caplog.at_level(logging.WARNING):
        found = find_used_budget(tmp_path, gone, "")
    assert found is not None
    assert found.name == "default.toml"
    assert found.is_file()
    assert "the packaged budget of this version is used" in caplog.text


def test_a_budget_that_is_gone_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is gone: /gone/budget\.toml") as error:
        find_used_budget(tmp_path, "/gone/budget.toml", "")
    assert "--budget FILE" in error.value.hint


@pytest.mark.parametrize("copy", ["used_budget/none.toml", "../budget.toml", "/etc/x.toml"])
def test_a_copy_that_is_no_file_of_the_run_is_damage(tmp_path: Path, copy: str) -> None:
    (tmp_path.parent / "budget.toml").write_text("schema = 1\n")
    with pytest.raises(DamagedError, match="is not a file of the run"):
        find_used_budget(tmp_path, "", copy)
