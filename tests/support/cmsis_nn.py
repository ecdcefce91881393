"""What CMSIS-NN computes, in exact integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.kernels import Array


def rounded_mean(patch: Array) -> int:
    """The mean of int8 as by ``arm_avgpool_s8``: ties are rounded away from zero."""
    total = int(patch.sum(dtype=np.int64))
    size = (2 * abs(total) + patch.size) // (2 * patch.size)
    return size if total > 0 else -size


def is_tie(patch: Array) -> bool:
    """Whether the mean is half-way between two integers."""
    return 2 * int(patch.sum(dtype=np.int64)) % (2 * patch.size) == patch.size


def patch_of(plane: Array, window: Sequence[Sequence[int]], position: Sequence[int]) -> Array:
    """The elements of a plane under a window (kernel size, stride, padding) at a position."""
    return plane[
        tuple(
            slice(max(index * stride - pad, 0), index * stride - pad + kernel)
            for index, kernel, stride, pad in zip(position, *window, strict=True)
        )
    ]
