"""What a method's planned memory is used for: live tensors per instruction, peak, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from harness.analyze.memory import Gaps, gaps
from harness.analyze.tensor_ids import lifetimes
from harness.decode.program import Method, Tensor
from harness.errors import FormatError
from harness.records.scalar_types import STORED_AS


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor with a place in planned memory.

    Attributes:
        value: Number of its value in the method.
        offset: Offset in its pool.
        size: Bytes; of a dynamic shape, at most.
        first: First instruction that needs it, in the order of all, -1 for before the first.
        last: Last one; the number of all instructions for after the last.
    """

    value: int
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPool:
    """One pool of planned memory.

    Attributes:
        pool: Its number; on a device it is the allocator ``planned_<number>``.
        planned: Bytes that the file asks for.
        reach: Where the last tensor ends.
        tensors: By offset.
        live: Bytes that tensors take, those at one place counted once, before the first
            instruction, at each, and after the last. int64, shape (instructions + 2,).
        peak: The most of it.
        peak_at: The first instruction with that many, -1 for before the first.
        peak_tensors: What is live then, by offset.
        peak_gaps: What is free between them.
    """

    pool: int
    planned: int
    reach: int
    tensors: tuple[PlannedTensor, ...]
    live: npt.NDArray[np.int64]
    peak: int
    peak_at: int
    peak_tensors: tuple[PlannedTensor, ...]
    peak_gaps: Gaps


def planned_pools(method: Method) -> list[PlannedPool]:
    """Look at every pool that the method plans memory for.

    Raises:
        FormatError: A tensor in one is of an unknown scalar type.
    """
    count = sum(len(chain) for chain in method.chains)
    by_pool: dict[int, list[PlannedTensor]] = {pool: [] for pool in range(1, len(method.planned))}
    for number, life in lifetimes(method).items():
        value = method.values[number]
        if isinstance(value, Tensor) and value.pool in by_pool and value.offset >= 0:
            if value.scalar_type not in STORED_AS:
                text = f"value {number}: scalar type {value.scalar_type} is not known"
                raise FormatError(text, field="values")
            size = prod(value.sizes) * np.dtype(STORED_AS[value.scalar_type]).itemsize
            tensor = PlannedTensor(number, value.offset, size, life.first, life.last)
            by_pool[value.pool].append(tensor)
    return [
        _pool(pool, method.planned[pool], count, sorted(tensors, key=lambda t: (t.offset, t.value)))
        for pool, tensors in by_pool.items()
    ]


def _pool(pool: int, planned: int, count: int, tensors: list[PlannedTensor]) -> PlannedPool:
    live = np.zeros(count + 2, np.int64)
    changes = sorted({place for t in tensors for place in (t.first, t.last + 1)})
    for place, until in zip(changes, [*changes[1:], count + 1], strict=True):
        live[place + 1 : until + 1] = _bytes(_needed(tensors, place))
    peak_at = int(np.argmax(live)) - 1
    there = _needed(tensors, peak_at)
    return PlannedPool(
        pool=pool,
        planned=planned,
        reach=max((t.offset + t.size for t in tensors), default=0),
        tensors=tuple(tensors),
        live=live,
        peak=int(live.max()),
        peak_at=peak_at,
        peak_tensors=tuple(there),
        peak_gaps=gaps((t.offset, t.size) for t in there),
    )


def _needed(tensors: list[PlannedTensor], place: int) -> list[PlannedTensor]:
    return [t for t in tensors if t.first <= place <= t.last]


def _bytes(tensors: list[PlannedTensor]) -> int:
    """Bytes that tensors, by offset, take together."""
    end = max((t.offset + t.size for t in tensors), default=0)
    return end - gaps((t.offset, t.size) for t in tensors).bytes
