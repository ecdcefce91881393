"""What each block of a trace was: which run of its name, cold or warm, and of which sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.groups import equal_rows
from harness.records.trace import EXECUTION, LOADING, Block, Kind, Trace

_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BlockRun:
    """One block.

    Attributes:
        order: Its place among the blocks of the trace.
        name: Its name.
        tracer: Number of its tracer; 0 for a block without events.
        index: How many blocks of this name its tracer has before it.
        signature: Order of the first block with the same name that logged the same profile events,
            as far as ``SIGNATURE`` tells, in the same sequence, repeats included. Blocks of one
            name with several signatures are those that ExecuTorch's Inspector takes apart.
        events: Number of its events.
        executes: A method was executed in it.
        cold: It was the first execution after loading. Warm are those that executed, and were not.
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
"""Columns in which two events agree that are repeats of one."""


def block_numbers(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the block of every event, shape (n,)."""
    return np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])


def block_names(trace: Trace) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the names that blocks have, first seen first, and each event's number among them."""
    names = list(dict.fromkeys(block.name for block in trace.blocks))
    number = {name: index for index, name in enumerate(names)}
    of_block = np.array([number[block.name] for block in trace.blocks], np.int64)
    return names, of_block[block_numbers(trace)]


def runs(trace: Trace, *, without: Collection[str] = ()) -> list[BlockRun]:
    """List the blocks of ``trace``.

    Args:
        trace: What was logged.
        without: Names of events that do not count for signatures.
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
    """Return per block whether a method was executed in it, and whether for the first time.

    A block executes a method if it holds ``Method::execute``; where no block does, as with a
    filter, any does that holds profile events and none of loading. The first time is the first
    after loading. Where runs or chunks of a log are missing nobody knows which that was, and none
    is called so.
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
    """Blocks that hold a profile event with one of these names."""
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
