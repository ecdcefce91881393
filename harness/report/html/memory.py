"""Memory over time as curves: what each allocator held, its peak, and how much it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analyze.ticks import nanoseconds_per_tick
from harness.check.subject import Subject
from harness.formatting import TICKS
from harness.records.trace import EXECUTION, LOADING, Kind
from harness.report.description import AllocatorRow
from harness.report.html.scales import SIZE, Axis, axis, thinned
from harness.report.html.svg import Curve, Mark, Tick, below, steps
from harness.report.memory import during
from harness.report.text import (
    Limits,
    brief,
    bytes_unit,
    left_out,
    number,
    short_time,
    short_time_unit,
)

_SEEN = 4
"""A capacity is drawn up to this many times the peak."""

_LOADING_SHARE = 0.3
"""Share of the width of a picture that shows loading."""

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
        loading: Loading is drawn apart from executions.
        refused: What was refused, in order.
        more_refused: How many of these are left out.
    """

    allocators: tuple[AllocatorCurve, ...]
    more: int
    together: Curve | None
    peak: int
    live: tuple[CurvePiece, ...]
    more_live: int
    loading: bool
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
    drawn = tuple(_allocator(subject, row, limits) for row in allocators[: limits.rows])
    return MemoryView(
        allocators=drawn,
        more=left_out(len(allocators), limits.rows),
        together=together,
        peak=found.peak,
        live=tuple(
            CurvePiece(brief(p.allocator.label), during(trace, p.during) or "", p.size)
            for p in live[: limits.rows]
        ),
        more_live=left_out(len(live), limits.rows),
        loading=any(item.curve is not None and item.curve.columns for item in drawn),
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
    along = _along(subject, held.ticks)
    kept = thinned(held.live, limits.points)
    # A capacity far above what is used would leave nothing to see of it.
    ceiling = held.capacity if (held.capacity or 0) <= _SEEN * held.peak else None
    sizes = [0.0, held.peak, ceiling or 0, *held.live[kept].tolist()]
    # Below nothing when more was freed than is known to have been taken.
    up = axis(sizes, from_zero=min(sizes) >= 0)
    start = up.down(0.0)
    points = [(0.0, start)]
    points += [(along.at(n), up.down(float(held.live[n]))) for n in kept.tolist()]
    path, top = steps(points), int(np.argmax(held.live))
    peak = f"peak {held.peak:,} bytes"
    of = "" if held.capacity is None else f" of {held.capacity:,} bytes"
    mark = Mark(along.at(top), up.down(float(held.peak)), peak, "peak")
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
        columns=along.columns,
        scale=tuple(
            Tick(100 - up.at(v) / 10, f"{number(v / unit.divisor)} {unit.name}")
            for v in up.ticks(unit.divisor)
        ),
        base=along.base,
    )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of ticks, and where it is drawn."""

    first: int
    last: int
    left: float
    right: float

    def at(self, tick: int) -> float:
        """The place of a tick within it; its ends for ticks beyond them."""
        length = max(self.last - self.first, 1)
        share = min(max((tick - self.first) / length, 0.0), 1.0)
        return round(self.left + (self.right - self.left) * share, 1)


@dataclass(frozen=True, slots=True)
class _Along:
    """Where each change of memory is drawn.

    Attributes:
        places: The place of each change.
        columns: Where executions begin.
        base: Labels below.
    """

    places: tuple[float, ...]
    columns: tuple[Tick, ...]
    base: tuple[Tick, ...]

    def at(self, change: int) -> float:
        return self.places[change]


def _along(subject: Subject, ticks: _Ints) -> _Along:
    """Place changes on the time of the run, or by their number where the log has no times."""
    if (ticks < 0).any():
        whole = axis([0.0, float(len(ticks) - 1)], from_zero=False)
        places = tuple(whole.at(float(n)) for n in range(len(ticks)))
        counts = [value for value in whole.ticks() if value == int(value) and value >= 0]
        return _Along(places, (), tuple(Tick(whole.percent(n), f"change {n:,.0f}") for n in counts))
    stretches = _stretches(subject, ticks)
    *loading, main = stretches
    found = [next((s for s in loading if tick < main.first), main) for tick in ticks.tolist()]
    places = tuple(s.at(tick) for s, tick in zip(found, ticks.tolist(), strict=True))
    base = [
        Tick((s.left + s.right) / 20, f"loading, {_length(subject, s.last - s.first)}")
        for s in loading
    ]
    return _Along(
        places,
        tuple(Tick(main.left / 10, "executions") for _ in loading),
        (*base, *_times(subject, main, with_begin=not loading)),
    )


def _stretches(subject: Subject, ticks: _Ints) -> list[_Stretch]:
    """The loading and the executions of a run, or all of it if one of them was not logged.

    What is between them is the host's time and is left out; loading is short beside executions,
    and would not be seen on one axis with them.
    """
    executed, loaded = _spans(subject, (EXECUTION,)), _spans(subject, LOADING)
    known = [*ticks.tolist(), *loaded]
    if not executed:
        return [_Stretch(min(known), max(known), 0.0, SIZE)]
    begin, end = min(executed), max(*executed, *ticks.tolist())
    before = [tick for tick in known if tick <= begin]
    if not before or min(before) == begin:
        return [_Stretch(begin, end, 0.0, SIZE)]
    return [
        _Stretch(min(before), max(before), 0.0, _LOADING_SHARE * SIZE),
        _Stretch(begin, end, _LOADING_SHARE * SIZE, SIZE),
    ]


def _spans(subject: Subject, names: Sequence[str]) -> list[int]:
    """The first and the last tick of the events with one of these names on clock 0."""
    trace, tree = subject.trace, subject.tree
    numbers = [number for number, name in enumerate(trace.names) if name in names]
    wanted = (trace.kind == Kind.PROFILE) & (trace.clock == 0) & np.isin(trace.name, numbers)
    rows = np.flatnonzero(wanted & (tree.start >= 0) & ~trace.delegated)
    if not len(rows):
        return []
    ends = tree.start[rows] + tree.total[rows].astype(np.int64)
    return [int(tree.start[rows].min()), int(ends.max())]


def _rate(subject: Subject) -> float | None:
    """Nanoseconds of a tick of clock 0; None if unknown."""
    clocks = subject.trace.clocks
    length = nanoseconds_per_tick(clocks[0]) if clocks else None
    return None if length is None else float(length)


def _length(subject: Subject, ticks: int) -> str:
    rate = _rate(subject)
    return short_time(None if rate is None else ticks * rate, ticks)


def _times(subject: Subject, stretch: _Stretch, *, with_begin: bool) -> Iterator[Tick]:
    """Ticks of the time since a stretch began."""
    whole, rate = Axis(0.0, float(max(stretch.last - stretch.first, 1))), _rate(subject)
    unit = TICKS if rate is None else short_time_unit(whole.high * rate)
    scale = unit.divisor / (rate or 1.0)
    for value in whole.ticks(scale):
        if value or with_begin:
            place = stretch.at(stretch.first + round(value)) / 10
            yield Tick(round(place, 2), f"{number(value / scale)} {unit.name}")
