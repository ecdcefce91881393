"""The device's compact event log to a Trace. Format: ``schema/compact_log.toml``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.etdump import log_format as fmt
from harness.etdump.log_format import Record
from harness.timebase import ClockDomain
from harness.trace import NO_CLOCK, NO_NAME, Block, Kind, Losses, Trace

_TICK_BITS = 32
_Bools = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.int64]

_HEADER = struct.Struct("<IBBHIIIIII")

# One record seen as each of its kinds; all are RECORD_SIZE bytes.
_PROFILE = np.dtype(
    [
        ("kind", "u1"),
        ("clock", "u1"),
        ("name", "<u2"),
        ("instruction", "<u2"),
        ("chain", "<i2"),
        ("start", "<u4"),
        ("end", "<u4"),
    ]
)
_BLOCK = np.dtype(
    [
        ("kind", "u1"),
        ("zero", "u1"),
        ("name", "<u2"),
        ("zero1", "<u4"),
        ("bundled_input_index", "<i4"),
        ("zero2", "<u4"),
    ]
)
_ALLOCATOR = np.dtype(
    [
        ("kind", "u1"),
        ("zero", "u1"),
        ("name", "<u2"),
        ("id", "<u4"),
        ("zero1", "<u4"),
        ("zero2", "<u4"),
    ]
)
_ALLOCATION = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("allocator", "<u2"),
        ("tick", "<u4"),
        ("size", "<i4"),
        ("offset", "<u4"),
    ]
)
_WIDE = np.dtype(
    [
        ("kind", "u1"),
        ("zero", "u1"),
        ("zero1", "<u2"),
        ("chain", "<i4"),
        ("instruction", "<i4"),  # u32 in the log; ETDump's int32 holds the same bits
        ("zero2", "<u4"),
    ]
)


@dataclass(frozen=True, slots=True)
class _Header:
    """The counts of an image whose sizes have been found consistent."""

    record_count: int
    name_count: int
    losses: Losses

    @property
    def names_offset(self) -> int:
        return fmt.HEADER_SIZE + self.record_count * fmt.RECORD_SIZE


def read_log(image: bytes, clocks: Sequence[ClockDomain] = ()) -> Trace:
    """Decode a log as the device sent it.

    Allocators are declared once and stay: a block lists all that were declared before its end, so
    an allocator id is resolved within the block of its event, as in an ED00 file. Events before the
    first block go to an implicit block named ``""``.

    Args:
        image: The whole log: header, records, names.
        clocks: The device's clock domains in the order of its clock numbers. Ticks in the log have
            32 bits, so wider counters become 32-bit domains. Without any, domains of unknown rate
            stand in.

    Raises:
        FormatError: The image contradicts the format or itself; offset and field say where.
    """
    header = _read_header(image)
    names = _read_names(image, header)
    raw = np.frombuffer(
        image, np.uint8, header.record_count * fmt.RECORD_SIZE, fmt.HEADER_SIZE
    ).reshape(-1, fmt.RECORD_SIZE)
    kinds = raw[:, 0]
    _check_records(raw, header.name_count)

    profile = kinds == Record.PROFILE
    allocation = kinds == Record.ALLOCATION
    rows = np.cumsum(profile | allocation) - 1  # row of each record that is an event
    blocks = _read_blocks(raw, names, profile | allocation)
    domains = _domains(raw, clocks)

    trace = Trace.unset(
        int(np.count_nonzero(profile | allocation)),
        names=names,
        blocks=blocks,
        clocks=domains,
        losses=header.losses,
    )
    _fill_profile(trace, raw, profile, rows)
    _fill_allocations(trace, raw, allocation, rows)
    return trace.sealed()


def _read_header(image: bytes) -> _Header:
    if len(image) < fmt.HEADER_SIZE:
        raise FormatError(
            f"log of {len(image)} bytes is shorter than its header", offset=0, field="header"
        )
    magic, version, record_size, header_size, flags, *counts = _HEADER.unpack_from(image)
    record_count, name_count, names_size, dropped_events, dropped_blocks = counts
    expected = [
        ("magic", 0, magic, fmt.MAGIC),
        ("version", 4, version, fmt.VERSION),
        ("record size", 5, record_size, fmt.RECORD_SIZE),
        ("header size", 6, header_size, fmt.HEADER_SIZE),
        ("flags", 8, flags & ~fmt.FLAG_FULL, 0),
    ]
    for field, offset, value, wanted in expected:
        if value != wanted:
            raise FormatError(f"{value:#x} instead of {wanted:#x}", offset=offset, field=field)
    if name_count > fmt.NO_NAME:
        raise FormatError(
            f"{name_count} names, but ids have 16 bits", offset=16, field="name count"
        )
    size = fmt.HEADER_SIZE + record_count * fmt.RECORD_SIZE + names_size
    if size > len(image):
        raise FormatError(
            f"log is truncated: {size} bytes announced, {len(image)} there",
            offset=len(image),
            field="records or names",
        )
    if size < len(image):
        raise FormatError(f"{len(image) - size} trailing bytes", offset=size, field="log")
    return _Header(record_count, name_count, Losses(dropped_events, dropped_blocks))


def _read_names(image: bytes, header: _Header) -> list[str]:
    """The interned names, by id. The image has them newest first."""
    position = header.names_offset
    names: list[str] = []
    for number in reversed(range(header.name_count)):
        end = position + 1 + image[position] if position < len(image) else len(image) + 1
        if end > len(image):
            raise FormatError("name runs past the end", offset=position, field=f"name {number}")
        names.append(image[position + 1 : end].decode("utf-8", "surrogateescape"))
        position = end
    if position != len(image):
        raise FormatError(
            f"{len(image) - position} bytes after the last name", offset=position, field="names"
        )
    names.reverse()
    return names


def _refuse(bad: _Bools, records: _Ints, within: int, field: str, message: str) -> None:
    """Raise for the first of ``records`` (record numbers) that is ``bad``.

    ``within`` is the offset of the field in its record.
    """
    if bad.any():
        record = int(records[np.argmax(bad)])
        offset = fmt.HEADER_SIZE + record * fmt.RECORD_SIZE + within
        raise FormatError(f"{message}: record {record}", offset=offset, field=field)


def _check_records(raw: npt.NDArray[np.uint8], name_count: int) -> None:
    """Check everything a record says about itself and its neighbours."""
    kinds = raw[:, 0]
    known = np.isin(kinds, [int(kind) for kind in Record])
    _refuse(~known, np.arange(len(kinds)), 0, "kind", "unknown record kind")

    layouts = {
        Record.PROFILE: (_PROFILE, "PROFILE"),
        Record.BLOCK: (_BLOCK, "BLOCK"),
        Record.ALLOCATOR: (_ALLOCATOR, "ALLOCATOR"),
        Record.ALLOCATION: (_ALLOCATION, "ALLOCATION"),
        Record.WIDE: (_WIDE, "WIDE"),
    }
    for kind, (layout, label) in layouts.items():
        numbers = np.flatnonzero(kinds == kind)
        records = _view(raw, numbers, layout)
        for column in layout.names or ():
            within = layout.fields[column][1]  # type: ignore[index]
            values = records[column]
            if column.startswith("zero"):
                _refuse(values != 0, numbers, within, f"{label} reserved", "not zero")
            elif column == "name":
                bad = (values >= name_count) & (values != fmt.NO_NAME)
                _refuse(bad, numbers, within, f"{label} name", "name id out of range")

    wide = np.flatnonzero(kinds == Record.WIDE)
    follower = np.append(kinds, 0)[wide + 1]
    _refuse(follower != Record.PROFILE, wide, 0, "WIDE", "no PROFILE record follows")
    _check_allocators(raw)


def _check_allocators(raw: npt.NDArray[np.uint8]) -> None:
    """Allocator ids count from 1 in the order of declaration, and are declared before use."""
    kinds = raw[:, 0]
    declared = np.flatnonzero(kinds == Record.ALLOCATOR)
    ids = _view(raw, declared, _ALLOCATOR)["id"]
    _refuse(
        ids != np.arange(1, len(ids) + 1), declared, 4, "ALLOCATOR id", "allocator id out of order"
    )

    used = np.flatnonzero(kinds == Record.ALLOCATION)
    records = _view(raw, used, _ALLOCATION)
    unknown_flags = records["flags"] & ~np.uint8(fmt.ALLOCATION_FAILED)
    _refuse(unknown_flags != 0, used, 1, "ALLOCATION flags", "unknown flag")
    known = np.searchsorted(declared, used)  # allocators declared before each allocation
    bad = (records["allocator"] == 0) | (records["allocator"] > known)
    _refuse(bad, used, 2, "ALLOCATION allocator", "allocator was not declared")


def _view(raw: npt.NDArray[np.uint8], records: _Ints, layout: np.dtype[np.void]) -> np.ndarray:
    """Copy the given records out of ``raw`` (shape (n, 16)) as a structured array."""
    return raw[records].view(layout)[:, 0]


def _read_blocks(raw: npt.NDArray[np.uint8], names: Sequence[str], is_event: _Bools) -> list[Block]:
    kinds = raw[:, 0]
    starts = np.flatnonzero(kinds == Record.BLOCK)
    declared = np.flatnonzero(kinds == Record.ALLOCATOR)
    allocator_names = [
        _block_name(names, name) for name in _view(raw, declared, _ALLOCATOR)["name"].tolist()
    ]
    events_before = np.concatenate([[0], np.cumsum(is_event)])
    total = int(events_before[-1])

    firsts = events_before[starts].tolist()
    ends = [*firsts[1:], total]
    known = np.searchsorted(declared, [*starts[1:].tolist(), len(kinds)]).tolist()
    blocks = [
        Block(
            name=_block_name(names, name),
            first=first,
            count=end - first,
            bundled_input_index=bundled,
            allocators=tuple(allocator_names[:count]),
        )
        for name, bundled, first, end, count in zip(
            _view(raw, starts, _BLOCK)["name"].tolist(),
            _view(raw, starts, _BLOCK)["bundled_input_index"].tolist(),
            firsts,
            ends,
            known,
            strict=False,
        )
    ]
    early = firsts[0] if blocks else total
    if early or (allocator_names and not blocks):
        known_early = np.searchsorted(declared, starts[0]) if blocks else len(declared)
        blocks.insert(0, Block("", 0, early, allocators=tuple(allocator_names[: int(known_early)])))
    return blocks


def _block_name(names: Sequence[str], number: int) -> str:
    return "" if number == fmt.NO_NAME else names[number]


def _domains(raw: npt.NDArray[np.uint8], clocks: Sequence[ClockDomain]) -> list[ClockDomain]:
    """The clock domains of the log, after checking that its ticks can come from them."""
    numbers = np.flatnonzero(raw[:, 0] == Record.PROFILE)
    records = _view(raw, numbers, _PROFILE)
    used = int(records["clock"].max()) + 1 if len(records) else 1
    if not clocks:
        # Number 255 is NO_CLOCK in a trace, so it is refused below.
        domains = [ClockDomain(f"clock {i}", None, _TICK_BITS) for i in range(min(used, NO_CLOCK))]
    else:
        # The low bits of a wider counter are a counter of their own.
        domains = [replace(clock, bits=min(clock.bits, _TICK_BITS)) for clock in clocks]
    _refuse(records["clock"] >= len(domains), numbers, 1, "PROFILE clock", "unknown clock domain")
    return domains


def _fill_profile(trace: Trace, raw: npt.NDArray[np.uint8], profile: _Bools, rows: _Ints) -> None:
    numbers = np.flatnonzero(profile)
    records = _view(raw, numbers, _PROFILE)
    at = rows[numbers]
    trace.name[at] = _name_column(records["name"])
    trace.chain[at] = records["chain"]
    trace.instruction[at] = records["instruction"]
    trace.clock[at] = records["clock"]
    trace.start[at] = records["start"]
    trace.end[at] = records["end"]

    wide = np.flatnonzero(raw[:, 0] == Record.WIDE)
    prefixes = _view(raw, wide, _WIDE)
    trace.chain[rows[wide + 1]] = prefixes["chain"]
    trace.instruction[rows[wide + 1]] = prefixes["instruction"]


def _fill_allocations(
    trace: Trace, raw: npt.NDArray[np.uint8], allocation: _Bools, rows: _Ints
) -> None:
    numbers = np.flatnonzero(allocation)
    records = _view(raw, numbers, _ALLOCATION)
    at = rows[numbers]
    trace.kind[at] = Kind.ALLOCATION
    trace.clock[at] = 0
    trace.start[at] = records["tick"]
    trace.end[at] = records["tick"]
    trace.allocator[at] = records["allocator"]
    trace.size[at] = records["size"]
    known = records["offset"] != fmt.NO_OFFSET
    trace.offset[at[known]] = records["offset"][known]
    trace.failed[at] = (records["flags"] & fmt.ALLOCATION_FAILED) != 0


def _name_column(ids: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    return np.where(ids == fmt.NO_NAME, NO_NAME, ids.astype(np.int32)).astype(np.int32)
