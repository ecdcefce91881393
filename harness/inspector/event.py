"""Events and the blocks they form, with the attributes that ExecuTorch's Inspector gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from harness.extras import require
from harness.inspector.event_times import STATISTICS, PerfData, TimeScale, statistics

MetadataParser = Callable[[list[bytes]], list[str] | dict[str, Any]]
"""Parses the metadata of an event's repeats."""

_SHOWN_OP_TYPES: Final = 4


@dataclass
class Event:
    """All repeats of one event in the runs of a block.

    The attributes up to ``debug_data`` are those of ExecuTorch's class; the others are additional.

    Attributes:
        name: Its name; of a delegate's event, its id as text.
        perf_data: What the repeats took; None for values without a profile event.
        op_types: Operators of the model behind it.
        delegate_debug_identifier: Its id in the delegate; None outside.
        debug_handles: Debug handles of these operators: one, several, or None.
        num_outputs: Outputs of its instruction.
        stack_traces: Where each operator comes from, by its name in the graph.
        module_hierarchy: The modules around each operator.
        is_delegated_op: True within a delegate.
        delegate_backend_name: Name of the delegate's backend.
        debug_data: What its instruction logged in the first run.
        start_time: When each repeat began, in the block's target time scale.
        raw_delegate_debug_metadatas: Metadata of each repeat; empty when none has any.
        chain_index: The chain of its instruction, -1 outside of instructions.
        rows: Rows of the repeats in the trace.
        debug_data_per_run: What its instruction logged, run by run.
    """

    name: str
    perf_data: PerfData | None = None
    op_types: list[str] = field(default_factory=list)
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | Sequence[int] | None = None
    num_outputs: int = 1
    stack_traces: dict[str, str | None] = field(default_factory=dict)
    module_hierarchy: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    is_delegated_op: bool | None = None
    delegate_backend_name: str | None = None
    debug_data: list[Any] = field(default_factory=list)
    start_time: list[int | float] | None = None
    raw_delegate_debug_metadatas: list[bytes] = field(default_factory=list)
    chain_index: int = -1
    rows: list[int] = field(default_factory=list, compare=False, repr=False)
    debug_data_per_run: list[list[Any]] = field(default_factory=list, compare=False, repr=False)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = field(default=None, compare=False)

    @cached_property
    def delegate_debug_metadatas(self) -> list[bytes] | list[str] | dict[str, Any]:
        """The parsed metadata, or the raw metadata without a parser."""
        if not self.is_delegated_op or self._delegate_metadata_parser is None:
            return self.raw_delegate_debug_metadatas
        return self._delegate_metadata_parser(self.raw_delegate_debug_metadatas)

    def asdict(self, _units: str = "") -> dict[str, Any]:
        """Return a row of a table, by column name."""
        perf = self.perf_data
        return {
            "event_name": self.name,
            "raw": [perf.raw if perf else None],
            **{f"{key}{_units}": getattr(perf, key) if perf else None for key in STATISTICS},
            "op_types": [_shown(self.op_types)],
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": [self.stack_traces],
            "module_hierarchy": [self.module_hierarchy],
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": [self.debug_data],
            f"start_time{_units}": [self.start_time],
        }

    def to_dataframe(self, _units: str = "") -> Any:
        """Return a pandas DataFrame with one row."""
        return events_frame([self], _units)


@dataclass
class EventBlock:
    """Runs with one name and the same events.

    The attributes up to ``run_output``, and ``reference_output``, are those of ExecuTorch's class.

    Attributes:
        name: Such as ``Execute``.
        events: In the order of the first run, each instruction's together.
        source_time_scale: What the file's ticks were taken for.
        target_time_scale: The unit of all times.
        bundled_input_index: The bundled input that ran, -1 for none.
        run_output: What the program returned in the first run.
        runs: Numbers of the runs, among all blocks of the trace.
        run_outputs: What the program returned, run by run.
    """

    name: str
    events: list[Event] = field(default_factory=list)
    source_time_scale: TimeScale = TimeScale.NS
    target_time_scale: TimeScale = TimeScale.MS
    bundled_input_index: int | None = None
    run_output: list[Any] | None = None
    runs: list[int] = field(default_factory=list, compare=False)
    run_outputs: list[list[Any]] = field(default_factory=list, compare=False, repr=False)
    _reference: Callable[[], list[Any] | None] = field(
        default=lambda: None, compare=False, repr=False
    )

    @cached_property
    def reference_output(self) -> list[Any] | None:
        """The reference outputs from the ETRecord; None if it has none.

        Raises:
            UsageError: PyTorch, which the ETRecord's tensors need, is not installed.
        """
        return self._reference()

    def to_dataframe(
        self, include_units: bool = False, include_delegate_debug_data: bool = False
    ) -> Any:
        """Return a pandas DataFrame with a row per event."""
        units = f" ({self.target_time_scale.value})" if include_units else ""
        frame = events_frame(self.events, units)
        frame.insert(0, "event_block_name", [_encodable(self.name)] * len(self.events))
        if include_delegate_debug_data:
            frame = _with_metadata(frame, self.events)
        return frame


def events_frame(events: Sequence[Event], units: str = "") -> Any:
    """Return a pandas DataFrame with a row per event, or only the columns without events."""
    perf = [event.perf_data for event in events]
    numbers = statistics([data.raw if data else [] for data in perf]).T
    columns: dict[str, Any] = {
        "event_name": [_encodable(event.name) for event in events],
        "raw": _objects(data.raw if data else None for data in perf),
    }
    for key, values in zip(STATISTICS, numbers, strict=True):
        known = [value if data else None for value, data in zip(values.tolist(), perf, strict=True)]
        columns[key + units] = values if None not in known else _objects(known)
    columns |= {
        "op_types": _objects(_shown(event.op_types) for event in events),
        "delegate_debug_identifier": _objects(event.delegate_debug_identifier for event in events),
        "stack_traces": _objects(event.stack_traces for event in events),
        "module_hierarchy": _objects(event.module_hierarchy for event in events),
        "is_delegated_op": [event.is_delegated_op for event in events],
        "delegate_backend_name": _objects(event.delegate_backend_name for event in events),
        "debug_data": _objects(event.debug_data for event in events),
        f"start_time{units}": _objects(event.start_time for event in events),
    }
    return pandas().DataFrame(columns)


def pandas() -> Any:
    """Return pandas, imported on first use.

    Raises:
        UsageError: pandas is not installed.
    """
    (module,) = require("inspector", "a table of events", "pandas")
    return module


def _objects(items: Iterable[Any]) -> Any:
    """Return a column of objects, including lists and None."""
    return pandas().Series([*items], dtype=object)


def _with_metadata(frame: Any, events: Sequence[Event]) -> Any:
    """Append the delegates' metadata: one column, or the columns of the parser."""
    rows = []
    for event in events:
        found = event.delegate_debug_metadatas
        if isinstance(found, list):
            rows.append(
                pandas().Series({"delegate_debug_metadata": found} if found else {}, dtype=object)
            )
        elif isinstance(found, dict):
            rows.append(pandas().Series(found, dtype=object))
        else:
            raise TypeError(
                f"delegate_metadata_parser returned {type(found).__name__}, not a list or dict"
            )
    if all(row.empty for row in rows):
        return frame
    return pandas().concat([frame, pandas().DataFrame(rows)], axis=1)


def _encodable(name: str) -> str:
    """Return a name with invalid UTF-8 bytes escaped, so that tables can be written."""
    return name.encode("utf-8", "backslashreplace").decode()


def _shown(names: list[str]) -> list[str] | str:
    """Abbreviate long lists of names like ExecuTorch's tables."""
    if len(names) <= _SHOWN_OP_TYPES:
        return names
    return f"['{names[0]}', '{names[1]}' ... '{names[-1]}'] ({len(names)} total)"
