"""Elementwise kernels against PyTorch, on generated shapes, layouts and values."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, ordered, seeds, shapes
from tests.support.kernels import Array, Out, Tensor, run

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
RELATIVE = 1e-6


@st.composite
def broadcast_shapes(draw: st.DrawFn) -> tuple[Shape, Shape, Shape]:
    """Two shapes and what they broadcast to."""
    full = draw(shapes(1, 5))
    parts = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :]
        parts.append(tuple(draw(st.sampled_from([1, size])) for size in kept))
    return *parts, np.broadcast_shapes(*parts)


def compare(found: Array, expected: Any) -> None:
    np.testing.assert_allclose(found, expected.numpy(), rtol=RELATIVE, atol=1e-7)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(["add", "sub", "mul", "div"]))
def test_binary(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, name: str
) -> None:
    dtypes = [np.float32] if name == "div" else [np.float32, np.int32, np.int64]
    dtype = data.draw(st.sampled_from(dtypes))
    make = floats if dtype == np.float32 else ints
    a, b = (make(data.draw(seeds), part, dtype) for part in shape[:2])
    orders = [data.draw(ordered(len(part))) for part in shape]
    alpha: dict[str, Any] = {}
    if name in ("add", "sub"):
        alpha["alpha"] = data.draw(st.sampled_from([1, -3, 2.5] if make is floats else [1, -3]))
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b), **alpha)
    found = run(
        etstub,
        f"aten::{name}",
        Tensor(a, orders[0]),
        Tensor(b, orders[1]),
        *alpha.values(),
        Out(shape[2], dtype, orders[2]),
    )
    if dtype == np.float32:
        compare(found, expected)
    else:
        np.testing.assert_array_equal(found, expected.numpy())


UNARY: dict[str, list[list[Any]]] = {
    "relu": [[]],
    "sigmoid": [[]],
    "tanh": [[]],
    "hardtanh": [[-1.0, 1.0], [0, 6]],
    "clamp": [[None, 0.5], [-1, None], [-0.25, 3.0], [2.0, -2.0]],
    "leaky_relu": [[0.01], [2]],
    "gelu": [["none"], ["tanh"]],
}


@oracle
@given(shapes(0, 5), st.data(), st.sampled_from(sorted(UNARY)))
def test_unary(etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str) -> None:
    extra = data.draw(st.sampled_from(UNARY[name]))
    order = data.draw(ordered(len(shape)))
    x = np.asarray(floats(data.draw(seeds), shape) * 5, np.float32)
    operator = getattr(torch.ops.aten, name).default
    tensor = torch.from_numpy(x)
    named = {"approximate": extra[0]} if name == "gelu" else {}
    expected = operator(tensor, **named) if named else operator(tensor, *extra)
    found = run(etstub, f"aten::{name}", Tensor(x, order), *extra, Out(shape, order=order))
    # Where the result is near zero, PyTorch's vectorized functions and libm cancel differently.
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
