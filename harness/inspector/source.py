"""The trace and the debug buffer that an Inspector is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from harness.errors import UsageError
from harness.inspector.perf_data import PER_SECOND, TimeScale
from harness.inspector.times import given_clocks
from harness.lab.directory import DEBUG_BUFFER
from harness.lab.source import load_source, read_trace
from harness.timebase import HOST_NANOSECONDS
from harness.trace import Trace


@dataclass(frozen=True, slots=True)
class Given:
    """A trace whose clocks have rates, and where the elements of its tensors are."""

    trace: Trace
    debug_buffer: bytes | None


def read_source(
    path: str | Path | None,
    data: bytes | None,
    debug_buffer: str | Path | None,
    source: TimeScale,
) -> Given:
    """Read a trace from ``path`` or ``data``.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged.
    """
    if data is not None:
        trace = read_trace(data, [])
    else:
        assert path is not None
        trace = load_source(Path(path)).trace
        beside = Path(path) / DEBUG_BUFFER
        if debug_buffer is None and beside.is_file():
            debug_buffer = beside
    if debug_buffer is not None and not Path(debug_buffer).is_file():
        raise UsageError(f"{debug_buffer}: no such file")
    elements = None if debug_buffer is None else Path(debug_buffer).read_bytes()
    return Given(_with_rates(trace, source), elements)


def _with_rates(trace: Trace, source: TimeScale) -> Trace:
    """Take the ticks of clocks of unknown rate for what the caller says that they are."""
    if trace.clocks == (HOST_NANOSECONDS,):
        return given_clocks(trace, source)
    rate = Fraction(PER_SECOND[source])
    clocks = tuple(replace(clock, hz=rate) if clock.hz is None else clock for clock in trace.clocks)
    return replace(trace, clocks=clocks).sealed()
