"""The device's compact event log to a Trace. Format: ``schema/compact_log.toml``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.etdump import log_format as fmt
from harness.etdump.compact_records import Records, read_records, refuse
from harness.etdump.log_format import Record
from harness.timebase import ClockDomain
from harness.trace import NO_CLOCK, NO_NAME, Block, Kind, Losses, Trace

_TICK_BITS = 32

_HEADER = struct.Struct("<IBBHIIIIIIII")


@dataclass(frozen=True, slots=True)
class _Header:
    """The counts of an image whose sizes have been found consistent."""

    record_count: int
    name_count: int
    losses: Losses
    filtered_events: int

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
    records = read_records(image, header.record_count, header.name_count)
    trace = Trace.unset(
        records.event_count,
        names=names,
        blocks=_read_blocks(records, names),
        clocks=_domains(records, clocks),
        metadata_bytes=image if len(records.numbers(Record.DELEGATE)) else b"",
        losses=header.losses,
        filtered_events=header.filtered_events,
    )
    _fill_profile(trace, records)
    _fill_prefixes(trace, records)
    _fill_allocations(trace, records)
    return trace.sealed()


def _read_header(image: bytes) -> _Header:
    if len(image) < fmt.HEADER_SIZE:
        raise FormatError(
            f"log of {len(image)} bytes is shorter than its header", offset=0, field="header"
        )
    magic, version, record_size, header_size, flags, *counts = _HEADER.unpack_from(image)
    record_count, name_count, names_size, dropped_events, dropped_blocks, filtered, zero = counts
    expected = [
        ("magic", 0, magic, fmt.MAGIC),
        ("version", 4, version, fmt.VERSION),
        ("record size", 5, record_size, fmt.RECORD_SIZE),
        ("header size", 6, header_size, fmt.HEADER_SIZE),
        ("flags", 8, flags & ~fmt.FLAG_FULL, 0),
        ("header reserved", 36, zero, 0),
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
    return _Header(record_count, name_count, Losses(dropped_events, dropped_blocks), filtered)


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


def _read_blocks(records: Records, names: Sequence[str]) -> list[Block]:
    starts = records.numbers(Record.BLOCK)
    declared = records.numbers(Record.ALLOCATOR)
    allocator_names = [
        _block_name(names, name) for name in records.all_of(Record.ALLOCATOR)["name"].tolist()
    ]
    total = records.event_count
    firsts = records.rows[starts].tolist()
    ends = [*firsts[1:], total]
    known = np.searchsorted(declared, [*starts[1:].tolist(), len(records.kinds)]).tolist()
    headers = records.all_of(Record.BLOCK)
    blocks = [
        Block(
            name=_block_name(names, name),
            first=first,
            count=end - first,
            bundled_input_index=bundled,
            allocators=tuple(allocator_names[:count]),
        )
        for name, bundled, first, end, count in zip(
            headers["name"].tolist(),
            headers["bundled_input_index"].tolist(),
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


def _domains(records: Records, clocks: Sequence[ClockDomain]) -> list[ClockDomain]:
    """The clock domains of the log, after checking that its ticks can come from them."""
    numbers = records.all_of(Record.PROFILE)["clock"]
    used = int(numbers.max()) + 1 if len(numbers) else 1
    if not clocks:
        # Number 255 is NO_CLOCK in a trace, so it is refused below.
        domains = [ClockDomain(f"clock {i}", None, _TICK_BITS) for i in range(min(used, NO_CLOCK))]
    else:
        # The low bits of a wider counter are a counter of their own.
        domains = [replace(clock, bits=min(clock.bits, _TICK_BITS)) for clock in clocks]
    bad = numbers >= len(domains)
    refuse(bad, records.numbers(Record.PROFILE), 1, "PROFILE clock", "unknown clock domain")
    return domains


def _fill_profile(trace: Trace, records: Records) -> None:
    profiles = records.all_of(Record.PROFILE)
    at = records.rows[records.numbers(Record.PROFILE)]
    trace.name[at] = _name_column(profiles["name"])
    for column in ("chain", "instruction", "clock", "start", "end"):
        getattr(trace, column)[at] = profiles[column]


def _fill_prefixes(trace: Trace, records: Records) -> None:
    wide = records.all_of(Record.WIDE)
    at = records.rows[records.numbers(Record.WIDE)]
    trace.chain[at] = wide["chain"]
    trace.instruction[at] = wide["instruction"]

    numbers, delegates = records.numbers(Record.DELEGATE), records.all_of(Record.DELEGATE)
    at = records.rows[numbers]
    trace.delegate_int[at] = delegates["id"]
    trace.delegate_str[at] = _name_column(delegates["name"])
    present = delegates["flags"] == fmt.DELEGATE_METADATA
    behind = fmt.HEADER_SIZE + (numbers + 1) * fmt.RECORD_SIZE
    trace.metadata[at[present], 0] = behind[present]
    trace.metadata[at[present], 1] = delegates["length"][present]


def _fill_allocations(trace: Trace, records: Records) -> None:
    allocations = records.all_of(Record.ALLOCATION)
    at = records.rows[records.numbers(Record.ALLOCATION)]
    trace.kind[at] = Kind.ALLOCATION
    trace.clock[at] = 0
    trace.start[at] = allocations["tick"]
    trace.end[at] = allocations["tick"]
    trace.allocator[at] = allocations["allocator"]
    trace.size[at] = allocations["size"]
    known = allocations["offset"] != fmt.NO_OFFSET
    trace.offset[at[known]] = allocations["offset"][known]
    trace.failed[at] = (allocations["flags"] & fmt.ALLOCATION_FAILED) != 0


def _name_column(ids: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    return np.where(ids == fmt.NO_NAME, NO_NAME, ids.astype(np.int32)).astype(np.int32)
