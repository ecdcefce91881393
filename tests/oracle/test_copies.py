"""Kernels that move elements, against PyTorch: exact, in any layout and of any type."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, ordered, seeds, shapes
from tests.support.kernels import Array, Out, Tensor, TensorList, run

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64, np.bool_]
dtypes = st.sampled_from([np.float32, *INTEGERS])


def values(data: st.DataObject, shape: Shape, dtype: type) -> Array:
    make = floats if dtype == np.float32 else ints
    return make(data.draw(seeds), shape, dtype)


@st.composite
def inputs(draw: st.DrawFn, least: int = 1) -> Tensor:
    data = draw(st.data())
    shape = draw(shapes(least, 4))
    return Tensor(values(data, shape, draw(dtypes)), draw(ordered(len(shape))))


def check(etstub: ct.CDLL, data: st.DataObject, operator: str, x: Tensor, *tail: Any) -> None:
    """Compare a kernel with the functional operator of the same name and overload."""
    name, _, overload = operator.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload.removesuffix("_out") or "default")
    expected = function(torch.from_numpy(x.data), *tail).numpy()
    extra = [False] if name == "expand_copy" else []
    out = Out(expected.shape, x.data.dtype.type, data.draw(ordered(expected.ndim)))
    found = run(etstub, f"aten::{operator}", x, *tail, *extra, out)
    np.testing.assert_array_equal(found, expected)


@oracle
@given(inputs(), st.data())
def test_slice_and_select(etstub: ct.CDLL, x: Tensor, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-x.data.ndim, x.data.ndim - 1))
    size = x.data.shape[dim]
    start = data.draw(st.one_of(st.none(), st.integers(-size, size - 1)))
    first = start or 0
    first += size if first < 0 else 0
    end = data.draw(st.sampled_from([None, first + 1, size, 2**63 - 1]))
    step = data.draw(st.integers(1, 3))
    check(etstub, data, "slice_copy.Tensor_out", x, dim, start, end, step)
    check(etstub, data, "select_copy.int_out", x, dim, data.draw(st.integers(-size, size - 1)))
    length = data.draw(st.integers(0, size - first))
    check(etstub, data, "narrow_copy", x, dim, first, length)


@oracle
@given(inputs(), st.data())
def test_reshapes(etstub: ct.CDLL, x: Tensor, data: st.DataObject) -> None:
    ndim = x.data.ndim
    check(etstub, data, "unsqueeze_copy", x, data.draw(st.integers(-ndim - 1, ndim)))
    check(etstub, data, "squeeze_copy.dim_out", x, data.draw(st.integers(-ndim, ndim - 1)))
    dims = data.draw(st.lists(st.integers(0, ndim - 1), unique=True, min_size=1))
    check(etstub, data, "squeeze_copy.dims_out", x, dims)
    check(etstub, data, "permute_copy", x, data.draw(st.permutations(range(ndim))))
    count = x.data.size
    rows = data.draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0]))
    check(etstub, data, "view_copy", x, [rows, count // rows])


@oracle
@given(inputs(), st.data())
def test_expand(etstub: ct.CDLL, x: Tensor, data: st.DataObject) -> None:
    wide = [data.draw(st.integers(1, 3)) if size == 1 else -1 for size in x.data.shape]
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    check(etstub, data, "expand_copy", x, [*lead, *wide])


@oracle
@given(inputs(), st.data())
def test_constant_pad(etstub: ct.CDLL, x: Tensor, data: st.DataObject) -> None:
    padded = data.draw(st.integers(0, x.data.ndim))
    pads = []
    for size in x.data.shape[::-1][:padded]:
        before = data.draw(st.integers(1 - size, 3))
        pads += [before, data.draw(st.integers(1 - size - min(before, 0), 3))]
    real = x.data.dtype == np.float32
    value = data.draw(st.sampled_from([0, 1.5, -2] if real else [0, 1]))
    check(etstub, data, "constant_pad_nd", x, pads, value)


@oracle
@given(st.integers(1, 3), st.booleans(), dtypes, st.data())
def test_pads_of_edges(
    etstub: ct.CDLL, padded: int, batched: bool, dtype: type, data: st.DataObject
) -> None:
    """Reflection and replication of the last one, two or three dimensions."""
    shape = data.draw(shapes(padded + 1 + batched, padded + 1 + batched, 4))
    x = values(data, shape, dtype)
    for kind in ("reflection", "replication"):
        pads = []
        for size in shape[: -padded - 1 : -1]:
            limit = st.integers(0, size - 1 if kind == "reflection" else 5)
            pads += [data.draw(limit), data.draw(limit)]
        function = getattr(torch.ops.aten, f"{kind}_pad{padded}d").default
        computed = torch.from_numpy(x.astype(np.float32 if x.dtype == np.bool_ else x.dtype))
        expected = function(computed, pads).numpy().astype(dtype)
        given_ = Tensor(x, data.draw(ordered(len(shape))))
        out = Out(expected.shape, dtype, data.draw(ordered(len(shape))))
        found = run(etstub, f"aten::{kind}_pad{padded}d", given_, pads, out)
        np.testing.assert_array_equal(found, expected)


@oracle
@given(shapes(1, 4), st.integers(1, 4), dtypes, st.data())
def test_cat(etstub: ct.CDLL, shape: Shape, count: int, dtype: type, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    parts = []
    for _ in range(count):
        part = (*shape[:dim], data.draw(st.integers(1, 4)), *shape[dim + 1 :])
        parts.append(Tensor(values(data, part, dtype), data.draw(ordered(len(shape)))))
    expected = torch.cat([torch.from_numpy(part.data) for part in parts], dim).numpy()
    out = Out(expected.shape, dtype, data.draw(ordered(len(shape))))
    found = run(etstub, "aten::cat", TensorList(parts), dim - len(shape), out)
    np.testing.assert_array_equal(found, expected)


@oracle
@given(dtypes, st.sampled_from([np.int32, np.int64]), shapes(0, 3), st.data())
def test_embedding(
    etstub: ct.CDLL, dtype: type, index: type, shape: Shape, data: st.DataObject
) -> None:
    table = values(data, data.draw(shapes(2, 2)), dtype)
    rng = np.random.default_rng(data.draw(seeds))
    indices = np.asarray(rng.integers(0, len(table), shape), index)
    out = Out((*shape, table.shape[1]), dtype)
    found = run(etstub, "aten::embedding", table, indices, -1, False, False, out)
    np.testing.assert_array_equal(found, table[indices])


@oracle
@given(shapes(0, 4), dtypes, dtypes, st.data())
def test_dim_order_copy(
    etstub: ct.CDLL, shape: Shape, source: type, target: type, data: st.DataObject
) -> None:
    x = values(data, shape, source)
    if source == np.float32:
        x = np.asarray(np.clip(x * 50, 0, 120), np.float32)  # what every type can hold
    expected = torch.from_numpy(x).to(torch.from_numpy(np.zeros(1, target)).dtype).numpy()
    orders = [data.draw(ordered(len(shape))) for _ in range(2)]
    out = Out(shape, target, orders[1])
    operator = "dim_order_ops::_to_dim_order_copy"
    found = run(etstub, operator, Tensor(x, orders[0]), False, list(orders[1]), out)
    np.testing.assert_array_equal(found, expected)


@oracle
@given(shapes(0, 4), dtypes, st.data())
def test_clones(etstub: ct.CDLL, shape: Shape, dtype: type, data: st.DataObject) -> None:
    x = values(data, shape, dtype)
    orders = [data.draw(ordered(len(shape))) for _ in range(2)]
    for operator in ("dim_order_ops::_clone_dim_order", "dim_order_ops::_to_dim_order_copy"):
        out = Out(shape, dtype, orders[1])
        found = run(etstub, operator, Tensor(x, orders[0]), False, list(orders[1]), out)
        np.testing.assert_array_equal(found, x)


@oracle
@given(shapes(0, 4), dtypes, st.integers(0, 1), st.data())
def test_constants(
    etstub: ct.CDLL, shape: Shape, dtype: type, number: int, data: st.DataObject
) -> None:
    given_ = values(data, shape, dtype)
    kind = torch.from_numpy(np.zeros(1, dtype)).dtype
    expected = torch.full(shape, number, dtype=kind).numpy()
    found = run(etstub, "aten::full", list(shape), number, Out(shape, dtype))
    np.testing.assert_array_equal(found, expected)
    found = run(etstub, "aten::full_like", given_, number, None, Out(shape, dtype))
    np.testing.assert_array_equal(found, torch.full_like(torch.from_numpy(given_), number).numpy())
    found = run(etstub, "aten::scalar_tensor", number, Out((), dtype))
    np.testing.assert_array_equal(found, torch.scalar_tensor(number, dtype=kind).numpy())
