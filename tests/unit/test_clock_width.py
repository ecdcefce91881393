"""Counters that are narrower than a file says: suspected, said, and set right by an option."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import (
    HOST_NANOSECONDS,
    ClockDomain,
    OperatorTimes,
    UsageError,
    durations,
    format_names,
    operator_statistics,
    read_ed00,
    with_width,
    write_ed00,
)
from harness.analyze.ticks import suspected_widths
from harness.inspector import Inspector, TimeScale
from harness.strategies.traces import EventSpec, RunSpec, trace_of
from tests.conftest import CommandResult
from tests.support.logs import profile_trace
from tests.support.results import made, run_directory
from tests.support.wrapping import RECORDED, narrowed, on_a_wide_counter

Etharness = Callable[..., CommandResult]

ADVICE = (
    "clock ns: 2 events end before they start and time steps back 1 time; all ticks but those of "
    "delegates are below 2**32: the counter probably wraps at 32 bits; try --clock-bits 32"
)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """The recording as a counter that does not wrap would have stamped it."""
    file = tmp_path / "wide.etdp"
    file.write_bytes(write_ed00(on_a_wide_counter()))
    return file


def test_the_recording_shows_a_wrap_at_32_bits() -> None:
    trace = read_ed00(RECORDED.read_bytes())
    assert [item.advice for item in suspected_widths(trace)] == [ADVICE]
    assert suspected_widths(with_width(trace, 32)) == []
    assert suspected_widths(on_a_wide_counter()) == []


@pytest.mark.parametrize("bits", [16, 24, 32, 48])
def test_one_wrapped_event_tells_the_width(bits: int) -> None:
    trace = profile_trace([2**bits - 9], [5], HOST_NANOSECONDS)
    (found,) = suspected_widths(trace)
    assert found.text == (
        f"clock ns: 1 event ends before it starts; all ticks are below 2**{bits}: the counter "
        f"probably wraps at {bits} bits"
    )
    assert found.remedy == f"--clock-bits {bits}"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ([10], [9]),  # a step back so small is no wrap
        ([2**31], [0]),  # as far from a wrap as from none
        ([2**50], [3]),  # no counter has 51 bits
        ([5, 2**31], [2**31, 2**31 + 1]),
        ([2**31 + 9], [2**31 + 1]),  # far from zero, but not from each other
        ([2**31 + 9, 2**31 + 1], [2**31 + 9, 2**31 + 1]),
        ([2**31, 0], [2**31, 0]),  # two events as far from each other
        ([2**32 - 9, 2**31 + 5, 9], [2**32 - 9, 2**31 + 5, 9]),  # two steps, each too small
        ([2**16], [3]),  # too large for 16 bits, and too small a step for 24
        ([], []),
    ],
)
def test_other_readings_show_none(start: list[int], end: list[int]) -> None:
    assert suspected_widths(profile_trace(start, end, HOST_NANOSECONDS)) == []


def test_a_later_dump_need_not_be_later() -> None:
    trace = profile_trace([2**32 - 9, 3], [2**32 - 5, 5], HOST_NANOSECONDS)
    assert [item.steps for item in suspected_widths(trace)] == [1]
    assert suspected_widths(trace, [1]) == []


def test_a_step_within_a_later_dump_or_of_a_later_tracer_is_one() -> None:
    readings = [7, 2**32 - 9, 3]
    trace = profile_trace(readings, readings, HOST_NANOSECONDS)
    assert [item.steps for item in suspected_widths(trace, [1])] == [1]
    assert suspected_widths(trace, [1, 2]) == []
    for tracers, steps in (([0, 1, 1], [1]), ([0, 1, 2], [])):
        tracer = np.array(tracers, np.uint16)
        found = suspected_widths(replace(trace, tracer=tracer).sealed())
        assert [item.steps for item in found] == steps


def test_each_clock_that_is_too_wide_to_wrap_is_suspected_by_its_own_events() -> None:
    clocks = (
        ClockDomain("narrow", None, 16),
        ClockDomain("down", None, 64, down=True),
        HOST_NANOSECONDS,
        ClockDomain("cycles", None),
    )
    trace = trace_of(RunSpec([EventSpec("a", 2**16 - 9, 5)] * 8))
    numbers = np.array([0, 1, 2, 3, 3, 0, 1, 2], np.uint8)
    found = suspected_widths(replace(trace, clocks=clocks, clock=numbers).sealed())
    assert [(one.number, one.clock, one.bits) for one in found] == [
        (2, "ns", 16),
        (3, "cycles", 16),
    ]
    assert [(one.reversed_events, one.steps, one.ticks) for one in found] == [
        (2, 0, "all ticks")
    ] * 2


@pytest.mark.parametrize(
    ("reading", "ticks"), [(2**24 - 1, "all ticks"), (2**24, "all ticks but those of delegates")]
)
def test_delegates_whose_ticks_exceed_the_width_are_named(reading: int, ticks: str) -> None:
    inner = EventSpec("", 2**24 - 20, reading, delegate="npu")
    trace = trace_of(RunSpec([inner, EventSpec("DELEGATE_CALL", 2**24 - 30, 5)]))
    (found,) = suspected_widths(trace)
    assert (found.bits, found.delegates, found.ticks) == (24, False, ticks)


def test_delegates_may_have_a_narrower_counter_than_their_caller() -> None:
    inner = EventSpec("", 2**24 - 5, 20, delegate="npu")
    trace = trace_of(RunSpec([inner, EventSpec("DELEGATE_CALL", 2**40, 2**40 + 100)]))
    (found,) = suspected_widths(trace)
    assert "all delegates' ticks are below 2**24" in found.text
    assert found.remedy == "--time-scale '*=1, 24 bits'"


def test_a_width_that_a_reading_exceeds_is_refused() -> None:
    trace = profile_trace([7, 9], [8, 2**20], HOST_NANOSECONDS)
    with pytest.raises(UsageError, match=r"--clock-bits 20: event 1 has a reading of 1,048,576"):
        with_width(trace, 20)
    assert with_width(trace, 21).clocks[0].bits == 21
    npu = ClockDomain("npu", None, 16)
    several = replace(trace, clocks=(HOST_NANOSECONDS, npu, HOST_NANOSECONDS)).sealed()
    assert with_width(several, 21).clocks == (
        *(ClockDomain("ns", HOST_NANOSECONDS.hz, 21), npu, HOST_NANOSECONDS),
    )


def operators(output: str) -> list[dict[str, object]]:
    found = json.loads(output)["operators"]
    return [{key: value for key, value in item.items() if key != "clock"} for item in found]


def test_decode_with_the_width_says_what_a_wide_counter_would(
    etharness: Etharness, wide: Path
) -> None:
    wrapped = etharness("decode", RECORDED, "--clock-bits", "32", "--json")
    whole = etharness("decode", wide, "--json")
    assert (wrapped.err, whole.err) == ("", "")
    assert operators(wrapped.out) == operators(whole.out)
    execute = next(op for op in operators(whole.out) if op["name"] == "Method::execute")
    assert execute["unknown"] == 0
    assert execute["ticks"]["max"] == 2**32 - 4294949547 + 215091  # type: ignore[index]


def test_decode_without_it_shows_no_time_that_cannot_be(
    etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    code, out, _ = etharness("decode", RECORDED)
    assert code == 0
    assert caplog.messages == [f"{RECORDED}: {ADVICE}"]
    (line,) = [line for line in out.splitlines() if line.startswith("Method::execute")]
    p50, p90, longest = line.split()[1:4]
    assert (line.split()[0], p50, p90, longest) == ("Method::execute", "166", "176", "179")
    assert "time steps back 1 time; events that end before they begin: 2\n" in out
    document = json.loads(etharness("decode", RECORDED, "--json").out)
    (clock,) = document["clocks"]
    assert (clock["suspected_bits"], clock["suspicion"]) == (32, ADVICE)
    assert [op["unknown"] for op in document["operators"]].count(1) == 2


def test_an_operator_of_which_nothing_is_known_has_no_times(
    etharness: Etharness, tmp_path: Path
) -> None:
    file = tmp_path / "x.etdp"
    file.write_bytes(
        write_ed00(trace_of(RunSpec([EventSpec("a", 2**32 - 9, 5), EventSpec("b", 6, 8)])))
    )
    lines = etharness("decode", file).out.splitlines()
    (line,) = [line for line in lines if line.startswith("a ")]
    assert line.split() == ["a", "#0", "?", "?", "1"]
    (a, b) = json.loads(etharness("decode", file, "--json").out)["operators"]
    assert (a["ticks"], a["ns"], a["unknown"]) == (None, None, 1)
    assert (b["ticks"]["total"], b["unknown"]) == (2, 0)
    tree = etharness("decode", file, "--tree").out
    assert [line.split()[2:4] for line in tree.splitlines() if line.split()[:1] == ["a"]] == [
        ["?", "?"]
    ]
    assert "1 events end before they start: what they took is unknown" in tree
    rows = etharness("export", file, "-f", "csv", "-o", tmp_path / "x.csv")
    assert rows.code == 0
    first = (tmp_path / "x.csv").read_text().splitlines()
    columns = dict(zip(first[0].split(","), first[1].split(","), strict=True))
    assert (columns["ticks"], columns["ns"]) == ("", "")
    changed = json.loads(etharness("compare", file, file, "--json").out)["comparison"]
    assert changed["appeared"] == changed["vanished"] == []
    times = {op["name"]: op["time"]["before"] for op in changed["operators"]}
    assert times == {"a": None, "b": 2.0}


def test_nothing_is_made_of_unknown_times(etharness: Etharness, tmp_path: Path) -> None:
    """By the report, a first budget, a share of it, and what tests are given."""
    file, budget = tmp_path / "x.etdp", tmp_path / "budget.toml"
    trace = trace_of(
        RunSpec([EventSpec("a", 2**32 - 9, 5), EventSpec("Method::execute", 6, 8, chain=-1)])
    )
    file.write_bytes(write_ed00(trace))
    assert etharness("report", file, "-o", tmp_path / "x.html").code == 1
    assert ">?<" in (tmp_path / "x.html").read_text()
    assert etharness("check", file, "--suggest", budget).code == 0
    assert "'a'" not in budget.read_text()
    budget.write_text("schema = 1\n[[time]]\nevent = 'a'\nlimit_percent = 5\n")
    checks = json.loads(etharness("check", file, "--budget", budget, "--json").out)["checks"]
    (share,) = [check for check in checks if check["code"] == "B01"]
    assert not share["passed"]
    times = OperatorTimes(operator_statistics(trace)[0])
    assert (times.count, repr(times)) == (1, "<a, instruction 0: p50 unknown>")
    with pytest.raises(UsageError, match="the duration of a is unknown"):
        _ = times.p50


@pytest.mark.parametrize("name", [n for n in format_names() if n != "netron"])  # needs the model
def test_every_export_takes_the_width(
    etharness: Etharness,
    wide: Path,
    tmp_path: Path,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "x"
    arguments = ("-f", name, "-o", file, "--force", "--json")
    plain = etharness("export", wide, *arguments)
    right = etharness("export", RECORDED, *arguments, "--clock-bits", "32")
    assert (plain.code, right.code, caplog.messages) == (0, 0, [])
    assert json.loads(right.out)["notes"] == json.loads(plain.out)["notes"]
    wrong = etharness("export", RECORDED, *arguments)
    assert wrong.code == 0
    assert json.loads(wrong.out)["notes"][0] == ADVICE
    assert caplog.messages == [f"{RECORDED}: {ADVICE}"]


def test_check_and_report_fail_without_the_width_and_pass_with_it(
    etharness: Etharness, tmp_path: Path
) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text(
        "schema = 1\n[[time]]\nevent = 'Method::execute'\nstatistic = 'max'\nlimit_us = 233\n"
        "[[time]]\nevent = 'native_call_cumsum.out'\nlimit_us = 10\n"
    )
    failed = etharness("check", RECORDED, "--budget", budget, "--json")
    assert failed.code == 1
    checks = {check["code"]: check for check in json.loads(failed.out)["checks"]}
    assert not checks["I03"]["passed"]
    assert checks["I03"]["reason"] == ADVICE.removeprefix("clock ns: ")
    limits = [check for check in json.loads(failed.out)["checks"] if check["code"] == "B01"]
    assert [check["passed"] for check in limits] == [False, True]
    assert limits[0]["reason"].endswith("their duration is unknown: see I03 and I04")
    right = ("--budget", budget, "--clock-bits", "32")
    bundle = tmp_path / "b.zip"
    assert etharness("check", RECORDED, *right).code == 0
    assert etharness("report", RECORDED, *right, "-o", bundle).code == 0
    assert etharness("report", RECORDED, *right, "-o", tmp_path / "x.html").code == 0
    assert etharness("report", RECORDED, "-o", tmp_path / "x.html").code == 1
    assert "identical to the verdict of" in etharness("replay", bundle).out


def test_compare_takes_the_width_for_both(etharness: Etharness, wide: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.etdp"
    offset = 2**32 - int(on_a_wide_counter().start[5]) % 2**32 - 3
    other.write_bytes(narrowed(on_a_wide_counter(), 32, offset, adding=False))
    same = etharness("compare", RECORDED, other, "--clock-bits", "32", "--json")
    assert same.code == 0
    document = json.loads(same.out)
    assert [document[side]["suspicions"] for side in ("before", "after")] == [[], []]
    changes = document["comparison"]["operators"]
    assert {change["time"]["difference"] for change in changes} == {0.0}
    mixed = json.loads(etharness("compare", wide, RECORDED, "--json").out)
    assert (mixed["before"]["suspicions"], mixed["after"]["suspicions"]) == ([], [ADVICE])


def test_the_rate_and_the_unit_go_with_the_width(etharness: Etharness, tmp_path: Path) -> None:
    def longest(*arguments: str) -> float:
        document = json.loads(etharness("decode", RECORDED, "--json", *arguments).out)
        return max(op["ns"]["max"] for op in document["operators"] if op["ns"])

    ticks = longest("--clock-bits", "32")
    assert longest("--clock-bits", "32", "--clock-hz", "1e6") == 1000 * ticks
    assert longest("--clock-bits", "32", "--source-time-scale", "us") == 1000 * ticks
    table = tmp_path / "x.tsv"
    assert etharness("decode", RECORDED, "--clock-bits", "32", "--tsv", table).code == 0
    assert "0.23284" in table.read_text()


def test_a_reading_beyond_the_width_is_an_error_of_usage(etharness: Etharness) -> None:
    code, _, err = etharness("decode", RECORDED, "--clock-bits", "24")
    assert code == 2
    assert "--clock-bits 24: event 0 has a reading of 4,275,416,249" in err
    assert "give --clock-bits 32 or more" in err


def test_the_inspector_takes_each_counter_for_as_wide_as_it_reads() -> None:
    """XNNPACK adds to a reading in 64 bits; that makes the tracer's own counter no wider."""
    nanoseconds = TimeScale.NS
    inspector = Inspector(
        etdump_path=RECORDED, source_time_scale=nanoseconds, target_time_scale=nanoseconds
    )
    events = [event for block in inspector.event_blocks for event in block.events]
    found = [time for event in events for time in event.perf_data.raw]
    trace = with_width(read_ed00(RECORDED.read_bytes()), 32)
    assert sorted(found) == sorted(durations(trace).tolist())


def test_the_width_replaces_that_of_a_run_directory_and_leaves_its_rate(
    etharness: Etharness, tmp_path: Path
) -> None:
    def clock(*arguments: str) -> list[object]:
        document = json.loads(etharness("decode", tmp_path / "run", "--json", *arguments).out)
        return [document["clocks"][0][key] for key in ("name", "hz", "bits")]

    run_directory(tmp_path / "run", made("1"), {"native_call_a": [5, 9, 7]})
    assert clock() == ["monotonic", 1e9, 32]
    assert clock("--clock-bits", "24") == ["monotonic", 1e9, 24]
    wider = etharness("decode", tmp_path / "run", "--clock-bits", "40")
    assert wider.code == 2
    assert "--clock-bits 40: the counter of the trace has 32 bits" in wider.err
