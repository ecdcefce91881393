"""Every command that takes paths does the same with relative ones, from any working folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

BUDGET = """schema = 1
[[time]]
event = "Method::execute"
limit_us = 1e9
"""
CALLS = {
    "budget": ("budget", "@b.toml"),
    "build": ("build", "--board", "native", "-o", "@new/fw"),
    "check": ("check", "@run", "--budget", "@b.toml", "--report", "@new/c.md", "-v"),
    "compare": ("compare", "@run", "@run2"),
    "decode": ("decode", "@run/trace.etdp", "--debug-buffer", "@run/trace.etdp"),
    "decode with a model": ("decode", "@run", "--model", "@m.pte", "--tree"),
    "export": ("export", "@run", "-f", "csv", "-o", "@new/t.csv"),
    "export of outputs": ("export", "@run", "-f", "perfetto", "-o", "@new/t.pftrace"),
    "history add": ("history", "add", "@run", "@run2", "--history", "@new/h.sqlite"),
    "history list": ("history", "list", "--history", "@h.sqlite"),
    "history show": ("history", "show", "--history", "@h.sqlite"),
    "nightly": ("nightly", "@plan.toml", "--units", "@units.toml", "--dry-run"),
    "postmortem": ("postmortem", "@run"),
    "replay": ("replay", "@r.zip", "--out", "@new/r"),
    "report": ("report", "@run", "@run2", "-o", "@new/r.md"),
    "lab units": ("lab", "units", "--units", "@units.toml"),
    "lab who": ("lab", "who", "u", "--units", "@units.toml"),
}
"""Commands that come to the same each time; ``@`` stands before a path."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that these commands read."""
    place = tmp_path_factory.mktemp("lab")
    shutil.copy(MODELS / "small_int8.pte", place / "m.pte")
    (place / "b.toml").write_text(BUDGET)
    (place / "units.toml").write_text('schema = 1\n[[unit]]\nid = "u"\nboard = "native"\n')
    (place / "plan.toml").write_text(
        'schema = 1\n[[board]]\nboard = "native"\nunits = ["u"]\n[[model]]\nfile = "m.pte"\n'
    )
    for name in ("run", "run2"):
        harness.run(place / "m.pte", board="native", runs=2, output=place / name)
    (place / "empty").mkdir()
    return place


@pytest.fixture(autouse=True)
def prepared(place: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_HISTORY", "")
    if not (place / "h.sqlite").exists():
        for words in (
            ("history", "add", place / "run", "--history", place / "h.sqlite"),
            ("report", place / "run", "-o", place / "r.zip"),
        ):
            assert etharness(*words).code == 0


@pytest.mark.parametrize("name", CALLS)
def test_a_relative_path_is_as_good(
    name: str, place: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place / "empty")
    answers = []
    for to in ("../", f"{place}/"):
        shutil.rmtree(place / "new", ignore_errors=True)
        (place / "new").mkdir()
        words = [to + word[1:] if word.startswith("@") else word for word in CALLS[name]]
        answers.append(etharness(*words))
        # Nothing was put where we are, nor below anything else.
        assert list((place / "empty").iterdir()) == []
        assert len(list((place / "new").iterdir())) == sum("@new" in word for word in CALLS[name])
    relative, absolute = answers
    assert relative.code == absolute.code
    assert relative.err == absolute.err
    # There is no postmortem in a run that went well; which is said with its name.
    assert relative.code == (2 if name == "postmortem" else 0), relative.err
    assert relative.out == absolute.out


def test_a_run_in_a_folder_is_judged_again_from_another(
    place: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the budget that it was judged by, which it records."""
    monkeypatch.chdir(place)
    words = ("--model", "m.pte", "--budget", "b.toml", "-o", "judged")
    result = etharness("run", "--board", "native", *words)
    assert result.code == 0, result.err
    assert re.search(r"^kept in +judged$", result.out, re.MULTILINE)
    recorded = json.loads((place / "judged/result.json").read_text())
    assert recorded["verdict"]["budget"] == str(place / "b.toml")
    assert recorded["model"]["file"] == "m.pte"
    monkeypatch.chdir(tmp_path)
    again = etharness("check", place / "judged", "--json")
    assert again.code == 0, again.err
