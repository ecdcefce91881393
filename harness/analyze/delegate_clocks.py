"""Aligns delegate clocks with the CPU clock, by the calls around delegate events.

Events that a delegate logged in a ``DELEGATE_CALL`` happened between start and end of the call,
which the CPU clock recorded. Such a call is a bracket like a ping, and the same solver aligns the
delegate's ticks with the CPU's. If the CPU clock is aligned with the host's, the delegate's is too,
and the bounds add up.
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
    """A delegate's clock, aligned with the CPU's.

    Attributes:
        alignment: Alignment of both clocks; ``device_epoch`` is the CPU's epoch.
        placement: Placement of its events.
        outside: Number of events outside of calls; these are not placed.
    """

    alignment: Alignment
    placement: Placement
    outside: int

    def cpu_epoch(self) -> Ints:
        """Return the epoch of the CPU's clock for each event, or NOT_PLACED, shape (n,)."""
        epochs = [epoch.device_epoch for epoch in self.alignment.epochs]
        known = [NOT_PLACED if number is None else number for number in epochs]
        return np.array([*known, NOT_PLACED], np.int64)[self.placement.epoch]


def calls_around(trace: Trace, clock: int, cpu: int = 0) -> tuple[Ints, Ints]:
    """Find the events of a clock, and the delegate call of each.

    Events are logged when they end, so the call is the next one in the log, if tracer, chain and
    instruction match.

    Returns:
        Rows of the events, and rows of their calls, -1 without a call.
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
    """Align the clock of a delegate with the CPU's.

    Args:
        trace: The trace.
        clock: Index of the delegate's clock in ``trace.clocks``.
        cpu: Placement of the events of clock 0, including the calls.
        steadiness: Tolerance and wander of the rate between both clocks.
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
    """Convert instants on a clock to its reference clock; bounds add up.

    Args:
        instants: In ticks of ``through.domain``.
        through: Alignment of this clock with the reference.
        epoch: Epoch of ``through`` for each instant, or NOT_PLACED.
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
    """Return the placement of clock 0 by the log alone (``unwrap``), in a single epoch 0."""
    rows = np.flatnonzero(trace.clock == 0)
    none = np.zeros(len(rows), np.int64)
    return Placement(rows, none, start[rows], end[rows], none, (), 0)
