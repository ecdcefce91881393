"""Shares: one definition, of the execution's wall time, in every report."""

from __future__ import annotations

import io
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from rich.console import Console

from harness import (
    EXECUTION,
    OPERATOR_CALL,
    ClockDomain,
    EvaluatedRun,
    Subject,
    Trace,
    Verdict,
    durations,
    event_nanoseconds,
    operator_statistics,
    read_log,
    render_report,
    unknown_durations,
)
from harness.report.traces import print_tree
from harness.strategies import executions
from harness.strategies.traces import Execution
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.examples import examples
from tests.support.logs import CompactLog
from tests.support.pages import Page
from tests.support.traces import EventSpec, RunSpec, trace_of

Etharness = Callable[..., CommandResult]

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)
NPU = ClockDomain("npu", Fraction(10_000_000), 32)


def judged(trace: Trace) -> EvaluatedRun:
    return EvaluatedRun("run", Subject(trace), Verdict(()))


def in_json(trace: Trace) -> dict[str, list[dict[str, Any]]]:
    [run] = json.loads(render_report("report.json", [judged(trace)]))["runs"]
    return {name: run[name] for name in ("operators", "scopes", "loading")}


def offloaded(*, reported: bool = True) -> CompactLog:
    """An execution of 100 us, of which a call takes 60 us and its delegate reports 50 us."""
    log = CompactLog().block("Default")
    log.profile("Method::init", 10, 30, chain=-1).profile("Program::load_method", 0, 40, chain=-1)
    log.block("Execute")
    log.profile("native_call_add", 101, 131, instruction=0)
    log.profile(OPERATOR_CALL, 100, 132, instruction=0)
    if reported:
        log.delegate("layer").profile(None, 7000, 7500, instruction=1, clock=1)
    log.profile("DELEGATE_CALL", 135, 195, instruction=1)
    return log.profile(EXECUTION, 98, 198, chain=-1)


def traced(log: CompactLog) -> Trace:
    return read_log(log.image(), [CPU, NPU])


def written(tmp_path: Path, log: CompactLog) -> Path:
    file = tmp_path / "trace.etlog"
    file.write_bytes(log.image())
    return file


def shares_in_text(text: str, cell: int = -1) -> dict[str, str]:
    """One cell of each row of some tables, the last by default, by the name it begins with."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    return {cells[0]: cells[cell] for cells in rows if len(cells) > 2}


def test_the_share_of_an_operator_is_the_same_number_everywhere(
    etharness: Etharness, tmp_path: Path
) -> None:
    wanted = {"native_call_add": "30.0", "DELEGATE_CALL": "60.0", "Method::execute": "100.0"}
    file = written(tmp_path, offloaded(reported=False))
    brief = shares_in_text(etharness("decode", file).out)
    table = shares_in_text(etharness("decode", file, "-v").out)
    tree = shares_in_text(etharness("decode", file, "--tree", "-v").out, cell=-2)
    nodes = document("decode", etharness("decode", file, "--tree", "--json").out)["tree"]
    exact = {node["name"]: f"{100 * node['share']:.1f}" for node in nodes if node["share"]}
    etharness("check", file, "--report", tmp_path / "x.json", "--report", tmp_path / "x.md")
    [run] = document("report", (tmp_path / "x.json").read_text())["runs"]
    listed = [*run["operators"], *run["scopes"]]
    stated = {op["name"]: f"{100 * op['share']:.1f}" for op in listed if op["share"]}
    titled = {"add #0": "30.0", "DELEGATE_CALL #1": "60.0", "Method::execute": "100.0"}
    assert titled.items() <= brief.items()
    for found in (table, tree, exact, stated):
        assert wanted.items() <= found.items()
    assert re.search(r"native.*\| 30\.0 \|", (tmp_path / "x.md").read_text())


def test_a_delegate_adds_nothing_to_the_share_of_its_call() -> None:
    trace = traced(offloaded())
    found = in_json(trace)
    assert {op["delegate_str"]: op["share"] for op in found["operators"]} == {
        None: pytest.approx(0.3),
        "layer": pytest.approx(0.5),
    }
    assert "DELEGATE_CALL" in [scope["name"] for scope in found["scopes"]]
    console = Console(file=io.StringIO(), width=200)
    print_tree(console, trace)
    tree = shares_in_text(console.file.getvalue(), cell=-2)  # type: ignore[attr-defined]
    assert tree["DELEGATE_CALL #1"] == "60.0"
    assert tree["[layer] #1"] == "50.0"
    assert tree["Method::execute"] == "100.0"
    assert "60.0 % of the wall time" in render_report("report.html", [judged(trace)]).decode()


def test_a_call_is_listed_once_whether_or_not_its_delegate_logs_every_time() -> None:
    log = CompactLog()
    for number in range(3):
        log.block("Execute")
        if number == 0:  # one of three: not within most of the repeats
            log.delegate("layer").profile(None, 7000, 7500, instruction=1, clock=1)
        log.profile("DELEGATE_CALL", 1000 * number + 10, 1000 * number + 80, instruction=1)
        log.profile(EXECUTION, 1000 * number, 1000 * number + 100, chain=-1)
    found = in_json(traced(log))
    assert [op["delegate_str"] for op in found["operators"]] == ["layer"]


def test_loading_and_executions_stand_in_tables_of_their_own(
    etharness: Etharness, tmp_path: Path
) -> None:
    trace = traced(offloaded())
    found = in_json(trace)
    assert [op["name"] for op in found["loading"]] == ["Program::load_method", "Method::init"]
    assert [op["share"] for op in found["loading"]] == [1.0, 0.5]
    names = {op["name"] for op in (*found["operators"], *found["scopes"])}
    assert names.isdisjoint({"Program::load_method", "Method::init"})
    for more in ((), ("-v",)):
        lines = etharness(
            "decode", written(tmp_path, offloaded(reported=False)), *more
        ).out.splitlines()
        begin = next(n for n, line in enumerate(lines) if line.startswith("Loading and setup"))
        assert all("Method::init" not in line for line in lines[:begin])
        assert all("Method::execute" not in line for line in lines[begin:])
    assert "Method::init" not in render_report("report.md", [judged(trace)]).decode()
    captions = [
        item.text for item in Page(render_report("report.html", [judged(trace)])).all("summary")
    ]
    assert "Loading and setup" in captions


def test_one_preempted_execution_does_not_lead_the_table() -> None:
    log, now = CompactLog(), 0
    for number in range(10):
        log.block("Execute")
        preempted = 100_000 if number == 4 else 0
        log.profile("steady", now + 1, now + 51, instruction=0)
        log.profile("preempted", now + 51, now + 91 + preempted, instruction=1)
        log.profile(EXECUTION, now, now + 100 + preempted, chain=-1)
        now += 1_000 + preempted
    found = in_json(traced(log))["operators"]
    assert [op["name"] for op in found] == ["steady", "preempted"]
    assert found[0]["total"] < found[1]["total"]
    for suffix in ("md", "html"):
        text = render_report(f"report.{suffix}", [judged(traced(log))]).decode()
        assert text.index("steady") < text.index("preempted")


def test_executions_of_unknown_length_count_on_neither_side() -> None:
    """Their operators would add up to more than what is known of the executions."""
    unknown = RunSpec([EventSpec("a", 10, 90), EventSpec(EXECUTION, 5, 4, chain=-1)])
    known = RunSpec([EventSpec("a", 110, 150), EventSpec(EXECUTION, 100, 200, chain=-1)])
    found = in_json(trace_of(unknown, known, clock=replace(CPU, bits=64)))
    assert [op["share"] for op in found["operators"]] == [pytest.approx(0.4)]


def test_without_a_wall_time_no_share_is_made_up() -> None:
    trace = trace_of(RunSpec([EventSpec("a", 0, 50), EventSpec("b", 50, 60)]), clock=CPU)
    found = in_json(trace)
    assert [op["share"] for op in found["operators"]] == [None, None]


def test_the_share_is_the_median_over_executions() -> None:
    """One preempted execution changes neither it nor the times beside it."""
    log, now = CompactLog(), 0
    for number in range(9):
        log.block("Execute")
        preempted = 100_000 if number == 4 else 0
        log.profile("steady", now, now + 60, instruction=0)
        log.profile("preempted", now + 60, now + 80 + preempted, instruction=1)
        if number < 3:
            log.profile("seldom", now + 85, now + 90, instruction=2)
        log.profile(EXECUTION, now, now + 100 + preempted, chain=-1)
        now += 1_000 + preempted
    trace = traced(log)
    shares = {op["name"]: op["share"] for op in in_json(trace)["operators"]}
    assert shares == {"steady": 0.6, "preempted": 0.2, "seldom": 0.0}
    frames = render_report("report.html", [judged(trace)]).decode()
    assert "steady · instruction 0: 60.000 us, 60.000 us by itself, 60.0 % of" in frames
    assert "Method::execute: 100.000 us, 20.000 us by itself" in frames


@given(executions(max_operators=4))
@settings(max_examples=examples(40), deadline=None)
def test_shares_are_medians_of_the_parts_of_each_execution(made: Execution) -> None:
    trace = made.trace
    ends = list(accumulate(block.count for block in trace.blocks))
    whole = [op for op in operator_statistics(trace) if op.name == EXECUTION]
    known = ~unknown_durations(trace)
    times = event_nanoseconds(trace, durations(trace))
    for op in operator_statistics(trace):
        if op.loading or op.share is None or not known[op.rows].all():
            continue
        wanted = []
        for block, end in zip(trace.blocks, ends, strict=True):
            inside = set(range(end - block.count, end))
            wall = [row for one in whole for row in one.rows.tolist() if row in inside]
            if block.name == op.block and wall and known[wall].all() and times[wall].sum() > 0:
                own = [row for row in op.rows.tolist() if row in inside]
                wanted.append(times[own].sum() / times[wall].sum())
        assert op.share == pytest.approx(statistics.median(wanted))
        if op.name == EXECUTION:
            assert op.share == pytest.approx(1)
