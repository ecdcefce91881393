"""Reads a device log into a Trace, also a damaged one. Format: ``schema/compact_log.toml``.

``join_counts`` joins the counts of several runs of the same executions into the log of one of them.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from harness.decode import device_log_format as fmt
from harness.decode.device_log_chunks import (
    INSTANTS,
    LOST_NAME,
    Chunk,
    LogHeader,
    Records,
    TracerLog,
    check_clocks,
    join_chunks,
    join_debug_buffers,
    padded,
    read_chunk,
    read_chunks,
    read_header,
    split_chunk,
    without_repeated,
)
from harness.decode.device_log_format import Record
from harness.errors import FormatError
from harness.files import Content, is_padding
from harness.records.trace import (
    NO_CLOCK,
    NO_COUNT,
    NO_NAME,
    NOTHING_LOST,
    Block,
    ClockDomain,
    Damage,
    EmptyEvents,
    HardwareCounter,
    Kind,
    Trace,
    TracerClock,
    concatenate,
)

__all__ = ["join_debug_buffers", "read_log", "split_chunk", "without_repeated"]

_TICK_BITS = 32


_MAGIC: Final = fmt.MAGIC.to_bytes(4, "little")


_RECORD_COUNT, _NAMES_SIZE = slice(12, 16), slice(20, 24)
"""Positions of these fields in a header."""


def is_device_log(data: Content) -> bool:
    """Whether the data begins with the magic number of a device log."""
    return data[:4] == _MAGIC


def read_log(
    data: bytes, clocks: Sequence[ClockDomain] = (), damage: list[Damage] | None = None
) -> Trace:
    """Decode a log as sent by the device: one image, or the images of several chunks and tracers.

    Images may be in any order. In the trace, tracers follow one after the other. The chunks of a
    tracer are joined, so the trace does not depend on how the log was divided; missing chunks and
    their records are counted in ``Trace.losses``.

    Allocators are declared once and stay valid: a block lists all allocators declared before its
    end, so an allocator id is resolved within the block of its event, as in an ED00 file. Events
    before the first block go to an implicit block named ``""``.

    Args:
        data: The whole log: header, records and names of each chunk; padding may follow.
        clocks: The device's clock domains, by clock number. Ticks in the log have 32 bits, so wider
            counters become 32-bit domains. If empty, domains with an unknown rate are used.
        damage: None makes every defect an error. With a list, defects are appended to it, and each
            image is kept up to its first defect.

    Raises:
        FormatError: The log is invalid (the error has offset and field), or nothing is intact.
    """
    if damage is None:
        logs = join_chunks(read_chunks(data))
    else:
        known = len(clocks) or NO_CLOCK
        logs = join_chunks(_salvaged_chunks(data, known, damage), damage)
        if not logs:
            reason = damage[0].reason if damage else "no image found"
            raise FormatError(f"nothing could be salvaged: {reason}", offset=0, field="log")
    if clocks:
        # The low 32 bits of a wider counter are a valid 32-bit counter.
        domains = [replace(clock, bits=min(clock.bits, _TICK_BITS)) for clock in clocks]
    else:
        numbers = [log.records.all_of(Record.PROFILE)["clock"] for log in logs]
        used = 1 + max(int(each.max(initial=0)) for each in numbers)
        # Number 255 is NO_CLOCK in a trace, so it is refused below.
        domains = [ClockDomain(f"clock {i}", None, _TICK_BITS) for i in range(min(used, NO_CLOCK))]
    for log in logs:
        check_clocks(log.records, len(domains))
    counters = _read_counters(logs)
    trace = concatenate([_trace(log, data, domains, counters) for log in logs])
    if any(len(log.records.numbers(Record.CLOCK)) for log in logs):
        trace = _with_tracer_clocks(trace, logs)
    if damage is not None:
        trace = _without_lost_names(trace, damage)
    return trace.sealed()


def _with_tracer_clocks(trace: Trace, logs: Sequence[TracerLog]) -> Trace:
    """Put the events of tracers with a counter of their own on a clock of its own."""
    clocks, found = list(trace.clocks), []
    for log in logs:
        records, numbers = log.records.all_of(Record.CLOCK), log.records.numbers(Record.CLOCK)
        if not len(records):
            continue
        rate, number = int(records["hz"][0]), 0
        if rate:
            number = len(clocks)
            if number >= NO_CLOCK:
                raise FormatError("more than 255 clocks", offset=0, field="CLOCK rate")
            clocks.append(ClockDomain(f"tracer {log.tracer}", Fraction(rate), _TICK_BITS))
            trace.clock[(trace.tracer == log.tracer) & (trace.clock == 0)] = number
        instants = records["high"].astype(np.int64) << 32 | records["low"]
        # The place of a copy is unknown, so it does not tell between which events it was read.
        known = (instants != fmt.NO_INSTANT) & (records["flags"] == 0)
        columns = log.numbers[numbers], records["own"], instants
        readings = np.stack([column[known].astype(np.int64) for column in columns], axis=1)
        pairs, dropped = tuple(map(tuple, readings.tolist())), log.losses.runs > 0
        found.append(TracerClock(log.tracer, number, pairs, dropped))
    own = (0, *range(len(trace.clocks), len(clocks)))
    return replace(trace, clocks=tuple(clocks), tracer_clocks=tuple(found), own_clocks=own)


def _trace(
    log: TracerLog,
    data: bytes,
    domains: Sequence[ClockDomain],
    counters: Sequence[HardwareCounter],
) -> Trace:
    records = log.records
    events = records.events
    measured = records.all_of(Record.COUNTING)[["events", "start", "end"]].tolist()
    trace = Trace.unset(
        len(events),
        names=log.names,
        blocks=_read_blocks(records, log.names),
        clocks=domains,
        counters=counters,
        empty_events=[
            EmptyEvents(count, domains[0].passed(start, end)) for count, start, end in measured
        ],
        metadata_bytes=data if len(records.numbers(Record.DELEGATE)) else b"",
        debug_values=log.values,
        losses=log.losses,
        filtered_events=log.filtered_events,
        stacks=[log.stack] if log.stack else [],
        full=[log.tracer] if log.full else [],
        incomplete=[log.tracer] if log.losses != NOTHING_LOST or log.filtered_events else [],
    )
    trace.tracer[:] = log.tracer
    trace.record[:] = log.numbers[events]

    profiles = records.all_of(Record.PROFILE)
    at = records.rows[records.numbers(Record.PROFILE)]
    ids = profiles["name"].astype(np.int32)
    trace.name[at] = np.where(ids == fmt.NO_NAME, NO_NAME, ids)
    for column in ("chain", "instruction", "clock", "start", "end"):
        getattr(trace, column)[at] = profiles[column]

    values = records.all_of(Record.VALUE)
    at = records.rows[records.numbers(Record.VALUE)]
    trace.kind[at] = Kind.DEBUG
    trace.clock[at] = 0
    trace.debug[at] = np.arange(len(at))
    for column in ("chain", "instruction", "start", "end"):
        getattr(trace, column)[at] = values[column]

    # Records before an event: its chain and instruction in full, and its delegate.
    wide = records.all_of(Record.WIDE)
    at = records.rows[records.numbers(Record.WIDE)]
    trace.chain[at] = wide["chain"]
    trace.instruction[at] = wide["instruction"]
    numbers, delegates = records.numbers(Record.DELEGATE), records.all_of(Record.DELEGATE)
    at = records.rows[numbers]
    trace.delegate_int[at] = delegates["id"]
    ids = delegates["name"].astype(np.int32)
    trace.delegate_str[at] = np.where(ids == fmt.NO_NAME, NO_NAME, ids)
    present = delegates["flags"] == fmt.DELEGATE_METADATA
    behind = records.places[numbers] + fmt.RECORD_SIZE
    trace.metadata[at[present], 0] = behind[present]
    trace.metadata[at[present], 1] = delegates["length"][present]

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

    if np.isin(records.kinds, INSTANTS).any():
        trace = _with_instants(trace, records)

    counts = records.all_of(Record.COUNTS)
    at = records.rows[records.numbers(Record.COUNTS)] - 1
    names = [counter.name for counter in counters]
    for number, counter in enumerate(log.counters):
        first, within = divmod(number, fmt.COUNTS_PER_RECORD)
        here = counts["first"] == first * fmt.COUNTS_PER_RECORD
        trace.counts[at[here], names.index(counter.name)] = counts["counts"][here, within]
    return trace


def _with_instants(trace: Trace, records: Records) -> Trace:
    """Return the trace with its marks, samples, and tasks and interrupts, fields filled in."""
    numbered: dict[str, int] = {}  # texts behind the names; names that are lost are equal
    for record in INSTANTS:
        found, at = records.all_of(record), records.rows[records.numbers(record)]
        ids = found["name"].astype(np.int32)
        trace.name[at] = np.where(ids == fmt.NO_NAME, NO_NAME, ids)
        trace.clock[at] = 0
        trace.start[at] = trace.end[at] = found["tick"]
        if record is Record.SWITCH:
            interrupts = (found["flags"] & fmt.SWITCH_INTERRUPT) != 0
            trace.kind[at] = np.where(interrupts, Kind.INTERRUPT, Kind.TASK)
            trace.level[at] = found["flags"] & fmt.SWITCH_BEGINS
            unnamed = np.flatnonzero(ids == fmt.NO_NAME)
            for row, number in zip(
                unnamed.tolist(), found["number"][unnamed].tolist(), strict=True
            ):
                text = f"{'interrupt' if interrupts[row] else 'task'} {number}"
                behind = len(trace.names) + len(numbered)
                trace.name[at[row]] = numbered.setdefault(text, behind)
        elif record is Record.SAMPLE:
            trace.kind[at] = Kind.SAMPLE
            value, floats = found["value"], (found["flags"] & fmt.SAMPLE_FLOAT) != 0
            level = np.where(floats, value.view(np.float32), value)
            trace.level[at] = np.where(np.isfinite(level), level, np.nan)
        else:
            trace.kind[at] = Kind.MARK
    return replace(trace, names=(*trace.names, *numbered))


def _read_counters(logs: Sequence[TracerLog]) -> list[HardwareCounter]:
    """Return the counters of all logs; one that several have is one counter.

    Raises:
        FormatError: Logs contradict each other about a counter.
    """
    found: dict[str, HardwareCounter] = {}
    for log in logs:
        for counter, record in zip(log.counters, log.records.numbers(Record.COUNTER), strict=True):
            known = found.setdefault(counter.name, counter)
            if known.bits != counter.bits:
                raise FormatError(
                    f"{counter.name} has {known.bits} and {counter.bits} bits",
                    offset=int(log.records.places[record]) + 4,
                    field="COUNTER bits",
                )
            found[counter.name] = replace(
                known,
                overhead=max(known.overhead, counter.overhead),
                parent_overhead=max(known.parent_overhead, counter.parent_overhead),
            )
    return list(found.values())


def _read_blocks(records: Records, names: Sequence[str]) -> list[Block]:
    starts = records.numbers(Record.BLOCK)
    declared = records.numbers(Record.ALLOCATOR)
    texts = dict(enumerate(names)) | {fmt.NO_NAME: ""}
    allocator_names = [texts[name] for name in records.all_of(Record.ALLOCATOR)["name"].tolist()]
    total = len(records.events)
    firsts = records.rows[starts].tolist()
    ends = [*firsts[1:], total]
    known = np.searchsorted(declared, [*starts[1:].tolist(), len(records)]).tolist()
    headers = records.all_of(Record.BLOCK)
    blocks = [
        Block(
            name=texts[name],
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


def _salvaged_chunks(data: bytes, clocks: int, damage: list[Damage]) -> Iterator[Chunk]:
    """Yield image after image, each up to its first defect.

    Missing names become ``LOST_NAME``. Names are at the end of an image, newest first, so a
    truncated log loses the oldest names, or all.

    Args:
        data: The log.
        clocks: Number of clock domains.
        damage: List to append defects to.
    """
    place = debug_end = 0
    while place < len(data) and not (place and is_padding(data, place)):
        try:
            header = read_header(data, place)
        except FormatError as error:
            behind = _next_image(data, place)
            _leave_out(damage, error, f"; {behind - place} bytes left out")
            place = behind
            continue
        behind = place + header.size
        if behind > len(data):
            behind = _next_image(data, place)
        image = data[place:behind]
        chunk = _intact(image, place, header, debug_end, clocks, damage)
        if chunk is not None:
            yield chunk
        debug_end += padded(header.debug_size)
        place = behind


def _without_lost_names(trace: Trace, damage: list[Damage]) -> Trace:
    """Remove events with lost names; rename blocks with lost names to ``""``."""
    lost = [index for index, name in enumerate(trace.names) if name == LOST_NAME]
    if not lost:
        return trace
    kept = ~(np.isin(trace.name, lost) | np.isin(trace.delegate_str, lost))
    events = len(trace) - int(np.count_nonzero(kept))
    nameless = sum(block.name == LOST_NAME for block in trace.blocks)
    what = f"the names of {events} events and {nameless} blocks are lost"
    damage.append(Damage(None, "names", what, events))
    before = np.concatenate([[0], np.cumsum(kept)]).tolist()
    columns: dict[str, Any] = {name: column[kept] for name, column in trace.columns.items()}
    blocks = tuple(
        replace(
            block,
            name="" if block.name == LOST_NAME else block.name,
            first=before[block.first],
            count=before[block.first + block.count] - before[block.first],
            allocators=tuple("" if name == LOST_NAME else name for name in block.allocators),
        )
        for block in trace.blocks
    )
    names = tuple("" if name == LOST_NAME else name for name in trace.names)
    return replace(trace, names=names, blocks=blocks, **columns)


def _next_image(data: bytes, place: int) -> int:
    """Return the offset of the next complete image, or the end of the data."""
    while (place := data.find(_MAGIC, place + 1)) >= 0:
        try:
            header = read_header(data, place)
        except FormatError:
            continue
        if place + header.size <= len(data):
            return place
    return len(data)


def _intact(
    image: bytes,
    place: int,
    header: LogHeader,
    debug_end: int,
    clocks: int,
    damage: list[Damage],
) -> Chunk | None:
    """Return the records of an image before its first defect; None if the image is unusable."""
    if len(image) < header.size:
        message = f"log is truncated: {header.size} bytes announced, {len(image)} present"
        _leave_out(damage, FormatError(message, offset=place + len(image), field="log"))
    body = image[fmt.HEADER_SIZE :]
    names_at = header.record_count * fmt.RECORD_SIZE
    names, lost = _newest_names(body[names_at:][: header.names_size], header)
    if lost and len(image) == header.size:
        error = FormatError("do not fill their part", offset=place + len(image), field="names")
        _leave_out(damage, error)
    if lost > len(image):  # a wrong count could otherwise allocate any amount of memory
        error = FormatError(f"{lost} are lost", offset=place + 16, field="names")
        _leave_out(damage, error, "; the image is left out")
        return None
    records = min(header.record_count, len(body) // fmt.RECORD_SIZE)
    while True:
        patched = bytearray(image[: fmt.HEADER_SIZE])
        patched[_RECORD_COUNT] = records.to_bytes(4, "little")
        patched[_NAMES_SIZE] = len(names).to_bytes(4, "little")
        shorter = bytes(patched) + body[: records * fmt.RECORD_SIZE] + names
        try:
            chunk = read_chunk(shorter, 0, debug_end)
            check_clocks(chunk.records, clocks)
        except FormatError as error:
            first_bad = ((error.offset or 0) - fmt.HEADER_SIZE) // fmt.RECORD_SIZE
            if not 0 <= first_bad < records:
                _leave_out(damage, error, "; the image is left out", place)
                return None
            left_out = header.record_count - first_bad
            _leave_out(damage, error, f"; {left_out} records from there on left out", place)
            records = first_bad
        else:
            found = chunk.records
            return replace(
                chunk,
                place=place,
                names=(LOST_NAME,) * lost + chunk.names[lost:],
                records=Records.of(found.raw, found.kinds, found.places + place),
            )


def _newest_names(region: bytes, header: LogHeader) -> tuple[bytes, int]:
    """Return the encoded names of an image, padded with empty ones, and the number of lost ones."""
    position = known = 0
    while known < header.name_count and position < len(region):
        behind = position + 1 + region[position]
        if behind > len(region):
            break
        position, known = behind, known + 1
    whole = len(region) == header.names_size
    if whole and (position < len(region) or known < header.name_count):
        position = known = 0  # a length is wrong, but it is unknown which one
    lost = header.name_count - known
    return region[:position] + bytes(lost), lost


def _leave_out(
    damage: list[Damage], error: FormatError, consequence: str = "", place: int = 0
) -> None:
    """Append a defect, found in bytes at offset ``place`` of the file."""
    offset = error.offset or 0
    reason = error.message.replace(f"at byte {offset}", f"at byte {offset + place}") + consequence
    damage.append(Damage(offset + place, error.field, reason, None))


_NAMED = (
    *(Record.PROFILE, Record.BLOCK, Record.ALLOCATOR, Record.DELEGATE, Record.COUNTER),
    *INSTANTS,
)
"""Kinds of records with a name id at offset 2."""

_NAME_COUNT, _FIRST_RECORD = slice(16, 18), slice(48, 52)
"""Positions of these fields in a header."""


@dataclass(frozen=True, slots=True)
class JoinedCounts:
    """The counts of all runs, for the events of the first one.

    Attributes:
        counters: All counters, those of the first run first.
        counts: Counts by tracer and record number, of events that all runs have.
        pairs: For each later run, rows of the same event in the first run and in it.
        unmatched: Number of events with counts in the first run that not every run has.
    """

    counters: tuple[HardwareCounter, ...]
    counts: Mapping[tuple[int, int], Sequence[int]]
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    unmatched: int


def join_counts(first: Trace, others: Sequence[Trace]) -> JoinedCounts:
    """Match the events of several runs by block, name, instruction and occurrence."""
    rows = _counted_rows(first)
    columns: dict[str, tuple[HardwareCounter, dict[int, int]]] = {}
    pairs = []
    for number, trace in enumerate((first, *others)):
        found = rows if number == 0 else _counted_rows(trace)
        same = [(row, found[key]) for key, row in rows.items() if key in found]
        pairs.append(tuple(same))
        for place, counter in enumerate(trace.counters):
            counts = trace.counts[:, place].tolist()
            columns.setdefault(counter.name, (counter, {a: counts[b] for a, b in same}))
    complete = [row for row in rows.values() if all(row in known for _, known in columns.values())]
    counts = {
        (int(first.tracer[row]), int(first.record[row])): [
            known[row] for _, known in columns.values()
        ]
        for row in complete
    }
    counters = tuple(counter for counter, _ in columns.values())
    return JoinedCounts(counters, counts, tuple(pairs[1:]), len(rows) - len(complete))


def write_counts(image: bytes, joined: JoinedCounts) -> bytes:
    """Return a device log with these counters and counts instead of its own.

    Raises:
        FormatError: The log is invalid.
    """
    chunks: list[bytes] = []
    before: dict[int, tuple[int, int]] = {}  # of each tracer: next record number, old and new
    for chunk in read_chunks(image):
        tracer = chunk.header.tracer
        old, new = before.get(tracer, (0, 0))
        first = new + chunk.header.first_record - old
        names, records, carried = _rewritten(chunk, joined)
        header = bytearray(image[chunk.place : chunk.place + fmt.HEADER_SIZE])
        header[_RECORD_COUNT] = len(records).to_bytes(4, "little")
        header[_NAME_COUNT] = (len(joined.counters) + len(chunk.names)).to_bytes(2, "little")
        header[_NAMES_SIZE] = len(names).to_bytes(4, "little")
        header[_FIRST_RECORD] = first.to_bytes(4, "little")
        chunks.append(bytes(header) + b"".join(records) + names)
        behind = chunk.header.first_record + len(chunk.records) - chunk.carried
        before[tracer] = behind, first + len(records) - carried
    return b"".join(chunks)


def _counted_rows(trace: Trace) -> dict[tuple[object, ...], int]:
    """Return the rows of events with counts, by what identifies an event in every run."""
    counted = (trace.kind == Kind.PROFILE) & (trace.counts != NO_COUNT).any(axis=1)
    seen: Counter[tuple[object, ...]] = Counter()
    rows: dict[tuple[object, ...], int] = {}
    for number, block in enumerate(trace.blocks):
        # The first block is never dropped, the ones behind it are, the oldest first.
        place = number + trace.losses.runs if number else 0
        for row in range(block.first, block.first + block.count):
            if not counted[row]:
                continue
            key = (
                *(int(trace.tracer[row]), place, trace.text(int(trace.name[row]))),
                *(int(trace.chain[row]), int(trace.instruction[row])),
                *(int(trace.delegate_int[row]), trace.text(int(trace.delegate_str[row]))),
            )
            rows[(*key, seen[key])] = row
            seen[key] += 1
    return rows


def _rewritten(chunk: Chunk, joined: JoinedCounts) -> tuple[bytes, list[bytes], int]:
    """Return names and records of a chunk with the joined counts, and how many are carried.

    The names of counters come first, so that all chunks agree about the numbers of names.
    """
    added = [counter.name.encode("utf-8", "surrogateescape") for counter in joined.counters]
    own = [name.encode("utf-8", "surrogateescape") for name in chunk.names]
    names = b"".join(bytes((len(name),)) + name for name in reversed([*added, *own]))
    raw = chunk.records.raw.copy()
    named = np.flatnonzero(np.isin(chunk.records.kinds, _NAMED))
    ids = raw[named, 2].astype(np.uint16) | raw[named, 3].astype(np.uint16) << 8
    ids[ids != fmt.NO_NAME] += len(added)
    raw[named, 2], raw[named, 3] = ids & 0xFF, ids >> 8
    kinds = chunk.records.kinds
    flags = fmt.CARRIED if chunk.header.chunk else 0
    records = [*_declarations(joined, flags)]
    carried = chunk.carried - int(np.count_nonzero(kinds[: chunk.carried] == Record.COUNTER))
    carried += len(records) if flags else 0
    for place, kind in enumerate(kinds.tolist()):
        if kind in (Record.COUNTER, Record.COUNTS):
            continue
        records.append(raw[place].tobytes())
        if kind == Record.PROFILE:
            number = chunk.header.first_record + max(place - chunk.carried, 0)
            counts = joined.counts.get((chunk.header.tracer, number), ())
            records += _counts_records(counts)
    return names, records, carried


def _declarations(joined: JoinedCounts, flags: int) -> Iterator[bytes]:
    for number, counter in enumerate(joined.counters):
        costs = counter.overhead, counter.parent_overhead
        yield struct.pack("<BBHIII", Record.COUNTER, flags, number, counter.bits, *costs)


def _counts_records(counts: Sequence[int]) -> Iterator[bytes]:
    for first in range(0, len(counts), fmt.COUNTS_PER_RECORD):
        some = [*counts[first : first + fmt.COUNTS_PER_RECORD], 0, 0][: fmt.COUNTS_PER_RECORD]
        yield struct.pack("<BBHIII", Record.COUNTS, first, 0, *some)
