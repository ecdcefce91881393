"""Numbers of the ``.pte`` format: vtable slots and unions of ``schema/program.fbs``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

IDENTIFIER: Final = b"ET12"
HEADER_MAGIC: Final = b"eh00"
HEADER_AT: Final = 8
"""Where the extended header begins."""
HEADER_LENGTHS: Final = (24, 32)


class Program(IntEnum):
    """Slots of Program."""

    EXECUTION_PLAN = 1


class ExecutionPlan(IntEnum):
    """Slots of ExecutionPlan."""

    NAME = 0
    VALUES = 2
    INPUTS = 3
    OUTPUTS = 4
    CHAINS = 5
    OPERATORS = 6
    DELEGATES = 7
    NON_CONST_BUFFER_SIZES = 8


class EValue(IntEnum):
    """Slots of EValue: which of ``KernelTypes`` it is, and its table."""

    VAL_TYPE = 0
    VAL = 1


class KernelTypes(IntEnum):
    """The union of values."""

    NONE = 0
    NULL = 1
    INT = 2
    BOOL = 3
    DOUBLE = 4
    TENSOR = 5
    STRING = 6
    INT_LIST = 7
    DOUBLE_LIST = 8
    BOOL_LIST = 9
    TENSOR_LIST = 10
    OPTIONAL_TENSOR_LIST = 11


class Content(IntEnum):
    """The slot of Int, Bool, Double, String and the lists."""

    CONTENT = 0


class Tensor(IntEnum):
    """Slots of Tensor."""

    SCALAR_TYPE = 0
    SIZES = 2
    DIM_ORDER = 3
    DATA_BUFFER_IDX = 5
    ALLOCATION_INFO = 6
    SHAPE_DYNAMISM = 8
    EXTRA_TENSOR_INFO = 9


class ExtraTensorInfo(IntEnum):
    """Slots of ExtraTensorInfo."""

    FULLY_QUALIFIED_NAME = 1
    LOCATION = 2


class AllocationDetails(IntEnum):
    """Slots of AllocationDetails."""

    MEMORY_ID = 0
    OFFSET_LOW = 1
    OFFSET_HIGH = 2


class Operator(IntEnum):
    """Slots of Operator."""

    NAME = 0
    OVERLOAD = 1


class BackendDelegate(IntEnum):
    """Slots of BackendDelegate."""

    ID = 0


class Chain(IntEnum):
    """Slots of Chain."""

    INSTRUCTIONS = 2


class Instruction(IntEnum):
    """Slots of Instruction: which of ``program.Call`` it is, and its table."""

    ARGS_TYPE = 0
    ARGS = 1


class IndexedCall(IntEnum):
    """Slots of KernelCall and DelegateCall: what is called, and with what."""

    INDEX = 0
    ARGS = 1


class MoveCall(IntEnum):
    """Slots of MoveCall."""

    FROM = 0
    TO = 1


class JumpFalseCall(IntEnum):
    """Slots of JumpFalseCall."""

    CONDITION = 0
    DESTINATION = 1


class FreeCall(IntEnum):
    """Slots of FreeCall."""

    VALUE = 0
