"""Unwrapping: raw readings of counters that wrap to one timeline per clock domain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import Ticks, forward, mask
from harness.errors import FormatError
from harness.records.clock_domain import ClockDomain
from harness.records.trace import Trace

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
    not wrap within a session can only have stepped back, so it is half the range for these.
    """
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
        limit = default_jitter(domain) if jitter is None else jitter
        readings = trace.end[rows]
        steps = signed_steps(domain, forward(domain, readings[:-1], readings[1:]), limit)
        lengths = signed_steps(domain, forward(domain, trace.start[rows], readings), limit)
        tracers = trace.tracer[rows]
        handovers = np.flatnonzero(tracers[1:] != tracers[:-1])
        _refuse_overflow(domain, np.delete(steps, handovers), lengths)
        ends = np.cumsum(np.concatenate([np.zeros(min(len(rows), 1), np.int64), steps]))
        _begin_together(domain, readings, ends, handovers + 1)
        starts = ends - lengths
        zero = int(min(starts.min(initial=0), ends.min(initial=0)))
        start[rows] = starts - zero
        end[rows] = ends - zero
        origins.append(_reading(domain, int(readings[0]), zero) if len(rows) else None)
        backward_steps.append(int(np.count_nonzero(np.delete(steps, handovers) < 0)))
        reversed_events.append(int(np.count_nonzero(lengths < 0)))
    return Timeline(start, end, tuple(origins), tuple(backward_steps), tuple(reversed_events))


def ends_before_start(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return True for events of unknown duration, shape (n,): they end before they start.

    Only for counters that do not wrap within a session: one of the two readings is wrong, or the
    counter is narrower than declared and did wrap (``harness.analyze.clock_width``).
    """
    found = np.zeros(len(trace), np.bool_)
    for number, domain in enumerate(trace.clocks):
        if not does_wrap(domain):
            rows = trace.clock == number
            ticks = forward(domain, trace.start[rows], trace.end[rows])
            found[rows] = ticks > np.uint64(domain.modulus // 2)
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
    too_long = ~negative & (ticks > np.uint64(2**62))
    if too_long.any():
        raise _span_error(domain)
    return np.where(negative, -missing.astype(np.int64) - 1, ticks.astype(np.int64))


def _begin_together(domain: ClockDomain, readings: Ticks, ends: _Ints, firsts: _Ints) -> None:
    """Shift the ends of further tracers, from ``firsts`` on, to the start of the first tracer."""
    for first, behind in pairwise([*firsts.tolist(), len(ends)]):
        distance = signed_steps(
            domain, forward(domain, readings[:1], readings[first : first + 1]), mask(domain) // 2
        )
        ends[first:behind] += distance - ends[first]


def _refuse_overflow(domain: ClockDomain, steps: _Ints, lengths: _Ints) -> None:
    span = np.abs(steps.astype(np.float64)).sum() + np.abs(lengths.astype(np.float64)).max(
        initial=0
    )
    if span > 2.0**62:
        raise _span_error(domain)


def _span_error(domain: ClockDomain) -> FormatError:
    return FormatError(
        f"events on clock {domain.name!r} span more than 2**62 ticks",
        field="start or end",
        hint="check the declared width and direction of the counter",
    )


def _reading(domain: ClockDomain, reading: int, ticks: int) -> int:
    """Return the counter's reading ``ticks`` after ``reading``."""
    return (reading - ticks if domain.down else reading + ticks) % domain.modulus
