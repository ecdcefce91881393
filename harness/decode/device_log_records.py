"""Records of a device log: layouts, consistency checks, and logged values."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import Record, Value
from harness.errors import FormatError
from harness.records.scalar_types import STORED_AS
from harness.records.values import DebugValue, TensorValue

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# One record seen as each of its kinds; all are RECORD_SIZE bytes.
PROFILE = np.dtype(
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
BLOCK = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("name", "<u2"),
        ("zero1", "<u4"),
        ("bundled_input_index", "<i4"),
        ("zero2", "<u4"),
    ]
)
ALLOCATOR = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("name", "<u2"),
        ("id", "<u4"),
        ("zero1", "<u4"),
        ("zero2", "<u4"),
    ]
)
ALLOCATION = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("allocator", "<u2"),
        ("tick", "<u4"),
        ("size", "<i4"),
        ("offset", "<u4"),
    ]
)
WIDE = np.dtype(
    [
        ("kind", "u1"),
        ("zero", "u1"),
        ("zero1", "<u2"),
        ("chain", "<i4"),
        ("instruction", "<i4"),  # u32 in the log; ETDump's int32 holds the same bits
        ("zero2", "<u4"),
    ]
)
DELEGATE = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("name", "<u2"),
        ("id", "<i4"),
        ("length", "<u4"),
        ("zero", "<u4"),
    ]
)

VALUE = np.dtype(
    [
        ("kind", "u1"),
        ("type", "u1"),
        ("count", "<u2"),
        ("instruction", "<u2"),
        ("chain", "<i2"),
        ("start", "<u4"),
        ("end", "<u4"),
    ]
)

COUNTER = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("name", "<u2"),
        ("bits", "<u4"),
        ("inside", "<u4"),
        ("around", "<u4"),
    ]
)
COUNTING = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("events", "<u2"),
        ("start", "<u4"),
        ("end", "<u4"),
        ("zero", "<u4"),
    ]
)
COUNTS = np.dtype(
    [
        ("kind", "u1"),
        ("first", "u1"),
        ("zero", "<u2"),
        ("counts", "<u4", (fmt.COUNTS_PER_RECORD,)),
    ]
)

_LAYOUTS = {
    Record.PROFILE: PROFILE,
    Record.BLOCK: BLOCK,
    Record.ALLOCATOR: ALLOCATOR,
    Record.ALLOCATION: ALLOCATION,
    Record.WIDE: WIDE,
    Record.DELEGATE: DELEGATE,
    Record.VALUE: VALUE,
    Record.COUNTS: COUNTS,
    Record.COUNTER: COUNTER,
    Record.COUNTING: COUNTING,
}
_EVENTS = (Record.PROFILE, Record.ALLOCATION, Record.VALUE)
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
    Record.ALLOCATION: fmt.ALLOCATION_FAILED,
    Record.DELEGATE: fmt.DELEGATE_METADATA,
}
DECLARATIONS = (Record.ALLOCATOR, Record.COUNTER, Record.COUNTING)
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
    """

    raw: Bytes
    kinds: Bytes
    places: Ints
    rows: Ints

    @classmethod
    def of(cls, raw: Bytes, kinds: Bytes, places: Ints) -> Records:
        """Create the object, and compute ``rows``."""
        is_event = np.isin(kinds, _EVENTS)
        return cls(raw, kinds, places, np.cumsum(is_event) - is_event)

    def __len__(self) -> int:
        """Number of records."""
        return len(self.kinds)

    def numbers(self, kind: Record) -> Ints:
        """Return the indices of the records of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def view(self, numbers: Ints, layout: np.dtype[np.void]) -> np.ndarray:
        """Return the given records as a structured array."""
        return self.raw[numbers].view(layout)[:, 0]

    def all_of(self, kind: Record) -> np.ndarray:
        """Return all records of a kind as a structured array."""
        return self.view(self.numbers(kind), _LAYOUTS[kind])

    @property
    def events(self) -> Ints:
        """Indices of the records that are events."""
        return np.flatnonzero(np.isin(self.kinds, _EVENTS))

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
    _check_flags(records)
    _check_prefixes(records)
    _check_delegates(records)
    _check_allocators(records)
    _check_counters(records)
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


def _payload_records(lengths: Ints) -> Ints:
    return -(-lengths.astype(np.int64) // fmt.RECORD_SIZE)


def _mark_payloads(raw: Bytes, start: int) -> Bytes:
    """Return the kind of every record, with payload records (metadata, values) marked.

    Payload bytes can look like any record, so the few records with a payload are visited in order.
    """
    kinds = raw[:, 0].copy()
    kinds[~np.isin(kinds, list(Record))] = _UNKNOWN
    owners = np.flatnonzero((kinds == Record.DELEGATE) | (kinds == Record.VALUE))
    lengths = _payload_records(raw[owners].view(DELEGATE)[:, 0]["length"])
    contents = raw[owners].view(VALUE)[:, 0]["count"]
    counts = np.where(kinds[owners] == Record.DELEGATE, lengths, contents)
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


def _check_flags(records: Records) -> None:
    for kind, known in _FLAGS.items():
        unknown = (records.all_of(kind)["flags"] & ~np.uint8(known)) != 0
        records.refuse(unknown, records.numbers(kind), 1, f"{kind.name} flags", "unknown flag")


def _check_prefixes(records: Records) -> None:
    """Check that every prefix record is followed by its event."""
    for kind, allowed in _FOLLOWERS.items():
        numbers = records.numbers(kind)
        behind = numbers + 1
        if kind is Record.DELEGATE:
            behind += _payload_records(records.all_of(kind)["length"])
        alone = ~np.isin(np.append(records.kinds, _PAYLOAD)[behind], allowed)
        records.refuse(alone, numbers, 0, kind.name, "no event follows")


def _check_delegates(records: Records) -> None:
    numbers, delegates = records.numbers(Record.DELEGATE), records.all_of(Record.DELEGATE)
    bad = (delegates["flags"] == 0) & (delegates["length"] != 0)
    records.refuse(bad, numbers, 8, "DELEGATE length", "length without metadata")


def _check_allocators(records: Records) -> None:
    """Check that allocator ids count from 1 in order, and are declared before their use."""
    declared = records.numbers(Record.ALLOCATOR)
    ids = records.all_of(Record.ALLOCATOR)["id"]
    bad = ids != np.arange(1, len(ids) + 1)
    records.refuse(bad, declared, 4, "ALLOCATOR id", "allocator id out of order")

    used = records.numbers(Record.ALLOCATION)
    allocations = records.all_of(Record.ALLOCATION)
    known = np.searchsorted(declared, used)  # allocators declared before each allocation
    bad = (allocations["allocator"] == 0) | (allocations["allocator"] > known)
    records.refuse(bad, used, 2, "ALLOCATION allocator", "allocator was not declared")


def _check_counters(records: Records) -> None:
    """Check that counters have a name of their own and a width, are not too many, and were measured
    once.

    A log whose counters were joined from several runs has more than one run can read.
    """
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
