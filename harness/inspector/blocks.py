"""Event blocks of a trace: its groups with their times, values, metadata and symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.inspector.event import Event, EventBlock, MetadataParser
from harness.inspector.grouping import Group, RunGroup, group_runs
from harness.inspector.perf_data import PerfData, TimeScale
from harness.inspector.times import Times
from harness.inspector.values import Values
from harness.trace import NO_NAME, Trace
from harness.view.symbols import SymbolTable

RESERVED: Final = ("Method::init", "Program::load_method", "Method::execute")
"""Events of the framework, which no operator of the model is behind."""


@dataclass(frozen=True, slots=True)
class BlockMaker:
    """Makes the event blocks of a trace.

    Attributes:
        trace: What was logged.
        times: Of its events.
        values: What inflates its values.
        parser: For the metadata of delegates.
        source: The time scale of the file's ticks.
        target: The time scale of the times.
    """

    trace: Trace
    times: Times
    values: Values
    parser: MetadataParser | None
    source: TimeScale
    target: TimeScale

    def blocks(self) -> list[EventBlock]:
        """The blocks, in the order of their first runs."""
        return [self._block(group) for group in group_runs(self.trace)]

    def _block(self, group: RunGroup) -> EventBlock:
        outputs = [self._inflate(rows) for rows in group.outputs]
        # Events of one instruction share its values.
        inflated: dict[tuple[int, ...], list[Any]] = {}
        return EventBlock(
            name=group.block.name,
            events=[self._event(event, inflated) for event in group.events.values()],
            source_time_scale=self.source,
            target_time_scale=self.target,
            bundled_input_index=group.block.bundled_input_index,
            run_output=outputs[0],
            runs=group.runs,
            run_outputs=outputs,
        )

    def _event(self, group: Group, inflated: dict[tuple[int, ...], list[Any]]) -> Event:
        trace, first, rows = self.trace, group.first, group.rows
        for values in map(tuple, group.values):
            if values not in inflated:
                inflated[values] = self._inflate(values)
        per_run = [inflated[tuple(values)] for values in group.values]
        delegate = _delegate_id(trace, first)
        metadata = [trace.metadata_of(row) or b"" for row in rows]
        logged = next((values for values in group.values if values), [])
        named = [first, *logged[:1]] if rows else logged[:1]
        return Event(
            name=_name(trace, named) if delegate is None else str(delegate),
            perf_data=PerfData(self.times.durations[rows].tolist()) if rows else None,
            delegate_debug_identifier=delegate,
            is_delegated_op=delegate is not None,
            raw_delegate_debug_metadatas=metadata if any(metadata) else [],
            debug_data=next((values for values in per_run if values), []),
            start_time=self.times.starts[rows].tolist() if rows else None,
            chain_index=int(trace.chain[first]),
            rows=rows,
            debug_data_per_run=per_run,
            _instruction_id=int(trace.instruction[first]),
            _delegate_metadata_parser=self.parser,
        )

    def _inflate(self, rows: Sequence[int]) -> list[Any]:
        trace = self.trace
        return [
            self.values.inflate(trace.debug_values[trace.debug[row]])
            for row in rows
            if trace.debug[row] >= 0
        ]


def _delegate_id(trace: Trace, row: int) -> int | str | None:
    number = int(trace.delegate_int[row])
    return number if number != -1 else trace.text(int(trace.delegate_str[row])) or None


def _name(trace: Trace, rows: Iterable[int]) -> str:
    """The name of a value's event if it has one, else that of the profile event before it."""
    names = [trace.text(int(trace.name[row])) for row in rows if trace.name[row] != NO_NAME]
    return next((name for name in reversed(names) if name), "")


def add_symbols(blocks: Iterable[EventBlock], table: SymbolTable) -> None:
    """Tell events what the ETRecord knows of them."""
    for event in (event for block in blocks for event in block.events):
        if event._instruction_id is None:
            continue
        found = table.find(
            event.chain_index, event._instruction_id, event.name, event.delegate_debug_identifier
        )
        if found is None or event.name in RESERVED:
            continue
        event.debug_handles = (
            [*found.handles] if isinstance(found.handles, tuple) else found.handles
        )
        event.num_outputs = found.outputs
        event.delegate_backend_name = found.backend
        event.op_types = [*found.op_types]
        for node in found.nodes:
            # ExecuTorch's graphs append an underscore to names, for TensorBoard.
            name = f"{node.name}_"
            event.stack_traces[name] = node.stack_trace
            event.module_hierarchy[name] = {
                module.key: (module.path, module.type) for module in node.modules or ()
            }
