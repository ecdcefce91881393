"""Reads a ``.ptd`` file, ExecuTorch's FlatTensor: tensors and other data by name.

Format: ``extension/flat_tensor/serialize/flat_tensor.fbs`` of ExecuTorch 1.5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np

from harness.decode.flatbuffer import FlatBuffer, Layout, Tables, Vector, verified_root
from harness.decode.pte_schema import DataSegment
from harness.errors import FormatError, UsageError
from harness.files import MOST_MODEL, display_path, read_limited

IDENTIFIER: Final = b"FT01"
_HEADER_MAGIC: Final = b"FH01"
_HEADER: Final = struct.Struct("<4sIQQQQ")
_HEADER_AT: Final = 8
_VERSION: Final = 0
"""Newest version of the schema that is known."""

_EXPORT: Final = (
    "export the model again, and give the .ptd file that `write_tensor_data_to_file` writes with it"
)

TensorLayout = IntEnum("TensorLayout", "SCALAR_TYPE SIZES DIM_ORDER", start=0)
NamedEntry = IntEnum("NamedEntry", "KEY SEGMENT_INDEX LAYOUT", start=0)
FlatTensor = IntEnum("FlatTensor", "VERSION SEGMENTS NAMED", start=0)

_LAYOUT: Final[Layout] = {
    FlatTensor: ("<u4", Vector(DataSegment), Vector(NamedEntry)),
    DataSegment: ("<u8", "<u8"),
    NamedEntry: (str, "<u4", TensorLayout),
    TensorLayout: ("i1", Vector("<i4"), Vector("u1")),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Data of a ``.ptd`` file under one name.

    Attributes:
        place: The file, and its segment there, which entries of equal data share.
        data: Its bytes.
        layout: Scalar type, sizes and dim order; None for data that is no tensor, such as that of
            a delegate.
    """

    place: tuple[str, int]
    data: bytes
    layout: tuple[int, tuple[int, ...], tuple[int, ...]] | None


def read_data_files(files: Iterable[Path]) -> Mapping[str, StoredTensor]:
    """Read all data of several files, by name.

    Raises:
        UsageError: A file cannot be read, or a name is in two files.
        FormatError: A file is of another kind, truncated or damaged; names it.
    """
    entries: dict[str, StoredTensor] = {}
    for path in files:
        name = display_path(path)
        try:
            data = read_limited(path, MOST_MODEL)
        except OSError as error:
            raise UsageError(
                f"cannot read the external data {name}: {error.strerror}",
                hint="give the .ptd file that was exported with the model",
            ) from error
        try:
            found = read_data_file(data, name)
        except FormatError as error:
            known = data[4:8] == IDENTIFIER
            what = f"is not a complete .ptd file: {error.message}" if known else error.message
            raise FormatError(f"{name} {what}", hint=_EXPORT) from error
        for key in sorted(found.keys() & entries.keys()):
            raise UsageError(
                f"{name} and {entries[key].place[0]} both have data named {key!r}",
                hint="give the files of one export; ExecuTorch refuses such a pair too",
            )
        entries |= found
    return entries


def read_data_file(data: bytes, name: str) -> dict[str, StoredTensor]:
    """Read the data of a file; ``name`` is the file, for later messages.

    Raises:
        FormatError: The data is no ``.ptd`` file of a known version, or is truncated or damaged.
    """
    if data[4:8] != IDENTIFIER:
        kind = "an ExecuTorch program" if data[4:6] == b"ET" else "another kind of file"
        raise FormatError(f"is {kind}, not external data (.ptd)")
    if len(data) < _HEADER_AT + _HEADER.size or data[_HEADER_AT:][:4] != _HEADER_MAGIC:
        raise FormatError("no header", offset=_HEADER_AT, field="header")
    _, _, at, size, base, room = _HEADER.unpack_from(data, _HEADER_AT)
    if max(at + size, base + room) > len(data):
        raise FormatError(
            f"{max(at + size, base + room):,} bytes announced, {len(data):,} present",
            offset=_HEADER_AT,
            field="header",
        )
    # Offsets in the buffer are relative, so its beginning with the header is a part of it.
    buffer = FlatBuffer(data, 0, at + size, table_sizes=False)
    root = verified_root(buffer, FlatTensor, _LAYOUT)
    if (version := int(root.scalars(FlatTensor.VERSION, "<u4", 0)[0])) > _VERSION:
        raise FormatError(f"unknown version {version}", field="version")
    segments, _ = root.children(FlatTensor.SEGMENTS, DataSegment)
    starts, sizes = (segments.scalars(slot, "<u8", 0).tolist() for slot in DataSegment)
    for start, nbytes, place in zip(starts, sizes, segments.positions.tolist(), strict=True):
        if start + nbytes > room:
            raise FormatError(
                f"a segment ends {start + nbytes - room:,} bytes behind the data",
                offset=place,
                field="segments",
            )
    named, _ = root.children(FlatTensor.NAMED, NamedEntry)
    numbers = named.scalars(NamedEntry.SEGMENT_INDEX, "<u4", 0).tolist()
    entries: dict[str, StoredTensor] = {}
    layouts = _layouts(named)
    for key, number, layout in zip(named.texts(NamedEntry.KEY), numbers, layouts, strict=True):
        if number >= len(starts):
            raise FormatError(f"the data of {key!r} is in no segment", field="named_data")
        if key in entries:
            raise FormatError(f"two entries are named {key!r}", field="named_data")
        first = base + starts[number]
        entries[key] = StoredTensor((name, number), data[first : first + sizes[number]], layout)
    return entries


def _layouts(
    named: Tables[NamedEntry],
) -> list[tuple[int, tuple[int, ...], tuple[int, ...]] | None]:
    """Return the layout of each entry, None without one."""
    places = named.references(NamedEntry.LAYOUT)
    tables = Tables.at(named.buffer, places[places != 0], TensorLayout)
    columns = zip(
        tables.scalars(TensorLayout.SCALAR_TYPE, "i1", 0).tolist(),
        tables.vectors(TensorLayout.SIZES, "<i4"),
        tables.vectors(TensorLayout.DIM_ORDER, "u1"),
        strict=True,
    )
    found = dict(zip(np.flatnonzero(places).tolist(), columns, strict=True))
    return [found.get(row) for row in range(len(places))]
