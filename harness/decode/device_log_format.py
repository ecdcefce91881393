"""Constants of the device's compact event log. Generated from ``schema/compact_log.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x474C5445
"""'ETLG' read as a little-endian u32."""
VERSION: Final = 0x3
"""Version of the log format."""
HEADER_SIZE: Final = 0x40
"""Size in bytes."""
RECORD_SIZE: Final = 0x10
"""Size in bytes."""
FLAG_FULL: Final = 0x1
"""Header flag: the buffer was full, later events were dropped and counted."""
NO_NAME: Final = 0xFFFF
"""Name id of an event without a name."""
MAX_NAME: Final = 0xFF
"""Longest name in bytes; longer names are truncated."""
NO_OFFSET: Final = 0xFFFFFFFF
"""Unknown offset of an allocation."""
CARRIED: Final = 0x1
"""BLOCK, ALLOCATOR, COUNTER, COUNTING and CLOCK flag: copy of a record of an earlier chunk."""
DECLARATION_MASK: Final = 0x7
"""Bits of the kind that ALLOCATOR, COUNTER, COUNTING and CLOCK, and only these, have in common."""
NO_INSTANT: Final = 0xFFFFFFFFFFFF
"""CLOCK: no reading of clock 0."""
COUNTERS: Final = 0x8
"""Most counters of a log."""
COUNTS_PER_RECORD: Final = 0x3
"""Counts in a COUNTS record."""
DELEGATE_METADATA: Final = 0x1
"""DELEGATE flag: metadata is present, possibly empty."""
PAYLOAD_ALIGNMENT: Final = 0x10
"""Alignment in bytes of tensor data in the debug buffer."""
VALUE_TYPE_MASK: Final = 0x7
"""Bits of a VALUE record's type."""
VALUE_IS_OUTPUT: Final = 0x80
"""VALUE flag: output of the method."""
ALLOCATION_FAILED: Final = 0x1
"""ALLOCATION flag: not enough memory."""
METHOD_VALUE_SIZE: Final = 0x10
"""Size of a value of a method in bytes."""
METHOD_VALUE_TENSOR: Final = 0x4
"""Kind of a value that is a tensor."""
SWITCH_BEGINS: Final = 0x1
"""SWITCH flag: the context begins, instead of ends."""
SWITCH_INTERRUPT: Final = 0x2
"""SWITCH flag: it is an interrupt, which the task before it outlasts."""
SAMPLE_FLOAT: Final = 0x1
"""SAMPLE flag: the value is an f32."""
TRACER_MAGIC: Final = 0x1525445
"""'ETR' and version 1 of a tracer's fields, read as a little-endian u32."""


class Record(IntEnum):
    """Record kinds."""

    PROFILE = 0x1
    """Timed scope, appended when it ends."""
    BLOCK = 0x2
    """Start of an event block."""
    ALLOCATOR = 0x3
    """Declaration of an allocator."""
    ALLOCATION = 0x4
    """Allocation from a declared allocator."""
    WIDE = 0x5
    """Prefix with full-width chain and instruction."""
    DELEGATE = 0x6
    """Prefix with delegate ids and metadata."""
    VALUE = 0x7
    """Logged value."""
    COUNTS = 0x8
    """Counts of hardware counters in the event before."""
    SWITCH = 0x9
    """A task or an interrupt begins or ends."""
    MARK = 0xA
    """Named instant."""
    COUNTER = 0xB
    """Declaration of a hardware counter."""
    SAMPLE = 0xC
    """Value of a named counter."""
    COUNTING = 0x13
    """Cost of an event with the declared hardware counters."""
    CLOCK = 0x1B
    """Counter of a tracer, and a pair of readings that places its log."""


class Value(IntEnum):
    """Value types, numbered as in ETDump."""

    NONE = 0x0
    """No value."""
    INT = 0x1
    """64-bit integer."""
    BOOL = 0x2
    """Boolean."""
    DOUBLE = 0x4
    """64-bit float."""
    TENSOR = 0x5
    """Tensor."""
    TENSOR_LIST = 0x6
    """List of tensors."""


class TracerField(IntEnum):
    """Offsets in bytes of the fields of a tracer, with 32-bit pointers."""

    BUFFER = 0x4
    """Pointer to the log's buffer."""
    CAPACITY = 0x8
    """U32, size of that buffer in bytes."""
    DEBUG = 0xC
    """Pointer to the debug buffer."""
    DEBUG_CAPACITY = 0x10
    """U32, size of that buffer in bytes."""
    RECORD_COUNT = 0x14
    """U32; the header's fields from this one on follow in its order."""
    NAME_COUNT = 0x18
    """U16."""
    NUMBER = 0x1A
    """U16, the tracer's number."""
    NAMES_SIZE = 0x1C
    """U32."""
    DROPPED_EVENTS = 0x20
    """U32."""
    DROPPED_BLOCKS = 0x24
    """U32."""
    FILTERED_EVENTS = 0x28
    """U32."""
    DROPPED_VALUES = 0x2C
    """U32."""
    DROPPED_RUNS = 0x30
    """U32."""
    CHUNK = 0x34
    """U32."""
    FIRST_RECORD = 0x38
    """U32."""
    DEBUG_USED = 0x3C
    """U32."""
    STACK_USED = 0x40
    """U32."""
    STACK_SIZE = 0x44
    """U32."""
    FULL = 0x48
    """U8."""
    OPEN_COUNT = 0x49
    """U8, number of open events."""


class MethodField(IntEnum):
    """Offsets in bytes of the fields of a loaded method, with 32-bit pointers."""

    TRACER = 0x0
    """Pointer to its tracer."""
    NAME = 0x4
    """Pointer to its name, which ends with a zero."""
    VALUES = 0x8
    """Pointer to its values."""
    OUTPUTS = 0x18
    """Pointer to the value numbers of its outputs, u32."""
    VALUE_COUNT = 0x1C
    """U32."""
    INSTRUCTION_COUNT = 0x20
    """U32, of all chains."""
    INPUT_COUNT = 0x38
    """U32."""
    OUTPUT_COUNT = 0x3C
    """U32."""


class ValueField(IntEnum):
    """Offsets in bytes of the fields of a method's value."""

    KIND = 0x0
    """U8."""
    TENSOR = 0x8
    """Pointer to the tensor."""


class TensorField(IntEnum):
    """Offsets in bytes of the fields of a tensor, with 32-bit pointers."""

    DATA = 0x0
    """Pointer to its elements."""
    NBYTES = 0x8
    """U32, size of its elements in bytes."""
    CAPACITY = 0xC
    """U32, bytes of memory for them."""
    SIZES = 0x10
    """I32 for each of up to 8 dimensions."""
    DIM_ORDER = 0x50
    """U8 for each of up to 8 dimensions."""
    NDIM = 0x58
    """U8, number of dimensions."""
    DTYPE = 0x59
    """U8, its scalar type."""
