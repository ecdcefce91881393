"""Counter widths that a file does not say: set by the user, or suspected from the readings.

An ED00 file does not say how wide its counter is, and 64 bits are assumed. On a narrower one that
wrapped, events then end long before they start. Nothing but the readings tells; they make a
suspicion, which is reported and not acted upon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.unwrap import does_wrap
from harness.errors import UsageError
from harness.records.trace import Kind, Trace

_Bools = npt.NDArray[np.bool_]

COMMON_WIDTHS: Final = (16, 24, 32, 48)
"""Widths in bits of counters that microcontrollers have."""


@dataclass(frozen=True, slots=True)
class SuspectedWidth:
    """Readings that a narrower counter explains than the trace says it has.

    Attributes:
        number: Index of the clock domain in ``Trace.clocks``.
        clock: Its name.
        bits: The width that explains them.
        reversed_events: Events that end before they start, by more than half of the range.
        steps: Events that end that much before the one logged before them.
        delegates: Whether the readings are those of delegates' events.
        ticks: What all ticks are that such a counter can have read, in words.
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
        """What was found, and what probably explains it."""
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
        """The option that reads the trace so."""
        if self.delegates:
            return f"--time-scale '*=1, {self.bits} bits'"
        return f"--clock-bits {self.bits}"

    @property
    def advice(self) -> str:
        """Both in one line."""
        return f"{self.text}; try {self.remedy}"


def suspected_widths(trace: Trace, later_dumps: Sequence[int] = ()) -> list[SuspectedWidth]:
    """Find clocks that seem to be narrower than the trace says; only those that cannot wrap.

    Events of delegates on a tracer's clock may be of another counter, or, as those of XNNPACK, may
    have been computed from one reading of it and go on beyond its range. So they are suspected by
    themselves, and only where the tracer's own events are not.

    Args:
        trace: What was logged.
        later_dumps: Rows at which further dumps begin: these need not be later than the one before.
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
    largest = int(max(start.max(initial=0), end.max(initial=0)))
    bits = next((width for width in COMMON_WIDTHS if largest < 1 << width), None)
    if bits is None:
        return None
    half = np.uint64(1 << (bits - 1))
    backward = int(np.count_nonzero((end < start) & (start - end > half)))
    dump = np.searchsorted(np.asarray(later_dumps, np.int64), rows, side="right")
    same = (trace.tracer[rows][1:] == trace.tracer[rows][:-1]) & (dump[1:] == dump[:-1])
    fell = (end[1:] < end[:-1]) & (end[:-1] - end[1:] > half)
    steps = int(np.count_nonzero(same & fell))
    if delegates:
        steps = 0  # they may be logged in any order, and their counter may start with each call
    if not backward and not steps:
        return None
    name = trace.clocks[number].name
    others = trace.clock == number
    others[rows] = False
    beyond = np.maximum(trace.start, trace.end)[others] >= np.uint64(1 << bits)
    whose = "delegates' ticks" if delegates else "ticks but those of delegates"
    ticks = f"all {whose if beyond.any() else 'ticks'}"
    return SuspectedWidth(number, name, bits, backward, steps, delegates, ticks)


def with_width(trace: Trace, bits: int) -> Trace:
    """Return the trace with a counter of ``bits`` for its clock 0, which stamps all that a tracer
    logs by itself, and delegates' events where the file does not say otherwise.

    Raises:
        UsageError: The trace says that it is narrower, or a tracer's own event has a reading that
            such a counter does not have. Those of delegates may: XNNPACK adds to a reading without
            wrapping it.
    """
    if not trace.clocks:
        return trace
    if bits > trace.clocks[0].bits:
        raise UsageError(
            f"--clock-bits {bits}: the ticks of the trace have {trace.clocks[0].bits} bits",
            hint="leave the option out; or, if a result.json is wrong about an ED00 file, give "
            "--clock-hz, too",
        )
    own = (trace.clock == 0) & ~trace.delegated
    beyond = np.flatnonzero(own & (np.maximum(trace.start, trace.end) > np.uint64((1 << bits) - 1)))
    if len(beyond):
        row = int(beyond[0])
        reading = max(int(trace.start[row]), int(trace.end[row]))
        raise UsageError(
            f"--clock-bits {bits}: event {row} has a reading of {reading:,}, beyond 2**{bits}",
            hint=f"its counter has at least {reading.bit_length()} bits",
        )
    clocks = (replace(trace.clocks[0], bits=bits), *trace.clocks[1:])
    return replace(trace, clocks=clocks).sealed()
