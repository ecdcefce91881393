"""A model can be given a name, by which results, budgets and histories know it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Etharness = Callable[..., Any]

MODELS = Path(__file__).parents[2] / "firmware_stub/models"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two models of one file name."""
    monkeypatch.chdir(tmp_path)
    for name, source in (("old", "small_int8.pte"), ("new", "functions.pte")):
        (tmp_path / name).mkdir()
        shutil.copy(MODELS / source, tmp_path / name / "m.pte")
    shutil.copy(MODELS / "small_int8.pte", tmp_path / "export_2.pte")
    return tmp_path


@pytest.mark.extension("history")
def test_a_series_goes_by_the_name_of_its_model(folder: Path, etharness: Etharness) -> None:
    store = ("--history", "runs.sqlite")
    first = ("run", "--board", "native", "--model", "old/m.pte", "--name", "kws", *store)
    assert etharness(*first, "-o", "a").code == 0
    assert (
        etharness("run", "--board", "native", "--model", "old/m.pte", "-o", "b", *store).code == 0
    )
    listed = etharness("history", "list", *store).out.splitlines()
    assert sum(" kws " in line for line in listed) == 1
    assert sum(" m.pte " in line for line in listed) == 1

    again = ("run", "--board", "native", "--model", "export_2.pte", *store, "--baseline", "last:1")
    new = etharness(*again, "-o", "c")
    assert "no baseline yet" in new.out
    renamed = etharness(*again, "--name", "kws", "-o", "d")
    assert "no baseline yet" not in renamed.out
    assert "kws on native" in renamed.out
    model = json.loads(Path("d/result.json").read_text())["model"]
    assert (model["name"], model["file"]) == ("kws", "export_2.pte")


def test_a_budget_selects_a_model_by_its_name(folder: Path, etharness: Etharness) -> None:
    limit = '[[for.time]]\nid = "all"\nevent = "Method::execute"\nlimit_ms = 0.000001\n'
    Path("b.toml").write_text(f'schema = 1\n[[for]]\nmodel = ["kws"]\n{limit}')
    run = ("run", "--board", "native", "--model", "old/m.pte", "--budget", "b.toml", "-o")
    assert etharness(*run, "a").code == 0
    assert etharness(*run, "b", "--name", "kws").code == 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "two words", "new\nline"])
def test_a_name_is_a_word(folder: Path, etharness: Etharness, name: str) -> None:
    run = etharness("run", "--board", "native", "--model", "old/m.pte", "--name", name, "-o", "a")
    assert run.code == 2
    assert f"invalid name of a model: {name!r}" in run.err
    assert not Path("a").exists()


PLAN = """
schema = 1
output = "night"
[[board]]
board = "native"
count = 1
[[model]]
file = "old/m.pte"
[[model]]
file = "new/m.pte"
"""


@pytest.mark.extension("lab")
def test_models_of_one_file_name_need_names_in_a_plan(folder: Path, etharness: Etharness) -> None:
    Path("plan.toml").write_text(PLAN)
    same = etharness("nightly", "plan.toml")
    assert same.code == 2
    assert "duplicate model 'm'" in same.err
    Path("plan.toml").write_text(f'{PLAN}[run]\nname = "functions"\n')
    common = etharness("nightly", "plan.toml")
    assert common.code == 2
    assert "[run] cannot name several models" in common.err


@pytest.mark.extension("lab")
@pytest.mark.long
def test_a_night_runs_models_by_their_names(folder: Path, etharness: Etharness) -> None:
    Path("plan.toml").write_text(f'{PLAN}name = "functions"\n')
    assert etharness("nightly", "plan.toml").code == 0
    results = [json.loads(file.read_text()) for file in Path("night").rglob("result.json")]
    assert sorted(run["model"].get("name", "") for run in results) == ["", "functions"]
