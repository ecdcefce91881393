"""Our kernels against PyTorch and the eager Cortex-M reference, on random arguments."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest

from tests.support.kernels import Array, Out, Tensor, run

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.backends.cortex_m.passes.cortex_m_pass_manager")

pytestmark = pytest.mark.oracle
SEEDS = range(20)
NHWC = (0, 2, 3, 1)


def channels_last(data: Array) -> object:
    return torch.from_numpy(data).to(memory_format=torch.channels_last)


def scales(rng: np.random.Generator, channels: int) -> tuple[Array, Array]:
    multipliers = rng.integers(1 << 30, (1 << 31) - 1, channels, np.int32)
    return multipliers, rng.integers(-12, -3, channels).astype(np.int32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_quantized_convolutions(etstub: ct.CDLL, seed: int, depthwise: bool) -> None:
    rng = np.random.default_rng(seed)
    stride, kernel = (rng.integers(1, 4, 2).tolist() for _ in range(2))
    dilation = [1, 1]  # PyTorch has no dilated convolution of integers
    pad = [int(rng.integers(0, size + 1)) for size in kernel]
    groups, per_group = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    depth = 1 if depthwise else int(rng.integers(1, 4))
    channels = groups * per_group
    x = rng.integers(-128, 128, (2, groups * depth, *rng.integers(7, 12, 2)), np.int8)
    shape = (1, *kernel, channels) if depthwise else (channels, *kernel, depth)
    w = rng.integers(-128, 128, shape, np.int8)
    bias = rng.integers(-9999, 9999, channels, np.int32)
    multipliers, shifts = scales(rng, channels)
    offsets = int(rng.integers(-127, 129)), int(rng.integers(-128, 128))
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    name = "quantized_depthwise_conv2d" if depthwise else "quantized_conv2d"
    head = [stride, pad, dilation, *([per_group] if depthwise else []), *offsets]
    tensors = [torch.from_numpy(value) for value in (w, bias, multipliers, shifts)]
    scratch = torch.empty(0, dtype=torch.uint8)
    reference = getattr(torch.ops.cortex_m, name)(
        channels_last(x), *tensors[:2], *head, *tensors[2:], low, high, scratch
    ).numpy()
    out = Out(reference.shape, np.int8, NHWC)
    arguments = [Tensor(x, NHWC), w, bias, *head, multipliers, shifts, low, high, None, out]
    np.testing.assert_array_equal(run(etstub, f"cortex_m::{name}", *arguments), reference)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_sums", [False, True])
def test_quantized_linear(etstub: ct.CDLL, seed: int, with_sums: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, inputs, outputs = rng.integers(1, 40, 3).tolist()
    x = rng.integers(-128, 128, (2, rows, inputs), np.int8)
    w = rng.integers(-128, 128, (outputs, inputs), np.int8)
    bias = rng.integers(-9999, 9999, outputs, np.int32)
    multipliers, shifts = scales(rng, 1)
    pair = [None, bias] if with_sums else [bias, None]
    offsets = [int(rng.integers(-127, 129)), 0, int(rng.integers(-128, 128))]
    tail = [*offsets, multipliers.tolist(), shifts.tolist(), 127, -128]
    reference = torch.ops.cortex_m.quantized_linear(
        torch.from_numpy(x),
        torch.from_numpy(w),
        *(None if value is None else torch.from_numpy(value) for value in pair),
        *tail,
    ).numpy()
    out = run(
        etstub, "cortex_m::quantized_linear", x, w, *pair, *tail, Out(reference.shape, np.int8)
    )
    np.testing.assert_array_equal(out, reference)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_quantized_avg_pool2d(etstub: ct.CDLL, seed: int, ceil_mode: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (2, 16, *rng.integers(6, 30, 2)), np.int8)
    kernel, stride = rng.integers(1, 6, 2).tolist(), rng.integers(1, 4, 2).tolist()
    pad = [int(rng.integers(0, size // 2 + 1)) for size in kernel]
    multiplier, shift = int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-8, 2))
    arguments = [kernel, stride, pad, ceil_mode, int(rng.integers(-128, 128)), multiplier, shift]
    scratch = torch.empty(0, dtype=torch.uint8)
    reference = torch.ops.cortex_m.quantized_avg_pool2d(channels_last(x), *arguments, scratch)
    out = Out(reference.shape, np.int8, NHWC)
    found = run(etstub, "cortex_m::quantized_avg_pool2d", Tensor(x, NHWC), *arguments, None, out)
    np.testing.assert_array_equal(found, reference.numpy())


@pytest.mark.parametrize("seed", SEEDS)
def test_quantization_and_softmax(etstub: ct.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((64, 12)) * 4).astype(np.float32)
    scale, zero = float(rng.uniform(0.01, 0.1)), int(rng.integers(-128, 128))
    parameters = [scale, zero, -128, 127]
    quantize = torch.ops.cortex_m.quantize_per_tensor
    reference = quantize(torch.from_numpy(x), *parameters, torch.int8).numpy()
    out = Out(x.shape, np.int8)
    found = run(etstub, "cortex_m::quantize_per_tensor", x, *parameters, 1, out)
    np.testing.assert_array_equal(found, reference)

    dequantize = torch.ops.cortex_m.dequantize_per_tensor
    floats = dequantize(torch.from_numpy(reference), *parameters, torch.int8).numpy()
    found = run(etstub, "cortex_m::dequantize_per_tensor", reference, *parameters, 1, Out(x.shape))
    np.testing.assert_array_equal(found, floats)

    mantissa, exponent = np.frexp(scale * (1 << 26))
    tail = [1, zero, -128, round(float(mantissa) * (1 << 31)), int(exponent), -124]
    probabilities = torch.ops.cortex_m.softmax(torch.from_numpy(reference), *tail).numpy()
    found = run(etstub, "cortex_m::softmax", reference, *tail, Out(x.shape, np.int8))
    np.testing.assert_array_equal(found, probabilities)


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution(etstub: ct.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stride, dilation, kernel = (rng.integers(1, 4, 2).tolist() for _ in range(3))
    pad = [int(rng.integers(0, size + 1)) for size in kernel]
    groups, per_group, depth = rng.integers(1, 4, 3).tolist()
    x = rng.standard_normal((2, groups * depth, *rng.integers(7, 12, 2))).astype(np.float32)
    w = rng.standard_normal((groups * per_group, depth, *kernel)).astype(np.float32)
    arguments = [stride, pad, dilation, False, [0, 0], groups]
    reference = torch.ops.aten.convolution(
        torch.from_numpy(x), torch.from_numpy(w), None, *arguments
    ).numpy()
    found = run(etstub, "aten::convolution", x, w, None, *arguments, Out(reference.shape))
    np.testing.assert_allclose(found, reference, atol=1e-4)
