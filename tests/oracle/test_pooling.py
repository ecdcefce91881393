"""Pooling kernels against PyTorch, on generated windows."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.strategies import floats, oracle, seeds
from tests.support.kernels import Out, Tensor, run, run_all

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
rooms = st.sampled_from([0, 3])  # of outputs: more than 0 makes them dynamic
pairs = st.lists(st.integers(1, 4), min_size=2, max_size=2)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Any, list[int] | None, list[Any]]:
    """An image or a batch of images, its order in memory, and kernel, stride and padding."""
    lead = draw(st.sampled_from([(3,), (1, 2), (2, 3)]))
    image = floats(draw(seeds), (*lead, *draw(pairs), 1))[..., 0].repeat(3, -1).repeat(2, -2)
    image = image + floats(draw(seeds), image.shape)
    order = draw(
        st.sampled_from([[0, 1, 2], [1, 2, 0]] if len(lead) == 1 else [None, [0, 2, 3, 1]])
    )
    kernel = draw(pairs)
    stride = draw(st.one_of(st.just([]), pairs))
    return image, order, [kernel, stride, [draw(st.integers(0, size // 2)) for size in kernel]]


def reference(operator: Any, *arguments: Any) -> Any:
    """PyTorch's answer, where it has one."""
    try:
        return operator(*arguments)
    except RuntimeError:
        assume(False)


@oracle
@given(pools(), st.booleans(), st.booleans(), st.sampled_from([None, 1, 7]), rooms)
def test_avg_pool2d(
    etstub: ct.CDLL, pool: Any, ceil_mode: bool, count_padding: bool, divisor: int | None, room: int
) -> None:
    x, order, window = pool
    arguments = [*window, ceil_mode, count_padding, divisor]
    expected = reference(torch.ops.aten.avg_pool2d.default, torch.from_numpy(x), *arguments)
    out = Out(tuple(expected.shape), order=order, room=room)
    found = run(etstub, "aten::avg_pool2d", Tensor(x, order), *arguments, out)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


@oracle
@given(pools(), pairs, st.booleans(), rooms)
def test_max_pool2d(
    etstub: ct.CDLL, pool: Any, dilation: list[int], ceil_mode: bool, room: int
) -> None:
    x, order, window = pool
    x = np.round(x * 2).astype(np.float32)  # with ties
    arguments = [*window, dilation, ceil_mode]
    operator = torch.ops.aten.max_pool2d_with_indices.default
    expected, indices = reference(operator, torch.from_numpy(x), *arguments)
    assume(np.isfinite(expected.numpy()).all())  # a window that misses the input is refused
    shape = tuple(expected.shape)
    outs = Out(shape, order=order, room=room), Out(shape, np.int64, order, room)
    found = run_all(etstub, "aten::max_pool2d_with_indices", Tensor(x, order), *arguments, *outs)
    np.testing.assert_array_equal(found[0], expected.numpy())
    np.testing.assert_array_equal(found[1], indices.numpy())
