"""Events of Chrome's JSON trace format, common to all flavours.

Times are integer nanoseconds here; they become microseconds when the file is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from harness.export.tensors import TensorNumbers, profiler_inputs
from harness.export.timeline import Drawing, Track

PID: Final = 1
"""The one process: the target."""

Event = dict[str, Any]


def threads(tracks: tuple[Track, ...]) -> Iterator[Event]:
    """Yield the names of the process and its threads, one per track; thread ids start at 1."""
    yield _named("process_name", 0, name="target")
    yield _named("process_labels", 0, labels="ExecuTorch")
    for tid, track in enumerate(tracks, start=1):
        yield _named("thread_name", tid, name=track.name)
        yield _named("thread_sort_index", tid, sort_index=tid)


def slice_event(drawing: Drawing, number: int, category: str) -> Event:
    """Return a slice as a complete event."""
    arguments: dict[str, Any] = {**drawing.arguments(number)}
    # Ids by which readers match events of this file and of PyTorch's execution trace.
    arguments["External id"] = arguments["Record function id"] = int(drawing.row[number]) + 1
    arguments["Ev Idx"] = arguments.pop("event")
    if (given := drawing.given[number]) is not None:
        operands = TensorNumbers(None, 1).operands(given.inputs)
        arguments |= profiler_inputs(operands)
    start = int(drawing.start[number])
    return {
        **{"ph": "X", "cat": category, "name": drawing.name(number), "pid": PID},
        **{"tid": int(drawing.track[number]) + 1, "ts": start},
        **{"dur": int(drawing.end[number]) - start, "args": arguments},
    }


def flow_events(drawing: Drawing) -> Iterator[Event]:
    """Yield an arrow from each delegate call to each of its events."""
    numbers = count(1)
    for call, event in drawing.flows:
        start = int(drawing.start[event])
        flow = {"cat": "ac2g", "name": "ac2g", "id": next(numbers), "pid": PID}
        yield flow | {"ph": "s", "tid": int(drawing.track[call]) + 1, "ts": start}
        yield flow | {"ph": "f", "tid": int(drawing.track[event]) + 1, "ts": start, "bp": "e"}


def counter_events(drawing: Drawing) -> Iterator[Event]:
    """Yield the live bytes of each allocator after each change."""
    for counter in drawing.counters:
        for time, live in zip(counter.time.tolist(), counter.live.tolist(), strict=True):
            yield {
                "ph": "C",
                "name": counter.title,
                "pid": PID,
                "ts": time,
                "args": {"bytes": live},
            }


def gap_events(drawing: Drawing) -> Iterator[Event]:
    """Yield losses, on threads of their own after the others, because they may overlap."""
    for tid, gap in enumerate(drawing.gaps, start=len(drawing.tracks) + 1):
        yield _named("thread_name", tid, name="losses")
        event = {"ph": "X", "cat": "loss", "name": gap.name, "pid": PID, "tid": tid}
        yield event | {"ts": gap.start, "dur": gap.end - gap.start, "args": {}}


def _named(what: str, tid: int, **arguments: str | int) -> Event:
    return {"ph": "M", "name": what, "pid": PID, "tid": tid, "ts": 0, "args": arguments}
