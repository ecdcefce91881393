"""Strategy for realistic traces: runs of the same operators, nested, in order, on real clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from hypothesis import strategies as st

from harness.analyze.ticks import default_jitter
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    OPERATOR_CALL,
    Block,
    ClockDomain,
    HardwareCounter,
    Trace,
)
from harness.strategies.by_hand import EventSpec, RunSpec, trace_of

_LONGEST: Final = 2**55
"""Largest step in ticks, so that timelines stay far below 64 bits."""


def clock_domains(
    *, min_bits: int = 8, max_bits: int = 64, rated: bool | None = None
) -> st.SearchStrategy[ClockDomain]:
    """Strategy for counters of any width and direction.

    Args:
        min_bits: Smallest width, 8 or more.
        max_bits: Largest width, 64 or less.
        rated: Whether the rate is known; None for either.
    """
    rates = st.fractions(Fraction(1, 10), 10**10, max_denominator=10**6)
    known = {True: rates, False: st.none(), None: st.one_of(st.none(), rates)}[rated]
    widths = st.integers(min_bits, max_bits)
    return st.builds(ClockDomain, st.just("clock"), known, widths, st.booleans())


@dataclass(frozen=True)
class DrawnTimeline:
    """True start and end of each event in log order, and the counter that reads them.

    Attributes:
        clock: The counter.
        jitter: Largest backward step between ends of consecutive events, in ticks.
        starts: Ticks since an arbitrary instant, without wraps.
        ends: Likewise.
    """

    clock: ClockDomain
    jitter: int
    starts: list[int]
    ends: list[int]

    def reading(self, instant: int) -> int:
        """Return the counter's reading at an instant."""
        return (-instant if self.clock.down else instant) % self.clock.modulus

    def trace(self, first: int = 0, last: int | None = None, *, shift: int = 0) -> Trace:
        """Return the events ``first`` to ``last`` (exclusive) as logged, in one block.

        Args:
            first: Index of the first event.
            last: Index after the last event.
            shift: Offset of the counter in ticks.
        """
        columns = [
            np.array([self.reading(instant + shift) for instant in instants[first:last]], np.uint64)
            for instants in (self.starts, self.ends)
        ]
        count = len(columns[0])
        trace = Trace.unset(count, blocks=[Block("Execute", 0, count)], clocks=[self.clock])
        trace.clock[:] = 0
        trace.start[:], trace.end[:] = columns
        return trace.sealed()


@st.composite
def timelines(
    draw: st.DrawFn, *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> DrawnTimeline:
    """Strategy for timelines that wrapped readings determine: no gap is longer than a wrap.

    Args:
        draw: Given by Hypothesis.
        clocks: Counters that read them; any width from 8 to 64 bits by default.
        max_events: Largest number of events; the smallest is 1.
    """
    clock = draw(clock_domains(rated=False) if clocks is None else clocks)
    limit = default_jitter(clock)
    jitter = draw(st.sampled_from([0, limit])) if clock.bits < 56 else limit
    longest = min(clock.modulus - 1 - jitter, _LONGEST)
    now = draw(st.integers(0, 2**60))
    starts, ends = [], []
    for _ in range(draw(st.integers(1, max_events))):
        now += draw(st.one_of(st.integers(0, longest), st.just(longest), st.just(0)))
        ends.append(now)
        starts.append(now - draw(st.one_of(st.integers(0, longest), st.just(longest))))
    return DrawnTimeline(clock, jitter, starts, ends)


def wrapped_traces(
    *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> st.SearchStrategy[Trace]:
    """Strategy for traces with wraps in and between events; ``timelines`` also has true times.

    Args:
        clocks: As for ``timelines``.
        max_events: Likewise.
    """
    return timelines(clocks=clocks, max_events=max_events).map(DrawnTimeline.trace)


_KERNELS: Final = ("add", "convolution", "linear", "relu", "softmax")
_MIN_BITS: Final = 16
"""Smallest width of a counter for which a few operators do not wrap twice."""


@dataclass(frozen=True)
class Execution:
    """A trace with its true durations.

    Attributes:
        trace: Blocks named ``Execute``, each with the same events.
        runs: Number of blocks.
        operators: Names of the operators of a run, in the order of their instructions;
            ``DELEGATE_CALL`` for a delegate call.
        durations: Duration of each operator per run in ticks, shape (runs, operators).
    """

    trace: Trace
    runs: int
    operators: list[str]
    durations: list[list[int]]


@st.composite
def executions(
    draw: st.DrawFn,
    *,
    runs: int | None = None,
    max_operators: int = 5,
    delegates: bool = False,
    clock: ClockDomain | None = None,
    counters: Sequence[HardwareCounter] = (),
) -> Execution:
    """Strategy for runs of one method as ExecuTorch logs them: kernels in OPERATOR_CALLs.

    The counter starts anywhere and may wrap in and between runs, but no gap hides a wrap.

    Args:
        draw: Given by Hypothesis.
        runs: Number of runs; None for one to three.
        max_operators: Largest number of instructions of the method; the smallest is 1.
        delegates: Instructions may be delegate calls, with one to three delegate events on a clock
            of their own, unrelated to the CPU's.
        clock: Clock of the CPU, at least 16 bits wide; None for any clock with a rate.
        counters: Hardware counters, which count more in a scope than in what it contains. Events of
            delegates have no counts.
    """
    if clock is None:
        clock = draw(clock_domains(min_bits=_MIN_BITS, rated=True))
    count = draw(st.integers(1, 3)) if runs is None else runs
    calls = draw(st.lists(_operators(delegates), min_size=1, max_size=max_operators))
    # A whole run, including gaps, stays below half a wrap.
    longest = clock.modulus // (8 * (max_operators + 1))
    tick = st.integers(1, min(longest, 2**40))
    # A call stays below a wrap of the delegates' clock, so that no duration is uncertain.
    npu_hz = Fraction(10**8)
    fits = clock.hz is not None and min(longest, 2**40) / clock.hz * npu_hz < 2**24
    clocks = [
        clock,
        ClockDomain("npu", draw(st.sampled_from([None, npu_hz] if fits else [None])), 24),
    ]
    anywhere = st.integers(0, clock.modulus - 1)
    before_a_wrap = tick.map(lambda left: clock.modulus - left)
    now, npu = draw(st.one_of(anywhere, before_a_wrap)), draw(st.integers(0, 2**24 - 1))
    blocks: list[RunSpec] = []
    durations = []
    few = st.tuples(*[st.integers(0, 1000)] * len(counters))
    for _ in range(count):
        began, lasted = now, []
        events: list[EventSpec] = []
        whole = draw(few)
        for instruction, (name, jobs) in enumerate(calls):
            start = now + draw(tick) // 4
            for job in range(jobs):
                end = npu + draw(st.integers(0, 2**20))
                events.append(EventSpec("npu_job", npu, end, 0, instruction, job))
                npu = end
            now = start + draw(tick)
            lasted.append(now - start)
            inner = draw(few)
            around = inner if name == DELEGATE_CALL else _sums(inner, draw(few))
            events.append(EventSpec(name, start, now, 0, instruction, counts=inner))
            if name != DELEGATE_CALL:
                events.append(EventSpec(OPERATOR_CALL, start, now, 0, instruction, counts=around))
            whole = _sums(whole, around)
        events.append(EventSpec(EXECUTION, began, now, -1, counts=whole))
        durations.append(lasted)
        blocks.append(RunSpec([_on_its_clock(event, clocks) for event in events], "Execute"))
        now += draw(tick)
    trace = trace_of(*blocks, counters=counters)
    of_delegates = (trace.delegate_int >= 0).astype(trace.clock.dtype)
    trace = replace(trace, clocks=tuple(clocks), clock=of_delegates).sealed()
    return Execution(trace, count, [name for name, _ in calls], durations)


def _on_its_clock(event: EventSpec, clocks: Sequence[ClockDomain]) -> EventSpec:
    """Return an event whose ticks are readings of its clock; delegates have the second one."""
    clock = clocks[0 if event.delegate is None else 1]
    start, end = (
        (-ticks if clock.down else ticks) % clock.modulus for ticks in (event.start, event.end)
    )
    return replace(event, start=start, end=end)


def _sums(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(a, b, strict=True))


def _operators(delegates: bool) -> st.SearchStrategy[tuple[str, int]]:
    """Strategy for the event name of an instruction, and its number of delegate events."""
    kernels = st.sampled_from(_KERNELS).map(lambda name: (f"native_call_{name}.out", 0))
    calls = st.tuples(st.just(DELEGATE_CALL), st.integers(1, 3))
    return st.one_of(kernels, calls) if delegates else kernels
