"""Curves: numbers over time or over results as marks of a picture, which a template draws.

A picture is 1,000 wide and 1,000 high whatever its size on the page: it is stretched, and its
labels, which stand beside it, are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

SIZE: Final = 1000.0
"""Width and height of a picture."""

_TICKS = 4
"""About how many lines there are across a picture."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across a picture: how far from its top or left, percent, and what it says."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A point worth a dot: its place in the picture, what it says, and what kind it is of."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A picture of numbers.

    Attributes:
        title: What it is of.
        summary: What it shows, in a sentence, for those who do not see it.
        line: The path of its line.
        area: The path of the area below it or around it; empty without one.
        marks: Points with a dot.
        rules: Heights of dashed lines, percent from the top, and what they say.
        columns: Upright lines, percent from the left, and what they say.
        scale: Lines across with their labels.
        base: Labels below.
        steps: Upright lines where a number went to another level, as ``columns``.
    """

    title: str
    summary: str
    line: str
    area: str
    marks: tuple[Mark, ...]
    rules: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    scale: tuple[Tick, ...]
    base: tuple[Tick, ...]
    steps: tuple[Tick, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers from ``low`` to ``high`` along a picture."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a number, from 0 to SIZE."""
        span = self.high - self.low
        return round(SIZE * (value - self.low) / span, 1) if span else SIZE / 2

    def ticks(self, unit: float = 1.0) -> list[float]:
        """Round numbers of ``unit`` along it."""
        low, high = self.low / unit, self.high / unit
        span = high - low
        if not 1e-300 < span < math.inf:  # where floats end, logarithms do
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / _TICKS))
        step *= next((f for f in (1, 2, 5) if span / (step * f) <= _TICKS), 10)
        return [unit * step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axis(values: Iterable[float], *, from_zero: bool) -> Axis:
    """An axis that holds ``values`` with a little room above and below, but not below 0."""
    found = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(found), max(found)
    # What differs by less cannot be told apart in a picture, nor by floats in its labels.
    size = max(abs(low), abs(high))
    room = max((high - low) * 0.08, size * 1e-9) if high > low else size * 0.05 or 1.0
    bottom = 0.0 if from_zero else low - room
    return Axis(max(bottom, 0.0) if low >= 0 else bottom, high + room)


def line(points: Sequence[tuple[float, float]]) -> str:
    """The path through points of a picture."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""


def steps(points: Sequence[tuple[float, float]]) -> str:
    """The path of a value that stays what it is until the next point, and to the right end."""
    if not points:
        return ""
    (x, y), *rest = points
    return f"M{x:g} {y:g}" + "".join(f"H{x:g}V{y:g}" for x, y in rest) + f"H{SIZE:g}"


def below(path: str, first: float) -> str:
    """The area from a path of steps, which begins at ``first``, down to the bottom."""
    return f"{path}V{SIZE:g}H{first:g}Z" if path else ""


def band(low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]]) -> str:
    """The area between two lines."""
    return line([*high, *reversed(low)]) + "Z" if high else ""


def thinned(values: npt.NDArray[np.int64], points: int) -> npt.NDArray[np.int64]:
    """Places of at most about ``points`` values: of each stretch its first, smallest and largest.

    So neither the peak nor what a curve began with is lost.
    """
    count = len(values)
    if count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, max((points - 1) // 3, 1) + 1).astype(np.int64)
    kept = [0, count - 1]
    for first, behind in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        piece = values[first:behind]
        if len(piece):
            kept += [first, first + int(np.argmin(piece)), first + int(np.argmax(piece))]
    return np.unique(np.array(kept, np.int64))
