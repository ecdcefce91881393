"""Operators that PyTorch exports and ExecuTorch has no kernel for, against PyTorch.

Volumes, bags of embeddings and scattered reductions, with NaN, infinities, empty tensors and
windows over the edge.
"""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.operators import BEYOND
from tests.oracle.strategies import edges, floats, oracle, seeds
from tests.support.kernels import Out, run_all
from tests.support.portable import run_portable
from tests.support.torch_calls import TOLERANCE, check

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
small = st.integers(1, 3)
KINDS = ["sum", "prod", "mean", "amax", "amin"]


def three(data: st.DataObject, least: int, most: int) -> list[int]:
    return [data.draw(st.integers(least, most)) for _ in range(3)]


@oracle
@given(st.data(), st.integers(1, 2), st.booleans())
def test_convolution_of_volumes(
    etstub: ct.CDLL, data: st.DataObject, groups: int, biased: bool
) -> None:
    inputs, outputs = (groups * data.draw(small) for _ in range(2))
    shape = data.draw(small), inputs, *three(data, 1, 6)
    x, kernel = edges(data.draw(seeds), shape, np.float32), three(data, 1, 3)
    weight = floats(data.draw(seeds), (outputs, inputs // groups, *kernel))
    bias = floats(data.draw(seeds), (outputs,)) if biased else None
    stride, padding, dilation = three(data, 1, 3), three(data, 0, 3), three(data, 1, 2)
    reach = zip(x.shape[2:], padding, dilation, kernel, strict=True)
    assume(all(n + 2 * p > d * (k - 1) for n, p, d, k in reach))
    tail = [stride, padding, dilation, False, [0, 0, 0], groups]
    tensors = [None if value is None else torch.from_numpy(value) for value in (x, weight, bias)]
    expected = torch.ops.aten.convolution.default(*tensors, *tail)
    check(etstub, "aten::convolution.out", [x, weight, bias, *tail], expected, data)


def test_executorch_refuses_volumes() -> None:
    """Its kernel of convolutions takes lines and images alone."""
    x, weight = np.ones((1, 1, 2, 2, 2), np.float32), np.ones((1, 1, 1, 1, 1), np.float32)
    tail = [[1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1]
    assert run_portable("aten::convolution.out", x, weight, None, *tail, Out(x.shape)) is None
    named = ["avg_pool3d.out", "max_pool3d_with_indices.out", "scatter_reduce.two_out"]
    named += ["_embedding_bag.out", "_embedding_bag_forward_only.out"]
    assert {f"aten::{name}" for name in named} <= set(BEYOND)


@oracle
@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_pools_of_volumes(
    etstub: ct.CDLL, data: st.DataObject, ceil_mode: bool, counted: bool, batched: bool
) -> None:
    shape = (*([2] if batched else []), 2, *three(data, 2, 6))
    x, kernel = edges(data.draw(seeds), shape, np.float32), three(data, 1, 3)
    window = [kernel, data.draw(st.sampled_from([[], three(data, 1, 3)]))]
    window.append([data.draw(st.integers(0, size // 2)) for size in kernel])
    # PyTorch refuses a window larger than the volume, whatever the padding.
    assume(all(n >= k for n, k in zip(shape[-3:], kernel, strict=True)))
    tensor, aten = torch.from_numpy(x), torch.ops.aten
    divisor = data.draw(st.sampled_from([None, 5]))
    arguments = [*window, ceil_mode, counted, divisor]
    expected = aten.avg_pool3d.default(tensor, *arguments)
    check(etstub, "aten::avg_pool3d.out", [x, *arguments], expected, data)
    dilation = [1, 1, 1] if ceil_mode else three(data, 1, 2)
    reach = zip(shape[-3:], window[2], dilation, kernel, strict=True)
    assume(all(n + 2 * p > d * (k - 1) and n > (d - 1) * (k - 1) for n, p, d, k in reach))
    arguments = [*window, dilation, ceil_mode]
    expected = aten.max_pool3d_with_indices.default(tensor, *arguments)
    check(etstub, "aten::max_pool3d_with_indices.out", [x, *arguments], expected)


@oracle
@given(
    st.data(),
    st.sampled_from(KINDS),
    st.sampled_from([np.float32, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float64]),
    st.sampled_from([np.int64, np.int32]),
    st.booleans(),
)
def test_scattered_reductions(
    etstub: ct.CDLL, data: st.DataObject, kind: str, dtype: type, index_type: type, itself: bool
) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    inner = [data.draw(st.integers(0, size)) for size in shape]
    inner[dim] = data.draw(st.integers(0, 6))
    places = np.random.default_rng(data.draw(seeds)).integers(0, shape[dim], inner)
    outer = [size + data.draw(st.integers(0, 1)) for size in inner]
    x, source = (edges(data.draw(seeds), sizes, dtype) for sizes in (shape, outer))
    expected = torch.from_numpy(x).scatter_reduce(
        dim, torch.from_numpy(places), torch.from_numpy(source), kind, include_self=itself
    )
    arguments = [x, dim, places.astype(index_type), source, kind, itself]
    check(etstub, "aten::scatter_reduce.two_out", arguments, expected, data)


@oracle
@given(st.data(), st.integers(0, 2), st.booleans(), st.booleans(), st.sampled_from([-1, 1]))
def test_bags_of_embeddings(
    etstub: ct.CDLL, data: st.DataObject, mode: int, ended: bool, weighted: bool, padding: int
) -> None:
    """Some bags are empty, or there is none; the outputs for training are zeros."""
    count, bags = data.draw(st.integers(0, 6)), data.draw(st.integers(0 if not ended else 1, 4))
    rng = np.random.default_rng(data.draw(seeds))
    table = edges(data.draw(seeds), (4, data.draw(st.integers(1, 3))), np.float32)
    words = rng.integers(0, 4, count)
    starts = np.sort(rng.integers(0, count + 1, bags))
    starts[:1] = 0
    if ended:
        starts[-1] = count
        starts[:1] = 0 if bags > 1 or count == 0 else count
    assume(not ended or bags > 1)
    assume(bags or not count)  # PyTorch reads beyond its memory where words are in no bag
    weights = floats(data.draw(seeds), (count,)) if weighted and mode == 0 else None
    arguments = [table, words, starts, False, mode, False, weights, ended, padding]
    tensors = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments]
    expected, *others = torch.ops.aten._embedding_bag_forward_only.default(*tensors)
    for name in ("_embedding_bag", "_embedding_bag_forward_only"):
        outs = [Out(other.shape, other.numpy().dtype.type) for other in others]
        wanted = Out(expected.shape)
        found = run_all(etstub, f"aten::{name}.out", *arguments, wanted, *outs)
        np.testing.assert_allclose(found[0], expected.numpy(), **TOLERANCE)  # type: ignore[arg-type]
        assert not any(other.any() for other in found[1:])
