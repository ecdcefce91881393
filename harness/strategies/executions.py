"""Strategy for realistic traces: runs of the same operators, nested, in order, on real clocks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hypothesis import strategies as st

from harness.records.clock_domain import ClockDomain
from harness.records.trace import DELEGATE_CALL, EXECUTION, NO_NAME, OPERATOR_CALL, Block, Trace
from harness.strategies.clocks import clock_domains

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


@dataclass(frozen=True)
class _Row:
    name: str
    instruction: int
    start: int
    end: int
    chain: int = 0
    delegate: int = -1


@st.composite
def executions(
    draw: st.DrawFn,
    *,
    runs: int | None = None,
    max_operators: int = 5,
    delegates: bool = False,
    clock: ClockDomain | None = None,
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
    """
    if clock is None:
        clock = draw(clock_domains(min_bits=_MIN_BITS, rated=True))
    clocks = [clock, ClockDomain("npu", draw(st.sampled_from([None, Fraction(10**8)])), 24)]
    count = draw(st.integers(1, 3)) if runs is None else runs
    calls = draw(st.lists(_operators(delegates), min_size=1, max_size=max_operators))
    # A whole run, including gaps, stays below half a wrap.
    longest = clock.modulus // (8 * (max_operators + 1))
    tick = st.integers(1, min(longest, 2**40))
    anywhere = st.integers(0, clock.modulus - 1)
    before_a_wrap = tick.map(lambda left: clock.modulus - left)
    now, npu = draw(st.one_of(anywhere, before_a_wrap)), draw(st.integers(0, 2**24 - 1))
    rows: list[_Row] = []
    durations, sizes = [], []
    for _ in range(count):
        began, before, lasted = now, len(rows), []
        for instruction, (name, jobs) in enumerate(calls):
            start = now + draw(tick) // 4
            for job in range(jobs):
                end = npu + draw(st.integers(0, 2**20))
                rows.append(_Row("npu_job", instruction, npu, end, delegate=job))
                npu = end
            now = start + draw(tick)
            lasted.append(now - start)
            rows.append(_Row(name, instruction, start, now))
            if name != DELEGATE_CALL:
                rows.append(_Row(OPERATOR_CALL, instruction, start, now))
        rows.append(_Row(EXECUTION, 0, began, now, chain=-1))
        durations.append(lasted)
        sizes.append(len(rows) - before)
        now += draw(tick)
    return Execution(_trace(rows, sizes, clocks), count, [name for name, _ in calls], durations)


def _operators(delegates: bool) -> st.SearchStrategy[tuple[str, int]]:
    """Strategy for the event name of an instruction, and its number of delegate events."""
    kernels = st.sampled_from(_KERNELS).map(lambda name: (f"native_call_{name}.out", 0))
    calls = st.tuples(st.just(DELEGATE_CALL), st.integers(1, 3))
    return st.one_of(kernels, calls) if delegates else kernels


def _trace(rows: list[_Row], sizes: list[int], clocks: list[ClockDomain]) -> Trace:
    names = [*dict.fromkeys(row.name for row in rows)]
    blocks = [Block("Execute", sum(sizes[:i]), size) for i, size in enumerate(sizes)]
    trace = Trace.unset(len(rows), names=names, blocks=blocks, clocks=clocks)
    for index, row in enumerate(rows):
        number = 0 if row.delegate < 0 else 1
        clock = clocks[number]
        trace.clock[index] = number
        trace.name[index] = names.index(row.name)
        trace.chain[index], trace.instruction[index] = row.chain, row.instruction
        trace.delegate_int[index] = row.delegate
        trace.delegate_str[index] = NO_NAME
        start, end = (-row.start, -row.end) if clock.down else (row.start, row.end)
        trace.start[index], trace.end[index] = start % clock.modulus, end % clock.modulus
    return trace.sealed()
