"""Traces to export, with something of everything, and what holds of every drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from harness import ClockDomain, Drawing, Losses, Trace, read_log
from tests.support.logs import CompactLog

CPU = ClockDomain("cpu", Fraction(80_000_000), 32)
NPU = ClockDomain("npu", Fraction(375_000_000), 24)


def execution(log: CompactLog, cpu: int, npu: int) -> None:
    """One execution: a delegate's call with two jobs on its own clock, and an operator."""
    log.block("Execute")
    log.allocation(2, 384, tick=cpu + 40, offset=0)
    for job, name in enumerate((None, "matmul")):
        begin = (npu + 1000 * job) % 2**24
        end = (npu + 1000 * job + 900) % 2**24
        log.delegate(name, -1 if name else job, bytes([job, 255])).profile(
            None, begin, end, clock=1
        )
    log.allocation(2, -384, tick=cpu + 900, offset=0)
    log.profile("DELEGATE_CALL", cpu + 30, cpu + 1000)
    log.profile("native_call_sigmoid.out", cpu + 1010, cpu + 1500, instruction=1)
    log.profile("OPERATOR_CALL", cpu + 1005, cpu + 1501, instruction=1)
    log.profile("Method::execute", cpu, (cpu + 1600) % 2**32, chain=-1)


def delegated_trace() -> Trace:
    """Loading and three executions with a delegate, as of npu_int.pte; both counters wrap."""
    log = CompactLog().allocator("method").allocator("temporary \\ 1")
    log.block("Default").allocation(1, 640, tick=2**32 - 9000, offset=0)
    log.allocation(1, 2**30, tick=2**32 - 8900, failed=True)
    log.profile("Method::init", 2**32 - 9100, 2**32 - 8000, chain=-1)
    for number in range(3):
        execution(
            log, (2**32 - 6000 + 2500 * number) % 2**32, (2**24 - 2500 + 5000 * number) % 2**24
        )
    trace = read_log(log.image(), [CPU, NPU])
    return replace(trace, losses=Losses(events=3, runs=2))


def two_tracers() -> Trace:
    """Two cores at one time, each with an allocator of the same name."""
    images = []
    for number in range(2):
        log = CompactLog().allocator("method")
        log.tracer = number
        log.allocation(1, 8 + 8 * number, tick=100 - 10 * number, offset=0).block("Execute")
        log.profile("native_call_a.out", 120 + 5 * number, 130 + 5 * number)
        log.profile("OPERATOR_CALL", 110 + 5 * number, 140 + 5 * number)
        images.append(log.image())
    return read_log(b"".join(images), [CPU])


def check_nesting(drawing: Drawing) -> None:
    """Begins and ends, in the order in which they are drawn, are in order of time, and nested."""
    for track in range(len(drawing.tracks)):
        open_: list[int] = []
        now = -(2**63)
        for number in range(len(drawing)):
            if drawing.track[number] != track:
                continue
            while len(open_) > drawing.depth[number]:
                ended = int(drawing.end[open_.pop()])
                assert ended >= now
                now = ended
            start, end = int(drawing.start[number]), int(drawing.end[number])
            assert now <= start <= end
            assert len(open_) == drawing.depth[number]
            if open_:
                assert drawing.start[open_[-1]] <= start
                assert end <= drawing.end[open_[-1]]
                assert drawing.parent[number] == open_[-1]
            now = start
            open_.append(number)


def named(drawing: Drawing, name: str) -> Sequence[int]:
    """Slices of this name."""
    return [number for number in range(len(drawing)) if drawing.name(number) == name]


def preempted_trace() -> Trace:
    """An execution with a scope of the application, a mark and two counters; a preemption."""
    log = CompactLog().block("Execute").clock(0)
    log.mark("frame", 100).sample("queue", 150, 3).sample("volts", 160, 1.25)
    log.profile("native_call_a.out", 200, 800, instruction=0)
    log.sample("queue", 850, -1).profile("filter", 820, 900, chain=-1)
    log.profile("Method::execute", 100, 1000, chain=-1)
    other = CompactLog()
    other.tracer = 1
    other.clock(0)
    other.switch("inference", 300, begins=False).switch("logger", 310, begins=True)
    other.switch(15, 320, begins=True, interrupt=True).switch(15, 330, begins=False, interrupt=True)
    other.switch("logger", 390, begins=False).switch("inference", 400, begins=True)
    return read_log(log.image() + other.image(), [ClockDomain("timer", Fraction(1_000_000), 32)])
