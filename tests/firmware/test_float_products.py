"""Float32 convolutions and matrix products have the bits of the simple loop, in any layout.

Each output of the reference starts at zero and adds its products one after the other: over the
channels of its group, then over the rows and columns of the kernel that lie in the image.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.kernels import Out, Tensor, run

Floats = npt.NDArray[np.float32]

generated = settings(
    max_examples=examples(60),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**32 - 1)
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)
orders = st.sampled_from([NCHW, NHWC, *permutations(range(4))])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38], np.float32)


def floats(seed: int, *shape: int) -> Floats:
    """Numbers of any magnitude; of one seed in four, some are special."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(shape) * np.exp2(rng.integers(-20, 20, shape))
    if seed % 4 == 0:
        chosen = rng.random(shape) < 0.05
        numbers = np.where(chosen, rng.choice(SPECIAL, shape), numbers)
    return np.asarray(numbers, np.float32)


def assert_same_bits(found: Floats, expected: Floats) -> None:
    """Also the sign of a zero; a NaN is as good as another."""
    assert found.shape == expected.shape
    bits = (np.where(np.isnan(x), np.float32(np.nan), x).view(np.int32) for x in (found, expected))
    np.testing.assert_array_equal(*bits)


def taps(size: int, kernel: int, stride: int, pad: int, dilation: int) -> list[list[int]]:
    """Input positions, per tap and output position; -1 in the padding."""
    out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    places = [[o * stride - pad + k * dilation for o in range(out)] for k in range(kernel)]
    return [[place if 0 <= place < size else -1 for place in row] for row in places]


def convolve(x: Floats, w: Floats, axes: Sequence[Sequence[int]], groups: int) -> Floats:
    """The reference; ``axes`` has stride, padding and dilation of both axes."""
    (rows, columns) = (taps(x.shape[2 + i], w.shape[2 + i], *axes[i]) for i in (0, 1))
    depth, share = w.shape[1], w.shape[0] // groups
    sums = np.zeros((x.shape[0], w.shape[0], len(rows[0]), len(columns[0])), np.float32)
    first = np.arange(w.shape[0]) // share * depth  # input channel of each output channel
    for channel, i, j in np.ndindex(*w.shape[1:]):
        inside = np.logical_and.outer(np.array(rows[i]) >= 0, np.array(columns[j]) >= 0)
        pixels = x[:, first + channel][:, :, rows[i]][:, :, :, columns[j]]
        with np.errstate(all="ignore"):
            products = pixels * w[:, channel, i, j, None, None]
            sums = np.where(inside, sums + products, sums)
    return sums


@st.composite
def axis(draw: st.DrawFn) -> tuple[int, int, tuple[int, int, int]]:
    """Input size; kernel size; stride, padding and dilation."""
    kernel = draw(st.sampled_from([1, 1, 2, 3, 3, 5]))
    stride, dilation = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 1, 2, 4]))
    pad = draw(st.sampled_from([0, kernel // 2, draw(st.integers(0, 6))]))
    needed = max(dilation * (kernel - 1) + 1 - 2 * pad, 1)
    return needed + draw(st.integers(0, 12)), kernel, (stride, pad, dilation)


@generated
@given(
    seed=seeds,
    y=axis(),
    x=axis(),
    images=st.integers(1, 2),
    channels=st.tuples(st.integers(1, 3), st.sampled_from([1, 1, 2, 3, 4, 5, 9])),
    groups=st.sampled_from([1, 1, 2, 5]),
    memory=st.tuples(orders, orders, orders),
    with_bias=st.booleans(),
)
@example(  # a single position of several groups
    seed=1,
    y=(1, 1, (1, 0, 1)),
    x=(1, 1, (1, 0, 1)),
    images=1,
    channels=(3, 5),
    groups=2,
    memory=(NCHW, NCHW, NCHW),
    with_bias=True,
)
@example(  # positions in groups of eight along rows that continue each other, and one more
    seed=2,
    y=(3, 1, (1, 0, 1)),
    x=(11, 1, (1, 0, 1)),
    images=2,
    channels=(2, 6),
    groups=2,
    memory=(NCHW, NCHW, NCHW),
    with_bias=True,
)
@example(  # every other position
    seed=3,
    y=(7, 3, (2, 1, 1)),
    x=(37, 3, (2, 1, 1)),
    images=1,
    channels=(3, 9),
    groups=1,
    memory=(NCHW, NCHW, NCHW),
    with_bias=False,
)
def test_convolution(etstub: ct.CDLL, seed, y, x, images, channels, groups, memory, with_bias):
    depth, share = channels
    pixels = floats(seed, images, depth * groups, y[0], x[0])
    weights = floats(seed + 1, share * groups, depth, y[1], x[1])
    bias = floats(seed + 2, share * groups) if with_bias else None
    check_convolution(etstub, pixels, weights, bias, (y[2], x[2]), groups, memory)


def check_convolution(
    etstub: ct.CDLL,
    pixels: Floats,
    weights: Floats,
    bias: Floats | None,
    axes: Sequence[tuple[int, int, int]],
    groups: int,
    memory: Sequence[Sequence[int]],
) -> None:
    """Compare with the reference; ``memory`` has the order of image, weights and output."""
    expected = convolve(pixels, weights, axes, groups)
    with np.errstate(all="ignore"):
        expected = expected if bias is None else expected + bias[:, None, None]
    found = run(
        etstub,
        "aten::convolution",
        Tensor(pixels, memory[0]),
        Tensor(weights, memory[1]),
        bias,
        *map(list, zip(*axes, strict=True)),
        False,
        [0, 0],
        groups,
        Out(expected.shape, order=memory[2]),
    )
    assert_same_bits(found, expected)


@generated
@given(
    seed=seeds,
    y=axis(),
    x=axis(),
    channels=st.integers(1, 13),
    order=st.sampled_from([NHWC, NHWC, NCHW]),
    of_weights=orders,
    with_bias=st.booleans(),
)
def test_depthwise(etstub: ct.CDLL, seed, y, x, channels, order, of_weights, with_bias):
    """Adjacent channels are computed together, at one or two positions."""
    pixels = floats(seed, 1, channels, y[0], x[0])
    weights = floats(seed + 1, channels, 1, y[1], x[1])
    bias = floats(seed + 2, channels) if with_bias else None
    memory = order, of_weights, order
    check_convolution(etstub, pixels, weights, bias, (y[2], x[2]), channels, memory)


def test_convolution_whose_taps_all_lie_in_the_padding(etstub: ct.CDLL) -> None:
    """At some positions; their outputs are the bias alone."""
    x, w, bias = floats(1, 1, 2, 1, 3), floats(2, 5, 2, 1, 2), floats(3, 5)
    expected = convolve(x, w, [(1, 4, 1), (2, 6, 3)], 1)
    assert (expected == 0).any()
    assert (expected != 0).any()
    tail = [[1, 2], [4, 6], [1, 3], False, [0, 0], 1, Out(expected.shape)]
    found = run(etstub, "aten::convolution", x, w, bias, *tail)
    assert_same_bits(found, expected + bias[:, None, None])


def multiply(a: Floats, b: Floats) -> Floats:
    """The reference of a matrix product, or of a batch of them."""
    sums = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            sums = sums + a[..., k, None] * b[..., k, None, :]
    return sums


sizes = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17])
dimensions = st.tuples(sizes, sizes, sizes)
rows_or_columns = st.sampled_from([(0, 1), (1, 0)])
layouts = st.tuples(rows_or_columns, rows_or_columns, rows_or_columns)


@generated
@given(seed=seeds, shape=dimensions, memory=layouts)
def test_mm(etstub: ct.CDLL, seed, shape, memory) -> None:
    m, k, n = shape
    a, b = floats(seed, m, k), floats(seed + 1, k, n)
    out = Out((m, n), order=memory[2])
    found = run(etstub, "aten::mm", Tensor(a, memory[0]), Tensor(b, memory[1]), out)
    assert_same_bits(found, multiply(a, b))


@generated
@given(
    seed=seeds,
    batches=st.integers(1, 3),
    shape=dimensions,
    memory=st.tuples(*[st.permutations(range(3))] * 3),
)
def test_bmm(etstub: ct.CDLL, seed, batches, shape, memory) -> None:
    m, k, n = shape
    a, b = floats(seed, batches, m, k), floats(seed + 1, batches, k, n)
    out = Out((batches, m, n), order=memory[2])
    found = run(etstub, "aten::bmm", Tensor(a, memory[0]), Tensor(b, memory[1]), out)
    assert_same_bits(found, multiply(a, b))


@generated
@given(
    seed=seeds,
    shape=dimensions,
    batch=st.lists(st.integers(1, 3), max_size=2),
    memory=rows_or_columns,
    with_bias=st.booleans(),
)
def test_linear(etstub: ct.CDLL, seed, shape, batch, memory, with_bias) -> None:
    m, k, n = shape
    x, w, bias = floats(seed, *batch, m, k), floats(seed + 1, n, k), floats(seed + 2, n)
    expected = multiply(x, w.T)
    with np.errstate(all="ignore"):
        expected = expected + bias if with_bias else expected
    chosen = bias if with_bias else None
    found = run(etstub, "aten::linear", x, Tensor(w, memory), chosen, Out(expected.shape))
    assert_same_bits(found, expected)


@generated
@given(
    seed=seeds,
    shape=dimensions,
    memory=layouts,
    added=st.sampled_from(["", "n", "1n", "m1", "11", "mn"]),
    factors=st.tuples(*[st.sampled_from([0, 1, -1, 0.5, 3])] * 2),
)
@example(seed=0, shape=(3, 4, 5), memory=[(0, 1)] * 3, added="mn", factors=(0, 1))
def test_addmm(etstub: ct.CDLL, seed, shape, memory, added, factors) -> None:
    m, k, n = shape
    beta, alpha = factors
    letters = {"1": 1, "m": m, "n": n}
    self = floats(seed + 2, *(letters[letter] for letter in added))
    a, b = floats(seed, m, k), floats(seed + 1, k, n)
    with np.errstate(all="ignore"):
        scaled = np.float32(beta) * self if beta else np.float32(0)
        expected = np.float32(alpha) * multiply(a, b) + scaled
    matrices = Tensor(a, memory[0]), Tensor(b, memory[1])
    out = Out((m, n), order=memory[2])
    found = run(etstub, "aten::addmm", self, *matrices, beta, alpha, out)
    assert_same_bits(found, expected)
