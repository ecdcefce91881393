"""Delegates' clocks on the CPU's: what an NPU counted lies within the call that made it count.

What a delegate logged in a ``DELEGATE_CALL`` happened after the call began and before it ended;
the CPU's clock stamped both. That is a bracket as a ping is one, and the same solver places
the delegate's ticks on the CPU's. A CPU clock that itself is placed on the host's then places the
delegate there; the bounds add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analyze.alignment import PERFECTLY, Alignment, Instants, Steadiness, align_brackets
from harness.analyze.brackets import Bracket
from harness.analyze.placement import NOT_PLACED, Placement
from harness.analyze.strip import Ints
from harness.records.trace import DELEGATE_CALL, Kind, Trace


@dataclass(frozen=True, slots=True)
class DelegateTimes:
    """A delegate's clock on the CPU's.

    Attributes:
        alignment: The delegate's clock on the CPU's; its epochs say which of the CPU's they are in.
        placement: Its events.
        outside: How many of its events no call contains; these are not placed.
    """

    alignment: Alignment
    placement: Placement
    outside: int

    def cpu_epoch(self) -> Ints:
        """Epoch of the CPU's clock that each event is in, or NOT_PLACED, shape (n,)."""
        epochs = [epoch.device_epoch for epoch in self.alignment.epochs]
        known = [NOT_PLACED if number is None else number for number in epochs]
        return np.array([*known, NOT_PLACED], np.int64)[self.placement.epoch]


def calls_around(trace: Trace, clock: int, cpu: int = 0) -> tuple[Ints, Ints]:
    """Find the events of a clock, and the call that each is part of.

    Events are logged when they end, so it is the next call in the log, if of the same tracer,
    chain and instruction.

    Returns:
        Rows of the events, and of their calls; -1 without one.
    """
    rows = np.flatnonzero((trace.clock == clock) & (trace.kind == Kind.PROFILE))
    if DELEGATE_CALL not in trace.names:
        return rows, np.full(len(rows), -1)
    name = trace.names.index(DELEGATE_CALL)
    calls = np.flatnonzero((trace.name == name) & (trace.clock == cpu))
    if not len(calls):
        return rows, np.full(len(rows), -1)
    following = np.searchsorted(calls, rows)
    candidates = calls[np.minimum(following, len(calls) - 1)]
    same = following < len(calls)
    for column in (trace.tracer, trace.chain, trace.instruction):
        same &= column[candidates] == column[rows]
    return rows, np.where(same, candidates, -1)


def align_delegate(
    trace: Trace, clock: int, cpu: Placement, steadiness: Steadiness = PERFECTLY
) -> DelegateTimes:
    """Place the clock of a delegate on the CPU's.

    Args:
        trace: What was logged.
        clock: Index of the delegate's clock in ``trace.clocks``.
        cpu: Events of clock 0, with the calls among them.
        steadiness: What is known of the rate of one against the other.
    """
    rows, calls = calls_around(trace, clock)
    at = np.minimum(np.searchsorted(cpu.rows, calls), max(len(cpu.rows) - 1, 0))
    inside = calls >= 0
    inside[inside] &= cpu.epoch[at[inside]] != NOT_PLACED
    used = np.flatnonzero(inside)
    brackets = []
    for number in used.tolist():
        call, row = int(at[number]), int(rows[number])
        late = int(cpu.late[call]) * trace.clocks[0].modulus
        low, high = int(cpu.start[call]), int(cpu.end[call]) + late
        readings = int(trace.start[row]), int(trace.end[row])
        brackets.append(Bracket(low, high, *readings, int(cpu.epoch[call])))
    alignment = align_brackets(brackets, trace.clocks[clock], trace.clocks[0], steadiness)
    epoch = np.full(len(rows), NOT_PLACED)
    start, end = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for number, part in enumerate(alignment.epochs):
        first = part.stretch.first
        of_epoch = used[first : first + len(part.stretch.ticks)]
        epoch[of_epoch] = number
        start[of_epoch], end[of_epoch] = np.array(part.stretch.ticks, np.int64).T
    placement = Placement(rows, epoch, start, end, np.zeros_like(start), (), len(used))
    return DelegateTimes(alignment, placement, len(rows) - len(used))


def chained(instants: Instants, through: Alignment, epoch: Ints) -> Instants:
    """Carry instants on a clock over to the clock that it is placed on; bounds add up.

    Args:
        instants: In ticks of ``through.domain``.
        through: Where that clock lies on another.
        epoch: Epoch of ``through`` that each instant is in, or NOT_PLACED.
    """
    low, high = np.zeros(len(epoch), np.int64), np.full(len(epoch), -1, np.int64)
    for number in np.unique(epoch[instants.known & (epoch != NOT_PLACED)]).tolist():
        chosen = instants.known & (epoch == number)
        early = through.instants(instants.low[chosen], number)
        late = through.instants(instants.high[chosen], number)
        known = early.known & late.known
        low[chosen], high[chosen] = early.low, np.where(known, late.high, early.low - 1)
    return Instants.between(low, high)


def in_log(trace: Trace, start: Ints, end: Ints) -> Placement:
    """Events of clock 0 on the timeline of the log alone, as ``unwrap`` gives it: one epoch, 0."""
    rows = np.flatnonzero(trace.clock == 0)
    none = np.zeros(len(rows), np.int64)
    return Placement(rows, none, start[rows], end[rows], none, (), 0)
