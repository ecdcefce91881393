"""The fast paths of the int8 kernels against their general loops, on any arguments.

Each test runs the loops for all CPUs, and those for CPUs with the DSP extension and an FPU. A
convolution without room in its scratch takes the general loops, and so does one of images whose
channels are not adjacent in memory.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from math import log2
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.target.build import build_directory, build_preset
from tests.conftest import NATIVE_PRESET, ROOT
from tests.support.cmsis_nn import rounded_mean
from tests.support.examples import examples
from tests.support.kernels import Array, Out, Tensor, run_all
from tests.support.mirrors import load_library
from tests.support.operators import CHAR

INSTRUCTIONS = Path(__file__).parent.parent / "support" / "arm"
CORES = {
    "portable": "",
    "dsp": f"-D__ARM_FEATURE_DSP=1 -D__ARM_FP=14 -I{INSTRUCTIONS}",
}
"""Compiler options for the bodies of the inner loops."""

generated = settings(
    max_examples=examples(50),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)
seeds = st.integers(0, 2**32 - 1)
input_offsets = st.integers(-127, 128)


@pytest.fixture(scope="module", params=CORES)
def kernels(request: pytest.FixtureRequest) -> ct.CDLL:
    """The device's code with one body of each inner loop."""
    source = ROOT / "firmware_stub"
    options = CORES[request.param]
    directory = build_directory(
        source, f"{NATIVE_PRESET}-{request.param}" if options else NATIVE_PRESET
    )
    build_preset(source, NATIVE_PRESET, directory, {"CMAKE_C_FLAGS": options} if options else {})
    return load_library(directory / "libetstub.so")


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
def test_quantized_conv2d(kernels: ct.CDLL, conv, channels, offset, extreme) -> None:
    x, size, window = conv
    length = size[0] * size[1] * x.shape[1]
    w = int8s(length, channels, *size, x.shape[1])
    bias, stage = output_stage(length, channels, length, extreme)
    rest = [w, bias, *window, offset, *stage]
    shape = output_shape(x, size, window, channels)
    common = kernels, "quantized_conv2d", x, rest, shape
    _, expected = convolve(*common, NCHW, 0)
    for scratch in (2 * length, 2 * length - 1, 0):
        _, found = convolve(*common, NHWC, scratch)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("room", "used"), [(2 * 27, True), (2 * 27 - 1, False)])
def test_a_convolution_writes_two_columns_or_nothing(
    kernels: ct.CDLL, room: int, used: bool
) -> None:
    x, w = int8s(1, 1, 3, 5, 5), int8s(2, 4, 3, 3, 3)
    bias, stage = output_stage(3, 4, 27, "")
    rest = [w, bias, [1, 1], [1, 1], [1, 1], 5, *stage]
    scratch, _ = convolve(kernels, "quantized_conv2d", x, rest, [1, 4, 5, 5], NHWC, room)
    assert bool(scratch.any()) == used


def test_a_convolution_of_many_channels(kernels: ct.CDLL) -> None:
    """More than are prepared together, and an odd number of rows and positions."""
    x, w = int8s(1, 1, 70, 3, 3), int8s(2, 131, 1, 1, 70)
    bias, stage = output_stage(3, 131, 70, "")
    rest = [w, bias, [1, 1], [0, 0], [1, 1], -3, *stage]
    common = kernels, "quantized_conv2d", x, rest, [1, 131, 3, 3]
    (_, expected), (_, found) = convolve(*common, NCHW, 0), convolve(*common, NHWC, 0)
    np.testing.assert_array_equal(found, expected)
    assert np.mean(np.abs(found.astype(int)) < 90) > 0.5  # few outputs saturate


@generated
@given(
    conv=convolutions(),
    multiplier=st.integers(1, 6),
    shared=st.booleans(),
    offset=input_offsets,
    extreme=extremes,
)
def test_quantized_depthwise_conv2d(
    kernels: ct.CDLL, conv, multiplier, shared, offset, extreme
) -> None:
    """Channels of their own inputs, or all outputs of one input channel."""
    x, size, window = conv
    x = x[:, :1].repeat(3, 1) if shared else x
    length, channels = size[0] * size[1], x.shape[1]
    w = int8s(length, 1, *size, channels * multiplier if shared else channels)
    multiplier = w.shape[3] // channels
    bias, stage = output_stage(length, w.shape[3], length, extreme)
    rest = [w, bias, *window, multiplier, offset, *stage]
    shape = output_shape(x, size, window, w.shape[3])
    common = kernels, "quantized_depthwise_conv2d"
    _, expected = convolve(*common, x, rest, shape, NCHW, 0)
    _, found = convolve(*common, x, rest, shape, NHWC, 0)
    np.testing.assert_array_equal(found, expected)
    if not shared:
        return
    # The three input channels are the same, so the first one alone gives the first outputs.
    tail = [value[:multiplier] if isinstance(value, np.ndarray) else value for value in stage]
    single = [w[..., :multiplier], bias[:multiplier], *window, multiplier, offset, *tail]
    shape[1] = multiplier
    _, found = convolve(*common, x[:, :1], single, shape, NHWC, 0)
    np.testing.assert_array_equal(found, expected[:, :multiplier])


@generated
@given(
    seed=seeds,
    rows=st.integers(1, 3),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 11)),
    offset=input_offsets,
    extreme=extremes,
    with_sums=st.booleans(),
)
def test_quantized_linear(kernels: ct.CDLL, seed, rows, sizes, offset, extreme, with_sums) -> None:
    """Against rows of another input, which a transposed matrix in memory has."""
    length, outputs = sizes
    x, w = int8s(seed, rows, length), int8s(seed + 1, outputs, length)
    bias, (zero, factors, shifts, low, high) = output_stage(seed, outputs, length, extreme)
    pair = [None, bias] if with_sums else [bias, None]
    scale = [[int(factors[0])], [int(shifts[0])], high, low]
    found, expected = (
        run_all(
            kernels,
            "cortex_m::quantized_linear",
            Tensor(x, order),
            w,
            *pair,
            offset,
            0,
            zero,
            *scale,
            Out((rows, outputs), np.int8),
        )[0]
        for order in ((0, 1), (1, 0))
    )
    np.testing.assert_array_equal(found, expected)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)
zero_points = st.integers(-128, 127)
sides = st.tuples(zero_points, st.integers(0, (1 << 31) - 1), st.integers(-31, 2))


@generated
@given(seed=seeds, shape=shapes, sides=st.tuples(sides, sides, sides))
def test_quantized_add(kernels: ct.CDLL, seed, shape, sides) -> None:
    """Against the sum of a broadcast tensor of equal elements."""
    x = int8s(seed, 2, *shape)
    a, b, out = sides
    for other in (-128, 127, int(x.flat[0])):
        full, single = np.full_like(x, other), np.full((1,), other, np.int8)
        found, expected = (
            run_all(
                kernels,
                "cortex_m::quantized_add",
                x,
                *a,
                y,
                *b,
                *out,
                -100,
                90,
                Out(x.shape, np.int8),
            )[0]
            for y in (full, single)
        )
        np.testing.assert_array_equal(found, expected)


@generated
@given(
    numbers=st.lists(
        st.floats(width=32) | st.integers(-600, 600).map(lambda n: n / 2), max_size=30
    ),
    scale=st.sampled_from([1.0, 0.5, 0.0625]) | st.floats(1e-4, 1e3) | st.floats(1e-45, 1e38),
    zero=zero_points,
    limits=st.tuples(zero_points, zero_points),
)
def test_quantize(kernels: ct.CDLL, numbers, scale, zero, limits) -> None:
    """Against the reference's operations in NumPy, on any float."""
    x = np.array([*numbers, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45], np.float32)
    low, high = sorted(limits)
    with np.errstate(all="ignore"):
        scaled = np.rint(x * np.float32(1.0 / scale)) + np.float32(zero)
        expected = np.where(scaled >= low, np.minimum(scaled, high), low).astype(np.int8)
    [found] = run_all(
        kernels,
        "cortex_m::quantize_per_tensor",
        x,
        scale,
        zero,
        low,
        high,
        CHAR,
        Out(x.shape, np.int8),
    )
    np.testing.assert_array_equal(found, expected)


@generated
@given(
    seed=seeds,
    sizes=st.tuples(st.integers(1, 13), st.integers(1, 13)),
    few=st.booleans(),
    zero=zero_points,
    scale=st.tuples(st.integers(1, (1 << 31) - 1), st.integers(-31, 31)),
)
def test_quantized_avg_pool2d(kernels: ct.CDLL, seed, sizes, few, zero, scale) -> None:
    """Against exact arithmetic; ``few`` values make many ties."""
    x = int8s(seed, 1, 6, *sizes)
    x = np.where(x > 60, 1, 0).astype(np.int8) if few else x
    expected = np.array([rounded_mean(x[0, channel]) for channel in range(6)], np.int8)
    for order in (NCHW, NHWC):
        [found] = run_all(
            kernels,
            "cortex_m::quantized_avg_pool2d",
            Tensor(x, order),
            list(sizes),
            [1, 1],
            [0, 0],
            False,
            zero,
            *scale,
            None,
            Out((1, 6, 1, 1), np.int8, order),
        )
        np.testing.assert_array_equal(found.ravel(), expected)
