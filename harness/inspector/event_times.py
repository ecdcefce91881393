"""Computes durations and starts of all events in the target time scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.converters import Convert, delegate_times
from harness.analyze.ticks import default_jitter, forward, signed_steps, to_nanoseconds, unwrap
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


def time_scale_of(given: Enum | str) -> TimeScale:
    """Return the scale with the value of another enumeration's member, such as ExecuTorch's.

    Raises:
        ValueError: There is no such scale.
    """
    value = given.value if isinstance(given, Enum) else given
    try:
        return TimeScale(value)
    except ValueError:
        known = ", ".join(scale.value for scale in TimeScale)
        raise ValueError(f"unknown time scale {given!r}: use {known}") from None


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
        RuntimeError: Only one of them is cycles.
    """
    if (source is TimeScale.CYCLES) != (target is TimeScale.CYCLES):
        raise RuntimeError("cycles have no length: source and target scale must both be cycles")
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


def statistics(durations: Floats, starts: npt.NDArray[np.int64]) -> Floats:
    """Return ``STATISTICS`` of many events at once, shape (n, 6); NaN without durations.

    Args:
        durations: Durations of all events, one event after the other.
        starts: Index of the first duration of each event, and the end, shape (n + 1,).
    """
    counts = np.diff(starts)
    found = np.full((len(counts), len(STATISTICS)), np.nan)
    for count in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == count)
        if len(rows) == len(counts):
            values = durations[starts[0] : starts[-1]].reshape(-1, count)
        else:
            values = durations[starts[rows][:, None] + np.arange(count)]
        if count == 1:
            found[rows] = values
            continue
        ascending = np.sort(values, axis=1)
        found[rows, :3] = _percentiles(ascending, (10, 50, 90))
        found[rows, 3] = values.mean(axis=1)  # in log order, as a sum depends on the order
        found[rows, 4] = ascending[:, 0]
        found[rows, 5] = ascending[:, -1]
    return found


def _percentiles(ascending: Floats, shares: tuple[int, ...]) -> Floats:
    """Return percentiles of sorted rows, shape (rows, shares), bit by bit as ``np.percentile``.

    Sorting takes half as long as the partitions of ``np.percentile``, and gives the extremes, too.
    """
    positions = np.array(shares) / 100 * (ascending.shape[1] - 1)
    below = np.floor(positions).astype(np.int64)
    share = positions - below
    low, high = ascending[:, below], ascending[:, np.minimum(below + 1, ascending.shape[1] - 1)]
    step = high - low
    # NumPy interpolates from the nearer end.
    found: Floats = np.where(share < 0.5, low + step * share, high - step * (1 - share))
    return found


class Times:
    """Durations and starts of events. One entry per row of the trace.

    Attributes:
        durations: In the target scale, float64; exact to the last bit if the clock rate is known.
            Negative for events that end slightly before they start.
        backward: Number of events that end before they start.
    """

    def __init__(self, trace: Trace, target: TimeScale, converter: Convert | None = None) -> None:
        """Convert the durations of all events; starts follow on first use.

        Args:
            trace: A trace with known clock rates, unless the target is cycles.
            target: Target time scale.
            converter: Converts times of delegate events instead of their clock's rate; takes the
                delegate's debug id as text and a time, as in ``harness.analyze.converters``.

        Raises:
            ValueError: The rate of a clock is unknown and the target is not cycles.
            FormatError: An event is longer than 2**62 ticks.
        """
        self._trace, self._target = trace, target
        self.durations, self.backward = np.zeros(len(trace)), 0
        for _, domain, rows in self._profiles():
            ticks = forward(domain, trace.start[rows], trace.end[rows])
            steps = signed_steps(domain, ticks, default_jitter(domain))
            self.durations[rows] = _scaled(np.abs(steps), domain, target) * np.sign(steps)
            self.backward += int(np.count_nonzero(steps < 0))
        self._converted: dict[int, float] = {}
        if converter is not None:
            delegated = np.flatnonzero((trace.kind == Kind.PROFILE) & trace.delegated)
            for row, (name, start, end) in zip(
                delegated.tolist(), delegate_times(trace, delegated), strict=True
            ):
                began = converter(name, start)
                self.durations[row] = float(converter(name, end) - began)
                self._converted[row] = float(began)

    @cached_property
    def starts(self) -> npt.NDArray[np.float64] | npt.NDArray[np.uint64]:
        """Starts on the unwrapped counter, in the target scale; exact ticks if it has their unit.

        Raises:
            FormatError: The events span more than 2**62 ticks.
        """
        timeline = unwrap(self._trace)
        ticks, scaled = timeline.start.astype(np.uint64), np.zeros(len(self._trace))
        exact = not self._converted
        for number, domain, rows in self._profiles():
            if not domain.down:
                ticks[rows] += np.uint64(timeline.origins[number] or 0)
            scaled[rows] = _scaled(ticks[rows], domain, self._target)
            exact &= self._target is TimeScale.CYCLES or domain.hz == PER_SECOND[self._target]
        scaled[[*self._converted]] = [*self._converted.values()]
        return ticks if exact else scaled

    def _profiles(self) -> Iterator[tuple[int, ClockDomain, npt.NDArray[np.int64]]]:
        """Yield number, domain and rows of the profile events of each clock."""
        profile = self._trace.kind == Kind.PROFILE
        for number, domain in enumerate(self._trace.clocks):
            rows = np.flatnonzero((self._trace.clock == number) & profile)
            if len(rows):
                yield number, domain, rows


def of_readings(trace: Trace, hz: Fraction, bits: int | None = None) -> Trace:
    """Return the trace on a counter of rate ``hz`` and, unless given, a width by its readings.

    A counter with all readings below 2**32 counts as 32 bits wide, because the log has no better
    evidence. Delegates may use another counter than ExecuTorch or, like XNNPACK, add to a reading
    in 64 bits, so their events get a clock of their own; it has ``bits`` if all of them fit.
    """
    largest = np.maximum(trace.start, trace.end)
    clocks = []
    for name, delegated in (("given", False), ("delegates", True)):
        used = int(largest.max(initial=0, where=trace.delegated == delegated)).bit_length()
        width = 32 if used <= 32 else 64
        clocks.append(ClockDomain(name, hz, bits if bits is not None and used <= bits else width))
    numbers = np.where(trace.clock == 0, trace.delegated, trace.clock).astype(np.uint8)
    return replace(trace, clocks=tuple(clocks), clock=numbers).sealed()


def _scaled(
    ticks: npt.NDArray[np.int64] | npt.NDArray[np.uint64], domain: ClockDomain, target: TimeScale
) -> npt.NDArray[np.float64]:
    if target is TimeScale.CYCLES:
        return ticks.astype(np.float64)
    if domain.hz is None:
        raise ValueError(
            f"clock {domain.name!r}: the rate is unknown; give source_time_scale, or use cycles"
        )
    # Nanoseconds of a clock that is as much faster are units of this one.
    faster = replace(domain, hz=domain.hz * scale_between(TimeScale.NS, target))
    return to_nanoseconds(ticks, faster)
