"""A trace as a table with one row per event in log order, and a header for the rest.

Header and columns together say all that a Trace says: ``trace_of(header(trace), columns(trace))``
is the trace again. Columns that only help a reader, such as ``block_name`` and ``ns``, are not
needed for that.

It is written as CSV, TSV or JSON (``schema/events.schema.json``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import durations, to_nanoseconds, unknown_durations
from harness.errors import FormatError
from harness.export.formats import Exported, ExportFormat, Request, delimited
from harness.extensions.exports.event_times import context_notes, energy_columns, place_columns
from harness.files import decode_json
from harness.formatting import counted, escaped, unescaped
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import (
    NO_CLOCK,
    NO_COUNT,
    NO_NAME,
    Block,
    ClockDomain,
    DebugValue,
    HardwareCounter,
    Kind,
    Losses,
    Stack,
    TensorValue,
    Trace,
)

if TYPE_CHECKING:
    from harness.records.energy import MeasuredEnergy


_PLAIN: Final = (
    *("tracer", "record", "chain", "instruction", "delegate_int", "start", "end"),
    *("allocator", "size", "offset", "failed", "level"),
)
"""Columns with the values of the Trace."""


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


class ValueDocument(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The value of a debug event; at most one of ``number``, ``tensor`` and ``tensors`` is set.

    Attributes:
        type: ETDump's ValueType.
        output: True for an output of the program, null if unknown.
        number: An integer, Boolean or floating-point number; inf and NaN as text, the 16
            hexadecimal digits of the float64.
        tensor: A tensor.
        tensors: A list of tensors.
    """

    type: int
    output: bool | None = None
    number: bool | int | float | str | None = None
    tensor: TensorValue | None = None
    tensors: tuple[TensorValue, ...] | None = None


def value_document(value: DebugValue) -> ValueDocument:
    """Return ``value`` as it stands in JSON."""
    match value.value:
        case TensorValue():
            return ValueDocument(value.type, value.output, tensor=value.value)
        case tuple():
            return ValueDocument(value.type, value.output, tensors=value.value)
        case float() if not math.isfinite(value.value):
            bits = struct.pack(">d", value.value).hex()
            return ValueDocument(value.type, value.output, number=bits)
    return ValueDocument(value.type, value.output, number=value.value)


def debug_value(document: ValueDocument) -> DebugValue:
    """Return the value that ``document`` describes.

    Raises:
        FormatError: Its number is text, but not 16 hexadecimal digits.
    """
    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    if document.tensor is not None:
        value = document.tensor
    elif document.tensors is not None:
        value = document.tensors
    elif isinstance(document.number, str):
        value = _from_bits(document.number)
    else:
        value = document.number
    return DebugValue(value, document.type, document.output)


def _from_bits(digits: str) -> float:
    try:
        value: float = struct.unpack(">d", bytes.fromhex(digits))[0]
    except (ValueError, struct.error):
        raise FormatError(
            f"invalid float64 {digits!r}: not 16 hexadecimal digits", field="number"
        ) from None
    return value


class TableHeader(msgspec.Struct, frozen=True):
    """The data of a trace except its events, and its run. Names are escaped.

    ``counters`` is absent if the run recorded none.
    """

    etdump_version: int
    blocks: tuple[Block, ...]
    clocks: tuple[ClockDocument, ...]
    losses: Losses
    filtered_events: int
    stacks: tuple[Stack, ...]
    full: tuple[int, ...] = ()
    incomplete: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
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
        kind: ``profile``, ``allocation``, ``debug``, ``task``, ``interrupt``, ``mark`` or
            ``sample``.
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
            event of unknown duration.
        ns: The same in nanoseconds, or null when the rate is unknown, too.
        metadata: Delegate metadata as hexadecimal digits, or null.
        allocator: Allocator id of an allocation, else -1.
        allocator_name: Its name, escaped, or null.
        size: Bytes allocated, negative for freed ones, 0 for other events.
        offset: Offset within the allocator, -1 unknown.
        failed: True for an allocation that failed.
        value: The value of a debug event, or null.
        level: Value of a sample; 1 where a task or an interrupt begins, else 0; null if the value
            is not finite.
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
    level: float | None = 0.0
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
        blocks=tuple(_renamed(block, escaped) for block in trace.blocks),
        clocks=tuple(
            ClockDocument(escaped(clock.name), *clock.rate, clock.bits, clock.down)
            for clock in trace.clocks
        ),
        losses=trace.losses,
        filtered_events=trace.filtered_events,
        stacks=trace.stacks,
        full=trace.full,
        incomplete=trace.incomplete or msgspec.UNSET,
        run=identity,
        counters=tuple(CounterDocument(escaped(item.name), item.bits) for item in trace.counters)
        or msgspec.UNSET,
    )


def columns(trace: Trace) -> dict[str, list[Any]]:
    """Return the columns of the table by name, in order, with one value per event.

    After COLUMNS each hardware counter has a column (``count_column``).
    """
    names = [*map(escaped, trace.names), None]  # the last entry is for NO_NAME (-1)
    blocks = block_numbers(trace)
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
        "level": [None if math.isnan(level) else level for level in trace.level.tolist()],
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
                Fraction(clock.hz_numerator, clock.hz_denominator) or None,
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
        incomplete=beside.incomplete or (),
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
    ticks = zip(durations(trace).tolist(), unknown_durations(trace).tolist(), strict=True)
    return [None if unknown else value for value, unknown in ticks]


def _nanoseconds(trace: Trace) -> list[float | None]:
    result: list[float | None] = [None] * len(trace)
    ticks, known = durations(trace), ~unknown_durations(trace)
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
    return [_renamed(block, unescaped) for block in beside.blocks]


def _renamed(block: Block, text: Callable[[str], str]) -> Block:
    return replace(block, name=text(block.name), allocators=tuple(map(text, block.allocators)))


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


def write_delimited(trace: Trace, request: Request, delimiter: str) -> Exported:
    """Return the file, with notes on data of the trace that it lacks.

    It has a header line and one line per event, UTF-8, fields quoted where they need it.

    An absent value is an empty field, a truth value ``true`` or ``false``, a debug event's value
    its JSON. Metadata begins with ``hex:``, because readers such as pandas take plain digits for a
    number. Behind the columns of the trace are the energy, if it was measured, the place in time
    and in the model, and the identity of the run, the same in every line.
    """
    table = columns(trace)
    digits = table["metadata"]
    table["metadata"] = [None if text is None else f"hex:{text}" for text in digits]
    texts = request.identity.texts().items()
    about = {name: [escaped(text)] * len(trace) for name, text in texts}
    energy = request.energy
    joules = energy_columns(energy.events) if energy is not None else {}
    places, notes = place_columns(trace, request.symbols)
    data = delimited({**table, **joules, **places, **about}, delimiter)
    return Exported(data, (*unsaid(trace), *notes))


def unsaid(trace: Trace) -> tuple[str, ...]:
    """Return a line for each kind of data of ``trace`` that its table lacks."""
    empty = sum(not block.count for block in trace.blocks)
    lost = ", ".join(f"{count} {what}" for what, count in asdict(trace.losses).items() if count)
    notes = {
        f"{counted(empty, 'block')} without events": empty > 0,
        f"what the target lost: {lost}": trace.losses.any,
        f"{counted(trace.filtered_events, 'event')} that the target left out": trace.filtered_events
        > 0,
        f"the stack use of {counted(len(trace.stacks), 'tracer')}": len(trace.stacks) > 0,
    }
    return (*(note for note, true in notes.items() if true), *context_notes(trace))


class EventsDocument(msgspec.Struct, frozen=True):
    """A trace: the header, and the events in log order."""

    header: TableHeader
    events: list[EventRow]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the output of ``write_json``."""
    return msgspec.json.schema(EventsDocument)


def write_json(trace: Trace, request: Request) -> Exported:
    """Write the complete ``trace``, one event per line."""
    table, beside = columns(trace), header(trace, request.identity)
    cells = (table[name] for name in COLUMNS)
    energy = _energy(request.energy, len(trace))
    rows = (EventRow(*row) for row in zip(*cells, _counts(table, beside), energy, strict=True))
    events = b",\n".join(map(msgspec.json.encode, rows))
    head = msgspec.json.encode(beside)
    return Exported(b'{"header":' + head + b',"events":[\n' + events + b"\n]}\n")


def _counts(
    table: Mapping[str, Sequence[Any]], beside: TableHeader
) -> list[dict[str, int]] | list[msgspec.UnsetType]:
    """Return the counts of each event by counter; unset if the trace has no counters."""
    named = count_columns(beside)
    if not named:
        return [msgspec.UNSET] * len(table["kind"])
    cells = zip(*(table[column] for column in named.values()), strict=True)
    return [
        {name: count for name, count in zip(named, row, strict=True) if count is not None}
        for row in cells
    ]


def _energy(
    energy: MeasuredEnergy | None, events: int
) -> list[dict[str, float]] | list[msgspec.UnsetType]:
    """Return the energy of each event, empty where it is unknown; unset without a meter."""
    if energy is None:
        return [msgspec.UNSET] * events
    found = energy_columns(energy.events)
    return [
        {name: value for name, value in zip(found, row, strict=True) if value is not None}
        for row in zip(*found.values(), strict=True)
    ]


def read_json(data: bytes) -> Trace:
    """Read the output of ``write_json``.

    Raises:
        FormatError: The data has another format or is inconsistent.
    """
    try:
        document = decode_json(data, type_=EventsDocument)
    except msgspec.DecodeError as error:
        raise FormatError(f"not a trace in JSON: {error}") from None
    events = document.events
    table = {name: [getattr(event, name) for event in events] for name in COLUMNS}
    for name, column in count_columns(document.header).items():
        table[column] = [
            None if event.counts is msgspec.UNSET else event.counts.get(name) for event in events
        ]
    return trace_of(document.header, table)


CSV: Final = ExportFormat(
    "A table, one row per event: spreadsheets, scripts.", partial(write_delimited, delimiter=",")
)
TSV: Final = ExportFormat("As csv, with tabs.", partial(write_delimited, delimiter="\t"))
JSON: Final = ExportFormat(
    "The whole trace, an object per event (schema/events.schema.json).", write_json
)
