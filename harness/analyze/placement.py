"""Places a trace on the host's clock: between pings, and delegate clocks between their calls.

A log gives elapsed ticks modulo the counter's range. Pings read the same counter before and after,
with the time on the host's clock, and their number of wraps is known
(``harness.analyze.alignment``). The difference is the number of wraps that the log does not show.

Events that a delegate logged in a ``DELEGATE_CALL`` happened between start and end of the call,
which the CPU clock recorded. Such a call is a bracket like a ping, and the same solver aligns the
delegate's ticks with the CPU's. If the CPU clock is aligned with the host's, the delegate's is too,
and the bounds add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import (
    Alignment,
    Bracket,
    Break,
    Instants,
    Ints,
    RateEvidence,
    Steadiness,
    align,
    align_brackets,
    rate_evidence,
)
from harness.analyze.ticks import calls_around, default_jitter, followed, forward, signed_steps
from harness.errors import FormatError
from harness.records.result import ClockQuality
from harness.records.trace import ClockDomain, Ping, Trace

NOT_PLACED = -1
"""Epoch of events without a known time."""


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
        silences: Number of wraps of each range of events with ``late``.
        checked: Number of events between two pings of their epoch. A gap of more than a wrap among
            the other events would go unnoticed.
    """

    rows: Ints
    epoch: Ints
    start: Ints
    end: Ints
    late: Ints
    silences: tuple[int, ...]
    checked: int

    @property
    def placed(self) -> int:
        """Number of placed events."""
        return int(np.count_nonzero(self.epoch != NOT_PLACED))

    def instants(self, alignment: Alignment) -> tuple[Instants, Instants]:
        """Return start and end of the events on the alignment's reference clock, shape (n,)."""
        start, end = self.start, self.end
        if self.late.any():
            late = self.late * alignment.domain.modulus
            start, end = start + late, end + late
        began = _between(alignment, self.epoch, self.start, start)
        return began, _between(alignment, self.epoch, self.end, end)


def _between(alignment: Alignment, epoch: Ints, earliest: Ints, latest: Ints) -> Instants:
    """Return the instants between the earliest and the latest ticks of some events, shape (n,)."""
    low, high = np.zeros(len(epoch), np.int64), np.full(len(epoch), -1, np.int64)
    for number in np.unique(epoch[epoch != NOT_PLACED]).tolist():
        chosen = epoch == number
        early = late = alignment.instants(earliest[chosen], number)
        if latest is not earliest:
            late = alignment.instants(latest[chosen], number)
        known = early.known & late.known
        low[chosen], high[chosen] = early.low, np.where(known, late.high, early.low - 1)
    return Instants.between(low, high)


def place(
    trace: Trace,
    alignment: Alignment,
    logged: Sequence[int],
    jitter: int | None = None,
) -> Placement:
    """Place all events of clock 0 on the timelines of its epochs.

    Args:
        trace: The trace.
        alignment: Alignment of clock 0.
        logged: Number of events logged before each reading of the alignment; ascending.
        jitter: Largest backward step in ticks, as for ``unwrap``.

    Raises:
        FormatError: More time passed in the log than between the pings around it.
        ValueError: There are several tracers, with one log after the other, and a reading is
            neither before nor after all events.
    """
    domain = trace.clocks[0]
    limit = default_jitter(domain) if jitter is None else jitter
    rows = np.flatnonzero(trace.clock == 0)
    readings = trace.end[rows]
    steps, lengths = followed(trace, 0, rows, limit)
    tracers = trace.tracer[rows]
    if len(np.unique(tracers)) > 1 and not {0, len(trace)}.issuperset(logged):
        raise ValueError("with several tracers, readings must be before or after all events")
    epoch = np.full(len(rows), NOT_PLACED)
    end, late = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    silences, checked = [], 0
    # The rows of each tracer between two pings, and the indices of these pings.
    following = np.searchsorted(np.asarray(logged, np.int64), rows, side="right")
    changes = (following[1:] != following[:-1]) | (tracers[1:] != tracers[:-1])
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]
    for begin, behind in pairwise(bounds if len(rows) else ()):
        at, after = slice(begin, behind), int(following[begin])
        pings = after - 1 if after else None, after if after < len(logged) else None
        anchor = _Anchor(alignment, domain, limit, pings)
        epoch[at], end[at], wraps = anchor.place(readings[at], steps[at.start : at.stop - 1])
        late[at] = wraps
        checked += (at.stop - at.start) * anchor.between
        if wraps:
            silences.append(wraps)
    return Placement(rows, epoch, end - lengths, end, late, tuple(silences), checked)


_Pings = tuple[int | None, int | None]
"""Index of the last ping before some events and of the first one after them; None without."""


class _Anchor:
    """The pings on either side of some events of a tracer, on the timeline of their epoch."""

    def __init__(
        self, alignment: Alignment, domain: ClockDomain, jitter: int, pings: _Pings
    ) -> None:
        self._alignment, self._domain, self._jitter = alignment, domain, jitter
        self._before, self._after = pings
        if self._before is not None and self._after is not None:
            number, begins = self._epoch_of(self._after)
            if number != self._epoch_of(self._before)[0]:
                self._before = None
                if begins != Break.RESTARTED:
                    self._after = None  # reset or sleep, before or after these events
        # Whether there are pings of one epoch on both sides.
        self.between = self._before is not None and self._after is not None

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

    def place(self, readings: npt.NDArray[np.uint64], steps: Ints) -> tuple[int, Ints, int]:
        """Return epoch, ticks of the events' ends, and the number of wraps missing among them.

        ``steps`` are the ticks from each end to the next.
        """
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), steps]))
        if self._before is not None:
            epoch, ticks, reading = self._reading(self._before)
            ends += ticks + self._step(reading, int(readings[0]))
            return epoch, ends, self._missing(ends, int(readings[-1]))
        if self._after is not None:
            epoch, ticks, reading = self._reading(self._after)
            ends += ticks - self._step(int(readings[-1]), reading) - ends[-1]
            return epoch, ends, 0
        return NOT_PLACED, ends, 0

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


@dataclass(frozen=True, slots=True)
class DelegateTimes:
    """A delegate's clock, aligned with the CPU's.

    Attributes:
        alignment: Alignment of both clocks; ``device_epoch`` is the CPU's epoch.
        placement: Placement of its events.
        outside: Number of events outside of calls; these are not placed.
    """

    alignment: Alignment
    placement: Placement
    outside: int

    def cpu_epoch(self) -> Ints:
        """Return the epoch of the CPU's clock for each event, or NOT_PLACED, shape (n,)."""
        epochs = [epoch.device_epoch for epoch in self.alignment.epochs]
        known = [NOT_PLACED if number is None else number for number in epochs]
        return np.array([*known, NOT_PLACED], np.int64)[self.placement.epoch]


def align_delegate(trace: Trace, clock: int, cpu: Placement) -> DelegateTimes:
    """Align the clock of a delegate with the CPU's.

    Args:
        trace: The trace.
        clock: Index of the delegate's clock in ``trace.clocks``.
        cpu: Placement of the events of clock 0, including the calls.
    """
    rows, calls = calls_around(trace, clock)
    at = np.minimum(np.searchsorted(cpu.rows, calls), max(len(cpu.rows) - 1, 0))
    inside = calls >= 0
    inside[inside] &= cpu.epoch[at[inside]] != NOT_PLACED
    used = np.flatnonzero(inside)
    brackets = []
    for number in used.tolist():
        call, row = int(at[number]), int(rows[number])
        late = int(cpu.late[call]) * trace.clocks[0].modulus
        low, high = int(cpu.start[call]), int(cpu.end[call]) + late
        readings = int(trace.start[row]), int(trace.end[row])
        brackets.append(Bracket(low, high, *readings, int(cpu.epoch[call])))
    alignment = align_brackets(brackets, trace.clocks[clock], trace.clocks[0])
    epoch = np.full(len(rows), NOT_PLACED)
    start, end = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for number, part in enumerate(alignment.epochs):
        first = part.stretch.first
        of_epoch = used[first : first + len(part.stretch.ticks)]
        epoch[of_epoch] = number
        start[of_epoch], end[of_epoch] = np.array(part.stretch.ticks, np.int64).T
    placement = Placement(rows, epoch, start, end, np.zeros_like(start), (), len(used))
    return DelegateTimes(alignment, placement, len(rows) - len(used))


def chained(instants: Instants, through: Alignment, epoch: Ints) -> Instants:
    """Convert instants on a clock to its reference clock; bounds add up.

    Args:
        instants: In ticks of ``through.domain``.
        through: Alignment of this clock with the reference.
        epoch: Epoch of ``through`` for each instant, or NOT_PLACED.
    """
    placed = np.where(instants.known, epoch, NOT_PLACED)
    return _between(through, placed, instants.low, instants.high)


def in_log(trace: Trace, start: Ints, end: Ints) -> Placement:
    """Return the placement of clock 0 by the log alone (``unwrap``), in a single epoch 0."""
    rows = np.flatnonzero(trace.clock == 0)
    none = np.zeros(len(rows), np.int64)
    return Placement(rows, none, start[rows], end[rows], none, (), 0)


@dataclass(frozen=True, slots=True)
class HostTimes:
    """The events of a run on the host's clock.

    Attributes:
        trace: The trace.
        alignment: Alignment of clock 0 with the host's clock.
        placement: Placement of its events between the pings.
        delegates: The other clocks, aligned with clock 0, by clock index.
    """

    trace: Trace
    alignment: Alignment
    placement: Placement
    delegates: dict[int, DelegateTimes]

    @classmethod
    def of(cls, trace: Trace, alignment: Alignment, placement: Placement) -> HostTimes:
        """Align the other clocks with clock 0."""
        delegates = {
            clock: align_delegate(trace, clock, placement)
            for clock in range(1, len(trace.clocks))
            if clock not in trace.own_clocks and (trace.clock == clock).any()
        }
        return cls(trace, alignment, placement, delegates)

    def instants(self, clock: int = 0) -> tuple[Instants, Instants]:
        """Return start and end of the events of a clock in host nanoseconds, in row order."""
        if clock == 0:
            return self.placement.instants(self.alignment)
        times = self.delegates[clock]
        epochs = times.cpu_epoch()
        began, ended = times.placement.instants(times.alignment)
        return chained(began, self.alignment, epochs), chained(ended, self.alignment, epochs)


def host_times(
    trace: Trace,
    pings: Sequence[Ping],
    restart: Ping | None = None,
    steadiness: Steadiness | None = None,
) -> HostTimes:
    """Place a run on the host's clock.

    Args:
        trace: The trace since the last restart of the device's clock.
        pings: Readings of clock 0, in order; those since this restart follow all events.
        restart: The restart itself: a reading of zero, before all events.
        steadiness: Tolerance and wander of the rate of clock 0; as declared by default.

    Raises:
        FormatError: More time passed in the log than between the readings around it.
    """
    return HostTimes.of(trace, *_on_host(trace, pings, restart, steadiness))


def _on_host(
    trace: Trace, pings: Sequence[Ping], restart: Ping | None, steadiness: Steadiness | None
) -> tuple[Alignment, Placement]:
    last = pings[-1].epoch if pings else 0
    earlier = [ping for ping in pings if ping.epoch != last]
    later = [ping for ping in pings if ping.epoch == last]
    before = [*earlier, restart] if restart is not None and restart.epoch == last else earlier
    clock = trace.clocks[0]
    alignment = align([*before, *later], clock, steadiness or Steadiness.of(clock))
    return alignment, place(trace, alignment, [0] * len(before) + [len(trace)] * len(later))


def rate_of_run(
    trace: Trace, pings: Sequence[Ping], restart: Ping | None = None, *, emulated: bool = False
) -> RateEvidence:
    """Return what a run shows of the rate of clock 0; arguments as for ``host_times``.

    The log must not cover more time than passed between the readings around it, either.
    """
    readings = pings if restart is None else [restart, *pings]
    evidence = rate_evidence(readings, trace.clocks[0], emulated=emulated)
    if emulated or evidence.agrees is False:
        return evidence
    try:
        _on_host(trace, pings, restart, None)
    except FormatError as error:
        return RateEvidence(False, evidence.ppm, error.message)
    return evidence


def quality_of_run(
    trace: Trace,
    pings: Sequence[Ping],
    restart: Ping | None = None,
    steadiness: Steadiness | None = None,
) -> tuple[ClockQuality, ...]:
    """Return the accuracy of each clock with events; arguments as for ``host_times``.

    A contradiction between log and readings is reported in the result instead of raised.
    """
    if not trace.clocks or not (trace.clock == 0).any():
        return ()
    try:
        times = host_times(trace, pings, restart, steadiness)
    except FormatError as error:
        events, name = int(np.count_nonzero(trace.clock == 0)), trace.clocks[0].name
        read = len(pings) + (restart is not None)
        return (ClockQuality(name, "host", read, (), events, 0, 0, None, 0, 0, None, str(error)),)
    return (
        _quality(times, 0, times.alignment, times.placement, "host"),
        *(
            _quality(times, clock, delegate.alignment, delegate.placement, trace.clocks[0].name)
            for clock, delegate in times.delegates.items()
        ),
    )


def _quality(
    times: HostTimes, clock: int, alignment: Alignment, placement: Placement, reference: str
) -> ClockQuality:
    began, ended = times.instants(clock)
    widths = [width for width in (began.half_width, ended.half_width) if width is not None]
    holding = [n for n in np.unique(placement.epoch).tolist() if n != NOT_PLACED]
    bounded = int(np.count_nonzero(began.known & ended.known))
    return ClockQuality(
        clock=alignment.domain.name,
        reference=reference,
        readings=sum(len(alignment.epochs[number].stretch.ticks) for number in holding),
        epochs=tuple(str(epoch.stretch.begins) for epoch in alignment.epochs),
        events=len(placement.rows),
        placed=placement.placed,
        bounded=bounded,
        half_width_ns=max(widths, default=None),
        silent_wraps=sum(placement.silences),
        unsettled=int(np.count_nonzero(placement.late)),
        rate_ppm=alignment.rate_ppm(holding[-1]) if holding else None,
        unknown="" if bounded == len(placement.rows) else _why(alignment, placement, holding),
    )


def _why(alignment: Alignment, placement: Placement, holding: list[int]) -> str:
    """Return why some events have no bounds."""
    if not alignment.epochs:
        return "the clock was not read"
    if placement.placed < len(placement.rows):
        breaks = dict.fromkeys(epoch.stretch.begins for epoch in alignment.epochs[1:])
        return f"some events are outside all epochs: {'; '.join(breaks) or 'no reading near them'}"
    reasons = [alignment.epochs[number].unbounded for number in holding]
    return next((reason for reason in reasons if reason), "the reference clock is not bounded")
