"""What is said of clocks: steps back, where events are on the host's clock, and why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import harness
from harness import (
    ClockDomain,
    ClockQuality,
    EvaluatedRun,
    Ping,
    Steadiness,
    Subject,
    Trace,
    Verdict,
    render_report,
)
from harness.analyze.placement import quality_of_run
from harness.report.description import describe
from harness.strategies import DeviceLog
from tests.conftest import CommandResult
from tests.support.logs import profile_trace

CLOCK = ClockDomain("systick", Fraction(10**6), 32)
FINE = ClockQuality(
    clock="systick",
    reference="host",
    readings=6,
    epochs=("first reading",),
    events=2,
    placed=2,
    bounded=2,
    half_width_ns=12_345,
    silent_wraps=0,
    unsettled=0,
    rate_ppm=(-1.25, 30.0),
    unknown="",
)


def lines(trace: Trace, *qualities: ClockQuality) -> list[str]:
    return list(described(Subject(trace, qualities=qualities)))


def described(subject: Subject) -> tuple[str, ...]:
    return describe(EvaluatedRun("run", subject, Verdict(()))).clock_lines


def test_nothing_is_said_of_a_clock_that_nobody_read_and_that_did_not_step_back() -> None:
    assert lines(profile_trace([1], [2], CLOCK)) == []


def test_the_bound_is_said_with_the_rate() -> None:
    assert lines(profile_trace([1], [2], CLOCK), FINE) == [
        "clock systick: on the host's clock within +-12.345 us, from 6 readings; "
        "its rate is -1.2 to +30.0 ppm off the declared one"
    ]


def test_what_is_not_known_is_said() -> None:
    trace = profile_trace([1], [2], CLOCK)
    partly = replace(FINE, rate_ppm=None, bounded=1, unknown="no luck", silent_wraps=3, unsettled=2)
    [text] = lines(trace, partly)
    assert text.endswith("; except 1 event: no luck; 2 events may hide 3 wraps of the counter")
    [text] = lines(trace, replace(FINE, half_width_ns=None, bounded=0, unknown="no luck"))
    assert text == "clock systick: not placed on the host's clock: no luck"


def test_steps_back_are_counted_per_clock() -> None:
    trace = profile_trace([10, 8], [10, 7], CLOCK)
    [text] = lines(trace)
    assert text == (
        "clock systick: time steps back 1 time; events that end before they begin: 1, each "
        "by at most 65,536 ticks"
    )


def test_json_has_the_steps_back_of_each_clock(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    file = tmp_path / "trace.etlog"
    log = DeviceLog().block("Execute").profile("a", 10, 10).profile("b", 8, 7)
    file.write_bytes(log.image())
    out = etharness("decode", file, "--clock-hz", "1000000", "--json").out
    [clock] = json.loads(out)["clocks"]
    assert (clock["backward_steps"], clock["reversed_events"], clock["jitter"]) == (1, 1, 65_536)
    assert (clock["hz"], clock["quality"]) == (1e6, None)


def test_a_span_that_cannot_be_is_said_and_no_error() -> None:
    clock = ClockDomain("c", None, 63)
    ends = [0, 2**61, 2**62, 3 * 2**61, 0] * 3
    assert lines(profile_trace(ends, ends, clock)) == [
        "clocks: events span more than can be: width or direction of a counter may be wrong"
    ]


def test_a_log_that_contradicts_its_readings_is_a_finding() -> None:
    pings = [Ping(0, 10, 1, 0), Ping(10**6, 10**6 + 10, 1, 1000)]
    [quality] = quality_of_run(profile_trace([0], [500_000], CLOCK), pings[1:], pings[0])
    assert (quality.events, quality.placed, quality.half_width_ns) == (1, 0, None)
    assert "the log covers more time" in quality.unknown
    assert quality_of_run(profile_trace([], [], CLOCK), pings) == ()


def test_a_silence_that_nothing_settles_says_what_would() -> None:
    narrow = ClockDomain("narrow", Fraction(10**6), 16)
    restart, later = Ping(-1000, 1000, 1, 0), 200_000
    after = Ping(later * 1000 - 1000, later * 1000 + 1000, 1, later % 2**16)
    trace = profile_trace([100], [200], narrow)
    [quality] = quality_of_run(trace, [after], restart)
    assert (quality.placed, quality.half_width_ns) == (0, None)
    assert quality.unknown.endswith("declare the clock's tolerance")
    [settled] = quality_of_run(trace, [after], restart, Steadiness(Fraction(50)))
    assert (settled.placed, settled.silent_wraps, settled.unsettled) == (1, 3, 1)


def test_events_without_any_reading_are_not_placed() -> None:
    [quality] = quality_of_run(profile_trace([0], [5], CLOCK), [])
    assert (quality.placed, quality.unknown) == (0, "the clock was not read")
    [quality] = quality_of_run(profile_trace([0], [5], CLOCK), [Ping(0, 10, 1, 9)])
    assert (quality.placed, quality.bounded) == (1, 0)
    assert quality.unknown == "a single reading does not determine the rate"


def test_a_clock_says_how_steady_it_is() -> None:
    assert Steadiness.of(CLOCK) == Steadiness()
    warm = replace(CLOCK, tolerance_ppm=50.0, wander_ppm=2.5)
    assert Steadiness.of(warm) == Steadiness(Fraction(50), Fraction(5, 2))


def test_the_rate_of_the_hosts_own_clock_is_not_mentioned() -> None:
    [text] = lines(profile_trace([1], [2], CLOCK), replace(FINE, rate_ppm=(0.0, 0.0)))
    assert text == "clock systick: on the host's clock within +-12.345 us, from 6 readings"


def test_emulated_time_is_called_that() -> None:
    emulated = replace(FINE, rate_ppm=(-761_579.0, -761_570.0))
    trace = profile_trace([1], [2], CLOCK)
    subject = Subject(trace, qualities=(emulated,), emulated_time=True)
    [line] = described(subject)
    assert line.startswith("clock systick: emulated time: ")
    assert "host's clock" not in line
    assert "ppm" not in line
    page = render_report("report.html", [EvaluatedRun("run", subject, Verdict(()))]).decode()
    assert "emulated time" in page
    assert "ppm" not in page
    assert harness.Board.load("qemu-mps2-an385").emulated_time
    assert not harness.Board.load("native").emulated_time
