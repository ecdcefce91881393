"""Memory over time as curves: what each allocator held, its peak, and how much it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import nanoseconds_per_tick
from harness.check.subject import Subject
from harness.formatting import TICKS, time_unit
from harness.report.description import AllocatorRow
from harness.report.html.scales import SIZE, Axis, axis, thinned
from harness.report.html.svg import Curve, Mark, Tick, below, steps
from harness.report.memory import during
from harness.report.text import Limits, brief, bytes_unit, left_out, number

_SEEN = 4
"""A capacity is drawn up to this many times the peak."""

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AllocatorCurve:
    """An allocator, and what it held over time; no curve if nothing happened."""

    row: AllocatorRow
    curve: Curve | None


@dataclass(frozen=True, slots=True)
class CurvePiece:
    """A piece of memory that was live at the common peak, or was refused."""

    allocator: str
    during: str
    size: int


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The memory of a trace on a page.

    Attributes:
        allocators: Its allocators, the one with the highest peak first.
        more: How many are left out.
        together: All of them over time; None for a single one.
        peak: The most that all held together.
        live: What was live at the peak, the largest first.
        more_live: How many of these are left out.
        refused: What was refused, in order.
        more_refused: How many of these are left out.
    """

    allocators: tuple[AllocatorCurve, ...]
    more: int
    together: Curve | None
    peak: int
    live: tuple[CurvePiece, ...]
    more_live: int
    refused: tuple[CurvePiece, ...]
    more_refused: int


def memory_view(
    subject: Subject, allocators: Sequence[AllocatorRow], limits: Limits
) -> MemoryView | None:
    """Draw the memory of ``subject``; None without allocators."""
    found = subject.memory
    if not found.allocators:
        return None
    trace = subject.trace
    live = sorted(found.peak_pieces, key=lambda piece: piece.size, reverse=True)
    refused = [(item, failure) for item in found.allocators for failure in item.failures]
    together = None
    if sum(len(item.rows) > 0 for item in found.allocators) > 1:
        together = _curve(
            subject,
            "All allocators together",
            _HeldCurve(found.ticks, found.live, found.peak, subject.arena_capacity),
            limits,
        )
    return MemoryView(
        allocators=tuple(_allocator(subject, row, limits) for row in allocators[: limits.rows]),
        more=left_out(len(allocators), limits.rows),
        together=together,
        peak=found.peak,
        live=tuple(
            CurvePiece(brief(p.allocator.label), during(trace, p.during) or "", p.size)
            for p in live[: limits.rows]
        ),
        more_live=left_out(len(live), limits.rows),
        refused=tuple(
            CurvePiece(
                brief(item.allocator.label), during(trace, failure.during) or "", failure.size
            )
            for item, failure in refused[: limits.rows]
        ),
        more_refused=left_out(len(refused), limits.rows),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _HeldCurve:
    """Bytes held over time: when they changed, to what, the most, and the capacity."""

    ticks: _Ints
    live: _Ints
    peak: int
    capacity: int | None


def _allocator(subject: Subject, row: AllocatorRow, limits: Limits) -> AllocatorCurve:
    item = row.memory
    if item is None or not len(item.rows):
        return AllocatorCurve(row, None)
    held = _HeldCurve(item.ticks, item.live, item.peak, item.planned)
    return AllocatorCurve(row, _curve(subject, brief(row.name), held, limits))


def _curve(subject: Subject, title: str, held: _HeldCurve, limits: Limits) -> Curve:
    """Steps from nothing to what is held at the end; over time where every change has one."""
    times = _times(held.ticks)
    kept = thinned(held.live, limits.points)
    along = axis(times.tolist(), from_zero=False)
    # A capacity far above what is used would leave nothing to see of it.
    ceiling = held.capacity if (held.capacity or 0) <= _SEEN * held.peak else None
    sizes = [0.0, held.peak, ceiling or 0, *held.live[kept].tolist()]
    # Below nothing when more was freed than is known to have been taken.
    up = axis(sizes, from_zero=min(sizes) >= 0)
    start = SIZE - up.at(0.0)
    points = [(0.0, start)]
    points += [(along.at(float(times[n])), SIZE - up.at(float(held.live[n]))) for n in kept]
    path, top = steps(points), int(np.argmax(held.live))
    peak = f"peak {held.peak:,} bytes"
    of = "" if held.capacity is None else f" of {held.capacity:,} bytes"
    mark = Mark(along.at(float(times[top])), SIZE - up.at(float(held.peak)), peak, "peak")
    unit = bytes_unit([up.high])
    return Curve(
        title=f"{title}: {peak}{of}",
        summary=f"{title}: {peak}{of}, {held.live[-1]:,} bytes at the end, "
        f"{len(held.live):,} changes",
        line=path,
        area=below(path, 0.0),
        marks=(mark,) if held.peak > 0 else (),
        rules=()
        if ceiling is None
        else (Tick(100 - up.at(ceiling) / 10, f"capacity {ceiling:,} bytes"),),
        columns=(),
        scale=tuple(
            Tick(100 - up.at(v) / 10, f"{number(v / unit.divisor)} {unit.name}")
            for v in up.ticks(unit.divisor)
        ),
        base=_base(subject, held.ticks, along),
    )


def _times(ticks: _Ints) -> npt.NDArray[np.float64]:
    """When each change was, in ticks; counted from one to the next where the log has no times."""
    if (ticks < 0).any():
        return np.arange(len(ticks), dtype=np.float64)
    return ticks.astype(np.float64)


def _base(subject: Subject, ticks: _Ints, along: Axis) -> tuple[Tick, ...]:
    if (ticks < 0).any():
        places = [value for value in along.ticks() if value == int(value) and value >= 0]
        return tuple(Tick(along.at(value) / 10, f"change {value:,.0f}") for value in places)
    length = nanoseconds_per_tick(subject.trace.clocks[0]) if subject.trace.clocks else None
    unit = TICKS if length is None else time_unit([along.high * float(length)])
    scale = unit.divisor / float(length or 1)
    return tuple(
        Tick(along.at(value) / 10, f"{number(value / scale)} {unit.name}")
        for value in along.ticks(scale)
    )
