"""Tensors of a device whose runtime has more types than NumPy, or than its server."""

from __future__ import annotations

import numpy as np
import pytest

from harness import TargetError, tensor_from_bytes
from harness.records.trace import STORED_AS, stored_bytes
from harness.testing import messages

BFLOAT16, FLOAT8 = 15, 23


def info(
    scalar_type: int, sizes: tuple[int, ...] = (), order: tuple[int, ...] = ()
) -> messages.TensorInfo:
    """As from firmware that does not know the size of the type."""
    return messages.TensorInfo(scalar_type=scalar_type, nbytes=0, sizes=sizes, dim_order=order)


def test_bfloat16_is_read_as_float32() -> None:
    numbers = np.array([[1.0, -2.5], [0.0, 3.140625]], np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype("<u2")
    found = tensor_from_bytes(upper.T.tobytes(), info(BFLOAT16, (2, 2), (1, 0)))
    np.testing.assert_array_equal(found, numbers)
    assert tensor_from_bytes(b"\x80\x3f", info(BFLOAT16)) == np.float32(1)


def test_a_type_that_numpy_lacks_is_named() -> None:
    with pytest.raises(TargetError, match="float8_e5m2"):
        tensor_from_bytes(b"\0", info(FLOAT8, (1,), (0,)))


@pytest.mark.parametrize("scalar_type", sorted(STORED_AS))
def test_every_type_has_a_size(scalar_type: int) -> None:
    size = stored_bytes(scalar_type, (2, 3))
    assert size == 6 * np.dtype(STORED_AS[scalar_type]).itemsize
    assert stored_bytes(99, (2, 3)) is None
