"""Converts logged tensors to arrays."""

from __future__ import annotations

import numpy as np

from harness.errors import FormatError
from harness.records.scalar_types import BFLOAT16, STORED_AS, little_endian
from harness.records.trace import TensorValue


def tensor_array(tensor: TensorValue, debug_buffer: bytes) -> np.ndarray:
    """Return the elements of a logged tensor in its logical shape, for any strides.

    Conversion is exact. Bfloat16 becomes float32. Types that NumPy does not have (quantized types,
    8-bit floats, bit types) are returned as the integers they are stored as.

    Args:
        tensor: From ``Trace.debug_values``.
        debug_buffer: The whole debug buffer of the trace.

    Raises:
        FormatError: The target dropped the tensor's bytes, they are outside the buffer, or the
            scalar type is unknown.
    """
    if tensor.lost:
        raise FormatError(
            "the target's debug buffer was full: the bytes of this tensor were dropped",
            field="debug buffer",
            hint="log fewer values or fewer runs, or give the board a larger ETD_DEBUG_CAPACITY",
        )
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="scalar type")
    dtype = little_endian(STORED_AS[tensor.scalar_type])
    if 0 in tensor.sizes:
        stored = np.empty(tensor.sizes, dtype)
    else:
        reach = [(n - 1) * step for n, step in zip(tensor.sizes, tensor.strides, strict=True)]
        count = 1 + sum(reach)
        end = tensor.offset + count * dtype.itemsize
        if min(reach, default=0) < 0 or tensor.offset < 0 or end > len(debug_buffer):
            raise FormatError(
                f"bytes {tensor.offset} to {end} are outside the debug buffer of "
                f"{len(debug_buffer)} bytes",
                offset=tensor.offset,
                field="debug buffer",
            )
        flat = np.frombuffer(debug_buffer, dtype, count, tensor.offset)
        steps = [step * dtype.itemsize for step in tensor.strides]
        stored = np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps, writeable=False)
    if tensor.scalar_type == BFLOAT16:
        # Shifting an array without dimensions returns a scalar, which has no view().
        return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)
    return stored.copy()
