"""Ticks: durations, conversion to time, unwrapped timelines, and the width of counters.

An ED00 file does not record the width of its counter; 64 bits are assumed. If a narrower counter
wrapped, events seem to end long before they start. This is only evidence, so a suspected width is
reported, but not applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError, UsageError
from harness.records.clock_domain import ClockDomain
from harness.records.trace import NO_CLOCK, Kind, Trace

Ticks = npt.NDArray[np.uint64]
_EXACT = 2**53  # every integer up to here is a float64
_LONGEST = 2**62
"""Most ticks of a step, of an event and of a timeline."""


def mask(domain: ClockDomain) -> int:
    """Return the largest reading of the counter; ``& mask`` computes modulo its range."""
    return domain.modulus - 1


def forward(domain: ClockDomain, start: Ticks, end: Ticks) -> Ticks:
    """Return the ticks from reading ``start`` to reading ``end`` of a counter, below one wrap.

    ``(end - start) mod 2**bits`` for a counter that counts up, ``(start - end) mod 2**bits`` for
    one that counts down; exact for every width, as uint64 arithmetic is itself modulo 2**64.
    """
    difference = start - end if domain.down else end - start
    return difference & np.uint64(mask(domain))


def durations(trace: Trace) -> Ticks:
    """Return the duration of every event in ticks of its clock domain, shape (n,).

    Durations are modular differences, exact for events shorter than one wrap of the counter; longer
    events cannot be recognized. Events without a time (NO_CLOCK) have 0.
    """
    result = np.zeros(len(trace), np.uint64)
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero(trace.clock == number)
        result[rows] = forward(domain, trace.start[rows], trace.end[rows])
    return result


def without_wraps(trace: Trace) -> Trace:
    """Return the same events with each end set to start plus duration, as 64-bit readings.

    For readers that subtract without regard to the counter's width, such as ExecuTorch's Inspector.
    """
    return replace(
        trace,
        end=trace.start + durations(trace),
        clocks=tuple(replace(clock, bits=64, down=False) for clock in trace.clocks),
    ).sealed()


def nanoseconds_per_tick(domain: ClockDomain) -> Fraction | None:
    """Return the exact length of a tick in nanoseconds, or None if the rate is unknown."""
    return None if domain.hz is None else Fraction(1_000_000_000) / domain.hz


def exact_nanoseconds(ticks: int, domain: ClockDomain) -> Fraction:
    """Convert ``ticks`` to nanoseconds exactly.

    Raises:
        ValueError: The rate of the domain is unknown.
    """
    length = nanoseconds_per_tick(domain)
    if length is None:
        raise ValueError(f"clock {domain.name!r} has no known rate")
    return ticks * length


def to_nanoseconds(
    ticks: npt.NDArray[np.uint64] | npt.NDArray[np.int64], domain: ClockDomain
) -> npt.NDArray[np.float64]:
    """Convert ticks, never negative, to nanoseconds, same shape.

    With a tick of p/q ns the result is the float64 nearest to ``ticks * p / q`` while
    ``ticks * p`` and q are at most 2**53 (17 days at 240 MHz), else within 1 ulp.

    Raises:
        ValueError: The rate of the domain is unknown.
    """
    length = exact_nanoseconds(1, domain)
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
    tracer is followed separately; two tracers are assumed to begin within half a wrap of each
    other.

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
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero(trace.clock == number)
        if not len(rows):
            origins.append(None)
            backward_steps.append(0)
            reversed_events.append(0)
            continue
        limit = default_jitter(domain) if jitter is None else jitter
        readings = trace.end[rows]
        ticks = forward(domain, readings[:-1], readings[1:])
        tracers = trace.tracer[rows]
        handovers = np.flatnonzero(tracers[1:] != tracers[:-1])
        ticks[handovers] = 0  # another tracer, which may begin anywhere
        steps = signed_steps(domain, ticks, limit)
        lengths = signed_steps(domain, forward(domain, trace.start[rows], readings), limit)
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), steps]))
        _begin_together(domain, readings, ends, handovers + 1)
        starts = ends - lengths
        zero, last = int(min(starts.min(), ends.min())), int(max(starts.max(), ends.max()))
        # A sum that overflows shows, too: no step is longer, so some instant before it is beyond.
        if last - zero > _LONGEST:
            raise _span_error(domain)
        start[rows] = starts - zero
        end[rows] = ends - zero
        origins.append(_reading(domain, int(readings[0]), zero))
        backward_steps.append(int(np.count_nonzero(steps < 0)))
        reversed_events.append(int(np.count_nonzero(lengths < 0)))
    return Timeline(start, end, tuple(origins), tuple(backward_steps), tuple(reversed_events))


def ends_before_start(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return True for events of unknown duration, shape (n,): they end before they start.

    Only for counters that do not wrap within a session: one of the two readings is wrong, or the
    counter is narrower than declared and did wrap (``harness.analyze.ticks``).
    """
    found = np.zeros(len(trace), np.bool_)
    for number, domain in enumerate(trace.clocks):
        if not does_wrap(domain):
            rows = trace.clock == number
            ticks = forward(domain, trace.start[rows], trace.end[rows])
            found[rows] = ticks >= np.uint64(domain.modulus >> 1)
    return found


def signed_steps(domain: ClockDomain, ticks: Ticks, jitter: int) -> _Ints:
    """Convert modular differences to signed ones: within ``jitter`` of a whole wrap is negative.

    Raises:
        FormatError: A difference is larger than 2**62 ticks either way.
    """
    if not 0 <= jitter < domain.modulus:
        raise ValueError(f"jitter of {jitter} ticks is not below one wrap of {domain.name!r}")
    missing = np.uint64(mask(domain)) - ticks  # ticks short of a wrap, less one
    negative = missing < np.uint64(jitter)
    lengths = np.where(negative, missing + np.uint64(1), ticks)
    if (lengths > np.uint64(_LONGEST)).any():
        raise _span_error(domain)
    return np.where(negative, -lengths.astype(np.int64), lengths.astype(np.int64))


def _begin_together(domain: ClockDomain, readings: Ticks, ends: _Ints, firsts: _Ints) -> None:
    """Shift the ends of further tracers, from ``firsts`` on, to the start of the first tracer."""
    for first, behind in pairwise([*firsts.tolist(), len(ends)]):
        distance = signed_steps(
            domain, forward(domain, readings[:1], readings[first : first + 1]), domain.modulus >> 1
        )
        ends[first:behind] += distance - ends[first]


def _span_error(domain: ClockDomain) -> FormatError:
    return FormatError(
        f"events on clock {domain.name!r} span more than 2**62 ticks",
        field="start or end",
        hint="check the declared width and direction of the counter",
    )


def _reading(domain: ClockDomain, reading: int, ticks: int) -> int:
    """Return the counter's reading ``ticks`` after ``reading``."""
    return (reading - ticks if domain.down else reading + ticks) % domain.modulus


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
