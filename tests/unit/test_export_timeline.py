"""Placing a trace on one clock: delegates in their calls, lines, flows, counters, gaps."""

from __future__ import annotations

from dataclasses import astuple, fields, replace
from fractions import Fraction

import numpy as np
import pytest

from harness import ClockDomain, Losses, UsageError, draw, export_trace, read_ed00, read_log
from harness.extensions.exports.event_times import floor_nanoseconds
from tests.conftest import FIXTURES
from tests.support.exports import CPU, NPU, check_nesting, delegated_trace, named, two_tracers
from tests.support.logs import CompactLog


def test_tracks_are_the_tracer_and_its_delegate() -> None:
    drawing = draw(delegated_trace())
    check_nesting(drawing)
    assert [track.name for track in drawing.tracks] == ["operators", "operators in delegate #0"]
    assert [track.call for track in drawing.tracks] == [None, (0, 0)]
    assert len(drawing) == 1 + 3 * 5


def test_scopes_that_repeat_a_kernels_time_are_drawn_on_request() -> None:
    trace = delegated_trace()
    drawing, whole = draw(trace), draw(trace, wrappers=True)
    check_nesting(whole)
    assert len(named(whole, "OPERATOR_CALL")) == 3
    assert named(drawing, "OPERATOR_CALL") == []
    note = "3 scopes around kernels, whose time they repeat; --flavour scopes has them"
    assert note in drawing.notes
    assert note not in whole.notes
    for kernel in named(drawing, "native_call_sigmoid.out"):
        assert drawing.name(int(drawing.parent[kernel])) == "Method::execute"
    # What they took themselves is the execution's: 5 and 1 ticks of 12.5 ns.
    (folded,), (own,) = (
        {int(d.own[n]) for n in named(d, "Method::execute")} for d in (drawing, whole)
    )
    assert folded - own == 75
    # One without a kernel is all that is known of its instruction.
    log = CompactLog().block("Execute").profile("OPERATOR_CALL", 10, 20)
    assert len(draw(read_log(log.image(), [CPU]))) == 1
    for name in ("perfetto", "kineto", "speedscope", "folded"):
        data = [export_trace(trace, name, flavour).data for flavour in ("kernels", "scopes")]
        assert [b"OPERATOR_CALL" in one for one in data] == [False, True], name
        assert export_trace(trace, name).data == data[0]


def test_a_delegates_events_are_within_their_call_as_long_as_they_took() -> None:
    drawing = draw(delegated_trace())
    calls, jobs = named(drawing, "DELEGATE_CALL"), named(drawing, "[0]")
    assert len(calls) == len(jobs) == 3
    for call, first, last in zip(calls, jobs, named(drawing, "matmul"), strict=True):
        room = int(drawing.end[call] - drawing.start[call])
        assert room == pytest.approx(970 * 12.5, abs=1)
        # 1,900 ticks of the NPU from the first job to the end of the second
        assert drawing.end[last] - drawing.start[first] == pytest.approx(1900 * 8 / 3, abs=1)
        assert drawing.start[call] <= drawing.start[first]
        assert drawing.end[last] <= drawing.end[call]
        assert 0 < drawing.slack[first] <= (room - 1900 * 8 / 3) / 2 + 1
        assert drawing.arguments(first)["placed_within_ns"] == drawing.slack[first]
    note = "3 calls with delegate events that may be earlier or later than drawn"
    assert note in drawing.notes
    assert drawing.flows == tuple(
        (call, event)
        for call, first, last in zip(calls, jobs, named(drawing, "matmul"), strict=True)
        for event in (first, last)
    )


def test_a_delegate_with_its_callers_clock_stays_where_its_ticks_say() -> None:
    log = CompactLog().block("Execute").delegate("conv", -1).profile(None, 15, 17)
    log.profile("DELEGATE_CALL", 10, 30)
    drawing = draw(read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)]))
    (call,), (conv,) = named(drawing, "DELEGATE_CALL"), named(drawing, "conv")
    assert drawing.start[conv] - drawing.start[call] == 5
    assert drawing.slack[conv] == 0
    assert drawing.notes == ()


def test_a_call_shorter_than_its_delegates_events_is_said_to_be() -> None:
    log = CompactLog().block("Execute").delegate(None, 4).profile(None, 0, 90, clock=1)
    log.profile("DELEGATE_CALL", 10, 30)
    clock = ClockDomain("cpu", Fraction(10**9), 32)
    drawing = draw(read_log(log.image(), [clock, replace(clock, name="npu")]))
    (call,), (job,) = named(drawing, "DELEGATE_CALL"), named(drawing, "[4]")
    assert drawing.start[job] == drawing.start[call]
    assert drawing.end[job] - drawing.start[job] == 90
    assert drawing.slack[job] == 70
    assert "1 calls shorter than the delegate events in them" in drawing.notes


def test_what_nothing_places_is_counted() -> None:
    log = CompactLog().block("Execute").delegate(None, 4).profile(None, 0, 90, clock=1)
    log.profile("other", 100, 130, instruction=9)
    clocks = [CPU, ClockDomain("npu", None, 24)]
    drawing = draw(read_log(log.image(), clocks))
    assert len(drawing) == 1
    assert drawing.notes == ("1 delegate events without a call or with an unknown clock rate",)


def test_overlapping_events_of_a_delegate_get_lanes() -> None:
    log = CompactLog().block("Execute")
    for start, end in ((0, 50), (20, 80), (55, 60)):
        log.delegate(None, start).profile(None, start, end, clock=1)
    log.profile("DELEGATE_CALL", 0, 1000)
    drawing = draw(read_log(log.image(), [CPU, NPU]))
    check_nesting(drawing)
    assert [track.name for track in drawing.tracks] == [
        "operators",
        "operators in delegate #0",
        "operators in delegate #0 (overlapping 1)",
    ]


def test_counters_follow_every_allocation_that_succeeded() -> None:
    method, temporary = draw(delegated_trace()).counters
    assert (method.name, method.value.tolist()) == ("method", [640])
    assert temporary.name == "temporary \\\\ 1"
    assert temporary.value.tolist() == [384, 0] * 3
    assert (np.diff(temporary.time) > 0).all()


def test_losses_are_gaps_where_they_may_be() -> None:
    drawing = draw(delegated_trace())
    runs, events = drawing.gaps
    assert (runs.name, events.name) == ("2 runs lost", "3 events lost, somewhere here")
    (load,), executions = named(drawing, "Method::init"), named(drawing, "Method::execute")
    assert (runs.start, runs.end) == (drawing.end[load], drawing.start[executions[0]])
    assert (events.start, events.end) == (0, drawing.end[executions[-1]])
    assert draw(replace(delegated_trace(), losses=Losses())).gaps == ()


def test_every_kind_of_loss_is_drawn() -> None:
    losses = Losses(*range(1, 1 + len(fields(Losses))))
    gaps = draw(replace(delegated_trace(), losses=losses)).gaps
    assert sorted(int(gap.name.split()[0]) for gap in gaps) == sorted(astuple(losses))


def test_arguments_say_what_the_log_does() -> None:
    drawing = draw(delegated_trace())
    job = named(drawing, "matmul")[0]
    found = drawing.arguments(job)
    del found["placed_within_ns"], found["event"]
    assert found == {
        **{"chain": 0, "instruction": 0, "delegate_str": "matmul", "metadata": "01ff"},
        **{"start_ticks": 2**24 - 1500, "end_ticks": 2**24 - 600, "clock": "npu"},
    }


def test_a_clock_without_a_rate_is_refused_with_its_remedy() -> None:
    trace = replace(delegated_trace(), clocks=(replace(CPU, hz=None), NPU))
    with pytest.raises(UsageError, match="'cpu': the rate is unknown") as caught:
        draw(trace)
    assert "--clock-hz" in caught.value.hint


def test_more_than_63_bits_of_nanoseconds_are_refused() -> None:
    slow = ClockDomain("slow", Fraction(1), 64)
    assert floor_nanoseconds(np.array([2**33], np.int64), slow).tolist() == [2**33 * 10**9]
    with pytest.raises(UsageError, match="63 bits"):
        floor_nanoseconds(np.array([2**40], np.int64), slow)


def test_what_executorch_recorded_is_drawn_whole() -> None:
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    drawing = draw(trace, wrappers=True)
    check_nesting(drawing)
    assert len(drawing) == len(trace)
    assert [track.name for track in drawing.tracks] == ["operators"]
    assert drawing.depth.max() == 2


def test_tracers_are_threads_with_counters_of_their_own() -> None:
    drawing = draw(two_tracers(), wrappers=True)
    check_nesting(drawing)
    assert [track.name for track in drawing.tracks] == ["operators", "operators of tracer 1"]
    assert [drawing.name(number) for number in range(4)] == ["OPERATOR_CALL"] * 2 + [
        "native_call_a.out"
    ] * 2
    assert drawing.parent.tolist() == [-1, -1, 0, 1]
    assert [counter.title for counter in drawing.counters] == ["method", "method of tracer 1"]
    assert [counter.value.tolist() for counter in drawing.counters] == [[8], [16]]
