"""Trace: everything a target logged, as columns, one row per event, in log order; its clocks.

Nothing is dropped or aggregated. Grouping, scaling, nesting and unwrapping
(``harness.analyze``) never change a Trace. The columns mirror ExecuTorch's
ETDump schema (``schema/etdump.fbs``), plus what the compact device log knows beyond it. Values that
debug events log have the scalar types of ExecuTorch.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from fractions import Fraction
from math import prod
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import FormatError


@dataclass(frozen=True, slots=True)
class ClockDomain:
    """A counter that timestamps events.

    Attributes:
        name: The target's name of it, such as ``systick`` or ``npu``.
        hz: Ticks per second, exact; None if unknown: durations then stay in ticks.
        bits: Width of the counter, 8 to 64.
        down: True for a counter that counts down.
        monotonic: True if no reading is earlier than the one logged before it, so every step is
            forward: from 10 to 9 it is a wrap less a tick. Otherwise a small step back is one, as
            several cores and interrupts cause.
        tolerance_ppm: Largest error of the rate, parts per million; None if it is not declared.
        wander_ppm: Largest change of the rate while a model runs, parts per million.
    """

    name: str
    hz: Fraction | None
    bits: int = 64
    down: bool = False
    monotonic: bool = False
    tolerance_ppm: float | None = None
    wander_ppm: float = 0.0

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 64:
            raise ValueError(f"clock {self.name!r}: width {self.bits} is not within 8 to 64 bits")
        if self.hz is not None and self.hz <= 0:
            raise ValueError(f"clock {self.name!r}: rate {self.hz} Hz is not positive")

    @property
    def rate(self) -> tuple[int, int]:
        """Numerator and denominator of the rate as records have them, 0/1 if it is unknown."""
        return (self.hz or Fraction(0)).as_integer_ratio()

    @property
    def modulus(self) -> int:
        """Ticks after which the counter wraps."""
        return 1 << self.bits

    def passed(self, start: int, end: int) -> int:
        """Return the ticks from one raw reading to another, less than a wrap."""
        return (start - end if self.down else end - start) % self.modulus


@dataclass(frozen=True, slots=True)
class TracerClock:
    """What the log of a tracer says of the counter that it reads.

    Attributes:
        tracer: The tracer's number.
        clock: Index of that counter in ``Trace.clocks``: 0, or a clock that no other tracer reads.
        readings: Record number, reading of this counter, and reading of clock 0 at the same time,
            which has 48 bits; in log order.
        dropped: Whether its log dropped runs for newer ones.
    """

    tracer: int
    clock: int
    readings: tuple[tuple[int, int, int], ...] = ()
    dropped: bool = False


HOST_NANOSECONDS = ClockDomain("ns", Fraction(1_000_000_000), 64)
"""The domain of 64-bit timestamps in nanoseconds, ExecuTorch's default."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A reading of the device's clock, bracketed by two readings of the host's clock.

    Attributes:
        host_before_ns: Host's monotonic clock before the request was sent, nanoseconds.
        host_after_ns: Host's monotonic clock after the response arrived, nanoseconds.
        epoch: How often the device's clock has been restarted.
        ticks: Ticks of its clock 0, as wide as the counter.
    """

    host_before_ns: int
    host_after_ns: int
    epoch: int
    ticks: int


CYCLES: Final = "cycles"
"""The counter of the core's cycles."""


@dataclass(frozen=True, slots=True)
class HardwareCounter:
    """A hardware counter that the target read at the start and at the end of events.

    Attributes:
        name: Name, such as ``instret`` or ``load_stall``; unique in a trace.
        bits: Width. The target records end minus start modulo ``2**bits``, so more counts than that
            within one event cannot be told from fewer.
        overhead: Counts of an empty event, so of the tracer in each event; 0 unknown.
        parent_overhead: Counts that an empty event adds to the event around it; 0 unknown.
    """

    name: str
    bits: int = 32
    overhead: int = field(default=0, compare=False)
    parent_overhead: int = field(default=0, compare=False)


class CounterPassesRecord(msgspec.Struct, frozen=True):
    """Several runs that together read more hardware counters than the board counts at once.

    Attributes:
        counters: The counters of each run; times are those of the first one.
        common: What all runs counted: a counter, or ``ticks`` without one.
        event_difference: Largest difference of ``common`` between runs in an event, as a share.
        event_name: The name of this event.
        execution_difference: Largest such difference in an execution.
        unmatched_events: Events without counts, because not every run has them.
    """

    counters: tuple[tuple[str, ...], ...]
    common: str
    event_difference: float
    event_name: str
    execution_difference: float
    unmatched_events: int


LARGEST_RANK: Final = 16
"""Largest number of dimensions of a tensor, as in ExecuTorch (``kTensorDimensionLimit``)."""

LARGEST_NUMEL: Final = 1 << 40
"""Largest number of elements that a logged tensor can have: no debug buffer has more bytes."""


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A logged tensor: where its bytes are in the debug buffer, and their shape.

    Attributes:
        scalar_type: ExecuTorch's number (``schema/scalar_type.fbs``).
        sizes: Elements per dimension.
        strides: Strides in elements, per dimension.
        offset: Byte offset in the debug buffer; -1 if the target had no room for the bytes, or the
            tensor is empty.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def lost(self) -> bool:
        """True if its bytes were lost."""
        return self.offset < 0 and 0 not in self.sizes

    @property
    def defect(self) -> str:
        """Why no tensor has these sizes and strides; "" if one can.

        Elements of a tensor do not share memory, so its size in memory bounds their number.
        """
        sizes, strides = self.sizes, self.strides
        if len(sizes) != len(strides):
            return f"{len(sizes)} sizes, but {len(strides)} strides"
        if len(sizes) > LARGEST_RANK:
            return f"{len(sizes)} dimensions, more than {LARGEST_RANK}"
        if min(sizes, default=0) < 0:
            return f"negative size in {sizes}"
        if prod(max(size, 1) for size in sizes) > LARGEST_NUMEL:
            return f"impossibly large: sizes {sizes}"
        steps = [(size, step) for size, step in zip(sizes, strides, strict=True) if size > 1]
        if min((step for _, step in steps), default=1) < 1:
            return f"stride below 1 in {strides}"
        reach = 1 + sum((size - 1) * step for size, step in steps)
        return f"elements overlap: sizes {sizes}, strides {strides}" if reach < prod(sizes) else ""


@dataclass(frozen=True, slots=True)
class DebugValue:
    """The value a debug event logged.

    Attributes:
        value: A tensor, a list of tensors, a number, a bool, or None for Null.
        type: ETDump's ValueType number, which tells Float from Double.
        output: True when it is an output of the program.
    """

    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    type: int
    output: bool | None = None

    @property
    def lost(self) -> bool:
        """True if bytes of it were lost."""
        tensors = self.value if isinstance(self.value, tuple) else (self.value,)
        return any(isinstance(tensor, TensorValue) and tensor.lost for tensor in tensors)

    def same(self, other: DebugValue) -> bool:
        """Equality with floats compared bit by bit: nan equals itself, -0.0 is not 0.0."""
        mine, yours = self.value, other.value
        if isinstance(mine, float) and isinstance(yours, float):
            equal = struct.pack("<d", mine) == struct.pack("<d", yours)
        else:
            equal = mine == yours
        return equal and (self.type, self.output) == (other.type, other.output)


BFLOAT16: Final = 15
"""The upper half of a float32; NumPy has no such type."""

NUMPY_TYPES: Final[dict[int, type[np.generic]]] = {
    0: np.uint8,
    1: np.int8,
    2: np.int16,
    3: np.int32,
    4: np.int64,
    5: np.float16,
    6: np.float32,
    7: np.float64,
    11: np.bool_,
    27: np.uint16,
    28: np.uint32,
    29: np.uint64,
}
"""Scalar types that NumPy has."""

_OF_DTYPE: Final = {np.dtype(type_): number for number, type_ in NUMPY_TYPES.items()}

_OTHERS: Final[dict[int, tuple[str, type[np.generic]]]] = {
    12: ("qint8", np.int8),
    13: ("quint8", np.uint8),
    14: ("qint32", np.int32),
    BFLOAT16: ("bfloat16", np.uint16),
    16: ("quint4x2", np.uint8),
    17: ("quint2x4", np.uint8),
    22: ("bits16", np.uint16),
    23: ("float8_e5m2", np.uint8),
    24: ("float8_e4m3fn", np.uint8),
    25: ("float8_e5m2fnuz", np.uint8),
    26: ("float8_e4m3fnuz", np.uint8),
}
"""Types that NumPy does not have: names as PyTorch spells them, and what elements are stored as."""

STORED_AS: Final = NUMPY_TYPES | {number: stored for number, (_, stored) in _OTHERS.items()}
"""Storage types of elements, including those of types that NumPy does not have."""


def type_name(scalar_type: int) -> str:
    """Return the name of a scalar type, such as ``float32``; its number if it is unknown."""
    if scalar_type in NUMPY_TYPES:
        return np.dtype(NUMPY_TYPES[scalar_type]).name
    return _OTHERS[scalar_type][0] if scalar_type in _OTHERS else f"scalar type {scalar_type}"


def stored_bytes(scalar_type: int, sizes: Sequence[int]) -> int | None:
    """Return the bytes of a tensor with dense elements; None if the type is unknown."""
    stored = STORED_AS.get(scalar_type)
    return None if stored is None else prod(sizes) * np.dtype(stored).itemsize


def widened(stored: np.ndarray, scalar_type: int) -> np.ndarray:
    """Return elements of a storage type as numbers: those of bfloat16 as float32."""
    if scalar_type != BFLOAT16:
        return stored
    # Shifting an array without dimensions returns a scalar, which has no view().
    return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)


def tensor_array(tensor: TensorValue, debug_buffer: bytes) -> np.ndarray:
    """Return the elements of a logged tensor in its logical shape, for any strides.

    Conversion is exact. Bfloat16 becomes float32. Types that NumPy does not have (quantized types,
    8-bit floats, bit types) are returned as the integers they are stored as.

    Args:
        tensor: From ``Trace.debug_values``.
        debug_buffer: The whole debug buffer of the trace.

    Raises:
        FormatError: The target dropped the tensor's bytes, they are outside the buffer, or the
            scalar type is unknown or the shape impossible.
    """
    if tensor.lost:
        raise FormatError(
            "the target's debug buffer was full: the bytes of this tensor were dropped",
            field="debug buffer",
            hint="log fewer values or fewer runs, or give the board a larger ETD_DEBUG_CAPACITY",
        )
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="scalar type")
    if tensor.defect:
        raise FormatError(f"invalid tensor: {tensor.defect}", field="sizes")
    dtype = little_endian(STORED_AS[tensor.scalar_type])
    if 0 in tensor.sizes:
        stored = np.empty(tensor.sizes, dtype)
    else:
        reach = [(n - 1) * step for n, step in zip(tensor.sizes, tensor.strides, strict=True)]
        count = 1 + sum(reach)
        end = tensor.offset + count * dtype.itemsize
        if tensor.offset < 0 or end > len(debug_buffer):
            raise FormatError(
                f"bytes {tensor.offset} to {end} are outside the debug buffer of "
                f"{len(debug_buffer)} bytes",
                offset=tensor.offset,
                field="debug buffer",
            )
        flat = np.frombuffer(debug_buffer, dtype, count, tensor.offset)
        # The stride of a single element may be any number.
        shape = zip(tensor.sizes, tensor.strides, strict=True)
        steps = [step * dtype.itemsize if n > 1 else 0 for n, step in shape]
        stored = np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps, writeable=False)
    return widened(stored.copy(), tensor.scalar_type)


def little_endian(type_: type[np.generic]) -> np.dtype[Any]:
    """Return the little-endian dtype of elements on devices and in files."""
    return np.dtype(type_).newbyteorder("<")


def scalar_type_of(dtype: np.dtype[Any]) -> int:
    """Return the scalar type of a NumPy dtype.

    Raises:
        KeyError: No scalar type has it.
    """
    return _OF_DTYPE[dtype.newbyteorder("=")]


class Kind(IntEnum):
    """Kind of event.

    From ``TASK`` on they are instants of a device log, which an ED00 file cannot have: a task or an
    interrupt begins or ends, a mark, and a sample of a named counter.
    """

    PROFILE = 0
    ALLOCATION = 1
    DEBUG = 2
    TASK = 3
    INTERRUPT = 4
    MARK = 5
    SAMPLE = 6


OPERATOR_CALL = "OPERATOR_CALL"
"""ExecuTorch's name of the scope around each kernel."""

DELEGATE_CALL = "DELEGATE_CALL"
"""ExecuTorch's name of the scope around a delegate call."""

is_wrapper = frozenset({OPERATOR_CALL}).__contains__
"""Whether events of a name repeat the time of the kernel within them.

Tables, timelines and comparisons leave them out, and show the kernel in their place.
"""

EXECUTION = "Method::execute"
"""ExecuTorch's name of the scope of an execution."""

SUM_OF_OPERATORS = "sum of operators"
"""The name of the time of one execution in a history, of logs without ``Method::execute``."""

LOADING = ("Program::load_method", "Method::init")
"""ExecuTorch's names of the scopes of loading a method."""

SENDING, WAITING = STREAMING = ("Link::stream", "Link::wait")
"""The device's names of sending its log between operators, and of waiting for the host meanwhile.

They depend on how full a buffer is and on the host, not on the execution.
"""

NO_NAME = -1
"""Name index of an event without a name, and of a delegate without a string id."""

NO_COUNT: Final = -1
"""Count of an event for which the target recorded none."""

NO_CLOCK = 255
"""Clock index of an event without a time: in ED00 files, debug events and allocations."""


@dataclass(frozen=True, slots=True)
class Block:
    """An event block (RunData in ETDump): the events ``[first, first + count)``.

    Attributes:
        name: Name, such as ``Default`` or ``Execute``.
        first: Row of its first event.
        count: Number of its events.
        bundled_input_index: Index of the bundled input it ran, -1 for none.
        allocators: Names for its allocation events; allocator id n is ``allocators[n - 1]``. An
            allocator that stays valid is listed again in later blocks, so an id is always resolved
            within the block of its event.
    """

    name: str
    first: int
    count: int
    bundled_input_index: int = -1
    allocators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyEvents:
    """Empty events that a tracer timed before a run, while its hardware counters were read.

    Attributes:
        count: Number of events, one after the other.
        ticks: Ticks of clock 0 from the first to the last, so with all that a tracer does for them.
    """

    count: int
    ticks: int

    @property
    def cost(self) -> Fraction:
        """Ticks of one event."""
        return Fraction(self.ticks, self.count)


@dataclass(frozen=True, slots=True)
class Losses:
    """What the target could not record. All zero means the log is complete.

    Attributes:
        events: Events dropped.
        blocks: Block and allocator declarations dropped.
        values: Values dropped, or recorded without their bytes.
        runs: Blocks dropped for newer ones, because of the run options.
        chunks: Missing chunks of the log, as far as later ones show it.
        records: Records in the missing chunks: events, their prefixes and payloads.
        damaged: Events lost in a damaged file, plus one for each damaged part with an unknown
            number of events.
    """

    events: int = 0
    blocks: int = 0
    values: int = 0
    runs: int = 0
    chunks: int = 0
    records: int = 0
    damaged: int = 0

    @property
    def any(self) -> bool:
        """True if anything is missing."""
        return self != NOTHING_LOST

    def __add__(self, other: Losses) -> Losses:
        """Add the losses of two logs."""
        return Losses(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


NOTHING_LOST = Losses()
"""A complete log."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A defect in a file; the affected part is left out.

    Attributes:
        offset: Byte offset of the defect in the file, or None.
        field: Name of the invalid field, or an empty string.
        reason: Description, with field and offset.
        events: Number of lost events, None if unknown.
    """

    offset: int | None
    field: str
    reason: str
    events: int | None

    @classmethod
    def of(cls, error: FormatError, events: int | None) -> Damage:
        """Return the damage for an error of a strict reader."""
        return cls(error.offset, error.field, error.message, events)


@dataclass(frozen=True, slots=True)
class Stack:
    """Maximum stack use and stack size of a tracer's core or task.

    Attributes:
        tracer: The tracer's number.
        used: Bytes, 0 unknown.
        size: Bytes, 0 unknown.
    """

    tracer: int
    used: int
    size: int

    @property
    def overflowed(self) -> bool:
        """Whether all of it was used, so memory beyond it may have been overwritten."""
        return 0 < self.size <= self.used


_NUMBERS: Final[Mapping[str, tuple[type[np.generic], int]]] = {
    "tracer": (np.uint16, 0),
    "kind": (np.uint8, Kind.PROFILE),
    "chain": (np.int64, -1),
    "instruction": (np.int64, -1),
    "delegate_int": (np.int64, -1),
    "clock": (np.uint8, NO_CLOCK),
    "start": (np.uint64, 0),
    "end": (np.uint64, 0),
    "allocator": (np.int64, -1),
    "size": (np.int64, 0),
    "offset": (np.int64, -1),
    "failed": (np.bool_, 0),
    "level": (np.float64, 0),
}
"""Type and unset value of the columns that refer to nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A log, lossless. All columns have one entry per event.

    Two traces are equal if all events, blocks, clocks and counts are equal; the order of ``names``
    and the layout of ``metadata_bytes`` do not matter.

    Attributes:
        names: Interned strings; bytes that are not UTF-8 are kept as surrogate escapes.
        blocks: Event blocks in log order; every event belongs to exactly one.
        clocks: Clock domains; ``clock`` indexes them. At most 255.
        tracer: Number of the tracer that logged the event, uint16. Tracers follow one after the
            other; each has blocks of its own.
        record: Index of the event's record in the log of its tracer, int64. With ``tracer`` it
            identifies an event, independent of how the log was divided into chunks.
        kind: ``Kind`` per event, uint8.
        name: Index into ``names``, or NO_NAME, int32.
        chain: Chain index, -1 unset, int64.
        instruction: Instruction id (debug handle), int64. Values are those of an int32, as in
            ETDump: a debug handle from 2**31 up is negative, and -1 is unset.
        delegate_int: Integer delegate debug id, -1 unset, int64.
        delegate_str: Index into ``names`` of the string delegate debug id, or NO_NAME, int32.
        clock: Index into ``clocks``, or NO_CLOCK, uint8.
        start: Raw start tick, uint64; 0 for events without a time. The time from start to end of a
            debug event was spent on logging its value, and is part of the scopes around it.
        end: Raw end tick, uint64; for allocations with a time, equal to ``start``.
        metadata: Offset and length into ``metadata_bytes``, int64, shape (n, 2); length -1: absent.
        allocator: Allocator id of an allocation, else -1, int64.
        size: Bytes allocated, else 0, int64 (negative: freed).
        offset: Offset of an allocation within its allocator, -1 unknown, int64.
        failed: True for an allocation that failed, bool.
        level: Value of a sample, NaN if it is not finite; 1 where a task or an interrupt begins,
            and 0 where it ends; 0 for other events; float64.
        debug: Index into ``debug_values`` of a debug event, else -1, int64.
        counts: What the counters counted from start to end of each event, int64, shape
            (n, number of counters); NO_COUNT where the target recorded none.
        counters: Hardware counters, one for each column of ``counts``. Empty unless the run asked
            for them.
        empty_events: What an event costs while the counters are read, for each tracer that
            measured it.
        metadata_bytes: What ``metadata`` points into.
        debug_values: Values of debug events.
        version: ETDump schema version.
        losses: Missing parts.
        filtered_events: Events not logged because of the run options.
        stacks: Stack use, for tracers that report it.
        full: Numbers of the tracers whose log filled up; what they lost was after their last event.
        incomplete: Numbers of the tracers whose log lacks anything, lost or left out.
        tracer_clocks: The counters of tracers that say which one they read; others read clock 0.
        own_clocks: Indices of the clocks that tracers read; all others are clocks of delegates.
        hidden_wraps: Whole wraps of clock 0 among its events that the log does not show, according
            to the host's readings around it.

    Examples:
        >>> import harness
        >>> trace = harness.run("kws_int8", board="native", runs=2).trace
        >>> len(trace) == len(trace.start) == len(trace.end)
        True
        >>> [block.name for block in trace.blocks][-2:]
        ['Execute', 'Execute']
    """

    names: tuple[str, ...]
    blocks: tuple[Block, ...]
    clocks: tuple[ClockDomain, ...]
    tracer: npt.NDArray[np.uint16]
    record: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.int32]
    chain: npt.NDArray[np.int64]
    instruction: npt.NDArray[np.int64]
    delegate_int: npt.NDArray[np.int64]
    delegate_str: npt.NDArray[np.int32]
    clock: npt.NDArray[np.uint8]
    start: npt.NDArray[np.uint64]
    end: npt.NDArray[np.uint64]
    metadata: npt.NDArray[np.int64]
    allocator: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    failed: npt.NDArray[np.bool_]
    level: npt.NDArray[np.float64]
    debug: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    counters: tuple[HardwareCounter, ...] = ()
    empty_events: tuple[EmptyEvents, ...] = ()
    metadata_bytes: bytes = b""
    debug_values: tuple[DebugValue, ...] = field(default=())
    version: int = 0
    losses: Losses = NOTHING_LOST
    filtered_events: int = 0
    stacks: tuple[Stack, ...] = ()
    full: tuple[int, ...] = ()
    incomplete: tuple[int, ...] = ()
    tracer_clocks: tuple[TracerClock, ...] = ()
    own_clocks: tuple[int, ...] = (0,)
    hidden_wraps: int = 0

    def __len__(self) -> int:
        """Number of events."""
        return int(self.kind.shape[0])

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns by name."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @property
    def delegated(self) -> npt.NDArray[np.bool_]:
        """True for events with a delegate's debug id, shape (n,)."""
        return np.asarray((self.delegate_int != -1) | (self.delegate_str != NO_NAME))

    @property
    def slowest_empty_events(self) -> EmptyEvents | None:
        """Those of the tracer whose events cost most; None if none measured them."""
        return max(self.empty_events, key=lambda events: events.cost, default=None)

    @classmethod
    def unset(
        cls,
        count: int,
        *,
        names: Sequence[str] = (),
        blocks: Sequence[Block] = (),
        clocks: Sequence[ClockDomain] = (),
        counters: Sequence[HardwareCounter] = (),
        empty_events: Sequence[EmptyEvents] = (),
        metadata_bytes: bytes = b"",
        debug_values: Sequence[DebugValue] = (),
        version: int = 0,
        losses: Losses = NOTHING_LOST,
        filtered_events: int = 0,
        stacks: Sequence[Stack] = (),
        full: Sequence[int] = (),
        incomplete: Sequence[int] = (),
    ) -> Trace:
        """Return a trace of ``count`` profile events with default values, for readers to fill.

        A reader fills the columns in place and then calls ``sealed``.
        """
        numbers: dict[str, Any] = {
            name: np.full(count, value, type_) for name, (type_, value) in _NUMBERS.items()
        }
        return cls(
            names=tuple(names),
            blocks=tuple(blocks),
            clocks=tuple(clocks),
            **numbers,
            record=np.arange(count, dtype=np.int64),
            name=np.full(count, NO_NAME, np.int32),
            delegate_str=np.full(count, NO_NAME, np.int32),
            metadata=np.tile(np.array([0, -1], np.int64), (count, 1)),
            debug=np.full(count, -1, np.int64),
            counts=np.full((count, len(counters)), NO_COUNT, np.int64),
            counters=tuple(counters),
            empty_events=tuple(empty_events),
            metadata_bytes=metadata_bytes,
            debug_values=tuple(debug_values),
            version=version,
            losses=losses,
            filtered_events=filtered_events,
            stacks=tuple(stacks),
            full=tuple(full),
            incomplete=tuple(incomplete),
        )

    def sealed(self) -> Trace:
        """Make the columns read-only, and return the trace itself."""
        for column in self.columns.values():
            column.setflags(write=False)
        return self

    def text(self, index: int) -> str | None:
        """Return the string at ``index`` of ``names``, or None for NO_NAME."""
        return None if index == NO_NAME else self.names[index]

    def named(
        self, *names: str, rows: npt.NDArray[np.int64] | slice = slice(None)
    ) -> npt.NDArray[np.bool_]:
        """Return True for events, or those of some rows, with one of these names, shape (n,)."""
        numbers = [number for number, name in enumerate(self.names) if name in names]
        return np.isin(self.name[rows], numbers)

    def metadata_of(self, row: int) -> bytes | None:
        """Return the delegate metadata of event ``row``, or None."""
        offset, length = self.metadata[row].tolist()
        return None if length < 0 else self.metadata_bytes[offset : offset + length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        header = ["blocks", "clocks", "counters", "version", "losses", "filtered_events"]
        header += ["stacks", "full", "incomplete", "tracer_clocks", "hidden_wraps"]
        columns = [*(key for key in _NUMBERS if key != "level"), "record", "counts"]
        return (
            len(self) == len(other)
            and all(getattr(self, key) == getattr(other, key) for key in header)
            and all(np.array_equal(getattr(self, key), getattr(other, key)) for key in columns)
            and np.array_equal(self.level, other.level, equal_nan=True)
            and self._same_names(other)
            and np.array_equal(self.metadata[:, 1], other.metadata[:, 1])
            and all(
                self.metadata_of(row) == other.metadata_of(row)
                for row in np.flatnonzero(self.metadata[:, 1] > 0).tolist()
            )
            and np.array_equal(self.debug < 0, other.debug < 0)
            and all(
                self.debug_values[self.debug[row]].same(other.debug_values[other.debug[row]])
                for row in np.flatnonzero(self.debug >= 0).tolist()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def _same_names(self, other: Trace) -> bool:
        """Compare both name columns through one common numbering of the strings."""
        numbers: dict[str, int] = {}

        def common(trace: Trace, column: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
            # The last entry is for index NO_NAME (-1).
            codes = [numbers.setdefault(name, len(numbers)) for name in trace.names]
            return np.array([*codes, NO_NAME], np.int64)[column]

        return np.array_equal(common(self, self.name), common(other, other.name)) and (
            np.array_equal(common(self, self.delegate_str), common(other, other.delegate_str))
        )


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Concatenate one or more traces of a session, which share their clocks."""
    first = traces[0]
    if len(traces) == 1:
        return first
    names: dict[str, int] = {}
    metadata: dict[bytes, int] = {}
    parts = [_shifted(trace, names, metadata) for trace in traces]
    rows = np.cumsum([0, *(len(trace) for trace in traces)]).tolist()
    values = np.cumsum([0, *(len(trace.debug_values) for trace in traces)]).tolist()
    for part, base in zip(parts, values, strict=False):
        part["debug"] = np.where(part["debug"] < 0, -1, part["debug"] + base)
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    return replace(
        first,
        **columns,
        names=tuple(names),
        blocks=tuple(
            replace(block, first=block.first + row)
            for trace, row in zip(traces, rows, strict=False)
            for block in trace.blocks
        ),
        empty_events=tuple(events for trace in traces for events in trace.empty_events),
        metadata_bytes=b"".join(metadata),
        debug_values=tuple(value for trace in traces for value in trace.debug_values),
        losses=sum((trace.losses for trace in traces), NOTHING_LOST),
        filtered_events=sum(trace.filtered_events for trace in traces),
        stacks=tuple(stack for trace in traces for stack in trace.stacks),
        full=tuple(number for trace in traces for number in trace.full),
        incomplete=tuple(number for trace in traces for number in trace.incomplete),
    )


def _shifted(
    trace: Trace, names: dict[str, int], metadata: dict[bytes, int]
) -> dict[str, np.ndarray]:
    """Return the columns of a trace, with names and metadata renumbered to the common tables."""
    columns = trace.columns
    codes = [names.setdefault(name, len(names)) for name in trace.names]
    renumbered = np.array([*codes, NO_NAME], np.int32)  # the last one is for NO_NAME (-1)
    for name in ("name", "delegate_str"):
        columns[name] = renumbered[columns[name]]
    base = metadata.setdefault(trace.metadata_bytes, sum(map(len, metadata)))
    columns["metadata"] = columns["metadata"] + np.array([base, 0])
    return columns


class Signature(msgspec.Struct, frozen=True):
    """The common fields of all events of one operator. A Struct: there may be 100,000 of them.

    Attributes:
        block: Name of the blocks it ran in.
        name: Its name; "" if it has none.
        chain: Chain index, -1 unset.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id, or None.
    """

    block: str
    name: str
    chain: int
    instruction: int
    delegate_int: int
    delegate_str: str | None

    @property
    def signature(self) -> tuple[str, str, int, int, int, str | None]:
        """All fields as a tuple, for comparison."""
        return (
            *(self.block, self.name, self.chain, self.instruction),
            *(self.delegate_int, self.delegate_str),
        )


_Signed = TypeVar("_Signed", bound=Signature)


def by_block(items: Iterable[_Signed]) -> dict[str, list[_Signed]]:
    """Group items by the name of their block, in order."""
    found: dict[str, list[_Signed]] = defaultdict(list)
    for item in items:
        found[item.block].append(item)
    return dict(found)


CallName = Literal["kernel", "delegate", "move", "jump_false", "free"]
"""Kinds of instructions."""


class InstructionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instruction of the program: a kernel's ``operator.overload``, or a delegate's backend.

    ``target`` is the instruction that a jump goes to, else -1. ``macs`` are a kernel's
    multiply-accumulates, ``bytes_read`` and ``bytes_written`` the sizes of its tensors, as
    ``etharness inspect`` states them; 0 for other instructions and where they are unknown.
    ``operands`` are the types and shapes of the tensors of a kernel or a delegate call, such as
    ``int8[1, 64] int8[8, 64] -> int8[1, 8]``; "" for other instructions, and in results of older
    versions.
    """

    call: CallName
    name: str = ""
    target: int = -1
    macs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    operands: str = ""
