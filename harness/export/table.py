"""Tables of any columns as files: CSV, TSV, JSON and Parquet, written piece by piece."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from harness.errors import UsageError, write_error
from harness.files import replace_file
from harness.plugins import require

Piece = Mapping[str, Sequence[Any]]
"""Some rows: all columns by name, in order, each with one value per row."""

SUFFIXES: Final = (".csv", ".tsv", ".json", ".parquet")


def delimited(table: Mapping[str, Sequence[Any]], delimiter: str, *, header: bool = True) -> bytes:
    """Write columns as CSV or TSV, with or without a header line.

    An absent value is an empty field, a truth value ``true`` or ``false``, a record its JSON. Texts
    must be `escaped`: Python writes a carriage return without quotes. A text that a spreadsheet
    would execute as a formula, or that begins with an apostrophe, gets an apostrophe before it,
    which spreadsheets take as the sign of a text.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().encode()


_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""Beginnings of a text that gets an apostrophe; the last but one are East Asian wide signs."""


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return value


def write_pieces(file: Path, pieces: Iterable[Piece], types: Mapping[str, str]) -> int:
    """Write a table atomically; an existing file is replaced.

    Args:
        file: Output file; the suffix selects the format.
        pieces: The rows, all with the same columns.
        types: Arrow's type name of every column.

    Returns:
        The number of rows.

    Raises:
        UsageError: The suffix is not in ``SUFFIXES``, the file cannot be written, or a package is
            not installed.
    """
    check_suffix(file)
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("wb") as out:
            match file.suffix.lower():
                case ".parquet":
                    rows = _parquet(out, pieces, types)
                case ".json":
                    rows = _json(out, pieces)
                case suffix:
                    rows = _delimited(out, pieces, types, "," if suffix == ".csv" else "\t")
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


def _delimited(
    out: BinaryIO, pieces: Iterable[Piece], types: Mapping[str, str], delimiter: str
) -> int:
    out.write(delimited(dict.fromkeys(types, ()), delimiter))
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


def _parquet(out: BinaryIO, pieces: Iterable[Piece], types: Mapping[str, str]) -> int:
    pa, parquet = require("export", "this format", "pyarrow", "pyarrow.parquet")
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {name: text if kind == "text" else getattr(pa, kind)() for name, kind in types.items()}
    rows = 0
    with parquet.ParquetWriter(out, pa.schema(kinds.items()), compression="zstd") as writer:
        for piece in pieces:
            arrays = [pa.array(piece[name], kind) for name, kind in kinds.items()]
            writer.write_table(pa.table(arrays, schema=writer.schema))
            rows += _length(piece)
    return rows


def _length(piece: Piece) -> int:
    return len(next(iter(piece.values()), ()))
