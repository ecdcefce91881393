"""Kernels against small NumPy references, in the branches that the models do not reach."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.cmsis_nn import patch_of, rounded_mean
from tests.support.kernels import Out, Tensor, run
from tests.support.runtime import RuntimeFailure

Array = npt.NDArray[np.generic]
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)
layouts = pytest.mark.parametrize("order", [NCHW, NHWC], ids=["nchw", "nhwc"])


def refusal(library: ct.CDLL, operator: str, *arguments: object) -> str:
    """The message of a kernel that must refuse its arguments."""
    with pytest.raises(RuntimeFailure) as caught:
        run(library, operator, *arguments)
    assert caught.value.status == "KERNEL_FAILED"
    name = operator if "." in operator else f"{operator}.out"
    assert caught.value.message.startswith(f"{name}: ")
    return caught.value.message


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def int8s(*shape: int) -> npt.NDArray[np.int8]:
    return np.random.default_rng(2).integers(-128, 128, shape, np.int8)


def convolve(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """Direct convolution in int64 or float64; x is N, C, H, W and w is O, C / groups, y, x."""
    wide = np.int64 if x.dtype.kind == "i" else np.float64
    x = np.pad(x.astype(wide), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    span = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    height, width = ((x.shape[2 + i] - span[i]) // stride + 1 for i in (0, 1))
    out = np.zeros((x.shape[0], w.shape[0], height, width), wide)
    depth, share = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        group = x[:, o // share * depth : (o // share + 1) * depth]
        for i, j in np.ndindex(height, width):
            rows = slice(i * stride, i * stride + span[0], dilation)
            columns = slice(j * stride, j * stride + span[1], dilation)
            out[:, o, i, j] = (group[:, :, rows, columns] * w[o].astype(wide)).sum((1, 2, 3))
    return out


def requantize(value: int, multiplier: int, shift: int) -> int:
    """``value * multiplier * 2**(shift - 31)`` as CMSIS-NN rounds it, modulo 2**32."""
    result = ((value << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    remainder = result & ((1 << right) - 1)
    half = ((1 << right) - 1) >> 1
    result >>= right
    result += remainder > half + (result < 0)
    return (result + (1 << 31)) % (1 << 32) - (1 << 31)


@layouts
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 3, 1, 4), (2, 0, 2, 4)],
)
def test_convolution(
    etstub: ct.CDLL, order: Sequence[int], stride: int, pad: int, dilation: int, groups: int
) -> None:
    x, w, bias = floats(2, 4, 7, 6), floats(8, 4 // groups, 3, 2), floats(8)
    expected = convolve(x, w, stride, pad, dilation, groups) + bias[:, None, None]
    out = run(
        etstub,
        "aten::convolution",
        Tensor(x, order),
        Tensor(w, order),
        bias,
        [stride],
        [pad, pad],
        [dilation, dilation],
        False,
        [0, 0],
        groups,
        Out(expected.shape, order=order),
    )
    np.testing.assert_allclose(out, expected, atol=1e-5)


def int8_conv_arguments(x: Array, w: Array, channels: int) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        "bias": rng.integers(-5000, 5000, channels, np.int32),
        "multipliers": rng.integers(1 << 30, (1 << 31) - 1, channels, np.int32),
        "shifts": rng.integers(-10, -5, channels).astype(np.int32),
    }


def finish_int8(sums: Array, scales: dict[str, Array], offset: int, low: int, high: int) -> Array:
    out = np.empty(sums.shape, np.int8)
    for index in np.ndindex(sums.shape):
        channel = index[1]
        value = int(sums[index]) + int(scales["bias"][channel])
        parameters = int(scales["multipliers"][channel]), int(scales["shifts"][channel])
        out[index] = min(max(requantize(value, *parameters) + offset, low), high)
    return out


@layouts
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"), [(1, 1, 1, 1), (2, 0, 2, 1), (1, 2, 2, 2)]
)
def test_quantized_conv2d(
    etstub: ct.CDLL, order: Sequence[int], stride: int, pad: int, dilation: int, groups: int
) -> None:
    x, w = int8s(2, 4, 7, 6), int8s(6, 4 // groups, 3, 2)
    scales = int8_conv_arguments(x, w, 6)
    zero = 17  # the input offset; padding counts as its negative, so pads with 0 after adding
    sums = convolve(x.astype(np.int64) + zero, w, stride, pad, dilation, groups)
    out = run(
        etstub,
        "cortex_m::quantized_conv2d",
        Tensor(x, order),
        w.transpose(0, 2, 3, 1).copy(),
        scales["bias"],
        [stride, stride],
        [pad, pad],
        [dilation, dilation],
        zero,
        -3,
        scales["multipliers"],
        scales["shifts"],
        -100,
        90,
        None,
        Out(sums.shape, np.int8, order),
    )
    np.testing.assert_array_equal(out, finish_int8(sums, scales, -3, -100, 90))


@layouts
@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 1, 1), (2, 0, 2)])
def test_quantized_depthwise_conv2d(
    etstub: ct.CDLL, order: Sequence[int], stride: int, pad: int, dilation: int
) -> None:
    x, w = int8s(2, 3, 7, 6), int8s(6, 1, 3, 2)
    scales = int8_conv_arguments(x, w, 6)
    sums = convolve(x.astype(np.int64) + 5, w, stride, pad, dilation, 3)
    out = run(
        etstub,
        "cortex_m::quantized_depthwise_conv2d",
        Tensor(x, order),
        w.transpose(1, 2, 3, 0).copy(),
        scales["bias"],
        [stride, stride],
        [pad, pad],
        [dilation, dilation],
        2,
        5,
        7,
        scales["multipliers"],
        scales["shifts"],
        -128,
        127,
        None,
        Out(sums.shape, np.int8, order),
    )
    np.testing.assert_array_equal(out, finish_int8(sums, scales, 7, -128, 127))


@pytest.mark.parametrize("with_sums", [False, True])
def test_quantized_linear(etstub: ct.CDLL, with_sums: bool) -> None:
    """With kernel sums, as exported for CPUs with MVE, and without; in two leading dimensions."""
    x, w = int8s(2, 3, 10), int8s(4, 10)
    bias = np.array([100, -100, 2000, 0], np.int32)
    offset, filter_offset = 9, 0
    sums = (x.astype(np.int64) + offset) @ w.astype(np.int64).T + bias
    folded = bias + offset * w.sum(1, dtype=np.int32)[np.newaxis]
    out = run(
        etstub,
        "cortex_m::quantized_linear",
        x,
        w,
        None if with_sums else bias,
        folded if with_sums else None,
        offset,
        filter_offset,
        -5,
        [1_500_000_000],
        [-7],
        127,
        -120,
        Out((2, 3, 4), np.int8),
    )
    scaled = np.vectorize(lambda value: requantize(int(value), 1_500_000_000, -7))(sums)
    np.testing.assert_array_equal(out, np.clip(scaled - 5, -120, 127))


@pytest.mark.parametrize("shift", [-31, -1, 0, 3])
def test_requantization_rounds_as_cmsis_nn(etstub: ct.CDLL, shift: int) -> None:
    """A layer of one input, whose bias is the sum: ties, both signs, shifts both ways."""
    sums = np.array([-3, -2, -1, 0, 1, 2, 3, 1 << 30, -(1 << 30)], np.int32)
    multiplier = 1 << 30
    out = run(
        etstub,
        "cortex_m::quantized_linear",
        np.zeros((1, 1), np.int8),
        np.zeros((len(sums), 1), np.int8),
        sums,
        None,
        0,
        0,
        0,
        [multiplier],
        [shift],
        127,
        -128,
        Out((1, len(sums)), np.int8),
    )
    expected = [min(max(requantize(int(s), multiplier, shift), -128), 127) for s in sums]
    np.testing.assert_array_equal(out[0], expected)


@layouts
@pytest.mark.parametrize(("ceil_mode", "shape"), [(False, (2, 3, 3, 3)), (True, (2, 3, 4, 3))])
def test_quantized_avg_pool2d(
    etstub: ct.CDLL, order: Sequence[int], ceil_mode: bool, shape: tuple[int, ...]
) -> None:
    """Padding does not count in the mean."""
    x, zero, multiplier, shift = int8s(2, 3, 6, 5), -9, 1_262_414_336, -3
    expected = np.empty(shape, np.int8)
    for n, c, i, j in np.ndindex(*shape):
        expected[n, c, i, j] = rounded_mean(patch_of(x[n, c], [[3, 3], [2, 2], [1, 1]], (i, j)))
    out = run(
        etstub,
        "cortex_m::quantized_avg_pool2d",
        Tensor(x, order),
        [3, 3],
        [2, 2],
        [1, 1],
        ceil_mode,
        zero,
        multiplier,
        shift,
        None,
        Out(shape, np.int8, order),
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("window", "mean"),
    [([1, 2], 2), ([2, 3], 3), ([-1, -2], -2), ([-2, -3], -3), ([0, -1], -1), ([-128, -127], -128)],
)
@pytest.mark.parametrize("zero", [0, -9, 8])
def test_quantized_avg_pool2d_rounds_ties_as_cmsis_nn(
    etstub: ct.CDLL, window: list[int], mean: int, zero: int
) -> None:
    """Away from zero, whatever the zero point is."""
    x = np.array(window, np.int8).reshape(1, 1, 1, 2)
    rest = [[1, 2], [1, 2], [0, 0], False, zero, 1 << 30, 1, None]
    out = run(etstub, "cortex_m::quantized_avg_pool2d", x, *rest, Out((1, 1, 1, 1), np.int8))
    assert out.item() == mean == rounded_mean(x)


def test_quantize_rounds_ties_to_even_and_clamps(etstub: ct.CDLL) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    out = run(
        etstub,
        "cortex_m::quantize_per_tensor",
        x,
        1.0,
        0,
        -100,
        100,
        1,
        Out(x.shape, np.int8),
    )
    np.testing.assert_array_equal(out, [0, 2, 2, 0, -2, 100, -100, 100, -100, -100])


def test_quantization_multiplies_by_the_inverse_scale(etstub: ct.CDLL) -> None:
    x, scale = floats(1000), 0.03056175634264946
    out = run(
        etstub,
        "cortex_m::quantize_per_tensor",
        x,
        scale,
        -1,
        -128,
        127,
        1,
        Out(x.shape, np.int8),
    )
    np.testing.assert_array_equal(out, np.clip(np.rint(x * np.float32(1 / scale)) - 1, -128, 127))
    back = run(
        etstub,
        "cortex_m::dequantize_per_tensor",
        out.copy(),
        scale,
        -1,
        -128,
        127,
        1,
        Out(x.shape),
    )
    np.testing.assert_array_equal(back, (out.astype(np.float32) + 1) * np.float32(scale))


@pytest.mark.parametrize(
    ("dims", "keepdim", "axes"),
    [([2, 3], False, (2, 3)), ([-1], True, (3,)), ([1, 0], True, (0, 1)), ([], False, None)],
)
@layouts
def test_mean(
    etstub: ct.CDLL,
    order: Sequence[int],
    dims: list[int],
    keepdim: bool,
    axes: tuple[int, ...] | None,
) -> None:
    x = floats(2, 3, 4, 5)
    expected = x.mean(axis=axes, keepdims=keepdim)
    out = run(etstub, "aten::mean", Tensor(x, order), dims, keepdim, None, Out(expected.shape))
    np.testing.assert_allclose(out, expected, atol=1e-6)


@layouts
def test_batch_norm(etstub: ct.CDLL, order: Sequence[int]) -> None:
    x, mean, variance = floats(2, 3, 4, 5), floats(3), np.abs(floats(3)) + 0.5
    per_channel = (slice(None), None, None)
    expected = (x - mean[per_channel]) / np.sqrt(variance[per_channel] + 1e-3)
    out = run(
        etstub,
        "aten::_native_batch_norm_legit_no_training",
        Tensor(x, order),
        None,
        None,
        mean,
        variance,
        0.1,
        1e-3,
        Out(x.shape, order=order),
        Out((0,)),
        Out((0,)),
    )
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, -1])
@layouts
def test_softmax(etstub: ct.CDLL, order: Sequence[int], dim: int) -> None:
    x = floats(2, 3, 4, 5) * 20
    powers = np.exp(x - x.max(dim, keepdims=True))
    out = run(etstub, "aten::_softmax", Tensor(x, order), dim, False, Out(x.shape, order=order))
    np.testing.assert_allclose(out, powers / powers.sum(dim, keepdims=True), atol=1e-6)


def test_int8_softmax_along_an_outer_dimension(etstub: ct.CDLL) -> None:
    x, multiplier, shift = int8s(5, 3), 1_990_266_112, 24
    scale = np.float32(multiplier / 2**31 * 2.0**shift / 2**26)
    values = (x.astype(np.float32) + 16) * scale
    powers = np.exp(values - values.max(0))
    expected = np.clip(np.rint(powers / powers.sum(0) * 256) - 128, -128, 127)
    out = run(
        etstub,
        "cortex_m::softmax",
        x,
        0,
        -16,
        -128,
        multiplier,
        shift,
        -124,
        Out(x.shape, np.int8),
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("self_shape", [(4,), (1, 4), (3, 1), (3, 4), ()])
def test_addmm(etstub: ct.CDLL, self_shape: tuple[int, ...]) -> None:
    added, a, b = floats(*self_shape), floats(3, 5), floats(5, 4)
    out = run(
        etstub,
        "aten::addmm",
        np.asarray(added, np.float32),
        a,
        Tensor(b, (1, 0)),
        2,
        0.5,
        Out((3, 4)),
    )
    np.testing.assert_allclose(out, 2 * added + 0.5 * a @ b, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
@layouts
def test_permute_copy(etstub: ct.CDLL, order: Sequence[int], dtype: type) -> None:
    x = (floats(2, 3, 4, 5) * 100).astype(dtype)
    out = run(
        etstub, "aten::permute_copy", Tensor(x, order), [3, -4, 1, 2], Out((5, 2, 3, 4), dtype)
    )
    np.testing.assert_array_equal(out, x.transpose(3, 0, 1, 2))


@layouts
def test_view_copy_keeps_the_order_of_indexes(etstub: ct.CDLL, order: Sequence[int]) -> None:
    x = int8s(2, 3, 4, 5)
    out = run(etstub, "aten::view_copy", Tensor(x, order), [6, 20], Out((6, 20), np.int8))
    np.testing.assert_array_equal(out, x.reshape(6, 20))


def test_relu_keeps_nan(etstub: ct.CDLL) -> None:
    out = run(etstub, "aten::relu", np.array([-1, 2, np.nan], np.float32), Out((3,)))
    np.testing.assert_array_equal(out, [0, 2, np.nan])


CONVOLUTION = [floats(1, 4, 5, 5), floats(4, 4, 3, 3), None, [1], [0], [1], False, [0], 1]


@pytest.mark.parametrize(
    ("changes", "out", "reason"),
    [
        ({}, Out((1, 4, 4, 3)), "output size"),
        ({}, Out((1, 4, 3, 3), np.int8), "only float32"),
        ({6: 1}, Out((1, 4, 3, 3)), "transposed"),
        ({8: 3}, Out((1, 4, 3, 3)), "channels and groups"),
        ({8: 0}, Out((1, 4, 3, 3)), "channels and groups"),
        ({2: floats(5)}, Out((1, 4, 3, 3)), "bias"),
        ({3: [0]}, Out((1, 4, 3, 3)), "stride"),
        ({4: [-1]}, Out((1, 4, 3, 3)), "padding"),
        ({5: [1 << 30]}, Out((1, 4, 3, 3)), "dilation"),
        ({5: [1, 1, 1]}, Out((1, 4, 3, 3)), "dilation"),
        ({0: 7}, Out((1, 4, 3, 3)), "only float32"),
    ],
)
def test_convolution_names_what_it_refuses(
    etstub: ct.CDLL, changes: dict[int, object], out: Out, reason: str
) -> None:
    arguments = [changes.get(i, value) for i, value in enumerate(CONVOLUTION)]
    assert reason in refusal(etstub, "aten::convolution", *arguments, out)


def test_kernels_refuse_shapes_that_do_not_match(etstub: ct.CDLL) -> None:
    x, wrong = floats(2, 3), Out((3, 2))
    for operator, arguments in {
        "aten::relu": [x],
        "aten::_softmax": [x, 1, False],
        "aten::permute_copy": [x, [0, 1]],
        "aten::mean": [x, [0], False, None],
        "aten::addmm": [x, x, x, 1, 1],
    }.items():
        assert "s" in refusal(etstub, operator, *arguments, wrong)
    assert "size" in refusal(etstub, "aten::view_copy", x, [7], Out((7,)))
