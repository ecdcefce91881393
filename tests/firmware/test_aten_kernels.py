"""The portable operators' corner cases and refusals, against NumPy."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest

from tests.firmware.test_kernels import floats, refusal
from tests.support.kernels import Out, Tensor, run, run_all

NAN, INF = np.float32("nan"), np.float32("inf")


def test_broadcasting_reads_both_inputs_in_their_own_layout(etstub: ct.CDLL) -> None:
    a, b = floats(2, 1, 4), floats(3, 1)
    out = run(etstub, "aten::mul", Tensor(a, (2, 0, 1)), b, Out((2, 3, 4), order=(1, 2, 0)))
    np.testing.assert_array_equal(out, a * b)


def test_alpha_scales_the_second_input(etstub: ct.CDLL) -> None:
    a, b = floats(3, 4), floats(4)
    found = run(etstub, "aten::sub", a, b, 0.5, Out((3, 4)))
    np.testing.assert_array_equal(found, a - np.float32(0.5) * b)
    scalar = np.array(2, np.float32)
    np.testing.assert_array_equal(run(etstub, "aten::add", scalar, scalar, 1, Out(())), 4)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_wrap(etstub: ct.CDLL, dtype: type) -> None:
    largest = np.array([np.iinfo(dtype).max, 5], dtype)
    out = run(etstub, "aten::add", largest, np.array([1], dtype), 1, Out((2,), dtype))
    np.testing.assert_array_equal(out, [np.iinfo(dtype).min, 6])


@pytest.mark.parametrize(
    ("operator", "arguments", "reason"),
    [
        ("aten::add", [floats(3), floats(4), 1, Out((3,))], "do not broadcast"),
        ("aten::add", [floats(1), floats(1), 1, Out((3,))], "output size"),
        ("aten::add", [floats(3), floats(3), 1, Out((1, 3))], "output size"),
        ("aten::add", [floats(2, 3), floats(3), 1, Out((3,))], "do not broadcast"),
        ("aten::add", [floats(3), np.zeros(3, np.int32), 1, Out((3,))], "differ in type"),
        ("aten::add", [floats(3), floats(3), None, Out((3,))], "alpha"),
        ("aten::mul", [*2 * [np.zeros(3, np.int8)], Out((3,), np.int8)], "only float32, int32"),
        ("aten::div", [*2 * [np.zeros(3, np.int32)], Out((3,), np.int32)], "only float32"),
        ("aten::sigmoid", [floats(2, 3), Out((3, 2))], "differ in shape"),
        ("aten::tanh", [np.zeros(3, np.int8), Out((3,))], "only float32"),
        ("aten::clamp", [floats(3), "low", None, Out((3,))], "min or max"),
        ("aten::leaky_relu", [floats(3), None, Out((3,))], "negative_slope"),
        ("aten::gelu", [floats(3), "fast", Out((3,))], "approximate"),
        ("aten::mm", [floats(2, 3), floats(2, 3), Out((2, 3))], "sizes"),
        ("aten::mm", [floats(2), floats(2, 3), Out((2, 3))], "matrices"),
        ("aten::bmm", [floats(2, 1, 1), floats(3, 1, 1), Out((2, 1, 1))], "sizes"),
        ("aten::bmm", [floats(2, 3), floats(3, 2), Out((2, 2))], "batches"),
    ],
)
def test_refusals(etstub: ct.CDLL, operator: str, arguments: list[Any], reason: str) -> None:
    assert reason in refusal(etstub, operator, *arguments)


def test_an_integer_alpha_has_no_fraction(etstub: ct.CDLL) -> None:
    ones = np.ones(2, np.int32)
    assert "alpha" in refusal(etstub, "aten::add", ones, ones, 0.5, Out((2,), np.int32))


def test_activations_of_what_is_not_finite(etstub: ct.CDLL) -> None:
    x = np.array([-INF, -1, 0, 1, INF, NAN], np.float32)
    for operator, extra, expected in [
        ("clamp", [-0.5, None], [-0.5, -0.5, 0, 1, INF, NAN]),
        ("hardtanh", [-0.5, 0.5], [-0.5, -0.5, 0, 0.5, 0.5, NAN]),
        ("relu", [], [0, 0, 0, 1, INF, NAN]),
        ("leaky_relu", [0.5], [-INF, -0.5, 0, 1, INF, NAN]),
    ]:
        found = run(etstub, f"aten::{operator}", x, *extra, Out(x.shape))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("count_padding", "divisor", "corner"), [(False, None, 1), (True, None, 4 / 9), (True, 2, 2)]
)
def test_avg_pool2d_at_the_edge(
    etstub: ct.CDLL, count_padding: bool, divisor: int | None, corner: float
) -> None:
    """A window of 3 x 3 whose corner sees 2 x 2 ones."""
    tail = [[3, 3], [], [1, 1], False, count_padding, divisor]
    out = run(etstub, "aten::avg_pool2d", np.ones((1, 4, 4), np.float32), *tail, Out((1, 2, 2)))
    np.testing.assert_allclose(out[0, 0, 0], corner, rtol=1e-6)


def test_max_pool2d_takes_the_first_maximum_and_keeps_nan(etstub: ct.CDLL) -> None:
    x = np.array([[[1, 3, NAN, 0], [3, 2, 9, 0]]], np.float32)
    outs = Out((1, 1, 2)), Out((1, 1, 2), np.int64)
    tail = [[2, 2], [2, 2], [0, 0], [1, 1], False]
    values, indices = run_all(etstub, "aten::max_pool2d_with_indices", x, *tail, *outs)
    np.testing.assert_array_equal(values, [[[3, NAN]]])
    np.testing.assert_array_equal(indices, [[[1, 2]]])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({0: floats(2, 2)}, "only float32 images"),
        ({1: [0, 1]}, "kernel_size"),
        ({3: [2, 2]}, "padding"),
        ({4: [0, 1]}, "dilation"),
        ({6: Out((1, 3, 3))}, "layout of indices"),
        ({7: Out((1, 2, 2), np.int32)}, "indices"),
        ({0: floats(2, 4, 4)}, "output size"),
        ({0: floats(1, 1, 1), 3: [1, 1], 4: [2, 2], 2: [1, 1]}, "misses the input"),
    ],
)
def test_max_pool2d_refusals(etstub: ct.CDLL, changes: dict[int, Any], reason: str) -> None:
    shape = (1, 1, 1) if reason == "misses the input" else (1, 2, 2)
    arguments = [floats(1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, Out(shape)]
    arguments = [*arguments, Out(shape, np.int64)]
    changed = [changes.get(i, value) for i, value in enumerate(arguments)]
    assert reason in refusal(etstub, "aten::max_pool2d_with_indices", *changed)


def test_convolution_of_a_line(etstub: ct.CDLL) -> None:
    x, w = floats(1, 1, 9), floats(1, 1, 3)
    out = run(etstub, "aten::convolution", x, w, None, [2], [1], [1], False, [0], 1, Out((1, 1, 5)))
    padded = np.pad(x[0, 0], 1)
    expected = [padded[i : i + 3] @ w[0, 0] for i in range(0, 9, 2)]
    np.testing.assert_allclose(out[0, 0], expected, rtol=1e-5, atol=1e-6)
