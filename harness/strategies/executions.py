"""Traces as a runtime leaves them: runs of the same operators, nested, in order, on real clocks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hypothesis import strategies as st

from harness.records.clock_domain import ClockDomain
from harness.records.trace import DELEGATE_CALL, EXECUTION, NO_NAME, OPERATOR_CALL, Block, Trace
from harness.strategies.clocks import clock_domains

_KERNELS: Final = ("add", "convolution", "linear", "relu", "softmax")
_LEAST_BITS: Final = 16
"""Width of a counter that an execution of a few operators does not wrap twice."""


@dataclass(frozen=True)
class Execution:
    """A trace and what is true of it.

    Attributes:
        trace: Blocks named ``Execute``, each with the same events.
        runs: How many.
        operators: Names of the operators of a run, in the order of their instructions; a call of
            a delegate stands as ``DELEGATE_CALL``.
        durations: Ticks of each of them per run, shape (runs, operators).
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
    """Runs of one method as ExecuTorch logs them: kernels within OPERATOR_CALLs within the method.

    The counter begins anywhere and wraps within runs and between them, never unseen.

    Args:
        draw: Given by Hypothesis.
        runs: How many; None for one to three.
        max_operators: Most instructions of the method; there is at least one.
        delegates: Instructions may be calls of a delegate, with one to three events of its own on
            a clock of its own, which says nothing of the other's.
        clock: Of the CPU, 16 bits wide or more; None for any that has a rate.
    """
    if clock is None:
        clock = draw(clock_domains(min_bits=_LEAST_BITS, rated=True))
    clocks = [clock, ClockDomain("npu", draw(st.sampled_from([None, Fraction(10**8)])), 24)]
    count = draw(st.integers(1, 3)) if runs is None else runs
    calls = draw(st.lists(_operators(delegates), min_size=1, max_size=max_operators))
    # All of a run, with its gaps, stays below half a wrap.
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
    """Names of instructions' events, and how many jobs a delegate has for them."""
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
