"""Hardware counters of the C tracer, on made-up counters, as the host decodes them."""

from __future__ import annotations

import ctypes as ct
import hashlib

import numpy as np
import pytest

from harness import NO_COUNT, EmptyEvents, HardwareCounter, Trace, read_log
from tests.support.counters import Counters, MadeUp
from tests.support.tracer import CTracer

CYCLES = MadeUp(b"cycles", step=1000)
LOADS = MadeUp(b"loads", step=7)
EIGHT_BITS = MadeUp(b"lsu", bits=8, step=300)
ZERO = MadeUp(b"fetch_stall", step=0)
PLAIN_LOG = "72a1b832cb204bf8612370b0f5a3d26a0e2daa920667e69e5edeb04c24d38953"
"""SHA-256 of the log that the tracer wrote before it had counters."""


def log_events(tracer: CTracer, executions: int = 2) -> None:
    """Loading, then executions of two kernels within an operator call, one of a delegate."""
    tracer.call("create_event_block", b"Default")
    outer = tracer.start(b"Program::load_method", -1, 0)
    allocator = tracer.call("track_allocator", b"planned_1")
    tracer.call("track_allocation", allocator, 64, 0)
    tracer.call("end_profiling", outer)
    for _ in range(executions):
        tracer.call("create_event_block", b"Execute")
        method = tracer.start(b"Method::execute", -1, 0)
        call = tracer.start(b"OPERATOR_CALL", 0, 1)
        kernel = tracer.start(b"native_call_add.out", 70_000, 1)
        tracer.call("end_profiling", kernel)
        tracer.call("end_profiling", call)
        delegate = tracer.call("start_profiling_delegate", b"npu", -1)
        tracer.call("end_profiling_delegate", delegate, b"metadata of it", 14)
        tracer.call("log_profiling_delegate", b"npu", -1, 0, 1, 2, None, 0)
        tracer.call("end_profiling", method)


def counted(
    library: ct.CDLL, counters: list[MadeUp], indexes: list[int], *, size: int = 4000
) -> tuple[CTracer, Counters]:
    tracer, source = CTracer(library, size), Counters(library, counters, at_once=8)
    assert source.start(tracer._state, indexes)
    return tracer, source


def names(trace: Trace) -> list[str | None]:
    return [trace.text(int(name)) for name in trace.name]


def test_without_counters_the_log_is_what_it_always_was(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4000)
    log_events(tracer)
    assert hashlib.sha256(tracer.image()).hexdigest() == PLAIN_LOG


@pytest.mark.parametrize("count", range(1, 9))
def test_counts_are_the_differences_from_start_to_end(etstub: ct.CDLL, count: int) -> None:
    offered = [MadeUp(f"counter {i}".encode(), step=i * i) for i in range(10)]
    indexes = [9 - i for i in range(count)]
    tracer, _ = counted(etstub, offered, indexes)
    log_events(tracer)
    trace = read_log(tracer.image())
    assert [counter.name for counter in trace.counters] == [f"counter {i}" for i in indexes]
    assert {counter.bits for counter in trace.counters} == {32}
    has = trace.counts[:, 0] != NO_COUNT
    assert (has == (trace.counts != NO_COUNT).all(axis=1)).all()
    steps = np.array([i * i for i in indexes])
    # Each reading of the clock is one of the counters; an event has one more than lie within it.
    readings = (trace.end[has] - trace.start[has]).astype(np.int64) // 7
    assert (trace.counts[has] == readings[:, None] * steps).all()


def test_profile_events_have_counts_and_others_have_none(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [CYCLES], [0])
    log_events(tracer)
    trace = read_log(tracer.image())
    with_counts = [
        (name, bool(count >= 0))
        for name, count in zip(names(trace), trace.counts[:, 0], strict=True)
    ]
    # An allocation, and an event of a delegate that had ended before it was logged.
    assert [found for found in with_counts if not found[1]] == [(None, False)] * 3
    assert len(with_counts) == 12
    assert (trace.delegated & (trace.counts[:, 0] >= 0)).sum() == 2


def test_counting_changes_nothing_else_in_the_log(etstub: ct.CDLL) -> None:
    plain = CTracer(etstub, 4000)
    log_events(plain)
    counting, source = counted(etstub, [CYCLES, LOADS, EIGHT_BITS, ZERO], [0, 1, 2, 3])
    counting.now = 0  # the costs of empty events were measured first
    log_events(counting)
    without, having = read_log(plain.image()), read_log(counting.image())
    assert names(without) == names(having)
    for column in ("kind", "chain", "instruction", "delegate_int", "start", "end", "size"):
        assert (getattr(without, column) == getattr(having, column)).all(), column
    assert [having.metadata_of(row) for row in range(len(having))] == [
        without.metadata_of(row) for row in range(len(without))
    ]
    assert having.blocks == without.blocks
    assert source.selected == [0, 1, 2, 3]


def test_a_narrow_counter_counts_modulo_its_width(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [EIGHT_BITS, ZERO], [0, 1])
    log_events(tracer)
    trace = read_log(tracer.image())
    [narrow, zero] = trace.counters
    assert (narrow.name, narrow.bits) == ("lsu", 8)
    has = trace.counts[:, 0] >= 0
    readings = (trace.end[has] - trace.start[has]).astype(np.int64) // 7
    assert (trace.counts[has, 0] == readings * 300 % 256).all()
    assert (trace.counts[has, 1] == 0).all()
    assert (zero.overhead, zero.parent_overhead) == (0, 0)


def test_the_costs_of_an_empty_event_are_in_the_log(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [CYCLES], [0])
    # One reading from start to end; around eight events with two readings each lie 17.
    assert read_log(tracer.image()).counters == (
        HardwareCounter("cycles", 32, overhead=1000, parent_overhead=17 * 1000 // 8),
    )


@pytest.mark.parametrize("count", [1, 8])
def test_the_ticks_of_an_empty_event_are_in_the_log(etstub: ct.CDLL, count: int) -> None:
    offered = [MadeUp(f"counter {i}".encode()) for i in range(count)]
    tracer, source = counted(etstub, offered, list(range(count)))
    [measured] = read_log(tracer.image()).empty_events
    # Nine events: each reads the clock twice, which then advances by 7, as does the last reading.
    assert measured == EmptyEvents(9, (2 * 9 + 1) * 7)
    assert source.readings == 2 * (8 + measured.count)
    plain = CTracer(etstub, 4000)
    log_events(plain)
    assert read_log(plain.image()).empty_events == ()


def test_a_chunk_can_be_decoded_alone(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [CYCLES, LOADS], [0, 1])
    log_events(tracer, 1)
    first = tracer.image()
    tracer.call("log_recycle")
    log_events(tracer, 1)
    second = tracer.image()
    whole, alone = read_log(second + first), read_log(second)
    assert [counter.name for counter in alone.counters] == ["cycles", "loads"]
    assert alone.counters == whole.counters
    assert alone.empty_events == whole.empty_events != ()
    assert (alone.counts == whole.counts[-len(alone) :]).all()
    assert whole.losses.records == 0
    assert alone.losses.chunks == 1


def test_dropping_runs_keeps_the_counters(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [CYCLES, LOADS, ZERO, EIGHT_BITS], [0, 1, 2, 3], size=1400)
    tracer.call("set_when_full", 1)
    for _ in range(5):
        log_events(tracer, 3)
    trace = read_log(tracer.image())
    assert trace.losses.runs > 5
    assert len(trace.counters) == 4
    assert len(trace.empty_events) == 1
    has = trace.counts[:, 0] >= 0
    assert has.sum() > 5
    assert (
        trace.counts[has, 0] == (trace.end[has] - trace.start[has]).astype(np.int64) // 7 * 1000
    ).all()


@pytest.mark.parametrize("size", [0, 40, 100, 150, 200, 250, 300, 400])
def test_a_full_log_has_no_wrong_counts(etstub: ct.CDLL, size: int) -> None:
    tracer, source = CTracer(etstub, size), Counters(etstub, [CYCLES, LOADS, ZERO, EIGHT_BITS])
    started = source.start(tracer._state, [0, 1, 2, 3])
    log_events(tracer)
    trace = read_log(tracer.image())
    assert bool(trace.counters) == started
    assert trace.losses.any
    for counts, start, end in zip(trace.counts, trace.start, trace.end, strict=True):
        if started and counts[0] != NO_COUNT:
            assert counts[0] == int(end - start) // 7 * 1000


def test_events_beyond_the_stored_depth_have_no_counts(etstub: ct.CDLL) -> None:
    tracer, _ = counted(etstub, [CYCLES], [0])
    tracer.call("create_event_block", b"Execute")
    events = [tracer.start(b"nested", -1, 0) for _ in range(6)]
    for event in reversed(events):
        tracer.call("end_profiling", event)
    counts = read_log(tracer.image()).counts[:, 0]
    # The fifth and sixth took the place of the fourth.
    assert (counts[:3] == NO_COUNT).all()
    assert (counts[3:] > 0).all()


@pytest.mark.parametrize("indexes", [[], [2], [0, 0], [0, 1, 0], list(range(9))])
def test_wrong_selections_count_nothing(etstub: ct.CDLL, indexes: list[int]) -> None:
    tracer, source = CTracer(etstub, 4000), Counters(etstub, [CYCLES, LOADS])
    assert not source.start(tracer._state, indexes)
    log_events(tracer)
    assert read_log(tracer.image()).counters == ()
    assert source.readings == 0


def test_no_more_selectable_counters_than_there_are(etstub: ct.CDLL) -> None:
    offered = [MadeUp(name, selectable=True) for name in (b"a", b"b", b"c")]
    source = Counters(etstub, [*offered, CYCLES], at_once=2)
    assert not source.start(CTracer(etstub, 4000)._state, [0, 1, 2])
    assert source.start(CTracer(etstub, 4000)._state, [3, 0, 2])
