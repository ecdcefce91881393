"""Numbers of the ``.pte`` format: vtable slots and unions of ``schema/program.fbs``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from harness.decode.flatbuffer import Layout, Union, Vector

IDENTIFIER: Final = b"ET12"
HEADER_MAGIC: Final = b"eh00"
HEADER_AT: Final = 8
"""Where the extended header begins."""
HEADER_LENGTHS: Final = (24, 32)


class ProgramTable(IntEnum):
    """Slots of Program."""

    VERSION = 0
    EXECUTION_PLAN = 1
    CONSTANT_BUFFER = 2
    BACKEND_DELEGATE_DATA = 3
    SEGMENTS = 4
    CONSTANT_SEGMENT = 5
    MUTABLE_DATA_SEGMENTS = 6
    NAMED_DATA = 7


class ExecutionPlan(IntEnum):
    """Slots of ExecutionPlan."""

    NAME = 0
    CONTAINER_META_TYPE = 1
    VALUES = 2
    INPUTS = 3
    OUTPUTS = 4
    CHAINS = 5
    OPERATORS = 6
    DELEGATES = 7
    NON_CONST_BUFFER_SIZES = 8
    NON_CONST_BUFFER_DEVICE = 9


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


class Null(IntEnum):
    """Null has no slots."""


# Tables with the slots of Content.
Int = IntEnum("Int", [("CONTENT", 0)])
Bool = IntEnum("Bool", [("CONTENT", 0)])
Double = IntEnum("Double", [("CONTENT", 0)])
String = IntEnum("String", [("CONTENT", 0)])
IntList = IntEnum("IntList", [("CONTENT", 0)])
DoubleList = IntEnum("DoubleList", [("CONTENT", 0)])
BoolList = IntEnum("BoolList", [("CONTENT", 0)])
TensorList = IntEnum("TensorList", [("CONTENT", 0)])


class TensorTable(IntEnum):
    """Slots of Tensor."""

    SCALAR_TYPE = 0
    STORAGE_OFFSET = 1
    SIZES = 2
    DIM_ORDER = 3
    REQUIRES_GRAD = 4
    DATA_BUFFER_IDX = 5
    ALLOCATION_INFO = 6
    LAYOUT = 7
    SHAPE_DYNAMISM = 8
    EXTRA_TENSOR_INFO = 9


class ExtraTensorInfo(IntEnum):
    """Slots of ExtraTensorInfo."""

    MUTABLE_DATA_SEGMENTS_IDX = 0
    FULLY_QUALIFIED_NAME = 1
    LOCATION = 2
    DEVICE_TYPE = 3
    DEVICE_INDEX = 4


class AllocationDetails(IntEnum):
    """Slots of AllocationDetails."""

    MEMORY_ID = 0
    OFFSET_LOW = 1
    OFFSET_HIGH = 2


class OperatorTable(IntEnum):
    """Slots of Operator."""

    NAME = 0
    OVERLOAD = 1


class BackendDelegate(IntEnum):
    """Slots of BackendDelegate."""

    ID = 0
    PROCESSED = 1
    COMPILE_SPECS = 2


class Chain(IntEnum):
    """Slots of Chain."""

    INPUTS = 0
    OUTPUTS = 1
    INSTRUCTIONS = 2
    STACKTRACE = 3


class InstructionTable(IntEnum):
    """Slots of Instruction: which of ``program.Call`` it is, and its table."""

    ARGS_TYPE = 0
    ARGS = 1


class IndexedCall(IntEnum):
    """Slots of KernelCall and DelegateCall: the callee's index and the arguments."""

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


# Tables that are only verified; their slots are those of the schema.
ContainerMetadata = IntEnum("ContainerMetadata", "INPUTS OUTPUTS", start=0)
NonConstBufferDevice = IntEnum(
    "NonConstBufferDevice", "BUFFER_IDX DEVICE_TYPE DEVICE_INDEX", start=0
)
Reference = IntEnum("Reference", "LOCATION INDEX", start=0)
CompileSpec = IntEnum("CompileSpec", "KEY VALUE", start=0)
Frame = IntEnum("Frame", "FILENAME LINENO NAME CONTEXT", start=0)
FrameList = IntEnum("FrameList", "ITEMS", start=0)
Data = IntEnum("Data", "BYTES", start=0)
DataSegment = IntEnum("DataSegment", "OFFSET SIZE", start=0)
SubsegmentOffsets = IntEnum("SubsegmentOffsets", "SEGMENT_INDEX OFFSETS", start=0)
NamedData = IntEnum("NamedData", "KEY SEGMENT_INDEX", start=0)

LAYOUT: Final[Layout] = {
    ProgramTable: (
        "<u4",
        Vector(ExecutionPlan),
        Vector(Data),
        Vector(Data),
        Vector(DataSegment),
        SubsegmentOffsets,
        Vector(SubsegmentOffsets),
        Vector(NamedData),
    ),
    ExecutionPlan: (
        str,
        ContainerMetadata,
        Vector(EValue),
        Vector("<i4"),
        Vector("<i4"),
        Vector(Chain),
        Vector(OperatorTable),
        Vector(BackendDelegate),
        Vector("<i8"),
        Vector(NonConstBufferDevice),
    ),
    EValue: (
        "u1",
        Union(
            {
                KernelTypes.NULL: Null,
                KernelTypes.INT: Int,
                KernelTypes.BOOL: Bool,
                KernelTypes.DOUBLE: Double,
                KernelTypes.TENSOR: TensorTable,
                KernelTypes.STRING: String,
                KernelTypes.INT_LIST: IntList,
                KernelTypes.DOUBLE_LIST: DoubleList,
                KernelTypes.BOOL_LIST: BoolList,
                KernelTypes.TENSOR_LIST: TensorList,
                KernelTypes.OPTIONAL_TENSOR_LIST: TensorList,
            }
        ),
    ),
    Null: (),
    Int: ("<i8",),
    Bool: ("u1",),
    Double: ("<f8",),
    String: (str,),
    IntList: (Vector("<i8"),),
    DoubleList: (Vector("<f8"),),
    BoolList: (Vector("u1"),),
    TensorList: (Vector("<i4"),),
    TensorTable: (
        "i1",
        "<i4",
        Vector("<i4"),
        Vector("u1"),
        "u1",
        "<u4",
        AllocationDetails,
        "i1",
        "i1",
        ExtraTensorInfo,
    ),
    ExtraTensorInfo: ("<u8", str, "i1", "i1", "i1"),
    AllocationDetails: ("<u4", "<u4", "<u4"),
    OperatorTable: (str, str),
    BackendDelegate: (str, Reference, Vector(CompileSpec)),
    Chain: (Vector("<i4"), Vector("<i4"), Vector(InstructionTable), Vector(FrameList)),
    InstructionTable: (
        "u1",
        Union({1: IndexedCall, 2: IndexedCall, 3: MoveCall, 4: JumpFalseCall, 5: FreeCall}),
    ),
    IndexedCall: ("<i4", Vector("<i4")),
    MoveCall: ("<i4", "<i4"),
    JumpFalseCall: ("<i4", "<i4"),
    FreeCall: ("<i4",),
    ContainerMetadata: (str, str),
    NonConstBufferDevice: ("<i4", "i1", "i1"),
    Reference: ("i1", "<u4"),
    CompileSpec: (str, Vector("u1")),
    Frame: (str, "<i4", str, str),
    FrameList: (Vector(Frame),),
    Data: (Vector("u1"),),
    DataSegment: ("<u8", "<u8"),
    SubsegmentOffsets: ("<u4", Vector("<u8")),
    NamedData: (str, "<u4"),
}
"""Types of the fields of every table, in the order of their slots."""
