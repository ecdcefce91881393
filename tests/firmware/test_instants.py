"""Marks, samples, tasks and interrupts of the C tracer, as the host decodes them."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable

import numpy as np
import pytest

from harness import Kind, Trace, read_log
from tests.support.tracer import CTracer

BEGINS, INTERRUPT = 1, 2
TICK = 7
"""What a reading of the clock advances it by."""


def log_everything(tracer: CTracer) -> None:
    """Each kind of record once or twice, within a scope and outside of it."""
    tracer.call("log_mark", b"boot")
    tracer.call("create_event_block", b"Execute")
    scope = tracer.start(b"Method::execute", -1, 0)
    tracer.call("log_sample", b"queue", -3)
    tracer.call("log_sample_float", b"kelvin", ct.c_float(296.25))
    tracer.call("log_switch", BEGINS | INTERRUPT, None, 15)
    tracer.call("log_switch", INTERRUPT, None, 15)
    tracer.call("log_switch", 0, b"inference", 99)
    tracer.call("log_switch", BEGINS, b"logger", 0)
    tracer.call("end_profiling", scope)


def events(trace: Trace) -> list[tuple[str, str | None, float]]:
    return [
        (Kind(kind).name, trace.text(name), level)
        for kind, name, level in zip(
            trace.kind.tolist(), trace.name.tolist(), trace.level.tolist(), strict=True
        )
    ]


WHOLE = [
    ("MARK", "boot", 0),
    ("SAMPLE", "queue", -3),
    ("SAMPLE", "kelvin", 296.25),
    ("INTERRUPT", "interrupt 15", 1),
    ("INTERRUPT", "interrupt 15", 0),
    ("TASK", "inference", 0),
    ("TASK", "logger", 1),
    ("PROFILE", "Method::execute", 0),
]


def test_they_are_events_of_the_trace_in_log_order(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 2000)
    log_everything(tracer)
    trace = read_log(tracer.image())
    assert events(trace) == WHOLE
    assert [block.name for block in trace.blocks] == ["", "Execute"]
    instants = trace.kind >= Kind.TASK
    assert (trace.start == trace.end)[instants].all()
    # An end has the time after its record: its clock was read twice.
    readings = np.cumsum([1, 1 + 1, 1, 1, 2, 2, 1, 1]) * TICK
    assert trace.end.tolist() == readings.tolist()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_sample_that_is_not_finite_is_nan(etstub: ct.CDLL, value: float) -> None:
    tracer = CTracer(etstub, 500)
    tracer.call("log_sample_float", b"volts", ct.c_float(value))
    assert np.isnan(read_log(tracer.image()).level).all()


CALLS: list[Callable[[CTracer], object]] = [
    lambda tracer: tracer.call("log_mark", b"a"),
    lambda tracer: tracer.call("log_sample", b"a", 1),
    lambda tracer: tracer.call("log_sample_float", b"a", ct.c_float(1)),
    lambda tracer: tracer.call("log_switch", BEGINS, b"a", 0),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_full_log_counts_what_it_drops(etstub: ct.CDLL, call: Callable[..., object]) -> None:
    tracer = CTracer(etstub, 16 * 3 + 2)
    for _ in range(5):
        call(tracer)
    trace = read_log(tracer.image())
    assert (len(trace), trace.losses.events, trace.full) == (3, 2, (0,))
    assert [trace.text(name) for name in trace.name.tolist()] == ["a"] * 3


@pytest.mark.parametrize("call", CALLS)
def test_a_pause_counts_them_as_filtered(etstub: ct.CDLL, call: Callable[..., object]) -> None:
    tracer = CTracer(etstub, 500)
    tracer.call("set_paused", True)
    call(tracer)
    tracer.call("set_paused", False)
    call(tracer)
    trace = read_log(tracer.image())
    assert (len(trace), trace.filtered_events) == (1, 1)


def test_without_a_tracer_nothing_happens(etstub: ct.CDLL) -> None:
    etstub.etd_log_mark(None, b"a")
    etstub.etd_log_sample(None, b"a", 1)
    etstub.etd_log_sample_float(None, b"a", ct.c_float(1))
    etstub.etd_log_switch(None, BEGINS, b"a", 0)
    assert not etstub.etd_log_clock(None, 0, 0, ct.c_uint64(0)) & 0xFF


def test_chunks_join_to_the_same_trace(etstub: ct.CDLL) -> None:
    tracer, whole = CTracer(etstub, 2000), CTracer(etstub, 2000)
    log_everything(whole)
    log_everything(whole)
    log_everything(tracer)
    first = tracer.image()
    tracer.call("log_recycle")
    log_everything(tracer)
    assert read_log(first + tracer.image()) == read_log(whole.image())


def test_they_go_with_the_run_that_is_dropped(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 16 * 24)
    tracer.call("set_when_full", 1)
    tracer.call("create_event_block", b"Default")
    for number in range(6):
        tracer.call("create_event_block", b"Execute")
        tracer.call("log_mark", b"begin")
        for _ in range(4):
            tracer.call("log_sample", b"run", number)
    trace = read_log(tracer.image())
    assert trace.losses.runs > 0
    kept = trace.level[trace.kind == Kind.SAMPLE].tolist()
    assert kept == [number for number in range(6 - len(kept) // 4, 6) for _ in range(4)]
