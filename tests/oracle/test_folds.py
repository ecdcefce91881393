"""Folds, order and variances against PyTorch, of every type that the device takes."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, oracle, seeds, shapes
from tests.support.kernels import Array
from tests.support.torch_calls import check

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
DTYPES = [np.float32, np.int64, np.int32, np.int8, np.uint8]


def few(data: st.DataObject, shape: Shape, *, nan: bool = True) -> Array:
    """Numbers that are often the same, and some of them NaN."""
    dtype = data.draw(st.sampled_from(DTYPES))
    values = [0, 1, 2, 3] if dtype == np.uint8 else [-2, -1, 0, 1, 2]
    numbers = np.random.default_rng(data.draw(seeds)).choice(values, shape).astype(dtype)
    if nan and dtype == np.float32 and data.draw(st.booleans()):
        numbers.flat[data.draw(st.integers(0, numbers.size - 1))] = np.nan
    return np.asarray(numbers)


def axes(data: st.DataObject, shape: Shape) -> list[int]:
    return data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))


@oracle
@given(shapes(1, 4), st.data(), st.booleans())
def test_extremes_and_truths(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, keepdim: bool
) -> None:
    x, dims = few(data, shape), axes(data, shape)
    tensor = torch.from_numpy(x)
    for name in ("amax", "amin"):
        expected = getattr(torch, name)(tensor, dims, keepdim)
        check(etstub, f"aten::{name}.out", [x, dims, keepdim], expected, data)
    for name in ("max", "min"):
        check(etstub, f"aten::{name}.unary_out", [x], getattr(torch, name)(tensor), data)
    for name in ("any", "all"):
        functions = getattr(torch.ops.aten, name)
        expected = functions.dims(tensor, dims or None, keepdim)
        check(etstub, f"aten::{name}.dims_out", [x, dims or None, keepdim], expected, data)
        expected = functions.dim(tensor, len(shape) - 1, keepdim)
        check(etstub, f"aten::{name}.out", [x, -1, keepdim], expected, data)
        check(etstub, f"aten::{name}.all_out", [x], functions.default(tensor), data)


@oracle
@given(shapes(1, 4), st.data(), st.booleans())
def test_arithmetic(etstub: ct.CDLL, shape: Shape, data: st.DataObject, keepdim: bool) -> None:
    x = few(data, shape)
    tensor, dim = torch.from_numpy(x), data.draw(st.integers(-len(shape), len(shape) - 1))
    expected = torch.prod(tensor, dim, keepdim)
    check(etstub, "aten::prod.int_out", [x, dim, keepdim, None], expected, data)
    check(etstub, "aten::prod.out", [x, None], torch.prod(tensor), data)
    expected = torch.sum(tensor, [dim], keepdim)
    check(etstub, "aten::sum.IntList_out", [x, [dim], keepdim, None], expected, data)
    check(etstub, "aten::cumsum.out", [x, dim, None], torch.cumsum(tensor, dim), data)


@oracle
@given(shapes(1, 4, 7), st.data(), st.booleans())
def test_places_of_extremes(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, keepdim: bool
) -> None:
    """The first of several equal ones, or the first NaN."""
    x = few(data, shape)
    tensor, dim = torch.from_numpy(x), data.draw(st.integers(-len(shape), len(shape) - 1))
    for name in ("argmax", "argmin"):
        for axis in (None, dim):
            function = getattr(torch, name)
            expected = function(tensor, axis, keepdim)
            check(etstub, f"aten::{name}.out", [x, axis, keepdim], expected, data)
    for name in ("max", "min"):
        expected = tuple(getattr(torch, name)(tensor, dim, keepdim))
        check(etstub, f"aten::{name}.dim_{name}", [x, dim, keepdim], expected, data)


@oracle
@given(shapes(1, 4, 9), st.data(), st.booleans())
def test_sorting(etstub: ct.CDLL, shape: Shape, data: st.DataObject, descending: bool) -> None:
    x = few(data, shape)
    tensor, dim = torch.from_numpy(x), data.draw(st.integers(-len(shape), len(shape) - 1))
    values, places = torch.sort(tensor, dim=dim, descending=descending, stable=True)
    check(etstub, "aten::sort.values", [x, dim, descending], (values, places), data)
    arguments = [x, True, dim, descending]
    check(etstub, "aten::sort.values_stable", arguments, (values, places), data)
    kept = data.draw(st.integers(0, shape[dim]))
    expected = tuple(part.narrow(dim, 0, kept).contiguous() for part in (values, places))
    check(etstub, "aten::topk.values", [x, kept, dim, descending, True], expected, data)


@oracle
@given(shapes(1, 4), st.data(), st.booleans(), st.sampled_from([None, 0, 1, 0.5]))
def test_variances(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, keepdim: bool, correction: float | None
) -> None:
    x, dims = floats(data.draw(seeds), shape), axes(data, shape)
    tensor = torch.from_numpy(x)
    variance, mean = torch.var_mean(tensor, dims, correction=correction, keepdim=keepdim)
    arguments = [x, dims, correction, keepdim]
    check(etstub, "aten::var.correction_out", arguments, variance, data)
    check(etstub, "aten::var_mean.correction_out", arguments, (variance, mean), data)
    expected = torch.var(tensor, dims, unbiased=False, keepdim=keepdim)
    check(etstub, "aten::var.out", [x, dims, False, keepdim], expected, data)
