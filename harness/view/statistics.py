"""Per-operator statistics: what the repeats of one event took, over all runs of its block."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clock.ticks import durations, nanoseconds_per_tick
from harness.timebase import ClockDomain
from harness.trace import Kind, Trace

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of durations, all in one unit (ticks or nanoseconds) but for ``count``.

    Attributes:
        count: Number of durations.
        total: Their sum.
        avg: Their mean.
        p10: 10th percentile, linear between the two nearest durations (as NumPy's default).
        p50: Median.
        p90: 90th percentile.
        min: Shortest.
        max: Longest.
        std: Population standard deviation (divided by ``count``; 0 for a single duration).
    """

    count: int
    total: float
    avg: float
    p10: float
    p50: float
    p90: float
    min: float
    max: float
    std: float

    def scaled(self, factor: Fraction) -> Summary:
        """The same statistics in another unit, ``factor`` of which make one of this."""

        def scale(value: float) -> float:
            return float(Fraction(value) * factor)

        return Summary(
            count=self.count,
            total=scale(self.total),
            avg=scale(self.avg),
            p10=scale(self.p10),
            p50=scale(self.p50),
            p90=scale(self.p90),
            min=scale(self.min),
            max=scale(self.max),
            std=scale(self.std),
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """All repeats of one event.

    Attributes:
        block: Name of the blocks it ran in.
        name: Its name, "" when it has none.
        chain: Chain index, -1 unset.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id, or None.
        clock: Clock domain of its ticks.
        rows: Rows of its events in the trace, in log order, shape (count,).
        ticks: Statistics in ticks.
        ns: Statistics in nanoseconds, or None when the rate of the clock is unknown.
    """

    block: str
    name: str
    chain: int
    instruction: int
    delegate_int: int
    delegate_str: str | None
    clock: ClockDomain
    rows: _Ints
    ticks: Summary
    ns: Summary | None


def operator_statistics(trace: Trace, block: str | None = None) -> list[Operator]:
    """Group profile events and summarise each group.

    Events are the same operator when block name, event name, chain, instruction, delegate ids and
    clock domain are the same. Every repeat counts, within a run and across runs.

    Args:
        trace: What was logged.
        block: Only blocks of this name; all by default.

    Returns:
        Operators in the order in which they were first seen.
    """
    block_names = [item.name for item in trace.blocks]
    number = {name: index for index, name in reversed(list(enumerate(block_names)))}
    block_of = np.repeat(
        np.array([number[name] for name in block_names], np.int64),
        [item.count for item in trace.blocks],
    )
    chosen = trace.kind == Kind.PROFILE
    if block is not None:
        chosen = chosen & (block_of == number.get(block, -1))
    rows = np.flatnonzero(chosen)
    keys: list[npt.NDArray[Any]] = [block_of, trace.name, trace.chain, trace.instruction]
    keys += [trace.delegate_int, trace.delegate_str, trace.clock]
    ticks = durations(trace)
    return [
        _operator(trace, block_names[block_of[group[0]]], group, ticks[group])
        for group in _groups(rows, [key[rows] for key in keys])
    ]


def _groups(rows: _Ints, keys: list[npt.NDArray[Any]]) -> list[_Ints]:
    """Split ``rows`` by equal keys; groups in first-seen order, rows within a group in order."""
    if not len(rows):
        return []
    codes = np.zeros(len(rows), np.int64)
    for key in keys:
        values, inverse = np.unique(key, return_inverse=True)
        # Renumbering after each key keeps codes below n, so the product cannot overflow.
        _, codes = np.unique(codes * len(values) + inverse, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    groups = np.split(rows[order], starts[1:])
    return sorted(groups, key=lambda group: int(group[0]))


def _operator(trace: Trace, block: str, rows: _Ints, ticks: npt.NDArray[np.uint64]) -> Operator:
    first = int(rows[0])
    clock = trace.clocks[trace.clock[first]]
    summary = summarise(ticks)
    factor = nanoseconds_per_tick(clock)
    return Operator(
        block=block,
        name=trace.text(int(trace.name[first])) or "",
        chain=int(trace.chain[first]),
        instruction=int(trace.instruction[first]),
        delegate_int=int(trace.delegate_int[first]),
        delegate_str=trace.text(int(trace.delegate_str[first])),
        clock=clock,
        rows=rows,
        ticks=summary,
        ns=None if factor is None else summary.scaled(factor),
    )


def summarise(ticks: npt.NDArray[np.uint64]) -> Summary:
    """Statistics of a non-empty array of durations."""
    p10, p50, p90 = np.percentile(ticks.astype(np.float64), (10, 50, 90)).tolist()
    # A sum of uint64 could wrap; Python's integers cannot.
    total = sum(ticks.tolist())
    return Summary(
        count=len(ticks),
        total=float(total),
        avg=total / len(ticks),
        p10=p10,
        p50=p50,
        p90=p90,
        min=float(ticks.min()),
        max=float(ticks.max()),
        std=float(np.std(ticks.astype(np.float64))),
    )
