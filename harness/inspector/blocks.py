"""Makes the event blocks of a trace: groups with times, values, metadata and symbols.

Runs with equal name, bundled input and set of events form a block, however often each event occurs.
Events with equal name, chain, instruction and delegate id are repeats of one event; events are in
the order of their instructions' first events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import equal_rows
from harness.analyze.symbols import SymbolTable
from harness.inspector.event import Event, EventBlock, MetadataParser
from harness.inspector.event_times import PerfData, Times, TimeScale
from harness.inspector.values import LoggedValues
from harness.records.trace import EXECUTION, LOADING, Block, Kind, Trace

_Ints = npt.NDArray[np.int64]

Signature = tuple[int, int]
"""An event: the number of its instruction and delegate id, and its name's index (-2: values)."""

_VALUES = -2


@dataclass(slots=True)
class EventGroup:
    """Repeats of one event.

    Attributes:
        rows: Rows of the profile events, run after run; empty for values without events.
        values: Rows of the values that its instruction logged, run by run, without outputs of the
            program.
    """

    rows: list[int] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)

    @property
    def first(self) -> int:
        """A representative row."""
        return self.rows[0] if self.rows else next(rows[0] for rows in self.values if rows)


@dataclass(slots=True)
class RunGroup:
    """Runs of one kind.

    Attributes:
        block: The first of them.
        runs: Their numbers.
        events: Their events, in order.
        outputs: Rows of the program's outputs, run by run.
    """

    block: Block
    runs: list[int] = field(default_factory=list)
    events: dict[Signature, EventGroup] = field(default_factory=dict)
    outputs: list[list[int]] = field(default_factory=list)


def group_runs(trace: Trace) -> list[RunGroup]:
    """Group the runs of a trace, in the order of the first of each kind.

    Runs without any events, which only declare allocators, are left out.
    """
    instructions = equal_rows(
        [trace.chain, trace.instruction, trace.delegate_int, trace.delegate_str]
    )
    is_output = _outputs(trace)
    groups: dict[tuple[object, ...], RunGroup] = {}
    for number, block in enumerate(trace.blocks):
        if not block.count:
            continue
        rows = slice(block.first, block.first + block.count)
        events, outputs = _run_events(
            block.first,
            trace.kind[rows].tolist(),
            instructions[rows].tolist(),
            trace.name[rows].tolist(),
            is_output[rows].tolist(),
        )
        # Runs that differ in which events have values form separate blocks.
        valued = tuple(bool(values) for _, values in events.values())
        key = (block.name, block.bundled_input_index, tuple(events), valued)
        group = groups.setdefault(key, RunGroup(block))
        group.runs.append(number)
        group.outputs.append(outputs)
        for signature, (profile, values) in events.items():
            event = group.events.setdefault(signature, EventGroup())
            event.rows += profile
            event.values.append(values)
    return list(groups.values())


def _outputs(trace: Trace) -> npt.NDArray[np.bool_]:
    """True for events that log an output of the program."""
    found = np.zeros(len(trace), np.bool_)
    for row in np.flatnonzero(trace.debug >= 0).tolist():
        found[row] = bool(trace.debug_values[trace.debug[row]].output)
    return found


_Run = dict[Signature, tuple[list[int], list[int]]]


def _run_events(
    first: int, kinds: list[int], instructions: list[int], names: list[int], outputs: list[bool]
) -> tuple[_Run, list[int]]:
    """Return the events of one run with their rows and values, and the program's outputs."""
    profiles: dict[int, dict[int, list[int]]] = {}
    values: dict[int, list[int]] = {}
    returned: list[int] = []
    columns = zip(kinds, instructions, names, outputs, strict=True)
    for row, (kind, instruction, name, output) in enumerate(columns, start=first):
        if kind == Kind.PROFILE:
            profiles.setdefault(instruction, {}).setdefault(name, []).append(row)
        elif kind == Kind.DEBUG:
            profiles.setdefault(instruction, {})
            if output:
                returned.append(row)
            else:
                values.setdefault(instruction, []).append(row)
    return dict(_in_order(profiles, values)), returned


def _in_order(
    profiles: dict[int, dict[int, list[int]]], values: dict[int, list[int]]
) -> Iterator[tuple[Signature, tuple[list[int], list[int]]]]:
    for instruction, by_name in profiles.items():
        logged = values.get(instruction, [])
        for name, rows in by_name.items():
            yield (instruction, name), (rows, logged)
        if not by_name and logged:
            yield (instruction, _VALUES), ([], logged)


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
