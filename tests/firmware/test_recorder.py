"""A flight recorder: the log of the last moments."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import Losses, WhenFull, read_log
from tests.conftest import CommandResult
from tests.support.examples import examples
from tests.support.tracer import CTracer


def recorded(library: ct.CDLL, size: int, clock_bits: int = 32) -> CTracer:
    tracer = CTracer(library, size)
    tracer.clock_bits = clock_bits
    tracer.call("set_when_full", WhenFull.DROP_OLDEST_RUNS)
    tracer.call("create_event_block", b"Default")
    tracer.call("track_allocator", b"method")
    return tracer


def run(tracer: CTracer, number: int, events: int = 2, begun: int = 0) -> int:
    """A run whose index and events say which it is; returns when its last event ended.

    ``begun``: the last so many events do not end.
    """
    tracer.call("create_event_block", b"Execute")
    tracer.call("set_bundled_input_index", number)
    end = tracer.now
    for instruction in range(events):
        event = tracer.start(b"layer", number, instruction)
        if instruction < events - begun:
            tracer.call("end_profiling", event)
            end = tracer.now
    return end


def kept_runs(tracer: CTracer) -> tuple[list[int], Losses]:
    trace = read_log(tracer.image())
    first, *blocks = trace.blocks
    assert (first.name, first.allocators[0]) == ("Default", "method")
    for block in blocks:
        rows = slice(block.first, block.first + block.count)
        assert (trace.chain[rows] == block.bundled_input_index).all()
    return [block.bundled_input_index for block in blocks], trace.losses


def keep_last(tracer: CTracer, ticks: int) -> None:
    assert keeps_last(tracer, ticks, tracer.clock_bits)


def keeps_last(tracer: CTracer, ticks: int, clock_bits: int) -> bool:
    """Whether the log was cut, as the low byte of the result says."""
    result = tracer.call("keep_last", ct.c_uint64(ticks), clock_bits)
    assert isinstance(result, int)
    return bool(result & 0xFF)


GAPS = st.one_of(st.integers(0, 2000), st.floats(0, 1))
"""Ticks, or a part of what is left of a wrap."""


@given(
    runs=st.lists(st.tuples(GAPS, st.integers(0, 6), st.booleans()), max_size=30),
    keep=st.one_of(st.integers(0, 20_000), st.floats(0, 6)),
    size=st.sampled_from([512, 1024, 8192]),
    clock_bits=st.sampled_from([16, 24, 31, 32]),
)
@example(runs=[(10, 2, False)] * 3, keep=0, size=1024, clock_bits=32)
@example(runs=[(0.5, 1, False)] * 9, keep=3.0, size=8192, clock_bits=32)
@example(runs=[(0.5, 1, False)] * 9, keep=3.0, size=8192, clock_bits=24)
@example(runs=[(0, 6, False)] * 30, keep=10**6, size=512, clock_bits=32)
@settings(max_examples=examples(200), deadline=None)
def test_what_ended_before_is_dropped_and_counted(
    etstub: ct.CDLL,
    runs: list[tuple[float, int, bool]],
    keep: float,
    size: int,
    clock_bits: int,
) -> None:
    tracer = recorded(etstub, size, clock_bits)
    wrap = 1 << clock_bits
    if isinstance(keep, float):
        keep = int(keep * wrap)
    ends = []
    for number, (gap, events, declares) in enumerate(runs):
        tracer.now += int(gap * (wrap - 10_000)) if isinstance(gap, float) else int(gap)
        ends.append(run(tracer, number, events))
        if declares:
            tracer.call("track_allocator", b"later")
    before, losses = kept_runs(tracer)
    keep_last(tracer, keep)
    now = tracer.now
    after, later = kept_runs(tracer)
    assert before[len(before) - len(after) :] == after
    assert later == Losses(
        events=losses.events,
        blocks=losses.blocks,
        runs=losses.runs + len(before) - len(after),
    )
    # A run without events is as old as the one before it.
    if before and losses.events == 0 and all(events for _, events, _ in runs):
        assert after == [n for n in before if now - ends[n] <= keep or n == before[-1]]
    assert before == [] or after[-1] == before[-1]
    # The log goes on, and the newest run's block is where the tracer expects it.
    if before:
        tracer.call("set_bundled_input_index", before[-1])
        assert kept_runs(tracer)[0] == after
    run(tracer, len(runs), 1)
    assert losses.events or kept_runs(tracer)[0][-1] == len(runs)


def test_a_trigger_freezes_what_led_to_it(
    etstub: ct.CDLL, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    tracer = recorded(etstub, 16 << 10)
    for number in range(100):
        tracer.now += 1000
        run(tracer, number)
    keep_last(tracer, 5_000)
    tracer.call("set_paused", True)
    for number in range(100, 110):
        run(tracer, number)
    runs, losses = kept_runs(tracer)
    assert (runs, losses) == ([95, 96, 97, 98, 99], Losses(runs=95))
    (tmp_path / "log.etlog").write_bytes(tracer.image())
    code, shown, _ = etharness("decode", str(tmp_path / "log.etlog"))
    assert code == 0
    assert "95 executions overwritten by newer ones" in " ".join(shown.split())


def test_a_run_that_has_not_ended_stays_with_those_before_it(etstub: ct.CDLL) -> None:
    """As in a fault handler. What ends afterwards is in its block."""
    tracer = recorded(etstub, 4096)
    for number in range(10):
        tracer.now += 1000
        run(tracer, number)
    run(tracer, 10, events=3, begun=2)
    keep_last(tracer, 1500)
    assert kept_runs(tracer) == ([8, 9, 10], Losses(runs=8))
    tracer.call("log_recycle")
    tracer.call("end_profiling", tracer.start(b"layer", 10, 7))
    trace = read_log(tracer.image())
    assert [block.bundled_input_index for block in trace.blocks][-1] == 10
    assert trace.instruction.tolist()[-1] == 7


def test_a_log_that_became_full_keeps_its_newest_run(etstub: ct.CDLL) -> None:
    tracer = recorded(etstub, 512)
    for number in range(5):
        run(tracer, number)
    run(tracer, 5, events=100)
    keep_last(tracer, 0)
    runs, losses = kept_runs(tracer)
    assert runs == [5]
    assert losses.events > 0


def test_what_has_no_runs_is_left_alone(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 512)
    tracer.call("set_when_full", WhenFull.DROP_OLDEST_RUNS)
    keep_last(tracer, 0)
    tracer.call("create_event_block", b"Default")
    tracer.now += 10_000
    keep_last(tracer, 0)
    assert [block.name for block in read_log(tracer.image()).blocks] == ["Default"]
    assert not etstub.etd_keep_last(None, ct.c_uint64(0), 32) & 0xFF


@pytest.mark.parametrize("bits", [0, 33, 0xFFFF_FFFF])
def test_a_counter_of_no_width_is_refused(etstub: ct.CDLL, bits: int) -> None:
    tracer = recorded(etstub, 4096)
    for number in range(5):
        run(tracer, number)
    before = tracer.image()
    assert not keeps_last(tracer, 0, bits)
    assert tracer.image() == before


def test_a_log_that_stops_when_full_has_no_last_runs(etstub: ct.CDLL) -> None:
    tracer = recorded(etstub, 4096)
    tracer.call("set_when_full", WhenFull.STOP)
    for number in range(5):
        run(tracer, number)
    assert not keeps_last(tracer, 0, 32)
    assert kept_runs(tracer) == ([0, 1, 2, 3, 4], Losses())
