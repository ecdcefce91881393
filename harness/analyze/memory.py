"""Memory over time: live bytes of each allocator, its peak, the pieces live then, and its gaps.

Of a model, the same for its planned memory, per instruction (``planned_pools``).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.call_tree import CallTree, call_tree
from harness.errors import FormatError
from harness.records.trace import NO_CLOCK, Kind, Trace

if TYPE_CHECKING:
    from harness.decode.program import Method


@dataclass(frozen=True, slots=True)
class Allocator:
    """An allocator of a trace.

    Attributes:
        id: Its id, from 1.
        name: As declared, or None for an id that no block declares.
    """

    id: int
    name: str | None

    @property
    def label(self) -> str:
        """Display name."""
        return f"allocator {self.id}" if self.name is None else self.name


@dataclass(frozen=True, slots=True)
class AllocatorTotals:
    """Totals of one allocator over the whole trace.

    Attributes:
        name: As declared, or None for an id that no block declares.
        id: Its id, from 1.
        count: Successful allocations.
        total_bytes: Bytes allocated minus bytes freed.
        peak_bytes: Largest value of this over time.
        largest_bytes: Size of the largest allocation.
        failures: Failed allocations.
        failed_bytes: Bytes requested by failed allocations.
    """

    name: str | None
    id: int
    count: int
    total_bytes: int
    peak_bytes: int
    largest_bytes: int
    failures: int
    failed_bytes: int

    @property
    def label(self) -> str:
        """Display name."""
        return Allocator(self.id, self.name).label


def allocator_rows(trace: Trace) -> dict[Allocator, list[int]]:
    """Return the rows of each allocator's events in log order.

    Allocators are in order of first occurrence, including declared ones without events.
    """
    found: dict[Allocator, list[int]] = {}
    for block in trace.blocks:
        for number, name in enumerate(block.allocators, start=1):
            found.setdefault(Allocator(number, name), [])
        within = slice(block.first, block.first + block.count)
        rows = block.first + np.flatnonzero(trace.kind[within] == Kind.ALLOCATION)
        ids = trace.allocator[rows]
        for number in dict.fromkeys(ids.tolist()):
            declared = 0 < number <= len(block.allocators)
            key = Allocator(number, block.allocators[number - 1] if declared else None)
            found.setdefault(key, []).extend(rows[ids == number].tolist())
    return found


def allocator_totals(trace: Trace) -> list[AllocatorTotals]:
    """Return totals per allocator in order of first occurrence, including unused ones."""
    totals = []
    for allocator, rows in allocator_rows(trace).items():
        sizes, failed = trace.size[rows], trace.failed[rows]
        done = sizes[~failed]
        taken = done[done >= 0]
        totals.append(
            AllocatorTotals(
                name=allocator.name,
                id=allocator.id,
                count=len(taken),
                total_bytes=sum(done.tolist()),
                peak_bytes=max(accumulate(done.tolist(), initial=0)),
                largest_bytes=int(taken.max(initial=0)),
                failures=int(np.count_nonzero(failed)),
                failed_bytes=sum(sizes[failed].tolist()),
            )
        )
    return totals


_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MemoryPiece:
    """An allocated piece of memory.

    Attributes:
        row: Row of its allocation in the trace.
        allocator: Its allocator.
        size: Size in bytes.
        offset: Offset in the allocator's memory, -1 if unknown.
        during: Row of the innermost event that contains the allocation, -1 without one.
        freed: Row of its free, -1 if it was not freed.
    """

    row: int
    allocator: Allocator
    size: int
    offset: int
    during: int
    freed: int = -1


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    """A failed allocation.

    Attributes:
        piece: What was requested.
        live: Live bytes of the allocator at this time.
        gaps: Free memory between pieces at this time, as far as offsets are known.
    """

    piece: MemoryPiece
    live: int
    gaps: Gaps


@dataclass(frozen=True, slots=True)
class Gaps:
    """Free memory between live pieces, from the start of the memory to the end of the last piece.

    Attributes:
        bytes: Sum of the gaps.
        largest: The largest gap.
        count: Number of gaps.
    """

    bytes: int
    largest: int
    count: int

    @property
    def fragmentation(self) -> float:
        """Share of the free bytes outside of the largest gap: 0 for one gap or no gap."""
        return 1 - self.largest / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldMemory:
    """Memory over time. Columns have one entry per allocation, free or failure, in order.

    Attributes:
        rows: Their rows in the trace, int64.
        ticks: Their times in ticks on the timeline of clock 0; -1 without a time. int64.
        live: Live bytes after each: the running sum of sizes. int64.
        peak: Maximum of ``live``, at least 0.
        peak_row: The row that reached it, -1 without one.
        peak_pieces: Pieces live at the peak.
    """

    rows: _Ints
    ticks: _Ints
    live: _Ints
    peak: int
    peak_row: int
    peak_pieces: tuple[MemoryPiece, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AllocatorMemory(HeldMemory):
    """One allocator over time; its pieces are ordered by offset.

    Attributes:
        allocator: The allocator.
        at_end: Live bytes at the end of the log.
        peak_gaps: Free memory between the pieces at the peak; pieces without offset are ignored.
        reach: Highest end of any piece, the smallest sufficient memory size. None if an offset is
            unknown.
        planned: Bytes planned for it, None if unknown.
        failures: Failed allocations.
        unmatched: Rows of frees without a matching live piece.
        overlapping: Rows of allocations that overlap a live piece.
    """

    allocator: Allocator
    at_end: int
    peak_gaps: Gaps
    reach: int | None
    planned: int | None
    failures: tuple[FailedAllocation, ...]
    unmatched: tuple[int, ...]
    overlapping: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Memory(HeldMemory):
    """All allocators over time together; pieces are in order of allocation.

    Attributes:
        allocators: In order of first occurrence, including unused allocators.
    """

    allocators: tuple[AllocatorMemory, ...]


def memory(
    trace: Trace, planned: dict[str, int] | None = None, tree: CallTree | None = None
) -> Memory:
    """Return the memory of every allocator of ``trace`` over time.

    A free matches the live piece with its offset and size; without an offset, the latest piece of
    its size. Otherwise it matches several pieces: those from its offset on, in order of offsets,
    with sizes that add up to its own, so one record at offset 0 can free everything. An unmatched
    free also reduces the live bytes, and is listed in ``unmatched``.

    Args:
        trace: The trace.
        planned: Bytes planned for allocators, by name, if known.
        tree: Its call tree, if already computed.
    """
    tree = tree or call_tree(trace)
    when = np.where(trace.clock == NO_CLOCK, -1, tree.start)
    rows = np.flatnonzero(trace.kind == Kind.ALLOCATION)
    if (when[rows] >= 0).all():
        rows = rows[np.argsort(when[rows], kind="stable")]  # the logs of tracers overlap
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    followed = []
    pieces: list[MemoryPiece] = []
    for allocator, own in allocator_rows(trace).items():
        ordered = np.array(sorted(own, key=place.__getitem__), np.int64)
        book = _AllocationReplay(trace, allocator, tree.parent, ordered.tolist())
        live, peak, peak_row = _running(trace, ordered)
        there = sorted(_live_at(book.taken, place, peak_row), key=lambda piece: piece.offset)
        known = all(piece.offset >= 0 for piece in book.taken)
        followed.append(
            AllocatorMemory(
                allocator=allocator,
                at_end=int(live[-1]) if len(live) else 0,
                rows=ordered,
                ticks=when[ordered],
                live=live,
                peak=peak,
                peak_row=peak_row,
                peak_pieces=tuple(there),
                peak_gaps=gaps((piece.offset, piece.size) for piece in there if piece.offset >= 0),
                reach=max((p.offset + p.size for p in book.taken), default=0) if known else None,
                planned=(planned or {}).get(allocator.label),
                failures=tuple(book.failures),
                unmatched=tuple(book.unmatched),
                overlapping=tuple(book.overlapping),
            )
        )
        pieces += book.taken
    live, peak, peak_row = _running(trace, rows)
    pieces.sort(key=lambda piece: place[piece.row])
    return Memory(
        allocators=tuple(followed),
        rows=rows,
        ticks=when[rows],
        live=live,
        peak=peak,
        peak_row=peak_row,
        peak_pieces=_live_at(pieces, place, peak_row),
    )


def gaps(spans: Iterable[tuple[int, int]]) -> Gaps:
    """Return the gaps between ``spans`` of offset and size, which may overlap."""
    end, free = 0, []
    for offset, size in sorted(spans):
        if offset > end:
            free.append(offset - end)
        end = max(end, offset + size)
    return Gaps(sum(free), max(free, default=0), len(free))


def _running(trace: Trace, rows: _Ints) -> tuple[_Ints, int, int]:
    """Return the live bytes after each of ``rows``, their maximum, and the row that reached it."""
    live = np.cumsum(np.where(trace.failed[rows], 0, trace.size[rows]))
    peak = int(live.max(initial=0))
    return live, peak, int(rows[np.argmax(live)]) if peak > 0 else -1


def _live_at(pieces: Iterable[MemoryPiece], place: _Ints, row: int) -> tuple[MemoryPiece, ...]:
    """Return the pieces that were live after ``row``; empty for -1."""
    if row < 0:
        return ()
    return tuple(
        piece
        for piece in pieces
        if place[piece.row] <= place[row] and (piece.freed < 0 or place[piece.freed] > place[row])
    )


class _AllocationReplay:
    """Replays the events of one allocator, and keeps live pieces, past pieces and mismatches."""

    def __init__(self, trace: Trace, allocator: Allocator, parent: _Ints, rows: list[int]) -> None:
        """Replay the events of the allocator; pieces live at the end are in ``taken``, too."""
        self.trace = trace
        self.allocator = allocator
        self.taken: list[MemoryPiece] = []
        self.failures: list[FailedAllocation] = []
        self.unmatched: list[int] = []
        self.overlapping: list[int] = []
        self._bytes = 0
        self._live: dict[int, MemoryPiece] = {}
        self._offsets: list[tuple[int, int]] = []  # of live pieces, with their rows, in order
        self._same: dict[tuple[int, int | None], list[int]] = defaultdict(list)
        for row in rows:
            size, offset = int(trace.size[row]), int(trace.offset[row])
            piece = MemoryPiece(row, allocator, size, offset, int(parent[row]))
            if trace.failed[row]:
                between = gaps((p.offset, p.size) for p in self._live.values() if p.offset >= 0)
                self.failures.append(FailedAllocation(piece, self._bytes, between))
                continue
            self._bytes += size
            if size < 0:
                self._free(row, -size, offset)
                continue
            self._live[row] = piece
            # By size and offset, and by size alone for frees without an offset.
            self._same[size, offset].append(row)
            self._same[size, None].append(row)
            if offset >= 0:
                at = bisect.bisect(self._offsets, (offset, row))
                near = (self._live[other] for _, other in self._offsets[max(at - 1, 0) : at + 1])
                end = offset + size
                if any(p.offset < end and offset < p.offset + p.size for p in near):
                    self.overlapping.append(row)
                self._offsets.insert(at, (offset, row))
        self.taken = sorted([*self.taken, *self._live.values()], key=lambda piece: piece.row)

    def _free(self, row: int, size: int, offset: int) -> None:
        freed = self._one(size, offset) or self._several(size, offset)
        if not freed:
            self.unmatched.append(row)
        for piece in freed:
            del self._live[piece.row]
            if piece.offset >= 0:
                self._offsets.remove((piece.offset, piece.row))
            self.taken.append(replace(piece, freed=row))

    def _one(self, size: int, offset: int) -> list[MemoryPiece]:
        """Return the latest piece of this size at this offset, or of unknown offset."""
        for key in ((size, None),) if offset < 0 else ((size, offset), (size, -1)):
            candidates = self._same[key]
            while candidates and candidates[-1] not in self._live:
                candidates.pop()
            if candidates:
                return [self._live[candidates[-1]]]
        return []

    def _several(self, size: int, offset: int) -> list[MemoryPiece]:
        """Return consecutive pieces from ``offset`` on with sizes that add up to ``size``.

        Pieces of unknown offset come first, in order of allocation.
        """
        if size > sum(piece.size for piece in self._live.values()):
            return []
        at = bisect.bisect_left(self._offsets, (offset, -1))
        unplaced = (row for row, piece in self._live.items() if piece.offset < 0)
        found = []
        for row in (*unplaced, *(row for _, row in self._offsets[at:])):
            found.append(self._live[row])
            size -= found[-1].size
            if size <= 0:
                break
        return found if size == 0 else []


class PlannedTensor(msgspec.Struct, frozen=True):
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


class PlannedPool(msgspec.Struct, frozen=True):
    """One pool of planned memory, and the most bytes needed at one instruction.

    Attributes:
        pool: Its number; its allocator on the device is ``planned_<number>``.
        planned: Size in the file, in bytes.
        peak: The most bytes of live tensors, overlaps counted once.
        peak_at: First instruction with this maximum, -1 for before the first.
        tensors: Its tensors by offset.
    """

    pool: int
    planned: int
    peak: int
    peak_at: int
    tensors: tuple[PlannedTensor, ...]

    @property
    def reach(self) -> int:
        """End of the last tensor."""
        return max((t.offset + t.size for t in self.tensors), default=0)

    @property
    def peak_tensors(self) -> tuple[PlannedTensor, ...]:
        """Live tensors at the peak, by offset."""
        return tuple(_needed(self.tensors, self.peak_at))

    @property
    def peak_gaps(self) -> Gaps:
        """Free memory between the tensors that are live at the peak."""
        return gaps((t.offset, t.size) for t in self.peak_tensors)


def planned_pools(method: Method) -> list[PlannedPool]:
    """Return every memory pool that the method plans.

    Raises:
        FormatError: A tensor in a pool has an unknown scalar type.
    """
    from harness.analyze.workload import lifetimes, tensor_bytes
    from harness.decode.program import Tensor

    count = sum(len(chain) for chain in method.chains)
    by_pool: dict[int, list[PlannedTensor]] = {pool: [] for pool in range(1, len(method.planned))}
    for number, (first, last) in lifetimes(method).items():
        value = method.values[number]
        if isinstance(value, Tensor) and value.pool in by_pool and value.offset >= 0:
            try:
                size = tensor_bytes(value)
            except FormatError as error:
                raise FormatError(f"value {number}: {error.message}", field="values") from error
            tensor = PlannedTensor(number, value.offset, size, first, last)
            by_pool[value.pool].append(tensor)
    return [
        _pool(pool, method.planned[pool], count, sorted(tensors, key=lambda t: (t.offset, t.value)))
        for pool, tensors in by_pool.items()
    ]


def _pool(pool: int, planned: int, count: int, tensors: list[PlannedTensor]) -> PlannedPool:
    live = live_bytes(tensors, count)
    return PlannedPool(pool, planned, int(live.max()), int(np.argmax(live)) - 1, tuple(tensors))


def live_bytes(tensors: Sequence[PlannedTensor], count: int) -> npt.NDArray[np.int64]:
    """Return the bytes of live tensors, overlaps counted once.

    Before the first of ``count`` instructions, at each, and after the last: shape (count + 2,).
    """
    live = np.zeros(count + 2, np.int64)
    changes = sorted({instruction for t in tensors for instruction in (t.first, t.last + 1)})
    for instruction, until in pairwise([*changes, count + 1]):
        live[instruction + 1 : until + 1] = _bytes(_needed(tensors, instruction))
    return live


def _needed(tensors: Sequence[PlannedTensor], instruction: int) -> list[PlannedTensor]:
    return [t for t in tensors if t.first <= instruction <= t.last]


def _bytes(tensors: list[PlannedTensor]) -> int:
    """Return the bytes that tensors cover, without overlap."""
    end = max((t.offset + t.size for t in tensors), default=0)
    return end - gaps((t.offset, t.size) for t in tensors).bytes
