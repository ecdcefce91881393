"""Columns of tables that say where an event is: in time, and in the model."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analyze.call_tree import call_tree
from harness.analyze.symbols import EventSymbols
from harness.errors import UsageError
from harness.export.event_times import Placed
from harness.export.values import escaped
from harness.records.trace import Trace

Symbols = Sequence[EventSymbols | None] | None
"""The ETRecord data of every event of a trace; None without an ETRecord."""


def place_columns(
    trace: Trace, symbols: Symbols = None
) -> tuple[dict[str, list[int | None] | list[str | None]], tuple[str, ...]]:
    """Return the columns by name, and a line if the trace has no common timeline.

    ``start_ns`` is the start of each event in nanoseconds from the earliest one, on the timeline of
    the drawn formats: with unwrapped counters, and the events of delegates within their calls. With
    an ETRecord, ``module`` and ``module_type`` are the innermost module around an event. Cells are
    None where it is unknown.
    """
    starts, notes = _starts(trace)
    columns: dict[str, list[int | None] | list[str | None]] = {"start_ns": starts}
    if symbols is not None:
        places = [module_place(known) for known in symbols]
        for name in ("module", "module_type"):
            columns[name] = [place.get(name) for place in places]
    return columns, notes


def _starts(trace: Trace) -> tuple[list[int | None], tuple[str, ...]]:
    try:
        placed = Placed(trace, call_tree(trace).parent)
    except UsageError as error:
        return [None] * len(trace), (f"no start_ns: {error}",)
    known = (placed.drawn | placed.timed).tolist()
    starts = zip(placed.start.tolist(), known, strict=True)
    return [start if here else None for start, here in starts], ()


def module_place(known: EventSymbols | None) -> dict[str, str]:
    """Return path and class of the innermost module around an event, as far as they are known."""
    if known is None or not known.module:
        return {}
    module = known.module[-1]
    path = {"module": escaped(module.path)} if module.path else {}  # "" is the model itself
    return path | {"module_type": escaped(module.type)}
