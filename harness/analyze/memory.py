"""Memory over time: what each allocator held, its peak, what was live then, and its gaps."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analyze.allocators import Allocator, allocator_rows
from harness.analyze.call_tree import CallTree, call_tree
from harness.records.trace import NO_CLOCK, Kind, Trace

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MemoryPiece:
    """A piece of memory that an allocator gave.

    Attributes:
        row: Row of its allocation in the trace.
        allocator: Who gave it.
        size: Bytes.
        offset: Offset within the allocator's memory, -1 unknown.
        during: Row of the innermost event during which it was taken, -1 for none.
        freed: Row of the free that ended it, -1 for none.
    """

    row: int
    allocator: Allocator
    size: int
    offset: int
    during: int
    freed: int = -1


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    """An allocation that was refused.

    Attributes:
        row: Its row in the trace.
        size: Bytes that were asked for.
        during: Row of the innermost event around it, -1 for none.
        live: Bytes that the allocator held then.
        gaps: What was free between pieces then, as far as offsets are known.
    """

    row: int
    size: int
    during: int
    live: int
    gaps: Gaps


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is free between live pieces of one memory, from its start to the end of the last one.

    Attributes:
        bytes: All of it together.
        largest: The largest piece of it.
        count: Number of pieces.
    """

    bytes: int
    largest: int
    count: int

    @property
    def fragmentation(self) -> float:
        """The share of the free bytes that is not in the largest piece: 0 for one gap or none."""
        return 1 - self.largest / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AllocatorMemory:
    """One allocator over time. Columns have one entry per allocation, free or failure, in order.

    Attributes:
        allocator: Which one.
        rows: Their rows in the trace, int64.
        ticks: When, in ticks on the timeline of clock 0; -1 where the log has no time. int64.
        live: Bytes held afterwards: the running sum of sizes. int64.
        peak: The most of it, 0 at least.
        peak_row: The row that brought it there, -1 for none.
        peak_pieces: What was live then, by offset.
        peak_gaps: What was free between these; of pieces without offsets nothing is known.
        reach: Where the last byte that was ever live ended: what its memory must have at least.
            None when some offset is unknown.
        planned: Bytes it was given, None when nobody says.
        failures: What it refused.
        unmatched: Rows of frees for which no live piece was found.
        overlapping: Rows of allocations that overlap a piece which nobody had freed.
    """

    allocator: Allocator
    rows: _Ints
    ticks: _Ints
    live: _Ints
    peak: int
    peak_row: int
    peak_pieces: tuple[MemoryPiece, ...]
    peak_gaps: Gaps
    reach: int | None
    planned: int | None
    failures: tuple[FailedAllocation, ...]
    unmatched: tuple[int, ...]
    overlapping: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """All allocators over time.

    Attributes:
        allocators: In first-seen order, those without allocations included.
        rows: Rows of all allocations, frees and failures in order of time.
        ticks: When; as for one allocator.
        live: Bytes all held together afterwards.
        peak: The most of it.
        peak_row: The row that brought it there, -1 for none.
        peak_pieces: What was live then, in the order in which it was taken.
    """

    allocators: tuple[AllocatorMemory, ...]
    rows: _Ints
    ticks: _Ints
    live: _Ints
    peak: int
    peak_row: int
    peak_pieces: tuple[MemoryPiece, ...]


def memory(
    trace: Trace, planned: dict[str, int] | None = None, tree: CallTree | None = None
) -> Memory:
    """Follow every allocator of ``trace`` through time.

    A free ends the live piece with its offset and size; one without an offset, the latest of its
    size. If there is none, it is taken as a free of several pieces: those from its offset on, in
    order of offsets, whose sizes add up to its own. So a runtime may free all that it has with one
    record, at offset 0. A free that fits nothing lowers the running sum, too, and is listed.

    Args:
        trace: What was logged.
        planned: Bytes that allocators were given, by name, as far as somebody knows.
        tree: Its call tree, where that has been found already.
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
        book = _Book(trace, allocator, tree.parent)
        book.enter_all(ordered.tolist())
        known = (planned or {}).get(allocator.label)
        followed.append(_allocator_memory(book, ordered, place, when[ordered], known))
        pieces += book.taken
    live, peak, peak_row = _running(trace, rows)
    pieces.sort(key=lambda piece: place[piece.row])
    return Memory(
        tuple(followed), rows, when[rows], live, peak, peak_row, _live_at(pieces, place, peak_row)
    )


def gaps(spans: Iterable[tuple[int, int]]) -> Gaps:
    """What is free between ``spans`` of offset and size, which may overlap."""
    end, free = 0, []
    for offset, size in sorted(spans):
        if offset > end:
            free.append(offset - end)
        end = max(end, offset + size)
    return Gaps(sum(free), max(free, default=0), len(free))


def _running(trace: Trace, rows: _Ints) -> tuple[_Ints, int, int]:
    """Bytes held after each of ``rows``, the most of it, and the row that brought it there."""
    live = np.cumsum(np.where(trace.failed[rows], 0, trace.size[rows]))
    peak = int(live.max(initial=0))
    return live, peak, int(rows[np.argmax(live)]) if peak > 0 else -1


def _live_at(pieces: Iterable[MemoryPiece], place: _Ints, row: int) -> tuple[MemoryPiece, ...]:
    """Pieces that were live just after ``row``; none for -1."""
    if row < 0:
        return ()
    return tuple(
        piece
        for piece in pieces
        if place[piece.row] <= place[row] and (piece.freed < 0 or place[piece.freed] > place[row])
    )


def _allocator_memory(
    book: _Book, rows: _Ints, place: _Ints, ticks: _Ints, planned: int | None
) -> AllocatorMemory:
    live, peak, peak_row = _running(book.trace, rows)
    there = sorted(_live_at(book.taken, place, peak_row), key=lambda piece: piece.offset)
    known = all(piece.offset >= 0 for piece in book.taken)
    return AllocatorMemory(
        allocator=book.allocator,
        rows=rows,
        ticks=ticks,
        live=live,
        peak=peak,
        peak_row=peak_row,
        peak_pieces=tuple(there),
        peak_gaps=gaps((piece.offset, piece.size) for piece in there if piece.offset >= 0),
        reach=max((p.offset + p.size for p in book.taken), default=0) if known else None,
        planned=planned,
        failures=tuple(book.failures),
        unmatched=tuple(book.unmatched),
        overlapping=tuple(book.overlapping),
    )


class _Book:
    """The pieces of one allocator: all that there ever were, live ones, and what does not fit."""

    def __init__(self, trace: Trace, allocator: Allocator, parent: _Ints) -> None:
        self.trace = trace
        self.allocator = allocator
        self.taken: list[MemoryPiece] = []
        self.failures: list[FailedAllocation] = []
        self.unmatched: list[int] = []
        self.overlapping: list[int] = []
        self._parent = parent
        self._bytes = 0
        self._live: dict[int, MemoryPiece] = {}
        self._offsets: list[tuple[int, int]] = []  # of live pieces, with their rows, in order
        self._same: dict[tuple[int, int | None], list[int]] = defaultdict(list)

    def enter_all(self, rows: list[int]) -> None:
        """Follow the allocator through its events, and keep what nobody has freed."""
        for row in rows:
            self._enter(row)
        self.taken = sorted([*self.taken, *self._live.values()], key=lambda piece: piece.row)

    def _enter(self, row: int) -> None:
        size, offset = int(self.trace.size[row]), int(self.trace.offset[row])
        during = int(self._parent[row])
        if self.trace.failed[row]:
            between = gaps((p.offset, p.size) for p in self._live.values() if p.offset >= 0)
            self.failures.append(FailedAllocation(row, size, during, self._bytes, between))
            return
        self._bytes += size
        if size < 0:
            self._free(row, -size, offset)
        else:
            self._take(MemoryPiece(row, self.allocator, size, offset, during))

    def _take(self, piece: MemoryPiece) -> None:
        self._live[piece.row] = piece
        # By size and offset, and by size alone, for a free that names no offset.
        self._same[piece.size, piece.offset].append(piece.row)
        self._same[piece.size, None].append(piece.row)
        if piece.offset >= 0:
            at = bisect.bisect(self._offsets, (piece.offset, piece.row))
            near = (self._live[row] for _, row in self._offsets[max(at - 1, 0) : at + 1])
            end = piece.offset + piece.size
            if any(p.offset < end and piece.offset < p.offset + p.size for p in near):
                self.overlapping.append(piece.row)
            self._offsets.insert(at, (piece.offset, piece.row))

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
        """The latest piece of this size at this offset, or of unknown offset."""
        for key in ((size, None),) if offset < 0 else ((size, offset), (size, -1)):
            candidates = self._same[key]
            while candidates and candidates[-1] not in self._live:
                candidates.pop()
            if candidates:
                return [self._live[candidates[-1]]]
        return []

    def _several(self, size: int, offset: int) -> list[MemoryPiece]:
        """The pieces from ``offset`` on, in order, whose sizes add up to ``size``.

        Pieces of unknown offset come first, in the order in which they were taken.
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
