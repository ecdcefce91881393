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
    count = len(keys[0])
    codes, span = np.zeros(count, np.int64), 1
    if not count:
        return codes
    for key in keys:
        low = int(key.min())
        width = int(key.max()) - low + 1
        if width > _FEW * count:
            values, numbers = np.unique(key, return_inverse=True)
            width = len(values)
        else:
            numbers = key.astype(np.int64) - low
        if span > _MOST // width:
            codes, span = _without_gaps(codes, span)
        codes, span = codes * width + numbers, span * width
    return _without_gaps(codes, span)[0]


_FEW = 4
"""Possible numbers per row up to which a table of them all is quicker than sorting."""

_MOST = 2**62
"""Numbers stay below."""


def _without_gaps(codes: npt.NDArray[np.int64], span: int) -> tuple[npt.NDArray[np.int64], int]:
    """Renumber codes below ``span`` in their order, and return how many numbers there are."""
    if span > _FEW * len(codes):
        values, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(values)
    there = np.zeros(span, np.int64)
    there[codes] = 1
    numbers = np.cumsum(there) - 1
    return numbers[codes], int(numbers[-1]) + 1


def in_groups(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Put equal numbers beside each other.

    Args:
        numbers: As from ``equal_rows``: small ones, shape (n,).

    Returns:
        The order that does so, shape (n,): groups in first-seen order, and each in its own. And the
        places in it where groups begin.
    """
    first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # what is written last stays
    seen = first[numbers]
    order = np.argsort(seen, kind="stable")
    return order, np.flatnonzero(np.diff(seen[order], prepend=-1))


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
