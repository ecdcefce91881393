"""Our int8 kernels against the eager Cortex-M reference, on arguments that Hypothesis makes.

Where CMSIS-NN, which runs on the chip, computes something else than the reference, it decides.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.cmsis_nn import is_tie, patch_of, rounded_mean
from tests.support.examples import examples
from tests.support.kernels import Array, Out, Tensor, run
from tests.support.operators import CHAR

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.backends.cortex_m.passes.cortex_m_pass_manager")

pytestmark = pytest.mark.oracle
generated = settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)
zero_points = st.integers(-128, 127)
multipliers = st.integers(1 << 30, (1 << 31) - 1)
seeds = st.integers(0, 2**32 - 1)
flags = st.booleans()


def int8s(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def eager(name: str, *arguments: object, last: bool = False) -> Array:
    """What the reference computes; ``last``: images go to it channels last."""
    images = [
        torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in arguments
    ]
    if last:
        images[0] = images[0].to(memory_format=torch.channels_last)
    return np.asarray(getattr(torch.ops.cortex_m, name)(*images))


def ours(library: ct.CDLL, name: str, out: Out, *arguments: object) -> Array:
    return run(library, f"cortex_m::{name}", *arguments, out)


def compare(library: ct.CDLL, name: str, *arguments: object) -> None:
    """Contiguous tensors, the same arguments on both sides."""
    expected = eager(name, *arguments)
    found = ours(library, name, Out(expected.shape, expected.dtype.type), *arguments)
    np.testing.assert_array_equal(found, expected)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Array, Array, Sequence[int] | None]:
    """Two of the same shape, or images of which one has but its channels."""
    seed = draw(seeds)
    if not draw(flags):
        shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
        return int8s(seed, *shape), int8s(seed + 1, *shape), None
    shape = tuple(draw(st.integers(2, 5)) for _ in range(4))
    pair = [int8s(seed, *shape), int8s(seed + 1, 1, shape[1], 1, 1)]
    if draw(flags):
        pair.reverse()
    return pair[0], pair[1], NHWC


def compare_pair(
    library: ct.CDLL, name: str, pair: tuple[Array, Array, Sequence[int] | None], *rest: object
) -> None:
    """``rest`` holds each operand's own arguments, then the common ones."""
    a, b, order = pair
    side_a, side_b, tail = rest
    tensors = [torch.from_numpy(value) for value in (a, b)]
    if order is not None:
        tensors = [value.to(memory_format=torch.channels_last) for value in tensors]
    operator = getattr(torch.ops.cortex_m, name)
    expected = operator(tensors[0], *side_a, tensors[1], *side_b, *tail).numpy()
    out = Out(expected.shape, np.int8, order)
    found = ours(library, name, out, Tensor(a, order), *side_a, Tensor(b, order), *side_b, *tail)
    np.testing.assert_array_equal(found, expected)


signed = st.tuples(multipliers, st.sampled_from([1, -1])).map(prod)  # a - b has negative ones
sides = st.tuples(zero_points, signed, st.integers(-12, 0))


@generated
@given(
    pair=operands(),
    a=sides,
    b=sides,
    out=st.tuples(zero_points, multipliers, st.integers(-30, -16)),
    limits=st.tuples(zero_points, zero_points),
)
def test_quantized_add(etstub: ct.CDLL, pair, a, b, out, limits) -> None:
    compare_pair(etstub, "quantized_add", pair, a, b, [*out, *sorted(limits)])


@generated
@given(
    pair=operands(),
    zeros=st.tuples(zero_points, zero_points),
    out=st.tuples(zero_points, multipliers, st.integers(-14, 2)),
)
def test_quantized_mul(etstub: ct.CDLL, pair, zeros, out) -> None:
    compare_pair(etstub, "quantized_mul", pair, [zeros[0]], [zeros[1]], out)


@generated
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    wide=flags,
    zeros=st.tuples(zero_points, zero_points, zero_points),
    scale=st.floats(1e-3, 300.0),
)
def test_quantized_div(etstub: ct.CDLL, seed, shape, wide, zeros, scale) -> None:
    rng, dtype = np.random.default_rng(seed), np.int16 if wide else np.int8
    limit = 1 << (15 if wide else 7)
    a, b = (rng.integers(-limit, limit, shape, dtype) for _ in range(2))
    b.flat[0] = zeros[1]  # divides by zero
    compare(etstub, "quantized_div", a, zeros[0], b, zeros[1], zeros[2], scale)


@generated
@given(
    name=st.sampled_from(["minimum", "maximum"]),
    seed=seeds,
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    single=st.sets(st.integers(0, 4)),
    dropped=st.integers(0, 4),
)
def test_minimum_and_maximum(etstub: ct.CDLL, name, seed, shape, single, dropped) -> None:
    smaller = [1 if d in single else size for d, size in enumerate(shape)][dropped:]
    a, b = int8s(seed, *shape), int8s(seed + 1, *smaller)
    if smaller:
        compare(etstub, name, a, b)
        compare(etstub, name, b, a)


@generated
@given(seed=seeds, shape=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_quantized_activation(etstub: ct.CDLL, seed, shape) -> None:
    compare(etstub, "quantized_activation", int8s(seed, *shape), int8s(seed + 1, 256))


@generated
@given(
    seed=seeds,
    sizes=st.tuples(*(st.integers(1, 9),) * 3),
    inner=st.integers(1, 200),  # what the reference sums exactly in float32
    offsets=st.tuples(st.integers(-127, 128), st.integers(-127, 128)),
    out=st.tuples(zero_points, multipliers, st.integers(-18, -4)),
)
def test_quantized_batch_matmul(etstub: ct.CDLL, seed, sizes, inner, offsets, out) -> None:
    batch, rows, columns = sizes
    a, b = int8s(seed, batch, rows, inner), int8s(seed + 1, batch, columns, inner)
    scratch = np.zeros(1, np.uint8)
    arguments = [a, offsets[0], b, offsets[1], *out, scratch]
    compare(etstub, "quantized_batch_matmul", *arguments)


@generated
@given(seed=seeds, shape=st.lists(st.integers(1, 6), min_size=1, max_size=5), data=st.data())
def test_transpose(etstub: ct.CDLL, seed, shape, data) -> None:
    dims = data.draw(st.permutations(range(len(shape))))
    compare(etstub, "transpose", int8s(seed, *shape), list(dims))


@generated
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    pads=st.tuples(*(st.lists(st.integers(0, 3), min_size=4, max_size=4),) * 2),
    value=zero_points,
    last=flags,
)
def test_pad(etstub: ct.CDLL, seed, shape, pads, value, last) -> None:
    x = int8s(seed, *shape)
    last = last and x.ndim == 4
    order = NHWC if last else None
    expected = eager("pad", x, *pads, value, last=last)
    out = Out(expected.shape, np.int8, order)
    found = ours(etstub, "pad", out, Tensor(x, order), *pads, value)
    np.testing.assert_array_equal(found, expected)


def compare_images(library: ct.CDLL, name: str, x: Array, *rest: object) -> None:
    """An operator on images, and its variant that names dimensions N, H, W, C.

    The latter into an output of dynamic shape, which must get its size.
    """
    scratch = torch.zeros(1, dtype=torch.uint8)
    reference = [scratch if value is None else value for value in rest]
    mine = [None if value is None else value for value in rest]
    expected = eager(name, x, *reference, last=True)
    for order in (NCHW, NHWC):
        out = Out(expected.shape, np.int8, order)
        found = ours(library, name, out, Tensor(x, order), *mine)
        np.testing.assert_array_equal(found, expected)

    images = np.ascontiguousarray(x.transpose(NHWC))
    expected = eager(f"{name}_nhwc", images, *reference)
    found = ours(library, f"{name}_nhwc", Out(expected.shape, np.int8, room=3), images, *mine)
    np.testing.assert_array_equal(found, expected)


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Kernel size, stride, padding."""
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    return kernel, stride, [draw(st.integers(0, size // 2)) for size in kernel]


images = st.tuples(
    seeds, st.integers(1, 2), st.integers(1, 5), st.integers(4, 9), st.integers(4, 9)
)


@generated
@given(image=images, window=windows(), zero=zero_points, limits=st.tuples(zero_points, zero_points))
def test_quantized_max_pool2d(etstub: ct.CDLL, image, window, zero, limits) -> None:
    arguments = [*window, [1, 1], False, zero, zero, *sorted(limits)]
    compare_images(etstub, "quantized_max_pool2d", int8s(*image), *arguments)


@generated
@given(
    image=images,
    window=windows(),
    ceil_mode=flags,
    scale=st.tuples(zero_points, multipliers, st.integers(-8, 1)),
)
def test_quantized_avg_pool2d(etstub: ct.CDLL, image, window, ceil_mode, scale) -> None:
    """As CMSIS-NN, and except at ties as the reference, which rounds them to even."""
    x = int8s(*image)
    arguments = [*window, ceil_mode, *scale]
    reference = eager("quantized_avg_pool2d", x, *arguments, torch.zeros(1), last=True)
    expected, ties = np.empty_like(reference), np.zeros(reference.shape, bool)
    for place in np.ndindex(*reference.shape):
        patch = patch_of(x[place[:2]], window, place[2:])
        expected[place], ties[place] = rounded_mean(patch), is_tie(patch)
    np.testing.assert_array_equal(expected[~ties], reference[~ties])
    for order in (NCHW, NHWC):
        out = Out(expected.shape, np.int8, order)
        found = ours(etstub, "quantized_avg_pool2d", out, Tensor(x, order), *arguments, None)
        np.testing.assert_array_equal(found, expected)
    images = np.ascontiguousarray(x.transpose(NHWC))
    expected = expected.transpose(NHWC)
    out = Out(expected.shape, np.int8, room=3)
    found = ours(etstub, "quantized_avg_pool2d_nhwc", out, images, *arguments, None)
    np.testing.assert_array_equal(found, expected)


def output_stage(seed: int, channels: int) -> tuple[Array, list[object]]:
    """Bias, and what comes after the input offset."""
    rng = np.random.default_rng(seed)
    factors = rng.integers(1 << 30, (1 << 31) - 1, channels, np.int32)
    shifts = rng.integers(-12, -3, channels).astype(np.int32)
    limits = sorted(rng.integers(-128, 128, 2).tolist())
    bias = rng.integers(-9999, 9999, channels, np.int32)
    return bias, [int(rng.integers(-128, 128)), factors, shifts, *limits]


@generated
@given(
    image=images,
    window=windows(),
    groups=st.integers(1, 3),
    outputs=st.integers(1, 5),
    offset=st.integers(-127, 128),
)
def test_quantized_conv2d(etstub: ct.CDLL, image, window, groups, outputs, offset) -> None:
    kernel, stride, pad = window
    seed, batch, depth, *sizes = image
    x = int8s(seed, batch, groups * depth, *sizes)
    w = int8s(seed + 1, groups * outputs, *kernel, depth)
    bias, stage = output_stage(seed, groups * outputs)
    arguments = [w, bias, stride, pad, [1, 1], offset, *stage, None]
    compare_images(etstub, "quantized_conv2d", x, *arguments)


@generated
@given(image=images, window=windows(), depth=st.integers(1, 3), offset=st.integers(-127, 128))
def test_quantized_depthwise_conv2d(etstub: ct.CDLL, image, window, depth, offset) -> None:
    kernel, stride, pad = window
    x = int8s(*image)
    w = int8s(image[0] + 1, 1, *kernel, x.shape[1] * depth)
    bias, stage = output_stage(image[0], w.shape[3])
    arguments = [w, bias, stride, pad, [1, 1], depth, offset, *stage, None]
    compare_images(etstub, "quantized_depthwise_conv2d", x, *arguments)


@generated
@given(
    image=images,
    window=windows(),
    added=st.tuples(flags, flags),
    dilation=st.lists(st.integers(1, 2), min_size=2, max_size=2),
    outputs=st.integers(1, 5),
    offset=st.integers(-127, 128),
)
def test_quantized_transpose_conv2d(
    etstub: ct.CDLL, image, window, added, dilation, outputs, offset
) -> None:
    kernel, stride, pad = window
    x = int8s(*image)
    w = int8s(image[0] + 1, outputs, *kernel, x.shape[1])
    bias, stage = output_stage(image[0], outputs)
    extra = [int(flag and step > 1) for flag, step in zip(added, stride, strict=True)]
    arguments = [w, bias, stride, pad, extra, dilation, offset, *stage, None, None]
    compare_images(etstub, "quantized_transpose_conv2d", x, *arguments)


@generated
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 6), max_size=2),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 12)),
    with_sums=flags,
    offsets=st.tuples(st.integers(-127, 128), st.just(0), zero_points),
    scale=st.tuples(multipliers, st.integers(-12, -3)),
)
def test_quantized_linear(etstub: ct.CDLL, seed, shape, sizes, with_sums, offsets, scale) -> None:
    inputs, outputs = sizes
    x, w = int8s(seed, *shape, 3, inputs), int8s(seed + 1, outputs, inputs)
    bias = np.random.default_rng(seed).integers(-9999, 9999, outputs, np.int32)
    pair = [None, bias[np.newaxis]] if with_sums else [bias, None]  # shapes of the exporter
    tail = [*offsets, [scale[0]], [scale[1]], 127, -128]
    compare(etstub, "quantized_linear", x, w, *pair, *tail)


@generated
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    scale=st.floats(0.01, 0.1),
    zero=zero_points,
)
def test_quantization_and_softmax(etstub: ct.CDLL, seed, shape, scale, zero) -> None:
    x = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 4, np.float32)
    parameters = [scale, zero, -128, 127]
    quantized = eager("quantize_per_tensor", x, *parameters, torch.int8)
    out = Out(x.shape, np.int8)
    found = ours(etstub, "quantize_per_tensor", out, x, *parameters, CHAR)
    np.testing.assert_array_equal(found, quantized)

    floats = eager("dequantize_per_tensor", quantized, *parameters, torch.int8)
    found = ours(etstub, "dequantize_per_tensor", Out(x.shape), quantized, *parameters, CHAR)
    np.testing.assert_array_equal(found, floats)

    mantissa, exponent = np.frexp(scale * (1 << 26))
    tail = [zero, -128, round(float(mantissa) * (1 << 31)), int(exponent), -124]
    compare(etstub, "softmax", quantized, x.ndim - 1, *tail)
