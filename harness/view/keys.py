"""Rows in groups: the numbering of equal keys, and what runs along a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def equal_rows(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Number rows so that two have the same number when all their keys are the same.

    Args:
        keys: Columns of integers, each of shape (n,); one at least.

    Returns:
        Numbers from 0, without gaps, in ascending order of the keys, shape (n,).
    """
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        values, inverse = np.unique(key, return_inverse=True)
        # Renumbering after each key keeps codes below n, so the product cannot overflow.
        _, codes = np.unique(codes * len(values) + inverse, return_inverse=True)
    return codes


def running_maximum(
    values: npt.NDArray[np.int64], first: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the largest value so far in each group, shape (n,).

    Args:
        values: Groups of values, one behind the other, shape (n,).
        first: True where a group begins; true at 0.
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    # Each group's ranks stand above those of all groups before it.
    floor = np.cumsum(first) * len(distinct)
    return np.asarray(distinct[np.maximum.accumulate(ranks + floor) - floor])
