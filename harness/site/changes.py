"""What differs between two sets of results of a model on a unit, such as those of two commits.

This is a view and not a verdict: it has no baseline of many nights. A difference counts if it is
beyond the limits, and beyond what the noise of the series explains. The page that compares any two
commits does the same in the browser (``site.js``), with the same numbers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.site.documents import ModelOnUnit, SiteSeries

DEVIATIONS: Final = 4.0
"""A difference counts from so many standard deviations of the noise."""

Outcome = Literal["worse", "better", "same", "unknown", "appeared", "vanished"]

WORDS: Final = {
    "time": ("slower", "faster"),
    "memory": ("larger", "smaller"),
    "count": ("more", "fewer"),
    "energy": ("more", "less"),
}
"""Words for a series that grew and one that shrank, by its kind."""


@dataclass(frozen=True, slots=True)
class SeriesChange:
    """A series in two sets of results.

    Attributes:
        series: The series.
        before: Median in the first set; None if it is not in it.
        after: Median in the second set; None if it is not in it.
        counts: Number of results of each.
        outcome: ``worse``, ``better`` or ``same``; ``unknown`` if the noise is unknown;
            ``appeared`` or ``vanished`` if only one of them has it.
        least: Smallest change that would have counted, as a share; None if it is unknown.
    """

    series: SiteSeries
    before: float | None
    after: float | None
    counts: tuple[int, int]
    outcome: Outcome
    least: float | None

    @property
    def share(self) -> float | None:
        """The change, as a share of the first median."""
        if self.before is None or self.after is None or not self.before:
            return None
        return self.after / self.before - 1

    @property
    def word(self) -> str:
        """What became of it, in a word."""
        grew, shrank = WORDS[self.series.kind]
        words = {"worse": grew, "better": shrank, "same": "no change above noise"}
        words |= {"unknown": "too few results to tell", "appeared": "new", "vanished": "gone"}
        return words[self.outcome]


def changes_between(
    model: ModelOnUnit, before: Sequence[int], after: Sequence[int]
) -> Iterator[SeriesChange]:
    """Yield what became of each series between two sets of results, in the order of the series.

    A set without any number, such as of a board that did not answer, has lost none of them.

    Args:
        model: The model on a unit.
        before: Places of results.
        after: Places of other results.
    """
    if not all(any(_values(series, some) for series in model.series) for some in (before, after)):
        return
    for series in model.series:
        old, new = _values(series, before), _values(series, after)
        if not old and not new:
            continue
        if not old or not new:
            counts = len(old), len(new)
            if old:
                level = statistics.median(old)
                yield SeriesChange(series, level, None, counts, "vanished", None)
            else:
                level = statistics.median(new)
                yield SeriesChange(series, None, level, counts, "appeared", None)
            continue
        first, second = statistics.median(old), statistics.median(new)
        least = least_share(series, first, len(old), len(new))
        yield SeriesChange(
            *(series, first, second, (len(old), len(new))),
            outcome=_outcome(second - first, least, first),
            least=least,
        )


def _values(series: SiteSeries, places: Sequence[int]) -> list[float]:
    return [value for place in places if (value := series.values[place]) is not None]


def least_share(series: SiteSeries, level: float, before: int, after: int) -> float | None:
    """Return the smallest difference of two medians that counts, as a share; None if unknown."""
    if series.noise is None:
        return None
    noise = DEVIATIONS * series.noise * math.sqrt(1 / before + 1 / after)
    absolute = series.absolute_limit / abs(level) if level else 0.0
    return max(noise, series.relative_limit, absolute)


def _outcome(change: float, least: float | None, level: float) -> Outcome:
    if change == 0:
        return "same"
    if least is None:
        return "unknown"
    if abs(change) <= least * abs(level):
        return "same"
    return "worse" if change > 0 else "better"
