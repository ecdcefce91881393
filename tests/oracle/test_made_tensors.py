"""Tensors that the device makes, copies, quantizes or looks up, against PyTorch."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, seeds, shapes
from tests.support.kernels import Out, TensorList, run
from tests.support.runtime import DTYPES
from tests.support.torch_calls import check

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir.passes._quant_patterns_and_replacements")
pytest.importorskip("torch.ao.quantization.fx._decomposed")
pytestmark = pytest.mark.oracle
TYPES = [torch.float32, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
steps = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -0.25, 1.5]))


@oracle
@given(shapes(0, 4), st.sampled_from(TYPES), st.data())
def test_constants(etstub: ct.CDLL, shape: Shape, dtype: Any, data: st.DataObject) -> None:
    sizes = list(shape)
    check(etstub, "aten::zeros.out", [sizes], torch.zeros(shape, dtype=dtype), data)
    check(etstub, "aten::ones.out", [sizes], torch.ones(shape, dtype=dtype), data)
    check(etstub, "aten::empty.out", [sizes, None], torch.zeros(shape, dtype=dtype), data)
    x = torch.ones(shape, dtype=dtype)
    check(etstub, "aten::fill.Scalar_out", [x.numpy(), 0], torch.zeros_like(x), data)


@oracle
@given(st.one_of(st.integers(-20, 20), st.floats(-5, 5)), st.integers(-20, 20), steps)
def test_ranges(etstub: ct.CDLL, start: float, end: int, step: float) -> None:
    assume(step != 0 and (end - start) / step >= 0)
    expected = torch.arange(start, end, step)
    check(etstub, "aten::arange.start_out", [start, end, step], expected)
    if end >= 0:
        check(etstub, "aten::arange.out", [end], torch.arange(end))


@oracle
@given(shapes(0, 4), st.sampled_from(TYPES), st.sampled_from(TYPES), st.data())
def test_copies(
    etstub: ct.CDLL, shape: Shape, source: Any, target: Any, data: st.DataObject
) -> None:
    x = torch.from_numpy(np.asarray(floats(data.draw(seeds), shape) ** 2 * 20)).to(source)
    check(etstub, "aten::_to_copy.out", [x.numpy(), False, None], x.to(target), data)
    check(etstub, "aten::clone.out", [x.numpy(), None], x, data)
    for name in ("alias_copy", "detach_copy", "lift_fresh_copy"):
        check(etstub, f"aten::{name}.out", [x.numpy()], x, data)


@oracle
@given(shapes(1, 3), st.data())
def test_putting_in_place(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    """Into a buffer, which begins as zeros."""
    index = np.array([data.draw(st.integers(-shape[0], shape[0] - 1))])
    values = floats(data.draw(seeds), (1, *shape[1:]))
    expected = torch.zeros(shape)
    expected[torch.from_numpy(index)] = torch.from_numpy(values)
    found = run(etstub, "aten::index_put_.", Out(shape), TensorList([index]), values, False)
    np.testing.assert_array_equal(found, expected.numpy())


@oracle
@given(shapes(1, 4), st.floats(1e-3, 1e3), st.data())
def test_dynamic_quantization(
    etstub: ct.CDLL, shape: Shape, size: float, data: st.DataObject
) -> None:
    ops, limits = torch.ops.quantized_decomposed, (-128, 127)
    x = floats(data.draw(seeds), shape) * np.float32(size)
    tensor, code = torch.from_numpy(x), DTYPES[np.dtype(np.int8)]
    scale, zero = ops.choose_qparams.tensor(tensor, *limits, 1e-5, torch.int8)
    arguments = [x, *limits, 1e-5, code]
    check(etstub, "quantized_decomposed::choose_qparams.Tensor_out", arguments, (scale, zero))
    by_tensors = [scale.numpy(), zero.numpy(), *limits, code]
    quantized = ops.quantize_per_tensor.tensor(tensor, scale, zero, *limits, torch.int8)
    name = "quantized_decomposed::quantize_per_tensor.Tensor_out"
    check(etstub, name, [x, *by_tensors], quantized)
    back = ops.dequantize_per_tensor.tensor(quantized, scale, zero, *limits, torch.int8)
    name = "quantized_decomposed::dequantize_per_tensor.Tensor_out"
    check(etstub, name, [quantized.numpy(), *by_tensors, None], back)


@oracle
@given(st.sampled_from(["byte", "4bit"]), st.integers(1, 3), st.booleans(), st.data())
def test_quantized_embeddings(
    etstub: ct.CDLL, bits: str, groups: int, shifted: bool, data: st.DataObject
) -> None:
    rows, length = 5, 2 * groups
    limits = (-128, 127) if bits == "byte" else (-8, 7)
    dtype, width = (np.int8, length) if bits == "byte" else (np.uint8, length // 2)
    weight = ints(data.draw(seeds), (rows, width), dtype)
    scales = np.abs(floats(data.draw(seeds), (rows, groups))) + np.float32(0.1)
    zeros = np.round(floats(data.draw(seeds), (rows, groups)) * 3) if shifted else None
    indices = np.random.default_rng(data.draw(seeds)).integers(0, rows, (2, 3))
    tensors = [None if a is None else torch.from_numpy(a) for a in (weight, scales, zeros)]
    function = getattr(torch.ops.quantized_decomposed, f"embedding_{bits}").default
    expected = function(*tensors, *limits, torch.from_numpy(indices))
    arguments = [weight, scales, zeros, *limits, indices]
    name = f"quantized_decomposed::embedding_{bits}"
    check(etstub, f"{name}.out", arguments, expected)
    check(etstub, f"{name}.dtype_out", [*arguments, None], expected)
