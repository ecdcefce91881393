"""What the generated tests of kernels share: shapes, layouts, values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.examples import examples

Shape = tuple[int, ...]
seeds = st.integers(0, 2**32 - 1)

# The library is built once per session: a fixture that generated examples may share.
oracle = settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def shapes(least: int, most: int, largest: int = 5) -> st.SearchStrategy[Shape]:
    """Shapes of ``least`` to ``most`` dimensions."""
    return st.lists(st.integers(1, largest), min_size=least, max_size=most).map(tuple)


def ordered(ndim: int) -> st.SearchStrategy[list[int]]:
    """An order of dimensions in memory."""
    return st.permutations(range(ndim))


def floats(
    seed: int, shape: Sequence[int], dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[np.float32]:
    """Normally distributed numbers."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def ints(seed: int, shape: Sequence[int], dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """Any numbers of an integer type, or truth values."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    info = np.iinfo(np.dtype(dtype))
    return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))


def sized(least: int = 0) -> st.SearchStrategy[Shape]:
    """Shapes of up to three dimensions, of which some have no elements."""
    return st.lists(st.sampled_from([1, 2, 3, 9, 0]), min_size=least, max_size=3).map(tuple)


def edges(seed: int, shape: Sequence[int], dtype: npt.DTypeLike, largest: int = 0) -> Any:
    """Numbers of a type, often its extremes, infinities, NaN and zeros.

    Those that are none of these are at most ``largest``, if it is not 0.
    """
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind == np.bool_:
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    if kind.kind == "f":
        plain = np.asarray(rng.standard_normal(shape) * 3, kind)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5]
    else:
        info = np.iinfo(kind)
        plain = np.asarray(rng.integers(max(info.min, -5), 6, shape), kind)
        special = [info.min, info.max, 0, 1] if not largest else [0, 1, largest]
    mask = rng.random(shape) < 0.3
    return np.asarray(np.where(mask, rng.choice(np.asarray(special, kind), shape), plain), kind)
