"""The chunks of a device log: reading each alone, and putting those of a tracer together."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import Record
from harness.decode.device_log_records import BLOCK, Bools, Ints, Records, read_records, read_values
from harness.errors import FormatError
from harness.records.trace import Damage, DebugValue, Losses, Stack

LOST_NAME = "\udc00"
"""In place of a name that a damaged log has lost; no bytes become this character."""

_HEADER = struct.Struct("<IBBHIIHHIIIIIIIIIII")


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What the header of an image says; see ``schema/compact_log.toml``."""

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


@dataclass(frozen=True, slots=True)
class Chunk:
    """One image, consistent in itself.

    Attributes:
        place: Offset of the image in the file.
        size: Its size in bytes.
        header: Its header.
        names: Interned names, by id.
        records: All its records.
        carried: How many of these, at the start, are copies of earlier chunks' records.
        values: What its VALUE records hold; payloads are where the chunk's place in the file
            puts them.
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
    """All that is there of one tracer's log.

    Attributes:
        tracer: The tracer's number.
        names: Interned names, by id.
        records: Its records, without copies of records that are there themselves.
        numbers: Number of each record in the log; copies of records that are not there have the
            number of the record behind them.
        values: Values, of the VALUE records in order.
        losses: What is missing.
        filtered_events: Events left out by choice.
        stack: Stack use; None when unknown.
    """

    tracer: int
    names: tuple[str, ...]
    records: Records
    numbers: Ints
    values: list[DebugValue]
    losses: Losses
    filtered_events: int
    stack: Stack | None


def read_tracer_logs(data: bytes) -> list[TracerLog]:
    """Read the images in ``data`` and put together what each tracer logged, by tracer number.

    Raises:
        FormatError: An image contradicts the format or itself, or images contradict each other.
    """
    return join_chunks(read_chunks(data))


def join_chunks(chunks: Iterable[Chunk], damage: list[Damage] | None = None) -> list[TracerLog]:
    """Put together what each tracer logged, by tracer number.

    Args:
        chunks: In any order.
        damage: None makes every contradiction an error. A list gets the chunks that contradict
            others and were left out; chunks may end before they should, then.

    Raises:
        FormatError: Chunks contradict each other, and ``damage`` is None.
    """
    tracers: dict[int, dict[int, Chunk]] = {}
    for chunk in chunks:
        header = chunk.header
        known = tracers.setdefault(header.tracer, {})
        if header.chunk in known:
            error = _chunk_error(chunk, 44, "chunk number", "is there twice")
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
    """Read image after image; there is one at least."""
    chunk = read_chunk(data, 0, 0)
    debug_end = 0
    yield chunk
    while (place := chunk.place + chunk.size) < len(data):
        if len(data) - place < fmt.HEADER_SIZE or data[place : place + 4] != data[:4]:
            raise FormatError(f"{len(data) - place} trailing bytes", offset=place, field="log")
        debug_end += padded(chunk.header.debug_size)
        chunk = read_chunk(data, place, debug_end)
        yield chunk


def split_chunk(chunk: bytes) -> tuple[bytes, bytes]:
    """Tell the image in ``chunk`` from the debug buffer that the device sent behind it.

    Raises:
        FormatError: It does not begin with a whole image.
    """
    size = read_chunk(chunk, 0, 0).size
    return chunk[:size], chunk[size:]


def join_debug_buffers(buffers: Iterable[bytes]) -> bytes:
    """Put the debug buffers of several chunks together, in the order of their images."""
    joined = bytearray()
    for buffer in buffers:
        joined += bytes(padded(len(joined)) - len(joined)) + buffer
    return bytes(joined)


def padded(size: int) -> int:
    """Bytes that a chunk's debug buffer takes among those of others."""
    return size + -size % fmt.PAYLOAD_ALIGNMENT


def read_chunk(data: bytes, place: int, debug_start: int) -> Chunk:
    """Read the image at ``place``; its debug buffer begins at ``debug_start`` of that of the log.

    Raises:
        FormatError: The image contradicts the format or itself.
    """
    header = read_header(data, place)
    start = place + fmt.HEADER_SIZE
    names_start = start + header.record_count * fmt.RECORD_SIZE
    end = names_start + header.names_size
    if end > len(data):
        raise FormatError(
            f"log is truncated: {end} bytes announced, {len(data)} there",
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
    """Return the header of a log with these counts, for one whose own header is lost."""
    return _HEADER.pack(
        *(fmt.MAGIC, fmt.VERSION, fmt.RECORD_SIZE, fmt.HEADER_SIZE, fmt.FLAG_FULL * full),
        *(record_count, name_count, 0, names_size, dropped_events, dropped_blocks),
        *(filtered_events, 0, 0, chunk, first_record, 0, 0, 0),
    )


def read_header(data: bytes, place: int) -> LogHeader:
    """Read the header of the image at ``place``.

    Raises:
        FormatError: There is none, or one of another version.
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
                f"{value:#x} instead of {wanted:#x}", offset=place + offset, field=field
            )
    return LogHeader(*counts)


def _read_names(data: bytes, position: int, end: int, count: int) -> tuple[str, ...]:
    """The interned names, by id. The image has them newest first."""
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
    """Copies stand at the start, and not in the first chunk."""
    copies = []
    for kind in (Record.ALLOCATOR, Record.BLOCK):
        numbers = records.numbers(kind)
        copies.append(numbers[(records.all_of(kind)["flags"] & fmt.CARRIED) != 0])
    allocators, blocks = copies
    carried = np.concatenate(copies)
    bad = carried != np.arange(len(carried))
    bad |= header.chunk == 0
    bad[len(allocators) + 1 :] = True  # one block goes on at most
    records.refuse(bad, carried, 1, "flags", "no place for a copy")
    return len(allocators) + len(blocks)


def _join(chunks: Sequence[Chunk], damage: list[Damage] | None) -> TracerLog:
    """Put the chunks of one tracer, in order, together."""
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
            lost = f"{joined.cut_before} records before it are not there"
            damage.append(Damage.of(_chunk_error(chunk, 48, "first record", lost), None))
    chunks = taken
    last = chunks[-1].header  # what it counts, it counts from the first chunk on
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
    )


def _common_names(chunk: Chunk, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a chunk, which has all of those before it, and those that either has lost."""
    known = chunk.names
    both = list(zip(names, known, strict=False))
    if len(known) < len(names) or any(a != b and LOST_NAME not in (a, b) for a, b in both):
        raise _chunk_error(chunk, 16, "names", "does not have the names of earlier ones")
    return (*(b if a == LOST_NAME else a for a, b in both), *known[len(names) :])


class _Joined:
    """Records of chunks, one chunk after the other; with ``may_be_cut`` their ends may be lost."""

    def __init__(self, *, may_be_cut: bool) -> None:
        self._may_be_cut = may_be_cut
        self.numbers: list[Ints] = []
        self.lost_chunks = self.lost_records = self.cut_before = 0
        self._parts: list[Records] = []
        self._next_chunk = self._next_record = 0
        self._allocators = 0  # declared so far
        self._length = 0
        self._block: int | None = None  # which record the current block's is
        self._amended: dict[int, int] = {}  # bundled input index of blocks that a copy corrects

    def add(self, chunk: Chunk) -> None:
        """Append a chunk; count what is missing before it."""
        header, records = chunk.header, chunk.records
        follows = header.chunk == self._next_chunk
        gap = header.first_record - self._next_record
        self.cut_before = gap if follows and self._may_be_cut else 0
        follows = follows and not self.cut_before
        if gap < 0 or (gap and follows):
            raise _chunk_error(chunk, 48, "first record", "does not begin where the last one ends")
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
        self._allocators = max(self._allocators, len(records.numbers(Record.ALLOCATOR)))
        self._length += len(part)

    def _known(self, chunk: Chunk, follows: bool) -> Bools:
        """Which of the chunk's records are copies of records that are there."""
        records, carried = chunk.records, chunk.carried
        known = np.zeros(len(records), np.bool_)
        allocators = int(np.count_nonzero(records.kinds[:carried] == Record.ALLOCATOR))
        known[: min(allocators, self._allocators)] = True
        if carried > allocators and follows:
            if self._block is None:
                raise _chunk_error(chunk, fmt.HEADER_SIZE, "BLOCK", "goes on with an unknown block")
            copy = records.view(np.array([carried - 1]), BLOCK)
            self._amended[self._block] = int(copy["bundled_input_index"][0])
            known[carried - 1] = True
        return known

    def records(self) -> Records:
        """All records together."""
        raw = np.concatenate([part.raw for part in self._parts])
        for record, index in self._amended.items():
            raw[record : record + 1].view(BLOCK)[0]["bundled_input_index"] = index
        return Records.of(
            raw,
            np.concatenate([part.kinds for part in self._parts]),
            np.concatenate([part.places for part in self._parts]),
        )
