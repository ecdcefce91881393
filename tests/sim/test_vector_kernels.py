"""The kernels as compiled for an emulated core, against the portable ones on this host.

Helium's loops on a Cortex-M55, and those of the DSP extension and of the FPU on a Cortex-M4, with
any arguments: shifts that the fast paths do not take, weights of -128, rows of any length, scratch
for columns or none; float32 also with infinities, NaN and denormal numbers.
"""

from __future__ import annotations

import copy
import ctypes as ct
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from harness import Region
from tests.firmware.test_fast_kernels import (
    NCHW,
    NHWC,
    convolutions,
    extremes,
    input_offsets,
    int8s,
    output_shape,
    output_stage,
    seeds,
)
from tests.firmware.test_float_products import assert_same_bits, floats
from tests.support.boards import Bench, started
from tests.support.examples import examples, sampled
from tests.support.kernels import Array, Out, Tensor, one_call, outputs, run_all

pytestmark = pytest.mark.sim
CORES = ["qemu-mps3-an547", "qemu-mps2-an386"]
generated = settings(
    max_examples=examples(25),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

fewer = settings(generated, max_examples=examples(12))


@pytest.fixture(scope="module", params=sampled(CORES))
def board(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with started(request.param, deadline_s=60) as bench:
        yield bench


def run_on(board: Bench, operator: str, arguments: list[object]) -> list[Array]:
    """As ``run_all``, on a board."""
    session, outs = board.session, outputs(arguments)
    session.load_model(one_call(operator, arguments))
    session.run(1, timeout_s=60)
    return [out.arrange(session.read(Region.OUTPUT, i)) for i, out in enumerate(outs)]


def compare(board: Bench, etstub: ct.CDLL, operator: str, *arguments: object) -> None:
    """Run one kernel on both; the last output must be the same."""
    expected = run_all(etstub, operator, *copy.deepcopy(arguments))
    found = run_on(board, operator, list(copy.deepcopy(arguments)))
    np.testing.assert_array_equal(found[-1], expected[-1])


def weights(seed: int, *shape: int) -> Array:
    """Any int8; of every other seed many are -128, the product of which is the largest."""
    numbers = int8s(seed, *shape)
    return np.where(numbers < -64, np.int8(-128), numbers) if seed % 2 else numbers


@generated
@given(
    seed=seeds,
    conv=convolutions(),
    channels=st.integers(1, 19),
    offset=input_offsets,
    extreme=extremes,
    room=st.integers(0, 3),
)
def test_conv2d(board, etstub, seed, conv, channels, offset, extreme, room) -> None:
    x, size, window = conv
    length = prod(size) * x.shape[1]
    bias, stage = output_stage(seed, channels, length, extreme)
    w = weights(seed, channels, *size, x.shape[1])
    outs = (
        Out([length * room], np.uint8),
        Out(output_shape(x, size, window, channels), np.int8, NHWC),
    )
    rest = w, bias, *window, offset, *stage
    compare(board, etstub, "cortex_m::quantized_conv2d.out", Tensor(x, NHWC), *rest, *outs)


@fewer
@given(
    seed=seeds,
    conv=convolutions(),
    groups=st.integers(1, 4),
    channels=st.integers(1, 9),
    offset=input_offsets,
    extreme=extremes,
    transposed=st.booleans(),
    order=st.sampled_from([NHWC, NHWC, NCHW]),
)
def test_groups_and_transposed(
    board, etstub, seed, conv, groups, channels, offset, extreme, transposed, order
) -> None:
    x, size, (stride, pad, dilation) = conv
    if not transposed:
        x, channels = x.repeat(groups, 1), channels * groups
    per_group = x.shape[1] if transposed else x.shape[1] // groups
    bias, stage = output_stage(seed, channels, prod(size) * per_group, extreme)
    w = weights(seed, channels, *size, per_group)
    scratch = Out([2 * prod(size) * x.shape[1]], np.uint8)
    if transposed:
        spans = zip(x.shape[2:], stride, pad, dilation, size, strict=True)
        area = [(a - 1) * s - 2 * p + d * (k - 1) + 1 for a, s, p, d, k in spans]
        assume(min(area) > 0)
        out = Out([x.shape[0], channels, *area], np.int8, order)
        rest = [stride, pad, [0, 0], dilation, offset, *stage, scratch, Out([0], np.uint8), out]
        operator = "cortex_m::quantized_transpose_conv2d.out"
    else:
        window = [stride, pad, dilation]
        out = Out(output_shape(x, size, window, channels), np.int8, order)
        rest = [*window, offset, *stage, scratch, out]
        operator = "cortex_m::quantized_conv2d.out"
    compare(board, etstub, operator, Tensor(x, order), w, bias, *rest)


@fewer
@given(
    seed=seeds,
    channels=st.integers(1, 21),
    area=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    size=st.integers(1, 3),
    stride=st.integers(1, 3),
    limits=st.tuples(st.integers(-128, 0), st.integers(1, 127)),
    order=st.sampled_from([NHWC, NHWC, NCHW]),
)
def test_pools(board, etstub, seed, channels, area, size, stride, limits, order) -> None:
    x, pad = Tensor(int8s(seed, 1, channels, *area), order), size // 2
    sizes = [(a + 2 * pad - size) // stride + 1 for a in area]
    assume(min(sizes) > 0)
    window = [[size, size], [stride, stride], [pad, pad]]
    for name, rest in (
        ("max", [[1, 1], False, 3, 3, *limits]),
        ("avg", [False, 3, 1 << 30, -2, None]),
    ):
        out = Out([1, channels, *sizes], np.int8, order)
        compare(board, etstub, f"cortex_m::quantized_{name}_pool2d.out", x, *window, *rest, out)


@generated
@given(
    seed=seeds,
    conv=convolutions(),
    multiplier=st.integers(1, 35),
    channels=st.sampled_from([0, 8, 17, 29]),
    offset=input_offsets,
    extreme=extremes,
    order=st.sampled_from([NHWC, NHWC, NCHW]),
)
def test_depthwise(board, etstub, seed, conv, multiplier, channels, offset, extreme, order) -> None:
    """Many channels, or one channel with many outputs."""
    x, size, window = conv
    if channels:
        x, multiplier = int8s(seed, x.shape[0], channels, *x.shape[2:]), 1
    else:
        x = x[:, :1]
    w = weights(seed, 1, *size, multiplier * x.shape[1])
    bias, stage = output_stage(seed, w.shape[3], prod(size), extreme)
    outs = Out([0], np.uint8), Out(output_shape(x, size, window, w.shape[3]), np.int8, order)
    rest = w, bias, *window, multiplier, offset, *stage
    operator = "cortex_m::quantized_depthwise_conv2d.out"
    compare(board, etstub, operator, Tensor(x, order), *rest, *outs)


@generated
@given(
    seed=seeds,
    rows=st.integers(1, 2),
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 21)),
    offset=input_offsets,
    extreme=extremes,
    with_sums=st.booleans(),
)
@example(seed=1, rows=1, sizes=(70, 21), offset=128, extreme="", with_sums=False)
@example(seed=1, rows=1, sizes=(70, 21), offset=127, extreme="", with_sums=False)
@example(seed=1, rows=1, sizes=(70, 21), offset=-127, extreme="", with_sums=False)
def test_linear(board, etstub, seed, rows, sizes, offset, extreme, with_sums) -> None:
    length, count = sizes
    bias, (zero, factors, shifts, low, high) = output_stage(seed, count, length, extreme)
    pair = [None, bias] if with_sums else [bias, None]
    scale = [[int(factors[0])], [int(shifts[0])], high, low]
    arguments = [int8s(seed, rows, length), weights(seed, count, length), *pair, offset, 0, zero]
    out = Out((rows, count), np.int8)
    compare(board, etstub, "cortex_m::quantized_linear.out", *arguments, *scale, out)


@generated
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 6) | st.just(40), min_size=1, max_size=3),
    kept=st.integers(0, 15),
    shift=st.integers(-31, 2) | st.integers(-12, -1),
    zero=st.sampled_from([-5, 0, 127, -300, 32767]),
    swapped=st.booleans(),
)
def test_pairs(board, etstub, seed, shape, kept, shift, zero, swapped) -> None:
    """Elementwise operators; an input is broadcast along the dimensions that are not kept."""
    small = [size if kept >> i & 1 else 1 for i, size in enumerate(shape)]
    a, b = int8s(seed, *shape), int8s(seed + 1, *small)
    a, b = (b, a) if swapped else (a, b)
    order = tuple(reversed(range(len(shape)))) if seed % 3 == 0 else None
    x, out = Tensor(a, order), Out(shape, np.int8, order)
    scale = (seed % (1 << 31), shift)
    if seed % 2:
        sides = [x, 3, *scale, b, -5, 1 << 30, min(shift + 2, 0)]
        compare(board, etstub, "cortex_m::quantized_add.out", *sides, 7, *scale, -100, 90, out)
    else:
        compare(board, etstub, "cortex_m::quantized_mul.out", x, zero, b, 4, 7, *scale, out)
    name = "maximum" if swapped else "minimum"
    compare(board, etstub, f"cortex_m::{name}.out", x, b, out)


def compare_floats(board: Bench, etstub: ct.CDLL, operator: str, *arguments: object) -> None:
    """As ``compare``; a NaN is as good as another."""
    [expected] = run_all(etstub, operator, *copy.deepcopy(arguments))
    [found] = run_on(board, operator, list(copy.deepcopy(arguments)))
    assert_same_bits(found, expected)


@generated
@given(
    seed=seeds,
    sizes=st.tuples(st.integers(1, 21), st.integers(1, 27)),
    is_shared=st.booleans(),
    factors=st.sampled_from([(1, 1), (1, 1), (0, 1), (0.5, 3)]),
    order=st.sampled_from([(0, 1), (1, 0)]),
)
@example(seed=1, sizes=(21, 27), is_shared=False, factors=(1, 1), order=(0, 1))
@example(seed=1, sizes=(21, 27), is_shared=False, factors=(1, 1), order=(1, 0))
@example(seed=1, sizes=(19, 2), is_shared=False, factors=(1, 1), order=(0, 1))
def test_line_of_floats(board, etstub, seed, sizes, is_shared, factors, order) -> None:
    """A single input of a linear layer, with weights by row and by column.

    The examples have groups of outputs of all sizes.
    """
    depth, count = sizes
    bias = floats(seed + 2, 1 if is_shared else count)
    weights = Tensor(floats(seed + 1, depth, count), order)
    rest = floats(seed, 1, depth), weights, *factors, Out((1, count))
    compare_floats(board, etstub, "aten::addmm.out", bias, *rest)


@generated
@given(
    seed=seeds,
    conv=convolutions(),
    share=st.sampled_from([0, 1, 3, 4, 8, 9]),
    order=st.sampled_from([NHWC, NCHW]),
)
def test_convolution_of_floats(board, etstub, seed, conv, share, order) -> None:
    """In both orders of images; without a share, each channel is a group."""
    x, size, window = conv
    groups = 1 if share else x.shape[1]
    pixels = floats(seed, *x.shape)
    weights = floats(seed + 1, share or groups, x.shape[1] // groups, *size)
    out = Out(output_shape(x, size, window, len(weights)), order=order)
    rest = floats(seed + 2, len(weights)), *window, False, [0, 0], groups, out
    arguments = Tensor(pixels, order), Tensor(weights, order), *rest
    compare_floats(board, etstub, "aten::convolution.out", *arguments)


@pytest.mark.long
def test_a_convolution_fits_the_smallest_stack(etstub: ct.CDLL) -> None:
    """2 KB, of which the runtime takes a part; an overflow is a fault."""
    x, weights = floats(1, 1, 3, 7, 9), floats(2, 6, 3, 3, 3)
    rest = floats(3, 6), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, Out((1, 6, 7, 9))
    with started("qemu-microbit", deadline_s=60) as smallest:
        compare_floats(smallest, etstub, "aten::convolution.out", x, weights, *rest)
