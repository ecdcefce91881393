"""Event blocks: their events are made from the columns of the trace when they are first read.

Runs with equal name, bundled input and set of events form a block, however often each event occurs.
Events with equal name, chain, instruction and delegate id are repeats of one event; events are in
the order of their instructions' first events. Everything is computed on whole columns, because a
Python object per event would take most of the time and memory of a large trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers, equal_rows
from harness.inspector.event import (
    Event,
    EventColumns,
    LoggedValues,
    MetadataParser,
    PerfData,
    ProgramOutput,
    Times,
    TimeScale,
    collection_paused,
    encodable,
    statistics,
    with_metadata,
)
from harness.inspector.symbols import SymbolTable
from harness.records.trace import EXECUTION, LOADING, NO_COUNT, Block, Kind, Trace

_Ints = npt.NDArray[np.int64]

RESERVED: Final = (*LOADING, EXECUTION)
"""Events of the framework, without an operator of the model."""

_BATCH: Final = 1 << 10
"""Events that are made at once when all are read."""


class EventViews:
    """Makes the event blocks of a trace, and their events."""

    def __init__(
        self,
        trace: Trace,
        times: Times,
        values: LoggedValues,
        parser: MetadataParser | None,
        symbols: Sequence[SymbolTable | None] | None,
    ) -> None:
        """Group the events.

        Args:
            trace: The trace.
            times: Times of its events.
            values: Inflates its values.
            parser: Parser for the metadata of delegates.
            symbols: The ETRecord's symbols of the method of each block; None without an ETRecord.
        """
        self.trace, self.times, self.symbols = trace, times, symbols
        self.groups = EventGroups(trace)
        self._values, self._parser = values, parser
        self._texts = [*trace.names, ""]  # the last is what NO_NAME (-1) finds
        self._inflated: dict[tuple[int, ...], ProgramOutput] = {}

    def blocks(self, source: TimeScale | Enum, target: TimeScale | Enum) -> list[EventBlock]:
        """Return the blocks in the order of their first runs."""
        return [
            EventBlock(
                name=group.block.name,
                events=BlockEvents(self, group),
                source_time_scale=source,
                target_time_scale=target,
                bundled_input_index=group.block.bundled_input_index,
                run_output=partial(self._output, group, 0),  # type: ignore[arg-type]
                runs=group.runs,
                run_outputs=partial(self._outputs, group),  # type: ignore[arg-type]
                _counts=self.counts if self.trace.counters else None,
            )
            for group in self.groups.groups
        ]

    def events(self, group: RunGroup, first: int, behind: int) -> list[Event]:
        """Return the events of a group by their numbers among all events."""
        trace = self.trace
        rows, bounds, firsts = self._part(first, behind)
        names, delegates = self._names(firsts, self._texts)
        columns = zip(
            range(first, behind),
            names,
            delegates,
            trace.chain[firsts].tolist(),
            trace.instruction[firsts].tolist(),
            _split(rows, bounds),
            _split(self.times.durations[rows], bounds),
            _split(trace.start[rows], bounds),
            self._described(rows, bounds).tolist(),
            strict=True,
        )
        found = []
        table = None if self.symbols is None else self.symbols[group.runs[0]]
        for number, name, delegate, chain, instruction, own, times, starts, described in columns:
            event = Event(
                name=name,
                perf_data=PerfData(times) if own else None,
                delegate_debug_identifier=delegate,
                is_delegated_op=delegate is not None,
                start_time=starts if own else None,
                chain_index=chain,
                rows=own,
                _instruction_id=instruction,
                _delegate_metadata_parser=self._parser,
                _scaled_starts=self._scaled_starts,
            )
            if described:
                event.raw_delegate_debug_metadatas = [trace.metadata_of(row) or b"" for row in own]
            if number in self._valued:
                self._add_values(event, self.groups.values(group, number))
            if table is not None:
                add_symbols(event, table)
            found.append(event)
        return found

    def columns(self, group: RunGroup) -> EventColumns:
        """Return the columns of a group's table, as if all its events were read."""
        trace, count = self.trace, group.count
        rows, bounds, firsts = self._part(group.first, group.first + count)
        durations = self.times.durations[rows]
        names, delegates = self._names(firsts, [*map(encodable, self._texts)])
        return EventColumns(
            {
                "event_name": names,
                "raw": [times or None for times in _split(durations, bounds)],
                "op_types": [[] for _ in range(count)],
                "delegate_debug_identifier": delegates,
                "stack_traces": [{} for _ in range(count)],
                "module_hierarchy": [{} for _ in range(count)],
                "is_delegated_op": [delegate is not None for delegate in delegates],
                "delegate_backend_name": [None] * count,
                "debug_data": [[] for _ in range(count)],
                "start_time": [starts or None for starts in _split(trace.start[rows], bounds)],
            },
            statistics(durations, bounds),
        )

    def counts(self, events: Iterable[_Ints]) -> dict[str, list[float | None]]:
        """Return the columns of hardware counters: the median count of each event's rows.

        None stands for events without a count.
        """
        counts = [self.trace.counts[rows] for rows in events]
        return {
            f"p50 ({encodable(counter.name)})": [
                float(np.median(known)) if len(known := rows[rows != NO_COUNT]) else None
                for rows in (one[:, number] for one in counts)
            ]
            for number, counter in enumerate(self.trace.counters)
        }

    def unlike_columns(self, group: RunGroup) -> Collection[int]:
        """Return the numbers of events of which ``columns`` lacks values or symbols."""
        numbers = range(group.first, group.first + group.count)
        return numbers if self.symbols is not None else self._valued.intersection(numbers)

    def with_metadata(self, group: RunGroup) -> _Ints:
        """Return the numbers of events that have metadata, or of which a parser makes some."""
        rows, bounds, firsts = self._part(group.first, group.first + group.count)
        described = self._described(rows, bounds)
        if self._parser is not None:
            described |= self.trace.delegated[firsts]
        return group.first + np.flatnonzero(described)

    def _part(self, first: int, behind: int) -> tuple[_Ints, _Ints, _Ints]:
        """Return the rows of some events, where those of each begin, and a row of each event."""
        bounds = self.groups.rows.starts[first : behind + 1]
        rows = self.groups.rows.items[bounds[0] : bounds[-1]]
        return rows, bounds - bounds[0], self.groups.firsts[first:behind]

    def _described(self, rows: _Ints, bounds: _Ints) -> npt.NDArray[np.bool_]:
        """Return True for events with metadata."""
        filled = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.trace.metadata[rows, 1] > 0, out=filled[1:])
        return np.asarray(filled[bounds[1:]] > filled[bounds[:-1]])

    @cached_property
    def _valued(self) -> frozenset[int]:
        return frozenset(self.groups.valued.tolist())

    def _names(self, rows: _Ints, texts: Sequence[str]) -> tuple[list[str], list[int | str | None]]:
        """Return names, by these texts of the trace, and delegate ids of events."""
        trace = self.trace
        names = [texts[index] for index in trace.name[rows].tolist()]
        delegates: list[int | str | None] = [None] * len(rows)
        for place in np.flatnonzero(trace.delegated[rows]).tolist():
            number = int(trace.delegate_int[rows[place]])
            text = trace.delegate_str[rows[place]]
            delegates[place] = number if number != -1 else self._texts[text] or None
            if delegates[place] is not None:
                names[place] = str(number) if number != -1 else texts[text]
        return names, delegates

    def _scaled_starts(self, rows: list[int]) -> list[int | float]:
        found: list[int | float] = self.times.starts[rows].tolist()
        return found

    def _add_values(self, event: Event, per_run: Sequence[_Ints]) -> None:
        event.debug_data_per_run = [self._inflate(rows) for rows in per_run]
        event.debug_data = next(filter(None, event.debug_data_per_run), [])
        # A value may have a name of its own.
        logged = next(int(rows[0]) for rows in per_run if len(rows))
        name = self._texts[self.trace.name[logged]]
        if event.delegate_debug_identifier is None and name:
            event.name = name

    def _output(self, group: RunGroup, run: int) -> ProgramOutput:
        return self._inflate(self.groups.outputs(group.runs[run]))

    def _outputs(self, group: RunGroup) -> list[ProgramOutput]:
        return [self._inflate(self.groups.outputs(run)) for run in group.runs]

    def _inflate(self, rows: _Ints) -> ProgramOutput:
        """Return logged values; events of one instruction share its values."""
        key, trace = tuple(rows.tolist()), self.trace
        if key not in self._inflated:
            numbers = trace.debug[rows]
            self._inflated[key] = [
                self._values.inflate(trace.debug_values[number])
                for number in numbers[numbers >= 0].tolist()
            ]
        return self._inflated[key]


def _split(values: npt.NDArray[Any], bounds: _Ints) -> list[list[Any]]:
    """Divide consecutive values into lists at ``bounds``."""
    if len(values) == len(bounds) - 1 and (np.diff(bounds) == 1).all():
        return [[value] for value in values.tolist()]
    return [values[first:behind].tolist() for first, behind in pairwise(bounds.tolist())]


def add_symbols(event: Event, table: SymbolTable) -> None:
    """Add the ETRecord's data to an event."""
    if event._instruction_id is None:
        return
    found = table.find(
        event.chain_index, event._instruction_id, event.name, event.delegate_debug_identifier
    )
    if found is None or event.name in RESERVED:
        return
    event.debug_handles = [*found.handles] if isinstance(found.handles, tuple) else found.handles
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


class BlockEvents(MutableSequence[Event]):
    """The events of a block. Each is made when it is first read, and stays the same object.

    It can be changed like a list; then all events are made.
    """

    def __init__(self, views: EventViews, group: RunGroup) -> None:
        """Take the events of ``group``."""
        self._views, self._group = views, group
        self._made: dict[int, Event] = {}
        self._list: list[Event] | None = None

    def __len__(self) -> int:
        return self._group.count if self._list is None else len(self._list)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if self._list is not None:
            return self._list[index]
        numbers = range(self._group.first, self._group.first + self._group.count)[index]
        return self._event(numbers) if isinstance(numbers, int) else [*map(self._event, numbers)]

    def __iter__(self) -> Iterator[Event]:
        position = 0
        while batch := self._batch(position):
            yield from batch
            position += len(batch)

    def _batch(self, position: int) -> list[Event]:
        """Return some events from a position on; none at the end."""
        if self._list is not None:
            return self._list[position : position + _BATCH]
        numbers = range(self._group.first, self._group.first + self._group.count)
        numbers = numbers[position : position + _BATCH]
        if not all(map(self._made.__contains__, numbers)):
            self._make(numbers)
        return [self._made[number] for number in numbers]

    def _event(self, number: int) -> Event:
        if number not in self._made:
            self._make(range(number, number + 1))
        return self._made[number]

    def _make(self, numbers: range) -> None:
        """Make those of some events that are not made yet."""
        events = self._views.events(self._group, numbers.start, numbers.stop)
        for number, event in zip(numbers, events, strict=True):
            self._made.setdefault(number, event)

    def _as_list(self) -> list[Event]:
        if self._list is None:
            self._list, self._made = [*self], {}
        return self._list

    def __setitem__(self, index: Any, value: Any) -> None:
        self._as_list()[index] = value

    def __delitem__(self, index: int | slice) -> None:
        del self._as_list()[index]

    def insert(self, index: int, value: Event) -> None:
        """Insert an event before ``index``."""
        self._as_list().insert(index, value)

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort the events in place."""
        self._as_list().sort(key=key, reverse=reverse)

    def __add__(self, other: Iterable[Event]) -> list[Event]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Event]) -> list[Event]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr([*self])

    def columns(self) -> EventColumns:
        """Return the columns of the events, with what a caller changed of those it read."""
        if self._list is not None:
            return EventColumns.of(self._list)
        needed = self._views.unlike_columns(self._group)
        if len(self) in (len(needed), len(self._made)):
            return EventColumns.of([*self])
        for number in needed:
            self._event(number)
        columns = self._views.columns(self._group)
        columns.put([number - self._group.first for number in self._made], [*self._made.values()])
        return columns

    def rows(self) -> list[_Ints]:
        """Return the rows of each event in the trace."""
        if self._list is not None:
            return [np.array(event.rows, np.int64) for event in self._list]
        numbers = range(self._group.first, self._group.first + self._group.count)
        return [self._views.groups.rows[number] for number in numbers]

    def with_metadata(self) -> Iterator[tuple[int, Event]]:
        """Yield index and event of those that may have metadata of a delegate."""
        if self._list is not None:
            yield from enumerate(self._list)
            return
        first = self._group.first
        numbers = {*self._views.with_metadata(self._group).tolist(), *self._made}
        yield from ((number - first, self._event(number)) for number in sorted(numbers))


class _OnFirstUse:
    """A field whose value may be given as a function; it is called when the field is first read."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, block: EventBlock | None, _owner: type) -> Any:
        if block is None:
            return None  # the field's default
        found = block.__dict__[self._name]
        if callable(found):
            found = block.__dict__[self._name] = found()
        return found

    def __set__(self, block: EventBlock, value: Any) -> None:
        block.__dict__[self._name] = value


@dataclass
class EventBlock:
    """Runs with one name and the same events.

    The attributes up to ``reference_output`` are those of ExecuTorch's class.

    Attributes:
        name: Such as ``Execute``.
        events: In the order of the first run, each instruction's together. Those of an Inspector
            are made when they are first read.
        source_time_scale: What the file's ticks were taken for.
        target_time_scale: The unit of all times.
        bundled_input_index: The bundled input that ran, -1 for none.
        run_output: What the program returned in the first run.
        reference_output: The reference outputs of the bundled input; None if the ETRecord has none.
            Reading those of a file raises UsageError without PyTorch.
        runs: Numbers of the runs, among all blocks of the trace.
        run_outputs: What the program returned, run by run.
    """

    name: str
    events: Sequence[Event] = field(default_factory=list)
    source_time_scale: TimeScale | Enum = TimeScale.NS
    target_time_scale: TimeScale | Enum = TimeScale.MS
    bundled_input_index: int | None = None
    run_output: ProgramOutput | None = _OnFirstUse()  # type: ignore[assignment]
    reference_output: ProgramOutput | None = _OnFirstUse()  # type: ignore[assignment]
    runs: list[int] = field(default_factory=list, compare=False)
    run_outputs: list[ProgramOutput] | None = _OnFirstUse()  # type: ignore[assignment]
    _counts: Callable[[Iterable[_Ints]], dict[str, list[float | None]]] | None = field(
        default=None, compare=False, repr=False
    )

    def to_dataframe(
        self, include_units: bool = False, include_delegate_debug_data: bool = False
    ) -> Any:
        """Return a pandas DataFrame with a row per event."""
        with collection_paused():
            return self._table(include_units, include_delegate_debug_data)

    def _table(self, include_units: bool, include_delegate_debug_data: bool) -> Any:
        units = f" ({self.target_time_scale.value})" if include_units else ""
        events = self.events
        lazy = events if isinstance(events, BlockEvents) else None
        columns = EventColumns.of(events) if lazy is None else lazy.columns()
        frame = columns.frame(units, self.name)
        if self._counts is not None and lazy is not None:
            for name, column in self._counts(lazy.rows()).items():
                frame[name] = column
        if not include_delegate_debug_data:
            return frame
        found = {number: event.delegate_debug_metadatas for number, event in self._described()}
        return with_metadata(frame, [found.get(number, []) for number in range(len(events))])

    def events_with_metadata(self) -> list[Event]:
        """Return the events that may have metadata of a delegate."""
        return [event for _, event in self._described()]

    def _described(self) -> Iterable[tuple[int, Event]]:
        events = self.events
        return events.with_metadata() if isinstance(events, BlockEvents) else enumerate(events)


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
        kinds = np.flatnonzero((trace.kind != Kind.ALLOCATION) & (trace.kind < Kind.TASK))
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
