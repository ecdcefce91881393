"""``etharness history``: run directories in, results and series out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Failure, UsageError, open_store
from harness.config.project import default_history
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.results import made, run_directory, unmet

Etharness = Callable[..., CommandResult]


@pytest.fixture
def history(tmp_path: Path, etharness: Etharness) -> Callable[..., CommandResult]:
    """Call ``etharness history COMMAND`` on a file of this test."""

    def call(*arguments: str | Path) -> CommandResult:
        return etharness("history", *arguments, "--history", tmp_path / "h.sqlite")

    return call


def runs(folder: Path, count: int, **facts: Any) -> None:
    for number in range(count):
        started = f"2026-11-21T00:00:{number:02}+00:00"
        item = made(f"r{number}", started_utc=started, commit=f"c0ffee{number}", **facts)
        run_directory(folder / f"run{number}", item, {"a": [100 + number], "OPERATOR_CALL": [500]})


def test_directories_are_found_and_added_once(tmp_path: Path, history: Any) -> None:
    runs(tmp_path / "deep/er", 2)
    failed = made("failed", failure=Failure("TargetError", "gone", ""), exit_code=4)
    run_directory(tmp_path / "deep/failed", failed)
    damaged = run_directory(tmp_path / "deep/damaged", made("damaged"), {"a": [1]})
    (damaged / "trace.etlog").write_bytes(b"no log")
    (tmp_path / "empty").mkdir()
    code, out, _ = history("add", tmp_path / "deep", tmp_path / "empty", "--json")
    assert code == 2
    found = {Path(item["path"]).name: item for item in document("history-add", out)}
    assert {name: item["state"] for name, item in found.items()} == {
        **{"run0": "added", "run1": "added", "failed": "added"},
        **{"damaged": "refused", "empty": "refused"},
    }
    assert found["failed"]["reason"] == "the run has no trace"
    assert "is not a run directory" in found["empty"]["reason"]
    again = history("add", tmp_path / "deep/er", tmp_path / "deep/failed")
    assert again.code == 0
    assert again.out.splitlines()[-1].endswith(": 3 there already")


def test_a_result_from_before_ids_is_the_same_each_time(tmp_path: Path, history: Any) -> None:
    item = made("x", checks=(unmet(),))
    directory = run_directory(tmp_path / "old", item, {"a": [3]}, digests=False)
    old = json.loads((directory / "result.json").read_text())
    for key in ("id", "unit", "commit", "session", "image"):
        del old[key]
    for key in ("code", "severity", "source"):
        del old["verdict"]["checks"][0][key]
    (directory / "result.json").write_text(json.dumps(old))
    assert history("add", directory).out.endswith(": 1 added\n")
    assert history("add", directory).out.endswith(": 1 there already\n")
    [entry] = document("history-list", history("list", "--json").out)
    assert entry["provenance"]["unit"] == "native"
    assert entry["provenance"]["session"] == entry["provenance"]["id"]
    assert (entry["passed"], entry["failed"]) == (
        False,
        {"I15": 1},
    )  # without digests it is checked


def test_results_are_listed(tmp_path: Path, history: Any) -> None:
    runs(tmp_path, 3)
    run_directory(tmp_path / "red", made("red", checks=(unmet(),), unit="u\x1b[2J"), {"a": [1]})
    history("add", tmp_path)
    code, out, _ = history("list")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 2 + 4 + 2
    assert "FAIL: B01" in out
    assert "u\\x1b[2J" in out
    assert lines[-1] == "4 results, 1 failed or incomplete"
    assert "0.0 ns" not in history("list", "-v").out
    chosen = document("history-list", history("list", "--last", "2", "--json").out)
    assert [entry["provenance"]["id"] for entry in chosen] == ["r1", "r2"]
    assert history("list", "--verdict", "fail", "--since", "2026-11-22").out == ("0 results\n")
    assert history("list", "--since", "yesterday").code == 2


def test_one_operator_is_shown_through_time(tmp_path: Path, history: Any) -> None:
    runs(tmp_path, 4)
    history("add", tmp_path)
    code, out, _ = history("show", "a", "--last", "3", "--baseline", "last:1")
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["kws.pte forward on native", "median of a #0 of kws on native"]
    assert lines[2].split()[3:5] == ["median", "[ns]"]
    assert [line.split()[3] for line in lines[3:6]] == ["101.0", "102.0", "103.0"]
    assert "+0.98 %" in lines[5]
    assert "baseline" in lines[5]
    assert "baseline" not in lines[4]
    assert lines[-1] == "baseline: the last 1, 1 of 3 results"
    shown = document("history-show", history("show", "a", "--json").out)
    assert [sample["value"] for sample in shown["series"][0]["samples"]] == [100, 101, 102, 103]


def test_models_and_operators_may_be_given_by_their_short_names(
    tmp_path: Path, history: Any
) -> None:
    runs(tmp_path, 2)
    run_directory(tmp_path / "b", made("b", board="other"), {"native_call_conv2d.out": [1]})
    history("add", tmp_path)
    assert history("show", "a #0", "--board", "native", "--model", "kws").code == 0
    assert "conv2d" in history("show", "conv2d #?", "--board", "other").out
    assert "no measured number" in history("show", "conv2d #1", "--board", "other").out
    listed = history("list", "--model", "kws", "--json").out
    assert listed == history("list", "--model", "kws.pte", "--json").out
    assert len(document("history-list", listed)) == 3
    assert history("list", "--model", "kw").out == "0 results\n"
    decided = history(
        *("accept", "conv2d #0", "--board", "other", "--model", "kws"),
        *("--reason", "faster kernel"),
    )
    assert decided.code == 0, decided.err


def test_runs_are_reported_beside_a_history(tmp_path: Path, etharness: Etharness) -> None:
    store = tmp_path / "h.sqlite"
    for number in range(8):
        started = f"2026-11-21T00:00:{number:02}+00:00"
        item = made(f"r{number}", started_utc=started, commit=f"c{number}", session=f"s{number}")
        run_directory(tmp_path / f"old/{number}", item, {"a": [1_000_000 + number] * 2})
    etharness("history", "add", tmp_path / "old", "--history", store)
    for name, time in (("same", 1_000_004), ("slower", 1_500_000)):
        item = made(name, started_utc="2026-11-22T00:00:00+00:00", commit=name, session=name)
        run_directory(tmp_path / f"new/{name}", item, {"a": [time] * 2})
    file = tmp_path / "comment.md"
    against = ["--history", store, "--baseline", "last:8"]
    code, out, err = etharness("report", tmp_path / "new", *against, "-o", file)
    assert code == 1, err
    assert "FAIL: 1 of 2 runs passed" in out
    told = file.read_text().replace("&#8203;", "")
    assert told.startswith("## FAIL: 1 of 2 runs passed; kws on native")
    assert re.search(
        r"^\| .* of a #0 \| 1.50 ms \| 1.00 ms \| \+50.00 % \| .* \| slower, measured once \|$",
        told,
        re.M,
    )
    # The next report without these options repeats the comparison.
    assert etharness("report", tmp_path / "new").code == 1
    unknown = ["--history", store, "--baseline", "commit:ffff"]
    assert etharness("report", tmp_path / "new", *unknown).code == 3


def test_of_several_numbers_the_change_is_shown(tmp_path: Path, history: Any) -> None:
    runs(tmp_path, 2)
    history("add", tmp_path)
    out = history("show").out
    assert "Operators, median [ns]" in out
    assert "a #0 " in out
    assert "Execute: a, instruction 0" in history("show", "-v").out
    assert "+1.00 %" in out
    assert "OPERATOR_CALL" not in out
    assert "OPERATOR_CALL" in history("show", "-v").out
    assert "planned_1" in out
    assert "no measured number has a name like 'x*'" in history("show", "x*").out


def test_what_is_asked_for_must_be_one_thing(tmp_path: Path, history: Any) -> None:
    runs(tmp_path / "a", 1)
    run_directory(tmp_path / "b", made("b", board="other"), {"a": [1]})
    history("add", tmp_path)
    code, _, err = history("show", "a")
    assert code == 2
    assert "results of 2 combinations: kws.pte forward on native; kws.pte forward on other" in err
    assert history("show", "a", "--board", "other").code == 0
    assert history("show", "a", "--board", "none").code == 3
    assert history("show", "a", "--board", "other", "--baseline", "name:v1").code == 3
    assert history("show", "a", "--baseline", "v1").code == 2


def test_baselines_are_set_listed_and_removed(tmp_path: Path, history: Any) -> None:
    runs(tmp_path, 3)
    run_directory(tmp_path / "red", made("red", checks=(unmet(),)), {"a": [1]})
    history("add", tmp_path)
    assert history("baseline", "list").out == "no baseline has a name\n"
    assert history("baseline", "set", "v1", "--board", "native").out == "name:v1 has 3 results\n"
    assert history("baseline", "set", "v1", "--board", "native", "--all").out.endswith(
        "4 results\n"
    )
    assert history("baseline", "set", "v2", "r1").code == 0
    found = document("history-baseline", history("baseline", "list", "--json").out)
    assert [(item["name"], item["results"]) for item in found] == [("v1", 4), ("v2", 1)]
    assert "v2" in history("baseline", "list").out
    assert history("baseline", "set", "v3").code == 2
    assert history("baseline", "set", "v3", "r1", "--last", "1").code == 2
    assert history("baseline", "set", "v3", "r9").code == 2
    assert history("baseline", "remove", "v1").code == 0
    assert history("baseline", "remove", "v1").code == 2
    removed = document("history-baseline", history("baseline", "remove", "v2", "--json").out)
    assert removed == []


def test_pruning(tmp_path: Path, history: Any) -> None:
    runs(tmp_path, 4)
    history("add", tmp_path)
    assert history("prune", "--keep", "1", "--dry-run").out == (
        "3 results would be removed; the history has 4\n"
    )
    assert document("history-prune", history("prune", "--keep", "1", "--json").out) == {
        **{"removed": 3, "left": 1, "dry_run": False}
    }
    info = document("history-info", history("info", "--json").out)
    assert info["rows"]["results"] == 1
    assert "operator times  " in history("info").out


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "parquet"])
def test_all_numbers_are_written_as_a_table(tmp_path: Path, history: Any, suffix: str) -> None:
    pandas = pytest.importorskip("pandas")
    runs(tmp_path, 2)
    item = made("odd", method="m\0,", unit='"u"')
    run_directory(tmp_path / "odd", item, {"a,\n": [7, 9]})
    history("add", tmp_path)
    file = tmp_path / f"table.{suffix}"
    found = document("history-export", history("export", "-o", file, "--json").out)
    read = {
        "csv": pandas.read_csv,
        "tsv": lambda file: pandas.read_csv(file, sep="\t"),
        "json": pandas.read_json,
        "parquet": pandas.read_parquet,
    }
    table = read[suffix](file)
    history("export", "-o", tmp_path / "other.csv")
    assert list(table.columns) == (tmp_path / "other.csv").read_text().partition("\n")[0].split(",")
    assert found == {"file": str(file), "rows": len(table)}
    whole = table[(table.kind == "operator") & (table.executions == "all")]
    assert sorted(whole[whole["name"] == "a"].p50) == [100, 101]
    [odd] = whole[whole["name"] == r"a,\x0a"].to_dict("records")
    assert (odd["method"], odd["unit"]) == (r"m\x00,", '"u"')
    assert [odd[name] for name in ("count", "total", "p50", "min", "max", "std")] == [
        2,
        16,
        8,
        7,
        9,
        1,
    ]
    cold = table[(table["name"] == r"a,\x0a") & (table.executions == "cold")]
    assert list(cold.p50) == [7]
    sizes = table[(table["name"] == "planned_1") & (table.statistic == "peak_bytes")]
    assert list(sizes.value) == [0, 0, 0]
    assert list(table.result.unique()) == ["odd", "r0", "r1"]
    assert history("export", "-o", file).code == 2
    assert history("export", "-o", file, "--force", "--board", "none").out.endswith(": 0 rows\n")
    assert history("export", "-o", tmp_path / "x.xls").code == 2
    assert history("export", "-o", tmp_path / "none/x.csv").code == 2


@pytest.mark.parametrize("command", ["list", "info", "show"])
def test_asking_makes_no_history(tmp_path: Path, history: Any, command: str) -> None:
    code, _, err = history(command)
    assert code == 2
    assert "not found" in err
    assert "etharness history add" in err
    assert not (tmp_path / "h.sqlite").exists()


@pytest.mark.parametrize(
    "command",
    [
        *(("add",), ("list",), ("show",), ("prune",), ("info",), ("export",)),
        *(("baseline", name) for name in ("set", "list", "remove")),
    ],
)
def test_every_subcommand_has_help(etharness: Etharness, command: tuple[str, ...]) -> None:
    code, out, _ = etharness("history", *command, "--help")
    assert code == 0
    assert "--json" in out
    assert "--history URL" in out


def test_the_default_place_is_near_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ETHARNESS_HISTORY", raising=False)
    project, deep = tmp_path / "project", tmp_path / "project/a/b"
    deep.mkdir(parents=True)
    (project / ".git").mkdir()
    assert str(default_history(deep)) == str(project / ".etharness/history.sqlite")
    (deep.parent / ".etharness").mkdir()
    assert str(default_history(deep)) == str(project / "a/.etharness/history.sqlite")
    monkeypatch.setenv("ETHARNESS_HISTORY", "postgresql://lab/history")
    assert str(default_history(deep)) == "postgresql://lab/history"


def test_the_folder_of_the_default_place_stays_out_of_git(tmp_path: Path) -> None:
    with open_store(str(tmp_path / ".etharness/history.sqlite")):
        pass
    assert (tmp_path / ".etharness/.gitignore").read_text() == "*\n"
    with open_store(str(tmp_path / "elsewhere/history.sqlite")):
        pass
    assert not (tmp_path / "elsewhere/.gitignore").exists()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlalchemy", None)
    with pytest.raises(UsageError, match="sqlalchemy") as raised:
        open_store(str(tmp_path / "h.sqlite"))
    assert raised.value.hint == "pip install 'etdump-harness[history]'"
