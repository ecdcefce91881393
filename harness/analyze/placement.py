"""Placement: a trace between the pings around it, which counts whole wraps without events.

A log gives elapsed ticks modulo the counter's range. Pings read the same counter before and after,
with the time on the host's clock, and their number of wraps is known
(``harness.analyze.brackets``). The difference is the number of wraps that the log does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import Alignment, Instants
from harness.analyze.brackets import Break
from harness.analyze.strip import Ints
from harness.analyze.ticks import forward
from harness.analyze.unwrap import default_jitter, signed_steps
from harness.errors import FormatError
from harness.records.clock_domain import ClockDomain
from harness.records.trace import Trace

NOT_PLACED = -1
"""Epoch of events without a known time."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Whole wraps among some events, at an unknown position.

    Attributes:
        first: Row of the first event that may be later than placed.
        last: Row of the last such event.
        wraps: Number of wraps.
    """

    first: int
    last: int
    wraps: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Start and end of the events of one clock, in ticks since an epoch's first reading.

    Attributes:
        rows: Rows of these events in the trace, ascending, shape (n,).
        epoch: Epoch number of each, or NOT_PLACED, shape (n,).
        start: Ticks since the epoch's first reading, negative before it, shape (n,); the earliest
            possible start if ``late`` is not 0.
        end: Likewise.
        late: Number of whole wraps by which each may be later, shape (n,).
        silences: Ranges of events with unknown wraps.
        checked: Number of events between two pings of their epoch. A gap of more than a wrap among
            the other events would go unnoticed.
    """

    rows: Ints
    epoch: Ints
    start: Ints
    end: Ints
    late: Ints
    silences: tuple[Silence, ...]
    checked: int

    @property
    def placed(self) -> int:
        """Number of placed events."""
        return int(np.count_nonzero(self.epoch != NOT_PLACED))

    def instants(self, alignment: Alignment) -> tuple[Instants, Instants]:
        """Return start and end of the events on the alignment's reference clock, shape (n,)."""
        return self._instants(alignment, self.start), self._instants(alignment, self.end)

    def _instants(self, alignment: Alignment, ticks: Ints) -> Instants:
        low, high = np.zeros(len(ticks), np.int64), np.full(len(ticks), -1, np.int64)
        wraps = self.late * alignment.domain.modulus
        for number in np.unique(self.epoch[self.epoch != NOT_PLACED]).tolist():
            chosen = self.epoch == number
            early = alignment.instants(ticks[chosen], number)
            late = early
            if wraps[chosen].any():
                late = alignment.instants((ticks + wraps)[chosen], number)
            known = early.known & late.known
            low[chosen], high[chosen] = early.low, np.where(known, late.high, early.low - 1)
        return Instants.between(low, high)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Events of one tracer between two pings, of which either may be missing (None).

    Attributes:
        at: Slice of the events in the placement.
        before: Index of the last ping before them.
        after: Index of the first ping after them.
    """

    at: slice
    before: int | None
    after: int | None


def place(
    trace: Trace,
    alignment: Alignment,
    logged: Sequence[int],
    clock: int = 0,
    jitter: int | None = None,
) -> Placement:
    """Place all events of a clock on the timelines of its epochs.

    Args:
        trace: The trace.
        alignment: Alignment of this clock.
        logged: Number of events logged before each reading of the alignment; ascending.
        clock: Index of the clock in ``trace.clocks``.
        jitter: Largest backward step in ticks, as for ``unwrap``.

    Raises:
        FormatError: More time passed in the log than between the pings around it.
        ValueError: There are several tracers, with one log after the other, and a reading is
            neither before nor after all events.
    """
    domain = trace.clocks[clock]
    limit = default_jitter(domain) if jitter is None else jitter
    rows = np.flatnonzero(trace.clock == clock)
    starts, readings = trace.start[rows], trace.end[rows]
    lengths = signed_steps(domain, forward(domain, starts, readings), limit)
    tracers = trace.tracer[rows]
    if len(np.unique(tracers)) > 1 and not {0, len(trace)}.issuperset(logged):
        raise ValueError("with several tracers, readings must be before or after all events")
    epoch = np.full(len(rows), NOT_PLACED)
    end, late = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    silences, checked = [], 0
    for segment in _segments(rows, tracers, logged):
        at = segment.at
        anchor = _Anchor(alignment, domain, limit, segment)
        epoch[at], end[at], wraps = anchor.place(readings[at])
        late[at] = wraps
        checked += (at.stop - at.start) * anchor.between
        if wraps:
            silences.append(Silence(int(rows[at.start]), int(rows[at.stop - 1]), wraps))
    return Placement(rows, epoch, end - lengths, end, late, tuple(silences), checked)


def _segments(
    rows: Ints, tracers: npt.NDArray[np.uint16], logged: Sequence[int]
) -> Iterator[_Segment]:
    """Split the rows of each tracer by the pings among them."""
    following = np.searchsorted(np.asarray(logged, np.int64), rows, side="right")
    changes = (following[1:] != following[:-1]) | (tracers[1:] != tracers[:-1])
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]
    for begin, end in pairwise(bounds):
        if begin < end:
            after = int(following[begin])
            yield _Segment(
                slice(begin, end),
                after - 1 if after else None,
                after if after < len(logged) else None,
            )


class _Anchor:
    """The pings on either side of a segment, on the timeline of their epoch."""

    def __init__(
        self, alignment: Alignment, domain: ClockDomain, jitter: int, segment: _Segment
    ) -> None:
        self._alignment, self._domain, self._jitter = alignment, domain, jitter
        self._before, self._after = segment.before, segment.after
        if self._before is not None and self._after is not None:
            number, begins = self._epoch_of(self._after)
            if number != self._epoch_of(self._before)[0]:
                self._before = None
                if begins != Break.RESTARTED:
                    self._after = None  # reset or sleep, before or after these events

    @property
    def between(self) -> bool:
        """Whether there are pings of one epoch on both sides."""
        return self._before is not None and self._after is not None

    def _epoch_of(self, ping: int) -> tuple[int, Break]:
        """Return the epoch number of a ping, and why this epoch begins."""
        firsts = [epoch.stretch.first for epoch in self._alignment.epochs]
        number = int(np.searchsorted(firsts, ping, side="right")) - 1
        return number, self._alignment.epochs[number].stretch.begins

    def _reading(self, ping: int) -> tuple[int, int, int]:
        """Return epoch, ticks and raw reading of a ping."""
        number, _ = self._epoch_of(ping)
        stretch = self._alignment.epochs[number].stretch
        place = ping - stretch.first
        return number, stretch.ticks[place][0], stretch.brackets[place].first

    def place(self, readings: npt.NDArray[np.uint64]) -> tuple[int, Ints, int]:
        """Return epoch, ticks of the events' ends, and the number of wraps missing among them."""
        ends = self._follow(readings)
        if self._before is not None:
            epoch, ticks, reading = self._reading(self._before)
            ends += ticks + self._step(reading, int(readings[0]))
            return epoch, ends, self._missing(ends, int(readings[-1]))
        if self._after is not None:
            epoch, ticks, reading = self._reading(self._after)
            ends += ticks - self._step(int(readings[-1]), reading) - ends[-1]
            return epoch, ends, 0
        return NOT_PLACED, ends, 0

    def _follow(self, readings: npt.NDArray[np.uint64]) -> Ints:
        steps = forward(self._domain, readings[:-1], readings[1:])
        signed = signed_steps(self._domain, steps, self._jitter)
        return np.cumsum(np.concatenate([np.zeros(1, np.int64), signed]))

    def _step(self, start: int, end: int) -> int:
        pair = np.array([start, end], np.uint64)
        ticks = forward(self._domain, pair[:1], pair[1:])
        return int(signed_steps(self._domain, ticks, self._jitter)[0])

    def _missing(self, ends: Ints, last: int) -> int:
        """Return the whole wraps between the last event, as placed, and the ping after it."""
        if self._after is None:
            return 0
        _, ticks, reading = self._reading(self._after)
        missing = (ticks - int(ends[-1]) - self._step(last, reading)) // self._domain.modulus
        if missing < 0:
            raise FormatError(
                f"clock {self._domain.name!r}: the log covers more time than the readings "
                "around it",
                field="start or end",
                hint="check that log and readings are of the same run and the same clock",
            )
        return missing
