"""Groups the runs of a trace into blocks, and their events into repeats.

Runs with equal name, bundled input and set of events form a block, however often each event occurs.
Events with equal name, chain, instruction and delegate id are repeats of one event; events are in
the order of their instructions' first events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.analyze.groups import equal_rows
from harness.records.trace import Block, Kind, Trace

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
        key = (block.name, block.bundled_input_index, tuple(events), _valued(events))
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


def _valued(events: _Run) -> tuple[bool, ...]:
    """Return which events have values; runs that differ in this form separate blocks."""
    return tuple(bool(values) for _, values in events.values())


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
