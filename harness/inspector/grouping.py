"""Groups the events of a trace: runs of one kind form a block, repeats of one event an event.

Runs with equal name, bundled input and set of events form a block, however often each event occurs.
Events with equal name, chain, instruction and delegate id are repeats of one event; events are in
the order of their instructions' first events. Everything is computed on whole columns, because a
Python object per event would take most of the time and memory of a large trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, equal_rows
from harness.records.trace import Block, Kind, Trace

_Ints = npt.NDArray[np.int64]
_VALUES = -2
"""Name of an event for values that were logged without a profile event."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Indices in groups: group n has ``items[starts[n]:starts[n + 1]]``.

    Attributes:
        items: The indices, one group after the other.
        starts: Where each group begins, and the end, shape (number of groups + 1,).
    """

    items: _Ints
    starts: _Ints

    @classmethod
    def by(cls, numbers: _Ints, items: _Ints, count: int) -> Grouped:
        """Group ``items`` by their numbers, below ``count``; a group keeps the order of items."""
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(numbers, minlength=count), out=starts[1:])
        if (numbers[1:] < numbers[:-1]).any():
            # NumPy sorts small integers in linear time.
            narrow = numbers.astype(np.min_scalar_type(max(count - 1, 0)))
            items = items[np.argsort(narrow, kind="stable")]
        return cls(items, starts)

    def __getitem__(self, group: int) -> _Ints:
        return self.items[self.starts[group] : self.starts[group + 1]]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs of one kind.

    Attributes:
        block: The first of them.
        runs: Their numbers.
        first: Number of their first event, among the events of all groups.
        count: Number of their events.
    """

    block: Block
    runs: list[int]
    first: int
    count: int


class EventGroups:
    """The groups of a trace.

    Attributes:
        groups: Runs of one kind each, in the order of their first runs. Runs without any events,
            which only declare allocators, are left out.
        rows: Rows of the profile events of each event, run after run; none for values without
            profile events.
        firsts: A representative row of each event.
        valued: Numbers of the events whose instruction logged values.
    """

    def __init__(self, trace: Trace) -> None:
        """Group the events of ``trace``."""
        self._table = table = _RunTable(trace)
        signatures: dict[tuple[object, ...], list[int]] = {}
        for number, block in enumerate(trace.blocks):
            if block.count:
                key = (block.name, block.bundled_input_index, table.signature(number))
                signatures.setdefault(key, []).append(number)
        self.groups: list[RunGroup] = []
        first_of_run = np.zeros(len(trace.blocks), np.int64)
        total = 0
        for runs in signatures.values():
            count = int(table.bounds[runs[0] + 1] - table.bounds[runs[0]])
            self.groups.append(RunGroup(trace.blocks[runs[0]], runs, total, count))
            first_of_run[runs] = total
            total += count
        # Number of each run's events among the events of all groups.
        numbers = np.arange(len(table.runs)) + (first_of_run - table.bounds[:-1])[table.runs]
        self.rows = Grouped.by(numbers[table.event_of_row], table.rows, total)
        self.firsts = np.zeros(total, np.int64)
        self.firsts[numbers[::-1]] = table.firsts[::-1]  # the first run writes last
        self.valued = np.unique(numbers[table.valued])

    def values(self, group: RunGroup, event: int) -> list[_Ints]:
        """Return the rows of the values of an event's instruction, run by run, without outputs."""
        table, position = self._table, event - group.first
        return [table.values[table.scopes[table.bounds[run] + position]] for run in group.runs]

    def outputs(self, run: int) -> _Ints:
        """Return the rows of the program's outputs in a run."""
        return self._table.outputs[run]


class _RunTable:
    """The events of each run, without repeats, in the order of ``EventGroups``.

    Attributes:
        rows: Rows of all profile events.
        event_of_row: Index in this table of each of these rows.
        bounds: Where each run begins in this table, and the end.
        runs: Run of each entry.
        scopes: Instruction of each entry within its run, numbered across runs.
        firsts: Row of the first event of each entry.
        valued: Whether the instruction of each entry logged values.
        values: Rows of values by scope.
        outputs: Rows of outputs of the program by run.
    """

    def __init__(self, trace: Trace) -> None:
        """Find the distinct events of each run."""
        count = len(trace.blocks)
        kinds = np.flatnonzero(trace.kind != Kind.ALLOCATION)
        runs = block_numbers(trace)[kinds]
        columns = (trace.chain, trace.instruction, trace.delegate_int, trace.delegate_str)
        scope = equal_rows([runs, *(column[kinds] for column in columns)])
        scopes = int(scope.max(initial=-1)) + 1
        is_value = trace.kind[kinds] == Kind.DEBUG
        self.rows = kinds[~is_value]
        logged = kinds[is_value]
        output = np.array(
            [n >= 0 and bool(trace.debug_values[n].output) for n in trace.debug[logged].tolist()],
            np.bool_,
        )
        self.outputs = Grouped.by(runs[is_value][output], logged[output], count)
        self.values = Grouped.by(scope[is_value][~output], logged[~output], scopes)

        has_values = np.diff(self.values.starts) > 0
        of_profile = scope[~is_value]
        events = equal_rows([of_profile, trace.name[self.rows]])
        distinct = int(events.max(initial=-1)) + 1
        alone = has_values.copy()
        alone[of_profile] = False
        only_values = np.flatnonzero(alone)
        entry_scopes = np.concatenate([np.zeros(distinct, np.int64), only_values])
        entry_scopes[events] = of_profile
        firsts = np.zeros(len(entry_scopes), np.int64)
        firsts[events[::-1]] = self.rows[::-1]  # the first row writes last
        firsts[distinct:] = self.values.items[self.values.starts[only_values]]
        first_of_scope = np.zeros(scopes, np.int64)
        first_of_scope[scope[::-1]] = kinds[::-1]

        order = np.lexsort((firsts, first_of_scope[entry_scopes]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.event_of_row = place[events]
        self.scopes, self.firsts = entry_scopes[order], firsts[order]
        self.valued = has_values[self.scopes]
        run_of_scope = np.zeros(scopes, np.int64)
        run_of_scope[scope] = runs
        self.runs = run_of_scope[self.scopes]
        self.bounds = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(self.runs, minlength=count), out=self.bounds[1:])
        names = np.where(order >= distinct, _VALUES, trace.name[self.firsts])
        self._codes = equal_rows(
            [*(column[self.firsts] for column in columns), names, self.valued.astype(np.int64)]
        )

    def signature(self, run: int) -> bytes:
        """Return what is equal for runs with the same events."""
        return self._codes[self.bounds[run] : self.bounds[run + 1]].tobytes()
