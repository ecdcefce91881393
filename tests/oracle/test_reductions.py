"""Reductions, norms, softmax and quantization against PyTorch; a module exported by ExecuTorch."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, oracle, ordered, seeds, shapes
from tests.support.kernels import Out, Tensor, run, run_all
from tests.support.runtime import DTYPES, load

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")
pytestmark = pytest.mark.oracle
Module: Any = torch.nn.Module
QUANTIZED = {np.int8: torch.int8, np.uint8: torch.uint8, np.int16: torch.int16}


@oracle
@given(shapes(1, 4), st.sampled_from(["mean", "sum.IntList_out"]), st.booleans(), st.data())
def test_reductions(
    etstub: ct.CDLL, shape: Shape, operator: str, keepdim: bool, data: st.DataObject
) -> None:
    x, order = floats(data.draw(seeds), shape), data.draw(ordered(len(shape)))
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True)
    dims = data.draw(st.one_of(st.none(), axes))
    function = torch.mean if operator == "mean" else torch.sum
    expected = function(torch.from_numpy(x), dims, keepdim).numpy()
    arguments = [Tensor(x, order), dims, keepdim, None, Out(expected.shape)]
    found = run(etstub, f"aten::{operator}", *arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    if operator == "mean":
        found = run(etstub, "aten::mean.dtype_out", Tensor(x, order), 6, Out(()))
        np.testing.assert_allclose(found, x.mean(), rtol=1e-5, atol=1e-6)


@oracle
@given(shapes(1, 4, 7), st.booleans(), st.data())
def test_layer_norm(etstub: ct.CDLL, shape: Shape, affine: bool, data: st.DataObject) -> None:
    normalized = shape[data.draw(st.integers(0, len(shape) - 1)) :]
    x = floats(data.draw(seeds), shape)
    parameters = [floats(data.draw(seeds), normalized) if affine else None for _ in range(2)]
    tensors = [None if value is None else torch.from_numpy(value) for value in parameters]
    expected = torch.native_layer_norm(torch.from_numpy(x), list(normalized), *tensors, 1e-3)
    outs = [Out(tuple(value.shape)) for value in expected]
    arguments = [x, list(normalized), *parameters, 1e-3, *outs]
    for found, value in zip(
        run_all(etstub, "aten::native_layer_norm", *arguments), expected, strict=True
    ):
        np.testing.assert_allclose(found, value.numpy(), rtol=1e-4, atol=1e-5)


@oracle
@given(shapes(2, 4), st.booleans(), st.data())
def test_batch_norm(etstub: ct.CDLL, shape: Shape, affine: bool, data: st.DataObject) -> None:
    x, order = floats(data.draw(seeds), shape), data.draw(ordered(len(shape)))
    mean, spread, *given_ = (floats(data.draw(seeds), shape[1:2]) for _ in range(4))
    parameters = given_ if affine else [None, None]
    variance = spread**2
    tensors = [
        None if value is None else torch.from_numpy(value)
        for value in (x, *parameters, mean, variance)
    ]
    normalize = torch.ops.aten._native_batch_norm_legit_no_training
    expected, *_ = normalize(*tensors, 0.1, 1e-3)
    found, *_ = run_all(
        etstub,
        "aten::_native_batch_norm_legit_no_training",
        *(Tensor(x, order), *parameters, mean, variance, 0.1, 1e-3),
        *(Out(shape, order=order), Out((0,)), Out((0,))),
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)


@oracle
@given(shapes(1, 4), st.data())
def test_softmax(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    x, order = floats(data.draw(seeds), shape) * 10, data.draw(ordered(len(shape)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for name in ("softmax", "log_softmax"):
        expected = getattr(torch, name)(torch.from_numpy(x), axis).numpy()
        arguments = [Tensor(x, order), axis, False, Out(shape, order=order)]
        found = run(etstub, f"aten::_{name}", *arguments)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@oracle
@given(shapes(1, 4), st.sampled_from(sorted(QUANTIZED, key=str)), st.booleans(), st.data())
def test_quantization(
    etstub: ct.CDLL, shape: Shape, dtype: type, per_channel: bool, data: st.DataObject
) -> None:
    x, order = floats(data.draw(seeds), shape), data.draw(ordered(len(shape)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    rng = np.random.default_rng(data.draw(seeds))
    channels = shape[axis]
    limits = [int(np.iinfo(dtype).min) + 1, int(np.iinfo(dtype).max)]
    name = "per_channel" if per_channel else "per_tensor"
    if per_channel:
        scales = rng.uniform(0.01, 0.1, channels).astype(np.float32)
        parameters: list[Any] = [scales, rng.integers(0, 100, channels), axis, *limits]
    else:
        parameters = [float(rng.uniform(0.01, 0.1)), int(rng.integers(0, 100)), *limits]
    tensors = [torch.from_numpy(p) if isinstance(p, np.ndarray) else p for p in parameters]
    ops, kind = torch.ops.quantized_decomposed, QUANTIZED[dtype]
    code = DTYPES[np.dtype(dtype)]
    expected = getattr(ops, f"quantize_{name}")(torch.from_numpy(x), *tensors, kind)
    out = Out(shape, dtype, order)
    operator = f"quantized_decomposed::quantize_{name}"
    found = run(etstub, operator, Tensor(x, order), *parameters, code, out)
    np.testing.assert_array_equal(found, expected.numpy())
    back = getattr(ops, f"dequantize_{name}")(expected, *tensors, kind).numpy()
    arguments = [Tensor(found, order), *parameters, code, None, Out(shape, order=order)]
    again = run(etstub, operator.replace("::", "::de"), *arguments)
    np.testing.assert_allclose(again, back, rtol=1e-6)


class Mixed(Module):
    """Calls what the models of the device do not."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(7, 6)
        self.line = torch.nn.Conv1d(4, 8, 3, padding=1)
        self.norm = torch.nn.LayerNorm(6)
        self.image = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2)
        self.mean = torch.nn.AvgPool2d(2)

    def forward(self, words: Any, picture: Any) -> Any:
        functional = torch.nn.functional
        text = self.norm(self.table(words)).unsqueeze(0)
        text = torch.sigmoid(self.line(text)) * 2 - 1
        scores = functional.softmax(torch.matmul(text, text.transpose(1, 2)), -1)
        text = functional.gelu(torch.matmul(scores, text)).sum(-1)
        picture = functional.leaky_relu(self.image(functional.pad(picture, (1, 0, 0, 1))))
        picture = torch.clamp(self.mean(self.pool(picture)), -0.5, 0.5).tanh()
        picture = picture[:, 1:] / (1 + picture.mean()) + picture[:, :1].expand(-1, 3, -1, -1)
        return torch.cat([text, picture.flatten(1), picture[:, 0, 0]], 1)


def test_an_exported_module(etstub: ct.CDLL) -> None:
    exir = pytest.importorskip("executorch.exir")
    torch.manual_seed(1)
    module = Mixed().eval()
    inputs = torch.tensor([1, 6, 0, 3]), torch.randn(1, 1, 11, 11)
    program = exir.to_edge(torch.export.export(module, inputs)).to_executorch()
    expected = module(*inputs).detach().numpy()
    found = load(etstub, program.buffer).run(*(value.numpy() for value in inputs))
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-5, atol=1e-5)


def test_an_exported_quantization(etstub: ct.CDLL) -> None:
    """ExecuTorch writes the decomposed operators as we read them."""
    exir = pytest.importorskip("executorch.exir")
    pytest.importorskip("executorch.kernels.quantized")
    ops = torch.ops.quantized_decomposed
    scales, zeros = torch.tensor([0.02, 0.04, 0.05]), torch.tensor([0, 3, -4])

    class Rounds(Module):
        def forward(self, x: Any) -> Any:
            channels = (scales, zeros, 1, -128, 127, torch.int8)
            x = ops.dequantize_per_channel(ops.quantize_per_channel(x, *channels), *channels)
            whole = (0.03, 2, -128, 127, torch.int8)
            return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *whole), *whole)

    x = torch.randn(4, 3)
    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    exported = torch.export.export(Rounds(), (x,))
    program = exir.to_edge(exported, compile_config=config).to_executorch()
    found = load(etstub, program.buffer).run(x.numpy())
    np.testing.assert_allclose(found, Rounds()(x).numpy().ravel(), rtol=1e-6)
