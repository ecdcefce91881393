"""Checks hardware counters: scopes count no less than what is within them (I19), and counts fit
the width of their counter and each other (I20).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import durations, event_nanoseconds
from harness.check.invariants.scopes import describe, order_known, own_scopes
from harness.check.subject import Subject
from harness.formatting import printable
from harness.records.trace import NO_COUNT, HardwareCounter, Trace
from harness.records.verdict import Check, check

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

FASTEST_HZ: Final = 4e9
"""More counts per second than any counter of a microcontroller counts: what decides whether a
counter can have wrapped within an event."""

_AT_MOST: Final = (
    ("branches_taken", "branches"),
    ("branches", "instret"),
    ("jumps", "instret"),
    ("compressed", "instret"),
)
"""Pairs of counters of which the first counts a part of what the second counts."""

_CYCLES_RULE: Final = ("instret", "cycles")
"""Likewise on a core that retires at most one instruction per cycle."""


def counter_nesting_checks(subject: Subject) -> Iterator[Check]:
    """Check that no scope counts less than the events directly within it.

    Yields nothing if events are missing from the log: others may then stand in their place. Events
    in which a counter can have wrapped, and events of uncertain parent, are left out.
    """
    trace, tree = subject.trace, subject.tree
    if not trace.counters or not order_known(trace.losses):
        return
    own = own_scopes(trace)
    inner = np.flatnonzero(own & (tree.parent >= 0) & ~tree.ambiguous)
    inner = inner[own[tree.parent[inner]]]
    for column, counter in enumerate(trace.counters):
        counts = trace.counts[:, column]
        within = np.zeros(len(trace), np.int64)
        np.add.at(within, tree.parent[inner], np.maximum(counts[inner], 0))
        whole = _cannot_wrap(trace, counter) & (counts != NO_COUNT)
        whole &= np.isin(np.arange(len(trace)), tree.parent[inner])
        if not whole.any():
            continue
        less = np.flatnonzero(whole & (counts < within))
        reason = f"{int(np.count_nonzero(whole)):,} scopes count no less"
        if len(less):
            first = int(less[0])
            reason = (
                f"{len(less):,} scopes count less; the first is {describe(trace, first)}: it "
                f"counted {counts[first]:,}, the events within it {within[first]:,}"
            )
        yield _found("I19", "scopes count no less than the events within", counter, less, reason)


def counter_value_checks(subject: Subject) -> Iterator[Check]:
    """Check that counts fit the width of their counter, and that parts are no more than wholes."""
    trace = subject.trace
    for column, counter in enumerate(trace.counters):
        counts = trace.counts[:, column]
        # Counts are of 63 bits at most, so wider counters have no limit here.
        most = 2 ** min(counter.bits, 63) - 1
        wrong = np.flatnonzero((counts < NO_COUNT) | (counts > most))
        recorded = int(np.count_nonzero(counts != NO_COUNT))
        reason = f"{recorded:,} counts of {counter.bits} bits are from 0 to {most:,}"
        if len(wrong):
            first = int(wrong[0])
            reason = (
                f"{len(wrong):,} counts are not from 0 to {most:,}; the first is {counts[first]:,} "
                f"of {describe(trace, first)}"
            )
        yield _found("I20", "counts fit the width of the counter", counter, wrong, reason)
    pairs = _AT_MOST + ((_CYCLES_RULE,) if subject.single_issue else ())
    for part, whole in pairs:
        yield from _parts(trace, part, whole)


def _parts(trace: Trace, part: str, whole: str) -> Iterator[Check]:
    """Check that one counter counts no more than another one, in every event with both."""
    places = {counter.name: column for column, counter in enumerate(trace.counters)}
    if part not in places or whole not in places:
        return
    some, every = (trace.counts[:, places[name]] for name in (part, whole))
    counter, of = (trace.counters[places[name]] for name in (part, whole))
    compared = (some >= 0) & (every >= 0) & _cannot_wrap(trace, of)
    more = np.flatnonzero(compared & (some > every))
    reason = f"in {int(np.count_nonzero(compared)):,} events {part} is no more than {whole}"
    if len(more):
        first = int(more[0])
        reason = (
            f"{len(more):,} events count more {part} than {whole}; the first is "
            f"{describe(trace, first)}: {some[first]:,} and {every[first]:,}"
        )
    yield _found("I20", f"{part} are no more than {whole}", counter, more, reason)


def _cannot_wrap(trace: Trace, counter: HardwareCounter) -> _Bools:
    """Return True for events too short for the counter to wrap in, shape (n,)."""
    seconds = event_nanoseconds(trace, durations(trace)) / 1e9
    short: _Bools = seconds * FASTEST_HZ < 2.0**counter.bits  # False where the time is unknown
    return short


def _found(code: str, rule: str, counter: HardwareCounter, rows: _Ints, reason: str) -> Check:
    return check(
        code,
        rule=rule,
        subject=f"counter {printable(counter.name)}",
        measured=float(len(rows)),
        limit=0.0,
        unit="events",
        passed=not len(rows),
        reason=reason,
    )
