"""The flavour of Kineto JSON for HolisticTraceAnalysis.

HTA analyzes accelerators: kernels on streams, each launched by a call on the host, and steps of the
profiler. Here an execution is a step, a delegate event is a kernel on a stream of its delegate, and
its DELEGATE_CALL is the launch. Without delegate events, the innermost scope of each instruction is
the kernel, all on one stream, and its OPERATOR_CALL is the launch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.export.kineto_events import (
    PID,
    Event,
    counter_events,
    gap_events,
    slice_event,
    threads,
)
from harness.export.timeline import Drawing

_FIRST_STREAM = 7
"""Number of CUDA's default stream."""


def events_for_hta(drawing: Drawing) -> tuple[list[Event], tuple[str, ...]]:
    """Return all events of the file, and a line for each assumption."""
    launches = drawing.flows
    notes: tuple[str, ...] = ()
    if not launches:
        launches = tuple(_instructions(drawing))
        notes = (f"{len(launches)} operators of the CPU stand in as kernels of an accelerator",)
    events = [*threads(drawing.tracks), *_steps(drawing)]
    kernels = {kernel for _, kernel in launches}
    events += (
        slice_event(drawing, number, "cpu_op")
        for number in range(len(drawing))
        if number not in kernels or not drawing.flows
    )
    for correlation, (call, kernel) in enumerate(launches, start=1):
        events += _launched(drawing, call, kernel, correlation)
    return [*events, *counter_events(drawing), *gap_events(drawing)], notes


def _instructions(drawing: Drawing) -> Iterator[tuple[int, int]]:
    """Yield the parent of each instruction's innermost scope, and this scope."""
    innermost = np.ones(len(drawing), np.bool_)
    innermost[drawing.parent[drawing.parent >= 0]] = False
    for number in np.flatnonzero(innermost & (drawing.parent >= 0)).tolist():
        if drawing.trace.chain[drawing.row[number]] != -1:
            yield int(drawing.parent[number]), number


def _steps(drawing: Drawing) -> Iterator[Event]:
    """Yield a step for each block in which an instruction was executed."""
    blocks = drawing.blocks()
    executed = blocks[drawing.trace.chain[drawing.row] != -1]
    for step, block in enumerate(np.unique(executed).tolist()):
        inside = np.flatnonzero(blocks == block)
        start, end = int(drawing.start[inside].min()), int(drawing.end[inside].max())
        tid = int(drawing.track[inside[0]]) + 1
        event = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}"}
        yield event | {"pid": PID, "tid": tid, "ts": start, "dur": end - start, "args": {}}


def _launched(drawing: Drawing, call: int, kernel: int, correlation: int) -> Iterator[Event]:
    """Yield a kernel on its stream, and its launch with a duration of 0."""
    event = slice_event(drawing, kernel, "kernel")
    track = int(drawing.track[kernel]) if drawing.flows else 0
    stream = _FIRST_STREAM + track
    event["args"] |= {"stream": stream, "correlation": correlation, "device": 0}
    yield event | {"pid": 0, "tid": stream}
    launch = slice_event(drawing, call, "cuda_runtime")
    launch["args"] = {"correlation": correlation, "External id": event["args"]["External id"]}
    yield launch | {"name": "cudaLaunchKernel", "ts": min(launch["ts"], event["ts"]), "dur": 0}
