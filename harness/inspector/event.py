"""An event, with the attributes that ExecuTorch's Inspector gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.inspector.event_times import STATISTICS, PerfData
from harness.inspector.table import EventColumns, shown_op_types

MetadataParser = Callable[[list[bytes]], list[str] | dict[str, Any]]
"""Parses the metadata of an event's repeats."""

ProgramOutput = list[Any]
"""Values that a program or an instruction returned: tensors, lists of tensors, numbers."""


@dataclass
class Event:
    """All repeats of one event in the runs of a block.

    The attributes up to ``raw_delegate_debug_metadatas`` are those of ExecuTorch's class; the
    others are additional.

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
        start_time: The counter's reading at the start of each repeat, in raw ticks.
        raw_delegate_debug_metadatas: Metadata of each repeat; empty when none has any.
        chain_index: The chain of its instruction, -1 outside of instructions.
        scaled_start_time: When each repeat began, in the block's target time scale; goes on where
            the counter wraps.
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
    debug_data: ProgramOutput = field(default_factory=list)
    start_time: list[int] | None = None
    raw_delegate_debug_metadatas: list[bytes] = field(default_factory=list)
    chain_index: int = -1
    rows: list[int] = field(default_factory=list, compare=False, repr=False)
    debug_data_per_run: list[ProgramOutput] = field(default_factory=list, compare=False, repr=False)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = field(default=None, compare=False)
    _scaled_starts: Callable[[list[int]], list[int | float]] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def scaled_start_time(self) -> list[int | float] | None:
        """See above; None for values without a profile event."""
        if self.start_time is None or self._scaled_starts is None:
            return None
        return self._scaled_starts(self.rows)

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
            "op_types": [shown_op_types(self.op_types)],
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": [self.stack_traces],
            "module_hierarchy": [self.module_hierarchy],
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": [self.debug_data],
            "start_time": [self.start_time],
        }

    def to_dataframe(self, _units: str = "") -> Any:
        """Return a pandas DataFrame with one row."""
        return EventColumns.of([self]).frame(_units)
