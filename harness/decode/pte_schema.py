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

# The slots of each table, in the order of the schema.
ProgramTable = IntEnum(
    "ProgramTable",
    "VERSION EXECUTION_PLAN CONSTANT_BUFFER BACKEND_DELEGATE_DATA SEGMENTS CONSTANT_SEGMENT "
    "MUTABLE_DATA_SEGMENTS NAMED_DATA",
    start=0,
)
ExecutionPlan = IntEnum(
    "ExecutionPlan",
    "NAME CONTAINER_META_TYPE VALUES INPUTS OUTPUTS CHAINS OPERATORS DELEGATES "
    "NON_CONST_BUFFER_SIZES NON_CONST_BUFFER_DEVICE",
    start=0,
)
EValue = IntEnum("EValue", "VAL_TYPE VAL", start=0)
"""Slots of EValue: which of ``KernelTypes`` it is, and its table."""
KernelTypes = IntEnum(
    "KernelTypes",
    "NONE NULL INT BOOL DOUBLE TENSOR STRING INT_LIST DOUBLE_LIST BOOL_LIST TENSOR_LIST "
    "OPTIONAL_TENSOR_LIST",
    start=0,
)
"""The union of values."""
Content = IntEnum("Content", "CONTENT", start=0)
"""The slot of Int, Bool, Double, String and the lists."""


class Null(IntEnum):
    """Null has no slots."""


# Tables with the slots of Content.
Int = IntEnum("Int", "CONTENT", start=0)
Bool = IntEnum("Bool", "CONTENT", start=0)
Double = IntEnum("Double", "CONTENT", start=0)
String = IntEnum("String", "CONTENT", start=0)
IntList = IntEnum("IntList", "CONTENT", start=0)
DoubleList = IntEnum("DoubleList", "CONTENT", start=0)
BoolList = IntEnum("BoolList", "CONTENT", start=0)
TensorList = IntEnum("TensorList", "CONTENT", start=0)

TensorTable = IntEnum(
    "TensorTable",
    "SCALAR_TYPE STORAGE_OFFSET SIZES DIM_ORDER REQUIRES_GRAD DATA_BUFFER_IDX ALLOCATION_INFO "
    "LAYOUT SHAPE_DYNAMISM EXTRA_TENSOR_INFO",
    start=0,
)
ExtraTensorInfo = IntEnum(
    "ExtraTensorInfo",
    "MUTABLE_DATA_SEGMENTS_IDX FULLY_QUALIFIED_NAME LOCATION DEVICE_TYPE DEVICE_INDEX",
    start=0,
)
AllocationDetails = IntEnum("AllocationDetails", "MEMORY_ID OFFSET_LOW OFFSET_HIGH", start=0)
OperatorTable = IntEnum("OperatorTable", "NAME OVERLOAD", start=0)
BackendDelegate = IntEnum("BackendDelegate", "ID PROCESSED COMPILE_SPECS", start=0)
Chain = IntEnum("Chain", "INPUTS OUTPUTS INSTRUCTIONS STACKTRACE", start=0)
InstructionTable = IntEnum("InstructionTable", "ARGS_TYPE ARGS", start=0)
"""Slots of Instruction: which of ``program.Call`` it is, and its table."""
IndexedCall = IntEnum("IndexedCall", "INDEX ARGS", start=0)
"""Slots of KernelCall and DelegateCall: the callee's index and the arguments."""
MoveCall = IntEnum("MoveCall", "FROM TO", start=0)
JumpFalseCall = IntEnum("JumpFalseCall", "CONDITION DESTINATION", start=0)
FreeCall = IntEnum("FreeCall", "VALUE", start=0)

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
