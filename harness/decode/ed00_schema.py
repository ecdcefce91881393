"""Numbers of the ED00 file format: vtable slots and value types of ``schema/etdump.fbs``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

IDENTIFIER: Final = b"ED00"
VERSION: Final = 0
"""The only schema version there is."""


class ValueType(IntEnum):
    """``Value.val``: which field of a Value table is meant."""

    NULL = 0
    INT = 1
    BOOL = 2
    FLOAT = 3
    DOUBLE = 4
    TENSOR = 5
    TENSOR_LIST = 6
    STRING = 7


class DumpTable(IntEnum):
    """Slots of ETDump."""

    VERSION = 0
    RUN_DATA = 1


class RunTable(IntEnum):
    """Slots of RunData."""

    NAME = 0
    BUNDLED_INPUT_INDEX = 1
    ALLOCATORS = 2
    EVENTS = 3


class EventTable(IntEnum):
    """Slots of Event; exactly one is filled."""

    PROFILE = 0
    ALLOCATION = 1
    DEBUG = 2


class Profile(IntEnum):
    """Slots of ProfileEvent."""

    NAME = 0
    CHAIN = 1
    INSTRUCTION = 2
    DELEGATE_INT = 3
    DELEGATE_STR = 4
    METADATA = 5
    START = 6
    END = 7


class Allocation(IntEnum):
    """Slots of AllocationEvent."""

    ALLOCATOR = 0
    SIZE = 1


class Debug(IntEnum):
    """Slots of DebugEvent."""

    CHAIN = 0
    INSTRUCTION = 1
    ENTRY = 2
    DELEGATE_INT = 3
    DELEGATE_STR = 4
    NAME = 5


class ValueTable(IntEnum):
    """Slots of Value."""

    TYPE = 0
    TENSOR = 1
    TENSOR_LIST = 2
    INT = 3
    FLOAT = 4
    DOUBLE = 5
    BOOL = 6
    OUTPUT = 7


class LoggedTensorTable(IntEnum):
    """Slots of Tensor."""

    SCALAR_TYPE = 0
    SIZES = 1
    STRIDES = 2
    OFFSET = 3


class TensorListTable(IntEnum):
    """Slots of TensorList."""

    TENSORS = 0


class NumberTable(IntEnum):
    """Slots of Int, Bool, Float and Double, which have one field each."""

    VALUE = 0


class AllocatorTable(IntEnum):
    """Slots of Allocator."""

    NAME = 0
