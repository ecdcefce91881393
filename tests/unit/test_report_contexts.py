"""What other tasks and interrupts took, as commands show it: no time, share or limit has it."""

from __future__ import annotations

import json
import re
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


def switches(*switches: tuple[str | int, int, bool]) -> DeviceLog:
    """A log of tasks by name and interrupts by number, which begin or end."""
    log = DeviceLog().clock(0)
    log.tracer = 1
    for name, tick, begins in switches:
        log.switch(name, tick, begins=begins, interrupt=isinstance(name, int))
    return log


def operator(start: int, end: int) -> bytes:
    """An execution of one operator."""
    log = DeviceLog().clock(0).block("Execute")
    log.profile("native_call_a.out", start, end, instruction=0)
    return log.profile("Method::execute", start, end, chain=-1).image()


MAIN = ("main", 0, True)


@pytest.mark.parametrize(
    ("logged", "reason"),
    [
        ([MAIN, (15, 500, True)], "Method::execute|native_call_a.out"),
        ([MAIN, (5, 20, True), (6, 30, True), (5, 40, False), (6, 50, False)], "interrupt 6 goes"),
        ([MAIN, (5, 20, True), (6, 30, True), (5, 40, False)], "interrupt 6 goes on"),
        ([MAIN, (5, 20, True), (5, 30, True), (5, 40, False)], "interrupt 5 begins before"),
        ([MAIN, (5, 20, False)], "interrupt 5 ends without a begin"),
        ([MAIN, ("o", 500, False)], "task o ends while task main has the core"),
        ([MAIN, ("net", 20, True)], "task net begins while task main has the core"),
        ([(15, 5, True), (15, 2_000, False)], "begins in interrupt 15 and ends in interrupt 15"),
    ],
)
def test_switches_that_cannot_be_true_fail(
    etharness: Callable[..., CommandResult],
    tmp_path: Path,
    logged: list[tuple[str | int, int, bool]],
    reason: str,
) -> None:
    file = tmp_path / "log.etlog"
    file.write_bytes(operator(10, 1_010) + switches(*logged).image())
    checks = json.loads(etharness("check", file, "--json").out)["checks"]
    [found] = [check for check in checks if check["code"] == "I31"]
    assert not found["passed"]
    assert re.search(reason, found["reason"])
    shown = json.loads(etharness("decode", file, "--json").out)
    assert {op["ticks"]["max"] for op in shown["operators"]} == {1_000}
    assert found["reason"] in shown["sections"]["instants"]["notes"][0]


@pytest.mark.parametrize(
    "logged",
    [
        [MAIN, ("main", 1_010, False)],  # at the tick of the operator's end
        [("main", 5, False), ("o", 6, True), ("o", 8, False), ("main", 10, True)],
        [MAIN, ("main", 10, False), ("o", 10, True), ("o", 10, False), ("main", 10, True)],
        [MAIN, (6, 1_010, True), (5, 1_010, True), (6, 1_010, False), (5, 1_010, False)],
        [(3, 4, False), ("main", 5, True), (3, 1_011, True)],
        [("main", 2_000, False)],
    ],
)
def test_switches_in_turn_pass(
    etharness: Callable[..., CommandResult],
    tmp_path: Path,
    logged: list[tuple[str | int, int, bool]],
) -> None:
    file = tmp_path / "log.etlog"
    file.write_bytes(operator(10, 1_010) + switches(*logged).image())
    assert etharness("check", file).code == 0
    shown = json.loads(etharness("decode", file, "--json").out)
    assert {op["ticks"]["max"] for op in shown["operators"]} == {1_000}


@pytest.mark.parametrize("lacks", ["dropped_events", "filtered_events", "chunk first_record"])
def test_nothing_is_subtracted_if_switches_may_be_missing(
    etharness: Callable[..., CommandResult], tmp_path: Path, lacks: str
) -> None:
    whole = switches(MAIN, ("main", 100, False), ("o", 101, True))
    for field in lacks.split():
        setattr(whole, field, 1)
    other = switches((15, 300, True), (15, 400, False))
    other.tracer = 2
    file, page, text = (tmp_path / name for name in ("log.etlog", "page.html", "page.md"))
    file.write_bytes(operator(10, 1_010) + whole.image() + other.image())
    sentence = (
        "what other tasks and interrupts took is unknown, and part of all times: tracer 1, which "
        "logs switches, was paused or has losses"
    )
    for report in (page, text):
        etharness("report", file, "-o", report)
        assert sentence in report.read_text()
    assert sentence in etharness("decode", file).out
    assert sentence in etharness("decode", file, "--tree").out
    shown = json.loads(etharness("decode", file, "--json").out)
    assert shown["sections"]["instants"]["notes"] == [sentence]
    assert {op["ticks"]["max"] for op in shown["operators"]} == {1_000}
    assert {use["total"] for use in shown["sections"]["instants"]["contexts"]} == {None}


def test_tasks_of_one_name_and_switches_of_another_counter_are_named(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    file = tmp_path / "log.etlog"
    twins = switches(("w", 0, True), ("w", 50, False), ("w", 60, True))
    file.write_bytes(operator(10, 1_010) + twins.image())
    note = "task w: begins right after its own end; tasks of one name count as one"
    assert note in etharness("decode", file).out
    apart = DeviceLog().clock(150_000_000, 5, 5).switch("w", 7, begins=True)
    apart.tracer = 1
    file.write_bytes(operator(10, 1_010) + apart.image())
    assert "1 switches of tracer 1 are on another counter" in etharness("decode", file).out


def test_samples_have_three_digits_and_those_that_are_no_number_count(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    log = DeviceLog().block("Execute").profile("native_call_a.out", 0, 90)
    for name, value in (("amps", 1.5e-6), ("volts", 0.0125), ("large", 3.4e38), ("amps", 2.5e-6)):
        log.sample(name, 5, value)
    for name, value in (("amps", float("inf")), ("none", float("nan"))):
        log.sample(name, 6, value)
    file = tmp_path / "log.etlog"
    file.write_bytes(log.image())
    lines = {
        line.split()[0]: line.split()[1:]
        for line in etharness("decode", file).out.split("\n")
        if line
    }
    assert lines["amps"] == ["2", "1.5e-06", "2e-06", "2e-06", "2.5e-06", "1"]
    assert lines["volts"] == ["1", *["0.0125"] * 4, "0"]
    assert lines["large"] == ["1", *["3.4e+38"] * 4, "0"]
    assert lines["none"] == ["0", *["?"] * 4, "1"]
    sections = json.loads(etharness("decode", file, "--json").out)["sections"]
    assert sections["instants"]["not_finite"] == {"amps": 1, "none": 1}


def test_the_tree_says_what_others_took(etharness: Callable[..., CommandResult], log: Path) -> None:
    tree = json.loads(etharness("decode", log, *CLOCK, "--tree", "--json").out)["tree"]
    taken = {node["name"]: node.get("taken_ticks", 0) for node in tree}
    assert taken == {"Method::execute": 8_000, "native_call_b.out": 8_000, "native_call_a.out": 0}
    assert "taken by others [ms]" in etharness("decode", log, *CLOCK, "--tree").out


def test_exports_of_times_and_pages_agree_with_the_tables(
    etharness: Callable[..., CommandResult], log: Path, tmp_path: Path
) -> None:
    stacks, page = tmp_path / "stacks", tmp_path / "page.html"
    assert etharness("export", log, *CLOCK, "-f", "folded", "-o", stacks).code == 0
    times = dict(line.rsplit(" ", 1) for line in stacks.read_text().splitlines())
    assert {name.split(";")[-1]: int(time) for name, time in times.items() if ";" in name} == {
        "a #0": 4_000_000,
        "b #1": 12_320_000,
        "Method::execute": 480_000,
    }
    assert etharness("report", log, *CLOCK, "-o", page).code == 0
    assert "of the wall time" not in page.read_text()
    assert "2,000.000 us more that other tasks and interrupts took" in page.read_text()
    lines = etharness("decode", log, *CLOCK, "-v").out.splitlines()
    [head] = [line for line in lines if "taken by others [us]" in line]
    [kernel] = [line for line in lines if line.startswith("native_call_b.out")]
    assert head.endswith("taken by others [us]")
    assert kernel.endswith("8,000.000")


def test_a_switch_without_end_lasts_until_the_log_ends(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    file, drawn = tmp_path / "log.etlog", tmp_path / "trace.json"
    lasting = switches(MAIN, (15, 1_100, True))
    lasting.mark("end", 1_500)
    file.write_bytes(operator(10, 1_010) + lasting.image())
    shown = json.loads(etharness("decode", file, *CLOCK, "--json").out)["sections"]["instants"]
    totals = {use["name"]: use["total"] / 1_000 for use in shown["contexts"]}
    assert totals == {"main": 1_100, "interrupt 15": 400}
    assert etharness("export", file, *CLOCK, "-f", "kineto", "-o", drawn).code == 0
    events = json.loads(drawn.read_text())["traceEvents"]
    spans = {event["name"]: event["dur"] for event in events if event.get("cat") == "context"}
    assert spans == {"task main": 1_100, "interrupt 15": 400}


def test_counters_of_one_name_and_of_any_size_are_drawn(
    etharness: Callable[..., CommandResult], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    file, drawn = tmp_path / "log.etlog", tmp_path / "trace.json"
    log = DeviceLog().clock(0).block("Execute").profile("native_call_a.out", 0, 90)
    log.sample("q", 5, 3.4e38).sample("q", 6, -3.4e38)
    other = DeviceLog().clock(0).sample("q", 7, 4)
    other.tracer = 1
    file.write_bytes(log.image() + other.image())
    rows = json.loads(etharness("decode", file, "--json").out)["sections"]["instants"]["counters"]
    assert {name: row["count"] for name, row in rows.items()} == {"q": 2, "q of tracer 1": 1}
    assert etharness("export", file, *CLOCK, "-f", "kineto", "-o", drawn).code == 0
    counts = [event for event in json.loads(drawn.read_text())["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counts} == set(rows)
    assert not recwarn.list


def test_exports_say_that_it_is_not_known(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    file = tmp_path / "log.etlog"
    full = switches(MAIN, ("main", 100, False))
    full.dropped_events = 3
    file.write_bytes(operator(10, 1_010) + full.image())
    for name in ("folded", "kineto", "csv", "google-benchmark"):
        ended = etharness("export", file, *CLOCK, "-f", name, "-o", tmp_path / name)
        assert "what other tasks and interrupts took is unknown" in ended.out + ended.err
    assert "log full in tracer 1, which logs no executions" in etharness("decode", file).out


def test_an_etdump_file_has_longer_times_and_says_so(
    etharness: Callable[..., CommandResult], log: Path, tmp_path: Path
) -> None:
    ended = etharness("export", log, *CLOCK, "-f", "ed00", "-o", tmp_path / "file.etdp")
    assert "8 events longer by what other tasks and interrupts took" in ended.out + ended.err


def test_interrupts_without_ends_are_read_in_little_time(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """A log that only an attacker writes: thousands of interrupts within each other."""
    file, deep = tmp_path / "log.etlog", [*range(1, 5_001)]
    begun = switches(*((n, 10 + n, True) for n in deep), *((n, 5_010 + n, False) for n in deep))
    file.write_bytes(operator(1, 20_000) + begun.image())
    assert "begins before 256 others have ended" in etharness("check", file, "--json").out


def test_the_page_is_found_by_the_last_part_of_its_name(
    etharness: Callable[..., CommandResult],
) -> None:
    found = etharness("explain", "contexts").out
    assert found == etharness("explain", "library/contexts").out
    assert "own context" in found


def test_on_a_coarse_clock_the_usual_task_of_the_tracer_decides(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """In the second operator the other task has the core from the tick of its start to its end."""
    ticks = ((100, False, "main"), (100, True, "o"), (200, False, "o"), (200, True, "main"))
    turns = switches(MAIN, *((name, tick, begins) for tick, begins, name in ticks))
    file = tmp_path / "log.etlog"
    log = DeviceLog().clock(0).block("Execute").profile("native_call_a.out", 10, 90)
    log.profile("native_call_b.out", 100, 200, instruction=1)
    file.write_bytes(log.image() + turns.image())
    shown = json.loads(etharness("decode", file, "--json").out)["operators"]
    assert {op["name"]: op["ticks"]["max"] for op in shown} == {
        "native_call_a.out": 80,
        "native_call_b.out": 0,
    }
    file.write_bytes(operator(100, 200) + turns.image())
    assert etharness("check", file).code == 1


@pytest.mark.parametrize(
    ("rule", "reasons"),
    [
        ('name = "queue"\nlimit_value = 9', ["9 queue is within the limit of 9 queue"]),
        ('name = "queue"\nlimit_value = 8', ["9 queue exceeds the limit of 8 queue"]),
        ('name = "queue"\nat_least_value = -1', ["-2 queue is below the lower limit of -1 queue"]),
        (
            'name = "*"\nlimit_value = 1e-6',
            [
                "9 queue exceeds the limit of 1e-06 queue",
                "1.5e-06 amps exceed the limit of 1e-06 amps",
                "1 of 2 samples are infinite or no number",
            ],
        ),
        ('name = "heap"\nlimit_value = 1\noptional = true', []),
    ],
)
def test_a_budget_limits_samples(
    etharness: Callable[..., CommandResult], tmp_path: Path, rule: str, reasons: list[str]
) -> None:
    log, path = DeviceLog().block("Execute"), tmp_path / "x.etlog"
    log.profile("Method::execute", 10, 20, chain=-1).sample("queue", 11, 9).sample("queue", 12, -2)
    log.sample("amps", 13, 1.5e-6).sample("odd", 14, 1.0).sample("odd", 15, float("inf"))
    path.write_bytes(log.image())
    (tmp_path / "budget.toml").write_text(f"schema = 1\n\n[[sample]]\n{rule}\n")
    ended = etharness("check", path, *CLOCK, "--budget", tmp_path / "budget.toml", "--json")
    checks = [check for check in json.loads(ended.out)["checks"] if check["code"] == "B15"]
    assert [check["reason"] for check in checks] == reasons
    assert [check["passed"] for check in checks] == ["within" in reason for reason in reasons]
    assert ended.code == (0 if json.loads(ended.out)["passed"] else 1)
