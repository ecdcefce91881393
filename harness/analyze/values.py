"""Logged tensors as arrays."""

from __future__ import annotations

import numpy as np

from harness.errors import FormatError
from harness.records.scalar_types import BFLOAT16, STORED_AS, little_endian
from harness.records.trace import TensorValue


def tensor_array(tensor: TensorValue, debug_buffer: bytes) -> np.ndarray:
    """Return a logged tensor's elements in its shape, whatever their order in memory was.

    Nothing is rounded. Bfloat16 becomes float32, which has all its values. Quantized types, 8-bit
    floats and bit types, which NumPy does not have, come as the integers they are stored as.

    Args:
        tensor: From ``Trace.debug_values``.
        debug_buffer: The whole debug buffer of the trace.

    Raises:
        FormatError: The target could not keep the tensor's bytes, they are not in the buffer, or
            the scalar type is unknown.
    """
    if tensor.lost:
        raise FormatError(
            "the target had no room for this tensor's bytes",
            field="debug buffer",
            hint="log fewer values or fewer runs, or give the board a larger ETD_DEBUG_CAPACITY",
        )
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"scalar type {tensor.scalar_type} is not known", field="scalar type")
    dtype = little_endian(STORED_AS[tensor.scalar_type])
    if 0 in tensor.sizes:
        stored = np.empty(tensor.sizes, dtype)
    else:
        reach = [(n - 1) * step for n, step in zip(tensor.sizes, tensor.strides, strict=True)]
        count = 1 + sum(reach)
        end = tensor.offset + count * dtype.itemsize
        if min(reach, default=0) < 0 or tensor.offset < 0 or end > len(debug_buffer):
            raise FormatError(
                f"bytes {tensor.offset} to {end} are not in the debug buffer's {len(debug_buffer)}",
                offset=tensor.offset,
                field="debug buffer",
            )
        flat = np.frombuffer(debug_buffer, dtype, count, tensor.offset)
        steps = [step * dtype.itemsize for step in tensor.strides]
        stored = np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps, writeable=False)
    if tensor.scalar_type == BFLOAT16:
        # As an array again: shifting one without dimensions makes a number of it.
        return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)
    return stored.copy()
