"""JSON: the whole trace, one object per event (``schema/events.schema.json``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harness.errors import FormatError
from harness.export.energy import energy_columns
from harness.export.table import (
    COLUMNS,
    EventRow,
    TableHeader,
    columns,
    count_columns,
    header,
    trace_of,
)
from harness.records.decode_json import decode_json
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

if TYPE_CHECKING:
    from harness.analyze.energy import MeasuredEnergy


class EventsDocument(msgspec.Struct, frozen=True):
    """A trace: the header, and the events in log order."""

    header: TableHeader
    events: list[EventRow]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the output of ``write_json``."""
    return msgspec.json.schema(EventsDocument)


def write_json(
    trace: Trace, identity: RunIdentity = NO_RUN, energy: MeasuredEnergy | None = None
) -> bytes:
    """Write the complete ``trace``, one event per line."""
    table, beside = columns(trace), header(trace, identity)
    cells = (table[name] for name in COLUMNS)
    given = zip(*cells, _counts(table, beside), _energy(energy, len(trace)), strict=True)
    rows = [EventRow(*row) for row in given]
    events = b",\n".join(map(msgspec.json.encode, rows))
    return b'{"header":' + msgspec.json.encode(beside) + b',"events":[\n' + events + b"\n]}\n"


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
