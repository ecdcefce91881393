"""Hypothesis strategies for traces, device logs and ETDump files, for tests of what reads them.

Examples:
    >>> from hypothesis import given
    >>> from harness.strategies import executions, traces
    >>> @given(traces())
    ... def test_my_exporter_takes_any_trace(trace): ...
    >>> @given(executions(runs=3, delegates=True))
    ... def test_my_report_of_three_runs(execution): ...

Every strategy draws small things, shrinks towards the smallest, and is bounded by its arguments.
They need Hypothesis: ``pip install 'etdump-harness[testing]'``.
"""

from harness.plugins import require

require("testing", "harness.strategies", "hypothesis")

from harness.strategies.device_log import DeviceLog, damaged, device_logs  # noqa: E402
from harness.strategies.traces import (  # noqa: E402  # noqa: E402  # noqa: E402  # noqa: E402
    DrawnTimeline,
    EventSpec,
    Execution,
    RunSpec,
    arbitrary_traces,
    clock_domains,
    debug_values,
    ed00_files,
    executions,
    names,
    timelines,
    trace_of,
    traces,
    wrapped_traces,
)

__all__ = [
    "DeviceLog",
    "DrawnTimeline",
    "EventSpec",
    "Execution",
    "RunSpec",
    "arbitrary_traces",
    "clock_domains",
    "damaged",
    "debug_values",
    "device_logs",
    "ed00_files",
    "executions",
    "names",
    "timelines",
    "trace_of",
    "traces",
    "wrapped_traces",
]
