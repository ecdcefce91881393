"""The memory plan on a page: which tensor lies where, from which instruction to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from harness.analyze.planned_memory import PlannedPool, PlannedTensor
from harness.report.description import RunDescription
from harness.report.html.pictures import GanttBar
from harness.report.html.scales import Axis
from harness.report.html.svg import Gantt, Tick
from harness.report.memory_plan import MemoryPlan, memory_plan
from harness.report.text import Limits, brief, bytes_unit, counted, left_out, number

_NAMED: Final = 4.0
"""Height of a bar, percent, from which its name fits into it."""

_THINNEST: Final = 0.9
"""Height of a bar at least, percent; a thinner one would not be seen."""

_LETTERS: Final = 5.6
"""Letters of a name for each ten percent of the width, at least, on a wide page."""


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A tensor that is live at the peak."""

    value: str
    size: int
    offset: int
    during: str


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool of planned memory.

    Attributes:
        name: Its name on the device.
        picture: Its tensors over the instructions.
        live: Tensors that are live at the peak, the largest first.
        more_live: How many of these are left out.
        more: How many tensors are not drawn.
    """

    name: str
    picture: Gantt
    live: tuple[LiveTensor, ...]
    more_live: int
    more: int


@dataclass(frozen=True, slots=True)
class PlanView:
    """The memory plan on a page; ``unknown`` says why there is none."""

    pools: tuple[PoolView, ...]
    unknown: str


def plan_view(run: RunDescription, anchor: str, limits: Limits) -> PlanView | None:
    """Draw the memory plan of a run; None if its model plans no memory."""
    plan = memory_plan(run)
    if plan is None:
        return None
    drawn = [pool for pool in plan.pools if pool.tensors]
    return PlanView(tuple(_pool(pool, plan, anchor, limits) for pool in drawn), plan.unknown)


class _Places:
    """Where instructions and offsets lie in the picture of a pool, in percent."""

    def __init__(self, pool: PlannedPool) -> None:
        self.columns = len(pool.live)
        self.up = Axis(0.0, 1.04 * max(pool.planned, pool.reach, 1))

    def left(self, instruction: int) -> float:
        return round(100 * (instruction + 1) / self.columns, 3)

    def wide(self, first: int, last: int) -> float:
        return round(100 * (last - first + 1) / self.columns, 3)

    def top(self, end: int) -> float:
        return round(100 - self.up.percent(end), 3)

    def tall(self, size: int) -> float:
        return round(100 * size / self.up.high, 3)


def _pool(pool: PlannedPool, plan: MemoryPlan, anchor: str, limits: Limits) -> PoolView:
    places = _Places(pool)
    tensors = [tensor for tensor in pool.tensors if tensor.size]
    largest = sorted(tensors, key=lambda t: (-t.size * (t.last - t.first + 1), t.value))
    shown = sorted(largest[: limits.blocks], key=lambda t: (t.first, t.offset))
    live = sorted((t for t in pool.peak_tensors if t.size), key=lambda t: (-t.size, t.offset))
    unit = bytes_unit([places.up.high])
    at = _instruction(plan, pool.peak_at, places.columns)
    then = ", ".join(f"{t.size:,}" for t in live[:4]) + (" and more" if len(live) > 4 else "")
    title = (
        f"planned_{pool.pool}: peak {pool.peak:,} of {pool.planned:,} planned bytes at {at}; "
        f"{counted(len(live), 'tensor')} live then, of {then} bytes"
    )
    gaps = f", {pool.peak_gaps.bytes:,} bytes free between them" if pool.peak_gaps.bytes else ""
    picture = Gantt(
        id=f"{anchor}-plan-{pool.pool}",
        title=title + gaps,
        summary=f"Memory plan of {counted(len(tensors), 'tensor')} over "
        f"{counted(places.columns - 2, 'instruction')}: {title}{gaps}",
        bars=tuple(_bar(tensor, plan, places) for tensor in shown),
        gaps=tuple(_gaps(pool, places)) if len(shown) == len(tensors) else (),
        peak=GanttBar(places.left(pool.peak_at), places.wide(0, 0), 0.0, 100.0, "", "", "peak"),
        rules=(Tick(places.top(pool.planned), f"planned {pool.planned:,} bytes"),),
        scale=tuple(
            Tick(places.top(int(value)), f"{number(value / unit.divisor)} {unit.name}")
            for value in places.up.ticks(unit.divisor)
        ),
        base=tuple(_base(places)),
    )
    return PoolView(
        name=f"planned_{pool.pool}",
        picture=picture,
        live=tuple(
            LiveTensor(f"value {t.value}", t.size, t.offset, _during(t, plan, places.columns))
            for t in live[: limits.rows]
        ),
        more_live=left_out(len(live), limits.rows),
        more=left_out(len(tensors), limits.blocks),
    )


def _instruction(plan: MemoryPlan, number: int, columns: int) -> str:
    """Title of an instruction; ``number`` is -1 before the first one."""
    if number < 0:
        return "the start"
    if number >= columns - 2:
        return "the end"
    known = number < len(plan.operators)
    return brief(plan.operators[number]) if known else f"instruction {number}"


def _during(tensor: PlannedTensor, plan: MemoryPlan, columns: int) -> str:
    first, last = (_instruction(plan, n, columns) for n in (tensor.first, tensor.last))
    return first if first == last else f"{first} to {last}"


def _bar(tensor: PlannedTensor, plan: MemoryPlan, places: _Places) -> GanttBar:
    kind = "k-other"
    if 0 <= tensor.first < len(plan.kinds):
        kind = f"k-{plan.kinds[tensor.first].value}"
    height, width = max(places.tall(tensor.size), _THINNEST), places.wide(tensor.first, tensor.last)
    name = f"{tensor.size:,} B"
    fits = height >= _NAMED and len(name) <= width * _LETTERS / 4
    return GanttBar(
        left=places.left(tensor.first),
        width=width,
        top=round(places.top(tensor.offset) - height, 3),
        height=height,
        name=name if fits else "",
        text=f"value {tensor.value}: {tensor.size:,} bytes at offset {tensor.offset:,}, live "
        f"from {_during(tensor, plan, places.columns)}",
        kind=kind,
    )


def _gaps(pool: PlannedPool, places: _Places) -> Iterator[GanttBar]:
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
                yield GanttBar(
                    places.left(since),
                    places.wide(since, instruction - 1),
                    places.top(end),
                    places.tall(end - start),
                    "",
                    f"{end - start:,} bytes free between tensors",
                    "gap",
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
