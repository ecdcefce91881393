"""What holds no execution does not pass, whoever judges it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import (
    CODES,
    HOST_NANOSECONDS,
    Block,
    Budget,
    FormatError,
    Kind,
    Subject,
    Trace,
    UsageError,
    entry_of,
    evaluate,
    evaluate_run,
    read_dumps,
    write_ed00,
)
from harness.decode import ed00_schema as ed
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.logs import CompactLog, profile_trace
from tests.support.results import log_with, made, run_directory, trace_with
from tests.unit.test_etdump_ed00 import RECORDED

LOG = "trace.etlog"

Etharness = Callable[..., CommandResult]


def allocations() -> Trace:
    trace = Trace.unset(2, blocks=[Block("Execute", 0, 2)], clocks=[HOST_NANOSECONDS])
    trace.kind[:], trace.allocator[:], trace.size[:] = Kind.ALLOCATION, 1, 64
    return trace


def loading() -> Trace:
    names = ["Method::init", "Program::load_method"]
    return profile_trace([2, 1], [8, 9], HOST_NANOSECONDS, names)


def blocks(*named: str) -> Trace:
    return Trace.unset(0, blocks=[Block(name, 0, 0) for name in named], clocks=[HOST_NANOSECONDS])


EMPTY = {
    "no run data": (write_ed00(blocks()), "no events"),
    "run data without events": (write_ed00(blocks("Default", "Execute")), "no events"),
    "loading alone": (write_ed00(loading()), "2 events, but no execution"),
    "allocations alone": (write_ed00(allocations()), "2 events, but no execution"),
    "a log's header": (CompactLog().image(), "no events"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_without_an_execution_fails(name: str, etharness: Etharness, tmp_path: Path) -> None:
    data, held = EMPTY[name]
    path, bundle = tmp_path / "trace", tmp_path / "bundle.zip"
    path.write_bytes(data)
    said = f"nothing was measured: the trace has {held}"

    found = etharness("check", path)
    assert found.code == 1
    assert "PASS" not in found.out
    assert f"I13 trace: {said}" in " ".join(found.out.split())
    found = etharness("check", path, "--json")
    assert found.code == 1
    verdict = json.loads(found.out)
    assert not verdict["passed"]
    [check] = [item for item in verdict["checks"] if item["code"] == "I13"]
    assert (check["severity"], check["passed"], check["reason"]) == ("error", False, said)

    found = etharness("report", path, "-o", bundle)
    assert found.code == 1
    assert said in " ".join(found.out.split())
    assert etharness("replay", bundle).code == 1

    found = etharness("check", path, "--suggest", tmp_path / "new.toml")
    assert found.code == 2
    assert "contains no execution" in found.err
    assert not (tmp_path / "new.toml").exists()


def test_what_executed_has_no_such_check() -> None:
    for trace in (
        trace_with({"native_call_a": [10]}),
        profile_trace([1], [2], HOST_NANOSECONDS, ["body"]),  # Method::execute was filtered out
        read_dumps(RECORDED.read_bytes()).dumps[0].trace,
    ):
        assert "I13" not in {check.code for check in evaluate(Subject(trace)).checks}


def test_a_run_of_no_executions_fails(etharness: Etharness, tmp_path: Path) -> None:
    """Whatever its result claims."""
    nothing = made("nothing", blocks(), runs_requested=0, runs_completed=0)
    verdict = evaluate_run("nothing", blocks(), nothing.result).verdict
    assert {check.code for check in verdict.failures} == {"I12", "I13"}
    [ended] = [check for check in verdict.checks if check.code == "I12"]
    assert ended.reason == "0 of 0 executions completed"

    claims = made("claims", blocks(), runs_requested=3, runs_completed=3)
    directory = RunDirectory.create(tmp_path / "claims")
    directory.write_result(claims.result)
    directory.write(LOG, CompactLog().image())
    found = etharness("check", tmp_path / "claims")
    assert found.code == 1
    assert "I13" in found.out

    none = made("none", runs_requested=0, runs_completed=0)
    found = etharness("check", run_directory(tmp_path / "none", none, {"native_call_a": [10]}))
    assert found.code == 1
    assert "I12 executions: 0 of 0 executions completed" in found.out


def test_a_result_of_no_executions_is_no_baseline() -> None:
    one, none = made("one"), made("none", runs_requested=0, runs_completed=0)
    assert entry_of(one.result, one.subject)[0].sound
    assert not entry_of(none.result, none.subject)[0].sound


def test_no_budget_makes_it_pass(etharness: Etharness, tmp_path: Path) -> None:
    path, budget = tmp_path / "trace", tmp_path / "budget.toml"
    path.write_bytes(EMPTY["run data without events"][0])
    budget.write_text("schema = 1\n[[time]]\nevent = 'absent'\nstatistic = 'p50'\nlimit_us = 1\n")
    found = etharness("check", path, "--budget", budget)
    assert found.code == 1
    assert "B01" in found.out
    assert "I13" in found.out

    others = [code for code in CODES if code != "I13"]
    off = "".join(f'{code} = "off"\n' for code in others)
    budget.write_text(f"schema = 1\n[severity]\n{off}")
    assert etharness("check", path, "--budget", budget).code == 1
    # Nor is there a verdict on an execution when nothing about it is checked.
    path.write_bytes(log_with({"native_call_a": [10]}).image())
    found = etharness("check", path, "--budget", budget)
    assert found.code == 1
    assert "nothing was checked: the budget turns every check off" in " ".join(found.out.split())

    budget.write_text('schema = 1\n[severity]\nI13 = "off"\n')
    with pytest.raises(UsageError, match=r"3.*the severity of I13 cannot be changed"):
        Budget.load(budget)


def test_a_table_that_says_it_is_shorter_than_a_table_can_be_is_refused() -> None:
    """Else it would read as empty, and a damaged file would be one in which nothing happened."""
    root, vtable = 20, 12
    for size in range(4):
        file = struct.pack(
            "<II4sHHHHiI", 24, root - 4, ed.IDENTIFIER, 8, size, 0, 0, root - vtable, 0
        )
        with pytest.raises(FormatError, match="impossible table size in Dump vtable"):
            read_dumps(file)
    whole = struct.pack("<II4sHHHHiI", 24, root - 4, ed.IDENTIFIER, 8, 4, 0, 0, root - vtable, 0)
    assert read_dumps(whole).dumps[0].trace.blocks == ()
