"""Whether clocks count, and count forward (I03, I04)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.clock_width import SuspectedWidth, suspected_widths
from harness.analyze.ticks import durations
from harness.check.invariants.scopes import describe, own_scopes
from harness.check.subject import Subject
from harness.records.trace import Kind, Trace
from harness.records.verdict import Check, check

_Ints = npt.NDArray[np.int64]

ENOUGH_EVENTS: Final = 8
"""Events of a clock from which on it is evidence that none of them took a tick."""

STILL_EVENTS: Final = 32
"""Events from which on it is suspicious that a clock reads the same in all of them."""

STILL_FACTOR: Final = 4
"""They must be that many times as many as in the next longest stretch: a coarse clock reads the
same in many events, again and again."""


def clock_checks(subject: Subject) -> Iterator[Check]:
    """Check of every clock with enough events that it counts, and no further than it is wide."""
    trace = subject.trace
    ticks = durations(trace)
    suspected = {found.number: found for found in suspected_widths(trace, subject.dumps)}
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero((trace.kind == Kind.PROFILE) & (trace.clock == number))
        if number in suspected:
            yield _too_narrow(suspected[number])
        elif len(rows) >= ENOUGH_EVENTS:
            severity, why = _stands_still(trace, rows, ticks)
            yield check(
                "I03",
                severity="warning" if severity == "warning" else None,
                rule="a clock counts",
                subject=f"clock {domain.name}",
                passed=not why,
                reason=why or f"it counts along {len(rows):,} events",
            )


def _too_narrow(found: SuspectedWidth) -> Check:
    prefix = f"clock {found.clock}: "
    return check(
        "I03",
        rule="a clock counts",
        subject=f"clock {found.clock}",
        passed=False,
        reason=found.advice.removeprefix(prefix),
    )


def _stands_still(trace: Trace, rows: _Ints, ticks: npt.NDArray[np.uint64]) -> tuple[str, str]:
    """How bad it is, and why; why is empty for a clock that counts."""
    readings = np.concatenate([trace.start[rows], trace.end[rows]])
    if (readings == readings[0]).all():
        return "error", f"it reads {int(readings[0]):,} in all {len(rows):,} events"
    if not ticks[rows].any():
        # Another clock may have been read but once per event.
        bad = "error" if trace.clock[rows[0]] == 0 else "warning"
        return bad, f"none of its {len(rows):,} events took a tick"
    end = trace.end[rows]
    changes = np.flatnonzero((np.diff(end) != 0) | (ticks[rows[1:]] != 0))
    stretches = np.diff(np.concatenate([[-1], changes, [len(rows) - 1]]))
    longest = int(np.argmax(stretches))
    length = int(stretches[longest])
    second = int(np.delete(stretches, longest).max(initial=0))
    if length >= STILL_EVENTS and length > STILL_FACTOR * second:
        row = int(rows[int(stretches[:longest].sum())])
        return "warning", f"it reads the same in {length:,} events from {describe(trace, row)} on"
    return "", ""


def order_checks(subject: Subject) -> Iterator[Check]:
    """Check that what a tracer logs on its own clock ends in the order of the log, after it began.

    Delegates may log theirs later, and in any order; of several dumps in a file, none need be older
    than the next.
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
    reason = "all events do"
    if len(wrong):
        first = int(wrong[0])
        how = "it ends before it begins" if tree.backward[first] else _step(rows, end, first)
        reason = f"{len(wrong):,} events do not, the first is {describe(trace, first)}: {how}"
    yield check(
        "I04",
        rule="events end after they begin, in the order of the log",
        subject=f"clock {trace.clocks[0].name}",
        measured=float(len(wrong)),
        limit=0.0,
        unit="events",
        passed=not len(wrong),
        reason=reason,
    )


def _step(rows: _Ints, end: _Ints, row: int) -> str:
    place = int(np.searchsorted(rows, row))
    return f"it ends {int(end[place - 1] - end[place]):,} ticks before the event before it"


def untimed_check(why: str) -> Check:
    """The check of a log whose events cannot be placed on a timeline."""
    return check(
        "I04",
        rule="events end after they begin, in the order of the log",
        subject="log",
        passed=False,
        reason=f"{why}: the width or direction of a counter may be wrong",
    )
