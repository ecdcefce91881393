"""Memory on a page: what each allocator held over time, and the memory plan of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.memory import (
    HeldMemory,
    MemoryPiece,
    PlannedPool,
    PlannedTensor,
    planned_pools,
)
from harness.analyze.ticks import nanoseconds_per_tick
from harness.check.subject import Subject
from harness.decode.pte import program_that_ran, read_program
from harness.errors import FormatError
from harness.extensions.web.html.svg import (
    SIZE,
    Axis,
    Curve,
    Limits,
    Mark,
    Tick,
    View,
    axis,
    bar,
    below,
    fitting,
    gantt,
    steps,
    thinned,
)
from harness.formatting import TICKS, operator_kind, operator_title, printable
from harness.records.trace import EXECUTION, LOADING, InstructionRecord, Kind, Trace
from harness.report.description import AllocatorUse, RunDescription
from harness.report.traces import during
from harness.report.words import (
    brief,
    bytes_unit,
    counted,
    left_out,
    number,
    percent,
    short_time,
    short_time_unit,
)

_LARGEST = 256 * 1024**2
"""Bytes of the largest model that is read again for its plan."""


@lru_cache(maxsize=16)
def _pools(
    file: str, external: tuple[str, ...], size: int, sha256: str, name: str
) -> tuple[tuple[PlannedPool, ...], int, dict[int, str]]:
    """Read the pools of a method, count its instructions, and name its inputs.

    From the file that ran.
    """
    path = Path(file)
    if not path.is_file():
        raise FormatError(f"the model {path.name} is no longer where it ran from")
    data = program_that_ran(file, external, sha256) if size <= _LARGEST else None
    if data is None:
        raise FormatError(f"the model {path.name} is not the one that ran")
    method = read_program(data).method(name)
    if method is None:
        return (), 0, {}
    inputs = {value: f"input {place}" for place, value in enumerate(method.inputs)}
    return tuple(planned_pools(method)), sum(map(len, method.chains)), inputs


_NAMED: Final = 4.0
"""Height of a bar, percent, from which its name fits into it."""

_THINNEST: Final = 0.9
"""Height of a bar at least, percent; a thinner one would not be seen."""

_TWO_LINES: Final = 14.0
"""The same for a name above a size."""

_PIXELS: Final = (10.9, 2.6)
"""Pixels of one percent of the width of a picture, on a wide page and on a phone."""


def plan_view(run: RunDescription, anchor: str, limits: Limits) -> View | None:
    """Draw the memory plan of a run; None if its model plans no memory, or is unknown."""
    result, subject = run.run.result, run.run.subject
    if result is None or result.model is None or not result.model.planned_bytes:
        return None
    model = result.model
    try:
        pools, instructions, inputs = _pools(
            model.file, model.data or (), model.nbytes, model.sha256, model.method
        )
    except (OSError, FormatError) as error:
        why = printable(error.message if isinstance(error, FormatError) else str(error))
        return {"pools": [], "unknown": f"no memory plan: {why}"}
    chains = (subject.chains if subject else None) or ()
    steps = [step for chain in chains for step in chain]
    drawn = [
        _pool(pool, _Places(pool, instructions, steps, inputs), anchor, limits)
        for pool in pools
        if pool.tensors
    ]
    return {"pools": drawn, "unknown": ""}


class _Places:
    """Where instructions and offsets lie in the picture of a pool, in percent."""

    def __init__(
        self,
        pool: PlannedPool,
        instructions: int,
        steps: Sequence[InstructionRecord],
        inputs: Mapping[int, str],
    ) -> None:
        self.columns = instructions + 2
        self.up = Axis(0.0, 1.04 * max(pool.planned, pool.reach, 1))
        self._steps, self._inputs = steps, inputs

    def left(self, instruction: int) -> float:
        return round(100 * (instruction + 1) / self.columns, 3)

    def wide(self, first: int, last: int) -> float:
        return round(100 * (last - first + 1) / self.columns, 3)

    def top(self, end: int) -> float:
        return round(100 - self.up.percent(end), 3)

    def tall(self, size: int) -> float:
        return round(100 * size / self.up.high, 3)

    def kind(self, instruction: int) -> str:
        """Class of the colour of what an instruction writes."""
        if not 0 <= instruction < len(self._steps):
            return "k-other"
        step = self._steps[instruction]
        return f"k-{operator_kind(step.name, step.call == 'delegate').value}"

    def title(self, instruction: int) -> str:
        """Title of an instruction; -1 is before the first one."""
        if instruction < 0:
            return "the start"
        if instruction >= self.columns - 2:
            return "the end"
        if instruction >= len(self._steps):
            return f"instruction {instruction}"
        return brief(operator_title(self._steps[instruction].name, instruction))

    def name(self, tensor: PlannedTensor) -> str:
        """The operator that writes a tensor, or which input it is."""
        known = self._inputs.get(tensor.value, "")
        return known or (self.title(tensor.first) if tensor.first >= 0 else f"value {tensor.value}")

    def during(self, tensor: PlannedTensor) -> str:
        """From which instruction to which one a tensor is live."""
        first, last = self.title(tensor.first), self.title(tensor.last)
        return first if first == last else f"{first} to {last}"


def _pool(pool: PlannedPool, places: _Places, anchor: str, limits: Limits) -> View:
    tensors = [tensor for tensor in pool.tensors if tensor.size]
    largest = sorted(tensors, key=lambda t: (-t.size * (t.last - t.first + 1), t.value))
    shown = sorted(largest[: limits.blocks], key=lambda t: (t.first, t.offset))
    live = sorted((t for t in pool.peak_tensors if t.size), key=lambda t: (-t.size, t.offset))
    unit = bytes_unit([places.up.high])
    at = places.title(pool.peak_at)
    then = ", ".join(f"{places.name(t)} {t.size:,} B" for t in live[:4])
    then += " and more" if len(live) > 4 else ""
    title = (
        f"planned_{pool.pool}: peak {pool.peak:,} of {pool.planned:,} planned bytes at {at}; "
        f"{counted(len(live), 'tensor')} live then: {then}"
    )
    gaps = f", {pool.peak_gaps.bytes:,} bytes free between them" if pool.peak_gaps.bytes else ""
    anchor = f"{anchor}-plan-{pool.pool}"
    bars = [*_gaps(pool, places, anchor)] if len(shown) == len(tensors) else []
    bars += [_bar(tensor, places) for tensor in shown]
    bars.append(bar(places.left(pool.peak_at), places.wide(0, 0), 0.0, 100.0, "peak"))
    picture = gantt(
        anchor,
        title + gaps,
        f"Memory plan of {counted(len(tensors), 'tensor')} over "
        f"{counted(places.columns - 2, 'instruction')}: {title}{gaps}",
        bars,
        Tick(places.top(pool.planned), f"planned {pool.planned:,} bytes"),
        places.up.scale(unit.divisor, unit.name),
        _base(places),
    )
    return {
        "name": f"planned_{pool.pool}",
        "picture": picture,
        "live": [(t, places.name(t), places.during(t)) for t in live[: limits.rows]],
        "more_live": left_out(len(live), limits.rows),
        "more": left_out(len(tensors), limits.blocks),
    }


def _bar(tensor: PlannedTensor, places: _Places) -> str:
    height, width = max(places.tall(tensor.size), _THINNEST), places.wide(tensor.first, tensor.last)
    size = f"{tensor.size:,} B"
    names = [fitting(places.name(tensor), width * pixels) for pixels in _PIXELS]
    sizes = [fitting(size, width * pixels) if names[n] else "" for n, pixels in enumerate(_PIXELS)]
    return bar(
        places.left(tensor.first),
        width,
        round(places.top(tensor.offset) - height, 3),
        height,
        places.kind(tensor.first),
        f"{places.name(tensor)} (value {tensor.value}): {tensor.size:,} bytes at offset "
        f"{tensor.offset:,}, live from {places.during(tensor)}",
        names if height >= _NAMED else (),
        sizes if height >= _TWO_LINES else (),
    )


def _gaps(pool: PlannedPool, places: _Places, anchor: str) -> Iterator[str]:
    """Free memory below the last live tensor, instruction by instruction, as few rectangles."""
    last: list[tuple[int, int]] = []
    since = -1
    for instruction in range(-1, places.columns):
        free = []
        if instruction < places.columns - 1:
            live = (t for t in pool.tensors if t.first <= instruction <= t.last)
            free = [*_free(live)]
        if free != last:
            for start, end in last:
                yield bar(
                    places.left(since),
                    places.wide(since, instruction - 1),
                    places.top(end),
                    places.tall(end - start),
                    "gap",
                    f"{end - start:,} bytes free between tensors",
                    hatched=anchor,
                )
            last, since = free, instruction


def _free(live: Iterable[PlannedTensor]) -> Iterator[tuple[int, int]]:
    end = 0
    for tensor in sorted(live, key=lambda t: t.offset):
        if tensor.offset > end:
            yield end, tensor.offset
        end = max(end, tensor.offset + tensor.size)


def _base(places: _Places) -> Iterator[Tick]:
    """Numbers of instructions, below the middle of their columns."""
    along = Axis(0.0, float(max(places.columns - 3, 1)))
    for value in along.ticks():
        if value == int(value):
            middle = places.left(int(value)) + places.wide(0, 0) / 2
            yield Tick(round(middle, 3), f"#{value:.0f}")


_SEEN = 4
"""A capacity is drawn up to this many times the peak."""

_LOADING_SHARE = 0.3
"""Share of the width of a picture that shows loading."""

_Ints = npt.NDArray[np.int64]


def memory_view(
    subject: Subject, allocators: Sequence[AllocatorUse], limits: Limits
) -> View | None:
    """Draw the memory of ``subject``; None without allocators.

    Allocators have the one with the highest peak first, what was live at the common peak the
    largest piece first.
    """
    found = subject.memory
    if not found.allocators:
        return None
    trace = subject.trace
    live = sorted(found.peak_pieces, key=lambda piece: piece.size, reverse=True)
    refused = [failure.piece for item in found.allocators for failure in item.failures]
    curves, flat = [], []
    if _changes(subject, found) and sum(len(item.rows) > 0 for item in found.allocators) > 1:
        capacity = subject.arena_capacity
        curves.append(_curve(subject, "All allocators together", found, capacity, limits))
    for use in allocators[: limits.rows]:
        held = use.memory
        if held is not None and len(held.rows) and not _changes(subject, held):
            flat.append(f"{brief(use.totals.label)} {held.live[-1]:,} bytes")
        elif held is not None and len(held.rows):
            curves.append(_curve(subject, brief(use.totals.label), held, held.planned, limits))
    return {
        "allocators": [(_cells(use), use.totals.failures) for use in allocators[: limits.rows]],
        "more": left_out(len(allocators), limits.rows),
        "curves": curves,
        "flat": ", ".join(flat),
        "loading": any(drawn.columns for drawn in curves),  # loading is drawn apart
        "peak": found.peak,
        "live": _pieces(trace, live[: limits.rows]),
        "more_live": left_out(len(live), limits.rows),
        "refused": _pieces(trace, refused[: limits.rows]),
        "more_refused": left_out(len(refused), limits.rows),
    }


def _changes(subject: Subject, held: HeldMemory) -> bool:
    """Whether anything was freed, or taken after loading."""
    executed = _spans(subject, (EXECUTION,))
    if not executed or (held.ticks < 0).any():
        return True
    return bool((np.diff(held.live) < 0).any() or held.ticks.max(initial=0) > min(executed))


def _pieces(trace: Trace, pieces: Sequence[MemoryPiece]) -> list[tuple[str, str, int]]:
    return [(brief(p.allocator.label), during(trace, p.during) or "", p.size) for p in pieces]


def _cells(use: AllocatorUse) -> tuple[str, ...]:
    totals, held, peak, name = use.totals, use.memory, use.peak, brief(use.totals.label)
    planned = held.planned if held is not None else None
    return (
        name,
        f"{peak:,}",
        number(planned),
        percent(peak / planned if planned else None),
        f"{totals.total_bytes:,}",
        number(held.reach if held is not None else None),
        "-" if held is None else percent(held.peak_gaps.fragmentation, 0),
        "-" if held is None else f"{len(held.rows):,}",
        f"{totals.failures:,}",
    )


def _curve(
    subject: Subject, title: str, held: HeldMemory, capacity: int | None, limits: Limits
) -> Curve:
    """Steps from nothing to what is held at the end; over time where every change has one."""
    along, columns, base = _along(subject, held.ticks)
    kept = thinned(held.live, limits.points)
    # A capacity far above what is used would leave nothing to see of it.
    ceiling = capacity if (capacity or 0) <= _SEEN * held.peak else None
    sizes = [0.0, held.peak, ceiling or 0, *held.live[kept].tolist()]
    # Below nothing when more was freed than is known to have been taken.
    up = axis(sizes, from_zero=min(sizes) >= 0)
    start = up.down(0.0)
    points = [(0.0, start)]
    points += [(along[n], up.down(float(held.live[n]))) for n in kept.tolist()]
    path, top = steps(points), int(np.argmax(held.live))
    peak = f"peak {held.peak:,} bytes"
    of = "" if capacity is None else f" of {capacity:,} bytes"
    mark = Mark(along[top], up.down(float(held.peak)), peak, "peak")
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
        else (Tick(up.down(ceiling) / 10, f"capacity {ceiling:,} bytes"),),
        columns=tuple(columns),
        scale=up.scale(unit.divisor, unit.name),
        base=tuple(base),
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


def _along(subject: Subject, ticks: _Ints) -> tuple[list[float], list[Tick], list[Tick]]:
    """Place changes on the time of the run, or by their number where the log has no times.

    Returns:
        The place of each change, where executions begin, and labels below.
    """
    if (ticks < 0).any():
        whole = axis([0.0, float(len(ticks) - 1)], from_zero=False)
        places = [whole.at(float(n)) for n in range(len(ticks))]
        counts = [value for value in whole.ticks() if value == int(value) and value >= 0]
        return places, [], [Tick(whole.percent(n), f"change {n:,.0f}") for n in counts]
    stretches = _stretches(subject, ticks)
    *loading, main = stretches
    found = [next((s for s in loading if tick < main.first), main) for tick in ticks.tolist()]
    places = [s.at(tick) for s, tick in zip(found, ticks.tolist(), strict=True)]
    base = [
        Tick((s.left + s.right) / 20, f"loading, {_length(subject, s.last - s.first)}")
        for s in loading
    ]
    base += _times(subject, main, with_begin=not loading)
    return places, [Tick(main.left / 10, "executions") for _ in loading], base


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
    wanted = (trace.kind == Kind.PROFILE) & (trace.clock == 0) & trace.named(*names)
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
