"""The portable operators' corner cases and refusals, against NumPy."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest

from tests.firmware.test_kernels import floats, int8s, refusal
from tests.support.kernels import Out, Tensor, TensorList, run, run_all

BYTES, ROWS = int8s(2, 3), TensorList([int8s(2, 3), int8s(1, 3)])
INTS, DOUBLES = np.zeros(3, np.int32), np.zeros(3)
UNSUPPORTED = "unsupported types of inputs and output"
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
        ("aten::add", [floats(1), floats(1), 1, Out((3,))], "do not broadcast to the output"),
        ("aten::add", [floats(3), floats(3), 1, Out((1, 3))], "do not broadcast to the output"),
        ("aten::add", [floats(2, 3), floats(3), 1, Out((3,))], "do not broadcast"),
        ("aten::add", [floats(3), INTS, 1, Out((3,), np.int32)], UNSUPPORTED),
        ("aten::add", [floats(3), floats(3), None, Out((3,))], "alpha"),
        ("aten::add", [INTS, INTS, 0.5, Out((3,))], "alpha"),
        ("aten::mul", [floats(3), floats(3), Out((3,), np.int8)], UNSUPPORTED),
        ("aten::mul", [floats(3), None, Out((3,))], "invalid type of input"),
        ("aten::div", [INTS, INTS, Out((3,), np.int32)], UNSUPPORTED),
        ("aten::sigmoid", [floats(2, 3), Out((3, 2))], "differ in shape"),
        ("aten::tanh", [INTS, Out((3,), np.int32)], "floats as the output"),
        ("aten::tanh", [DOUBLES, Out((3,))], "only float32 and integers"),
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
        ({0: floats(2, 2)}, "only images of one type"),
        ({6: Out((1, 2, 2), np.float64)}, "only images of one type"),
        ({1: [0, 1]}, "kernel_size"),
        ({3: [2, 2]}, "padding"),
        ({4: [0, 1]}, "dilation"),
        ({6: Out((1, 3, 3))}, "output size"),
        ({7: Out((1, 2, 2), np.int32)}, "indices"),
        ({7: Out((1, 3, 3), np.int64)}, "layout of indices"),
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


@pytest.mark.parametrize(
    ("operator", "arguments", "expected"),
    [
        ("slice_copy.Tensor_out", [BYTES, 1, -100, None, 2], BYTES[:, ::2]),
        ("slice_copy.Tensor_out", [BYTES, 0, 2, 2**63 - 1, 1], BYTES[2:]),
        ("select_copy.int_out", [BYTES, -1, -3], BYTES[:, 0]),
        ("cat", [ROWS, 0], np.concatenate(ROWS.tensors)),
        (
            "constant_pad_nd",
            [BYTES, [-1, 2, 1, 0], 7],
            np.pad(BYTES, [(1, 0), (0, 2)], constant_values=7)[:, 1:],
        ),
        ("constant_pad_nd", [BYTES, [], 7], BYTES),
        ("squeeze_copy.dims_out", [BYTES[:1], [0, 1]], BYTES[0]),
        ("unsqueeze_copy", [BYTES, -2], BYTES[:, None]),
        (
            "expand_copy",
            [BYTES[:, :1], [4, -1, 3], False],
            np.broadcast_to(BYTES[:, :1], (4, 2, 3)),
        ),
        ("embedding", [BYTES, np.array([[1], [0]]), -1, False, False], BYTES[[[1], [0]]]),
    ],
)
def test_copies(etstub: ct.CDLL, operator: str, arguments: list[Any], expected: Any) -> None:
    out = Out(expected.shape, np.int8)
    np.testing.assert_array_equal(run(etstub, f"aten::{operator}", *arguments, out), expected)


@pytest.mark.parametrize(
    ("operator", "arguments", "shape", "reason"),
    [
        ("slice_copy.Tensor_out", [BYTES, 1, 0, 2, 0], (2, 2), "step"),
        ("slice_copy.Tensor_out", [BYTES, 2, 0, 2, 1], (2, 2), "dim"),
        ("slice_copy.Tensor_out", [BYTES, 1, 0, 2, 1], (2, 3), "output size"),
        ("slice_copy.Tensor_out", [floats(2, 3), 1, 0, 2, 1], (2, 2), "differ in type"),
        ("select_copy.int_out", [BYTES, 1, 3], (2,), "index"),
        ("select_copy.int_out", [BYTES, 1, 2], (3,), "output size"),
        ("cat", [TensorList([BYTES, int8s(2, 2)]), 0], (4, 3), "differ in type or size"),
        ("cat", [TensorList([BYTES, floats(2, 3)]), 0], (4, 3), "differ in type or size"),
        ("cat", [ROWS, 0], (4, 3), "output size"),
        ("cat", [ROWS, 2], (3, 3), "dim"),
        ("constant_pad_nd", [BYTES, [1], 0], (2, 4), "pad"),
        ("constant_pad_nd", [BYTES, [1 << 40, 0], 0], (2, 4), "pad"),
        ("constant_pad_nd", [BYTES, [-2, -2], 0], (2, 3), "output size"),
        ("constant_pad_nd", [BYTES, [1, 0], None], (2, 4), "value"),
        ("squeeze_copy.dim_out", [BYTES, 0], (6,), "output size"),
        ("unsqueeze_copy", [BYTES, 0], (2, 3, 1), "output size"),
        ("expand_copy", [BYTES, [2, 4], False], (2, 4), "does not broadcast"),
        ("expand_copy", [BYTES, [-1, 2, 3], False], (1, 2, 3), "size"),
        ("embedding", [BYTES, np.array([2]), -1, False, False], (1, 3), "index out of range"),
        ("embedding", [BYTES, np.array([-1]), -1, False, False], (1, 3), "index out of range"),
        ("embedding", [BYTES, np.array([1], np.int8), -1, False, False], (1, 3), "int64 indices"),
        ("embedding", [Tensor(BYTES, (1, 0)), np.array([1]), 0, 0, 0], (1, 3), "contiguous"),
        ("embedding", [BYTES, np.array([1]), -1, False, False], (1, 4), "output size"),
    ],
)
def test_copies_refuse(
    etstub: ct.CDLL, operator: str, arguments: list[Any], shape: tuple[int, ...], reason: str
) -> None:
    out = Out(shape, np.int8)
    assert reason in refusal(etstub, f"aten::{operator}", *arguments, out)


def test_conversion_keeps_what_it_can(etstub: ct.CDLL) -> None:
    operator = "dim_order_ops::_to_dim_order_copy"
    x = np.array([1.9, -1.9, INF, -INF, NAN], np.float32)
    found = run(etstub, operator, x, False, [0], Out((5,), np.int64))
    limits = np.iinfo(np.int64)
    np.testing.assert_array_equal(found, [1, -1, limits.max, limits.min, 0])
    large = np.array([2**53 + 1, -(2**63)], np.int64)
    np.testing.assert_array_equal(
        run(etstub, operator, large, False, [0], Out((2,))), large.astype(np.float32)
    )
    assert "shape" in refusal(etstub, operator, x, False, [0], Out((4,), np.int64))


TYPES = (np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64)
AROUND_A_CHUNK = (1, 7, 8, 9, 16, 19)
"""Lengths of lines: numbers of any type are loaded eight at a time."""


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", AROUND_A_CHUNK)
def test_conversion_between_layouts(etstub: ct.CDLL, dtype: type, length: int) -> None:
    x = np.arange(6 * length).reshape(2, 3, length).astype(dtype)
    out = Out(x.shape, np.int32 if dtype == np.float32 else np.float32, order=(1, 0, 2))
    found = run(
        etstub, "aten::copy", np.zeros(x.shape, out.dtype), Tensor(x, (2, 1, 0)), False, out
    )
    np.testing.assert_array_equal(found, x.astype(out.dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", AROUND_A_CHUNK)
def test_reductions_of_any_type(etstub: ct.CDLL, dtype: type, length: int) -> None:
    rng = np.random.default_rng(length)
    x = Tensor(rng.integers(0, 4, (2, length, 3)).astype(dtype), (0, 2, 1))
    wide = dtype if np.dtype(dtype).kind == "f" else np.int64
    for dims in ([1], [0, 1]):
        shape = x.data.sum(tuple(dims)).shape
        for name, expected in (
            ("amax", np.max),
            ("amin", np.min),
            ("any", np.any),
            ("all", np.all),
        ):
            overload = "" if name.startswith("am") else ".dims_out"
            out = Out(shape, dtype if name.startswith("am") else np.bool_)
            found = run(etstub, f"aten::{name}{overload}", x, dims, False, out)
            np.testing.assert_array_equal(found, expected(x.data, tuple(dims)))
    for name, with_dim in (("prod.int_out", np.prod), ("cumsum", np.cumsum)):
        expected = with_dim(x.data, 1, dtype=wide)
        arguments = [False, None] if name == "prod.int_out" else [None]
        out = Out(expected.shape, wide)
        np.testing.assert_array_equal(run(etstub, f"aten::{name}", x, 1, *arguments, out), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_the_first_of_equal_extremes_is_found(etstub: ct.CDLL, dtype: type) -> None:
    x = np.array([[2, 0, 9, 9, 0, 1], [-3, -3, -7, 5, -7, 5]], dtype)
    for name, expected in (("argmax", [2, 3]), ("argmin", [1, 2])):
        for order in ((0, 1), (1, 0)):
            found = run(etstub, f"aten::{name}", Tensor(x, order), 1, False, Out((2,), np.int64))
            np.testing.assert_array_equal(found, expected)
    if np.dtype(dtype).kind == "f":
        x[:, [1, 3]] = np.nan
        for name in ("argmax", "argmin"):
            found = run(etstub, f"aten::{name}", x, 1, False, Out((2,), np.int64))
            np.testing.assert_array_equal(found, [1, 1])


def test_sum_and_layer_norm(etstub: ct.CDLL) -> None:
    x = floats(2, 3, 4)
    found = run(
        etstub, "aten::sum.IntList_out", Tensor(x, (2, 0, 1)), [-2], True, 6, Out((2, 1, 4))
    )
    np.testing.assert_allclose(found, x.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    outs = Out(x.shape), Out((2, 3, 1)), Out((2, 3, 1))
    found = run(etstub, "aten::native_layer_norm", x, [4], None, floats(4), 1e-5, *outs)
    spread = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    expected = (x - x.mean(-1, keepdims=True)) / spread + floats(4)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_quantization_of_what_is_not_finite(etstub: ct.CDLL) -> None:
    x = np.array([INF, -INF, NAN, 0.5, 1.5], np.float32)
    operator = "quantized_decomposed::quantize_per_tensor"
    found = run(etstub, operator, x, 1.0, 1, 0, 200, 0, Out(x.shape, np.uint8))
    np.testing.assert_array_equal(found, [200, 0, 0, 1, 3])


NORM = [floats(2, 3), [3], None, None, 1e-5, Out((2, 3)), Out((2, 1)), Out((2, 1))]
SCALES, ZEROS = np.ones(3, np.float32), np.zeros(3, np.int64)
CHANNELS = [floats(2, 3), SCALES, ZEROS, 1, -128, 127, 1, Out((2, 3), np.int8)]
WHOLE = [BYTES, 0.1, 0, -128, 127, 1, None, Out((2, 3))]


@pytest.mark.parametrize(
    ("operator", "arguments", "changes", "reason"),
    [
        ("aten::native_layer_norm", NORM, {1: [2]}, "normalized_shape"),
        ("aten::native_layer_norm", NORM, {1: []}, "normalized_shape"),
        ("aten::native_layer_norm", NORM, {2: floats(2)}, "weight"),
        ("aten::native_layer_norm", NORM, {6: Out((1, 1))}, "mean and rstd"),
        ("aten::native_layer_norm", NORM, {0: Tensor(floats(2, 3), (1, 0))}, "contiguous"),
        ("quantized_decomposed::quantize_per_channel", CHANNELS, {1: SCALES[:2]}, "scales"),
        ("quantized_decomposed::quantize_per_channel", CHANNELS, {3: 2}, "axis"),
        ("quantized_decomposed::quantize_per_channel", CHANNELS, {4: -129}, "range"),
        ("quantized_decomposed::quantize_per_channel", CHANNELS, {6: 0}, "dtype"),
        ("quantized_decomposed::dequantize_per_tensor", WHOLE, {1: 0.0}, "scale"),
        ("quantized_decomposed::dequantize_per_tensor", WHOLE, {6: 7}, "out_dtype"),
        ("quantized_decomposed::dequantize_per_tensor", WHOLE, {0: ZEROS}, "only between"),
    ],
)
def test_parameters_are_checked(
    etstub: ct.CDLL, operator: str, arguments: list[Any], changes: dict[int, Any], reason: str
) -> None:
    changed = [changes.get(i, value) for i, value in enumerate(arguments)]
    assert reason in refusal(etstub, operator, *changed)


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (-1, INF, -1),
        (1, INF, 0),
        (1, -INF, -1),
        (-1, -INF, 0),
        (-0.0, INF, -0.0),
        (INF, 2, NAN),
        (INF, INF, NAN),
        (-2.5, 0, -INF),
        (7, -2, -4),
    ],
)
def test_floor_division_of_infinity_is_as_in_pytorch(
    etstub: ct.CDLL, a: float, b: float, quotient: float
) -> None:
    one, other = (np.array([number], np.float32) for number in (a, b))
    found = run(etstub, "aten::floor_divide", one, other, Out((1,)))
    np.testing.assert_array_equal(found, np.float32(quotient))
    assert np.isnan(quotient) or np.signbit(found) == np.signbit(quotient)
