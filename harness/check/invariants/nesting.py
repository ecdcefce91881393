"""Checks that events nest within their scopes (I01) and do not overlap (I02)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import nanoseconds_per_tick
from harness.check.invariants.scopes import Scopes, describe, order_known, scopes_of
from harness.check.subject import Subject
from harness.records.trace import Kind, Trace
from harness.records.verdict import Check, check

_Ints = npt.NDArray[np.int64]

RATE_TOLERANCE: Final = 0.01
"""Accepted relative error between declared clock rates: trimmed RC oscillators keep within 1 %."""


def nesting_checks(subject: Subject) -> Iterator[Check]:
    """Check that instructions nest within their scopes and do not overlap, and that delegate
    events take no longer than the call that contains them.

    Yields nothing if events are missing from the log: the enclosing scope is then unknown.
    """
    trace = subject.trace
    if not order_known(trace.losses):
        return
    scopes = scopes_of(subject)
    if len(scopes.rows):
        beyond, text = _beyond(trace, scopes)
        rule = "events nest within their enclosing scopes"
        yield _found("I01", rule, "scopes", beyond, text)
        crossing, text = _crossing(trace, scopes, beyond)
        yield _found("I02", "instructions do not overlap", "scopes", crossing, text)
    yield from _delegates(subject)


def _found(code: str, rule: str, subject: str, count: int, first: str) -> Check:
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=float(count),
        limit=0.0,
        unit="events",
        passed=not count,
        reason=f"{count:,} events do not; the first is {first}" if count else "all events do",
    )


def _beyond(trace: Trace, scopes: Scopes) -> tuple[int, str]:
    """Return how many events exceed an enclosing scope, and a description of the first."""
    rows, outside = _outside(scopes)
    if not outside.any():
        return 0, ""
    place = int(np.argmax(outside))
    row = int(rows[place])
    for around in scopes.around:
        outer = int(around[place])
        before, after = scopes.start[outer] - scopes.start[row], scopes.end[row] - scopes.end[outer]
        if outer >= 0 and max(before, after) > 0:
            how = f"starts {before:,} ticks before" if before > 0 else f"ends {after:,} ticks after"
            return int(outside.sum()), f"{describe(trace, row)}: it {how} {describe(trace, outer)}"
    raise AssertionError("no enclosing scope is exceeded")


def _outside(scopes: Scopes) -> tuple[_Ints, npt.NDArray[np.bool_]]:
    rows = scopes.rows
    outside = np.zeros(len(rows), np.bool_)
    for outer in scopes.around:
        apart = (scopes.start[rows] < scopes.start[outer]) | (scopes.end[rows] > scopes.end[outer])
        outside |= (outer >= 0) & apart
    return rows, outside


def _crossing(trace: Trace, scopes: Scopes, beyond: int) -> tuple[int, str]:
    """Return how many scopes start before an earlier scope ends, and a description of the first.

    Scopes that exceed their enclosing scope are skipped: I01 counts them already.
    """
    kept = ~_outside(scopes)[1] if beyond else np.ones(len(scopes.rows), np.bool_)
    rows, block = scopes.rows[kept], scopes.block[kept]
    order = np.lexsort((-scopes.start[rows], scopes.end[rows], block))
    rows, block = rows[order], block[order]
    # Offset each block so that ends increase across all blocks.
    apart = int(scopes.end[rows].max(initial=0)) + 1
    if apart > 2**62 // (len(trace.blocks) + 1):
        return 0, ""
    start, end = scopes.start[rows] + block * apart, scopes.end[rows] + block * apart
    # Scopes first..row end within this scope. They nest in it unless they start before it.
    first = np.minimum(np.searchsorted(end, start, side="right"), np.arange(len(rows)))
    spans = np.stack([first, np.arange(len(rows))], axis=1).ravel()
    earliest = np.minimum.reduceat(start, spans)[::2] if len(rows) else start
    found = np.flatnonzero(earliest < start)
    if not len(found):
        return 0, ""
    place = int(found[0])
    other = int(first[place]) + int(np.argmin(start[first[place] : place]))
    pair = describe(trace, int(rows[place])), describe(trace, int(rows[other]))
    return len(found), f"{pair[0]}: it starts before {pair[1]} ends"


def _delegates(subject: Subject) -> Iterator[Check]:
    """Compare the span of the delegate events in a call with the duration of the call.

    Only clocks other than the tracer's, and only those with a known rate.
    """
    trace, tree = subject.trace, subject.tree
    call = tree.parent
    length = [nanoseconds_per_tick(clock) for clock in trace.clocks]
    known = [number for number, tick in enumerate(length) if number and tick is not None]
    inner = (trace.kind == Kind.PROFILE) & np.isin(trace.clock, known) & (call >= 0)
    inner &= trace.clock[call] == 0
    if not inner.any() or length[0] is None:
        return
    tick = np.array([float(item or 0) for item in length])
    rows = np.flatnonzero(inner)
    order = np.lexsort((trace.clock[rows], call[rows]))
    rows = rows[order]
    first = np.flatnonzero(
        (np.diff(call[rows], prepend=-2) != 0) | (np.diff(trace.clock[rows], prepend=0) != 0)
    )
    began = np.minimum.reduceat(tree.start[rows], first)
    ended = np.maximum.reduceat(tree.start[rows] + tree.total[rows].astype(np.int64), first)
    rows = rows[first]
    outer, own = call[rows], tick[trace.clock[rows]]
    took = (ended - began) * own
    room = tree.total[outer] * tick[0] * (1 + RATE_TOLERANCE) + 2 * (tick[0] + own)
    longer = np.flatnonzero(took > room)
    text = ""
    if len(longer):
        worst = longer[0]
        text = (
            f"in {describe(trace, int(outer[worst]))}: {took[worst]:,.0f} ns on clock "
            f"{trace.clocks[trace.clock[rows[worst]]].name!r} within "
            f"{tree.total[outer[worst]] * tick[0]:,.0f} ns"
        )
    rule = "delegate events fit their calls"
    yield _found("I02", rule, "delegates", len(longer), text)
