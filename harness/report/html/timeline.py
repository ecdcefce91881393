"""The time of executions on a page: the median one, the slowest and the first, block by block."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from harness.check.subject import Subject
from harness.formatting import TICKS, operator_title
from harness.report.executions import Executions, Slice, TimedExecution, executions, slices
from harness.report.html.pictures import FrameBox
from harness.report.html.scales import Axis
from harness.report.html.svg import Tick
from harness.report.text import (
    Limits,
    brief,
    left_out,
    number,
    percent,
    short_time,
    short_time_unit,
)

_WIDTH: Final = 11.8
"""Pixels of one percent of a wide page; names that do not fit into a block are left out."""

_NARROW_WIDTH: Final = 3.3
"""The same on a phone."""

_LETTER: Final = 6.6
"""Pixels of a letter, about."""

_MARGIN: Final = 9.0
"""Pixels beside a name."""

_ALIKE: Final = 1e-3
"""Executions whose times differ by a smaller share look the same."""


@dataclass(frozen=True, slots=True)
class TimelinePicture:
    """One execution as blocks on a time axis.

    Attributes:
        number: Number of the execution.
        title: Which execution it is, and how long it took.
        summary: What it shows, for those who do not see it.
        frames: Its blocks.
        base: Ticks of its axis.
        more: How many shorter blocks are not drawn.
    """

    number: int
    title: str
    summary: str
    frames: tuple[FrameBox, ...]
    base: tuple[Tick, ...]
    more: int


@dataclass(frozen=True, slots=True)
class KindShare:
    """A kind of operators, the class of its colour, and its share of an execution."""

    name: str
    kind: str
    share: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Executions on a page.

    Attributes:
        median: The median execution.
        others: The slowest one and the first one on one axis; without those that took as long as
            the median one.
        alike: That all took the same time, in words; empty otherwise.
        kinds: Kinds of operators by their share of the median execution.
    """

    median: TimelinePicture
    others: tuple[TimelinePicture, ...]
    alike: str
    kinds: tuple[KindShare, ...]

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers of the executions that are drawn."""
        return frozenset(item.number for item in (self.median, *self.others))


def timeline_view(subject: Subject, limits: Limits) -> TimelineView | None:
    """Draw executions of ``subject``; None if none has events within it."""
    found = executions(subject)
    if found is None or not found.median.time:
        return None
    parts = slices(subject, found.median)
    if not parts:
        return None
    names = {found.median.number: "Median execution"}
    chosen = []
    for execution, name in ((found.slowest, "Slowest execution"), (found.first, _first(found))):
        if execution.number not in names and _differs(execution, found.median):
            names[execution.number] = name
            chosen.append(execution)
    longest = max((execution.time for execution in chosen), default=0.0)
    return TimelineView(
        median=_picture(found, found.median, "Median execution", parts, found.median.time, limits),
        others=tuple(
            _picture(found, item, names[item.number], slices(subject, item), longest, limits)
            for item in chosen
        ),
        alike=_alike(found),
        kinds=_kinds(parts, found.median.time),
    )


def _differs(one: TimedExecution, other: TimedExecution) -> bool:
    return abs(one.time - other.time) > _ALIKE * other.time


def _first(found: Executions) -> str:
    return "First execution after loading (cold)" if found.first.cold else "First execution"


def _alike(found: Executions) -> str:
    if len(found.all) < 2 or any(_differs(item, found.median) for item in found.all):
        return ""
    return f"All {len(found.all):,} executions took the same time within {percent(_ALIKE)}."


def _picture(
    found: Executions,
    execution: TimedExecution,
    name: str,
    parts: list[Slice],
    longest: float,
    limits: Limits,
) -> TimelinePicture:
    """Draw an execution on an axis of the length ``longest``."""
    unit = short_time_unit(longest) if found.timed else TICKS
    whole = Axis(0.0, longest)
    kept = sorted(parts, key=lambda part: part.time, reverse=True)[: limits.blocks]
    busy = sum(part.time for part in parts)

    def text(time: float) -> str:
        return short_time(time if found.timed else None, time)

    frames = []
    for part in sorted(kept, key=lambda part: part.start):
        title = brief(operator_title(part.name, part.instruction))
        width = 100 * part.time / longest
        shown = _fitting(title, part.instruction, width)
        narrow = " narrow" if len(shown) * _LETTER + _MARGIN > width * _NARROW_WIDTH else ""
        frames.append(
            FrameBox(
                left=round(100 * part.start / longest, 3),
                width=round(width, 3),
                level=0,
                name=shown,
                text=f"{title}: {text(part.time)}, {percent(part.time / execution.time)} of the "
                f"execution, begins at {text(part.start)}",
                kind=f"k-{part.kind.value}{narrow}",
            )
        )
    title = f"{name}: number {execution.number:,} of {len(found.all):,}, {text(execution.time)}"
    idle = max(execution.time - busy, 0.0)
    largest = ", ".join(
        f"{brief(operator_title(part.name, part.instruction))} {text(part.time)}"
        for part in kept[:3]
    )
    return TimelinePicture(
        number=execution.number,
        title=title,
        summary=f"{title}; {len(parts):,} events, the longest {largest}; {text(idle)} between them",
        frames=tuple(frames),
        base=tuple(
            Tick(whole.percent(value), f"{number(value / unit.divisor)} {unit.name}")
            for value in whole.ticks(unit.divisor)
        ),
        more=left_out(len(parts), limits.blocks),
    )


def _fitting(title: str, instruction: int, width: float) -> str:
    """The title of a block if it has room for it, else the instruction, else nothing."""
    for text in (title, f"#{instruction}" if instruction >= 0 else ""):
        if len(text) * _LETTER + _MARGIN <= width * _WIDTH:
            return text
    return ""


def _kinds(parts: list[Slice], whole: float) -> tuple[KindShare, ...]:
    times: dict[str, float] = defaultdict(float)
    for part in parts:
        times[part.kind.value] += part.time
    longest = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    found = [KindShare(name, f"k-{name}", percent(time / whole)) for name, time in longest]
    idle = whole - sum(times.values())
    if idle > 0:
        found.append(KindShare("between operators", "k-idle", percent(idle / whole)))
    return tuple(found)
