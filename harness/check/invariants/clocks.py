"""Checks that clocks advance (I03), events end in log order (I04), and operators are long enough
to measure (I05).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.call_tree import WRAPPERS
from harness.analyze.ticks import SuspectedWidth, durations, suspected_widths
from harness.check.invariants.scopes import describe, own_scopes
from harness.check.subject import Subject
from harness.records.trace import Kind, Trace
from harness.records.verdict import Check, check

_Ints = npt.NDArray[np.int64]

ENOUGH_EVENTS: Final = 8
"""Events of a clock needed to conclude from zero durations that it does not advance."""

STILL_EVENTS: Final = 32
"""Consecutive events with one reading from which on a clock counts as stopped."""

STILL_FACTOR: Final = 4
"""How many times longer this stretch must be than the next longest: a coarse clock has many
stretches of equal readings."""

MIN_EVENT_COSTS: Final = 1
"""Shortest trusted duration, in durations of an empty event. Below this, the tracer's own cost is
the larger part of the measurement."""

_NAMED: Final = 5
"""Number of operators to name."""

_ORDER_RULE: Final = "events end after they start, in log order"


def clock_checks(subject: Subject) -> Iterator[Check]:
    """Check every clock with enough events: it advances, and its readings fit its width."""
    trace = subject.trace
    ticks = durations(trace)
    suspected = {found.number: found for found in suspected_widths(trace, subject.dumps)}
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero((trace.kind == Kind.PROFILE) & (trace.clock == number))
        if number in suspected:
            yield _too_narrow(suspected[number])
        elif len(rows) >= ENOUGH_EVENTS:
            severity, problem = _stopped(trace, rows, ticks)
            yield check(
                "I03",
                severity="warning" if severity == "warning" else None,
                rule="clocks advance",
                subject=f"clock {domain.name}",
                passed=not problem,
                reason=problem or f"the clock advances over {len(rows):,} events",
            )


def _too_narrow(found: SuspectedWidth) -> Check:
    prefix = f"clock {found.clock}: "
    return check(
        "I03",
        rule="clocks advance",
        subject=f"clock {found.clock}",
        passed=False,
        reason=found.advice.removeprefix(prefix),
    )


def _stopped(trace: Trace, rows: _Ints, ticks: npt.NDArray[np.uint64]) -> tuple[str, str]:
    """Return severity and description of a stopped clock; ("", "") if the clock advances."""
    readings = np.concatenate([trace.start[rows], trace.end[rows]])
    if (readings == readings[0]).all():
        return "error", f"the clock reads {int(readings[0]):,} in all {len(rows):,} events"
    if not ticks[rows].any():
        # A delegate may read its clock only once per event, so this is certain for clock 0 only.
        severity = "error" if trace.clock[rows[0]] == 0 else "warning"
        return severity, f"all {len(rows):,} events take 0 ticks"
    end = trace.end[rows]
    changes = np.flatnonzero((np.diff(end) != 0) | (ticks[rows[1:]] != 0))
    stretches = np.diff(np.concatenate([[-1], changes, [len(rows) - 1]]))
    longest = int(np.argmax(stretches))
    length = int(stretches[longest])
    second = int(np.delete(stretches, longest).max(initial=0))
    if length >= STILL_EVENTS and length > STILL_FACTOR * second:
        row = int(rows[int(stretches[:longest].sum())])
        return (
            "warning",
            f"{length:,} consecutive events from {describe(trace, row)} have the same reading",
        )
    return "", ""


def order_checks(subject: Subject) -> Iterator[Check]:
    """Check that events on the tracer's own clock end after they start, and in log order.

    Delegates may log their events later and in any order. Dumps in one file may be in any order.
    """
    trace, tree = subject.trace, subject.tree
    timed = own_scopes(trace) | (~trace.delegated & (trace.clock == 0))
    rows = np.flatnonzero(timed)
    if not len(rows):
        return
    end = tree.start[rows] + tree.total[rows].astype(np.int64)
    dump = np.searchsorted(subject.dumps, rows, side="right")
    same = (np.diff(trace.tracer[rows].astype(np.int64)) == 0) & (np.diff(dump) == 0)
    back = np.flatnonzero((np.diff(end) < 0) & same) + 1
    backward = rows[tree.backward[rows]]
    wrong = np.union1d(rows[back], backward)
    reason = f"all {len(rows):,} events are in order"
    if len(wrong):
        first = int(wrong[0])
        how = "it ends before it starts" if tree.backward[first] else _step(rows, end, first)
        reason = f"{len(wrong):,} events are not; the first is {describe(trace, first)}: {how}"
    yield check(
        "I04",
        rule=_ORDER_RULE,
        subject=f"clock {trace.clocks[0].name}",
        measured=float(len(wrong)),
        limit=0.0,
        unit="events",
        passed=not len(wrong),
        reason=reason,
    )


def _step(rows: _Ints, end: _Ints, row: int) -> str:
    place = int(np.searchsorted(rows, row))
    return f"it ends {int(end[place - 1] - end[place]):,} ticks before the previous event ends"


def untimed_check(why: str) -> Check:
    """Return the failed check of a log whose events cannot be placed on a timeline."""
    return check(
        "I04",
        rule=_ORDER_RULE,
        subject="log",
        passed=False,
        reason=f"{why}; the declared width or direction of a counter may be wrong",
    )


def precision_checks(subject: Subject) -> Iterator[Check]:
    """Compare the median of each operator with the duration of an empty event on the device, one
    that reads the same counters.
    """
    counting = subject.trace.slowest_empty_events
    probe = counting.cost if counting else subject.probe
    if not probe or not subject.trace.clocks:
        return
    clock = subject.trace.clocks[0]
    least = float(probe) * MIN_EVENT_COSTS
    operators = [
        item
        for item in subject.operators
        if item.clock == clock
        and item.chain != -1
        and item.delegate_int == -1
        and item.delegate_str is None
        and item.name not in WRAPPERS
    ]
    if not operators:
        return
    medians = [(item.ticks.p50, item) for item in operators if item.ticks is not None]
    short = sorted((found for found in medians if found[0] < least), key=lambda found: found[0])
    reason = f"all {len(operators):,} operators take at least {least:,.1f} ticks"
    if short:
        names = [
            f"{item.name} (instruction {item.instruction}): {median:,.1f}"
            for median, item in short[:_NAMED]
        ]
        more = f" and {len(short) - _NAMED:,} more" if len(short) > _NAMED else ""
        reason = (
            f"{len(short):,} of {len(operators):,} operators take less than {least:,.1f} ticks, "
            f"the duration of an empty event{' with these counters' if counting else ''}: "
            f"{'; '.join(names)}{more}"
        )
    yield check(
        "I05",
        rule="operators are long enough to measure",
        subject="operators",
        measured=float(len(short)),
        limit=0.0,
        unit="operators",
        passed=not short,
        reason=reason,
    )
