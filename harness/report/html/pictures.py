"""What pictures are of: rectangles and places in per cent, and what each says.

``svg`` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StripPicture:
    """Every value of a distribution on one line; places in percent of it.

    Attributes:
        places: Where each value lies; equal places are one dot.
        median: Where the median lies.
        outlier: Where the largest value lies if it is far from the others, else None.
    """

    places: tuple[float, ...]
    median: float
    outlier: float | None


@dataclass(frozen=True, slots=True)
class FrameBox:
    """A rectangle with a name in it.

    Attributes:
        left: Where it begins, percent of the width.
        width: How wide it is, likewise.
        level: Its row, 0 at the top.
        name: What is written in it where there is room.
        text: What it says of itself.
        kind: Class of its colour.
    """

    left: float
    width: float
    level: int
    name: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class GanttBar:
    """A rectangle of a Gantt chart, in percent, with the class of its colour."""

    left: float
    width: float
    top: float
    height: float
    name: str
    text: str
    kind: str
