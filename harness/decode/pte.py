"""Reads a ``.pte`` file into a Program, without flatc or torch. Format: ``schema/program.fbs``.

Also reads a bundled program (``.bpte``): a program with test sets for its methods. Format:
ExecuTorch's ``devtools/bundled_program/schema/bundled_program_schema.fbs``.

Tables are read column-wise. Every offset and value number is checked, even in tables that are not
read (``harness.decode.flatbuffer``). Constants and delegate data are skipped.

Not ``executorch.exir``'s own deserializer: it needs torch and flatc, which machines that only
decode or report do not have, and it trusts its input.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from harness.decode import pte_schema as pte
from harness.decode.flatbuffer import (
    FlatBuffer,
    Ints,
    Layout,
    Tables,
    Union,
    Vector,
    split,
    verified_root,
)
from harness.decode.program import (
    Call,
    CompiledDelegate,
    Dynamism,
    Instruction,
    ListKind,
    Method,
    Program,
    Tensor,
    Value,
    ValueList,
)
from harness.decode.pte_schema import KernelTypes
from harness.errors import FormatError, UsageError
from harness.files import display_path, find_model, read_regular
from harness.plugins import PROGRAM_DATA, load_extension
from harness.records.trace import STORED_AS, little_endian, stored_bytes

_Item = TypeVar("_Item")

_EXTERNAL = 1  # TensorDataLocation
_NUMBERED: Final[dict[KernelTypes, tuple[str, type[int] | type[Tensor], bool, ListKind]]] = {
    KernelTypes.INT_LIST: ("<i8", int, False, "int"),
    KernelTypes.TENSOR_LIST: ("<i4", Tensor, False, "tensor"),
    KernelTypes.OPTIONAL_TENSOR_LIST: ("<i4", Tensor, True, "optional tensor"),
}
"""Lists of value numbers: dtype, type of the values, whether items may be missing, and its name."""


def read_values(tables: Tables[pte.EValue], named: Container[str] = ()) -> list[Value]:
    """Decode the values of one method; ``named`` are the names of data in the file.

    Raises:
        FormatError: An offset points outside the buffer, or a value is invalid.
    """
    values: list[Value] = tables.unions(
        (pte.EValue.VAL_TYPE, pte.EValue.VAL),
        {**_VALUE_READERS, KernelTypes.TENSOR: partial(_tensors, named)},
        field="EValue",
        unknown="unknown kind of value",
        missing="has no content",
    )
    types = tables.scalars(pte.EValue.VAL_TYPE, "u1", 0)
    places = tables.references(pte.EValue.VAL)
    for type_, (dtype, kind, optional, listed) in _NUMBERED.items():
        rows = np.flatnonzero(types == type_)
        contents = Tables.at(tables.buffer, places[rows], pte.Content)
        vectors = contents.vectors(pte.Content.CONTENT, dtype)
        for row, numbers in zip(rows.tolist(), vectors, strict=True):
            present = [n for n in numbers if not (optional and n == -1)]
            found = {n: values[n] for n in present if 0 <= n < len(values)}
            right = [isinstance(v, kind) and not isinstance(v, bool) for v in found.values()]
            if not all(right) or len(found) < len(set(present)):
                raise FormatError(
                    f"value {row} lists a value that is missing or of another type",
                    offset=int(places[row]),
                    field=type_.name.lower(),
                )
            items: Any = tuple(map(found.get, numbers))
            values[row] = ValueList(items, numbers, listed)
    return values


def _scalars(dtype: str, buffer: FlatBuffer, places: Ints) -> list[Value]:
    tables = Tables.at(buffer, places, pte.Content)
    found: list[Value] = tables.scalars(pte.Content.CONTENT, dtype, 0).tolist()
    return found


def _own_items(dtype: str, kind: ListKind, buffer: FlatBuffer, places: Ints) -> list[ValueList]:
    tables = Tables.at(buffer, places, pte.Content)
    return [ValueList(items, kind=kind) for items in tables.vectors(pte.Content.CONTENT, dtype)]


def _tensors(named: Container[str], buffer: FlatBuffer, places: Ints) -> list[Tensor]:
    tables = Tables.at(buffer, places, pte.TensorTable)
    sizes = tables.vectors(pte.TensorTable.SIZES, "<i4")
    orders = tables.vectors(pte.TensorTable.DIM_ORDER, "u1")
    dynamism = tables.scalars(pte.TensorTable.SHAPE_DYNAMISM, "i1", 0)
    for place, shape, order, change in zip(
        places.tolist(), sizes, orders, dynamism.tolist(), strict=True
    ):
        if sorted(order) != [*range(len(shape))] or min(shape, default=0) < 0:
            raise FormatError(
                f"invalid sizes {shape} or dim order {order}", offset=place, field="Tensor"
            )
        if change not in list(Dynamism):
            raise FormatError(f"unknown dynamism {change}", offset=place, field="Tensor")
    data = tables.scalars(pte.TensorTable.DATA_BUFFER_IDX, "<u4", 0).tolist()
    pools, offsets = _planned(buffer, tables.references(pte.TensorTable.ALLOCATION_INFO))
    details, slots = tables.references(pte.TensorTable.EXTRA_TENSOR_INFO), pte.ExtraTensorInfo
    rows, count = np.flatnonzero(details), len(places)
    extra = Tables.at(buffer, details[rows], slots)
    external, states, devices = (
        _spread(extra.scalars(slot, dtype, 0).tolist(), rows, count, 0)
        for slot, dtype in (
            (slots.LOCATION, "i1"),
            (slots.MUTABLE_DATA_SEGMENTS_IDX, "<u8"),
            (slots.DEVICE_TYPE, "i1"),
        )
    )
    external = [location == _EXTERNAL for location in external]
    names = _spread(extra.texts(slots.FULLY_QUALIFIED_NAME), rows, count, "")
    columns: list[Any] = [
        tables.scalars(pte.TensorTable.SCALAR_TYPE, "i1", 0).tolist(),
        sizes,
        orders,
        [Dynamism(change) for change in dynamism.tolist()],
        [bool(d or e) and pool == 0 for d, e, pool in zip(data, external, pools, strict=True)],
        pools,
        offsets,
        [d > 0 and pool != 0 for d, pool in zip(data, pools, strict=True)],
        names,
        data,
        states,
        external,
        [e and name not in named for e, name in zip(external, names, strict=True)],
        tables.scalars(pte.TensorTable.STORAGE_OFFSET, "<i4", 0).tolist(),
        devices,
    ]
    return [Tensor(*fields) for fields in zip(*columns, strict=True)]


def _planned(buffer: FlatBuffer, places: Ints) -> tuple[list[int], list[int]]:
    """Return pools and offsets of tensors; 0 and -1 without a memory plan."""
    rows, slots = np.flatnonzero(places), pte.AllocationDetails
    tables = Tables.at(buffer, places[rows], slots)
    pools, low, high = (
        tables.scalars(slot, "<u4", 0).tolist()
        for slot in (slots.MEMORY_ID, slots.OFFSET_LOW, slots.OFFSET_HIGH)
    )
    offsets = [more << 32 | less for less, more in zip(low, high, strict=True)]
    return _spread(pools, rows, len(places), 0), _spread(offsets, rows, len(places), -1)


def _spread(values: Iterable[_Item], rows: Ints, count: int, absent: _Item) -> list[_Item]:
    """Return ``count`` items: values in these rows, ``absent`` in all others."""
    spread = [absent] * count
    for row, value in zip(rows.tolist(), values, strict=True):
        spread[row] = value
    return spread


_VALUE_READERS: Final[dict[KernelTypes, Callable[[FlatBuffer, Ints], Sequence[Value]]]] = {
    KernelTypes.INT: partial(_scalars, "<i8"),
    KernelTypes.BOOL: partial(_scalars, "?"),
    KernelTypes.DOUBLE: partial(_scalars, "<f8"),
    KernelTypes.STRING: lambda buffer, places: Tables.at(buffer, places, pte.Content).texts(
        pte.Content.CONTENT
    ),
    KernelTypes.DOUBLE_LIST: partial(_own_items, "<f8", "double"),
    KernelTypes.BOOL_LIST: partial(_own_items, "?", "bool"),
    **dict.fromkeys((KernelTypes.NULL, *_NUMBERED), lambda _, places: [None] * len(places)),
}
"""Readers of the types; ``_tensors`` is that of tensors. Lists that refer to other values are read
after all of these."""


_HEADER = struct.Struct("<4sIQQQ")
_SHORT_HEADER = 24
"""Length of the extended header without the size of the segments."""

_KINDS: Final = (
    (4, b"TFL3", "a TensorFlow Lite file"),
    (4, b"FT01", "external data of a program (.ptd)"),
    (4, b"ED00", "an ETDump, a recorded trace"),
    (0, b"PK\x03\x04", "a zip file, such as PyTorch's .pt, .pth and .pt2 files"),
    (0, b"\x80\x02\x8a\nl\xfc", "a PyTorch file (.pt or .pth)"),
    (0, b"\x89HDF\r\n", "an HDF5 file, such as a Keras model"),
    (0, b"GGUF", "a GGUF file"),
)
"""What other files begin with: an offset, the bytes there, and the kind of file."""

_EXPORT: Final = "export the PyTorch model with ExecuTorch: `to_executorch()` makes a .pte file"


def read_named_program(data: bytes, name: str) -> Program:
    """Read the methods of a model's file, as ``read_program`` does; errors name the file.

    Raises:
        FormatError: The file is another kind of file, truncated or damaged.
    """
    try:
        return read_program(data)
    except FormatError as error:
        known = data[4:8] == pte.IDENTIFIER or is_bundled_program(data)
        text = f"not a complete ExecuTorch program: {error.message}" if known else error.message
        named = FormatError(f"{name} is {text}", hint=error.hint or _COPY_AGAIN)
        named.offset, named.field = error.offset, error.field
        raise named from error


@dataclass(frozen=True)
class ModelFile:
    """The program of a model's file, read once.

    Attributes:
        path: The file.
        data: The program, without the test sets of a bundled one.
        test_sets: The test sets to run of a bundled program; () for a program alone.
    """

    path: Path
    data: bytes
    test_sets: tuple[TestSet, ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the program."""
        return hashlib.sha256(self.data).digest()

    @cached_property
    def program(self) -> Program:
        """Its methods.

        Raises:
            FormatError: It is another kind of file, truncated or damaged; names the file.
        """
        return read_named_program(self.data, display_path(self.path))

    def method(self, name: str) -> Method | None:
        """Return a method; None if the program cannot be read, or has no such method."""
        try:
            return self.program.method(name)
        except FormatError:  # the device decides whether the file is valid
            return None


def linked_program(program: bytes, name: str, files: Sequence[Path]) -> bytes:
    """Return a program with the external data of ``.ptd`` files in it.

    Raises:
        UsageError: A file cannot be read, or is not of this program; or no extension reads it.
        FormatError: The program or a file is damaged.
    """
    if not files:
        return program
    link = load_extension(PROGRAM_DATA, "ptd", "--data is", "external_data")
    linked: bytes = link(program, files, name)
    return linked


_COPY_AGAIN: Final = "export it again, or copy it again and compare sizes"


def read_program(data: bytes) -> Program:
    """Read the methods of a ``.pte`` file, or of the one within a bundled program.

    Raises:
        FormatError: The data is not a ``.pte`` file, truncated or damaged; the error has offset and
            field.
    """
    data = program_bytes(data)
    buffer, segment_base = _window(data)
    root = verified_root(buffer, pte.ProgramTable, pte.LAYOUT)
    stored = _StoredData(root, segment_base, len(data) - segment_base)
    plans, _ = root.children(pte.ProgramTable.EXECUTION_PLAN, pte.ExecutionPlan)
    places = plans.positions
    methods = tuple(
        _method(Tables.at(buffer, places[row : row + 1], pte.ExecutionPlan), stored)
        for row in range(len(places))
    )
    return Program(methods)


def constant_reader(data: bytes) -> Callable[[Tensor], bytes | None]:
    """Return what reads the bytes of constants of a program; None for data outside of the file.

    Raises:
        FormatError: As ``read_program``.
    """
    data = program_bytes(data)
    buffer, segment_base = _window(data)
    root = verified_root(buffer, pte.ProgramTable, pte.LAYOUT)
    stored = _StoredData(root, segment_base, len(data) - segment_base)

    def read(tensor: Tensor) -> bytes | None:
        place = stored.place(tensor)
        nbytes = stored_bytes(tensor.scalar_type, tensor.sizes)
        if place is None or nbytes is None or place[1] < nbytes:
            return None
        return data[place[0] : place[0] + nbytes]

    return read


def read_delegates(data: bytes) -> dict[str, tuple[CompiledDelegate, ...]]:
    """Read the delegates in a ``.pte`` file, by the name of their method.

    Raises:
        FormatError: As ``read_program``; or the data of a delegate is not in the file.
    """
    buffer, base = _window(data)
    root = verified_root(buffer, pte.ProgramTable, pte.LAYOUT)
    segments, _ = root.children(pte.ProgramTable.SEGMENTS, pte.DataSegment)
    inline, _ = root.children(pte.ProgramTable.BACKEND_DELEGATE_DATA, pte.Data)
    starts, sizes = (segments.scalars(slot, "<u8", 0).tolist() for slot in pte.DataSegment)
    blobs = (
        _byte_vectors(inline, pte.Data.BYTES),
        [data[base + at : base + at + size] for at, size in zip(starts, sizes, strict=True)],
    )
    plans, _ = root.children(pte.ProgramTable.EXECUTION_PLAN, pte.ExecutionPlan)
    tables, counts = plans.children(pte.ExecutionPlan.DELEGATES, pte.BackendDelegate)
    processed = tables.references(pte.BackendDelegate.PROCESSED)
    where = Tables.at(buffer, processed[processed != 0], pte.Reference)
    located = zip(
        where.scalars(pte.Reference.LOCATION, "i1", 0).tolist(),
        where.scalars(pte.Reference.INDEX, "<u4", 0).tolist(),
        strict=True,
    )
    entries, spec_counts = tables.children(pte.BackendDelegate.COMPILE_SPECS, pte.CompileSpec)
    keys = entries.texts(pte.CompileSpec.KEY)
    pairs = [*zip(keys, _byte_vectors(entries, pte.CompileSpec.VALUE), strict=True)]
    specs = split(pairs, spec_counts)
    names = tables.texts(pte.BackendDelegate.ID)
    data_names, _ = root.children(pte.ProgramTable.NAMED_DATA, pte.NamedData)
    numbers = data_names.scalars(pte.NamedData.SEGMENT_INDEX, "<u4", 0).tolist()
    keyed = zip(data_names.texts(pte.NamedData.KEY), numbers, strict=True)
    named = {key: blobs[1][number] for key, number in keyed if number < len(blobs[1])}
    delegates = []
    for name, place, options in zip(names, processed.tolist(), specs, strict=True):
        kind, index = next(located) if place else (0, -1)
        if kind not in (0, 1) or not 0 <= index < len(blobs[kind]):
            raise FormatError("the data of a delegate is not in the file", field="delegates")
        delegates.append(CompiledDelegate(name, blobs[kind][index], dict(options), named))
    return dict(zip(plans.texts(pte.ExecutionPlan.NAME), split(delegates, counts), strict=True))


class _StoredData:
    """Where the data of tensors is in the file: segments, and pieces of them."""

    def __init__(self, root: Tables[pte.ProgramTable], base: int, room: int) -> None:
        """Read the tables; ``room`` is the number of bytes from the first segment to the end.

        ``base`` is where that is in the file.

        Raises:
            FormatError: A segment is outside the file.
        """
        slots, where = pte.ProgramTable, pte.SubsegmentOffsets
        segments, _ = root.children(slots.SEGMENTS, pte.DataSegment)
        starts, self._sizes = (
            segments.scalars(slot, "<u8", 0).tolist() for slot in pte.DataSegment
        )
        self._starts = [base + start for start in starts]
        for start, size, place in zip(starts, self._sizes, segments.positions, strict=True):
            if start + size > room:
                raise FormatError(
                    f"the file is truncated: a segment ends {start + size - room} bytes behind it",
                    offset=int(place),
                    field="segments",
                )
        constants = root.references(slots.CONSTANT_SEGMENT)
        table = Tables.at(root.buffer, constants[constants != 0], where)
        self._constants = _pieces(table)
        self._states = _pieces(root.children(slots.MUTABLE_DATA_SEGMENTS, where)[0])
        inline, _ = root.children(slots.CONSTANT_BUFFER, pte.Data)
        vectors = inline.references(pte.Data.BYTES)
        lengths = root.buffer.lengths(vectors, 1, "constant_buffer")
        self._inline = list(zip((vectors + 4).tolist(), lengths.tolist(), strict=True))
        named, _ = root.children(slots.NAMED_DATA, pte.NamedData)
        numbers = named.scalars(pte.NamedData.SEGMENT_INDEX, "<u4", 0).tolist()
        self.named = dict(zip(named.texts(pte.NamedData.KEY), numbers, strict=True))

    def room(self, tensor: Tensor) -> int | None:
        """Return the bytes in the file from the start of a tensor's data; None without data.

        -1 if there is no such data.
        """
        place = self.place(tensor)
        return None if place is None else place[1]

    def place(self, tensor: Tensor) -> tuple[int, int] | None:
        """Return where a tensor's data starts in the file, and ``room``; None without data."""
        if tensor.external:
            return None
        index = tensor.data
        pieces: list[tuple[int, tuple[int, ...]]]
        if tensor.named:
            pieces, index = [(self.named[tensor.name], (0,))], 0
        elif not tensor.data:
            return None
        elif tensor.initial_state:
            pieces = self._states[tensor.states : tensor.states + 1]
        elif self._constants and self._constants[0][1]:
            pieces = self._constants[:1]
        elif tensor.data < len(self._inline):
            return self._inline[tensor.data]
        else:
            return 0, -1
        for segment, offsets in pieces:
            if index < len(offsets) and segment < len(self._sizes):
                start, size = offsets[index], self._sizes[segment]
                return self._starts[segment] + start, size - start
        return 0, -1


def _pieces(tables: Tables[pte.SubsegmentOffsets]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the segments that are divided, each with the offsets of its pieces."""
    segments = tables.scalars(pte.SubsegmentOffsets.SEGMENT_INDEX, "<u4", 0).tolist()
    offsets = tables.vectors(pte.SubsegmentOffsets.OFFSETS, "<u8")
    return [*zip(segments, offsets, strict=True)]


def _window(data: bytes) -> tuple[FlatBuffer, int]:
    """Return the FlatBuffer in the file, and where segments begin; the extended header has both."""
    if data[4:8] != pte.IDENTIFIER:
        raise FormatError(f"{_kind(data)}, not an ExecuTorch program", hint=_EXPORT)
    at = pte.HEADER_AT
    if data[at : at + 4] != pte.HEADER_MAGIC:
        return FlatBuffer(data, 0, len(data), table_sizes=False), len(data)
    if len(data) < at + _HEADER.size:
        raise FormatError("truncated", offset=len(data), field="extended header")
    _, length, size, segment_base, segment_size = _HEADER.unpack_from(data, at)
    if length not in pte.HEADER_LENGTHS:
        raise FormatError(f"impossible length {length}", offset=at + 4, field="extended header")
    if length == _SHORT_HEADER:
        segment_size = 0
    needed = max(size, segment_base + segment_size)
    if needed > len(data):
        raise FormatError(
            f"file is truncated: {needed} bytes announced, {len(data)} present",
            offset=at + 8,
            field="extended header",
        )
    return FlatBuffer(data, 0, size, table_sizes=False), segment_base


def _kind(data: bytes) -> str:
    """Return what kind of file the data is from."""
    for at, magic, kind in _KINDS:
        if data[at : at + len(magic)] == magic:
            return kind
    # An ONNX model is a protobuf: its version, then a string such as the producer's name.
    if data[:1] == b"\x08" and len(data) > 3 and 0 < data[1] < 32 and data[2] & 7 == 2:
        return "an ONNX model"
    return "an unknown kind of file" if data else "an empty file"


def _method(plan: Tables[pte.ExecutionPlan], stored: _StoredData) -> Method:
    """Return the method described by the single table of ``plan``."""
    slots = pte.ExecutionPlan
    values = read_values(plan.children(slots.VALUES, pte.EValue)[0], stored.named)
    for number, value in enumerate(values):
        if isinstance(value, Tensor) and (room := stored.room(value)) is not None:
            item = np.dtype(STORED_AS.get(value.scalar_type, np.void)).itemsize
            if room < prod(value.sizes) * item:
                raise FormatError(f"the data of value {number} is not in the file", field="values")
    inputs, outputs = (plan.vectors(slot, "<i4")[0] for slot in (slots.INPUTS, slots.OUTPUTS))
    _refuse_unknown(plan, [inputs, outputs], len(values), "input or output")
    operators, _ = plan.children(slots.OPERATORS, pte.OperatorTable)
    kernels = [
        f"{name}.{overload}" if overload else name
        for name, overload in zip(
            operators.texts(pte.OperatorTable.NAME),
            operators.texts(pte.OperatorTable.OVERLOAD),
            strict=True,
        )
    ]
    delegates = plan.children(slots.DELEGATES, pte.BackendDelegate)[0].texts(pte.BackendDelegate.ID)
    chains, _ = plan.children(slots.CHAINS, pte.Chain)
    instructions, counts = chains.children(pte.Chain.INSTRUCTIONS, pte.InstructionTable)
    steps = _instructions(instructions, kernels, delegates, len(values))
    return Method(
        name=plan.texts(slots.NAME)[0],
        values=tuple(values),
        inputs=inputs,
        outputs=outputs,
        chains=tuple(split(steps, counts)),
        delegates=tuple(delegates),
        planned=plan.vectors(slots.NON_CONST_BUFFER_SIZES, "<i8")[0],
    )


def _instructions(
    tables: Tables[pte.InstructionTable], kernels: list[str], delegates: list[str], values: int
) -> list[Instruction]:
    steps: list[Instruction] = tables.unions(
        (pte.InstructionTable.ARGS_TYPE, pte.InstructionTable.ARGS),
        {
            Call.KERNEL: partial(_called, Call.KERNEL, kernels, "KernelCall.op_index"),
            Call.DELEGATE: partial(
                _called, Call.DELEGATE, delegates, "DelegateCall.delegate_index"
            ),
            Call.MOVE: partial(_plain, Call.MOVE, pte.MoveCall),
            Call.JUMP_FALSE: partial(_plain, Call.JUMP_FALSE, pte.JumpFalseCall),
            Call.FREE: partial(_plain, Call.FREE, pte.FreeCall),
        },
        field="Instruction",
        unknown="unknown kind of instruction",
        missing="has no arguments",
    )
    _refuse_unknown(tables, [step.args for step in steps], values, "argument")
    return steps


def _called(
    call: Call, names: list[str], field: str, buffer: FlatBuffer, places: Ints
) -> list[Instruction]:
    """Read calls of kernels or delegates: the index of a name, and arguments."""
    tables = Tables.at(buffer, places, pte.IndexedCall)
    indices = tables.scalars(pte.IndexedCall.INDEX, "<i4", 0)
    good = (indices >= 0) & (indices < len(names))
    buffer.require(good, places, field, "index out of range")
    return [
        Instruction(call, names[index], args, index if call is Call.DELEGATE else -1)
        for index, args in zip(
            indices.tolist(), tables.vectors(pte.IndexedCall.ARGS, "<i4"), strict=True
        )
    ]


def _plain(call: Call, slots: type[IntEnum], buffer: FlatBuffer, places: Ints) -> list[Instruction]:
    """Read instructions that consist of 32-bit integers: values, and the target of a jump."""
    tables = Tables.at(buffer, places, slots)
    rows = zip(*(tables.scalars(slot, "<i4", 0).tolist() for slot in slots), strict=True)
    if call is Call.JUMP_FALSE:
        return [Instruction(call, "", (value,), target) for value, target in rows]
    return [Instruction(call, "", row) for row in rows]


def _refuse_unknown(
    tables: Tables[Any], vectors: Sequence[Sequence[int]], values: int, what: str
) -> None:
    """Check that all value numbers exist in the method."""
    for row, numbers in enumerate(vectors):
        if any(not 0 <= number < values for number in numbers):
            place = int(tables.positions[min(row, len(tables.positions) - 1)])
            raise FormatError(
                f"unknown value number: the method has {values} values", offset=place, field=what
            )


BUNDLED_IDENTIFIER: Final = b"BP08"
_BUNDLED_FAMILY: Final = b"BP"
"""Start of the identifiers of all versions of the format."""

# The slots of each table, in the order of the schema.
BundledProgramTable = IntEnum("BundledProgramTable", "VERSION METHOD_TEST_SUITES PROGRAM", start=0)
BundledMethodTestSuite = IntEnum("BundledMethodTestSuite", "METHOD_NAME TEST_CASES", start=0)
BundledMethodTestCase = IntEnum("BundledMethodTestCase", "INPUTS EXPECTED_OUTPUTS", start=0)
BundledValue = IntEnum("BundledValue", "VAL_TYPE VAL", start=0)
BundledTensor = IntEnum("BundledTensor", "SCALAR_TYPE SIZES DATA DIM_ORDER", start=0)
BundledScalar = IntEnum("BundledScalar", "CONTENT", start=0)
BundledInt = IntEnum("BundledInt", "CONTENT", start=0)
BundledBool = IntEnum("BundledBool", "CONTENT", start=0)
BundledDouble = IntEnum("BundledDouble", "CONTENT", start=0)

_BUNDLED_LAYOUT: Final[Layout] = {
    BundledProgramTable: ("<u4", Vector(BundledMethodTestSuite), Vector("u1")),
    BundledMethodTestSuite: (str, Vector(BundledMethodTestCase)),
    BundledMethodTestCase: (Vector(BundledValue), Vector(BundledValue)),
    BundledValue: (
        "u1",
        Union({1: BundledTensor, 2: BundledInt, 3: BundledBool, 4: BundledDouble}),
    ),
    BundledTensor: ("i1", Vector("<i4"), Vector("u1"), Vector("u1")),
    BundledInt: ("<i8",),
    BundledBool: ("u1",),
    BundledDouble: ("<f8",),
}

BundledInput = np.ndarray | int | float | bool
"""An input: an array for a tensor, else a plain number."""


@dataclass(frozen=True, slots=True, eq=False)
class TestSet:
    """Inputs of a method, and the outputs that they should give.

    Attributes:
        method: Name of the method.
        index: Number of the test set among those of its method, ExecuTorch's ``testset_idx``.
        inputs: One value per input of the method.
        expected: Expected outputs; arrays, as only tensors can be bundled.
    """

    __test__ = False  # pytest collects classes called Test*

    method: str
    index: int
    inputs: tuple[BundledInput, ...]
    expected: tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BundledProgram:
    """The contents of a ``.bpte`` file.

    Attributes:
        program: The ``.pte`` file within it.
        test_sets: All test sets, in the order of the file: by method, then by number.
    """

    program: bytes
    test_sets: tuple[TestSet, ...]


def is_bundled_program(data: bytes) -> bool:
    """Whether the data has the file identifier of a bundled program, of any version."""
    return data[4:6] == _BUNDLED_FAMILY


def is_program_file(path: Path) -> bool:
    """Whether a file is a program, bundled or not, by its suffix or its contents."""
    file = find_model(path)
    if file.suffix in (".pte", ".bpte"):
        return True
    head = read_regular(file, 8) if file.is_file() and os.access(file, os.R_OK) else b""
    return head[4:] == pte.IDENTIFIER or is_bundled_program(head)


def program_bytes(data: bytes) -> bytes:
    """Return the program in a model file: of a bundled program the ``.pte`` file within it.

    Raises:
        FormatError: The data is a damaged bundled program.
    """
    return _bundled_bytes(_bundled_root(data)) if is_bundled_program(data) else data


def program_that_ran(file: str, data: Iterable[str], sha256: str) -> bytes | None:
    """Return the program of a result from its file, linked with its external data.

    None if a file has moved, or has changed since the run.
    """
    path = Path(file)
    try:
        program = path.read_bytes() if path.is_file() else b""
        program = linked_program(program_bytes(program), path.name, [Path(name) for name in data])
    except (OSError, UsageError):
        return None
    return program if hashlib.sha256(program).hexdigest() == sha256 else None


def read_bundled_program(data: bytes) -> BundledProgram:
    """Read a bundled program with all its test sets.

    Raises:
        FormatError: The data is not a bundled program of this version, or is truncated or damaged.
    """
    root = _bundled_root(data)
    suites, _ = root.children(BundledProgramTable.METHOD_TEST_SUITES, BundledMethodTestSuite)
    names = suites.texts(BundledMethodTestSuite.METHOD_NAME)
    cases, counts = suites.children(BundledMethodTestSuite.TEST_CASES, BundledMethodTestCase)
    inputs = _bundled_values(cases, BundledMethodTestCase.INPUTS)
    expected = _bundled_values(cases, BundledMethodTestCase.EXPECTED_OUTPUTS)
    if repeated := {name for name in names if names.count(name) > 1}:
        raise FormatError(
            f"two test suites of method {min(repeated)!r}", field="method_test_suites"
        )
    sets: list[TestSet] = []
    for name, of_method in zip(names, split(range(len(inputs)), counts), strict=True):
        for index, row in enumerate(of_method):
            outputs = tuple(value for value in expected[row] if isinstance(value, np.ndarray))
            if len(outputs) != len(expected[row]):
                raise FormatError(
                    f"an expected output of {name!r}, test set {index}, is not a tensor",
                    offset=int(cases.positions[row]),
                    field="BundledMethodTestCase.expected_outputs",
                )
            sets.append(TestSet(name, index, inputs[row], outputs))
    return BundledProgram(_bundled_bytes(root), tuple(sets))


def _bundled_root(data: bytes) -> Tables[BundledProgramTable]:
    """Return the root table, once everything that it refers to is verified."""
    if data[4:8] != BUNDLED_IDENTIFIER:
        found = data[4:8].decode(errors="backslashreplace")
        raise FormatError(
            f"not a bundled program of version {BUNDLED_IDENTIFIER.decode()}: "
            f"the identifier is {found!r}",
            offset=4,
            field="file identifier",
            hint="bundle the program again with a current version of ExecuTorch",
        )
    buffer = FlatBuffer(data, 0, len(data), table_sizes=False)
    return verified_root(buffer, BundledProgramTable, _BUNDLED_LAYOUT)


def _bundled_bytes(root: Tables[BundledProgramTable]) -> bytes:
    (program,) = _byte_vectors(root, BundledProgramTable.PROGRAM)
    if not program:
        raise FormatError("the bundled program contains no program", field="BundledProgram.program")
    return program


def _byte_vectors(tables: Tables[Any], slot: IntEnum) -> list[bytes]:
    """Return vectors of bytes as such; as numbers they would take 30 times the memory."""
    buffer, places = tables.buffer, tables.references(slot)
    found = [b""] * len(places)
    present = np.flatnonzero(places)
    lengths = buffer.counts(places[present], 1, f"{tables.name}.{slot.name.lower()}")
    for row, at, length in zip(
        present.tolist(), places[present].tolist(), lengths.tolist(), strict=True
    ):
        found[row] = buffer.data[at + 4 : at + 4 + length]
    return found


def _bundled_values(
    cases: Tables[BundledMethodTestCase], slot: BundledMethodTestCase
) -> list[tuple[BundledInput, ...]]:
    """Return the values in ``slot`` of every test set."""
    tables, counts = cases.children(slot, BundledValue)
    values: list[BundledInput] = tables.unions(
        (BundledValue.VAL_TYPE, BundledValue.VAL),
        _BUNDLED_READERS,
        field="Value",
        unknown="unknown kind of value",
        missing="has no content",
    )
    return split(values, counts)


def _bundled_scalars(dtype: str, buffer: FlatBuffer, places: Ints) -> list[BundledInput]:
    tables = Tables.at(buffer, places, BundledScalar)
    found: list[BundledInput] = tables.scalars(BundledScalar.CONTENT, dtype, 0).tolist()
    return found


def _bundled_tensors(buffer: FlatBuffer, places: Ints) -> list[np.ndarray]:
    tables = Tables.at(buffer, places, BundledTensor)
    columns = zip(
        places.tolist(),
        tables.scalars(BundledTensor.SCALAR_TYPE, "i1", 0).tolist(),
        tables.vectors(BundledTensor.SIZES, "<i4"),
        tables.vectors(BundledTensor.DIM_ORDER, "u1"),
        _byte_vectors(tables, BundledTensor.DATA),
        strict=True,
    )
    return [_bundled_tensor(*fields) for fields in columns]


def _bundled_tensor(
    place: int, scalar_type: int, sizes: tuple[int, ...], order: tuple[int, ...], data: bytes
) -> np.ndarray:
    """Return the elements of a tensor in its logical shape.

    The data may be longer than the tensor: of a view ExecuTorch bundles its whole storage, and
    reads it from the start.
    """
    if scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {scalar_type}", offset=place, field="Tensor")
    order = order or tuple(range(len(sizes)))
    if sorted(order) != [*range(len(sizes))] or min(sizes, default=0) < 0:
        raise FormatError(
            f"invalid sizes {sizes} or dim order {order}", offset=place, field="Tensor"
        )
    dtype, count = little_endian(STORED_AS[scalar_type]), prod(sizes)
    if len(data) < count * dtype.itemsize:
        raise FormatError(
            f"{count * dtype.itemsize} bytes expected for sizes {sizes}, {len(data)} present",
            offset=place,
            field="Tensor.data",
        )
    stored = np.frombuffer(data, dtype, count).reshape([sizes[dimension] for dimension in order])
    return stored.transpose(np.argsort(order)).copy()


_BUNDLED_READERS: Final[Mapping[int, Callable[[FlatBuffer, Ints], Sequence[BundledInput]]]] = {
    1: _bundled_tensors,
    2: partial(_bundled_scalars, "<i8"),
    3: partial(_bundled_scalars, "?"),
    4: partial(_bundled_scalars, "<f8"),
}
"""Readers of values, by the number of their type in the union."""
