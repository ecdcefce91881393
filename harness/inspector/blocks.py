"""Makes the event blocks of a trace: groups with times, values, metadata and symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from harness.analyze.symbols import SymbolTable
from harness.inspector.event import Event, EventBlock, MetadataParser
from harness.inspector.event_times import Times
from harness.inspector.grouping import EventGroup, RunGroup, group_runs
from harness.inspector.perf_data import PerfData, TimeScale
from harness.inspector.values import LoggedValues
from harness.records.trace import EXECUTION, LOADING, Trace

RESERVED: Final = (*LOADING, EXECUTION)
"""Events of the framework, without an operator of the model."""


class BlockMaker:
    """Makes the event blocks of a trace."""

    def __init__(
        self,
        trace: Trace,
        times: Times,
        values: LoggedValues,
        parser: MetadataParser | None,
        source: TimeScale,
        target: TimeScale,
    ) -> None:
        """Convert the columns to lists, because access to single NumPy elements is slow.

        Args:
            trace: The trace.
            times: Times of its events.
            values: Inflates its values.
            parser: Parser for the metadata of delegates.
            source: Time scale of the file's ticks.
            target: Time scale of the results.
        """
        self.trace, self.values, self.parser = trace, values, parser
        self.source, self.target = source, target
        self._durations, self._starts = times.durations.tolist(), times.starts.tolist()
        texts = [*trace.names, ""]  # the last is what NO_NAME (-1) finds
        self._names = [texts[index] for index in trace.name.tolist()]
        self._chains, self._instructions = trace.chain.tolist(), trace.instruction.tolist()
        self._delegates: list[int | str | None] = [
            number if number != -1 else texts[text] or None
            for number, text in zip(
                trace.delegate_int.tolist(), trace.delegate_str.tolist(), strict=True
            )
        ]
        self._with_metadata = {*np.flatnonzero(trace.metadata[:, 1] > 0).tolist()}

    def blocks(self) -> list[EventBlock]:
        """Return the blocks in the order of their first runs."""
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

    def _event(self, group: EventGroup, inflated: dict[tuple[int, ...], list[Any]]) -> Event:
        first, rows = group.first, group.rows
        delegate = self._delegates[first]
        event = Event(
            name=self._names[first] if delegate is None else str(delegate),
            delegate_debug_identifier=delegate,
            is_delegated_op=delegate is not None,
            chain_index=self._chains[first],
            rows=rows,
            _instruction_id=self._instructions[first],
            _delegate_metadata_parser=self.parser,
        )
        if rows:
            event.perf_data = PerfData([self._durations[row] for row in rows])
            event.start_time = [self._starts[row] for row in rows]
            if not self._with_metadata.isdisjoint(rows):
                event.raw_delegate_debug_metadatas = [
                    self.trace.metadata_of(row) or b"" for row in rows
                ]
        if any(group.values):
            self._add_values(event, group, inflated)
        return event

    def _add_values(
        self, event: Event, group: EventGroup, inflated: dict[tuple[int, ...], list[Any]]
    ) -> None:
        for values in map(tuple, group.values):
            if values not in inflated:
                inflated[values] = self._inflate(values)
        event.debug_data_per_run = [inflated[tuple(values)] for values in group.values]
        event.debug_data = next(filter(None, event.debug_data_per_run), [])
        # A value may have a name of its own.
        logged = next(filter(None, group.values))[0]
        if event.delegate_debug_identifier is None and self._names[logged]:
            event.name = self._names[logged]

    def _inflate(self, rows: Sequence[int]) -> list[Any]:
        trace = self.trace
        return [
            self.values.inflate(trace.debug_values[trace.debug[row]])
            for row in rows
            if trace.debug[row] >= 0
        ]


def add_symbols(blocks: Iterable[EventBlock], table: SymbolTable) -> None:
    """Add the ETRecord's data to events."""
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
