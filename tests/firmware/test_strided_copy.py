"""Copies between memory layouts, against NumPy: elements of any size, dimensions in any order."""

from __future__ import annotations

import ctypes as ct
from math import prod

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.kernels import Out, Tensor, run

generated = settings(
    max_examples=examples(100),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
types = st.sampled_from([np.int8, np.int16, np.float32, np.int64])
sizes = st.sampled_from([1, 1, 2, 3, 4, 5, 8, 9, 17])
shapes = st.lists(sizes, min_size=1, max_size=5)


def numbered(shape: list[int], dtype: type) -> npt.NDArray[np.generic]:
    """Different elements, except that 8 bits do not suffice for many."""
    return np.arange(prod(shape)).astype(dtype).reshape(shape)


@generated
@given(data=st.data(), shape=shapes, dtype=types)
def test_permute_copy(etstub: ct.CDLL, data, shape, dtype) -> None:
    x = numbered(shape, dtype)
    dims, before, after = (data.draw(st.permutations(range(len(shape)))) for _ in range(3))
    expected = x.transpose(dims)
    out = Out(expected.shape, dtype, order=after)
    found = run(etstub, "aten::permute_copy", Tensor(x, before), list(dims), out)
    np.testing.assert_array_equal(found, expected)


@generated
@given(data=st.data(), shape=shapes, dtype=types)
def test_view_copy(etstub: ct.CDLL, data, shape, dtype) -> None:
    """The elements in the order of their indexes, between any two layouts and shapes."""
    x = numbered(shape, dtype)
    viewed = data.draw(st.permutations(shape))
    before, after = (data.draw(st.permutations(range(len(shape)))) for _ in range(2))
    out = Out(viewed, dtype, order=after)
    found = run(etstub, "aten::view_copy", Tensor(x, before), list(viewed), out)
    np.testing.assert_array_equal(found, x.reshape(viewed))


def test_layouts_without_a_common_loop(etstub: ct.CDLL) -> None:
    """Rows of 3 become rows of 2 while both are stored column by column."""
    x = numbered([2, 3], np.int16)
    out = Out([3, 2], np.int16, order=(1, 0))
    found = run(etstub, "aten::view_copy", Tensor(x, (1, 0)), [3, 2], out)
    np.testing.assert_array_equal(found, x.reshape(3, 2))
