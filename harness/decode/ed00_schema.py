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


# The slots of each table, in the order of the schema.
DumpTable = IntEnum("DumpTable", "VERSION RUN_DATA", start=0)
RunTable = IntEnum("RunTable", "NAME BUNDLED_INPUT_INDEX ALLOCATORS EVENTS", start=0)
EventTable = IntEnum("EventTable", "PROFILE ALLOCATION DEBUG", start=0)
"""Slots of Event; exactly one is filled."""
Profile = IntEnum(
    "Profile", "NAME CHAIN INSTRUCTION DELEGATE_INT DELEGATE_STR METADATA START END", start=0
)
Allocation = IntEnum("Allocation", "ALLOCATOR SIZE", start=0)
Debug = IntEnum("Debug", "CHAIN INSTRUCTION ENTRY DELEGATE_INT DELEGATE_STR NAME", start=0)
ValueTable = IntEnum("ValueTable", "TYPE TENSOR TENSOR_LIST INT FLOAT DOUBLE BOOL OUTPUT", start=0)
LoggedTensorTable = IntEnum("LoggedTensorTable", "SCALAR_TYPE SIZES STRIDES OFFSET", start=0)
TensorListTable = IntEnum("TensorListTable", "TENSORS", start=0)
NumberTable = IntEnum("NumberTable", "VALUE", start=0)
"""Slots of Int, Bool, Float and Double, which have one field each."""
AllocatorTable = IntEnum("AllocatorTable", "NAME", start=0)
