"""The trace and the debug buffer that an Inspector is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from harness.inspector.perf_data import PER_SECOND, TimeScale
from harness.inspector.times import of_readings
from harness.lab.source import Source, load_source
from harness.lab.time_scales import on_scales
from harness.timebase import HOST_NANOSECONDS
from harness.trace import Trace

GIVEN: Final = "given"
"""Name of a clock that nothing but its rate is known of, as somebody has said it."""


@dataclass(frozen=True, slots=True)
class Given:
    """A trace whose clocks have rates, and where the elements of its tensors are."""

    trace: Trace
    debug_buffer: bytes | None


def read_source(
    given: str | Path | bytes | Source, debug_buffer: str | Path | None, source: TimeScale
) -> Given:
    """Read the trace at a path, or in the bytes of a file, unless it has been read.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged.
    """
    if not isinstance(given, Source):
        given = load_source(
            given if isinstance(given, bytes) else Path(given),
            debug_buffer=None if debug_buffer is None else Path(debug_buffer),
        )
        if given.result is not None and given.result.time_scales:
            given = on_scales(given, {})
    return Given(_with_rates(given.trace, source), given.debug_buffer)


def _with_rates(trace: Trace, source: TimeScale) -> Trace:
    """Take the ticks of clocks of unknown rate for what the caller says that they are."""
    rate = Fraction(PER_SECOND[source])
    if trace.clocks == (HOST_NANOSECONDS,):
        return of_readings(trace, rate)
    if len(trace.clocks) == 1 and trace.clocks[0].name == GIVEN and trace.clocks[0].bits == 64:
        return of_readings(trace, trace.clocks[0].hz or rate)
    clocks = tuple(replace(clock, hz=rate) if clock.hz is None else clock for clock in trace.clocks)
    return replace(trace, clocks=clocks).sealed()
