"""Chrome's JSON trace format as the PyTorch profiler (Kineto) writes it.

Times are microseconds with three decimals, so ``ts * 1000 + baseTimeNanoseconds`` is the exact
nanosecond, and small, so that a float64 holds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from harness.decode.program import Method
from harness.export.hta import events_for_hta
from harness.export.kineto_events import (
    Event,
    counter_events,
    flow_events,
    gap_events,
    slice_event,
    threads,
)
from harness.export.timeline import Drawing, draw
from harness.records.trace import Kind, Trace


def write_kineto(
    trace: Trace, flavour: str = "torch", method: Method | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Args:
        trace: The trace.
        flavour: ``torch``, like the PyTorch profiler's CPU traces, or ``hta``.
        method: The executed method, for names of delegates.

    Raises:
        UsageError: The rate of the tracer's clock is unknown.
    """
    drawing = draw(trace, method)
    if flavour == "hta":
        events, notes = events_for_hta(drawing)
    else:
        events, notes = list(_events(drawing)), ()
    head = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": 0,
        "traceName": "etdump-harness",
    }
    lines = ",\n".join(map(_line, events))
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + lines + "\n]}\n"
    return text.encode(), drawing.notes + notes


def _events(drawing: Drawing) -> Iterator[Event]:
    yield from threads(drawing.tracks)
    for number in range(len(drawing)):
        yield slice_event(drawing, number, _category(drawing, number))
    yield from flow_events(drawing)
    yield from counter_events(drawing)
    yield from gap_events(drawing)


def _category(drawing: Drawing, number: int) -> str:
    """Return the category of a slice: operator for scopes of an instruction, else annotation."""
    row = drawing.row[number]
    if drawing.trace.kind[row] == Kind.DEBUG:
        return "user_annotation"
    return "user_annotation" if drawing.trace.chain[row] == -1 else "cpu_op"


def _line(event: Event) -> str:
    """Return the JSON of an event; converts nanoseconds to microseconds without floats."""
    times = "".join(
        f', "{key}": {_microseconds(event[key])}' for key in ("ts", "dur") if key in event
    )
    rest = {key: value for key, value in event.items() if key not in ("ts", "dur")}
    return json.dumps(rest)[:-1] + times + "}"


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
