"""Transposed convolution, resampling, adaptive pooling and measured norms against PyTorch."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.strategies import edges, floats, oracle, seeds
from tests.support.kernels import Out, run
from tests.support.portable import run_portable
from tests.support.torch_calls import check

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
small = st.integers(1, 4)


def image(data: st.DataObject, channels: int | None = None) -> Any:
    count = channels or data.draw(small)
    shape = data.draw(small), count, data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    return floats(data.draw(seeds), shape)


@oracle
@given(st.data(), st.integers(1, 2), st.integers(1, 2), st.booleans())
def test_transposed_convolution(
    etstub: ct.CDLL, data: st.DataObject, spatial: int, groups: int, biased: bool
) -> None:
    inputs, outputs = (groups * data.draw(st.integers(1, 3)) for _ in range(2))

    def each(least: int, most: int) -> list[int]:
        return [data.draw(st.integers(least, most)) for _ in range(spatial)]

    kernel, stride, padding, dilation = each(1, 3), each(1, 3), each(0, 2), each(1, 2)
    added = [data.draw(st.integers(0, max(stride[i], dilation[i]) - 1)) for i in range(spatial)]
    x = floats(data.draw(seeds), (data.draw(small), inputs, *each(1, 5)))
    weight = floats(data.draw(seeds), (inputs, outputs // groups, *kernel))
    bias = floats(data.draw(seeds), (outputs,)) if biased else None
    geometry = zip(x.shape[2:], kernel, stride, padding, dilation, added, strict=True)
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + a + 1 for n, k, s, p, d, a in geometry]
    assume(all(size > 0 for size in sizes))
    tail = [stride, padding, dilation, True, added, groups]
    tensors = [None if value is None else torch.from_numpy(value) for value in (x, weight, bias)]
    expected = torch.ops.aten.convolution.default(*tensors, *tail)
    check(etstub, "aten::convolution.out", [x, weight, bias, *tail], expected, data)


@oracle
@given(st.data(), st.booleans())
def test_upsampling_to_a_size(etstub: ct.CDLL, data: st.DataObject, corners: bool) -> None:
    x, size = image(data), [data.draw(st.integers(1, 12)) for _ in range(2)]
    tensor, ops = torch.from_numpy(x), torch.ops.aten
    expected = ops.upsample_nearest2d.vec(tensor, size, None)
    check(etstub, "aten::upsample_nearest2d.vec_out", [x, size, None], expected, data)
    check(etstub, "aten::upsample_nearest2d.out", [x, size, None, None], expected, data)
    expected = ops.upsample_bilinear2d.vec(tensor, size, corners, None)
    check(etstub, "aten::upsample_bilinear2d.vec_out", [x, size, corners, None], expected, data)
    arguments = [x, size, corners, None, None]
    check(etstub, "aten::upsample_bilinear2d.out", arguments, expected, data)


@oracle
@given(st.data(), st.booleans(), st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=2))
def test_upsampling_by_factors(
    etstub: ct.CDLL, data: st.DataObject, corners: bool, factors: list[float]
) -> None:
    x, factors = image(data), factors[:2]
    assume(all(int(n * f) > 0 for n, f in zip(x.shape[2:], factors, strict=True)))
    tensor, ops = torch.from_numpy(x), torch.ops.aten
    expected = ops.upsample_nearest2d.vec(tensor, None, factors)
    check(etstub, "aten::upsample_nearest2d.vec_out", [x, None, factors], expected, data)
    expected = ops.upsample_bilinear2d.vec(tensor, None, corners, factors)
    check(etstub, "aten::upsample_bilinear2d.vec_out", [x, None, corners, factors], expected, data)


@oracle
@given(st.data(), st.booleans(), st.booleans())
def test_resizing_with_a_filter(
    etstub: ct.CDLL, data: st.DataObject, corners: bool, scaled: bool
) -> None:
    """NaN and infinities as in ExecuTorch: PyTorch leaves out an axis that keeps its size.

    ExecuTorch's kernel sums up to four pixels of an axis; PyTorch's is wrong for one column.
    """
    height, width = (data.draw(st.integers(4, 9)) for _ in range(2))
    factors = [data.draw(st.sampled_from([0.4, 0.75, 1.0, 2.0])) for _ in range(2)]
    size = [max(int(n * f), 2) for n, f in zip((height, width), factors, strict=True)]
    tail = [size, corners, *(factors if scaled else [None, None])]
    operator, shape = "aten::_upsample_bilinear2d_aa.out", (data.draw(small), 2, height, width)
    x = floats(data.draw(seeds), shape)
    expected = torch.ops.aten._upsample_bilinear2d_aa(torch.from_numpy(x), *tail)
    check(etstub, operator, [x, *tail], expected, data)
    if min(factors) >= 0.75:
        x = edges(data.draw(seeds), shape, np.float32)
        theirs = run_portable(operator, x, *tail, Out(expected.shape))
        assert theirs is not None, "ExecuTorch refuses"
        found = run(etstub, operator, x, *tail, Out(expected.shape))
        np.testing.assert_allclose(found, theirs[0], rtol=1e-4, atol=1e-5)


@oracle
@given(st.data())
def test_adaptive_pooling(etstub: ct.CDLL, data: st.DataObject) -> None:
    x, size = image(data), [data.draw(st.integers(1, 9)) for _ in range(2)]
    tensor = torch.from_numpy(x)
    expected = torch.ops.aten._adaptive_avg_pool2d.default(tensor, size)
    check(etstub, "aten::_adaptive_avg_pool2d.out", [x, size], expected, data)
    expected = torch.ops.aten.adaptive_max_pool2d.default(tensor, size)
    check(etstub, "aten::adaptive_max_pool2d.out", [x, size], expected)


MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@oracle
@given(st.data(), st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_sampling_at_a_grid(
    etstub: ct.CDLL, data: st.DataObject, mode: int, padding: int, corners: bool
) -> None:
    """Positions lie within the image and beyond all of its sides.

    A sum of sixteen products is as inexact as the largest of them, however small it is.
    """
    x = image(data)
    grid = floats(data.draw(seeds), (x.shape[0], data.draw(small), data.draw(small), 2)) * 1.5
    tensors = torch.from_numpy(x), torch.from_numpy(grid)
    expected = torch.nn.functional.grid_sample(*tensors, MODES[mode], PADDINGS[padding], corners)
    arguments = [x, grid, mode, padding, corners]
    exact = 16 * float(np.finfo(np.float32).eps) * max(1.0, float(np.abs(x).max()))
    check(etstub, "aten::grid_sampler_2d.out", arguments, expected, data, atol=exact)


def test_positions_that_are_not_finite_are_outside(etstub: ct.CDLL) -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    grid = np.array([[[[np.nan, 0], [np.inf, 0], [0, -np.inf], [3e38, 3e38]]]], np.float32)
    for padding, expected in ((0, 0.0), (1, 1.0), (2, 1.0)):
        found = run(etstub, "aten::grid_sampler_2d", x, grid, 0, padding, False, Out((1, 1, 1, 4)))
        np.testing.assert_array_equal(found, np.full((1, 1, 1, 4), expected, np.float32))


@oracle
@given(st.data(), st.integers(0, 2), st.booleans(), st.sampled_from([1, 1e3, 1e30]))
def test_bicubic_samples_of_any_numbers(
    etstub: ct.CDLL, data: st.DataObject, padding: int, corners: bool, scale: float
) -> None:
    """ExecuTorch has NaN where a position is beyond the range of int64; PyTorch has not."""
    size = data.draw(st.sampled_from([(1, 1), (1, 4), (5, 2)]))
    x = edges(data.draw(seeds), (1, 2, *size), np.float32)
    grid = edges(data.draw(seeds), (1, 2, 3, 2), np.float32) * np.float32(scale)
    arguments = [x, grid, 2, padding, corners]
    tensors = torch.from_numpy(x), torch.from_numpy(grid)
    expected = torch.nn.functional.grid_sample(*tensors, MODES[2], PADDINGS[padding], corners)
    exact = 16 * float(np.finfo(np.float32).eps) * max(1.0, float(np.abs(x).max()))
    check(etstub, "aten::grid_sampler_2d.out", arguments, expected, data, atol=exact)
    if scale < 1e30:
        [theirs] = run_portable("aten::grid_sampler_2d.out", *arguments, Out((1, 2, 2, 3))) or [
            None
        ]
        np.testing.assert_allclose(expected.numpy(), theirs, rtol=1e-5, atol=1e-5)


@oracle
@given(st.data(), st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf")]))
def test_distances(etstub: ct.CDLL, data: st.DataObject, p: float) -> None:
    batch, rows, length = data.draw(st.sampled_from([(), (1,), (3,)])), data.draw(small), 3
    x = floats(data.draw(seeds), (*batch, data.draw(small), length))
    y = floats(data.draw(seeds), (rows, length))
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    expected = torch.cdist(*tensors, p)
    check(etstub, "aten::_cdist_forward.out", [x, y, p, None], expected, data)
    assume(rows > 1)
    expected = torch.nn.functional.pdist(tensors[1], p)
    check(etstub, "aten::_pdist_forward.out", [y, p], expected)


@oracle
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_norms(
    etstub: ct.CDLL, data: st.DataObject, groups: int, per_group: int, affine: bool
) -> None:
    channels = groups * per_group
    x = image(data, channels)
    pixels = x.shape[2] * x.shape[3]
    assume(pixels * per_group > 1 and x.shape[0] * pixels > 1)
    parameters = [floats(data.draw(seeds), (channels,)) if affine else None for _ in range(2)]
    tensor = torch.from_numpy(x)
    tensors = [None if value is None else torch.from_numpy(value) for value in parameters]
    sizes = [x.shape[0], channels, pixels, groups, 1e-3]
    expected = torch.ops.aten.native_group_norm.default(tensor, *tensors, *sizes)
    check(etstub, "aten::native_group_norm.out", [x, *parameters, *sizes], expected)
    tail = [True, 0.1, 1e-3]
    expected = torch.ops.aten._native_batch_norm_legit.no_stats(tensor, *tensors, *tail)
    name = "aten::_native_batch_norm_legit.no_stats_out"
    check(etstub, name, [x, *parameters, *tail], expected)


@oracle
@given(st.data(), st.lists(small, min_size=0, max_size=2), st.booleans())
def test_linear(etstub: ct.CDLL, data: st.DataObject, rows: list[int], biased: bool) -> None:
    inputs, outputs = data.draw(small), data.draw(small)
    x = floats(data.draw(seeds), (*rows, inputs))
    weight = floats(data.draw(seeds), (outputs, inputs))
    bias = floats(data.draw(seeds), (outputs,)) if biased else None
    tensors = [None if value is None else torch.from_numpy(value) for value in (x, weight, bias)]
    check(etstub, "aten::linear.out", [x, weight, bias], torch.nn.functional.linear(*tensors))
