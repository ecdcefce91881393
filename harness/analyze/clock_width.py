"""Counter widths that a file does not record: set by the user, or suspected from the readings.

An ED00 file does not record the width of its counter; 64 bits are assumed. If a narrower counter
wrapped, events seem to end long before they start. This is only evidence, so a suspected width is
reported, but not applied.
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
        steps = 0  # delegates log in any order, and may restart their counter with each call
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
