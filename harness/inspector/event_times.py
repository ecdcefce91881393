"""Computes durations and starts of all events in the target time scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.converters import Convert, debug_id
from harness.analyze.ticks import to_nanoseconds, unwrap
from harness.records.clock_domain import ClockDomain
from harness.records.trace import Kind, Trace

Floats = npt.NDArray[np.float64]


class TimeScale(Enum):
    """A unit of time; cycles cannot be converted to other units."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


PER_SECOND: Final[dict[TimeScale, int]] = {
    TimeScale.NS: 1_000_000_000,
    TimeScale.US: 1_000_000,
    TimeScale.MS: 1_000,
    TimeScale.S: 1,
    TimeScale.CYCLES: 1,
}
"""Number per second; 1 for cycles."""


def scale_between(source: TimeScale, target: TimeScale) -> Fraction:
    """Return the number of ``source`` units per ``target`` unit.

    Raises:
        ValueError: Only one of them is cycles.
    """
    if (source is TimeScale.CYCLES) != (target is TimeScale.CYCLES):
        raise ValueError("cycles have no length: source and target scale must both be cycles")
    return Fraction(PER_SECOND[source], PER_SECOND[target])


@dataclass
class PerfData:
    """Durations of an event, one per repeat, in the target time scale."""

    raw: list[float]

    @property
    def p10(self) -> float:
        """10th percentile."""
        return float(np.percentile(self.raw, 10))

    @property
    def p50(self) -> float:
        """Median."""
        return float(np.percentile(self.raw, 50))

    @property
    def p90(self) -> float:
        """90th percentile."""
        return float(np.percentile(self.raw, 90))

    @property
    def avg(self) -> float:
        """Mean."""
        return float(np.mean(self.raw))

    @property
    def min(self) -> float:
        """Shortest."""
        return min(self.raw)

    @property
    def max(self) -> float:
        """Longest."""
        return max(self.raw)


STATISTICS: Final = ("p10", "p50", "p90", "avg", "min", "max")


def statistics(raws: Sequence[Sequence[float]]) -> Floats:
    """Return ``STATISTICS`` of many events at once, shape (n, 6); NaN without durations.

    Events with the same number of durations are computed together.
    """
    found = np.full((len(raws), len(STATISTICS)), np.nan)
    lengths = np.array([len(raw) for raw in raws], np.int64)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        values = np.array([raws[row] for row in rows.tolist()], np.float64)
        found[rows, :3] = np.percentile(values, (10, 50, 90), axis=1).T
        found[rows, 3] = values.mean(axis=1)
        found[rows, 4] = values.min(axis=1)
        found[rows, 5] = values.max(axis=1)
    return found


_SPAN_32 = np.uint64(2**32)


@dataclass(frozen=True, slots=True)
class Times:
    """Durations and starts of events. One entry per row of the trace.

    Attributes:
        durations: In the target scale, float64; exact to the last bit if the clock rate is known.
            Negative for events that end slightly before they start.
        starts: Unwrapped counter readings at the start, in the target scale, float64; exact ticks
            if the target scale is cycles.
        backward: Number of events that end before they start.
    """

    durations: npt.NDArray[np.float64]
    starts: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    backward: int


def of_readings(trace: Trace, hz: Fraction) -> Trace:
    """Return the trace on a counter of rate ``hz``, with a width derived from its readings.

    A counter with all readings below 2**32 counts as 32 bits wide, because the log has no better
    evidence. Delegates may use another counter than ExecuTorch or, like XNNPACK, add to a reading
    in 64 bits, so their events get a clock of their own.
    """
    wide = np.maximum(trace.start, trace.end) >= _SPAN_32
    clocks = tuple(
        ClockDomain(name, hz, 64 if (wide & (trace.delegated == delegated)).any() else 32)
        for name, delegated in (("given", False), ("delegates", True))
    )
    numbers = np.where(trace.clock == 0, trace.delegated, trace.clock).astype(np.uint8)
    return replace(trace, clocks=clocks, clock=numbers).sealed()


def event_times(trace: Trace, target: TimeScale, converter: Convert | None = None) -> Times:
    """Convert the times of all events.

    Args:
        trace: A trace with known clock rates, unless the target is cycles.
        target: Target time scale.
        converter: Converts times of delegate events instead of their clock's rate; takes the
            delegate's debug id as text and a time. It gets times from 0 on, so that wraps and large
            readings do not cost precision.

    Raises:
        ValueError: The rate of a clock is unknown and the target is not cycles.
    """
    timeline = unwrap(trace)
    ticks = timeline.end - timeline.start
    readings = timeline.start.copy()
    for number, origin in enumerate(timeline.origins):
        if origin is not None and not trace.clocks[number].down:
            readings[trace.clock == number] += np.int64(origin) if origin < 2**62 else 0
    profile = trace.kind == Kind.PROFILE
    durations, starts = np.zeros(len(trace)), np.zeros(len(trace))
    exact = True
    for number, domain in enumerate(trace.clocks):
        rows = np.flatnonzero((trace.clock == number) & profile)
        if len(rows):
            durations[rows] = _scaled(ticks[rows], domain, target)
            starts[rows] = _scaled(readings[rows], domain, target)
            exact &= domain.hz == PER_SECOND[target] or target is TimeScale.CYCLES
    backward = int(np.count_nonzero(ticks[profile] < 0))
    if converter is not None:
        exact = False
        for row in np.flatnonzero(profile & trace.delegated).tolist():
            name = debug_id(trace, row)
            zero = converter(name, 0)
            durations[row] = float(converter(name, int(ticks[row])) - zero)
            starts[row] = float(converter(name, int(readings[row])))
    return Times(durations, readings if exact else starts, backward)


def _scaled(
    ticks: npt.NDArray[np.int64], domain: ClockDomain, target: TimeScale
) -> npt.NDArray[np.float64]:
    if target is TimeScale.CYCLES:
        return ticks.astype(np.float64)
    if domain.hz is None:
        raise ValueError(
            f"clock {domain.name!r}: the rate is unknown; give source_time_scale, or use cycles"
        )
    # Nanoseconds of a clock that is as much faster are units of this one.
    faster = replace(domain, hz=domain.hz * scale_between(TimeScale.NS, target))
    return np.sign(ticks) * to_nanoseconds(np.abs(ticks), faster)
