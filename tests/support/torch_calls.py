"""One call of a kernel, compared with what PyTorch computes; every tensor lies in memory anyhow."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.oracle.strategies import ordered
from tests.support.kernels import Out, Tensor, TensorList, run_all

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def laid_out(value: Any, data: st.DataObject) -> Any:
    """An argument for the kernel: arrays, also those in lists, get an order in memory."""
    match value:
        case np.ndarray():
            return Tensor(value, data.draw(ordered(value.ndim)))
        case TensorList():
            return TensorList([laid_out(item, data) for item in value.tensors])
        case _:
            return value


def check(
    library: ct.CDLL,
    operator: str,
    arguments: Sequence[Any],
    expected: Any,
    data: st.DataObject | None = None,
    *,
    listed: bool = False,
    atol: float = 1e-6,
) -> None:
    """Call the kernel and compare its outputs.

    Args:
        library: The device's code.
        operator: Its name with the overload.
        arguments: Those before the outputs.
        expected: PyTorch's result, a tensor or several.
        data: Draws the order of tensors in memory; without it they are contiguous.
        listed: Whether the outputs are a list.
        atol: By how much values may differ beside their relative tolerance.
    """
    several = expected if isinstance(expected, (tuple, list)) else [expected]
    wanted = [tensor.numpy() for tensor in several]
    outs = [
        Out(
            array.shape,
            array.dtype.type,
            None if data is None else data.draw(ordered(array.ndim)),
        )
        for array in wanted
    ]
    inputs = [value if data is None else laid_out(value, data) for value in arguments]
    found = run_all(library, operator, *inputs, *([TensorList(outs)] if listed else outs))
    for mine, theirs in zip(found, wanted, strict=True):
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, TOLERANCE["rtol"], atol)
        else:
            np.testing.assert_array_equal(mine, theirs)
