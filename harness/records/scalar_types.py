"""ExecuTorch's scalar types (``schema/scalar_type.fbs``) and how NumPy holds their elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

BFLOAT16: Final = 15
"""The upper half of a float32; NumPy has no such type."""

NUMPY_TYPES: Final[dict[int, type[np.generic]]] = {
    0: np.uint8,
    1: np.int8,
    2: np.int16,
    3: np.int32,
    4: np.int64,
    5: np.float16,
    6: np.float32,
    7: np.float64,
    11: np.bool_,
    27: np.uint16,
    28: np.uint32,
    29: np.uint64,
}
"""Scalar types that NumPy has."""

_OF_DTYPE: Final = {np.dtype(type_): number for number, type_ in NUMPY_TYPES.items()}

STORED_AS: Final[dict[int, type[np.generic]]] = NUMPY_TYPES | {
    12: np.int8,
    13: np.uint8,
    14: np.int32,
    BFLOAT16: np.uint16,
    16: np.uint8,
    17: np.uint8,
    22: np.uint16,
    23: np.uint8,
    24: np.uint8,
    25: np.uint8,
    26: np.uint8,
}
"""Storage types of elements, including those of types that NumPy does not have."""

_NAMES: Final[dict[int, str]] = {
    12: "qint8",
    13: "quint8",
    14: "qint32",
    BFLOAT16: "bfloat16",
    16: "quint4x2",
    17: "quint2x4",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
}
"""Names of the types that NumPy does not have, as PyTorch spells them."""


def type_name(scalar_type: int) -> str:
    """Return the name of a scalar type, such as ``float32``; its number if it is unknown."""
    if scalar_type in NUMPY_TYPES:
        return np.dtype(NUMPY_TYPES[scalar_type]).name
    return _NAMES.get(scalar_type, f"scalar type {scalar_type}")


def little_endian(type_: type[np.generic]) -> np.dtype[Any]:
    """Return the little-endian dtype of elements on devices and in files."""
    return np.dtype(type_).newbyteorder("<")


def scalar_type_of(dtype: np.dtype[Any]) -> int:
    """Return the scalar type of a NumPy dtype.

    Raises:
        KeyError: No scalar type has it.
    """
    return _OF_DTYPE[dtype.newbyteorder("=")]
