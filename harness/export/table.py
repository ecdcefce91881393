"""A trace as a table with one row per event in log order, and a header for the rest.

Header and columns together say all that a Trace says: ``trace_of(header(trace), columns(trace))``
is the trace again. Columns that only help a reader (``DERIVED``) are not needed for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np

from harness.analyze.ticks import durations, ends_before_start, to_nanoseconds
from harness.errors import FormatError
from harness.export.values import ValueDocument, debug_value, escaped, unescaped, value_document
from harness.records.clock_domain import ClockDomain
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import (
    NO_CLOCK,
    NO_COUNT,
    NO_NAME,
    Block,
    HardwareCounter,
    Kind,
    Losses,
    Stack,
    Trace,
)

_PLAIN: Final = (
    *("tracer", "record", "chain", "instruction", "delegate_int", "start", "end"),
    *("allocator", "size", "offset", "failed"),
)
"""Columns with the values of the Trace."""

DERIVED: Final = (
    "block_name",
    "bundled_input_index",
    "clock_name",
    "ticks",
    "ns",
    "allocator_name",
)
"""Columns derived from the others and the header."""


class BlockDocument(msgspec.Struct, frozen=True):
    """An event block: the events from ``first`` on, ``count`` of them."""

    name: str
    first: int
    count: int
    bundled_input_index: int
    allocators: tuple[str, ...]


class ClockDocument(msgspec.Struct, frozen=True):
    """A clock domain; ``hz_numerator`` is 0 if the rate is unknown."""

    name: str
    hz_numerator: int
    hz_denominator: int
    bits: int
    down: bool


class CounterDocument(msgspec.Struct, frozen=True):
    """A hardware counter, and its width in bits."""

    name: str
    bits: int


class TableHeader(msgspec.Struct, frozen=True):
    """The data of a trace except its events, and its run. Names are escaped.

    ``counters`` is absent if the run recorded none.
    """

    etdump_version: int
    blocks: tuple[BlockDocument, ...]
    clocks: tuple[ClockDocument, ...]
    losses: Losses
    filtered_events: int
    stacks: tuple[Stack, ...]
    full: tuple[int, ...] = ()
    run: RunIdentity = NO_RUN
    counters: tuple[CounterDocument, ...] | msgspec.UnsetType = msgspec.UNSET


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """One event: the columns of the table, in their order.

    Attributes:
        block: Number of its block, from 0.
        block_name: Name of that block.
        bundled_input_index: Of that block, -1 for none.
        tracer: Number of the tracer that logged it.
        record: Its place in the log of that tracer.
        kind: ``profile``, ``allocation`` or ``debug``.
        name: Its name, escaped, or null.
        chain: Chain index, -1 unset.
        instruction: Instruction id, -1 unset.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id, escaped, or null.
        clock: Number of its clock domain, or null for an event without a time.
        clock_name: Name of that domain.
        start: Raw start tick.
        end: Raw end tick.
        ticks: Ticks from start to end, whatever the counter's width and direction, or null for an
            event that ends before it starts on a counter that does not wrap.
        ns: The same in nanoseconds, or null when the rate is unknown, too.
        metadata: Delegate metadata as hexadecimal digits, or null.
        allocator: Allocator id of an allocation, else -1.
        allocator_name: Its name, escaped, or null.
        size: Bytes allocated, negative for freed ones, 0 for other events.
        offset: Offset within the allocator, -1 unknown.
        failed: True for an allocation that failed.
        value: The value of a debug event, or null.
        counts: What each hardware counter counted, by its escaped name, without those that recorded
            nothing of this event; absent if the run recorded none. In tables of columns each
            counter has a column instead (``count_column``).
        energy: Its ``joules``, their largest error ``joules_bound``, ``average_amperes`` and
            ``peak_amperes``; empty if unknown, absent if no meter recorded the run. In tables of
            columns each is a column instead.
    """

    block: int
    block_name: str
    bundled_input_index: int
    tracer: int
    record: int
    kind: str
    name: str | None
    chain: int
    instruction: int
    delegate_int: int
    delegate_str: str | None
    clock: int | None
    clock_name: str | None
    start: int
    end: int
    ticks: int | None
    ns: float | None
    metadata: str | None
    allocator: int
    allocator_name: str | None
    size: int
    offset: int
    failed: bool
    value: ValueDocument | None
    counts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    energy: dict[str, float] | msgspec.UnsetType = msgspec.UNSET


COLUMNS: Final = EventRow.__struct_fields__[:-2]
"""Names of the columns of every trace, in order."""


def count_column(name: str) -> str:
    """Return the column of a hardware counter's counts, from its escaped name."""
    return f"count_{name}"


def count_columns(beside: TableHeader) -> dict[str, str]:
    """Return the columns of the hardware counters by their escaped names; they follow COLUMNS."""
    return {item.name: count_column(item.name) for item in _counters(beside)}


def _counters(beside: TableHeader) -> tuple[CounterDocument, ...]:
    return () if beside.counters is msgspec.UNSET else beside.counters


def header(trace: Trace, identity: RunIdentity = NO_RUN) -> TableHeader:
    """Return the data of ``trace`` except its events, and the run that it is of."""
    return TableHeader(
        etdump_version=trace.version,
        blocks=tuple(
            BlockDocument(
                escaped(block.name),
                block.first,
                block.count,
                block.bundled_input_index,
                tuple(map(escaped, block.allocators)),
            )
            for block in trace.blocks
        ),
        clocks=tuple(
            ClockDocument(
                escaped(clock.name),
                clock.hz.numerator if clock.hz else 0,
                clock.hz.denominator if clock.hz else 1,
                clock.bits,
                clock.down,
            )
            for clock in trace.clocks
        ),
        losses=trace.losses,
        filtered_events=trace.filtered_events,
        stacks=trace.stacks,
        full=trace.full,
        run=identity,
        counters=tuple(CounterDocument(escaped(item.name), item.bits) for item in trace.counters)
        or msgspec.UNSET,
    )


def columns(trace: Trace) -> dict[str, list[Any]]:
    """Return the columns of the table by name, in order, with one value per event.

    After COLUMNS each hardware counter has a column (``count_column``).
    """
    names = [*map(escaped, trace.names), None]  # the last entry is for NO_NAME (-1)
    blocks = np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])
    clock_names = [escaped(clock.name) for clock in trace.clocks]
    clocks = [None if clock == NO_CLOCK else clock for clock in trace.clock.tolist()]
    values = [*map(value_document, trace.debug_values), None]
    found = {name: getattr(trace, name).tolist() for name in _PLAIN} | {
        "block": blocks.tolist(),
        "block_name": [escaped(trace.blocks[number].name) for number in blocks.tolist()],
        "bundled_input_index": [
            trace.blocks[number].bundled_input_index for number in blocks.tolist()
        ],
        "kind": [Kind(kind).name.lower() for kind in trace.kind.tolist()],
        "name": [names[index] for index in trace.name.tolist()],
        "delegate_str": [names[index] for index in trace.delegate_str.tolist()],
        "clock": clocks,
        "clock_name": [None if clock is None else clock_names[clock] for clock in clocks],
        "ticks": _ticks(trace),
        "ns": _nanoseconds(trace),
        "metadata": _metadata(trace),
        "allocator_name": _allocator_names(trace, blocks.tolist()),
        "value": [values[index] for index in trace.debug.tolist()],
    }
    return {name: found[name] for name in COLUMNS} | {
        count_column(escaped(counter.name)): [
            None if count == NO_COUNT else count for count in trace.counts[:, number].tolist()
        ]
        for number, counter in enumerate(trace.counters)
    }


def trace_of(beside: TableHeader, table: Mapping[str, Sequence[Any]]) -> Trace:
    """Return the trace for a header and columns; derived columns are ignored.

    Raises:
        FormatError: A row refers to a block or clock that the header does not have, blocks do not
            cover the rows, or a cell is not what its column holds.
    """
    count = len(table["kind"])
    names: dict[str, int] = {}
    metadata, spans = _packed(table["metadata"])
    values, debug = _distinct(table["value"])
    trace = Trace.unset(
        count,
        blocks=_blocks(beside, table["block"]),
        clocks=[
            ClockDomain(
                unescaped(clock.name),
                Fraction(clock.hz_numerator, clock.hz_denominator) if clock.hz_numerator else None,
                clock.bits,
                clock.down,
            )
            for clock in beside.clocks
        ],
        counters=[HardwareCounter(unescaped(item.name), item.bits) for item in _counters(beside)],
        metadata_bytes=metadata,
        debug_values=[debug_value(value) for value in values],
        version=beside.etdump_version,
        losses=beside.losses,
        filtered_events=beside.filtered_events,
        stacks=beside.stacks,
        full=beside.full,
    )
    try:
        for column in _PLAIN:
            getattr(trace, column)[:] = table[column]
        for number, column in enumerate(count_columns(beside).values()):
            trace.counts[:, number] = [
                NO_COUNT if count is None else count for count in table[column]
            ]
        trace.kind[:] = [Kind[kind.upper()] for kind in table["kind"]]
        for column in ("name", "delegate_str"):
            getattr(trace, column)[:] = [
                NO_NAME if text is None else names.setdefault(unescaped(text), len(names))
                for text in table[column]
            ]
        trace.clock[:] = [NO_CLOCK if clock is None else clock for clock in table["clock"]]
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise FormatError(f"invalid cell: {error}", field="events") from None
    if ((trace.clock != NO_CLOCK) & (trace.clock >= len(trace.clocks))).any():
        raise FormatError("unknown clock of an event: not in the header", field="clock")
    trace.metadata[:] = spans
    trace.debug[:] = debug
    return replace(trace, names=tuple(names)).sealed()


def _ticks(trace: Trace) -> list[int | None]:
    ticks = zip(durations(trace).tolist(), ends_before_start(trace).tolist(), strict=True)
    return [None if unknown else value for value, unknown in ticks]


def _nanoseconds(trace: Trace) -> list[float | None]:
    result: list[float | None] = [None] * len(trace)
    ticks, known = durations(trace), ~ends_before_start(trace)
    for number, clock in enumerate(trace.clocks):
        if clock.hz is None:
            continue
        rows = np.flatnonzero((trace.clock == number) & known)
        for row, value in zip(
            rows.tolist(), to_nanoseconds(ticks[rows], clock).tolist(), strict=True
        ):
            result[row] = value
    return result


def _metadata(trace: Trace) -> list[str | None]:
    result: list[str | None] = [None] * len(trace)
    for row in np.flatnonzero(trace.metadata[:, 1] >= 0).tolist():
        result[row] = (trace.metadata_of(row) or b"").hex()
    return result


def _allocator_names(trace: Trace, blocks: Sequence[int]) -> list[str | None]:
    result: list[str | None] = [None] * len(trace)
    for row in np.flatnonzero(trace.kind == Kind.ALLOCATION).tolist():
        allocators, number = trace.blocks[blocks[row]].allocators, int(trace.allocator[row])
        if 0 < number <= len(allocators):
            result[row] = escaped(allocators[number - 1])
    return result


def _blocks(beside: TableHeader, numbers: Sequence[int]) -> list[Block]:
    first = 0
    for number, block in enumerate(beside.blocks):
        rows = numbers[first : first + block.count]
        if block.first != first or len(rows) != block.count or any(row != number for row in rows):
            raise FormatError(f"block {number}: the rows do not match its range", field="blocks")
        first += block.count
    if first != len(numbers):
        raise FormatError(f"events from {first} on are outside all blocks", field="blocks")
    return [
        Block(
            unescaped(block.name),
            block.first,
            block.count,
            block.bundled_input_index,
            tuple(map(unescaped, block.allocators)),
        )
        for block in beside.blocks
    ]


def _packed(metadata: Iterable[str | None]) -> tuple[bytes, np.ndarray]:
    """Join metadata; return it with offset and length per row, length -1 without metadata."""
    places: dict[str, tuple[int, int]] = {}
    packed = bytearray()
    spans = []
    for digits in metadata:
        if digits is None:
            spans.append((0, -1))
            continue
        if digits not in places:
            try:
                data = bytes.fromhex(digits)
            except ValueError:
                raise FormatError(f"{digits!r} is not hexadecimal", field="metadata") from None
            places[digits] = len(packed), len(data)
            packed += data
        spans.append(places[digits])
    return bytes(packed), np.array(spans, np.int64).reshape(len(spans), 2)


def _distinct(values: Iterable[ValueDocument | None]) -> tuple[list[ValueDocument], list[int]]:
    """Return the values that are set, and the index of each row into them, or -1."""
    kept: list[ValueDocument] = []
    numbers = []
    for value in values:
        numbers.append(-1 if value is None else len(kept))
        if value is not None:
            kept.append(value)
    return kept, numbers
