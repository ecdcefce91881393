"""Trace: everything a target logged, as columns, one row per event, in log order.

Nothing is dropped, nothing aggregated. Grouping, scaling and nesting are views (``harness.view``),
and unwrapping is ``harness.clock``; none of them changes a Trace. The columns mirror ExecuTorch's
ETDump schema (``schema/etdump.fbs``), plus what the compact device log knows beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from harness.timebase import ClockDomain


class Kind(IntEnum):
    """What a row is."""

    PROFILE = 0
    ALLOCATION = 1
    DEBUG = 2


NO_NAME = -1
"""Name index of an event without a name, and of a delegate without a string id."""


@dataclass(frozen=True, slots=True)
class Block:
    """An event block (RunData in ETDump): the events ``[first, first + count)``.

    Attributes:
        name: Such as ``Default`` or ``Execute``.
        first: Row of its first event.
        count: Number of its events.
        bundled_input_index: Index of the bundled input it ran, -1 for none.
        allocators: Names of its allocators; allocator id n is ``allocators[n - 1]``.
    """

    name: str
    first: int
    count: int
    bundled_input_index: int = -1
    allocators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A logged tensor: where its bytes are in the debug buffer, and their shape.

    Attributes:
        scalar_type: ExecuTorch's number (``schema/scalar_type.fbs``).
        sizes: Elements per dimension.
        strides: Elements between neighbours, per dimension.
        offset: Byte offset into the debug buffer.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class DebugValue:
    """The value a debug event logged.

    Attributes:
        value: A tensor, a list of tensors, a number, a bool, or None for Null.
        type: ETDump's ValueType number, which tells Float from Double.
        output: True when it is an output of the program.
    """

    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    type: int
    output: bool | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """What the target could not record. All zero means the log is complete.

    Attributes:
        events: Events dropped.
        blocks: Block and allocator declarations dropped.
    """

    events: int = 0
    blocks: int = 0

    @property
    def any(self) -> bool:
        """True when anything is missing."""
        return bool(self.events or self.blocks)


@dataclass(frozen=True, slots=True)
class Trace:
    """A log, lossless. All columns have one entry per event.

    Attributes:
        names: Interned strings; bytes that are not UTF-8 are kept as surrogate escapes.
        blocks: Event blocks in log order; every event belongs to exactly one.
        clocks: Clock domains; ``clock`` indexes them.
        kind: ``Kind`` per event, uint8.
        name: Index into ``names``, or NO_NAME, int32.
        chain: Chain index, -1 unset, int64.
        instruction: Instruction id (debug handle), int32 value range in int64.
        delegate_int: Integer delegate debug id, -1 unset, int64.
        delegate_str: Index into ``names`` of the string delegate debug id, or NO_NAME, int32.
        clock: Index into ``clocks``, uint8.
        start: Raw start tick, uint64; 0 for events that have none.
        end: Raw end tick, uint64; for allocations with a time, equal to ``start``.
        metadata: Offset and length into ``metadata_bytes``, int64, shape (n, 2); length -1: absent.
        allocator: Allocator id of an allocation, else -1, int64.
        size: Bytes allocated, else 0, int64 (negative: freed).
        offset: Offset of an allocation within its allocator, -1 unknown, int64.
        failed: True for an allocation that failed, bool.
        debug: Index into ``debug_values`` of a debug event, else -1, int64.
        metadata_bytes: All delegate metadata, one after the other.
        debug_values: Values of debug events.
        version: ETDump schema version.
        losses: What is missing.
    """

    names: tuple[str, ...]
    blocks: tuple[Block, ...]
    clocks: tuple[ClockDomain, ...]
    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.int32]
    chain: npt.NDArray[np.int64]
    instruction: npt.NDArray[np.int64]
    delegate_int: npt.NDArray[np.int64]
    delegate_str: npt.NDArray[np.int32]
    clock: npt.NDArray[np.uint8]
    start: npt.NDArray[np.uint64]
    end: npt.NDArray[np.uint64]
    metadata: npt.NDArray[np.int64]
    allocator: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    failed: npt.NDArray[np.bool_]
    debug: npt.NDArray[np.int64]
    metadata_bytes: bytes = b""
    debug_values: tuple[DebugValue, ...] = field(default=())
    version: int = 0
    losses: Losses = Losses()

    def __len__(self) -> int:
        """Number of events."""
        return int(self.kind.shape[0])
