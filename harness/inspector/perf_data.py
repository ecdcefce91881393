"""Durations of an event's repeats and their statistics, with ExecuTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class TimeScale(Enum):
    """A unit of time; cycles cannot be converted to other units."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


PER_SECOND: Final[dict[TimeScale, int]] = {
    TimeScale.NS: 1_000_000_000,
    TimeScale.US: 1_000_000,
    TimeScale.MS: 1_000,
    TimeScale.S: 1,
    TimeScale.CYCLES: 1,
}
"""Number per second; 1 for cycles."""


def scale_between(source: TimeScale, target: TimeScale) -> Fraction:
    """Return the number of ``source`` units per ``target`` unit.

    Raises:
        ValueError: Only one of them is cycles.
    """
    if (source is TimeScale.CYCLES) != (target is TimeScale.CYCLES):
        raise ValueError("cycles have no length: source and target scale must both be cycles")
    return Fraction(PER_SECOND[source], PER_SECOND[target])


@dataclass
class PerfData:
    """Durations of an event, one per repeat, in the target time scale."""

    raw: list[float]

    @property
    def p10(self) -> float:
        """10th percentile."""
        return float(np.percentile(self.raw, 10))

    @property
    def p50(self) -> float:
        """Median."""
        return float(np.percentile(self.raw, 50))

    @property
    def p90(self) -> float:
        """90th percentile."""
        return float(np.percentile(self.raw, 90))

    @property
    def avg(self) -> float:
        """Mean."""
        return float(np.mean(self.raw))

    @property
    def min(self) -> float:
        """Shortest."""
        return min(self.raw)

    @property
    def max(self) -> float:
        """Longest."""
        return max(self.raw)


STATISTICS: Final = ("p10", "p50", "p90", "avg", "min", "max")


def statistics(raws: Sequence[Sequence[float]]) -> Floats:
    """Return ``STATISTICS`` of many events at once, shape (n, 6); NaN without durations.

    Events with the same number of durations are computed together.
    """
    found = np.full((len(raws), len(STATISTICS)), np.nan)
    lengths = np.array([len(raw) for raw in raws], np.int64)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        values = np.array([raws[row] for row in rows.tolist()], np.float64)
        found[rows, :3] = np.percentile(values, (10, 50, 90), axis=1).T
        found[rows, 3] = values.mean(axis=1)
        found[rows, 4] = values.min(axis=1)
        found[rows, 5] = values.max(axis=1)
    return found
