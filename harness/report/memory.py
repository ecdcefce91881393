"""Memory over time on the terminal and as JSON: peaks, live pieces, gaps, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.analyze.memory import AllocatorMemory, Gaps, Memory, MemoryPiece
from harness.analyze.planned_memory import PlannedPool, PlannedTensor
from harness.formatting import printable
from harness.records.trace import Trace
from harness.report.facts import trace_losses
from harness.report.run import print_losses
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console


class PieceDocument(msgspec.Struct, frozen=True):
    """A piece that was live at a peak; ``during`` names the event that allocated it."""

    allocator: str
    offset: int
    size: int
    during: str | None
    row: int
    freed: int


class AllocatorDocument(msgspec.Struct, frozen=True):
    """One allocator over time.

    ``reach`` is where the last byte ended that was ever live, null when some offset is unknown;
    ``planned`` is what the model asks for, null without the model.
    """

    name: str
    peak_bytes: int
    peak_row: int
    reach: int | None
    planned: int | None
    gaps: Gaps
    fragmentation: float
    refused_bytes: list[int]
    unmatched_frees: int
    overlapping: int


class PoolDocument(msgspec.Struct, frozen=True):
    """Requirements of the model for one pool of planned memory; ``peak_at`` is an instruction."""

    pool: int
    planned: int
    reach: int
    peak_bytes: int
    peak_at: int
    gaps: Gaps
    peak_tensors: list[PlannedTensor]


class MemoryDocument(msgspec.Struct, frozen=True):
    """Memory over time; ``live_at_peak`` lists the pieces at the common peak of all allocators."""

    peak_bytes: int
    peak_row: int
    live_at_peak: list[PieceDocument]
    allocators: list[AllocatorDocument]
    pools: list[PoolDocument]


def memory_document(
    trace: Trace, found: Memory, pools: Sequence[PlannedPool] = ()
) -> MemoryDocument:
    """Describe the memory of ``trace``."""
    return MemoryDocument(
        found.peak,
        found.peak_row,
        [
            PieceDocument(
                printable(piece.allocator.label),
                piece.offset,
                piece.size,
                during(trace, piece.during),
                piece.row,
                piece.freed,
            )
            for piece in found.peak_pieces
        ],
        [
            AllocatorDocument(
                printable(item.allocator.label),
                item.peak,
                item.peak_row,
                item.reach,
                item.planned,
                item.peak_gaps,
                item.peak_gaps.fragmentation,
                [failure.size for failure in item.failures],
                len(item.unmatched),
                len(item.overlapping),
            )
            for item in found.allocators
        ],
        [
            PoolDocument(
                pool.pool,
                pool.planned,
                pool.reach,
                pool.peak,
                pool.peak_at,
                pool.peak_gaps,
                list(pool.peak_tensors),
            )
            for pool in pools
        ],
    )


def print_memory(
    console: Console,
    trace: Trace,
    found: Memory,
    pools: Sequence[PlannedPool] = (),
    *,
    detailed: bool = False,
) -> None:
    """Print the peak of each allocator, the pieces at the common peak, and failed allocations.

    Args:
        console: The console.
        trace: The trace.
        found: Its memory over time.
        pools: Memory pools planned by the model, if known.
        detailed: List every piece that was live at the peak, instead of sums per event.
    """
    if not found.allocators:
        show_line(console, "no allocators: the target did not say what memory it took")
    else:
        _print_allocators(console, found.allocators)
        _print_peak(console, trace, found, detailed=detailed)
        _print_failures(console, trace, found.allocators)
    if pools:
        _print_pools(console, pools)
    print_losses(console, trace_losses(trace))


def _print_allocators(console: Console, allocators: Sequence[AllocatorMemory]) -> None:
    planned = any(item.planned is not None for item in allocators)
    headers = ["allocator", "peak [B]", *["planned [B]"] * planned, "reach [B]"]
    headers += ["gaps [B]", "fragmentation [%]"]
    rows = []
    for item in allocators:
        gaps = item.peak_gaps
        cells = [item.allocator.label, f"{item.peak:,}"]
        cells += [_bytes(item.planned)] * planned
        cells += [_bytes(item.reach), f"{gaps.bytes:,}", f"{100 * gaps.fragmentation:.0f}"]
        rows.append(cells)
    show_table(console, headers, rows, title="Memory", numbers=range(1, len(headers)))
    for item in allocators:
        for count, what in (
            (len(item.unmatched), "frees of pieces that are not known"),
            (len(item.overlapping), "pieces that overlap one which nobody had freed"),
        ):
            if count:
                show_line(console, f"{item.allocator.label}: {count} {what}")


def _print_peak(console: Console, trace: Trace, found: Memory, *, detailed: bool) -> None:
    title = f"Live at the peak of {found.peak:,} bytes"
    if detailed:
        headers = ["allocator", "offset", "size [B]", "during"]
        rows = [
            [
                piece.allocator.label,
                "" if piece.offset < 0 else f"{piece.offset:,}",
                f"{piece.size:,}",
                during(trace, piece.during) or "",
            ]
            for piece in found.peak_pieces
        ]
        show_table(console, headers, rows, title=title, numbers=(1, 2))
        return
    together: dict[tuple[str, str], list[MemoryPiece]] = {}
    for piece in found.peak_pieces:
        key = piece.allocator.label, during(trace, piece.during) or ""
        together.setdefault(key, []).append(piece)
    rows = [
        [name, during, str(len(pieces)), f"{sum(piece.size for piece in pieces):,}"]
        for (name, during), pieces in together.items()
    ]
    headers = ["allocator", "taken during", "pieces", "size [B]"]
    show_table(console, headers, rows, title=title, numbers=(2, 3))


def _print_failures(console: Console, trace: Trace, allocators: Sequence[AllocatorMemory]) -> None:
    rows = [
        [
            item.allocator.label,
            f"{failure.size:,}",
            f"{failure.live:,}",
            f"{failure.gaps.largest:,}",
            during(trace, failure.during) or "",
        ]
        for item in allocators
        for failure in item.failures
    ]
    if rows:
        headers = ["allocator", "asked for [B]", "live [B]", "largest gap [B]", "during"]
        show_table(console, headers, rows, title="Refused", numbers=(1, 2, 3))


def _print_pools(console: Console, pools: Sequence[PlannedPool]) -> None:
    rows = [
        [
            f"planned_{pool.pool}",
            f"{pool.planned:,}",
            f"{pool.reach:,}",
            f"{pool.peak:,}",
            "the start" if pool.peak_at < 0 else f"instruction {pool.peak_at}",
            str(len(pool.peak_tensors)),
            f"{pool.peak_gaps.bytes:,}",
        ]
        for pool in pools
    ]
    headers = ["pool", "planned [B]", "reach [B]", "needed [B]", "at", "tensors then", "gaps [B]"]
    show_table(console, headers, rows, title="Planned memory", numbers=(1, 2, 3, 5, 6))


def during(trace: Trace, row: int) -> str | None:
    """Return the event of ``row``, with its instruction if it has one."""
    if row < 0:
        return None
    name = printable(trace.text(int(trace.name[row])) or "an event without a name")
    return name if trace.chain[row] < 0 else f"{name} (instruction {trace.instruction[row]})"


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
