"""The fast paths of the int8 kernels against their general loops, on arguments that Hypothesis makes.

A convolution without room in its scratch takes the general loops, and so does one of images whose
channels are not adjacent in memory.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from math import log2

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.kernels import Array, Out, Tensor, run_all

generated = settings(
    max_examples=100,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)
seeds = st.integers(0, 2**32 - 1)
input_offsets = st.integers(-127, 128)


def int8s(seed: int, *shape: int) -> npt.NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def output_stage(seed: int, channels: int, length: int, extreme: str) -> tuple[Array, list[object]]:
    """Bias and output stage for sums of ``length`` products, so that few outputs saturate."""
    rng = np.random.default_rng(seed)
    typical = 7 + round(log2(length) / 2)
    shifts = -rng.integers(typical, typical + 3, channels).astype(np.int32)
    bias = rng.integers(-9999, 9999, channels, np.int32)
    if extreme == "shifts":
        shifts[0] = rng.choice([-31, -1, 0, 2])
    elif extreme == "bias":
        bias[0] = rng.choice([(1 << 28) - 1, 1 << 28, -(1 << 28), -(1 << 31)])
    factors = rng.integers(1 << 30, (1 << 31) - 1, channels, np.int32)
    low, high = int(rng.integers(-128, -90)), int(rng.integers(90, 128))
    return bias, [int(rng.integers(-20, 20)), factors, shifts, low, high]


extremes = st.sampled_from(["", "", "shifts", "bias"])


@st.composite
def convolutions(draw: st.DrawFn, kernel: int = 4) -> tuple[Array, list[int], list[list[int]]]:
    """An input, N, C, H, W; the kernel's size; stride, padding and dilation."""
    size = [draw(st.integers(1, kernel)) for _ in range(2)]
    dilation = [draw(st.integers(1, 2)) for _ in range(2)]
    shape = [draw(st.integers(1, 2)), draw(st.integers(1, 9))]
    shape += [dilation[i] * (size[i] - 1) + draw(st.integers(1, 5)) for i in (0, 1)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    pad = [draw(st.integers(0, 3)) for _ in range(2)]
    return int8s(draw(seeds), *shape), size, [stride, pad, dilation]


def output_shape(x: Array, size: list[int], window: list[list[int]], channels: int) -> list[int]:
    stride, pad, dilation = window
    spans = [x.shape[2 + i] + 2 * pad[i] - dilation[i] * (size[i] - 1) for i in (0, 1)]
    return [x.shape[0], channels, *((spans[i] - 1) // stride[i] + 1 for i in (0, 1))]


def convolve(
    library: ct.CDLL,
    name: str,
    x: Array,
    rest: list[object],
    shape: Sequence[int],
    order: Sequence[int],
    scratch: int,
) -> tuple[Array, Array]:
    """The contents of the scratch and the output."""
    room, out = Out([scratch], np.uint8), Out(shape, np.int8, order)
    before, after = run_all(library, f"cortex_m::{name}", Tensor(x, order), *rest, room, out)
    return before, after


@generated
@given(conv=convolutions(), channels=st.integers(1, 7), offset=input_offsets, extreme=extremes)
def test_quantized_conv2d(etstub: ct.CDLL, conv, channels, offset, extreme) -> None:
    x, size, window = conv
    length = size[0] * size[1] * x.shape[1]
    w = int8s(length, channels, *size, x.shape[1])
    bias, stage = output_stage(length, channels, length, extreme)
    rest = [w, bias, *window, offset, *stage]
    shape = output_shape(x, size, window, channels)
    common = etstub, "quantized_conv2d", x, rest, shape
    _, expected = convolve(*common, NCHW, 0)
    for scratch in (2 * length, 2 * length - 1, 0):
        _, found = convolve(*common, NHWC, scratch)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("room", "used"), [(2 * 27, True), (2 * 27 - 1, False)])
def test_a_convolution_writes_two_columns_or_nothing(
    etstub: ct.CDLL, room: int, used: bool
) -> None:
    x, w = int8s(1, 1, 3, 5, 5), int8s(2, 4, 3, 3, 3)
    bias, stage = output_stage(3, 4, 27, "")
    rest = [w, bias, [1, 1], [1, 1], [1, 1], 5, *stage]
    scratch, _ = convolve(etstub, "quantized_conv2d", x, rest, [1, 4, 5, 5], NHWC, room)
    assert bool(scratch.any()) == used


def test_a_convolution_of_many_channels(etstub: ct.CDLL) -> None:
    """More than are prepared together, and an odd number of rows and positions."""
    x, w = int8s(1, 1, 70, 3, 3), int8s(2, 131, 1, 1, 70)
    bias, stage = output_stage(3, 131, 70, "")
    rest = [w, bias, [1, 1], [0, 0], [1, 1], -3, *stage]
    common = etstub, "quantized_conv2d", x, rest, [1, 131, 3, 3]
    (_, expected), (_, found) = convolve(*common, NCHW, 0), convolve(*common, NHWC, 0)
    np.testing.assert_array_equal(found, expected)
    assert np.mean(np.abs(found.astype(int)) < 90) > 0.5  # few outputs saturate
