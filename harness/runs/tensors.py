"""Converts tensors between files, arrays and device bytes; reads outputs with their references."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.check.subject import ModelOutput
from harness.errors import TargetError, UsageError
from harness.records.result import ReferenceRecord, Result
from harness.records.scalar_types import NUMPY_TYPES, little_endian
from harness.runs.directory import RunDirectory

if TYPE_CHECKING:
    from harness.link.values import TensorInfo


_ZIP: Final = b"PK\x03\x04"
"""Beginning of a ``.npz`` file."""

_HEADERS: Final = {1: np.lib.format.read_array_header_1_0}
"""Readers of headers by version of the format; later versions have the layout of version 2."""


def dtype_of(scalar_type: int) -> np.dtype[Any]:
    """Return the NumPy dtype of an ExecuTorch scalar type.

    Raises:
        TargetError: NumPy has no such type.
    """
    if scalar_type not in NUMPY_TYPES:
        raise TargetError(f"unsupported scalar type {scalar_type} of a tensor of the model")
    return little_endian(NUMPY_TYPES[scalar_type])


def read_inputs(paths: Sequence[Path], wanted: Sequence[TensorInfo], seed: int) -> list[np.ndarray]:
    """Return the model's inputs: from ``.npy`` files, or random with ``seed`` when none are given.

    Raises:
        UsageError: A file is missing or not an array, or has another shape or type than the input.
    """
    if not paths:
        generator = np.random.default_rng(seed)
        return [_random(info, generator) for info in wanted]
    if len(paths) != len(wanted):
        raise UsageError(f"the model has {len(wanted)} inputs, but {len(paths)} files were given")
    return [_load(path, info, i) for i, (path, info) in enumerate(zip(paths, wanted, strict=True))]


def to_bytes(array: np.ndarray, info: TensorInfo) -> bytes:
    """Return the array's elements in the order the tensor has in memory (its dim_order)."""
    return array.transpose(info.dim_order).tobytes()


def from_bytes(data: bytes, info: TensorInfo) -> np.ndarray:
    """Return the array that ``to_bytes`` made ``data`` from.

    Raises:
        TargetError: The number of bytes does not match the tensor.
    """
    if len(data) != info.nbytes:
        raise TargetError(f"the device sent {len(data)} bytes for a tensor of {info.nbytes}")
    stored = np.frombuffer(data, dtype_of(info.scalar_type))
    sizes = [info.sizes[dimension] for dimension in info.dim_order]
    # A copy: np.ascontiguousarray would give a tensor without dimensions one.
    return stored.reshape(sizes).transpose(np.argsort(info.dim_order)).copy()


def read_npy(path: Path) -> np.ndarray:
    """Read an array from a ``.npy`` file.

    Raises:
        UsageError: The file is missing, or is not an array.
    """
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers as Python 2 wrote them
            if file.read(len(_ZIP)) == _ZIP:
                hint = "give a .npy file with one array"
                raise UsageError(f"{path}: contains several arrays", hint=hint)
            file.seek(0)
            major, _ = np.lib.format.read_magic(file)
            read_header = _HEADERS.get(major, np.lib.format.read_array_header_2_0)
            shape, _, dtype = read_header(file)
            # Before memory is taken for what the header says.
            if prod(shape) * dtype.itemsize > path.stat().st_size - file.tell():
                raise ValueError(f"truncated: shape {shape} of {dtype}")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, TokenError, SyntaxError, OverflowError) as error:
        raise UsageError(f"{path}: not a readable .npy file: {error}") from error


def read_references(paths: Sequence[Path]) -> list[np.ndarray]:
    """Read the references; called before a run, so that a bad file is reported first.

    Raises:
        UsageError: A file is missing, or is not an array.
    """
    return [read_npy(path) for path in paths]


def save_references(
    directory: RunDirectory,
    references: Sequence[np.ndarray],
    outputs: int,
    rtol: float | None,
    atol: float | None,
) -> ReferenceRecord | None:
    """Write the references into a run directory, and return their record; None without any.

    Args:
        directory: The run directory.
        references: One reference per output, or ().
        outputs: Number of outputs of the model.
        rtol: Relative tolerance; None for the default of the type.
        atol: Absolute tolerance; None for the default of the type.

    Raises:
        UsageError: The number of references is not the number of outputs.
    """
    if not references:
        return None
    if len(references) != outputs:
        raise UsageError(
            f"the model has {outputs} outputs, but {len(references)} references were given",
            hint="give --reference once per output, in their order",
        )
    files = tuple(
        directory.write_tensor(f"reference/{index}.npy", array)
        for index, array in enumerate(references)
    )
    return ReferenceRecord(files, rtol, atol)


def compared_outputs(result: Result, directory: Path | None) -> tuple[ModelOutput, ...]:
    """Return the outputs of a run with their references; () without references.

    Raises:
        UsageError: A file that the result names is missing, or is not an array.
    """
    reference, model = result.reference, result.model
    if reference is None or model is None or directory is None or not model.outputs:
        return ()
    if len(reference.files) != len(model.outputs):
        raise UsageError(
            f"{directory}: the result records {len(model.outputs)} outputs, but "
            f"{len(reference.files)} references",
            hint="run again",
        )
    return tuple(
        ModelOutput(
            output.file,
            read_npy(directory / output.file),
            read_npy(directory / file),
            reference.rtol,
            reference.atol,
        )
        for output, file in zip(model.outputs, reference.files, strict=True)
    )


def _load(path: Path, info: TensorInfo, index: int) -> np.ndarray:
    array = read_npy(path)
    dtype = dtype_of(info.scalar_type)
    if array.dtype != dtype or not _fits(array.shape, info):
        found = f"{array.dtype}{list(array.shape)}"
        most = " at most" if info.dynamic else ""
        raise UsageError(
            f"{path}: input {index} must be {dtype}{list(info.sizes)}{most}, "
            f"but the file has {found}"
        )
    return array


def _fits(shape: tuple[int, ...], info: TensorInfo) -> bool:
    if not info.dynamic or len(shape) != len(info.sizes):
        return shape == info.sizes
    return all(size <= bound for size, bound in zip(shape, info.sizes, strict=True))


def _random(info: TensorInfo, generator: np.random.Generator) -> np.ndarray:
    dtype = dtype_of(info.scalar_type)
    if dtype.kind == "f":
        return generator.standard_normal(info.sizes).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, info.sizes).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, info.sizes, dtype, endpoint=True)
