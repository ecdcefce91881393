"""The table of events: its columns, from whole columns of a trace or from single events."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.extras import require
from harness.inspector.event_times import STATISTICS, Floats, statistics

if TYPE_CHECKING:
    from harness.inspector.event import Event

_SHOWN_OP_TYPES: Final = 4


def encodable(name: str) -> str:
    """Return a name with invalid UTF-8 bytes escaped, so that tables can be written."""
    return name.encode("utf-8", "backslashreplace").decode()


def shown_op_types(names: list[str]) -> list[str] | str:
    """Abbreviate long lists of names like ExecuTorch's tables."""
    if len(names) <= _SHOWN_OP_TYPES:
        return names
    return f"['{names[0]}', '{names[1]}' ... '{names[-1]}'] ({len(names)} total)"


def _raw(event: Event) -> list[float] | None:
    return event.perf_data.raw if event.perf_data else None


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection while a table is made.

    Its cells are new lists and dicts, several per event, and none of them is garbage. Searching
    them again and again takes longer than making them.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


CELLS: Final[Mapping[str, Callable[[Event], Any]]] = {
    "event_name": lambda event: encodable(event.name),
    "raw": _raw,
    "op_types": lambda event: shown_op_types(event.op_types),
    "delegate_debug_identifier": lambda event: event.delegate_debug_identifier,
    "stack_traces": lambda event: event.stack_traces,
    "module_hierarchy": lambda event: event.module_hierarchy,
    "is_delegated_op": lambda event: event.is_delegated_op,
    "delegate_backend_name": lambda event: event.delegate_backend_name,
    "debug_data": lambda event: event.debug_data,
    "start_time": lambda event: event.start_time,
}
"""Every column but the statistics, which stand behind ``raw``, with its cell of an event."""

_INFERRED: Final = ("event_name", "is_delegated_op")
"""Columns of which pandas finds the type; the others hold objects."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns of some events.

    Attributes:
        cells: A list per column of ``CELLS``.
        statistics: ``STATISTICS`` of every event, shape (n, 6); NaN without durations.
    """

    cells: dict[str, list[Any]]
    statistics: Floats

    @classmethod
    def of(cls, events: Sequence[Event]) -> EventColumns:
        """Return the columns of single events."""
        cells = {name: [cell(event) for event in events] for name, cell in CELLS.items()}
        return cls(cells, _statistics(events))

    def put(self, rows: Sequence[int], events: Sequence[Event]) -> None:
        """Replace rows by those of single events."""
        for name, cell in CELLS.items():
            column = self.cells[name]
            for row, event in zip(rows, events, strict=True):
                column[row] = cell(event)
        self.statistics[list(rows)] = _statistics(events)

    def frame(self, units: str, block: str | None = None) -> Any:
        """Return a pandas DataFrame with a row per event.

        Args:
            units: Suffix of the headers of statistics.
            block: Name of the block, for a first column with it.
        """
        raw, cells = self.cells["raw"], self.cells
        columns: dict[str, Any] = {}
        if block is not None:
            columns["event_block_name"] = [encodable(block)] * len(raw)
        for name, column in cells.items():
            columns[name] = column if name in _INFERRED else _objects(column)
            if name == "raw":
                columns |= self._statistics_columns(units, complete=None not in raw)
        return pandas().DataFrame(columns)

    def _statistics_columns(self, units: str, *, complete: bool) -> dict[str, Any]:
        columns = dict(zip([key + units for key in STATISTICS], self.statistics.T, strict=True))
        if complete:
            return columns
        known = [raw is not None for raw in self.cells["raw"]]
        return {
            key: np.where(known, column.astype(object), None) for key, column in columns.items()
        }


def _statistics(events: Iterable[Event]) -> Floats:
    raws = [_raw(event) or [] for event in events]
    starts = np.cumsum([0, *map(len, raws)])
    return statistics(np.array([time for raw in raws for time in raw], np.float64), starts)


def pandas() -> Any:
    """Return pandas, imported on first use.

    Raises:
        UsageError: pandas is not installed.
    """
    (module,) = require("inspector", "a table of events", "pandas")
    return module


def _objects(items: Sequence[Any]) -> Any:
    """Return a column of objects, including lists and None, whatever type pandas would infer."""
    return pandas().Series(np.fromiter(items, object, len(items)), dtype=object)


def with_metadata(frame: Any, metadata: Sequence[Any]) -> Any:
    """Append the delegates' metadata: one column, or the columns of the parser.

    Raises:
        ValueError: A parser returned neither a list nor a dict.
    """
    rows: list[dict[Any, Any]] = []
    for found in metadata:
        if not isinstance(found, list | dict):
            raise ValueError(
                f"delegate_metadata_parser returned {type(found).__name__}, not a list or dict"
            )
        listed = {"delegate_debug_metadata": found} if found else {}
        rows.append(found if isinstance(found, dict) else listed)
    if not any(rows):
        return frame
    return pandas().concat([frame, pandas().DataFrame(rows)], axis=1)
