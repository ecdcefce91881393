"""Kernels against ExecuTorch's own, with operands of any types and with numbers at the edge."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, edges, oracle, seeds, sized
from tests.support.kernels import Array, Out, run_all
from tests.support.operators import COMPARISONS
from tests.support.portable import run_portable
from tests.support.torch_calls import TOLERANCE
from tests.support.torch_calls import check as check_call

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]
TYPES = [*INTEGERS, np.bool_, np.float16, np.float32, np.float64]
NARROW = [dtype for dtype in TYPES if dtype != np.float64]


def check(
    library: ct.CDLL, operator: str, arguments: Sequence[Any], *outs: Out, refused: bool = False
) -> None:
    """What ExecuTorch computes, we compute, too. It may refuse only where ``refused``."""
    theirs = run_portable(operator, *arguments, *outs)
    if theirs is None:
        assert refused, "ExecuTorch refuses"
        return
    mine = run_all(library, operator, *arguments, *outs)
    for ours, expected in zip(mine, theirs, strict=True):
        assert ours.dtype == expected.dtype
        if expected.dtype == np.float16:
            np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=1e-3)
        elif expected.dtype.kind == "f":
            np.testing.assert_allclose(ours, expected, **TOLERANCE)  # type: ignore[arg-type]
        else:
            np.testing.assert_array_equal(ours, expected)


def promoted(*operands: Any) -> Any:
    """PyTorch's type of a result of these operands, as NumPy's."""
    first, second = (torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands)
    return torch.empty(0, dtype=torch.result_type(first, second)).numpy().dtype.type


PAIRS = {
    **{f"aten::{name}.out": [1] for name in ("add", "sub")},
    **{f"aten::{name}.out": [] for name in ("mul", "div", "maximum", "minimum")},
    **{f"aten::logical_{name}.out": [] for name in ("and", "or", "xor")},
    **{f"aten::{name}.Tensor_out": [] for name in COMPARISONS},
    **{f"aten::bitwise_{name}.Tensor_out": [] for name in ("and", "or", "xor")},
    "aten::pow.Tensor_Tensor_out": [],
}


def result_type(operator: str, operands: Sequence[Any], tail: Sequence[Any]) -> Any:
    """The type of PyTorch's result; None if it refuses."""
    name = operator.removeprefix("aten::").split(".")[0]
    values = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands]
    try:
        result = getattr(torch, name)(*values, **({"alpha": tail[0]} if tail else {}))
    except (RuntimeError, TypeError):
        return None
    return result.numpy().dtype.type


@oracle
@given(st.data(), st.sampled_from(sorted(PAIRS)), sized())
def test_two_tensors(etstub: ct.CDLL, data: st.DataObject, operator: str, shape: Shape) -> None:
    types = TYPES if "pow" not in operator else NARROW
    a, b = (edges(data.draw(seeds), shape, data.draw(st.sampled_from(types))) for _ in range(2))
    if "pow" in operator and a.dtype.kind != "f":
        b = np.abs(b.astype(np.float64) % 5).astype(b.dtype)
        a = (a.astype(np.float64) % 4).astype(a.dtype)
    out = result_type(operator, [a, b], PAIRS[operator])
    if out is not None:
        check(etstub, operator, [a, b, *PAIRS[operator]], Out(shape, out))


SCALARS = {
    **{f"aten::{name}.Scalar_out": [1] for name in ("add", "sub")},
    **{f"aten::{name}.Scalar_out": [] for name in ("mul", "div", *COMPARISONS)},
    "aten::pow.Tensor_Scalar_out": [],
}


@oracle
@given(st.data(), st.sampled_from(sorted(SCALARS)), sized(), st.sampled_from(TYPES))
def test_a_tensor_and_a_number(
    etstub: ct.CDLL, data: st.DataObject, operator: str, shape: Shape, dtype: type
) -> None:
    power = "pow" in operator
    number = data.draw(st.sampled_from([0.5, 2.0, 2, 1, 3] if power else [0.5, -2.5, 0, 3, True]))
    x = edges(data.draw(seeds), shape, np.float32 if power and dtype == np.float64 else dtype)
    if power and x.dtype.kind != "f":  # ExecuTorch computes powers of integers as floats
        x = np.asarray(x % 4 if x.dtype != np.bool_ else x, x.dtype)
    out = result_type(operator, [x, number], SCALARS[operator])
    if out is not None:
        # The exporter writes alpha as an integer, which ExecuTorch refuses for promoted sums.
        arguments = [x, number, *SCALARS[operator]]
        check(etstub, operator, arguments, Out(shape, out), refused=bool(SCALARS[operator]))


FUNCTIONS = ["abs", "neg", "sign", "ceil", "floor", "round", "trunc", "isnan", "isinf"]
FLOATING = ["sin", "cos", "exp", "sqrt", "rsqrt", "log", "tanh", "sigmoid", "reciprocal", "erf"]


@oracle
@given(st.data(), sized(), st.sampled_from([*FUNCTIONS, *FLOATING, "relu", "logical_not"]))
def test_functions(etstub: ct.CDLL, data: st.DataObject, shape: Shape, name: str) -> None:
    exact = name in ("abs", "neg", "isnan", "isinf", "relu", "logical_not")
    x = edges(data.draw(seeds), shape, data.draw(st.sampled_from(TYPES if exact else NARROW)))
    if name in FLOATING and x.dtype.kind == "f":
        x = np.clip(x, np.float32(-40), np.float32(40))
    out = result_type(f"aten::{name}", [x], [])
    if out is not None:
        check(etstub, f"aten::{name}.out", [x], Out(shape, out))


@oracle
@given(st.data(), sized(), st.sampled_from(TYPES), st.sampled_from([np.bool_, np.uint8]))
def test_where(
    etstub: ct.CDLL, data: st.DataObject, shape: Shape, dtype: type, condition: type
) -> None:
    chosen = edges(data.draw(seeds), shape, condition)
    a = edges(data.draw(seeds), shape, dtype)
    b = edges(data.draw(seeds), shape, data.draw(st.sampled_from(TYPES)))
    check(etstub, "aten::where.self_out", [chosen, a, b], Out(shape, promoted(a, b)))


@oracle
@given(
    st.data(),
    sized(),
    st.sampled_from(TYPES),
    st.lists(
        st.sampled_from([None, 0.5, -1, 3, float("nan"), float("inf")]), min_size=2, max_size=2
    ),
)
def test_bounds(
    etstub: ct.CDLL, data: st.DataObject, shape: Shape, dtype: type, bounds: list[Any]
) -> None:
    x = edges(data.draw(seeds), shape, dtype)
    try:
        out = torch.clamp(torch.from_numpy(x), *bounds).numpy().dtype.type
    except RuntimeError:
        return
    check(etstub, "aten::clamp.out", [x, *bounds], Out(shape, out))


@oracle
@given(st.data(), sized(1), st.sampled_from(TYPES), st.booleans())
def test_reductions(
    etstub: ct.CDLL, data: st.DataObject, shape: Shape, dtype: type, keepdim: bool
) -> None:
    """Into another type, too."""
    x = edges(data.draw(seeds), [max(size, 1) for size in shape], dtype, largest=100)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    wide = torch.sum(torch.from_numpy(x)).numpy().dtype.type
    number, other = data.draw(st.sampled_from([(None, wide), (6, np.float32), (7, np.float64)]))
    rest = tuple(torch.sum(torch.from_numpy(x), dim, keepdim).shape)
    check(etstub, "aten::sum.IntList_out", [x, [dim], keepdim, number], Out(rest, other))
    check(etstub, "aten::prod.int_out", [x, dim, keepdim, number], Out(rest, other))
    check(etstub, "aten::any.out", [x, dim, keepdim], Out(rest, np.bool_))
    check(etstub, "aten::amax.out", [x, [dim], keepdim], Out(rest, dtype))
    check(etstub, "aten::cumsum.out", [x, dim, number], Out(x.shape, other))


@oracle
@given(st.data(), sized(1), st.booleans())
def test_reductions_of_nothing(
    etstub: ct.CDLL, data: st.DataObject, shape: Shape, keepdim: bool
) -> None:
    """ExecuTorch's kernels abort where they have no elements; PyTorch has an answer."""
    hole = data.draw(st.integers(0, len(shape) - 1))
    x = np.ones([0 if dim == hole else size for dim, size in enumerate(shape)], np.float32)
    dim = data.draw(st.integers(0, len(shape) - 1))
    tensor, aten = torch.from_numpy(x), torch.ops.aten
    calls = {
        "aten::sum.IntList_out": ([[dim], keepdim, None], aten.sum.dim_IntList),
        "aten::mean.out": ([[dim], keepdim, None], aten.mean.dim),
        "aten::prod.int_out": ([dim, keepdim, None], aten.prod.dim_int),
        "aten::any.out": ([dim, keepdim], aten.any.dim),
    }
    for operator, (arguments, reference) in calls.items():
        named = {"dtype": arguments[2]} if len(arguments) > 2 else {}
        expected = reference(tensor, *arguments[:2], **named)
        check_call(etstub, operator, [x, *arguments], expected)
    variance = aten.var.correction(tensor, [dim], correction=1, keepdim=keepdim)
    check_call(etstub, "aten::var.correction_out", [x, [dim], 1, keepdim], variance)
    if x.shape[dim]:
        expected = aten.amax(tensor, [dim], keepdim)
        check_call(etstub, "aten::amax.out", [x, [dim], keepdim], expected)


@oracle
@given(st.data(), sized(), st.sampled_from(["_softmax", "_log_softmax"]))
def test_softmax(etstub: ct.CDLL, data: st.DataObject, shape: Shape, name: str) -> None:
    x = np.asarray(np.clip(edges(data.draw(seeds), shape, np.float32), -50, 50))
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    if x.size:
        check(etstub, f"aten::{name}.out", [x, dim, False], Out(shape))
    else:  # ExecuTorch's _log_softmax divides by zero here, which ends its process
        assert run_all(etstub, f"aten::{name}.out", x, dim, False, Out(shape))[0].shape == shape


@oracle
@given(st.data(), st.sampled_from(TYPES), st.booleans())
def test_maximum_of_windows(
    etstub: ct.CDLL, data: st.DataObject, dtype: type, ceil_mode: bool
) -> None:
    size, kernel, stride = (data.draw(st.integers(low, 5)) for low in (3, 1, 1))
    x: Array = edges(data.draw(seeds), (1, 2, size + 2, size), dtype)
    if x.dtype.kind == "f":  # ExecuTorch passes over NaN, PyTorch does not
        x = np.nan_to_num(x)
    window = [[kernel, 2], [stride, 2], [0, 1], [1, 1], ceil_mode]
    plain = torch.from_numpy(x).to(torch.float32)
    expected = torch.nn.functional.max_pool2d(plain, *window)
    shape = tuple(expected.shape)
    operator = "aten::max_pool2d_with_indices.out"
    outs = Out(shape, dtype), Out(shape, np.int64)
    check(etstub, operator, [x, *window], *outs, refused=dtype == np.bool_)


@oracle
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_empty_batches(etstub: ct.CDLL, data: st.DataObject, depth: int, columns: int) -> None:
    x = np.zeros((0, depth), np.float32)
    weight, bias = np.ones((depth, columns), np.float32), np.ones(columns, np.float32)
    out = Out((0, columns))
    check(etstub, "aten::mm.out", [x, weight], out)
    check(etstub, "aten::addmm.out", [bias, x, weight, 1, 1], out)
    check(etstub, "aten::linear.out", [x, weight.T.copy(), None], out)
    check(etstub, "aten::bmm.out", [x[None].swapaxes(0, 1), weight[None][:0]], Out((0, 1, columns)))
    rows = Out(x.shape), Out((0, 1)), Out((0, 1))
    left, right = np.zeros((depth, 0), np.float32), np.zeros((0, columns), np.float32)
    sums = Out((depth, columns))  # of nothing
    check(etstub, "aten::mm.out", [left, right], sums)
    check(etstub, "aten::addmm.out", [bias, left, right, 2, 1], sums)
    check(etstub, "aten::bmm.out", [left[None], right[None]], Out((1, depth, columns)))
    check(etstub, "aten::mm.out", [weight, weight.T[:, :0].copy()], Out((depth, 0)))
    check(etstub, "aten::argmax.out", [x, 1, False], Out((0,), np.int64))
    check(etstub, "aten::argmax.out", [x, 0, False], Out((depth,), np.int64), refused=True)
    norm = [x, [depth], None, None, 1e-5]
    check(etstub, "aten::native_layer_norm.out", norm, *rows)


@oracle
@given(st.data(), st.integers(1, 3))
def test_empty_batches_of_images(etstub: ct.CDLL, data: st.DataObject, channels: int) -> None:
    size, aten = data.draw(st.integers(3, 6)), torch.ops.aten
    x, weight = np.zeros((0, channels, size, 4), np.float32), np.ones((channels, channels, 2, 2))
    tensor, taps = torch.from_numpy(x), torch.from_numpy(weight.astype(np.float32))
    for transposed in (False, True):
        tail = [[1, 1], [0, 0], [1, 1], transposed, [0, 0], 1]
        expected = aten.convolution(tensor, taps, None, *tail)
        arguments = [x, weight.astype(np.float32), None, *tail]
        check(etstub, "aten::convolution.out", arguments, Out(tuple(expected.shape)))
    outs = Out((0, channels, size - 1, 3)), Out((0, channels, size - 1, 3), np.int64)
    window = [[2, 2], [1, 1], [0, 0]]
    operator = "aten::max_pool2d_with_indices.out"
    check(etstub, operator, [x, *window, [1, 1], False], *outs)
    check(etstub, "aten::avg_pool2d.out", [x, *window, False, True, None], outs[0])
    large = Out((0, channels, 2 * size, 8))
    for name, corners in (("nearest", []), ("bilinear", [False])):
        arguments = [x, None, *corners, [2.0, 2.0]]
        check(etstub, f"aten::upsample_{name}2d.vec_out", arguments, large)
