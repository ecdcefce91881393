"""Sums of many float32 numbers against float64; their mean is far larger than their spread."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest

from tests.support.kernels import Array, Out, run, run_all

LENGTHS = (64, 1000, 4096)
of_lengths = pytest.mark.parametrize("length", LENGTHS)
EPSILON = 1e-12
HALF_ULP = np.spacing(np.float32(3000)) / 2


def offset(*shape: int) -> Array:
    return (3000.37 + np.random.default_rng(3).uniform(-0.01, 0.01, shape)).astype(np.float32)


def standard(x: Array, axes: tuple[int, ...]) -> Array:
    wide = x.astype(np.float64)
    return np.asarray((wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True))


def assert_normalized(found: Array, x: Array, axes: tuple[int, ...]) -> None:
    """Off by no more than a mean that is wrong by a float32 number and a half."""
    limit = 3 * HALF_ULP / x.astype(np.float64).std()
    np.testing.assert_allclose(found, standard(x, axes), rtol=1e-3, atol=limit)


@of_lengths
def test_layer_norm(etstub: ct.CDLL, length: int) -> None:
    x = offset(4, length)
    outs = [Out(x.shape), Out((4, 1)), Out((4, 1))]
    arguments = [[length], None, None, EPSILON]
    found = run_all(etstub, "aten::native_layer_norm", x, *arguments, *outs)
    assert_normalized(found[0], x, (1,))


@of_lengths
def test_group_norm(etstub: ct.CDLL, length: int) -> None:
    x = offset(2, 4, 1, length)
    outs = [Out(x.shape), Out((2, 2)), Out((2, 2))]
    arguments = [None, None, 2, 4, length, 2, EPSILON]
    found = run_all(etstub, "aten::native_group_norm", x, *arguments, *outs)
    assert_normalized(found[0].reshape(2, 2, -1), x.reshape(2, 2, -1), (2,))


@of_lengths
def test_norm_of_a_batch(etstub: ct.CDLL, length: int) -> None:
    x = offset(3, 2, length)
    outs = [Out(x.shape), Out((2,)), Out((2,))]
    operator = "aten::_native_batch_norm_legit.no_stats_out"
    found = run_all(etstub, operator, x, None, None, True, 0.1, EPSILON, *outs)
    assert_normalized(found[0], x, (0, 2))


@of_lengths
@pytest.mark.parametrize("axis", [0, 1])
def test_mean_sum_and_variance(etstub: ct.CDLL, length: int, axis: int) -> None:
    x = offset(3, length) if axis == 1 else offset(length, 3)
    wide = x.astype(np.float64)
    mean = run(etstub, "aten::mean.out", x, [axis], False, None, Out((3,)))
    np.testing.assert_allclose(mean, wide.mean(axis), rtol=0, atol=3 * HALF_ULP)
    total = run(etstub, "aten::sum.IntList_out", x, [axis], False, None, Out((3,)))
    np.testing.assert_allclose(total, wide.sum(axis), rtol=3 * HALF_ULP / 3000)
    variance = run(etstub, "aten::var.correction_out", x, [axis], 0, False, Out((3,)))
    np.testing.assert_allclose(variance, wide.var(axis), rtol=2e-3)


def test_a_mean_over_two_dimensions(etstub: ct.CDLL) -> None:
    """Many short lines."""
    x = offset(2, 999, 3)
    found = run(etstub, "aten::mean.out", x, [1, 2], False, None, Out((2,)))
    np.testing.assert_allclose(found, x.mean((1, 2), np.float64), rtol=0, atol=3 * HALF_ULP)


@pytest.mark.parametrize("sizes", [(64, 64), (1, 4096), (4096, 1), (3, 5)])
def test_pools(etstub: ct.CDLL, sizes: tuple[int, int]) -> None:
    x = offset(1, 2, *sizes)
    expected = x.mean((2, 3), np.float64)[..., np.newaxis, np.newaxis]
    pool = [list(sizes), [1, 1], [0, 0], False, True, None]
    for found in (
        run(etstub, "aten::avg_pool2d", x, *pool, Out((1, 2, 1, 1))),
        run(etstub, "aten::_adaptive_avg_pool2d", x, [1, 1], Out((1, 2, 1, 1))),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=3 * HALF_ULP)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 33, 50_000])
def test_softmax(etstub: ct.CDLL, length: int) -> None:
    x = np.random.default_rng(4).uniform(-1e-3, 0, (1, length)).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max())
    expected = powers / powers.sum()
    found = run(etstub, "aten::_softmax", x, 1, False, Out(x.shape))
    np.testing.assert_allclose(found, expected, rtol=3e-7)
    found = run(etstub, "aten::_log_softmax", x, 1, False, Out(x.shape))
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize("length", range(1, 70))
def test_every_length_is_added_once(etstub: ct.CDLL, length: int) -> None:
    """Whole numbers, whose sums are exact."""
    x = np.arange(1, length + 1, dtype=np.float32)
    for step in (1, 2):
        wide = np.repeat(x[:, np.newaxis], step, 1)
        found = run(etstub, "aten::sum.IntList_out", wide, [0], False, None, Out((step,)))
        np.testing.assert_array_equal(found, length * (length + 1) / 2)
