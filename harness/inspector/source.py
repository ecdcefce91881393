"""The trace and the debug buffer that an Inspector is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from harness.inspector.perf_data import PER_SECOND, TimeScale
from harness.inspector.times import given_clocks
from harness.lab.source import load_source
from harness.timebase import HOST_NANOSECONDS
from harness.trace import Trace


@dataclass(frozen=True, slots=True)
class Given:
    """A trace whose clocks have rates, and where the elements of its tensors are."""

    trace: Trace
    debug_buffer: bytes | None


def read_source(
    given: str | Path | bytes, debug_buffer: str | Path | None, source: TimeScale
) -> Given:
    """Read the trace at a path, or in the bytes of a file.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged.
    """
    found = load_source(
        given if isinstance(given, bytes) else Path(given),
        debug_buffer=None if debug_buffer is None else Path(debug_buffer),
    )
    return Given(_with_rates(found.trace, source), found.debug_buffer)


def _with_rates(trace: Trace, source: TimeScale) -> Trace:
    """Take the ticks of clocks of unknown rate for what the caller says that they are."""
    if trace.clocks == (HOST_NANOSECONDS,):
        return given_clocks(trace, source)
    rate = Fraction(PER_SECOND[source])
    clocks = tuple(replace(clock, hz=rate) if clock.hz is None else clock for clock in trace.clocks)
    return replace(trace, clocks=clocks).sealed()
