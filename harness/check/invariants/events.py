"""Checks of events: how they nest, when their clocks say that they happened, and what they count.

They nest (I01) without overlap (I02), their clocks advance (I03), they end in log order (I04) and
are long enough to measure (I05). Scopes count what is within them (I19), and counts fit their
counters (I20). Clock 0 keeps its declared rate (I21), and all durations are certain (I22). All
tracers are on one timeline (I30).

Scopes are those of instructions, and the runtime's around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, equal_rows
from harness.analyze.call_tree import WRAPPERS, next_row
from harness.analyze.placement import rate_of_run
from harness.analyze.ticks import (
    RATE_TOLERANCE,
    SuspectedWidth,
    ambiguous_durations,
    durations,
    event_nanoseconds,
    nanoseconds_per_tick,
    own_scopes,
    suspected_widths,
    unwrap,
)
from harness.check.subject import Subject
from harness.duration import Duration
from harness.formatting import counted, printable
from harness.records.trace import (
    EXECUTION,
    LOADING,
    NO_CLOCK,
    NO_COUNT,
    HardwareCounter,
    Kind,
    Losses,
    Trace,
)
from harness.records.verdict import Check, check, none_of

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


def order_known(losses: Losses) -> bool:
    """Return whether no events are missing, so that neighbors in the log followed each other."""
    # A chunk is missing only with its records; its number alone is no reason to check nothing.
    return not (losses.events or losses.blocks or losses.records or losses.damaged)


def describe(trace: Trace, row: int) -> str:
    """Return the name, instruction and block of an event as text."""
    name = trace.text(int(trace.name[row])) or "(no name)"
    block = int(block_numbers(trace)[row])
    return f"{name} (instruction {trace.instruction[row]}, block {block})"


def nesting_checks(subject: Subject) -> Iterator[Check]:
    """Check that instructions nest within their scopes and do not overlap, and that delegate
    events take no longer than the call that contains them.

    Yields nothing if events are missing from the log: the enclosing scope is then unknown.
    """
    trace, tree = subject.trace, subject.tree
    if not order_known(trace.losses):
        return
    own, block = own_scopes(trace), block_numbers(trace)
    # Scopes of an application need not nest.
    rows = np.flatnonzero(own & (trace.chain != -1))
    if len(rows):
        instruction = equal_rows([block, trace.chain, trace.instruction])
        wrapper = own & trace.named(*WRAPPERS)
        of_instruction = next_row(instruction, wrapper, rows)
        of_instruction[wrapper[rows]] = -1
        around = of_instruction, next_row(block, own & trace.named(EXECUTION), rows)
        outside = np.zeros(len(rows), np.bool_)
        for outer in around:
            early, late = tree.start[rows] < tree.start[outer], tree.end[rows] > tree.end[outer]
            outside |= (outer >= 0) & (early | late)
        text = _beyond(subject, rows, around, outside) if outside.any() else ""
        yield _found("I01", "scopes", int(outside.sum()), text, "beyond an enclosing scope")
        # I01 counts those outside already.
        crossing, text = _crossing(subject, rows[~outside])
        rule = "instructions do not overlap"
        yield _found("I02", "scopes", crossing, text, "overlapping another", rule)
    yield from _delegates(subject)
    yield from _successive(subject)


def _found(code: str, subject: str, count: int, first: str, wrong: str, rule: str = "") -> Check:
    reason = f"{counted(count, 'event')} {wrong}; first {first}" if count else "all events do"
    return none_of(code, subject, count, reason, rule=rule)


def _beyond(subject: Subject, rows: _Ints, around: tuple[_Ints, ...], outside: _Bools) -> str:
    """Describe the first event that exceeds an enclosing scope.

    Args:
        subject: The run.
        rows: Rows of the scopes of instructions, shape (n,).
        around: Rows of scopes around them, -1 if absent, each shape (n,).
        outside: Which exceed one of them, shape (n,).
    """
    trace, start, end = subject.trace, subject.tree.start, subject.tree.end
    place = int(np.argmax(outside))
    row = int(rows[place])
    for enclosing in around:
        outer = int(enclosing[place])
        before, after = start[outer] - start[row], end[row] - end[outer]
        if outer >= 0 and max(before, after) > 0:
            how = f"starts {before:,} ticks before" if before > 0 else f"ends {after:,} ticks after"
            return f"{describe(trace, row)}: it {how} {describe(trace, outer)}"
    raise AssertionError("no enclosing scope is exceeded")


def _crossing(subject: Subject, rows: _Ints) -> tuple[int, str]:
    """Return how many scopes start before an earlier scope ends, and a description of the first."""
    trace, block = subject.trace, block_numbers(subject.trace)[rows]
    start, end = subject.tree.start[rows], subject.tree.end[rows]
    order = np.lexsort((-start, end, block))
    rows, block = rows[order], block[order]
    # Offset each block so that ends increase across all blocks.
    apart = int(end.max(initial=0)) + 1
    if apart > 2**62 // (len(trace.blocks) + 1):
        return 0, ""
    start, end = start[order] + block * apart, end[order] + block * apart
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


def _successive(subject: Subject) -> Iterator[Check]:
    """Check that loading and executions of a tracer follow one another.

    Ends are in log order, as I04 checks; a scope that begins early shows only here. Several
    executions in one block are left to I14.
    """
    trace, tree = subject.trace, subject.tree
    rows = np.flatnonzero(own_scopes(trace) & trace.named(LOADING[0], EXECUTION))
    if len(rows) < 2:
        return
    dump = np.searchsorted(subject.dumps, rows, side="right")
    same = (np.diff(trace.tracer[rows].astype(np.int64)) == 0) & (np.diff(dump) == 0)
    same &= np.diff(block_numbers(trace)[rows]) != 0
    early = np.flatnonzero(same & (tree.start[rows[1:]] < tree.end[rows[:-1]]))
    text = ""
    if len(early):
        before, row = int(rows[early[0]]), int(rows[early[0] + 1])
        text = (
            f"{describe(trace, row)}: it starts {tree.end[before] - tree.start[row]:,} ticks "
            f"before {describe(trace, before)} ends"
        )
    rule = "executions follow one another"
    yield _found("I02", "executions", len(early), text, "before another one ends", rule)


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
    ended = np.maximum.reduceat(tree.end[rows], first)
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
    rule, wrong = "delegate events fit their calls", "longer than the call around it"
    yield _found("I02", "delegates", len(longer), text, wrong, rule)


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
                f"{counted(len(less), 'scope', 'counts')} less than its events; the first is "
                f"{describe(trace, first)}: {counts[first]:,}, its events {within[first]:,}"
            )
        yield _counted("I19", "scopes count no less than the events within", counter, less, reason)


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
                f"{counted(len(wrong), 'count', 'is')} not from 0 to {most:,}; the first is "
                f"{counts[first]:,} of {describe(trace, first)}"
            )
        yield _counted("I20", "counts fit the width of the counter", counter, wrong, reason)
    if not trace.counters:
        return
    yield from _standing(trace)
    pairs = _AT_MOST + ((_CYCLES_RULE,) if subject.single_issue else ())
    for part, whole in pairs:
        yield from _parts(trace, part, whole)


def _standing(trace: Trace) -> Iterator[Check]:
    """Check that counters of cycles and instructions count in every execution that takes time."""
    executions = own_scopes(trace) & trace.named(EXECUTION) & (durations(trace) >= MANY_TICKS)
    for column, counter in enumerate(trace.counters):
        counts = trace.counts[:, column]
        known = executions & (counts != NO_COUNT) & _cannot_wrap(trace, counter)
        if counter.name not in _CYCLES_RULE or not known.any():
            continue
        still = np.flatnonzero(known & (counts == 0))
        reason = f"it counts in all {int(np.count_nonzero(known)):,} executions"
        if len(still):
            reason = (
                f"it counts nothing in {counted(len(still), 'execution')}; the first is "
                f"{describe(trace, int(still[0]))}"
            )
        yield _counted("I20", f"{counter.name} count in executions", counter, still, reason)


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
            f"{counted(len(more), 'event', 'counts')} more {part} than {whole}; the first is "
            f"{describe(trace, first)}: {some[first]:,} and {every[first]:,}"
        )
    yield _counted("I20", f"{part} are no more than {whole}", counter, more, reason)


def _cannot_wrap(trace: Trace, counter: HardwareCounter) -> _Bools:
    """Return True for events too short for the counter to wrap in, shape (n,)."""
    seconds = event_nanoseconds(trace, durations(trace, wall=True)) / 1e9
    short: _Bools = seconds * FASTEST_HZ < 2.0**counter.bits  # False where the time is unknown
    return short


def _counted(code: str, rule: str, counter: HardwareCounter, rows: _Ints, reason: str) -> Check:
    subject = f"counter {printable(counter.name)}"
    return none_of(code, subject, len(rows), reason, rule=rule)


ENOUGH_EVENTS: Final = 8
"""Events of a clock needed to conclude from zero durations that it does not advance."""

STILL_EVENTS: Final = 32
"""Consecutive events with one reading from which on a clock counts as stopped."""

MIN_EXECUTIONS: Final = 3
"""Executions needed to say that one of them takes too few ticks."""

MANY_TICKS: Final = 64
"""Ticks of most executions from which on one without a tick shows a stopped clock."""

STILL_FACTOR: Final = 4
"""How many times longer this stretch must be than the next longest: a coarse clock has many
stretches of equal readings."""

MIN_EVENT_COSTS: Final = 1
"""Shortest trusted duration, in durations of an empty event. Below this, the tracer's own cost is
the larger part of the measurement."""

LITTLE: Final = 0.01
"""Share of the time of all operators below which those that are too short do not matter."""

_NAMED: Final = 5
"""Number of operators to name."""


def clock_checks(subject: Subject) -> Iterator[Check]:
    """Check every clock with enough events: it advances, and its readings fit its width (I03).

    Clock 0 keeps its declared rate by the host's readings (I21); nothing is said of that for a
    trace alone, and for emulated time. Durations of a narrow counter that may be whole wraps longer
    are reported (I22); wraps that only the host's readings show are an error: no duration of the
    run is known then.
    """
    trace = subject.trace
    ticks = durations(trace, wall=True)
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
                subject=f"clock {domain.name}",
                passed=not problem,
                reason=problem or f"the clock advances over {len(rows):,} events",
            )
    if subject.pings is not None and trace.clocks and not subject.emulated_time:
        rate = rate_of_run(trace, subject.pings, subject.restart)
        yield check(
            "I21",
            severity="note" if rate.agrees is None else None,
            subject=f"clock {trace.clocks[0].name}",
            passed=rate.agrees is True,
            reason=rate.reason,
        )
    rows = np.flatnonzero(ambiguous_durations(trace))
    if len(rows):
        clock = trace.clocks[int(trace.clock[rows[0]])]
        period = "" if clock.hz is None else f" ({Duration(float(clock.modulus / clock.hz) * 1e9)})"
        reason = (
            f"{counted(len(rows), 'event', 'has')} an unknown duration, left out of statistics, as "
            f"whole wraps of {clock.bits} bits{period} may have passed within each; the first is "
            f"{describe(trace, int(rows[0]))}"
        )
        if trace.hidden_wraps:
            reason = (
                f"the host's readings show {counted(trace.hidden_wraps, 'wrap')} that the log "
                f"does not: {reason}"
            )
        effect = None if trace.hidden_wraps else "warning"
        yield none_of("I22", f"clock {clock.name}", len(rows), reason, severity=effect)


def _too_narrow(found: SuspectedWidth) -> Check:
    subject = f"clock {found.clock}"
    reason = found.advice.removeprefix(f"{subject}: ")
    return check("I03", subject=subject, passed=False, reason=reason)


def _stopped(trace: Trace, rows: _Ints, ticks: npt.NDArray[np.uint64]) -> tuple[str, str]:
    """Return severity and description of a stopped clock; ("", "") if the clock advances."""
    readings = np.concatenate([trace.start[rows], trace.end[rows]])
    if (readings == readings[0]).all():
        return "error", f"the clock reads {int(readings[0]):,} in all {len(rows):,} events"
    if not ticks[rows].any():
        # A delegate may read its clock only once per event, so this is certain for clock 0 only.
        severity = "error" if trace.clock[rows[0]] == 0 else "warning"
        return severity, f"all {len(rows):,} events take 0 ticks"
    if trace.clock[rows[0]] == 0:
        executions = np.flatnonzero(own_scopes(trace) & trace.named(EXECUTION))
        _, firsts = np.unique(block_numbers(trace)[executions], return_index=True)
        executions = executions[firsts]
        still = executions[ticks[executions] == 0]
        enough = len(executions) >= MIN_EXECUTIONS
        if enough and len(still) and np.median(ticks[executions]) >= MANY_TICKS:
            text = describe(trace, int(still[0]))
            return "error", f"{text} takes 0 ticks, others of its kind take many"
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
    """Check that events on the tracer's own clock end after they start, and in log order (I04).

    Delegates may log their events later and in any order. Dumps in one file may be in any order.
    Of several tracers, each must say which counter it reads, and when it read it (I30). Tasks and
    interrupts begin and end in turn, and scopes in one task (I31).
    """
    trace, tree = subject.trace, subject.tree
    timed = own_scopes(trace) | (~trace.delegated & np.isin(trace.clock, trace.own_clocks))
    rows = np.flatnonzero(timed)
    if not len(rows):
        return
    end = tree.end[rows]
    dump = np.searchsorted(subject.dumps, rows, side="right")
    same = (np.diff(trace.tracer[rows].astype(np.int64)) == 0) & (np.diff(dump) == 0)
    back = np.flatnonzero((np.diff(end) < 0) & same) + 1
    backward = rows[tree.backward[rows]]
    wrong = np.union1d(rows[back], backward)
    reason = f"all {len(rows):,} events are in order"
    if len(wrong):
        first = int(wrong[0])
        how = "it ends before it starts" if tree.backward[first] else _step(rows, end, first)
        reason = (
            f"{counted(len(wrong), 'event')} out of order; first {describe(trace, first)}: {how}"
        )
    yield none_of("I04", f"clock {trace.clocks[0].name}", len(wrong), reason)
    if trace.tracer_clocks or len(np.unique(trace.tracer[rows])) > 1:
        own = np.where(np.isin(trace.clock, trace.own_clocks), trace.clock, NO_CLOCK)
        line = unwrap(replace(trace, clock=own.astype(np.uint8)))
        reason = "; ".join(line.unplaced or line.placed) or "all read one counter, as declared"
        yield none_of("I30", "tracers", len(line.unplaced), reason, "tracers")
    if trace.kind.max(initial=0) >= Kind.TASK:
        from harness.analyze.contexts import contexts

        found = contexts(trace)
        why = found.faults[:1] or found.notes[:1] or ("they do",)
        yield none_of("I31", "switches", len(found.faults), printable(why[0]), "contradictions")


def _step(rows: _Ints, end: _Ints, row: int) -> str:
    place = int(np.searchsorted(rows, row))
    return f"it ends {int(end[place - 1] - end[place]):,} ticks before the previous event ends"


def untimed_check(why: str) -> Check:
    """Return the failed check of a log whose events cannot be placed on a timeline."""
    return check(
        "I04",
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
            f"{len(short):,} of {len(operators):,} operators shorter than an empty event"
            f"{' with these counters' if counting else ''} ({least:,.1f} ticks): "
            f"{'; '.join(names)}{more}"
        )
    parts, whole = next(zip(*short, strict=True), ()), next(zip(*medians, strict=True), ())
    yield none_of(
        "I05",
        "operators",
        len(short) * bool(sum(parts) >= LITTLE * sum(whole)),
        reason,
        "operators",
    )
