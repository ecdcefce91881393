"""Ticks: durations, conversion to time, unwrapped timelines, width and wraps of counters.

An ED00 file does not record the width of its counter; 64 bits are assumed. If a narrower counter
wrapped, events seem to end long before they start. This is only evidence, so a suspected width is
reported, but not applied.

A reading of an n-bit counter is known modulo 2**n. Two things of a log tell the wraps apart:

- A scope lasts at least as long as what is nested in it. ``Method::execute`` contains the
  instructions of its block; the runtime's scope around an instruction contains its events.
- Instructions follow one another: what one logged ended before the next began.

Both need one rule, which ``docs/clocks.md`` states and readings of the host verify
(``harness.analyze.placement``): less than one wrap passes within an event that contains no others,
and between two events. Nothing tells what other scopes contain, such as those of an application, so
their duration is ambiguous if they end more than a wrap after the log began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, equal_rows
from harness.errors import FormatError, UsageError
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    NO_CLOCK,
    OPERATOR_CALL,
    STREAMING,
    ClockDomain,
    Kind,
    Trace,
)

Ticks = npt.NDArray[np.uint64]
_EXACT = 2**53  # every integer up to here is a float64
RATE_TOLERANCE: Final = 0.01
"""Accepted relative error between declared clock rates: trimmed RC oscillators keep within 1 %."""

LONGEST = 2**62
"""Most ticks of a step, of an event and of a timeline."""


def forward(domain: ClockDomain, start: Ticks, end: Ticks) -> Ticks:
    """Return the ticks from reading ``start`` to reading ``end`` of a counter, below one wrap.

    ``(end - start) mod 2**bits`` for a counter that counts up, ``(start - end) mod 2**bits`` for
    one that counts down; exact for every width, as uint64 arithmetic is itself modulo 2**64.
    """
    difference = start - end if domain.down else end - start
    return difference & np.uint64(domain.modulus - 1)


def durations(trace: Trace, *, wall: bool = False) -> Ticks:
    """Return the duration of every event in ticks of its clock domain, shape (n,).

    It is the time that the event's own context had the core: where tasks and interrupts are logged,
    what others took is subtracted (``harness.analyze.contexts``), unless ``wall`` is true.

    Differences modulo the counter's range, and the whole wraps that a scope lasts at least because
    of what is nested in it (``harness.analyze.ticks``). ``unknown_durations`` says which of them
    are not certain. Events without a time (NO_CLOCK) have 0.
    """
    result = np.zeros(len(trace), np.uint64)
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero(trace.clock == number)
        result[rows] = forward(domain, trace.start[rows], trace.end[rows])
    for number in trace.own_clocks:
        wraps = scope_wraps(trace, number)
        if wraps is not None:
            modulus = np.uint64(trace.clocks[number].modulus)
            result[wraps.rows] += wraps.within.astype(np.uint64) * modulus
    if not wall and trace.kind.max(initial=0) >= Kind.TASK:
        from harness.analyze.contexts import contexts

        result -= np.minimum(contexts(trace).taken, result)
    return result


def scope_wraps(trace: Trace, number: int = 0, jitter: int | None = None) -> Wraps | None:
    """Return the wraps within the tracers' scopes; None if their counter has not wrapped.

    Args:
        trace: The trace.
        number: Index of the counter; tracers read clock 0, or have one of their own.
        jitter: Largest difference in ticks that counts as a backward step; by default, that of the
            clock.
    """
    if not trace.clocks or not does_wrap(trace.clocks[number]):
        return None
    clock = trace.clocks[number]
    rows = np.flatnonzero(own_scopes(trace) & (trace.clock == number))
    if not len(rows):
        return None
    columns = _ScopeColumns(trace, rows, clock, default_jitter(clock) if jitter is None else jitter)
    if columns.never_wraps():
        return None
    columns.identify()
    count = len(rows)
    found = Wraps(
        rows, np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    )
    tracers = trace.tracer[rows]
    bounds = [0, *(np.flatnonzero(tracers[1:] != tracers[:-1]) + 1).tolist(), count]
    for first, behind in pairwise(bounds):
        _Log(columns.part(slice(first, behind)), found, first).solve()
    return found


def without_wraps(trace: Trace) -> Trace:
    """Return the same events with each end set to start plus duration, as 64-bit readings.

    For readers that subtract without regard to the counter's width, such as ExecuTorch's Inspector,
    and know one clock. So events on other tracers' own counters are in ticks of clock 0.
    """
    if len(trace.own_clocks) > 1:
        from harness.analyze.tracers import on_one_clock

        trace = on_one_clock(trace)
    return replace(
        trace,
        end=trace.start + durations(trace, wall=True),
        clocks=tuple(replace(clock, bits=64, down=False) for clock in trace.clocks),
    ).sealed()


def nanoseconds_per_tick(domain: ClockDomain) -> Fraction | None:
    """Return the exact length of a tick in nanoseconds, or None if the rate is unknown."""
    return None if domain.hz is None else Fraction(1_000_000_000) / domain.hz


def to_nanoseconds(
    ticks: npt.NDArray[np.uint64] | npt.NDArray[np.int64], domain: ClockDomain
) -> npt.NDArray[np.float64]:
    """Convert ticks, never negative, to nanoseconds, same shape.

    With a tick of p/q ns the result is the float64 nearest to ``ticks * p / q`` while
    ``ticks * p`` and q are at most 2**53 (17 days at 240 MHz), else within 1 ulp.

    Raises:
        ValueError: The rate of the domain is unknown.
    """
    length = nanoseconds_per_tick(domain)
    if length is None:
        raise ValueError(f"clock {domain.name!r} has no known rate")
    if length == 1:
        return ticks.astype(np.float64)  # the usual clock of a host, of any size, in one pass
    p, q = length.numerator, length.denominator
    largest = int(ticks.max(initial=1))
    if largest * p < 2**64 and q <= _EXACT:
        scaled = ticks.astype(np.uint64) * np.uint64(p)
        if largest * p <= _EXACT:
            return scaled.astype(np.float64) / float(q)
        whole, rest = np.divmod(scaled, np.uint64(q))
        return whole.astype(np.float64) + rest.astype(np.float64) / float(q)
    exact = [float(tick * length) for tick in ticks.ravel().tolist()]
    return np.array(exact, np.float64).reshape(ticks.shape)


def event_nanoseconds(trace: Trace, ticks: Ticks) -> npt.NDArray[np.float64]:
    """Convert ticks of events to nanoseconds, shape (n,): 0 without a time, NaN without a rate.

    Args:
        trace: The trace.
        ticks: Ticks of every event on its own clock, shape (n,).
    """
    result = np.full(len(ticks), np.nan)
    result[trace.clock == NO_CLOCK] = 0.0
    for number, domain in enumerate(trace.clocks):
        if domain.hz is not None:
            rows = trace.clock == number
            result[rows] = to_nanoseconds(ticks[rows], domain)
    return result


_Ints = npt.NDArray[np.int64]

_WIDE = 56
"""Width in bits from which on a counter does not wrap within a session (2 years at 1 GHz)."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start and end of every event, in ticks of its own clock domain.

    The zero of each domain is its earliest instant; domains are not aligned with each other.

    Attributes:
        start: Ticks since the zero of the event's domain, int64, shape (n,); -1 for events
            without a time.
        end: Likewise. Ends increase in log order, except for ``backward_steps``.
        origins: Per domain, the counter's reading at its zero; None without events.
        begins: Per domain, its zero in its ticks since the zero of clock 0's readings of 48 bits;
            None if it is not placed (``Trace.tracer_clocks``).
        placed: What places each tracer among the others, in words.
        unplaced: Tracers whose events may have been at other times, and why, in words.
        backward_steps: Per domain, number of events that ended slightly before the previous event
            in the log.
        reversed_events: Per domain, number of events that end slightly before they start; these
            have ``start > end``.
    """

    start: _Ints
    end: _Ints
    origins: tuple[int | None, ...]
    backward_steps: tuple[int, ...]
    reversed_events: tuple[int, ...]
    begins: tuple[int | None, ...] = ()
    placed: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()


def default_jitter(domain: ClockDomain) -> int:
    """Return the largest difference, in ticks, that counts as a backward step, not as a wrap.

    It is the range divided by 65,536: 65 us for 32 bits at 1 GHz, 0 below 16 bits. Counters that do
    not wrap within a session can only have stepped back, so it is half the range for these. A
    monotonic counter never steps back.
    """
    if domain.monotonic:
        return 0
    return domain.modulus >> (16 if does_wrap(domain) else 1)


def does_wrap(domain: ClockDomain) -> bool:
    """Return whether the counter may wrap within a session."""
    return domain.bits < _WIDE


def unwrap(trace: Trace, jitter: int | None = None) -> Timeline:
    """Place every event on the timeline of its clock domain.

    Events are logged when they end, so ends, unlike starts, are in order. The counter is followed
    from end to end, across events and blocks, and each start is its end minus the duration. Each
    tracer is followed separately, and placed by its readings of clock 0. Without them it is assumed
    to begin within half a wrap of the first one; ``unplaced`` says whether nobody declared that.

    A gap longer than one wrap is not visible in the log: the timeline after it is short by whole
    wraps, but durations stay exact. Readings from outside the log can settle this
    (``harness.analyze.placement``).

    Args:
        trace: The trace.
        jitter: Largest difference in ticks that counts as a backward step. A true step forward must
            be below one wrap minus this. Defaults to ``default_jitter`` of each domain.

    Raises:
        FormatError: The events span more than 2**62 ticks, usually because the width or direction
            of the counter is declared wrongly.
    """
    start = np.full(len(trace), -1, np.int64)
    end = np.full(len(trace), -1, np.int64)
    origins: list[int | None] = []
    backward_steps, reversed_events = [], []
    tracers = None
    if trace.tracer_clocks or trace.tracer.any():
        from harness.analyze.tracers import Tracers

        tracers = Tracers(trace)
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero(trace.clock == number)
        if not len(rows):
            origins.append(None)
            backward_steps.append(0)
            reversed_events.append(0)
            continue
        limit = default_jitter(domain) if jitter is None else jitter
        readings = trace.end[rows]
        steps, lengths = followed(trace, number, rows, limit)
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), steps]))
        if tracers is not None:
            tracers.place(number, rows, ends, lengths, limit)
        starts = ends - lengths
        zero, last = int(min(starts.min(), ends.min())), int(max(starts.max(), ends.max()))
        # A sum that overflows shows, too: no step is longer, so some instant before it is beyond.
        if last - zero > LONGEST:
            raise _span_error(domain)
        start[rows] = starts - zero
        end[rows] = ends - zero
        begin, ahead = int(readings[0]), zero - int(ends[0])
        origins.append((begin - ahead if domain.down else begin + ahead) % domain.modulus)
        if tracers is not None:
            tracers.zeros[number] = zero
        backward_steps.append(int(np.count_nonzero(steps < 0)))
        reversed_events.append(int(np.count_nonzero(lengths < 0)))
    found = tracers.found() if tracers is not None else ()
    counts = tuple(backward_steps), tuple(reversed_events)
    return Timeline(start, end, tuple(origins), *counts, *found)


def followed(trace: Trace, clock: int, rows: _Ints, jitter: int) -> tuple[_Ints, _Ints]:
    """Return the ticks from each end to the next, and the duration of each event.

    Args:
        trace: The trace.
        clock: Index of the clock of these events.
        rows: Rows of the events, ascending, shape (n,).
        jitter: Largest difference in ticks that counts as a backward step.

    Returns:
        Steps, shape (n - 1,), 0 to the first event of another tracer, which may begin anywhere; and
        durations, shape (n,), negative for events that end slightly before they start.

    Raises:
        FormatError: A difference is larger than 2**62 ticks either way.
    """
    domain, start, end = trace.clocks[clock], trace.start[rows], trace.end[rows]
    ticks = forward(domain, end[:-1], end[1:])
    other = trace.tracer[rows][1:] != trace.tracer[rows][:-1]
    ticks[other] = 0
    steps = signed_steps(domain, ticks, jitter)
    lengths = signed_steps(domain, forward(domain, start, end), jitter)
    wraps = scope_wraps(trace, clock, jitter) if clock in trace.own_clocks else None
    if wraps is None:
        return steps, lengths
    place = np.searchsorted(rows, wraps.rows)
    lengths[place] += wraps.within * domain.modulus
    # Other events between two scopes may show wraps that the scopes alone do not.
    ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), steps]))
    own = ends[place]
    between = np.diff(own) - wraps.steps[1:]
    between[trace.tracer[wraps.rows][1:] != trace.tracer[wraps.rows][:-1]] = 0
    missing = np.maximum(-between // domain.modulus, 0)
    steps[place[1:] - 1] += missing * domain.modulus
    return steps, lengths


def unknown_durations(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return True for events of unknown duration, shape (n,).

    On a counter that does not wrap within a session: events that end before they start. One of the
    two readings is wrong, or the counter is narrower than declared and did wrap. On a narrower
    counter: ``ambiguous_durations``.
    """
    found = ambiguous_durations(trace)
    for number, domain in enumerate(trace.clocks):
        if not does_wrap(domain):
            rows = trace.clock == number
            ticks = forward(domain, trace.start[rows], trace.end[rows])
            found[rows] = ticks >= np.uint64(domain.modulus >> 1)
    return found


def ambiguous_durations(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return True for events that may have lasted whole wraps longer than they read, shape (n,).

    - All on clock 0, if the host's readings show wraps that the log does not
      (``Trace.hidden_wraps``).
    - A scope that may contain earlier events or not (``harness.analyze.ticks``).
    - An event of a delegate, if its call is long enough for another wrap of the delegate's counter.
    """
    found = np.zeros(len(trace), np.bool_)
    for number in trace.own_clocks:
        wraps = scope_wraps(trace, number)
        if wraps is not None:
            found[wraps.rows] = wraps.ambiguous
    if trace.hidden_wraps:
        found |= (trace.clock == 0) & (trace.kind == Kind.PROFILE)
    for number, domain in enumerate(trace.clocks[1:], 1):
        if does_wrap(domain):
            rows, calls = calls_around(trace, number)
            found[rows[_has_room(trace, rows, calls)]] = True
    return found


def _has_room(trace: Trace, rows: _Ints, calls: _Ints) -> _Bools:
    """Return True for events whose calls would last long enough with one more wrap, shape (m,).

    Without a known rate of both clocks nothing is known of that.
    """
    found = np.zeros(len(rows), np.bool_)
    called = np.flatnonzero(calls >= 0)
    if not len(called):
        return found
    domain = trace.clocks[int(trace.clock[rows[0]])]
    outer, inner = nanoseconds_per_tick(trace.clocks[0]), nanoseconds_per_tick(domain)
    if outer is None or inner is None:
        return found
    ticks = durations(trace)
    least = (ticks[rows[called]].astype(np.float64) + float(domain.modulus)) * float(inner)
    # Rates differ by their tolerances, and either end of a call by a tick.
    room = (ticks[calls[called]].astype(np.float64) + 2) * float(outer) * (1 + RATE_TOLERANCE)
    found[called] = least <= room
    return found


def signed_steps(domain: ClockDomain, ticks: Ticks, jitter: int) -> _Ints:
    """Convert modular differences to signed ones: within ``jitter`` of a whole wrap is negative.

    Raises:
        FormatError: A difference is larger than 2**62 ticks either way.
    """
    if not 0 <= jitter < domain.modulus:
        raise ValueError(f"jitter of {jitter} ticks is not below one wrap of {domain.name!r}")
    missing = np.uint64(domain.modulus - 1) - ticks  # ticks short of a wrap, less one
    negative = missing < np.uint64(jitter)
    lengths = np.where(negative, missing + np.uint64(1), ticks)
    if (lengths > np.uint64(LONGEST)).any():
        raise _span_error(domain)
    return np.where(negative, -lengths.astype(np.int64), lengths.astype(np.int64))


def _span_error(domain: ClockDomain) -> FormatError:
    return FormatError(
        f"events on clock {domain.name!r} span more than 2**62 ticks",
        field="start or end",
        hint="check the declared width and direction of the counter",
    )


_Bools = npt.NDArray[np.bool_]

COMMON_WIDTHS: Final = (16, 24, 32, 48)
"""Usual widths of microcontroller counters, in bits."""


@dataclass(frozen=True, slots=True)
class SuspectedWidth:
    """Readings that indicate a narrower counter than the trace declares.

    Attributes:
        number: Index of the clock domain in ``Trace.clocks``.
        clock: Its name.
        bits: The suspected width.
        reversed_events: Events that end before they start by more than half the range.
        steps: Events that end that much before the previous event in the log.
        delegates: Whether the readings are of delegate events.
        ticks: The readings that fit this width, in words.
    """

    number: int
    clock: str
    bits: int
    reversed_events: int
    steps: int
    delegates: bool
    ticks: str

    @property
    def text(self) -> str:
        """The finding and its probable cause."""
        events = "1 event ends before it starts"
        if self.reversed_events != 1:
            events = f"{self.reversed_events:,} events end before they start"
        steps = f"time steps back {self.steps:,} {'time' if self.steps == 1 else 'times'}"
        found = [events] * bool(self.reversed_events) + [steps] * bool(self.steps)
        return (
            f"clock {self.clock}: {' and '.join(found)}; {self.ticks} are below 2**{self.bits}: "
            f"the counter probably wraps at {self.bits} bits"
        )

    @property
    def remedy(self) -> str:
        """The command line option that applies the width."""
        if self.delegates:
            return f"--time-scale '*=1, {self.bits} bits'"
        return f"--clock-bits {self.bits}"

    @property
    def advice(self) -> str:
        """Finding and option in one line."""
        return f"{self.text}; try {self.remedy}"


def suspected_widths(trace: Trace, later_dumps: Sequence[int] = ()) -> list[SuspectedWidth]:
    """Return clocks that seem narrower than declared, among those too wide to wrap.

    Delegate events on a tracer's clock may come from another counter, or, like those of XNNPACK, be
    computed from one reading and exceed its range. So they are tested separately, and only if the
    tracer's own events are not suspected.

    Args:
        trace: The trace.
        later_dumps: First rows of further dumps; a dump may be older than the one before it.
    """
    found = []
    timed = trace.kind == Kind.PROFILE
    for number, domain in enumerate(trace.clocks):
        if does_wrap(domain) or domain.down:
            continue
        rows = timed & (trace.clock == number)
        for delegates in (False, True):
            suspicion = _suspected(
                trace, number, rows & (trace.delegated == delegates), later_dumps, delegates
            )
            if suspicion is not None:
                found.append(suspicion)
                break
    return found


def _suspected(
    trace: Trace, number: int, chosen: _Bools, later_dumps: Sequence[int], delegates: bool
) -> SuspectedWidth | None:
    rows = np.flatnonzero(chosen)
    start, end = trace.start[rows], trace.end[rows]
    largest = int(np.maximum(start, end).max(initial=0))
    bits = next((width for width in COMMON_WIDTHS if largest < 1 << width), None)
    if bits is None:
        return None
    start, end = start.view(np.int64), end.view(np.int64)
    half = 1 << (bits - 1)
    backward = int(np.count_nonzero(start - end > half))
    dump = np.searchsorted(later_dumps, rows, side="right")
    same = (trace.tracer[rows][1:] == trace.tracer[rows][:-1]) & (dump[1:] == dump[:-1])
    steps = int(np.count_nonzero(same & (end[:-1] - end[1:] > half)))
    if delegates:
        steps = 0  # delegates log in any order, and may restart their counter with each call
    if not backward and not steps:
        return None
    name = trace.clocks[number].name
    beyond = np.maximum(trace.start, trace.end)[trace.clock == number] >= np.uint64(1 << bits)
    whose = "delegates' ticks" if delegates else "ticks but those of delegates"
    ticks = f"all {whose if beyond.any() else 'ticks'}"
    return SuspectedWidth(number, name, bits, backward, steps, delegates, ticks)


def with_width(trace: Trace, bits: int) -> Trace:
    """Return the trace with a width of ``bits`` for clock 0.

    Clock 0 is the clock of the tracer's own events, and of delegate events without another clock.

    Raises:
        UsageError: The declared width is smaller, or a reading of the tracer's own events exceeds
            it. Readings of delegate events may exceed it: XNNPACK adds to a reading without
            wrapping.
    """
    if not trace.clocks:
        return trace
    if not 8 <= bits <= 64:
        raise UsageError(
            f"--clock-bits {bits}: not the width of a counter", hint="give 8 to 64 bits"
        )
    if bits > trace.clocks[0].bits:
        raise UsageError(
            f"--clock-bits {bits}: the counter of the trace has {trace.clocks[0].bits} bits",
            hint="leave out the option; if result.json is wrong about an ED00 file, also give "
            "--clock-hz",
        )
    own = (trace.clock == 0) & ~trace.delegated
    beyond = np.flatnonzero(own & (np.maximum(trace.start, trace.end) > np.uint64((1 << bits) - 1)))
    if len(beyond):
        row = int(beyond[0])
        reading = max(int(trace.start[row]), int(trace.end[row]))
        raise UsageError(
            f"--clock-bits {bits}: event {row} has a reading of {reading:,}, beyond 2**{bits}",
            hint=f"give --clock-bits {reading.bit_length()} or more",
        )
    clocks = (replace(trace.clocks[0], bits=bits), *trace.clocks[1:])
    return replace(trace, clocks=clocks).sealed()


_LATE: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Wraps:
    """Whole wraps of the tracers' own clock, beyond the difference of readings modulo its range.

    Attributes:
        rows: Rows of the tracers' scopes on this clock, in log order, shape (n,).
        within: Wraps that passed within each scope, shape (n,).
        steps: Ticks from the end of the scope logged before each to its own end, shape (n,); 0 for
            the first of a tracer.
        ambiguous: True for scopes within which more wraps may have passed, shape (n,).
    """

    rows: _Ints
    within: _Ints
    steps: _Ints
    ambiguous: _Bools


def own_scopes(trace: Trace) -> _Bools:
    """Return True for profile events on a tracer's own clock, without delegates; shape (n,)."""
    own = np.isin(trace.clock, trace.own_clocks)
    return np.asarray((trace.kind == Kind.PROFILE) & ~trace.delegated & own)


class _ScopeColumns:
    """What the wraps of scopes follow from; one entry per scope.

    Attributes:
        modulus: Ticks after which the counter wraps.
        jitter: Largest difference in ticks that counts as a backward step.
        start: Raw start reading, counting up.
        end: Raw end reading, counting up.
        block: Number of the block.
        key: A number for block, chain and instruction.
        instruction: True for scopes of an instruction.
        wrapper: True for the runtime's scopes around an instruction.
        execution: True for scopes of an execution.
        leaf: True for scopes that contain no others, whatever their times are.
    """

    def __init__(self, trace: Trace, rows: _Ints, domain: ClockDomain, jitter: int) -> None:
        mask = np.uint64(domain.modulus - 1)
        raw = trace.start[rows], trace.end[rows]
        if domain.down:
            raw = np.uint64(0) - raw[0], np.uint64(0) - raw[1]
        self.modulus, self.jitter = domain.modulus, jitter
        self.start, self.end = ((part & mask).astype(np.int64) for part in raw)
        self.block = block_numbers(trace)[rows]
        self.tracer = trace.tracer[rows].astype(np.int64)
        chain, number = trace.chain[rows], trace.instruction[rows]
        self._identity = self.block, chain, number
        changes = np.zeros(len(rows), np.bool_)
        for column in self._identity:
            changes[1:] |= column[1:] != column[:-1]
        self.key: _Ints = np.cumsum(
            changes
        )  # of neighbors, which is enough for a log that never wraps
        self.execution = trace.named(EXECUTION, rows=rows)
        self.instruction = (chain != -1) & ~self.execution
        self.wrapper = self.instruction & trace.named(OPERATOR_CALL, DELEGATE_CALL, rows=rows)
        self.leaf = trace.named(*STREAMING, rows=rows)

    def identify(self) -> None:
        """Number the instructions, wherever they are in the log."""
        self.key = equal_rows(self._identity)

    def part(self, at: slice) -> _ScopeColumns:
        """Return the columns of some rows."""
        found = object.__new__(_ScopeColumns)
        for name, column in vars(self).items():
            setattr(found, name, column[at] if isinstance(column, np.ndarray) else column)
        return found

    def never_wraps(self) -> bool:
        """Return whether all readings are in order, so that the counter has not wrapped."""
        same = self.tracer[1:] == self.tracer[:-1]
        ordered = (self.end[1:] >= self.end[:-1]) | ~same
        early = self.apart & (self.start[1:] < self.end[:-1])
        if early.any() or not ordered.all() or (self.start > self.end).any():
            return False
        starts = np.where(self.instruction, self.start, _LATE)
        for outer, group in ((self.execution, self.block), (self.wrapper, self.key)):
            firsts = np.flatnonzero(np.diff(group, prepend=-1) != 0)
            # The earliest start of an instruction among the neighbors of each row's group.
            earliest = np.minimum.reduceat(starts, firsts)
            earliest = np.repeat(earliest, np.diff(firsts, append=len(group)))
            if (self.start[outer] > earliest[outer]).any():
                return False
        return True

    @property
    def apart(self) -> _Bools:
        """True for scopes, from the second on, that do not contain the one logged before."""
        other = self.key[1:] != self.key[:-1]
        follows = self.instruction[1:] & other & (self.instruction[:-1] | self.execution[:-1])
        again = self.instruction[1:] & ~other & self.wrapper[:-1]
        earlier = (self.instruction | self.execution)[1:] & (self.block[1:] != self.block[:-1])
        after = self.execution[1:] & self.execution[:-1]
        return np.asarray(follows | again | earlier | after | self.leaf[1:])


class _Log:
    """The scopes of one tracer, on one timeline."""

    def __init__(self, columns: _ScopeColumns, found: Wraps, first: int) -> None:
        at = slice(first, first + len(columns.start))
        self.columns = columns
        self.within, self.ambiguous = found.within[at], found.ambiguous[at]
        self.steps = found.steps[at]
        self.short = (columns.end - columns.start) % columns.modulus
        self.ends = self._follow()
        self.starts = self.ends - self._signed(self.short)
        self.earliest = np.full(len(self.ends), _LATE)

    def _signed(self, ticks: _Ints) -> _Ints:
        """Return differences modulo the range as signed: within the jitter of a wrap is back."""
        back = ticks >= self.columns.modulus - self.columns.jitter
        return np.where(back, ticks - self.columns.modulus, ticks)

    def _follow(self) -> _Ints:
        """Return the ends on one timeline, from one reading to the next."""
        columns, modulus = self.columns, self.columns.modulus
        steps = self._signed((columns.end[1:] - columns.end[:-1]) % modulus)
        gaps = self._signed((columns.start[1:] - columns.end[:-1]) % modulus)
        through = gaps + self._signed(self.short[1:])
        # Between two ends stand a gap and a scope, each of less than a wrap.
        more = columns.apart & (through > steps)
        self.steps[1:] = np.where(more, through, steps)
        self.steps[0] = 0
        return np.asarray(columns.end[0] + np.cumsum(self.steps))

    def solve(self) -> None:
        """Find the wraps within each scope."""
        columns = self.columns
        # A step back, or nearly a whole wrap.
        self.ambiguous |= self.short >= columns.modulus - columns.jitter
        inner = np.flatnonzero(columns.instruction & ~columns.wrapper)
        self._widen_to_contained(np.flatnonzero(columns.wrapper), columns.key, inner)
        inner = np.flatnonzero(columns.instruction)
        self._widen_to_contained(np.flatnonzero(columns.execution), columns.block, inner)
        if int(self.ends.max() - self.starts.min()) >= columns.modulus:
            self._find_ambiguous()

    def _widen_to_contained(self, outer: _Ints, group: _Ints, inner: _Ints) -> None:
        """Let scopes begin no later than the rows that they contain.

        These are the rows ``inner`` of the same group since the last scope of ``outer``.
        """
        if not len(outer) or not len(inner):
            return
        owner = np.searchsorted(outer, inner)
        inner, owner = inner[owner < len(outer)], owner[owner < len(outer)]
        same = group[outer[owner]] == group[inner]
        earliest = np.full(len(outer), _LATE)
        np.minimum.at(earliest, owner[same], self.starts[inner[same]])
        self.ambiguous[outer[owner[same & self.ambiguous[inner]]]] = True
        self.earliest[outer] = earliest
        missing = self.starts[outer] - self.columns.jitter - earliest
        missing[earliest == _LATE] = 0
        wraps = np.maximum(-(-missing // self.columns.modulus), 0)
        self.within[outer] += wraps
        self.starts[outer] -= wraps * self.columns.modulus

    def _find_ambiguous(self) -> None:
        """Mark scopes that may also have begun whole wraps earlier, around other events."""
        columns, modulus = self.columns, self.columns.modulus
        known = columns.instruction | columns.execution
        first = int(self.starts.min())
        loose = ~known & ~columns.leaf
        self.ambiguous[loose] = (self.ends - first)[loose] >= modulus
        # The end of the last scope that each cannot contain.
        rows = np.arange(len(known))
        by_block = self._before(rows, columns.block, first)
        by_key = np.full(len(known), first)
        placed = np.flatnonzero(known)
        by_key[placed] = self._before(placed, columns.key, first)
        bound = np.where(columns.execution, by_block, np.maximum(by_key, by_block))
        around = self.earliest != _LATE
        nested = columns.instruction & ~columns.wrapper
        nested[1:] &= (columns.key[1:] == columns.key[:-1]) & ~columns.wrapper[:-1]
        nested[0] = False
        empty = columns.execution & ~around
        empty[1:] &= loose[:-1] & (columns.block[1:] == columns.block[:-1])
        empty[0] = False
        reach = np.where(around, self.earliest, self.ends)
        self.ambiguous |= (around | nested | empty) & (reach - bound >= modulus)

    def _before(self, rows: _Ints, group: _Ints, first: int) -> _Ints:
        """Return the end of the last of ``rows`` before the neighbors of each row's group."""
        begins = np.diff(group[rows], prepend=-1) != 0
        place = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
        before = self.ends[rows[np.maximum(place - 1, 0)]]
        return np.where(place > 0, before, first)


def calls_around(trace: Trace, clock: int) -> tuple[_Ints, _Ints]:
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
    calls = np.flatnonzero((trace.name == name) & (trace.clock == 0))
    if not len(calls):
        return rows, np.full(len(rows), -1)
    following = np.searchsorted(calls, rows)
    candidates = calls[np.minimum(following, len(calls) - 1)]
    same = following < len(calls)
    for column in (trace.tracer, trace.chain, trace.instruction):
        same &= column[candidates] == column[rows]
    return rows, np.where(same, candidates, -1)
