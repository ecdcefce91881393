"""Reads a bundled program (``.bpte``): a program with test sets for its methods, without torch.

Format: ExecuTorch's ``devtools/bundled_program/schema/bundled_program_schema.fbs``. Every offset is
checked (``harness.decode.flatbuffer``), also in tables that are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
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
    verified_root,
)
from harness.errors import FormatError
from harness.records.trace import STORED_AS, little_endian

IDENTIFIER: Final = b"BP08"
_FAMILY: Final = b"BP"
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
    return verified_root(buffer, BundledProgramTable, _LAYOUT)


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
    values: list[BundledInput] = tables.unions(
        (BundledValue.VAL_TYPE, BundledValue.VAL),
        _READERS,
        field="Value",
        unknown="unknown kind of value",
        missing="has no content",
    )
    return split(values, counts)


def _scalars(dtype: str, buffer: FlatBuffer, places: Ints) -> list[BundledInput]:
    tables = Tables.at(buffer, places, BundledScalar)
    found: list[BundledInput] = tables.scalars(BundledScalar.CONTENT, dtype, 0).tolist()
    return found


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


_READERS: Final[Mapping[int, Callable[[FlatBuffer, Ints], Sequence[BundledInput]]]] = {
    1: _tensors,
    2: partial(_scalars, "<i8"),
    3: partial(_scalars, "?"),
    4: partial(_scalars, "<f8"),
}
"""Readers of values, by the number of their type in the union."""
