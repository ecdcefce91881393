"""Groups rows with equal keys, and computes running maxima within groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_TABLE_FACTOR = 4
"""Possible numbers per row up to which a lookup table is faster than sorting."""

_MAX_CODE = 2**62
"""Codes stay below this to avoid overflow."""


def equal_rows(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Return a number for each row, equal for rows with equal keys.

    Args:
        keys: One or more columns of integers, each of shape (n,).

    Returns:
        Numbers from 0, without gaps, in ascending order of the keys, shape (n,).
    """
    count = len(keys[0])
    codes, span = np.zeros(count, np.int64), 1
    if not count:
        return codes
    for key in keys:
        low = int(key.min())
        width = int(key.max()) - low + 1
        if width > _TABLE_FACTOR * count:
            values, numbers = np.unique(key, return_inverse=True)
            width = len(values)
        else:
            numbers = key.astype(np.int64) - low
        if span > _MAX_CODE // width:
            codes, span = _without_gaps(codes, span)
        codes, span = codes * width + numbers, span * width
    return _without_gaps(codes, span)[0]


def _without_gaps(codes: npt.NDArray[np.int64], span: int) -> tuple[npt.NDArray[np.int64], int]:
    """Renumber codes below ``span`` without gaps, and return how many numbers there are."""
    if span > _TABLE_FACTOR * len(codes):
        values, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(values)
    there = np.zeros(span, np.int64)
    there[codes] = 1
    numbers = np.cumsum(there) - 1
    return numbers[codes], int(numbers[-1]) + 1


def in_groups(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows into groups of equal numbers.

    Args:
        numbers: Small numbers as from ``equal_rows``, shape (n,).

    Returns:
        The order of rows, shape (n,), with groups in order of first occurrence and rows of a group
        in their own order; and the index in it at which each group begins.
    """
    first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last write wins
    seen = first[numbers]
    order = np.argsort(seen, kind="stable")
    return order, np.flatnonzero(np.diff(seen[order], prepend=-1))


def running_maximum(
    values: npt.NDArray[np.int64], first: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the running maximum within each group, shape (n,).

    Args:
        values: Consecutive groups of values, shape (n,).
        first: True at the first value of each group, including index 0.
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    # Offset the ranks of each group above those of all groups before it.
    floor = np.cumsum(first) * len(distinct)
    return np.asarray(distinct[np.maximum.accumulate(ranks + floor) - floor])
