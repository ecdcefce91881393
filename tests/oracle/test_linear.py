"""Matrix and convolution kernels against PyTorch, on generated sizes and layouts."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, oracle, ordered, seeds
from tests.support.kernels import Out, Tensor, run

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
sizes = st.integers(1, 12)


@oracle
@given(sizes, sizes, sizes, st.sampled_from([(), (3,)]), st.data())
def test_products(
    etstub: ct.CDLL, rows: int, depth: int, columns: int, batch: Shape, data: st.DataObject
) -> None:
    a = floats(data.draw(seeds), (*batch, rows, depth))
    b = floats(data.draw(seeds), (*batch, depth, columns))
    orders = [data.draw(ordered(a.ndim)) for _ in range(3)]
    name = "bmm" if batch else "mm"
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    out = Out(expected.shape, order=orders[2])
    found = run(etstub, f"aten::{name}", Tensor(a, orders[0]), Tensor(b, orders[1]), out)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@oracle
@given(sizes, sizes, sizes, st.sampled_from(["matrix", "row", "column", "scalar"]), st.data())
def test_addmm(
    etstub: ct.CDLL, rows: int, depth: int, columns: int, kind: str, data: st.DataObject
) -> None:
    shapes = {"matrix": (rows, columns), "row": (columns,), "column": (rows, 1), "scalar": ()}
    added = floats(data.draw(seeds), shapes[kind])
    a, b = floats(data.draw(seeds), (rows, depth)), floats(data.draw(seeds), (depth, columns))
    beta, alpha = data.draw(st.sampled_from([(1, 1), (0.5, -2), (0, 3)]))
    tensors = [torch.from_numpy(value) for value in (added, a, b)]
    expected = torch.addmm(*tensors, beta=beta, alpha=alpha).numpy()
    found = run(etstub, "aten::addmm", added, a, b, beta, alpha, Out(expected.shape))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@oracle
@given(st.integers(1, 2), st.data())
def test_convolution(etstub: ct.CDLL, spatial: int, data: st.DataObject) -> None:
    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))

    stride, dilation, kernel = numbers(1, 3), numbers(1, 3), numbers(1, 3)
    pad, room = numbers(0, 3), numbers(0, 6)
    groups, depth, per_group = (data.draw(st.integers(1, 3)) for _ in range(3))
    span = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    image = [s + r for s, r in zip(span, room, strict=True)]
    x = floats(data.draw(seeds), (2, groups * depth, *image))
    w = floats(data.draw(seeds), (groups * per_group, depth, *kernel))
    bias = data.draw(st.sampled_from([None, floats(data.draw(seeds), (groups * per_group,))]))
    tail = [stride, pad, dilation, False, [0] * spatial, groups]
    expected = torch.ops.aten.convolution(
        torch.from_numpy(x),
        torch.from_numpy(w),
        None if bias is None else torch.from_numpy(bias),
        *tail,
    ).numpy()
    orders = [data.draw(ordered(x.ndim)) for _ in range(3)]
    out = Out(expected.shape, order=orders[2], room=data.draw(st.sampled_from([0, 3])))
    arguments = [Tensor(x, orders[0]), Tensor(w, orders[1]), bias, *tail, out]
    found = run(etstub, "aten::convolution", *arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
