"""Kernels that compute with float32 on tensors of float16, against ExecuTorch's and PyTorch."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.strategies import edges, oracle
from tests.support.examples import examples
from tests.support.kernels import Array, Out, run_all
from tests.support.portable import run_portable

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
aten: Any = torch.ops.aten

Call = tuple[list[Any], Any]
"""The arguments of a kernel, and what PyTorch computes of them in float32."""


class Drawn:
    """Tensors of float16 with numbers at the edge, and sizes."""

    def __init__(self, draw: st.DataObject) -> None:
        self.size = lambda low=1, high=4: draw.draw(st.integers(low, high))
        self.flag = lambda: draw.draw(st.booleans())
        self.rng = np.random.default_rng(draw.draw(st.integers(0, 2**32 - 1)))
        self.often = draw.draw(st.booleans())

    def tensor(self, *shape: int) -> Array:
        """Usual numbers, and often or rarely NaN, infinities and zeros."""
        usual = np.asarray(self.rng.standard_normal(shape), np.float16)
        edge = edges(int(self.rng.integers(1 << 30)), shape, np.float16)
        chosen = self.rng.random(shape) < (0.5 if self.often else 0.02)
        return np.asarray(np.where(chosen, edge, usual), np.float16)

    def measured(self, *shape: int) -> Array:
        """Without infinities: PyTorch's mean of one is NaN, ExecuTorch's is not."""
        return np.nan_to_num(self.tensor(*shape), nan=np.nan, posinf=9, neginf=-9)

    def positive(self, *shape: int) -> Array:
        return np.asarray(self.rng.random(shape) + 0.5, np.float16)

    def maybe(self, array: Array) -> Array | None:
        return array if self.flag() else None


def wide(value: Any) -> Any:
    """A tensor of float32 for PyTorch."""
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(value)
        return tensor.float() if value.dtype.kind == "f" else tensor
    return value


def call(function: Any, *arguments: Any, **named: Any) -> Call:
    """A call whose arguments are PyTorch's, then the named ones."""
    result = function(*map(wide, arguments), **{name: wide(value) for name, value in named.items()})
    return [*arguments, *named.values()], result


def convolution(drawn: Drawn) -> Call:
    images, groups, per_group, plane = (
        drawn.size(0, 2),
        drawn.size(1, 2),
        drawn.size(),
        drawn.flag(),
    )
    transposed = drawn.flag()
    kernel = [drawn.size(1, 3) for _ in range(1 + plane)]
    x = drawn.tensor(images, groups * drawn.size(1, 3), *(drawn.size(3, 6) for _ in kernel))
    inside = x.shape[1] // groups
    outside = groups * per_group
    weight = drawn.tensor(*((x.shape[1], per_group) if transposed else (outside, inside)), *kernel)
    stride, padding = ([drawn.size(low, high) for _ in kernel] for low, high in ((1, 2), (0, 1)))
    padding = [min(p, k // 2) for p, k in zip(padding, kernel, strict=True)]
    more = [0] * len(kernel)
    ones = [1] * len(kernel)
    bias = drawn.maybe(drawn.tensor(outside))
    return call(aten.convolution, x, weight, bias, stride, padding, ones, transposed, more, groups)


def matrix(drawn: Drawn) -> tuple[Array, Array]:
    rows, depth, columns = drawn.size(0), drawn.size(), drawn.size()
    return drawn.tensor(rows, depth), drawn.tensor(depth, columns)


def linear(drawn: Drawn) -> Call:
    x, weight = matrix(drawn)
    weight = weight.T.copy()
    return call(aten.linear, x, weight, drawn.maybe(drawn.tensor(weight.shape[0])))


def addmm(drawn: Drawn) -> Call:
    a, b = matrix(drawn)
    return call(aten.addmm, drawn.tensor(b.shape[1]), a, b, beta=1, alpha=drawn.size())


def bmm(drawn: Drawn) -> Call:
    count, rows, depth, columns = drawn.size(0, 2), drawn.size(), drawn.size(), drawn.size()
    return call(aten.bmm, drawn.tensor(count, rows, depth), drawn.tensor(count, depth, columns))


def softmax(function: Any) -> Callable[[Drawn], Call]:
    def drawn_call(drawn: Drawn) -> Call:
        # ExecuTorch's _log_softmax divides by zero without elements, which ends its process.
        x = drawn.tensor(*(drawn.size() for _ in range(drawn.size(1, 3))))
        return call(function, x, drawn.size(0, x.ndim - 1), False)

    return drawn_call


def layer_norm(drawn: Drawn) -> Call:
    x = drawn.measured(drawn.size(0), drawn.size(2, 5))
    weight, bias = (drawn.maybe(drawn.tensor(x.shape[1])) for _ in range(2))
    return call(aten.native_layer_norm, x, [x.shape[1]], weight, bias, 1e-3)


def batch_norm(drawn: Drawn) -> Call:
    x = drawn.tensor(drawn.size(0, 2), drawn.size(), 2, 3)
    count = x.shape[1]
    weight, bias = (drawn.maybe(drawn.tensor(count)) for _ in range(2))
    mean, variance = drawn.tensor(count), drawn.positive(count)
    function = aten._native_batch_norm_legit_no_training
    return call(function, x, weight, bias, mean, variance, 0.1, 1e-3)


def group_norm(drawn: Drawn) -> Call:
    groups = drawn.size(1, 2)
    x = drawn.measured(drawn.size(), 2 * groups, 3)
    weight, bias = (drawn.maybe(drawn.tensor(2 * groups)) for _ in range(2))
    return call(aten.native_group_norm, x, weight, bias, len(x), 2 * groups, 3, groups, 1e-3)


def image_shape(drawn: Drawn) -> list[int]:
    return [drawn.size(0, 2), drawn.size(1, 2), drawn.size(3, 6), drawn.size(3, 6)]


def images(drawn: Drawn) -> Array:
    return drawn.tensor(*image_shape(drawn))


def average_pool(drawn: Drawn) -> Call:
    kernel, stride = ([drawn.size(1, 3), drawn.size(1, 3)] for _ in range(2))
    rest = drawn.flag(), drawn.flag(), None
    return call(aten.avg_pool2d, images(drawn), kernel, stride, [0, 0], *rest)


def maximum_pool(drawn: Drawn) -> Call:
    kernel, stride = ([drawn.size(1, 3), drawn.size(1, 3)] for _ in range(2))
    x = np.nan_to_num(images(drawn))  # ExecuTorch passes over NaN, PyTorch does not
    rest = [0, 0], [1, 1], drawn.flag()
    return call(aten.max_pool2d_with_indices, x, kernel, stride, *rest)


def upsample(function: Any, *options: Any) -> Callable[[Drawn], Call]:
    def drawn_call(drawn: Drawn) -> Call:
        size = [drawn.size(2, 7), drawn.size(2, 7)]
        # PyTorch also adds pixels of weight 0, of which an infinite one makes NaN.
        return call(function, drawn.measured(*image_shape(drawn)), size, *options, None)

    return drawn_call


CALLS: dict[str, Callable[[Drawn], Call]] = {
    "aten::convolution.out": convolution,
    "aten::linear.out": linear,
    "aten::addmm.out": addmm,
    "aten::mm.out": lambda drawn: call(aten.mm, *matrix(drawn)),
    "aten::bmm.out": bmm,
    "aten::_softmax.out": softmax(aten._softmax),
    "aten::_log_softmax.out": softmax(aten._log_softmax),
    "aten::native_layer_norm.out": layer_norm,
    "aten::_native_batch_norm_legit_no_training.out": batch_norm,
    "aten::native_group_norm.out": group_norm,
    "aten::avg_pool2d.out": average_pool,
    "aten::max_pool2d_with_indices.out": maximum_pool,
    "aten::_adaptive_avg_pool2d.out": lambda drawn: call(
        aten._adaptive_avg_pool2d, images(drawn), [drawn.size(), drawn.size()]
    ),
    "aten::upsample_nearest2d.vec_out": upsample(aten.upsample_nearest2d.vec),
    "aten::upsample_bilinear2d.vec_out": upsample(aten.upsample_bilinear2d.vec, False),
    "aten::mean.out": lambda drawn: call(
        aten.mean.dim, drawn.tensor(2, drawn.size()), [1], drawn.flag(), dtype=None
    ),
    "aten::var.correction_out": lambda drawn: call(
        aten.var.correction, drawn.tensor(3, 4), [1], correction=1, keepdim=drawn.flag()
    ),
    "aten::glu.out": lambda drawn: call(aten.glu, drawn.tensor(2, 2 * drawn.size()), 1),
    "aten::gelu.out": lambda drawn: call(
        aten.gelu, np.nan_to_num(drawn.tensor(2, drawn.size(0))), approximate="none"
    ),
    "aten::embedding.out": lambda drawn: call(
        aten.embedding, drawn.tensor(3, 2), np.array([2, 0, 1, 1]), -1, False, False
    ),
    "aten::constant_pad_nd.out": lambda drawn: call(
        aten.constant_pad_nd, images(drawn), [1, 0, drawn.size(), 2], 0.5
    ),
}


def check(library: ct.CDLL, operator: str, arguments: list[Any], expected: Any) -> None:
    """Ours is PyTorch's in float32, rounded once; ExecuTorch's kernels round each step."""
    several = expected if isinstance(expected, tuple | list) else [expected]
    wanted = [tensor.numpy() for tensor in several]
    with np.errstate(over="ignore"):
        rounded = [x.astype(np.float16) if x.dtype.kind == "f" else x for x in wanted]
    outs = [Out(x.shape, x.dtype.type) for x in rounded]
    mine = run_all(library, operator, *arguments, *outs)
    for ours, theirs in zip(mine, rounded, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)
    portable = run_portable(operator, *arguments, *outs)
    assert portable is not None, "ExecuTorch refuses"
    for ours, theirs in zip(mine, portable, strict=True):
        assert ours.shape == theirs.shape
        if ours.size:
            assert np.isfinite(theirs[np.isfinite(ours)]).all()
            both = np.isfinite(ours) & np.isfinite(theirs)
            largest = np.abs(ours[both].astype(np.float64)).max(initial=1.0)
            np.testing.assert_allclose(ours[both], theirs[both], rtol=2e-2, atol=2e-2 * largest)


@settings(oracle, max_examples=examples(15))
@given(st.data())
@pytest.mark.parametrize("operator", CALLS)
def test_float16(etstub: ct.CDLL, operator: str, data: st.DataObject) -> None:
    check(etstub, operator, *CALLS[operator](Drawn(data)))
