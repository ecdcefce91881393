"""What other tasks and interrupts took, as commands show it: no time, share or limit has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.strategies import DeviceLog
from tests.conftest import CommandResult
from tests.support.documents import document

CLOCK = ("--clock-hz", "1000000")


def logs(*, preempted: bool = True) -> bytes:
    """Four executions of two kernels; in each another task takes 2 ms of the second kernel."""
    log, other = DeviceLog(), DeviceLog()
    other.tracer = 1
    other.clock(0)
    for number in range(4):
        at = 10_000 * number
        log.block("Execute").profile("native_call_a.out", at + 1_000, at + 2_000, instruction=0)
        log.profile("native_call_b.out", at + 2_000, at + 7_080, instruction=1)
        log.profile("Method::execute", at + 900, at + 7_100, chain=-1)
        other.switch("inference", at + 3_000, begins=False).switch(
            "logger", at + 3_010, begins=True
        )
        other.switch("logger", at + 4_990, begins=False).switch(
            "inference", at + 5_000, begins=True
        )
    return log.image() + (other.image() if preempted else b"")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log as a file."""
    path = tmp_path / "preempted.etlog"
    path.write_bytes(logs())
    return path


def test_operators_and_scopes_are_without_it(
    etharness: Callable[..., CommandResult], log: Path
) -> None:
    document = json.loads(etharness("decode", log, *CLOCK, "--json").out)
    times = {op["name"]: op["ns"]["p50"] for op in document["operators"]}
    taken = {op["name"]: op.get("taken") for op in document["operators"]}
    assert times == {
        "native_call_a.out": 1_000_000,
        "native_call_b.out": 3_080_000,
        "Method::execute": 4_200_000,
    }
    assert taken == {
        "native_call_a.out": None,
        "native_call_b.out": 8_000_000,
        "Method::execute": 8_000_000,
    }
    shares = {
        op["name"]: op["share"]
        for op in json.loads(etharness("report", log, *CLOCK, "--json").out)["runs"][0]["operators"]
    }
    assert shares["native_call_b.out"] == pytest.approx(3_080 / 4_200)


def test_a_line_says_how_much_it_was(etharness: Callable[..., CommandResult], log: Path) -> None:
    line = (
        "other tasks and interrupts took 8,000.000 us (32.3 %) of executions; all times are "
        "without it"
    )
    assert line in etharness("decode", log, *CLOCK).out
    log.write_bytes(logs(preempted=False))
    assert "other tasks" not in etharness("decode", log, *CLOCK).out


def test_a_budget_limits_the_time_without_it(
    etharness: Callable[..., CommandResult], log: Path, tmp_path: Path
) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text('schema = 1\n[[time]]\nevent = "native_call_b.out"\nlimit_ms = 3.1\n')
    assert etharness("check", log, *CLOCK, "--budget", budget).code == 0
    log.write_bytes(logs(preempted=False))
    assert etharness("check", log, *CLOCK, "--budget", budget).code == 1


def test_reports_say_who_it_was(
    etharness: Callable[..., CommandResult], log: Path, tmp_path: Path
) -> None:
    marked = DeviceLog().clock(0).block("Execute").mark("frame", 5).mark("frame", 9)
    marked.tracer = 2
    marked.sample("queue", 10, 4).sample("queue", 11, -1).sample("volts", 12, 1.5)
    log.write_bytes(logs() + marked.image())
    page = tmp_path / "report.html"
    shown = etharness("decode", log, *CLOCK).out
    assert etharness("report", log, *CLOCK, "-o", page).code == 0
    for title in ("Tasks and interrupts", "Marks", "Counters"):
        assert title in shown
        assert title in page.read_text()
    sections = json.loads(etharness("decode", log, *CLOCK, "--json").out)["sections"]
    found = sections["instants"]
    document("instants", json.dumps(found))
    assert found["unit"] == "ns"
    assert [(use["name"], use["begins"], use["taken"]) for use in found["contexts"]] == [
        ("logger", 4, 7_920_000),
        ("inference", 4, 0),
    ]
    assert found["marks"] == {"frame": 2}
    assert {name: (use["min"], use["max"]) for name, use in found["counters"].items()} == {
        "queue": (-1, 4),
        "volts": (1.5, 1.5),
    }


def test_tables_have_the_time_without_it(
    etharness: Callable[..., CommandResult], log: Path, tmp_path: Path
) -> None:
    table = tmp_path / "events.csv"
    assert etharness("export", log, *CLOCK, "--format", "csv", "-o", table).code == 0
    lines = [line.split(",") for line in table.read_text().splitlines()]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    kernels = [row for row in rows if row["name"] == "native_call_b.out"]
    assert {row["ticks"] for row in kernels} == {"3080"}
    assert {int(row["end"]) - int(row["start"]) for row in kernels} == {5080}
    switches = [row for row in rows if row["kind"] == "task"]
    assert [(row["name"], row["level"]) for row in switches[:4]] == [
        *(("inference", "0.0"), ("logger", "1.0"), ("logger", "0.0"), ("inference", "1.0"))
    ]
