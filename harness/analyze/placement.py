"""Placement: a trace among the pings around it, so that whole wraps of silence are counted.

A log says what its counter read, and so how much time passed, modulo the counter's range. Pings say
what the same counter read before and after, and how much passed on the host's clock; their own
wraps are settled (``harness.analyze.brackets``). The difference is what the log was silent about.
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
"""Epoch of events of which nothing says when they were."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Whole wraps that passed among some events, though nothing tells between which.

    Attributes:
        first: Row of the first event that may be later than it is placed.
        last: Row of the last one.
        wraps: Wraps of the counter.
    """

    first: int
    last: int
    wraps: int


@dataclass(frozen=True, slots=True)
class Placement:
    """When the events of one clock began and ended, in ticks since an epoch's first reading.

    Attributes:
        rows: Rows of these events in the trace, ascending, shape (n,).
        epoch: Number of the epoch of each, or NOT_PLACED, shape (n,).
        start: Ticks since the epoch's first reading, negative before it, shape (n,); as early as
            may be where ``late`` is not 0.
        end: Likewise.
        late: By how many whole wraps each may be later, shape (n,).
        silences: Where that is so.
        checked: How many events stand between two pings of their epoch. A silence of more than a
            wrap among the others would not be seen.
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
        """How many events are on the timeline of an epoch."""
        return int(np.count_nonzero(self.epoch != NOT_PLACED))

    def instants(self, alignment: Alignment) -> tuple[Instants, Instants]:
        """When the events began and ended on the alignment's reference clock, shape (n,) each."""
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
    """Events of one tracer between two pings, either of which may be missing (None).

    Attributes:
        at: Places of the events in the placement.
        before: Number of the last ping before them.
        after: Number of the first ping after them.
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
        trace: What was logged.
        alignment: Of that clock.
        logged: For each reading that the alignment was made of, how many events of the trace had
            been logged before it; ascending.
        clock: Index of the clock in ``trace.clocks``.
        jitter: Largest step back in ticks that is read as one, as for ``unwrap``.

    Raises:
        FormatError: More time passed in the log than between the pings around it.
        ValueError: With several tracers, whose logs follow one after the other, a reading was taken
            neither before nor after all events.
    """
    domain = trace.clocks[clock]
    limit = default_jitter(domain) if jitter is None else jitter
    rows = np.flatnonzero(trace.clock == clock)
    starts, readings = trace.start[rows], trace.end[rows]
    lengths = signed_steps(domain, forward(domain, starts, readings), limit)
    tracers = trace.tracer[rows]
    if len(np.unique(tracers)) > 1 and not {0, len(trace)}.issuperset(logged):
        raise ValueError("readings amid the logs of several tracers have no place in each of them")
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
                    self._after = None  # it was reset or slept, before these events or after them

    @property
    def between(self) -> bool:
        """Whether both pings are of one epoch."""
        return self._before is not None and self._after is not None

    def _epoch_of(self, ping: int) -> tuple[int, Break]:
        """Number of the epoch of a ping, and why that epoch begins."""
        firsts = [epoch.stretch.first for epoch in self._alignment.epochs]
        number = int(np.searchsorted(firsts, ping, side="right")) - 1
        return number, self._alignment.epochs[number].stretch.begins

    def _reading(self, ping: int) -> tuple[int, int, int]:
        """Epoch, ticks and raw reading of a ping."""
        number, _ = self._epoch_of(ping)
        stretch = self._alignment.epochs[number].stretch
        place = ping - stretch.first
        return number, stretch.ticks[place][0], stretch.brackets[place].first

    def place(self, readings: npt.NDArray[np.uint64]) -> tuple[int, Ints, int]:
        """Epoch and ticks of the events' ends, and how many wraps are missing among them."""
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
        """Whole wraps between the last event, as it is placed, and the ping behind it."""
        if self._after is None:
            return 0
        _, ticks, reading = self._reading(self._after)
        missing = (ticks - int(ends[-1]) - self._step(last, reading)) // self._domain.modulus
        if missing < 0:
            raise FormatError(
                f"on clock {self._domain.name!r} more time passed in the log than between the "
                "readings around it",
                field="start or end",
                hint="the log may be of another run, or its clock not the one that was read",
            )
        return missing
