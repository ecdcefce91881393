"""Parquet: the complete trace as typed columns, for pandas, DuckDB and similar tools."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.errors import FormatError
from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.event_times import energy_columns, place_columns
from harness.extensions.exports.events import (
    COLUMNS,
    TableHeader,
    ValueDocument,
    columns,
    count_columns,
    header,
    trace_of,
)
from harness.files import decode_json
from harness.plugins import require
from harness.records.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER: Final = b"etdump_harness.header"
"""Key of the header's JSON in the file's metadata."""

_PANDAS: Final = b"PANDAS_ATTRS"
"""Key from which pandas reads ``DataFrame.attrs``."""

_TYPES: Final = {
    "tracer": "uint16",
    "start": "uint64",
    "end": "uint64",
    "ticks": "uint64",
    "ns": "float64",
    "level": "float64",
    "failed": "bool",
    "clock": "uint8",
    "block": "int32",
    "bundled_input_index": "int32",
}
_TEXTS: Final = (
    *("block_name", "kind", "name", "delegate_str", "clock_name", "allocator_name"),
    *("module", "module_type"),
)


def write_parquet(trace: Trace, request: Request) -> Exported:
    """Return the file with the complete ``trace``, with a note if it has no common timeline.

    Repeated texts are dictionary-encoded; values are JSON. The identity of its run is in the
    header, and in ``DataFrame.attrs`` of pandas.

    Raises:
        UsageError: pyarrow is not installed.
    """
    pa, parquet = require("export", "this format", "pyarrow", "pyarrow.parquet")
    cells = columns(trace)
    cells["value"] = [
        None if value is None else msgspec.json.encode(value).decode() for value in cells["value"]
    ]
    arrays = {name: pa.array(column, _type(pa, name)) for name, column in cells.items()}
    if request.energy is not None:
        joules = energy_columns(request.energy.events).items()
        arrays |= {name: pa.array(column, pa.float64()) for name, column in joules}
    places, notes = place_columns(trace, request.symbols)
    arrays |= {name: pa.array(column, _type(pa, name)) for name, column in places.items()}
    table = pa.table(
        arrays,
        metadata={
            _HEADER: msgspec.json.encode(header(trace, request.identity)),
            _PANDAS: msgspec.json.encode(request.identity.texts()),
        },
    )
    out = io.BytesIO()
    parquet.write_table(table, out, compression="zstd")
    return Exported(out.getvalue(), notes)


def read_parquet(data: bytes) -> Trace:
    """Read the output of ``write_parquet``.

    Raises:
        FormatError: The data is not a Parquet file, or not a trace.
        UsageError: pyarrow is not installed.
    """
    pa, parquet = require("export", "this format", "pyarrow", "pyarrow.parquet")
    try:
        table = parquet.read_table(io.BytesIO(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"not a Parquet file: {error}") from None
    if "level" not in table.column_names:  # a file of an older version
        table = table.append_column("level", pa.array([0.0] * len(table)))
    beside = (table.schema.metadata or {}).get(_HEADER)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if beside is None or missing:
        raise FormatError(f"not a trace: the Parquet file lacks {missing or 'the header'}")
    cells: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in COLUMNS}
    try:
        parsed = decode_json(beside, type_=TableHeader)
        for name in count_columns(parsed).values():
            cells[name] = table.column(name).to_pylist()
        cells["value"] = [
            None if text is None else decode_json(text, type_=ValueDocument)
            for text in cells["value"]
        ]
    except (msgspec.DecodeError, KeyError) as error:
        raise FormatError(f"not a trace: invalid Parquet content: {error}") from None
    return trace_of(parsed, cells)


def _type(pa: Any, name: str) -> pa.DataType:
    if name in _TEXTS:
        return pa.dictionary(pa.int32(), pa.string())
    if name in ("metadata", "value"):
        return pa.string()
    return getattr(pa, _TYPES.get(name, "int64").replace("bool", "bool_"))()


PARQUET: Final = ExportFormat("The whole trace as typed columns: pandas, DuckDB.", write_parquet)
