"""What a host may choose for a run."""

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
"""What users call the choices."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Choices for one run.

    Attributes:
        trace_limit: Bytes of log the device may use; 0 for all it has.
        debug_level: Which values are logged.
        profiling_level: Which events are logged.
        when_full: What happens when the log is full.
        stream: Send the log while the run goes on.
    """

    trace_limit: int = 0
    debug_level: DebugLevel = DebugLevel.NO_LOGGING
    profiling_level: ProfilingLevel = ProfilingLevel.ALL_EVENTS
    when_full: WhenFull = WhenFull.STOP
    stream: bool = False


USUAL = RunOptions()
"""All events, no values."""
