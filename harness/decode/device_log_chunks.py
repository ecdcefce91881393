"""Chunks of a device log: reads each on its own, and joins the chunks of a tracer."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import Record
from harness.decode.device_log_records import (
    BLOCK,
    DECLARATIONS,
    Bools,
    Ints,
    Records,
    read_records,
    read_values,
)
from harness.decode.padding import is_padding
from harness.errors import FormatError
from harness.records.trace import Damage, Losses, Stack
from harness.records.values import DebugValue

LOST_NAME = "\udc00"
"""Replaces a name that a damaged log has lost; no bytes decode to this character."""

_HEADER = struct.Struct("<IBBHIIHHIIIIIIIIIII")


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The header of an image; see ``schema/compact_log.toml``."""

    record_count: int
    name_count: int
    tracer: int
    names_size: int
    dropped_events: int
    dropped_blocks: int
    filtered_events: int
    dropped_values: int
    dropped_runs: int
    chunk: int
    first_record: int
    debug_size: int
    stack_used: int
    stack_size: int
    full: bool

    @property
    def size(self) -> int:
        """Size of the whole image in bytes."""
        return fmt.HEADER_SIZE + self.record_count * fmt.RECORD_SIZE + self.names_size


@dataclass(frozen=True, slots=True)
class Chunk:
    """One image, checked on its own.

    Attributes:
        place: Offset of the image in the file.
        size: Its size in bytes.
        header: Its header.
        names: Interned names, by id.
        records: All its records.
        carried: Number of copies of earlier chunks' records at the start.
        values: Values of its VALUE records; offsets are those in the joined debug buffer.
    """

    place: int
    size: int
    header: LogHeader
    names: tuple[str, ...]
    records: Records
    carried: int
    values: list[DebugValue]

    @property
    def next_record(self) -> int:
        """Number of the first record of the next chunk."""
        return self.header.first_record + len(self.records) - self.carried


@dataclass(frozen=True, slots=True)
class TracerLog:
    """The joined log of one tracer.

    Attributes:
        tracer: The tracer's number.
        names: Interned names, by id.
        records: Its records, without copies whose original is present.
        numbers: Number of each record in the log; a copy whose original is missing has the number
            of the next record.
        values: Values of the VALUE records, in order.
        losses: Missing parts.
        filtered_events: Events not logged because of run options.
        stack: Stack use; None if unknown.
        full: The log filled up after its last record; everything lost is behind that.
    """

    tracer: int
    names: tuple[str, ...]
    records: Records
    numbers: Ints
    values: list[DebugValue]
    losses: Losses
    filtered_events: int
    stack: Stack | None
    full: bool


def read_tracer_logs(data: bytes) -> list[TracerLog]:
    """Read all images in ``data``; return one joined log per tracer, by tracer number.

    Raises:
        FormatError: An image is invalid, or images contradict each other.
    """
    return join_chunks(read_chunks(data))


def join_chunks(chunks: Iterable[Chunk], damage: list[Damage] | None = None) -> list[TracerLog]:
    """Join the chunks of each tracer; return one log per tracer, by tracer number.

    Args:
        chunks: The chunks, in any order.
        damage: None makes every contradiction an error. With a list, contradicting chunks are left
            out and appended to it, and chunks may be truncated.

    Raises:
        FormatError: Chunks contradict each other, and ``damage`` is None.
    """
    tracers: dict[int, dict[int, Chunk]] = {}
    for chunk in chunks:
        header = chunk.header
        known = tracers.setdefault(header.tracer, {})
        if header.chunk in known:
            error = _chunk_error(chunk, 44, "chunk number", "is duplicated")
            if damage is None:
                raise error
            damage.append(Damage.of(error, None))
            continue
        known[header.chunk] = chunk
    return [
        _join([known[n] for n in sorted(known)], damage) for _, known in sorted(tracers.items())
    ]


def _chunk_error(chunk: Chunk, within: int, field: str, message: str) -> FormatError:
    name = f"chunk {chunk.header.chunk} of tracer {chunk.header.tracer}"
    return FormatError(f"{name} {message}", offset=chunk.place + within, field=field)


def read_chunks(data: bytes) -> Iterator[Chunk]:
    """Yield image after image, at least one; padding may follow the last one."""
    chunk = read_chunk(data, 0, 0)
    debug_end = 0
    yield chunk
    while not is_padding(data, place := chunk.place + chunk.size):
        if len(data) - place < fmt.HEADER_SIZE or data[place : place + 4] != data[:4]:
            raise FormatError(f"{len(data) - place} trailing bytes", offset=place, field="log")
        debug_end += padded(chunk.header.debug_size)
        chunk = read_chunk(data, place, debug_end)
        yield chunk


def trailing_padding(data: bytes) -> int:
    """Return the number of bytes behind the last image of a log that only fill its file."""
    place = 0
    while len(data) - place >= fmt.HEADER_SIZE and data[place : place + 4] == data[:4]:
        place += read_header(data, place).size
    return max(len(data) - place, 0) if is_padding(data, place) else 0


def split_chunk(chunk: bytes) -> tuple[bytes, bytes]:
    """Split ``chunk`` into its image and the debug buffer that the device sent after it.

    Raises:
        FormatError: The chunk does not begin with a complete image.
    """
    size = read_chunk(chunk, 0, 0).size
    return chunk[:size], chunk[size:]


def without_repeated(chunks: Iterable[bytes], last: bytes) -> list[bytes]:
    """Return the chunks that the image ``last`` does not repeat.

    ``last`` is what a device still has at the end of a run, the chunk that was not acknowledged
    included.

    Raises:
        FormatError: An image has no header.
    """
    behind = read_header(last, 0).chunk
    return [chunk for chunk in chunks if read_header(chunk, 0).chunk < behind]


def join_debug_buffers(buffers: Iterable[bytes]) -> bytes:
    """Join the debug buffers of several chunks, in the order of their images."""
    joined = bytearray()
    for buffer in buffers:
        joined += bytes(padded(len(joined)) - len(joined)) + buffer
    return bytes(joined)


def padded(size: int) -> int:
    """Return the aligned size of a chunk's debug buffer in the joined buffer, bytes."""
    return size + -size % fmt.PAYLOAD_ALIGNMENT


def read_chunk(data: bytes, place: int, debug_start: int) -> Chunk:
    """Read the image at ``place``.

    Its debug buffer begins at ``debug_start`` of the log's joined debug buffer.

    Raises:
        FormatError: The image is invalid.
    """
    header = read_header(data, place)
    start = place + fmt.HEADER_SIZE
    names_start = start + header.record_count * fmt.RECORD_SIZE
    end = place + header.size
    if end > len(data):
        raise FormatError(
            f"log is truncated: {end} bytes announced, {len(data)} present",
            offset=len(data),
            field="records or names",
        )
    names = _read_names(data, names_start, end, header.name_count)
    records = read_records(data, start, header.record_count, header.name_count)
    return Chunk(
        place,
        end - place,
        header,
        names,
        records,
        _count_carried(records, header),
        read_values(records, header.debug_size, debug_start),
    )


def log_header(
    *,
    full: bool,
    record_count: int,
    name_count: int,
    names_size: int,
    dropped_events: int,
    dropped_blocks: int,
    filtered_events: int,
    chunk: int,
    first_record: int,
) -> bytes:
    """Return a header with these counts, for a log without one."""
    return _HEADER.pack(
        *(fmt.MAGIC, fmt.VERSION, fmt.RECORD_SIZE, fmt.HEADER_SIZE, fmt.FLAG_FULL * full),
        *(record_count, name_count, 0, names_size, dropped_events, dropped_blocks),
        *(filtered_events, 0, 0, chunk, first_record, 0, 0, 0),
    )


def read_header(data: bytes, place: int) -> LogHeader:
    """Read the header of the image at ``place``.

    Raises:
        FormatError: The header is missing, or of an unsupported version.
    """
    if len(data) - place < fmt.HEADER_SIZE:
        raise FormatError(
            f"log of {len(data) - place} bytes is shorter than its header",
            offset=place,
            field="header",
        )
    magic, version, record_size, header_size, flags, *counts = _HEADER.unpack_from(data, place)
    expected = [
        ("magic", 0, magic, fmt.MAGIC),
        ("version", 4, version, fmt.VERSION),
        ("record size", 5, record_size, fmt.RECORD_SIZE),
        ("header size", 6, header_size, fmt.HEADER_SIZE),
        ("flags", 8, flags & ~fmt.FLAG_FULL, 0),
    ]
    for field, offset, value, wanted in expected:
        if value != wanted:
            raise FormatError(
                f"{value:#x}, expected {wanted:#x}", offset=place + offset, field=field
            )
    return LogHeader(*(*counts, bool(flags & fmt.FLAG_FULL)))


def _read_names(data: bytes, position: int, end: int, count: int) -> tuple[str, ...]:
    """Return the interned names by id. In the image, they are stored newest first."""
    names: list[str] = []
    for number in reversed(range(count)):
        behind = position + 1 + data[position] if position < end else end + 1
        if behind > end:
            raise FormatError("name runs past the end", offset=position, field=f"name {number}")
        names.append(data[position + 1 : behind].decode("utf-8", "surrogateescape"))
        position = behind
    if position != end:
        raise FormatError(
            f"{end - position} bytes after the last name", offset=position, field="names"
        )
    names.reverse()
    return tuple(names)


def _count_carried(records: Records, header: LogHeader) -> int:
    """Count the copied records; they must be at the start, and not in the first chunk."""
    *declared, blocks = (
        records.numbers(kind)[(records.all_of(kind)["flags"] & fmt.CARRIED) != 0]
        for kind in (*DECLARATIONS, Record.BLOCK)
    )
    declarations = np.sort(np.concatenate(declared))
    carried = np.concatenate([declarations, blocks])
    bad = carried != np.arange(len(carried))
    bad |= header.chunk == 0
    bad[len(declarations) + 1 :] = True  # at most one block continues from the previous chunk
    records.refuse(bad, carried, 1, "flags", "copied record in a wrong position")
    return len(carried)


def _join(chunks: Sequence[Chunk], damage: list[Damage] | None) -> TracerLog:
    """Join the chunks of one tracer, given in order."""
    joined = _Joined(may_be_cut=damage is not None)
    names: tuple[str, ...] = ()
    taken: list[Chunk] = []
    for chunk in chunks:
        try:
            names = _common_names(chunk, names)
            joined.add(chunk)
        except FormatError as error:
            if damage is None or not taken:
                raise
            damage.append(Damage.of(error, None))
        else:
            taken.append(chunk)
        if damage is not None and joined.cut_before:
            lost = f"misses {joined.cut_before} records before it"
            damage.append(Damage.of(_chunk_error(chunk, 48, "first record", lost), None))
    chunks = taken
    last = chunks[-1].header  # its counters are totals since the first chunk
    return TracerLog(
        tracer=last.tracer,
        names=names,
        records=joined.records(),
        numbers=np.concatenate(joined.numbers),
        values=[value for chunk in chunks for value in chunk.values],
        losses=Losses(
            events=last.dropped_events,
            blocks=last.dropped_blocks,
            values=last.dropped_values,
            runs=last.dropped_runs,
            chunks=joined.lost_chunks,
            records=joined.lost_records,
        ),
        filtered_events=last.filtered_events,
        stack=Stack(last.tracer, last.stack_used, last.stack_size) if last.stack_used else None,
        full=_filled_up(chunks),
    )


def _filled_up(chunks: Sequence[Chunk]) -> bool:
    """Whether a log filled up once, after its last record.

    A log that is read while it is written, or that gives up its oldest runs, goes on after it was
    full; then losses lie between records.
    """
    *earlier, last = (chunk.header for chunk in chunks)
    before = any(header.dropped_events or header.dropped_blocks for header in earlier)
    dropped = last.dropped_events or last.dropped_blocks
    return last.full and bool(dropped) and not before and not last.dropped_runs


def _common_names(chunk: Chunk, names: tuple[str, ...]) -> tuple[str, ...]:
    """Merge the names of a chunk with those of earlier chunks, which it has to repeat."""
    known = chunk.names
    both = list(zip(names, known, strict=False))
    if len(known) < len(names) or any(a != b and LOST_NAME not in (a, b) for a, b in both):
        raise _chunk_error(chunk, 16, "names", "does not repeat the names of earlier chunks")
    return (*(b if a == LOST_NAME else a for a, b in both), *known[len(names) :])


class _Joined:
    """Accumulates the records of chunks; with ``may_be_cut``, chunks may be truncated."""

    def __init__(self, *, may_be_cut: bool) -> None:
        self._may_be_cut = may_be_cut
        self.numbers: list[Ints] = []
        self.lost_chunks = self.lost_records = self.cut_before = 0
        self._parts: list[Records] = []
        self._next_chunk = self._next_record = 0
        self._declared = dict.fromkeys(DECLARATIONS, 0)  # so far
        self._length = 0
        self._block: int | None = None  # index of the current block's record
        self._amended: dict[int, int] = {}  # bundled input index from a later copy, by block

    def add(self, chunk: Chunk) -> None:
        """Append a chunk; count missing chunks and records before it."""
        header, records = chunk.header, chunk.records
        follows = header.chunk == self._next_chunk
        gap = header.first_record - self._next_record
        self.cut_before = gap if follows and self._may_be_cut else 0
        follows = follows and not self.cut_before
        if gap < 0 or (gap and follows):
            raise _chunk_error(chunk, 48, "first record", "does not continue the previous chunk")
        self.lost_chunks += header.chunk - self._next_chunk
        self.lost_records += gap
        self._next_chunk, self._next_record = header.chunk + 1, chunk.next_record

        kept = ~self._known(chunk, follows)
        part = Records.of(records.raw[kept], records.kinds[kept], records.places[kept])
        self._parts.append(part)
        order = np.maximum(np.arange(len(records)) - chunk.carried, 0)
        self.numbers.append(header.first_record + order[kept])
        blocks = part.numbers(Record.BLOCK)
        self._block = self._length + int(blocks[-1]) if len(blocks) else self._block
        for kind, count in self._declared.items():
            self._declared[kind] = max(count, len(records.numbers(kind)))
        self._length += len(part)

    def _known(self, chunk: Chunk, follows: bool) -> Bools:
        """Return a mask of the chunk's records that are copies of present records."""
        records, carried = chunk.records, chunk.carried
        known = np.zeros(len(records), np.bool_)
        for kind, count in self._declared.items():
            copies = np.flatnonzero(records.kinds[:carried] == kind)
            known[copies[:count]] = True
        if carried and records.kinds[carried - 1] == Record.BLOCK and follows:
            if self._block is None:
                raise _chunk_error(chunk, fmt.HEADER_SIZE, "BLOCK", "continues an unknown block")
            copy = records.view(np.array([carried - 1]), BLOCK)
            self._amended[self._block] = int(copy["bundled_input_index"][0])
            known[carried - 1] = True
        return known

    def records(self) -> Records:
        """Return all records."""
        raw = np.concatenate([part.raw for part in self._parts])
        for record, index in self._amended.items():
            raw[record : record + 1].view(BLOCK)[0]["bundled_input_index"] = index
        return Records.of(
            raw,
            np.concatenate([part.kinds for part in self._parts]),
            np.concatenate([part.places for part in self._parts]),
        )
