"""Chunks of a device log: reads and checks their records, and joins the chunks of a tracer."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import Record, Value
from harness.errors import FormatError
from harness.files import is_padding
from harness.records.trace import (
    STORED_AS,
    Damage,
    DebugValue,
    HardwareCounter,
    Losses,
    Stack,
    TensorValue,
)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def _layout(**fields: str) -> np.dtype[np.void]:
    """Return a record of these fields behind its kind; all records are RECORD_SIZE bytes."""
    return np.dtype([("kind", "u1"), *fields.items()])


_LAYOUTS = {
    Record.PROFILE: _layout(
        clock="u1", name="<u2", instruction="<u2", chain="<i2", start="<u4", end="<u4"
    ),
    Record.BLOCK: _layout(
        flags="u1", name="<u2", zero1="<u4", bundled_input_index="<i4", zero2="<u4"
    ),
    Record.ALLOCATOR: _layout(flags="u1", name="<u2", id="<u4", zero1="<u4", zero2="<u4"),
    Record.ALLOCATION: _layout(flags="u1", allocator="<u2", tick="<u4", size="<i4", offset="<u4"),
    # The instruction is u32 in the log; ETDump's int32 holds the same bits.
    Record.WIDE: _layout(zero="u1", zero1="<u2", chain="<i4", instruction="<i4", zero2="<u4"),
    Record.DELEGATE: _layout(flags="u1", name="<u2", id="<i4", length="<u4", zero="<u4"),
    Record.VALUE: _layout(
        type="u1", count="<u2", instruction="<u2", chain="<i2", start="<u4", end="<u4"
    ),
    Record.COUNTS: _layout(first="u1", zero="<u2", counts=f"{fmt.COUNTS_PER_RECORD}<u4"),
    Record.SWITCH: _layout(flags="u1", name="<u2", tick="<u4", number="<u4", zero="<u4"),
    Record.MARK: _layout(zero="u1", name="<u2", tick="<u4", zero1="<u4", zero2="<u4"),
    Record.SAMPLE: _layout(flags="u1", name="<u2", tick="<u4", value="<i4", zero="<u4"),
    Record.COUNTER: _layout(flags="u1", name="<u2", bits="<u4", inside="<u4", around="<u4"),
    Record.COUNTING: _layout(flags="u1", events="<u2", start="<u4", end="<u4", zero="<u4"),
    Record.CLOCK: _layout(flags="u1", high="<u2", hz="<u4", own="<u4", low="<u4"),
}
"""One record seen as each of its kinds."""

INSTANTS = (Record.SWITCH, Record.MARK, Record.SAMPLE)
"""Kinds of records of events that only have a name, an instant and a level."""

_EVENTS = (Record.PROFILE, Record.ALLOCATION, Record.VALUE, *INSTANTS)
_FOLLOWERS = {
    Record.WIDE: (Record.PROFILE, Record.DELEGATE, Record.VALUE),
    Record.DELEGATE: (Record.PROFILE, Record.VALUE),
}
"""Kinds of records that may follow a prefix record and its payload."""

_FLAGS = {
    Record.BLOCK: fmt.CARRIED,
    Record.ALLOCATOR: fmt.CARRIED,
    Record.COUNTER: fmt.CARRIED,
    Record.COUNTING: fmt.CARRIED,
    Record.CLOCK: fmt.CARRIED,
    Record.ALLOCATION: fmt.ALLOCATION_FAILED,
    Record.SWITCH: fmt.SWITCH_BEGINS | fmt.SWITCH_INTERRUPT,
    Record.SAMPLE: fmt.SAMPLE_FLOAT,
    Record.DELEGATE: fmt.DELEGATE_METADATA,
}
DECLARATIONS = (Record.ALLOCATOR, Record.COUNTER, Record.COUNTING, Record.CLOCK)
"""Kinds of records that every chunk repeats."""

_COUNTER_BITS = 32
_MOST_COUNTERS = 255
_PER_RECORD = fmt.COUNTS_PER_RECORD

_PAYLOAD, _UNKNOWN = 0, 255
"""Pseudo-kinds: payload bytes of an earlier record, and an unknown kind."""


_NUMBERS = {Value.INT: "<q8x", Value.DOUBLE: "<d8x", Value.BOOL: "<?15x"}


_LARGEST_TYPE = 127
"""Largest scalar type: ExecuTorch and ED00 files store them as signed bytes."""


_TENSOR = struct.Struct("<BBHIII")


@dataclass(frozen=True, slots=True)
class Records:
    """Checked records of one tracer, from one or several chunks.

    Attributes:
        raw: Their bytes, shape (n, RECORD_SIZE).
        kinds: Kind per record, 0 for payload bytes of an earlier record.
        places: Offset of each record in the file.
        rows: Number of events before each record: the row of an event, or of the event after a
            prefix record.
        events: Indices of the records that are events.
    """

    raw: Bytes
    kinds: Bytes
    places: Ints
    rows: Ints
    events: Ints

    @classmethod
    def of(cls, raw: Bytes, kinds: Bytes, places: Ints) -> Records:
        """Create the object, and compute ``rows`` and ``events``."""
        is_event = np.isin(kinds, _EVENTS)
        rows: Ints = np.cumsum(is_event) - is_event
        return cls(raw, kinds, places, rows, np.flatnonzero(is_event))

    def __len__(self) -> int:
        """Number of records."""
        return len(self.kinds)

    def numbers(self, kind: Record) -> Ints:
        """Return the indices of the records of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def all_of(self, kind: Record) -> np.ndarray:
        """Return all records of a kind as a structured array."""
        return self.raw[self.numbers(kind)].view(_LAYOUTS[kind])[:, 0]

    def refuse(self, bad: Bools, numbers: Ints, within: int, field: str, message: str) -> None:
        """Raise for the first of the records ``numbers`` that is ``bad``.

        ``within`` is the offset of the field in its record.
        """
        if bad.any():
            record = int(numbers[np.argmax(bad)])
            raise _record_error(record, int(self.places[record]) + within, field, message)


def read_records(data: bytes, start: int, count: int, name_count: int) -> Records:
    """Read and check the ``count`` records at ``start``.

    Raises:
        FormatError: A record is invalid or contradicts another.
    """
    raw = np.frombuffer(data, np.uint8, count * fmt.RECORD_SIZE, start)
    raw = raw.reshape(-1, fmt.RECORD_SIZE)
    places = start + fmt.RECORD_SIZE * np.arange(count, dtype=np.int64)
    records = Records.of(raw, _mark_payloads(raw, start), places)
    unknown = records.kinds == _UNKNOWN
    records.refuse(unknown, np.arange(count), 0, "kind", "unknown record kind")
    _check_fields(records, name_count)
    _check_declarations(records)
    _check_counts(records)
    return records


def check_clocks(records: Records, count: int) -> None:
    """Check that all clock numbers are below ``count``.

    Raises:
        FormatError: A clock number is unknown.
    """
    numbers = records.all_of(Record.PROFILE)["clock"]
    profiles = records.numbers(Record.PROFILE)
    records.refuse(numbers >= count, profiles, 1, "PROFILE clock", "unknown clock domain")


def read_values(records: Records, debug_size: int, base: int) -> list[DebugValue]:
    """Decode the values among ``records``, in log order.

    Args:
        records: The records of one chunk.
        debug_size: Size of the chunk's debug buffer, for checking offsets, bytes.
        base: Offset of that buffer in the debug buffer of the whole log.

    Raises:
        FormatError: A value's content does not match its record.
    """
    values = []
    numbers = records.numbers(Record.VALUE)
    rows = records.all_of(Record.VALUE)[["type", "count"]].tolist()
    for number, (type_, count) in zip(numbers.tolist(), rows, strict=True):
        content = records.raw[number + 1 : number + 1 + count].tobytes()
        values.append(_Content(records, number, content, debug_size, base).value(type_))
    return values


def _record_error(record: int, offset: int, field: str, message: str) -> FormatError:
    return FormatError(f"{message}: record {record}", offset=offset, field=field)


def _mark_payloads(raw: Bytes, start: int) -> Bytes:
    """Return the kind of every record, with payload records (metadata, values) marked.

    Payload bytes can look like any record, so the few records with a payload are visited in order.
    """
    kinds = raw[:, 0].copy()
    kinds[~np.isin(kinds, list(Record))] = _UNKNOWN
    owners = np.flatnonzero((kinds == Record.DELEGATE) | (kinds == Record.VALUE))
    lengths = raw[owners].view(_LAYOUTS[Record.DELEGATE])[:, 0]["length"].astype(np.int64)
    contents = raw[owners].view(_LAYOUTS[Record.VALUE])[:, 0]["count"]
    counts = np.where(kinds[owners] == Record.DELEGATE, -(-lengths // fmt.RECORD_SIZE), contents)
    owners, counts = owners[counts > 0], counts[counts > 0]
    end = 0
    for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
        if owner >= end:
            end = owner + 1 + count
            if end > len(kinds):
                at = start + fmt.RECORD_SIZE * owner
                if raw[owner, 0] == Record.VALUE:
                    raise _record_error(owner, at + 2, "VALUE count", "content runs past the end")
                raise _record_error(owner, at + 8, "DELEGATE length", "metadata runs past the end")
            kinds[owner + 1 : end] = _PAYLOAD
    return kinds


def _check_fields(records: Records, name_count: int) -> None:
    """Check each record by itself, and that every prefix record is followed by its event."""
    for kind, layout in _LAYOUTS.items():
        numbers, values = records.numbers(kind), records.all_of(kind)
        for column in layout.names or ():
            within = layout.fields[column][1]  # type: ignore[index]
            if column.startswith("zero"):
                field = f"{kind.name} reserved"
                records.refuse(values[column] != 0, numbers, within, field, "not zero")
            elif column == "name":
                bad = (values[column] >= name_count) & (values[column] != fmt.NO_NAME)
                records.refuse(bad, numbers, within, f"{kind.name} name", "name id out of range")
        if kind in _FLAGS:
            unknown = (values["flags"] & ~np.uint8(_FLAGS[kind])) != 0
            records.refuse(unknown, numbers, 1, f"{kind.name} flags", "unknown flag")
    numbers, switches = records.numbers(Record.SWITCH), records.all_of(Record.SWITCH)
    bad = (switches["name"] != fmt.NO_NAME) & (switches["number"] != 0)
    records.refuse(bad, numbers, 8, "SWITCH number", "number beside a name")
    for kind, allowed in _FOLLOWERS.items():
        numbers = records.numbers(kind)
        behind = numbers + 1
        if kind is Record.DELEGATE:
            delegates = records.all_of(kind)
            behind += -(-delegates["length"].astype(np.int64) // fmt.RECORD_SIZE)
            bad = (delegates["flags"] == 0) & (delegates["length"] != 0)
            records.refuse(bad, numbers, 8, "DELEGATE length", "length without metadata")
        alone = ~np.isin(np.append(records.kinds, _PAYLOAD)[behind], allowed)
        records.refuse(alone, numbers, 0, kind.name, "no event follows")


def _check_declarations(records: Records) -> None:
    """Check allocators, counters and the tracer's clock.

    The ids of allocators count from 1 in order, and are declared before their use. Counters have a
    name of their own and a width, are not too many, and were measured once. A log whose counters
    were joined from several runs has more than one run can read.
    """
    declared = records.numbers(Record.ALLOCATOR)
    ids = records.all_of(Record.ALLOCATOR)["id"]
    bad = ids != np.arange(1, len(ids) + 1)
    records.refuse(bad, declared, 4, "ALLOCATOR id", "allocator id out of order")

    used = records.numbers(Record.ALLOCATION)
    allocations = records.all_of(Record.ALLOCATION)
    known = np.searchsorted(declared, used)  # allocators declared before each allocation
    bad = (allocations["allocator"] == 0) | (allocations["allocator"] > known)
    records.refuse(bad, used, 2, "ALLOCATION allocator", "allocator was not declared")

    numbers, counters = records.numbers(Record.COUNTER), records.all_of(Record.COUNTER)
    many = np.arange(len(numbers)) >= _MOST_COUNTERS
    records.refuse(many, numbers, 0, "COUNTER", f"more than {_MOST_COUNTERS} counters")
    names = counters["name"]
    repeated = np.ones(len(names), np.bool_)
    repeated[np.unique(names, return_index=True)[1]] = False
    bad = repeated | (names == fmt.NO_NAME)
    records.refuse(bad, numbers, 2, "COUNTER name", "no name of its own")
    bad = (counters["bits"] < 1) | (counters["bits"] > _COUNTER_BITS)
    records.refuse(bad, numbers, 4, "COUNTER bits", "no width of a counter")

    measured, costs = records.numbers(Record.COUNTING), records.all_of(Record.COUNTING)
    records.refuse(np.arange(len(costs)) > 0, measured, 0, "COUNTING", "measured twice")
    records.refuse(costs["events"] == 0, measured, 2, "COUNTING events", "measured no event")

    rates = records.all_of(Record.CLOCK)["hz"]
    bad = rates != rates[:1]
    records.refuse(bad, records.numbers(Record.CLOCK), 4, "CLOCK rate", "not the earlier rate")


def _check_counts(records: Records) -> None:
    """Check that counts follow a profile event, and are of all counters, which are declared."""
    numbers, counts = records.numbers(Record.COUNTS), records.all_of(Record.COUNTS)
    declared = records.numbers(Record.COUNTER)
    known = np.searchsorted(declared, numbers)
    first = counts["first"].astype(np.int64)
    bad = (first >= known) | (known != len(declared)) | (first % _PER_RECORD != 0)
    records.refuse(bad, numbers, 1, "COUNTS first", "counter was not declared")

    # Before each record: the event, or the previous counters' counts; behind it the next ones'.
    kinds = np.concatenate([[_PAYLOAD], records.kinds, [_PAYLOAD]])
    firsts = np.full(len(records) + 2, -1, np.int64)
    firsts[numbers + 1] = first
    before, behind = firsts[numbers], firsts[numbers + 2]
    begins = first == 0
    bad = np.where(begins, kinds[numbers] != Record.PROFILE, before != first - _PER_RECORD)
    records.refuse(bad, numbers, 0, "COUNTS", "no event before")
    more = first + _PER_RECORD < len(declared)
    records.refuse(
        more & (behind != first + _PER_RECORD), numbers, 0, "COUNTS", "counts are missing"
    )

    bits = np.zeros(_MOST_COUNTERS + _PER_RECORD, np.uint64)
    bits[: len(declared)] = records.all_of(Record.COUNTER)["bits"]
    widths = bits[first[:, None] + np.arange(_PER_RECORD)]
    wide = (counts["counts"].astype(np.uint64) >> widths) != 0
    records.refuse(wide.any(axis=1), numbers, 4, "COUNTS count", "wider than its counter")


class _Content:
    """Parses the content records after one VALUE record."""

    def __init__(
        self, records: Records, number: int, content: bytes, debug_size: int, base: int
    ) -> None:
        self.records, self.number, self.content = records, number, content
        self.debug_size, self.base = debug_size, base

    def value(self, flags: int) -> DebugValue:
        type_ = flags & fmt.VALUE_TYPE_MASK
        known = fmt.VALUE_TYPE_MASK | fmt.VALUE_IS_OUTPUT
        self.refuse(bool(flags & ~known) or type_ not in list(Value), 1, "type", "unknown type")
        output = True if flags & fmt.VALUE_IS_OUTPUT else None
        held: Any = None
        if type_ in _NUMBERS:
            layout = struct.Struct(_NUMBERS[Value(type_)])
            self.refuse(len(self.content) != layout.size, 2, "count", "not one record of content")
            [held] = layout.unpack(self.content)
            zeros = self.content.strip(b"\0") if type_ == Value.BOOL else self.content[8:]
            self.refuse(zeros not in (b"", b"\1", bytes(8)), 16, "content", "padding is not zero")
        else:
            tensors = self.tensors()
            expected = {Value.NONE: 0, Value.TENSOR: 1}.get(Value(type_), len(tensors))
            self.refuse(len(tensors) != expected, 2, "count", f"{len(tensors)} tensors")
            held = {Value.NONE: None, Value.TENSOR_LIST: tensors}.get(
                Value(type_), tensors[0] if tensors else None
            )
        return DebugValue(held, type_, output)

    def tensors(self) -> tuple[TensorValue, ...]:
        """Read tensor after tensor to the end of the content."""
        tensors, at = [], 0
        while at < len(self.content):
            dtype, ndim, zero, offset, nbytes, zero1 = _TENSOR.unpack_from(self.content, at)
            self.refuse(dtype > _LARGEST_TYPE, fmt.RECORD_SIZE + at, "scalar type", "negative")
            dims = at + fmt.RECORD_SIZE
            end = dims + -(-8 * ndim // fmt.RECORD_SIZE) * fmt.RECORD_SIZE
            within = fmt.RECORD_SIZE + at
            self.refuse(end > len(self.content), within + 1, "dimensions", "content too short")
            padding = any(self.content[dims + 8 * ndim : end])
            self.refuse(bool(zero or zero1 or padding), within + 2, "reserved", "not zero")
            shape = np.frombuffer(self.content, "<i4", 2 * ndim, dims).tolist()
            sizes, strides = tuple(shape[:ndim]), tuple(shape[ndim:])
            lost = offset == fmt.NO_OFFSET
            tensor = TensorValue(
                scalar_type=dtype,
                sizes=sizes,
                strides=strides,
                offset=-1 if lost else self.base + offset,
            )
            defect = tensor.defect
            self.refuse(bool(defect), dims + fmt.RECORD_SIZE, "sizes", defect)
            element = STORED_AS.get(dtype)
            exact = prod(sizes) * np.dtype(element).itemsize if element else None
            wrong = (nbytes == 0) != (0 in sizes) if exact is None else nbytes != exact
            self.refuse(wrong, within + 8, "bytes", "does not match the sizes")
            inside = lost or offset + nbytes <= self.debug_size
            self.refuse(not inside, within + 4, "offset", "outside the debug buffer")
            tensors.append(tensor)
            at = end
        return tuple(tensors)

    def refuse(self, bad: bool, within: int, field: str, message: str) -> None:
        numbers = np.array([self.number])
        self.records.refuse(np.array([bad]), numbers, within, f"VALUE {field}", message)


LOST_NAME = "\udc00"
"""Replaces a name that a damaged log has lost; no bytes decode to this character."""

_HEADER = struct.Struct("<IBBHIIHHIIIIIIIIIII")


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The header of an image; see ``schema/compact_log.toml``."""

    record_count: int = 0
    name_count: int = 0
    tracer: int = 0
    names_size: int = 0
    dropped_events: int = 0
    dropped_blocks: int = 0
    filtered_events: int = 0
    dropped_values: int = 0
    dropped_runs: int = 0
    chunk: int = 0
    first_record: int = 0
    debug_size: int = 0
    stack_used: int = 0
    stack_size: int = 0
    full: bool = False

    @property
    def size(self) -> int:
        """Size of the whole image in bytes."""
        return fmt.HEADER_SIZE + self.record_count * fmt.RECORD_SIZE + self.names_size

    def encode(self) -> bytes:
        """Return the header as a device sends it."""
        *counts, full = astuple(self)
        sizes = fmt.VERSION, fmt.RECORD_SIZE, fmt.HEADER_SIZE
        return _HEADER.pack(fmt.MAGIC, *sizes, fmt.FLAG_FULL * full, *counts)


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


@dataclass(frozen=True, slots=True)
class TracerLog:
    """The joined log of one tracer.

    Attributes:
        tracer: The tracer's number.
        names: Interned names, by id.
        records: Its records, without copies whose original is present.
        numbers: Number of each record in the log; a copy whose original is missing has the number
            of the next record.
        counters: Its hardware counters, in the order of their declaration.
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
    counters: list[HardwareCounter]
    values: list[DebugValue]
    losses: Losses
    filtered_events: int
    stack: Stack | None
    full: bool


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
            error.hint = "give each tracer its own number (etd_set_tracer_number)"
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
    # Copies of earlier records must be at the start, and not in the first chunk.
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
    values = read_values(records, header.debug_size, debug_start)
    return Chunk(place, end - place, header, names, records, len(carried), values)


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


def _join(chunks: Sequence[Chunk], damage: list[Damage] | None) -> TracerLog:
    """Join the chunks of one tracer, given in order."""
    joined = _Joined(may_be_cut=damage is not None)
    taken: list[Chunk] = []
    for chunk in chunks:
        try:
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
    *earlier, last = (chunk.header for chunk in taken)  # counters are totals since the first chunk
    # A log that is read while it is written, or that gives up its oldest runs, goes on after it was
    # full; then losses lie between records.
    lost_before = any(header.dropped_events or header.dropped_blocks for header in earlier)
    lost_at_end = bool(last.dropped_events or last.dropped_blocks) and not last.dropped_runs
    records, names = joined.records(), joined.names
    declared = records.all_of(Record.COUNTER)[["name", "bits", "inside", "around"]].tolist()
    return TracerLog(
        tracer=last.tracer,
        names=names,
        records=records,
        counters=[HardwareCounter(names[name], *rest) for name, *rest in declared],
        numbers=np.concatenate(joined.numbers),
        values=[value for chunk in taken for value in chunk.values],
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
        full=last.full and lost_at_end and not lost_before,
    )


class _Joined:
    """Accumulates the records of chunks; with ``may_be_cut``, chunks may be truncated."""

    def __init__(self, *, may_be_cut: bool) -> None:
        self._may_be_cut = may_be_cut
        self.names: tuple[str, ...] = ()
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
        names = list(zip(self.names, chunk.names, strict=False))
        lacks = len(chunk.names) < len(self.names)
        if lacks or any(a != b and LOST_NAME not in (a, b) for a, b in names):
            raise _chunk_error(chunk, 16, "names", "does not repeat the names of earlier chunks")
        added = chunk.names[len(self.names) :]
        self.names = (*(b if a == LOST_NAME else a for a, b in names), *added)
        follows = header.chunk == self._next_chunk
        gap = header.first_record - self._next_record
        self.cut_before = gap if follows and self._may_be_cut else 0
        follows = follows and not self.cut_before
        if gap < 0 or (gap and follows):
            raise _chunk_error(chunk, 48, "first record", "does not continue the previous chunk")
        self.lost_chunks += header.chunk - self._next_chunk
        self.lost_records += gap
        self._next_chunk = header.chunk + 1
        self._next_record = header.first_record + len(records) - chunk.carried

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
            [copy] = records.raw[carried - 1 : carried].view(_LAYOUTS[Record.BLOCK])[:, 0]
            self._amended[self._block] = int(copy["bundled_input_index"])
            known[carried - 1] = True
        return known

    def records(self) -> Records:
        """Return all records."""
        raw = np.concatenate([part.raw for part in self._parts])
        for record, index in self._amended.items():
            raw[record : record + 1].view(_LAYOUTS[Record.BLOCK])[0]["bundled_input_index"] = index
        return Records.of(
            raw,
            np.concatenate([part.kinds for part in self._parts]),
            np.concatenate([part.places for part in self._parts]),
        )
