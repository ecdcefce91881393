"""Defaults of a project: [tool.etharness] of the nearest pyproject.toml that has it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import UsageError, packaged_models
from harness.config.project import default_history
from harness.runs.request import request_of
from tests.conftest import MODELS, ROOT, CommandResult
from tests.support.inner_pytest import inner

__all__ = ["inner"]

pytest_plugins = ["pytester"]

TABLE = """
[tool.etharness]
board = "native"
models = "nets"
budget = "budgets/small.toml"
history = "results.sqlite"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a folder below it, which is the current one."""
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\n{TABLE}')
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "nets").mkdir()
    shutil.copy(MODELS / "small_int8.pte", tmp_path / "nets" / "net.pte")
    # A package in it without the table is passed over.
    (tmp_path / "src" / "pyproject.toml").write_text('[project]\nname = "y"\n')
    monkeypatch.chdir(tmp_path / "src" / "deep")
    monkeypatch.delenv("ETHARNESS_HISTORY", raising=False)
    return tmp_path


def test_the_nearest_table_counts_and_its_paths_are_relative_to_its_file(project: Path) -> None:
    shutil.copy(ROOT / "boards/native.toml", project / "src/mine.toml")
    text = '[tool.etharness]\nboard = "mine.toml"\nhistory = "postgresql://lab/h"\n'
    (project / "src" / "pyproject.toml").write_text(text)
    request = request_of("net", None, {})
    assert (request.board, str(request.history)) == (
        str(project / "src/mine.toml"),
        "postgresql://lab/h",
    )
    assert request.budget is None
    assert request.model == Path.cwd() / "net"  # the other table names the models


def test_no_table_means_no_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = request_of("kws_int8", "native", {})
    assert (request.budget, request.history) == (None, None)
    with pytest.raises(UsageError, match="board"):
        request_of("kws_int8", None, {})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            'board = "native"\nmodel = "nets"',
            "3:1: unknown key 'model' in [tool.etharness]",
            "did you mean 'models'? known keys: board, budget, history, models",
        ),
        ("board = 3", "2:1: tool.etharness.board must be a string, not 3", ""),
        ('budget = ""', "2:1: `budget` is empty", ""),
    ],
)
def test_what_is_wrong_is_named_by_file_line_and_key(
    tmp_path: Path, text: str, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.etharness]\n{text}\n")
    with pytest.raises(UsageError) as caught:
        request_of("kws_int8", "native", {})
    assert caught.value.message == f"{file}:{message}"
    assert caught.value.hint == hint


def test_it_must_be_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\netharness = 1\n")
    with pytest.raises(UsageError, match=r"pyproject.toml:2:1: `tool.etharness` is not a table"):
        request_of("kws_int8", "native", {})


def test_models_are_files_then_those_of_the_project_then_packaged(project: Path) -> None:
    def found(name: str) -> Path:
        return request_of(name, "native", {}).model

    for name in ("net", "net.pte"):
        assert found(name) == project / "nets" / "net.pte"
    assert found("kws_int8") == packaged_models()["kws_int8"]
    Path("net.pte").write_bytes(b"")
    assert found("net.pte") == Path.cwd() / "net.pte"
    assert found("nets/other.pte") == Path.cwd() / "nets/other.pte"


def test_a_request_is_filled_in_and_arguments_win(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of("net", None, {})
    assert (request.board, request.model) == ("native", project / "nets" / "net.pte")
    assert request.budget == project / "budgets" / "small.toml"
    assert str(request.history) == str(project / "results.sqlite")
    assert request.output == Path.cwd() / "out" / "net-native-1"
    monkeypatch.setenv("ETHARNESS_HISTORY", "/elsewhere.sqlite")
    request = request_of("net", "qemu-microbit", {"budget": "b.toml"})
    assert (request.board, request.budget) == ("qemu-microbit", Path.cwd() / "b.toml")
    assert str(request.history) == str(default_history()) == "/elsewhere.sqlite"
    request = request_of("net", None, {"history": "mine.sqlite"})
    assert str(request.history) == str(Path.cwd() / "mine.sqlite")


def test_the_history_is_the_projects_for_every_command(project: Path) -> None:
    assert str(default_history()) == str(project / "results.sqlite")


@pytest.mark.sim
def test_run_check_and_report_take_them(
    project: Path, etharness: Callable[..., CommandResult]
) -> None:
    (project / "budgets").mkdir()
    budget = project / "budgets" / "small.toml"
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 60_000_000\n')
    done = etharness("run", "--model", "net", "-o", "run")
    assert done.code == 0, done.err
    run = harness.load("run")
    assert run.result is not None
    assert run.result.verdict is not None
    assert (run.board, run.model, run.result.verdict.budget) == ("native", "net.pte", str(budget))
    assert (project / "results.sqlite").is_file()
    # A trace alone is checked against the project's budget, a run against its own.
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 1\n')
    shutil.copy("run/trace.etdp", "alone.etdp")
    assert etharness("check", "alone.etdp").code == 1
    assert etharness("report", "alone.etdp", "-o", "r.json").code == 1
    assert not harness.load("alone.etdp").passed
    assert etharness("check", "run").code == etharness("check", "run/trace.etdp").code == 0
    own = project / "own.toml"
    own.write_text("schema = 1\n")
    assert etharness("check", "alone.etdp", "--budget", own).code == 0


def test_tests_run_on_the_board_of_the_project(inner: pytest.Pytester) -> None:
    inner.makepyprojecttoml('[tool.etharness]\nboard = "qemu-microbit"\nmodels = "nets"\n')
    inner.mkdir("nets").joinpath("mine.pte").touch()
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness(model="mine")
        def test_one(etharness_board): ...
        @pytest.mark.etharness(board="native")
        def test_two(etharness_board): ...
    """)
    result = inner.runpytest("--collect-only", "-q")
    names = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert names == ["test_one[qemu-microbit-mine]", "test_two[native]"]
