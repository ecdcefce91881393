"""Numbers of the device's compact event log. Generated from ``schema/compact_log.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x474C5445
"""'ETLG' read as a little-endian u32."""
VERSION: Final = 0x3
"""Log format version."""
HEADER_SIZE: Final = 0x40
"""Bytes."""
RECORD_SIZE: Final = 0x10
"""Bytes."""
FLAG_FULL: Final = 0x1
"""Header flag: the buffer filled, later events were counted and dropped."""
NO_NAME: Final = 0xFFFF
"""Name id of an event without a name."""
MAX_NAME: Final = 0xFF
"""Longest name in bytes; longer ones are cut."""
NO_OFFSET: Final = 0xFFFFFFFF
"""Allocation offset that is not known."""
CARRIED: Final = 0x1
"""BLOCK and ALLOCATOR flag: a copy of a record of an earlier chunk."""
DELEGATE_METADATA: Final = 0x1
"""DELEGATE flag: there is metadata, of whatever length."""
PAYLOAD_ALIGNMENT: Final = 0x10
"""Of a tensor's bytes in the debug buffer."""
VALUE_TYPE_MASK: Final = 0x7
"""The bits of a VALUE's type."""
VALUE_IS_OUTPUT: Final = 0x80
"""VALUE flag: the method returned it."""
ALLOCATION_FAILED: Final = 0x1
"""ALLOCATION flag: there was not enough memory."""


class Record(IntEnum):
    """Record kinds."""

    PROFILE = 0x1
    """A timed scope, appended when it ends."""
    BLOCK = 0x2
    """A new event block begins."""
    ALLOCATOR = 0x3
    """An allocator is declared."""
    ALLOCATION = 0x4
    """An allocation from a declared allocator."""
    WIDE = 0x5
    """Prefix with full-width chain and instruction."""
    DELEGATE = 0x6
    """Prefix with delegate ids and metadata."""
    VALUE = 0x7
    """A value that was computed."""


class Value(IntEnum):
    """Types of values, numbered as in ETDump."""

    NONE = 0x0
    """No value."""
    INT = 0x1
    """A 64-bit integer."""
    BOOL = 0x2
    """A truth value."""
    DOUBLE = 0x4
    """A 64-bit float."""
    TENSOR = 0x5
    """A tensor."""
    TENSOR_LIST = 0x6
    """A list of tensors."""
