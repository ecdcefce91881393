"""Scales: where a number lies along a picture, and which round numbers its ticks are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

SIZE: Final = 1000.0
"""Width and height of a picture in its own units; the page stretches it."""

_TICKS = 4
"""About how many lines there are across a picture."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers from ``low`` to ``high`` along a picture."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a number, from 0 to SIZE."""
        span = self.high - self.low
        return round(SIZE * (value - self.low) / span, 1) if span else SIZE / 2

    def percent(self, value: float) -> float:
        """The place of a number, in percent."""
        return round(self.at(value) / 10, 2)

    def down(self, value: float) -> float:
        """The place of a number from the top of a picture whose axis points up."""
        return round(SIZE - self.at(value), 1)

    def ticks(self, unit: float = 1.0) -> list[float]:
        """Round numbers of ``unit`` along it."""
        low, high = self.low / unit, self.high / unit
        span = high - low
        if not 1e-300 < span < math.inf:  # where floats end, logarithms do
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / _TICKS))
        step *= next((f for f in (1, 2, 5) if span / (step * f) <= _TICKS), 10)
        return [unit * step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axis(values: Iterable[float], *, from_zero: bool, least: float = 0.0) -> Axis:
    """An axis that holds ``values`` with a little room above and below, but not below 0.

    Args:
        values: The numbers.
        from_zero: Begin at 0.
        least: The smallest span. A change of a single tick does not fill a picture whose axis
            spans a few times the noise.
    """
    found = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(found), max(found)
    # What differs by less cannot be told apart in a picture, nor by floats in its labels.
    size = max(abs(low), abs(high))
    room = max((high - low) * 0.08, size * 1e-9) if high > low else size * 0.05 or 1.0
    room = max(room, (least - (high - low)) / 2)
    bottom = 0.0 if from_zero else low - room
    return Axis(max(bottom, 0.0) if low >= 0 else bottom, high + room)


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
