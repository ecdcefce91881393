"""Classifies the blocks of a trace: execution or not, cold or warm, and event sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.records.trace import EXECUTION, LOADING, Block, Kind, Trace

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


_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BlockRun:
    """One block.

    Attributes:
        order: Index of the block in the trace.
        name: Its name.
        tracer: Number of its tracer; 0 for a block without events.
        index: Number of earlier blocks with this name and tracer.
        signature: Order of the first block with the same name and the same sequence of profile
            events, compared by the ``SIGNATURE`` columns. ExecuTorch's Inspector splits blocks of
            one name by this signature.
        events: Number of its events.
        executes: Whether a method was executed in it.
        cold: Whether it is the first execution after loading; other executions are warm.
    """

    order: int
    name: str
    tracer: int
    index: int
    signature: int
    events: int
    executes: bool
    cold: bool


SIGNATURE: Final = ("name", "chain", "instruction", "delegate_int", "delegate_str", "clock")
"""Columns that are equal for repeats of one event."""


def block_numbers(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the block number of every event, shape (n,)."""
    return np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])


def block_names(trace: Trace) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the distinct block names by first occurrence, and each event's index into them."""
    names = list(dict.fromkeys(block.name for block in trace.blocks))
    number = {name: index for index, name in enumerate(names)}
    of_block = np.array([number[block.name] for block in trace.blocks], np.int64)
    return names, of_block[block_numbers(trace)]


def runs(trace: Trace, *, without: Collection[str] = ()) -> list[BlockRun]:
    """Return the blocks of ``trace``.

    Args:
        trace: The trace.
        without: Names of events to ignore in signatures.
    """
    executed, cold = executions(trace)
    signatures = _signatures(trace, without)
    indices: Counter[tuple[int, str]] = Counter()
    found = []
    for order, (block, signature) in enumerate(zip(trace.blocks, signatures, strict=True)):
        tracer = _tracer(trace, block)
        index = indices[tracer, block.name]
        indices[tracer, block.name] += 1
        flags = bool(executed[order]), bool(cold[order])
        found.append(BlockRun(order, block.name, tracer, index, signature, block.count, *flags))
    return found


def executions(trace: Trace) -> tuple[_Bools, _Bools]:
    """Return per block whether it executes a method, and whether it is the cold execution.

    A block executes a method if it has a ``Method::execute`` event. If no block has one, as with a
    filter, blocks with profile events but no loading events count. The cold execution is the first
    after loading; if runs or chunks of the log are missing, no execution counts as cold.
    """
    loads, executes = _holding(trace, LOADING), _holding(trace, (EXECUTION,))
    if not executes.any():
        busy = np.bincount(
            block_numbers(trace)[trace.kind == Kind.PROFILE], minlength=len(trace.blocks)
        )
        executes = (busy > 0) & ~loads
    known = not (trace.losses.runs or trace.losses.chunks)
    fresh: dict[int, bool] = {}
    cold = np.zeros(len(trace.blocks), np.bool_)
    rows = zip(trace.blocks, loads.tolist(), executes.tolist(), strict=True)
    for order, (block, loaded, executed) in enumerate(rows):
        tracer = _tracer(trace, block)
        first = loaded or fresh.get(tracer, True)
        cold[order] = executed and known and first
        fresh[tracer] = first and not executed
    return executes, cold


def _tracer(trace: Trace, block: Block) -> int:
    return int(trace.tracer[block.first]) if block.count else 0


def _holding(trace: Trace, names: tuple[str, ...]) -> _Bools:
    """Return True for blocks with a profile event that has one of these names."""
    numbers = [i for i, name in enumerate(trace.names) if name in names]
    rows = (trace.kind == Kind.PROFILE) & np.isin(trace.name, numbers)
    return np.bincount(block_numbers(trace)[rows], minlength=len(trace.blocks)) > 0


def _signatures(trace: Trace, without: Collection[str]) -> list[int]:
    counts = [name not in without for name in trace.names] + [True]
    profile = np.flatnonzero((trace.kind == Kind.PROFILE) & np.array(counts)[trace.name])
    codes = equal_rows([getattr(trace, column)[profile] for column in SIGNATURE])
    bounds = np.searchsorted(profile, [block.first for block in trace.blocks] + [len(trace)])
    seen: dict[tuple[str, bytes], int] = {}
    return [
        seen.setdefault((block.name, codes[first:behind].tobytes()), order)
        for order, (block, first, behind) in enumerate(
            zip(trace.blocks, bounds.tolist(), bounds[1:].tolist(), strict=False)
        )
    ]
