"""Joins the counts of several runs of the same executions into the log of one of them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.decode import device_log_format as fmt
from harness.decode.device_log_chunks import Chunk, read_chunks
from harness.decode.device_log_format import Record
from harness.records.trace import NO_COUNT, HardwareCounter, Kind, Trace

_NAMED = (Record.PROFILE, Record.BLOCK, Record.ALLOCATOR, Record.DELEGATE, Record.COUNTER)
"""Kinds of records with a name id at offset 2."""

_RECORD_COUNT, _NAME_COUNT = slice(12, 16), slice(16, 18)
_NAMES_SIZE, _FIRST_RECORD = slice(20, 24), slice(48, 52)
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
        before[tracer] = chunk.next_record, first + len(records) - carried
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
