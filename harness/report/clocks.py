"""Clocks of a trace: backward steps, and the trace's place on the host's clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.analyze.clock_width import suspected_widths
from harness.analyze.unwrap import Timeline, default_jitter, unwrap
from harness.errors import FormatError
from harness.formatting import printable, time_unit
from harness.records.result import ClockQuality
from harness.records.trace import Trace


class ClockQualityDocument(msgspec.Struct, frozen=True):
    """A clock of a trace.

    ``hz`` is null when its rate is unknown. ``backward_steps`` counts events that ended a little
    before the one logged before them, ``reversed_events`` those that ended a little before they
    began: up to ``jitter`` ticks that is read so and not as nearly a whole wrap. Where readings
    look like those of a narrower counter, ``suspected_bits`` is its width and ``suspicion`` says
    why; else both are null. ``quality`` says how well it is known when its events were, null
    without readings of it.
    """

    name: str
    bits: int
    down: bool
    hz: float | None
    jitter: int
    backward_steps: int
    reversed_events: int
    suspected_bits: int | None
    suspicion: str | None
    quality: ClockQuality | None


def clock_documents(
    trace: Trace, qualities: Sequence[ClockQuality] = (), later_dumps: Sequence[int] = ()
) -> list[ClockQualityDocument]:
    """Describe every clock of a trace, in which further dumps begin at rows ``later_dumps``."""
    return _documents(trace, qualities, _timeline(trace), later_dumps)


def _documents(
    trace: Trace,
    qualities: Sequence[ClockQuality],
    timeline: Timeline | None,
    later_dumps: Sequence[int] = (),
) -> list[ClockQualityDocument]:
    known = {quality.clock: quality for quality in qualities}
    suspected = {found.number: found for found in suspected_widths(trace, later_dumps)}
    return [
        ClockQualityDocument(
            name=domain.name,
            bits=domain.bits,
            down=domain.down,
            hz=None if domain.hz is None else float(domain.hz),
            jitter=default_jitter(domain),
            backward_steps=timeline.backward_steps[number] if timeline else 0,
            reversed_events=timeline.reversed_events[number] if timeline else 0,
            suspected_bits=suspected[number].bits if number in suspected else None,
            suspicion=printable(suspected[number].advice) if number in suspected else None,
            quality=known.get(domain.name),
        )
        for number, domain in enumerate(trace.clocks)
    ]


def clock_lines(trace: Trace, qualities: Sequence[ClockQuality] = ()) -> Iterator[str]:
    """Return a line for each clock that needs attention."""
    timeline = _timeline(trace)
    if timeline is None:
        yield "clocks: events span more than can be: width or direction of a counter may be wrong"
    for clock in _documents(trace, qualities, timeline):
        if clock.backward_steps or clock.reversed_events:
            line = (
                f"clock {clock.name}: {clock.backward_steps} steps back and "
                f"{clock.reversed_events} events that end before they begin"
            )
            small = clock.jitter < 1 << (clock.bits - 1)
            yield f"{line}, each by at most {clock.jitter:,} ticks" if small else line
        if clock.quality is not None:
            yield f"clock {clock.name}: {_on_host(clock.quality)}"


def _timeline(trace: Trace) -> Timeline | None:
    try:
        return unwrap(trace)
    except FormatError:
        return None


def _on_host(quality: ClockQuality) -> str:
    if quality.half_width_ns is None:
        return f"not placed on the host's clock: {quality.unknown}"
    unit = time_unit([quality.half_width_ns])
    width = f"{unit.text(quality.half_width_ns)} {unit.name}"
    text = f"on the host's clock within +-{width}, from {quality.readings} readings"
    if quality.rate_ppm is not None and any(quality.rate_ppm):  # not for the host's own clock
        low, high = quality.rate_ppm
        text += f"; its rate is {low:+,.1f} to {high:+,.1f} ppm off the declared one"
    if quality.bounded < quality.events:
        text += f"; not so {quality.events - quality.bounded} events: {quality.unknown}"
    if quality.silent_wraps:
        text += (
            f"; {quality.silent_wraps} wraps passed among {quality.unsettled} events, "
            "nobody knows between which"
        )
    return text
