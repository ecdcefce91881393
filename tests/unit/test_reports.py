"""Reports as files: chosen by suffix, written whatever the verdict, of failed runs, too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness import Result, UsageError, VerdictRecord, write_report
from harness.report.formats import check_report_file
from harness.runs.directory import RunDirectory
from tests.conftest import FIXTURES, CommandResult
from tests.support.documents import document
from tests.support.reported import FINISHED, failed_run, held, reported, slower_by_3_percent, unmet

CONSOLE = "console.log"

Etharness = Callable[..., CommandResult]
ETDUMP = FIXTURES / "kws_f32_executorch.etdp"
LOGGED = replace(FINISHED, runs_requested=3, runs_completed=3)
"""The result of a run with the executions of that file."""


def run_directory(path: Path, result: Result, trace: Path | None = ETDUMP) -> Path:
    directory = RunDirectory.create(path)
    directory.write_result(result)
    if trace is not None:
        directory.write("trace.etdp", trace.read_bytes())
    return path


def test_the_kind_is_known_by_its_suffix_before_anything_runs(tmp_path: Path) -> None:
    check_report_file(tmp_path / "a.JSON")
    with pytest.raises(UsageError, match=r"suffix '\.doc'") as caught:
        check_report_file(tmp_path / "a.doc")
    assert ".json (JSON)" in caught.value.hint
    (tmp_path / "b.json").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        check_report_file(tmp_path / "b.json")


def test_a_report_replaces_an_older_one_and_makes_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.json"
    write_report(file, [reported(unmet())])
    assert not document("report", file.read_text())["passed"]
    write_report(file, [reported(held())])
    assert document("report", file.read_text())["passed"]
    assert [path.name for path in file.parent.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write the report .*x\.json"):
        write_report(tmp_path / "file" / "x.json", [reported(held())])


def test_json_holds_any_name_and_says_why_a_run_failed(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write_report(file, [reported(held(), title="a\udc80\n"), failed_run("port gone")])
    found = document("report", file.read_text())
    assert not found["passed"]
    first, second = found["runs"]
    assert first["title"] == r"a\x80\x0a"
    assert first["passed"]
    assert (second["passed"], second["events"], second["checks"]) == (False, None, [])
    assert second["result"]["failure"]["message"] == "port gone"


def test_json_holds_what_changed_against_history(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run = dataclasses.replace(reported(held()), comparison=slower_by_3_percent("conv\udc80"))
    write_report(file, [run, reported(held())])
    first, second = document("report", file.read_text())["runs"]
    [number] = first["comparison"]["numbers"]
    assert (number["metric"]["name"], number["judgement"]) == (r"conv\x80", "regression")
    assert second["comparison"] is None


def test_several_runs_become_one_report_and_the_worst_decides(
    tmp_path: Path, etharness: Etharness
) -> None:
    good = run_directory(tmp_path / "good", LOGGED)
    gone = run_directory(tmp_path / "gone", failed_run("port gone").result or FINISHED, trace=None)
    file = tmp_path / "all.json"
    code, out, _ = etharness("report", good, ETDUMP, "-o", file)
    assert code == 0
    assert out.splitlines()[-1] == "PASS: 2 of 2 runs passed"
    code, out, _ = etharness("report", gone, good, "-o", file)
    assert code == 1
    assert out.splitlines()[-1] == "FAIL: 1 of 2 runs passed"
    assert out.index(str(good)) < out.index(str(gone)), "those that did not pass come last"
    assert "port gone" in out
    written = document("report", file.read_text())
    assert [run["title"] for run in written["runs"]] == [str(gone), str(good)]
    code, out, _ = etharness("report", good, "--json")
    assert code == 0
    assert document("report", out)["runs"] == [written["runs"][1]]


def test_a_directory_of_runs_stands_for_all_of_them(tmp_path: Path, etharness: Etharness) -> None:
    runs = [run_directory(tmp_path / "out" / name, LOGGED) for name in ("b/two", "one")]
    file = tmp_path / "all.json"
    code, out, _ = etharness("report", tmp_path / "out", "-o", file)
    assert code == 0
    assert out.splitlines()[-1] == "PASS: 2 of 2 runs passed"
    titles = [run["title"] for run in document("report", file.read_text())["runs"]]
    assert titles == [str(path) for path in runs]
    (tmp_path / "empty").mkdir()
    code, _, err = etharness("report", tmp_path / "empty", "-o", file)
    assert code == 2
    assert str(tmp_path / "empty") in err


def test_each_run_is_judged_by_its_own_budget_unless_one_is_given(
    tmp_path: Path, etharness: Etharness
) -> None:
    strict, lax = tmp_path / "strict.toml", tmp_path / "lax.toml"
    strict.write_text("schema = 1\n[[time]]\nevent = 'Method::execute'\nlimit_us = 0\n")
    lax.write_text("schema = 1\n")
    verdict = VerdictRecord(passed=True, budget=str(strict), checks=())
    run = run_directory(tmp_path / "run", replace(LOGGED, verdict=verdict))
    assert etharness("report", run).code == 1
    assert etharness("report", run, "--budget", lax).code == 0
    assert etharness("check", run, "--report", tmp_path / "bad.json").code == 1
    assert not json.loads((tmp_path / "bad.json").read_text())["passed"]


def test_check_of_a_failed_run_reports_it_and_says_that_there_is_no_trace(
    tmp_path: Path, etharness: Etharness
) -> None:
    result = failed_run("port gone").result or FINISHED
    run = run_directory(tmp_path / "run", result, trace=None)
    code, _, err = etharness("check", run, "--report", tmp_path / "r.json")
    assert code == 2
    assert "has no trace" in err
    assert "port gone" in (tmp_path / "r.json").read_text()


def test_check_of_a_failed_run_with_a_log_says_how_it_failed(
    tmp_path: Path, etharness: Etharness
) -> None:
    result = failed_run("it crashed", kind="TargetError", exit_code=4).result or FINISHED
    code, out, _ = etharness("check", run_directory(tmp_path / "run", result))
    assert code == 1
    assert "I12 executions: 0 of 2 executions completed" in out
    assert out.splitlines()[-1] == "FAIL: the run failed: TargetError: it crashed"


def test_a_damaged_log_of_a_failed_run_does_not_stop_a_report(
    tmp_path: Path, etharness: Etharness
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"no log")
    result = failed_run("the log contradicts itself", exit_code=2).result or FINISHED
    run = run_directory(tmp_path / "run", result, damaged)
    code, out, _ = etharness("report", run)
    assert code == 1
    assert "the log contradicts itself" in out


def test_a_page_shows_how_the_console_of_a_run_ends(tmp_path: Path, etharness: Etharness) -> None:
    path = run_directory(tmp_path / "run", LOGGED)
    (path / CONSOLE).write_text("".join(f"line {number}.\n" for number in range(2_000)))
    etharness("report", str(path), "-o", str(tmp_path / "run.html"))
    page = (tmp_path / "run.html").read_text()
    assert "line 1999." in page
    assert "line 0." not in page
