"""Reads a bundled program (``.bpte``): a program with test sets for its methods, without torch.

Format: ExecuTorch's ``devtools/bundled_program/schema/bundled_program_schema.fbs``. Every offset is
checked (``harness.decode.flatbuffer``), also in tables that are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any, Final

import numpy as np

from harness.decode.flatbuffer import (
    FlatBuffer,
    Ints,
    Layout,
    Tables,
    Union,
    Vector,
    split,
    verify,
)
from harness.errors import FormatError
from harness.records.scalar_types import STORED_AS, little_endian

IDENTIFIER: Final = b"BP08"
_FAMILY: Final = b"BP"
"""Start of the identifiers of all versions of the format."""


class BundledProgramTable(IntEnum):
    """Slots of BundledProgram."""

    VERSION = 0
    METHOD_TEST_SUITES = 1
    PROGRAM = 2


class BundledMethodTestSuite(IntEnum):
    """Slots of BundledMethodTestSuite."""

    METHOD_NAME = 0
    TEST_CASES = 1


class BundledMethodTestCase(IntEnum):
    """Slots of BundledMethodTestCase."""

    INPUTS = 0
    EXPECTED_OUTPUTS = 1


class BundledValue(IntEnum):
    """Slots of BundledValue."""

    VAL_TYPE = 0
    VAL = 1


class BundledTensor(IntEnum):
    """Slots of BundledTensor."""

    SCALAR_TYPE = 0
    SIZES = 1
    DATA = 2
    DIM_ORDER = 3


class BundledScalar(IntEnum):
    """Slots of BundledScalar."""

    CONTENT = 0


class BundledInt(IntEnum):
    """Slots of BundledInt."""

    CONTENT = 0


class BundledBool(IntEnum):
    """Slots of BundledBool."""

    CONTENT = 0


class BundledDouble(IntEnum):
    """Slots of BundledDouble."""

    CONTENT = 0


_TENSOR: Final = 1
_SCALARS: Final = {2: "<i8", 3: "?", 4: "<f8"}
"""Dtypes of the types of a value other than a tensor, by number in the union."""

_LAYOUT: Final[Layout] = {
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
    return data[4:6] == _FAMILY


def program_bytes(data: bytes) -> bytes:
    """Return the program in a model file: of a bundled program the ``.pte`` file within it.

    Raises:
        FormatError: The data is a damaged bundled program.
    """
    return _program(_root(data)) if is_bundled_program(data) else data


def read_bundled_program(data: bytes) -> BundledProgram:
    """Read a bundled program with all its test sets.

    Raises:
        FormatError: The data is not a bundled program of this version, or is truncated or damaged.
    """
    root = _root(data)
    suites, _ = root.children(BundledProgramTable.METHOD_TEST_SUITES, BundledMethodTestSuite)
    names = suites.texts(BundledMethodTestSuite.METHOD_NAME)
    cases, counts = suites.children(BundledMethodTestSuite.TEST_CASES, BundledMethodTestCase)
    inputs = _values(cases, BundledMethodTestCase.INPUTS)
    expected = _values(cases, BundledMethodTestCase.EXPECTED_OUTPUTS)
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
    return BundledProgram(_program(root), tuple(sets))


def _root(data: bytes) -> Tables[BundledProgramTable]:
    """Return the root table, once everything that it refers to is verified."""
    if data[4:8] != IDENTIFIER:
        found = data[4:8].decode(errors="backslashreplace")
        raise FormatError(
            f"not a bundled program of version {IDENTIFIER.decode()}: the identifier is {found!r}",
            offset=4,
            field="file identifier",
            hint="bundle the program again with a current version of ExecuTorch",
        )
    buffer = FlatBuffer(data, 0, len(data), table_sizes=False)
    start = np.zeros(1, np.int64)
    buffer.inside(start, 8, "file", start)
    place = buffer.follow(start, "root")
    verify(buffer, place, BundledProgramTable, _LAYOUT)
    return Tables.at(buffer, place, BundledProgramTable)


def _program(root: Tables[BundledProgramTable]) -> bytes:
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


def _values(
    cases: Tables[BundledMethodTestCase], slot: BundledMethodTestCase
) -> list[tuple[BundledInput, ...]]:
    """Return the values in ``slot`` of every test set."""
    tables, counts = cases.children(slot, BundledValue)
    buffer = tables.buffer
    types = tables.scalars(BundledValue.VAL_TYPE, "u1", 0)
    known = (types == _TENSOR) | np.isin(types, [*_SCALARS])
    buffer.require(known, tables.positions, "Value", "unknown kind of value")
    places = tables.references(BundledValue.VAL)
    buffer.require(places != 0, tables.positions, "Value", "has no content")
    values: list[BundledInput] = [0] * len(types)
    rows = np.flatnonzero(types == _TENSOR)
    for row, array in zip(rows.tolist(), _tensors(buffer, places[rows]), strict=True):
        values[row] = array
    for number, dtype in _SCALARS.items():
        rows = np.flatnonzero(types == number)
        scalars = Tables.at(buffer, places[rows], BundledScalar)
        found = scalars.scalars(BundledScalar.CONTENT, dtype, 0).tolist()
        for row, value in zip(rows.tolist(), found, strict=True):
            values[row] = value
    return split(values, counts)


def _tensors(buffer: FlatBuffer, places: Ints) -> list[np.ndarray]:
    tables = Tables.at(buffer, places, BundledTensor)
    columns = zip(
        places.tolist(),
        tables.scalars(BundledTensor.SCALAR_TYPE, "i1", 0).tolist(),
        tables.vectors(BundledTensor.SIZES, "<i4"),
        tables.vectors(BundledTensor.DIM_ORDER, "u1"),
        _byte_vectors(tables, BundledTensor.DATA),
        strict=True,
    )
    return [_tensor(*fields) for fields in columns]


def _tensor(
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
