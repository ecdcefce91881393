"""The history as a table: a row per operator or value of a result, in CSV, TSV, JSON or Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from sqlalchemy import Connection, Row, select

from harness.analyze.statistics import Summary
from harness.check.history.samples import Metric, StoredResult
from harness.errors import UsageError, write_error
from harness.export.formats import delimited
from harness.files import replace_file
from harness.formatting import escaped
from harness.history.entries import Selection
from harness.history.results import entries, select_rows
from harness.history.store import Store
from harness.history.tables import BITS, NUMBER, PROVENANCE_NAMES, TIME, batches, known_metrics
from harness.plugins import require
from harness.records.measurement import FIRMWARE, MeasurementSettings

_RESULTS: Final = 50
"""Results per piece."""

_SUMMARY: Final = Summary.__struct_fields__

EXPORT_TYPES: Final = {
    "result": "string",
    "started_utc": "text",
    **dict.fromkeys(PROVENANCE_NAMES, "text"),
    **{
        f"settings_{name}": {bool: "bool_", int: "int64"}.get(type(usual), "text")
        for name, usual in msgspec.structs.asdict(MeasurementSettings()).items()
    },
    "emulated_time": "bool_",
    "exit_code": "int16",
    "passed": "bool_",
    "sound": "bool_",
    **dict.fromkeys(("kind", "name", "block"), "text"),
    **dict.fromkeys(("chain", "instruction", "delegate_int"), "int64"),
    **dict.fromkeys(("delegate_str", "clock", "measured_in", "executions"), "text"),
    "statistic": "text",
    "value": "float64",
    **{name: "int64" if name == "count" else "float64" for name in _SUMMARY},
}
"""Columns of the table with their Arrow types; ``text`` is a dictionary-encoded string.

Settings are null if they were not recorded; runtime and build also for firmware built elsewhere.
An operator has a row for all executions, one for the cold and one for the warm ones, with all
statistics in ``measured_in``. Any other metric has one row, with a ``statistic`` and its ``value``.
"""


def export_history(store: Store, file: Path, selection: Selection) -> int:
    """Write all numbers of the selected results as a table (``docs/history.md``).

    Args:
        store: The history.
        file: The file to write: .csv, .tsv, .json or .parquet. An existing file is replaced.
        selection: The results to export.

    Returns:
        The number of rows.

    Raises:
        UsageError: The file cannot be written, its suffix is unknown, or a package is not
            installed.
    """
    return store.database.read(
        lambda connection: _write_pieces(file, _pieces(connection, selection))
    )


def _pieces(connection: Connection, selection: Selection) -> Iterator[Piece]:
    """Yield the rows of the selected results, oldest first, in pieces of 50 results."""
    rows = select_rows(connection, selection)
    for start in range(0, len(rows), _RESULTS):
        some = rows[start : start + _RESULTS]
        cells = [*_cells(connection, some)]
        columns = zip(*cells, strict=True) if cells else ([] for _ in EXPORT_TYPES)
        yield dict(zip(EXPORT_TYPES, map(list, columns), strict=True))


def _cells(connection: Connection, rows: Sequence[Row[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of every row, in the order of ``EXPORT_TYPES``."""
    about = {
        row.id: _result_cells(entry)
        for row, entry in zip(rows, entries(connection, rows), strict=True)
    }
    times, numbers, metrics = _measured_rows(connection, about)
    for row in times:
        measured = _metric_cells(metrics[row.metric_id])
        summary = tuple(row._mapping[name] for name in _SUMMARY)
        for executions, bit in BITS.items():
            if row.executions & bit:
                yield (*about[row.result_id], *measured, executions, None, None, *summary)
    for row in numbers:
        metric = metrics[row.metric_id]
        nothing = (None,) * len(_SUMMARY)
        value = (None, metric.statistic, row.value)
        yield (*about[row.result_id], *_metric_cells(metric), *value, *nothing)


def _result_cells(entry: StoredResult) -> tuple[Any, ...]:
    provenance = entry.provenance
    names = (getattr(provenance, name) for name in PROVENANCE_NAMES)
    texts = (provenance.id, provenance.started_utc, *names)
    about = (*map(escaped, texts), *_settings_cells(provenance.settings))
    return (*about, provenance.emulated_time, entry.exit_code, entry.passed, entry.sound)


def _settings_cells(settings: MeasurementSettings | None) -> Iterator[Any]:
    for name in MeasurementSettings.__struct_fields__:
        value = None if settings is None else getattr(settings, name)
        unknown = value == "" and name in FIRMWARE
        yield None if unknown else escaped(value) if isinstance(value, str) else value


def _metric_cells(metric: Metric) -> tuple[Any, ...]:
    delegate = metric.delegate_str
    return (
        *(metric.kind, escaped(metric.name), escaped(metric.block)),
        *(metric.chain, metric.instruction, metric.delegate_int),
        *(None if delegate is None else escaped(delegate), escaped(metric.clock), metric.unit),
    )


Piece = Mapping[str, Sequence[Any]]
"""Some rows: all columns by name, in order, each with one value per row."""

SUFFIXES: Final = (".csv", ".tsv", ".json", ".parquet")


def _write_pieces(file: Path, pieces: Iterable[Piece]) -> int:
    """Write a table atomically; return the number of rows."""
    check_suffix(file)
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("wb") as out:
            match file.suffix.lower():
                case ".parquet":
                    rows = _parquet(out, pieces)
                case ".json":
                    rows = _json(out, pieces)
                case suffix:
                    rows = _delimited(out, pieces, "," if suffix == ".csv" else "\t")
        replace_file(partial, file)
    except OSError as error:
        raise write_error(error, f"cannot write {file}") from error
    finally:
        partial.unlink(missing_ok=True)
    return rows


def check_suffix(file: Path) -> None:
    """Check that the suffix of a file selects a format.

    Raises:
        UsageError: The suffix is not in ``SUFFIXES``.
    """
    if file.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{file}: unsupported table suffix {file.suffix!r}",
            hint=f"use one of {', '.join(SUFFIXES)}",
        )


def _delimited(out: BinaryIO, pieces: Iterable[Piece], delimiter: str) -> int:
    out.write(delimited(dict.fromkeys(EXPORT_TYPES, ()), delimiter))
    rows = 0
    for piece in pieces:
        out.write(delimited(piece, delimiter, header=False))
        rows += _length(piece)
    return rows


def _json(out: BinaryIO, pieces: Iterable[Piece]) -> int:
    rows = 0
    out.write(b"[")
    for row in _objects(pieces):
        out.write((b",\n" if rows else b"\n") + msgspec.json.encode(row))
        rows += 1
    out.write(b"\n]\n")
    return rows


def _objects(pieces: Iterable[Piece]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        for cells in zip(*piece.values(), strict=True):
            yield dict(zip(piece, cells, strict=True))


def _parquet(out: BinaryIO, pieces: Iterable[Piece]) -> int:
    pa, parquet = require("export", "this format", "pyarrow", "pyarrow.parquet")
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {
        name: text if kind == "text" else getattr(pa, kind)() for name, kind in EXPORT_TYPES.items()
    }
    rows = 0
    with parquet.ParquetWriter(out, pa.schema(kinds.items()), compression="zstd") as writer:
        for piece in pieces:
            arrays = [pa.array(piece[name], kind) for name, kind in kinds.items()]
            writer.write_table(pa.table(arrays, schema=writer.schema))
            rows += _length(piece)
    return rows


def _length(piece: Piece) -> int:
    return len(next(iter(piece.values()), ()))


def _measured_rows(
    connection: Connection, results: Collection[int]
) -> tuple[list[Row[Any]], list[Row[Any]], dict[int, Metric]]:
    """Return operator times, other numbers, and their metrics by number.

    Args:
        connection: The store.
        results: Row numbers of results.
    """
    times, numbers = (
        [
            row
            for some in batches(results)
            for row in connection.execute(
                select(table)
                .where(table.c.result_id.in_(some))
                .order_by(table.c.result_id, table.c.metric_id)
            )
        ]
        for table in (TIME, NUMBER)
    )
    used = {row.metric_id for row in (*times, *numbers)}
    return times, numbers, known_metrics(connection, used)
