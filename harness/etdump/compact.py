"""The device's compact event log to a Trace. Format: ``schema/compact_log.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.etdump import log_format as fmt
from harness.etdump.compact_chunks import (
    TracerLog,
    join_chunks,
    join_debug_buffers,
    read_tracer_logs,
    split_chunk,
)
from harness.etdump.compact_records import Records, check_clocks
from harness.etdump.compact_salvage import salvaged_chunks, without_lost_names
from harness.etdump.log_format import Record
from harness.timebase import ClockDomain
from harness.trace import NO_CLOCK, NO_NAME, Block, Damage, Kind, Trace, concatenate

__all__ = ["join_debug_buffers", "read_log", "split_chunk"]

_TICK_BITS = 32


def read_log(
    data: bytes, clocks: Sequence[ClockDomain] = (), damage: list[Damage] | None = None
) -> Trace:
    """Decode a log as the device sent it: one image, or those of several chunks and tracers.

    Images may come in any order. Tracers follow one after the other in the trace. The chunks of a
    tracer are put together, so that how a log was divided does not show in its trace; a chunk that
    is not there is counted, with its records, in ``Trace.losses``.

    Allocators are declared once and stay: a block lists all that were declared before its end, so
    an allocator id is resolved within the block of its event, as in an ED00 file. Events before the
    first block go to an implicit block named ``""``.

    Args:
        data: The whole log: header, records, names, and again for each further chunk.
        clocks: The device's clock domains in the order of its clock numbers. Ticks in the log have
            32 bits, so wider counters become 32-bit domains. Without any, domains of unknown rate
            stand in.
        damage: None makes every defect an error. A list gets all defects; of each image the events
            before the first defect are kept.

    Raises:
        FormatError: The log contradicts the format or itself; offset and field say where. Or
            nothing of it is intact.
    """
    if damage is None:
        logs = read_tracer_logs(data)
    else:
        known = len(clocks) or NO_CLOCK
        logs = join_chunks(salvaged_chunks(data, known, damage), damage)
        if not logs:
            reason = damage[0].reason if damage else "there is no image"
            raise FormatError(f"nothing could be salvaged: {reason}", offset=0, field="log")
    domains = _domains([log.records for log in logs], clocks)
    trace = concatenate([_trace(log, data, domains) for log in logs])
    if damage is not None:
        trace = without_lost_names(trace, damage)
    return trace.sealed()


def _trace(log: TracerLog, data: bytes, domains: Sequence[ClockDomain]) -> Trace:
    records = log.records
    events = records.events
    trace = Trace.unset(
        len(events),
        names=log.names,
        blocks=_read_blocks(records, log.names),
        clocks=domains,
        metadata_bytes=data if len(records.numbers(Record.DELEGATE)) else b"",
        debug_values=log.values,
        losses=log.losses,
        filtered_events=log.filtered_events,
        stacks=[log.stack] if log.stack else [],
    )
    trace.tracer[:] = log.tracer
    trace.record[:] = log.numbers[events]
    _fill_profile(trace, records)
    _fill_values(trace, records)
    _fill_prefixes(trace, records)
    _fill_allocations(trace, records)
    return trace


def _read_blocks(records: Records, names: Sequence[str]) -> list[Block]:
    starts = records.numbers(Record.BLOCK)
    declared = records.numbers(Record.ALLOCATOR)
    allocator_names = [
        _block_name(names, name) for name in records.all_of(Record.ALLOCATOR)["name"].tolist()
    ]
    total = len(records.events)
    firsts = records.rows[starts].tolist()
    ends = [*firsts[1:], total]
    known = np.searchsorted(declared, [*starts[1:].tolist(), len(records)]).tolist()
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


def _domains(tracers: Sequence[Records], clocks: Sequence[ClockDomain]) -> list[ClockDomain]:
    """The clock domains of the log, after checking that its ticks can come from them."""
    numbers = [records.all_of(Record.PROFILE)["clock"] for records in tracers]
    if not clocks:
        used = 1 + max(int(each.max(initial=0)) for each in numbers)
        # Number 255 is NO_CLOCK in a trace, so it is refused below.
        domains = [ClockDomain(f"clock {i}", None, _TICK_BITS) for i in range(min(used, NO_CLOCK))]
    else:
        # The low bits of a wider counter are a counter of their own.
        domains = [replace(clock, bits=min(clock.bits, _TICK_BITS)) for clock in clocks]
    for records in tracers:
        check_clocks(records, len(domains))
    return domains


def _fill_profile(trace: Trace, records: Records) -> None:
    profiles = records.all_of(Record.PROFILE)
    at = records.rows[records.numbers(Record.PROFILE)]
    trace.name[at] = _name_column(profiles["name"])
    for column in ("chain", "instruction", "clock", "start", "end"):
        getattr(trace, column)[at] = profiles[column]


def _fill_values(trace: Trace, records: Records) -> None:
    values = records.all_of(Record.VALUE)
    at = records.rows[records.numbers(Record.VALUE)]
    trace.kind[at] = Kind.DEBUG
    trace.clock[at] = 0
    trace.debug[at] = np.arange(len(at))
    for column in ("chain", "instruction", "start", "end"):
        getattr(trace, column)[at] = values[column]


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
    behind = records.places[numbers] + fmt.RECORD_SIZE
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
