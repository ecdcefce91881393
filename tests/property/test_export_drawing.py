"""Traces on one clock: every event once, nested as it was, to the nanosecond."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    NO_CLOCK,
    ClockDomain,
    Drawing,
    FormatError,
    Kind,
    Subject,
    Trace,
    draw,
    export_trace,
    read_log,
)
from harness.analyze.ticks import forward
from harness.extensions.exports.event_times import floor_nanoseconds
from harness.extensions.exports.timeline import arrange
from harness.strategies import device_logs, traces
from tests.support.examples import examples
from tests.support.exports import check_nesting
from tests.support.logs import CompactLog

any_trace = st.one_of(
    traces(),
    device_logs().map(lambda log: read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)])),
)


def attempt(trace: Trace) -> Drawing | None:
    """Draw; None for events that no counter of this width can have stamped."""
    try:
        return draw(trace)
    except FormatError:
        return None


@given(any_trace)
@settings(max_examples=examples(40))
def test_every_event_with_a_time_is_drawn_once_or_counted(trace: Trace) -> None:
    drawing = attempt(trace)
    if drawing is None:
        return
    check_nesting(drawing)
    for one, following in pairwise(drawing.phases):
        assert one.start <= one.end
        assert one.tracer < following.tracer or one.end <= following.start
    assert len(set(drawing.row.tolist())) == len(drawing)
    events = (trace.kind == Kind.PROFILE) | (trace.kind == Kind.DEBUG)
    timed = np.flatnonzero((trace.clock != NO_CLOCK) & events)
    missing = set(timed.tolist()) - set(drawing.row.tolist())
    assert set(drawing.row.tolist()) <= set(timed.tolist())
    samples = (trace.kind == Kind.SAMPLE) & ~np.isnan(trace.level)
    sampled = sum(len(counter.time) for counter in drawing.counters if counter.unit == "value")
    assert sampled == np.count_nonzero(samples)
    assert len(drawing.marks) == np.count_nonzero(trace.kind == Kind.MARK)
    for span in drawing.contexts:
        assert 0 <= span.start < span.end
    assert (f"{len(missing)} delegate events" in " ".join(drawing.notes)) == bool(missing)


@given(any_trace)
@settings(max_examples=examples(50))
def test_every_trace_that_can_be_drawn_is_valid_json(trace: Trace) -> None:
    drawing = attempt(trace)
    if drawing is None:
        return
    document = json.loads(export_trace(trace, "kineto").data, parse_float=Fraction)
    slices = [event for event in document["traceEvents"] if "Ev Idx" in event.get("args", {})]
    assert sorted(event["args"]["Ev Idx"] for event in slices) == sorted(drawing.row.tolist())
    number_of = {row: number for number, row in enumerate(drawing.row.tolist())}
    for event in slices:
        number = number_of[event["args"]["Ev Idx"]]
        assert event["ts"] * 1000 == drawing.start[number]
        assert (event["ts"] + event["dur"]) * 1000 == drawing.end[number]


@given(any_trace, st.sampled_from(["perfetto", "chakra"]))
@settings(max_examples=examples(40))
def test_every_trace_that_can_be_drawn_is_written_as_protobuf(trace: Trace, name: str) -> None:
    pytest.importorskip("google.protobuf")
    drawing = attempt(trace)
    if drawing is None:
        return
    from harness.extensions.exports.perfetto import MESSAGES, messages

    data = export_trace(trace, name).data
    if name == "perfetto":
        packets = messages("property", MESSAGES)["Trace"].FromString(data).packet
        begun = [packet.timestamp for packet in packets if packet.track_event.type == 1]
        starts = [*drawing.start.tolist(), *(gap.start for gap in drawing.gaps)]
        starts += [span.start for span in (*drawing.phases, *drawing.contexts)]
        starts += [0] if len(drawing) else []  # the run
        assert sorted(begun) == sorted(starts)
        ended = [packet.timestamp for packet in packets if packet.track_event.type == 2]
        changes = [c.time.max() for c in drawing.counters if c.unit == "bytes" and len(c.time)]
        assert not begun or max(ended) >= max([drawing.end.max(), *changes])


@st.composite
def calls(draw_: st.DrawFn, depth: int = 3) -> list[object]:
    """Nested scopes: each a pair of the ticks before it and what is inside."""
    count = draw_(st.integers(0, 3 if depth else 0))
    return [(draw_(st.integers(1, 50)), draw_(calls(depth - 1))) for _ in range(count)]


def log_of(nested: list[object], log: CompactLog, now: int, around: list[int]) -> int:
    """Log scopes as they end; ``around`` gets, per event, how many are around it."""

    def emit(scopes: list[object], now: int, depth: int) -> int:
        for before, inside in scopes:  # type: ignore[misc]
            begin = now + before
            now = emit(inside, begin, depth + 1) + 3
            log.profile("scope", begin % 2**32, now % 2**32)
            around.append(depth)
        return now

    return emit(nested, now, 0)


@given(calls(), st.integers(0, 2**32 - 1), st.fractions(1, 10**9, max_denominator=1000))
@settings(max_examples=examples(50))
def test_scopes_are_drawn_as_they_were_nested(
    nested: list[object], origin: int, hz: Fraction
) -> None:
    log, around = CompactLog().block("Execute"), []
    log_of(nested, log, origin, around)
    clock = ClockDomain("cpu", hz, 32)
    trace = read_log(log.image(), [clock])
    drawing = draw(trace)
    check_nesting(drawing)
    assert drawing.notes == ()
    assert [around[row] for row in drawing.row.tolist()] == drawing.depth.tolist()
    tree = Subject(trace).tree
    assert tree.depth[drawing.row].tolist() == drawing.depth.tolist()
    if len(trace):
        first = min(range(len(trace)), key=lambda row: (int(trace.start[row]) - origin) % 2**32)
        ticks = forward(clock, np.full(len(trace), trace.start[first]), trace.start)
        exact = [int(tick * 10**9 / hz // 1) for tick in ticks.tolist()]
        assert drawing.start.tolist() == [exact[row] for row in drawing.row.tolist()]


@given(
    st.lists(st.integers(0, 2**62), max_size=5),
    st.fractions(Fraction(1, 1000), 10**10, max_denominator=10**6).filter(lambda hz: hz > 0),
)
def test_nanoseconds_are_rounded_down_exactly(ticks: list[int], hz: Fraction) -> None:
    exact = [int(tick * 10**9 / hz // 1) for tick in ticks]
    if max(exact, default=0) < 2**63:
        found = floor_nanoseconds(np.array(ticks, np.int64), ClockDomain("x", hz))
        assert found.tolist() == exact


intervals = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), max_size=12)


@given(intervals)
def test_slices_that_overlap_get_lanes_and_those_apart_share_one(
    pairs: list[tuple[int, int]],
) -> None:
    start = np.array([begin for begin, _ in pairs], np.int64)
    end = start + np.array([length for _, length in pairs], np.int64)
    none = np.full(len(pairs), -1)
    order, of, depth, tracks = arrange(start, end, none, np.zeros(len(pairs), np.int64))
    assert sorted(order.tolist()) == list(range(len(pairs)))
    most = 0  # slices at one moment: the least number of lanes
    for moment in range(40):
        most = max(
            most, sum(begin <= moment < stop for begin, stop in zip(start, end, strict=True))
        )
    assert len(tracks) == max(most, bool(pairs))
    for track in range(len(tracks)):
        rows = order[of == track]
        assert (start[rows[1:]] >= end[rows[:-1]]).all()
    assert not depth.any()


jobs = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 300), st.integers(0, 500), st.integers(0, 300)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(50))
@given(jobs, st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1))
def test_a_delegates_events_are_no_further_off_than_said(
    calls: list[tuple[int, int, int, int]], npu_origin: int, origin: int
) -> None:
    """One steady delegate's clock, 15 ticks for 4 of the CPU's; the truth is within the slack."""
    cpu, npu = (
        ClockDomain("cpu", Fraction(80_000_000), 32),
        ClockDomain("npu", Fraction(3 * 10**8), 24),
    )
    log, now, truth = CompactLog().block("Execute"), 0, []
    first = calls[0][0]  # the drawing begins with the first call
    for pause, before, length, behind in calls:
        begin = now + pause
        job = begin + before
        now = job + length + behind
        ticks = [(npu_origin + at * 15 // 4) % 2**24 for at in (job, job + length)]
        log.delegate("job", -1).profile(None, *ticks, clock=1)
        log.profile("DELEGATE_CALL", (origin + begin) % 2**32, (origin + now) % 2**32)
        truth.append((job - first) * 12.5)
    drawing = draw(read_log(log.image(), [cpu, npu]))
    check_nesting(drawing)
    drawn = [number for number in range(len(drawing)) if drawing.name(number) == "job"]
    for number, true in zip(drawn, truth, strict=True):
        # A reading stands for all of its tick, and is rounded down to nanoseconds.
        assert abs(drawing.start[number] - true) <= drawing.slack[number] + 13.5


def test_an_origin_changes_nothing() -> None:
    log = CompactLog().block("Execute").profile("a", 5, 9).profile("b", 2, 10)
    clock = ClockDomain("cpu", Fraction(1000), 32)
    trace = read_log(log.image(), [clock])
    moved = replace(
        trace, start=trace.start + np.uint64(77), end=trace.end + np.uint64(77)
    ).sealed()
    one, other = draw(trace), draw(moved)
    assert one.start.tolist() == other.start.tolist() == [0, 3_000_000]
    assert one.end.tolist() == other.end.tolist() == [8_000_000, 7_000_000]
