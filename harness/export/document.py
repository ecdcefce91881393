"""JSON: the whole trace, one object per event (``schema/events.schema.json``)."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.errors import FormatError
from harness.export.table import COLUMNS, EventRow, TableHeader, columns, header, trace_of
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace


class EventsDocument(msgspec.Struct, frozen=True):
    """A trace: the header, and the events in log order."""

    header: TableHeader
    events: list[EventRow]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the output of ``write_json``."""
    return msgspec.json.schema(EventsDocument)


def write_json(trace: Trace, identity: RunIdentity = NO_RUN) -> bytes:
    """Write the complete ``trace``, one event per line."""
    table = columns(trace)
    rows = [EventRow(*row) for row in zip(*table.values(), strict=True)]
    beside = msgspec.json.encode(header(trace, identity))
    events = b",\n".join(map(msgspec.json.encode, rows))
    return b'{"header":' + beside + b',"events":[\n' + events + b"\n]}\n"


def read_json(data: bytes) -> Trace:
    """Read the output of ``write_json``.

    Raises:
        FormatError: The data has another format or is inconsistent.
    """
    try:
        document = msgspec.json.decode(data, type=EventsDocument)
    except msgspec.DecodeError as error:
        raise FormatError(f"not a trace in JSON: {error}") from None
    events = document.events
    table = {name: [getattr(event, name) for event in events] for name in COLUMNS}
    return trace_of(document.header, table)
