"""Checks the time of executions as a whole: the log fits between the readings around its run (I26),
each execution was measured by itself (I27), and its time is that of its instructions (I28).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import gcd
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import (
    ambiguous_durations,
    durations,
    event_nanoseconds,
    forward,
    own_scopes,
)
from harness.check.invariants.events import FASTEST_HZ, MANY_TICKS, describe, order_known
from harness.check.subject import Subject
from harness.duration import Duration
from harness.formatting import KERNEL_EVENT
from harness.records.trace import EXECUTION, OPERATOR_CALL, Kind, Trace
from harness.records.verdict import Check, check, none_of

_Ints = npt.NDArray[np.int64]


def extent_checks(subject: Subject) -> Iterator[Check]:
    """Check that a simulated clock can have counted what the log needs (I26).

    The run set the clock to zero before the log, and the host read it afterwards. The wraps that
    the log needs before this reading must be possible in the host's time: hardly any simulator
    counts faster than ``FASTEST_HZ``, but nothing forbids it, so this is a warning. Real clocks
    follow the host's, so I21 decides about them exactly.
    """
    trace, pings, restart = subject.trace, subject.pings or (), subject.restart
    if not subject.emulated_time or restart is None or not order_known(trace.losses):
        return
    after = next((ping for ping in pings if ping.epoch == restart.epoch), None)
    rows = np.flatnonzero(trace.clock == 0)
    if after is None or not len(rows) or len(np.unique(trace.tracer[rows])) > 1:
        return
    clock, tree = trace.clocks[0], subject.tree
    first = rows[np.argmin(tree.start[rows])]
    begun = int(forward(clock, *_pair(restart.ticks, int(trace.start[first])))[0])
    last = begun + int(tree.end[rows].max() - tree.start[first])
    read = int(forward(clock, *_pair(restart.ticks, after.ticks))[0])
    passed = read + max(-(-(last - read) // clock.modulus), 0) * clock.modulus
    elapsed_ns = after.host_after_ns - restart.host_before_ns
    fits = passed <= FASTEST_HZ * elapsed_ns / 1e9
    reason = f"it ends {last:,} ticks after the start of the run"
    if not fits:
        reason += (
            f", but the host read {after.ticks:,} ticks {Duration(float(elapsed_ns))} after the "
            f"start: the clock would have counted {passed:,} ticks in this time"
        )
    yield check(
        "I26", severity="warning", subject=f"clock {clock.name}", passed=fits, reason=reason
    )


def _pair(start: int, end: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    return np.array([start], np.uint64), np.array([end], np.uint64)


ENOUGH_READINGS: Final = 8
"""Readings of a clock in an execution from which on equal ones are no coincidence."""

WIDE_BITS: Final = 24
"""Width of a counter from which on readings are not equal by chance."""

LONG_UNITS: Final = 64
"""Duration of an event, in steps of the clock, from which on equal ones are a coincidence."""

ENOUGH_LONG: Final = 8
"""How many events of an execution must be so long."""

ENOUGH_KINDS: Final = 4
"""Different kernels of which equal durations are no coincidence."""

ENOUGH_COPIES: Final = 3
"""How many executions with equal durations are no coincidence."""


def reading_checks(subject: Subject) -> Iterator[Check]:
    """Check the host's readings of the clock: in order, and within the counter's width (I26)."""
    readings = [*(subject.pings or ())]
    clocks = subject.trace.clocks
    if not (subject.served and readings and clocks):
        return
    if subject.restart is not None:
        at = next((n for n, p in enumerate(readings) if p.epoch == subject.restart.epoch), None)
        readings.insert(len(readings) if at is None else at, subject.restart)
    ends = [end for ping in readings for end in (ping.host_before_ns, ping.host_after_ns)]
    wide = [ping for ping in readings if not 0 <= ping.ticks < clocks[0].modulus]
    text = f"{len(readings):,} readings are in order"
    if any(before > after for before, after in pairwise(ends)):
        text = "the host's readings are not in the order of its own clock"
    elif wide:
        text = f"the host read {wide[0].ticks:,}, but the counter has {clocks[0].bits} bits"
    passed = text.endswith("are in order")
    yield check("I26", subject="readings", passed=passed, reason=text)


def copy_checks(subject: Subject) -> Iterator[Check]:
    """Check that executions do not repeat the readings of others, or on a host the durations (I27).

    Simulated and real microcontrollers may take exactly as long each time, so durations count only
    on the clock of a host, which also runs other programs.
    """
    trace = subject.trace
    groups: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for run in subject.runs:
        if run.executes:
            groups[run.tracer, run.name, run.signature].append(run.order)
    if not trace.clocks or not groups:
        return
    copies: list[str] = []
    for orders in groups.values():
        tables = {order: _readings(trace, order) for order in orders}
        if trace.clocks[0].bits >= WIDE_BITS:
            copies += _same_readings(tables)
        if not copies and subject.host_clock:
            copies += _same_durations(trace, tables)
    copies += _same_operators(trace)
    reason = "no execution repeats the readings of another one"
    if copies:
        more = f"; and {len(copies) - 1:,} more" if len(copies) > 1 else ""
        reason = copies[0] + more
    yield none_of("I27", "executions", len(copies), reason, "executions")


_Table = npt.NDArray[np.uint64]


def _same_readings(tables: Mapping[int, _Table]) -> Iterator[str]:
    """Yield executions with all readings of an earlier one; I03 is about clocks that stand."""
    seen: dict[bytes, int] = {}
    for order, table in tables.items():
        if not (np.diff(table.ravel()) != 0).any():
            continue
        before = seen.setdefault(table.tobytes(), order)
        if before != order and table.size >= ENOUGH_READINGS:
            yield f"block {order} has the same readings of the clock as block {before}"


def _same_durations(trace: Trace, tables: Mapping[int, _Table]) -> Iterator[str]:
    """Yield the warm executions if all of them have equal durations and equal pauses."""
    warm = list(tables)[1:]
    if len(warm) < ENOUGH_COPIES:
        return
    first = _relative(trace, tables[warm[0]])
    unit = gcd(*np.diff(np.unique(np.concatenate([trace.start, trace.end]))).tolist())
    if np.count_nonzero(first[:, 1] - first[:, 0] >= LONG_UNITS * unit) < ENOUGH_LONG:
        return
    if all(np.array_equal(first, _relative(trace, tables[order])) for order in warm[1:]):
        for order in warm[1:]:
            yield f"block {order} has exactly the durations of block {warm[0]}, on a host"


def _same_operators(trace: Trace) -> Iterator[str]:
    """Yield blocks in which different kernels take exactly as long."""
    kernels = np.array([name.startswith(KERNEL_EVENT) for name in trace.names] + [False])
    rows = np.flatnonzero(own_scopes(trace) & kernels[trace.name])
    ticks, blocks = durations(trace)[rows], block_numbers(trace)[rows]
    first = np.flatnonzero(np.diff(blocks, prepend=-1))
    if not len(first):
        return
    shortest = np.minimum.reduceat(ticks, first)
    longest = np.maximum.reduceat(ticks, first)
    bounds = [*first.tolist(), len(rows)]
    for number in np.flatnonzero((shortest == longest) & (shortest >= LONG_UNITS)).tolist():
        names = trace.name[rows[bounds[number] : bounds[number + 1]]]
        if len(names) >= ENOUGH_LONG and len(np.unique(names)) >= ENOUGH_KINDS:
            yield (
                f"all {len(names):,} kernels in block {blocks[bounds[number]]} take exactly "
                f"{shortest[number]:,} ticks"
            )


def _readings(trace: Trace, order: int) -> npt.NDArray[np.uint64]:
    """Return start and end of the events of a block on the tracer's own clock, shape (n, 2)."""
    block = trace.blocks[order]
    rows = slice(block.first, block.first + block.count)
    chosen = (trace.kind[rows] == Kind.PROFILE) & (trace.clock[rows] == 0)
    return np.stack([trace.start[rows][chosen], trace.end[rows][chosen]], axis=1)


def _relative(trace: Trace, table: npt.NDArray[np.uint64]) -> _Ints:
    """Return readings as ticks since the last one, shape (n, 2)."""
    flat = np.ascontiguousarray(table.ravel())
    since = forward(trace.clocks[0], flat, np.full_like(flat, flat[-1]))
    return (-since.astype(np.int64)).reshape(-1, 2)


LONGEST_PAUSE_NS: Final = 0.5e9
"""Longest time outside of instructions that is never questioned, nanoseconds: a busy host may stop
a process for so long."""


MOST_IDLE: Final = 0.9
"""Largest share of a scope that is never questioned: what little is in it decides nothing."""

MOST_EMPTY_EVENTS: Final = 200
"""Longest time between two events on a simulator, in empty events. Nothing else runs there; runs of
all boards take up to 3."""


def spent_checks(subject: Subject) -> Iterator[Check]:
    """Check that executions, and scopes of operators, last no longer than what is logged in them.

    Time that a runtime spends between instructions is short. Yields nothing for a trace alone, if
    events are missing or filtered, or if values are logged without their times.
    """
    trace, tree = subject.trace, subject.tree
    if subject.runs_requested is None or trace.filtered_events or not order_known(trace.losses):
        return
    if ((trace.kind == Kind.DEBUG) & (trace.clock != 0)).any():
        return
    own = own_scopes(trace)
    outer = own & (trace.named(EXECUTION) | trace.named(OPERATOR_CALL))
    children = np.bincount(tree.parent[own & (tree.parent >= 0)], minlength=len(trace))
    kernels = np.array([name.startswith(KERNEL_EVENT) for name in trace.names] + [False])
    has_kernel = np.zeros(len(trace), np.bool_)
    has_kernel[tree.parent[own & kernels[trace.name] & (tree.parent >= 0)]] = True
    outer &= (children > 0) & (trace.named(EXECUTION) | has_kernel) & ~ambiguous_durations(trace)
    rows = np.flatnonzero(outer)
    if not len(rows):
        return
    idle = event_nanoseconds(trace, tree.own)[rows]
    total = event_nanoseconds(trace, tree.total)[rows]
    with np.errstate(invalid="ignore"):
        long = idle > LONGEST_PAUSE_NS
        if subject.emulated_time and subject.probe:
            between = (children[rows] + 1) * float(subject.probe) * MOST_EMPTY_EVENTS
            long |= tree.own[rows] > between
        late = np.flatnonzero(long & (idle > total * MOST_IDLE) & (tree.own[rows] >= MANY_TICKS))
    reason = f"{len(rows):,} scopes last no longer than what is in them"
    if len(late):
        row = int(rows[late[0]])
        reason = (
            f"{len(late):,} scopes last longer; the first is {describe(trace, row)}: nothing is "
            f"logged in {Duration(float(idle[late[0]]))} of its {Duration(float(total[late[0]]))}"
        )
    yield none_of("I28", "scopes", len(late), reason, "scopes")
