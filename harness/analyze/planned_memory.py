"""Use of a method's planned memory: live tensors per instruction, peak, gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analyze.memory import Gaps, gaps
from harness.analyze.operands import lifetimes
from harness.analyze.workload import tensor_bytes
from harness.decode.program import Method, Tensor
from harness.errors import FormatError


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor in planned memory.

    Attributes:
        value: Number of its value in the method.
        offset: Offset in its pool.
        size: Size in bytes; upper bound for a dynamic shape.
        first: Index of the first instruction that needs it, -1 for before the first.
        last: Index of the last one; the number of instructions for after the last.
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
        pool: Its number; its allocator on the device is ``planned_<number>``.
        planned: Size in the file, in bytes.
        reach: End of the last tensor.
        tensors: Its tensors by offset.
        live: Bytes of live tensors, overlaps counted once: before the first instruction, at each,
            and after the last. int64, shape (instructions + 2,).
        peak: Maximum of ``live``.
        peak_at: First instruction with this maximum, -1 for before the first.
        peak_tensors: Live tensors at the peak, by offset.
        peak_gaps: Free memory between them.
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
    """Return every memory pool that the method plans.

    Raises:
        FormatError: A tensor in a pool has an unknown scalar type.
    """
    count = sum(len(chain) for chain in method.chains)
    by_pool: dict[int, list[PlannedTensor]] = {pool: [] for pool in range(1, len(method.planned))}
    for number, life in lifetimes(method).items():
        value = method.values[number]
        if isinstance(value, Tensor) and value.pool in by_pool and value.offset >= 0:
            try:
                size = tensor_bytes(value)
            except FormatError as error:
                raise FormatError(f"value {number}: {error.message}", field="values") from error
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
    """Return the bytes that tensors cover, without overlap."""
    end = max((t.offset + t.size for t in tensors), default=0)
    return end - gaps((t.offset, t.size) for t in tensors).bytes
