"""Options of a run: log size, values, events, and behavior when the log is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.link.wire import DebugLevel, ProfilingLevel, WhenFull

VALUES: Final = {
    "none": DebugLevel.NO_LOGGING,
    "outputs": DebugLevel.PROGRAM_OUTPUTS,
    "intermediate": DebugLevel.INTERMEDIATE_OUTPUTS,
}
PROFILES: Final = {"method": ProfilingLevel.METHOD_ONLY, "all": ProfilingLevel.ALL_EVENTS}
WHEN_FULL: Final = {"stop": WhenFull.STOP, "drop-oldest": WhenFull.DROP_OLDEST_RUNS}
"""Names of the options on the command line and in files."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run.

    Attributes:
        trace_limit: Bytes of log the device may use; 0 for all it has.
        debug_level: Which values are logged.
        profiling_level: Which events are logged.
        when_full: What the device does when the log is full.
        stream: Send the log in chunks during the run.
    """

    trace_limit: int = 0
    debug_level: DebugLevel = DebugLevel.NO_LOGGING
    profiling_level: ProfilingLevel = ProfilingLevel.ALL_EVENTS
    when_full: WhenFull = WhenFull.STOP
    stream: bool = False


DEFAULT_OPTIONS = RunOptions()
"""All events, no values."""
