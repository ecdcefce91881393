"""Converts logged values to those of ExecuTorch's Inspector: numbers, tensors, lists of tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.errors import FormatError
from harness.records.scalar_types import BFLOAT16, STORED_AS, little_endian
from harness.records.trace import DebugValue, TensorValue


def tensor_array(tensor: TensorValue, debug_buffer: bytes) -> np.ndarray:
    """Return the elements of a logged tensor in its logical shape, for any strides.

    Conversion is exact. Bfloat16 becomes float32. Types that NumPy does not have (quantized types,
    8-bit floats, bit types) are returned as the integers they are stored as.

    Args:
        tensor: From ``Trace.debug_values``.
        debug_buffer: The whole debug buffer of the trace.

    Raises:
        FormatError: The target dropped the tensor's bytes, they are outside the buffer, or the
            scalar type is unknown or the shape impossible.
    """
    if tensor.lost:
        raise FormatError(
            "the target's debug buffer was full: the bytes of this tensor were dropped",
            field="debug buffer",
            hint="log fewer values or fewer runs, or give the board a larger ETD_DEBUG_CAPACITY",
        )
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="scalar type")
    if tensor.defect:
        raise FormatError(f"invalid tensor: {tensor.defect}", field="sizes")
    dtype = little_endian(STORED_AS[tensor.scalar_type])
    if 0 in tensor.sizes:
        stored = np.empty(tensor.sizes, dtype)
    else:
        reach = [(n - 1) * step for n, step in zip(tensor.sizes, tensor.strides, strict=True)]
        count = 1 + sum(reach)
        end = tensor.offset + count * dtype.itemsize
        if tensor.offset < 0 or end > len(debug_buffer):
            raise FormatError(
                f"bytes {tensor.offset} to {end} are outside the debug buffer of "
                f"{len(debug_buffer)} bytes",
                offset=tensor.offset,
                field="debug buffer",
            )
        flat = np.frombuffer(debug_buffer, dtype, count, tensor.offset)
        # The stride of a single element may be any number.
        shape = zip(tensor.sizes, tensor.strides, strict=True)
        steps = [step * dtype.itemsize if n > 1 else 0 for n, step in shape]
        stored = np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps, writeable=False)
    if tensor.scalar_type == BFLOAT16:
        # Shifting an array without dimensions returns a scalar, which has no view().
        return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)
    return stored.copy()


Tensors = Callable[[np.ndarray], Any]
"""Makes a tensor from an array."""


def tensor_maker(kind: str | None) -> Tensors:
    """Return the function that makes tensors: ``"torch"``, ``"numpy"``, or None for the default.

    By default a program that has imported torch gets torch tensors, as from ExecuTorch; others get
    arrays.
    """
    if kind is None:
        kind = "torch" if "torch" in sys.modules else "numpy"
    if kind == "numpy":
        return lambda array: array
    if kind != "torch":
        raise ValueError(f"tensors must be 'torch' or 'numpy', not {kind!r}")
    from harness.extras import require

    (torch,) = require("oracle", "tensors='torch'", "torch")
    return lambda array: torch.from_numpy(np.array(array))


class LoggedValues:
    """Inflates values, and counts tensors without elements."""

    def __init__(self, debug_buffer: bytes | None, tensors: Tensors) -> None:
        """Read elements from ``debug_buffer``, None without one."""
        self._buffer = debug_buffer
        self._tensors = tensors
        self.missing = 0

    def inflate(self, value: DebugValue) -> Any:
        """Return the value; a tensor without elements stays a ``TensorValue`` with its sizes."""
        content = value.value
        if isinstance(content, TensorValue):
            return self._tensor(content)
        if isinstance(content, tuple):
            return [self._tensor(tensor) for tensor in content]
        return content

    def _tensor(self, tensor: TensorValue) -> Any:
        if self._buffer is not None:
            try:
                return self._tensors(tensor_array(tensor, self._buffer))
            except FormatError:
                pass
        self.missing += 1
        return tensor
