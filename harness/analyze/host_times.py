"""Places all clocks of a run on the host's clock, and summarizes the accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analyze.alignment import PERFECTLY, Alignment, Instants, Steadiness, align
from harness.analyze.delegate_clocks import DelegateTimes, align_delegate, chained
from harness.analyze.placement import NOT_PLACED, Placement, place
from harness.errors import FormatError
from harness.records.clock_domain import Ping
from harness.records.result import ClockQuality
from harness.records.trace import Trace


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
    steadiness: Steadiness = PERFECTLY,
) -> HostTimes:
    """Place a run on the host's clock.

    Args:
        trace: The trace since the last restart of the device's clock.
        pings: Readings of clock 0, in order; those since this restart follow all events.
        restart: The restart itself: a reading of zero, before all events.
        steadiness: Tolerance and wander of the rate of clock 0.

    Raises:
        FormatError: More time passed in the log than between the readings around it.
    """
    last = pings[-1].epoch if pings else 0
    earlier = [ping for ping in pings if ping.epoch != last]
    later = [ping for ping in pings if ping.epoch == last]
    before = [*earlier, restart] if restart is not None and restart.epoch == last else earlier
    alignment = align([*before, *later], trace.clocks[0], steadiness)
    placement = place(trace, alignment, [0] * len(before) + [len(trace)] * len(later))
    delegates = {
        clock: align_delegate(trace, clock, placement)
        for clock in range(1, len(trace.clocks))
        if (trace.clock == clock).any()
    }
    return HostTimes(trace, alignment, placement, delegates)


def quality_of_run(
    trace: Trace,
    pings: Sequence[Ping],
    restart: Ping | None = None,
    steadiness: Steadiness = PERFECTLY,
) -> tuple[ClockQuality, ...]:
    """Return the accuracy of each clock with events; arguments as for ``host_times``.

    A contradiction between log and readings is reported in the result instead of raised.
    """
    if not trace.clocks or not (trace.clock == 0).any():
        return ()
    try:
        return tuple(qualities(host_times(trace, pings, restart, steadiness)))
    except FormatError as error:
        events, name = int(np.count_nonzero(trace.clock == 0)), trace.clocks[0].name
        read = len(pings) + (restart is not None)
        return (ClockQuality(name, "host", read, (), events, 0, 0, None, 0, 0, None, str(error)),)


def qualities(times: HostTimes) -> Iterator[ClockQuality]:
    """Yield the accuracy of each clock with events."""
    clocks = times.trace.clocks
    yield _quality(times, 0, times.alignment, times.placement, "host")
    for clock, delegate in times.delegates.items():
        yield _quality(times, clock, delegate.alignment, delegate.placement, clocks[0].name)


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
        silent_wraps=sum(silence.wraps for silence in placement.silences),
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
