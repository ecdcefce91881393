"""Several boards of one type: one that has no baseline, and those that confirm what another says.

Boards of one type differ, in their oscillators and flash wait states if in nothing else. So a unit
is held against its own results. Where the baseline has none of it, those of another unit serve,
corrected by what both measured of the same commits: the median of their ratios.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.check.history.arrange import OneMetric, OnUnit
from harness.check.history.comparison import Compared, Confirmation
from harness.check.history.one import beyond, compared
from harness.check.history.samples import Metric
from harness.check.history.settings import HistoryLimits

LEAST_COMMON: Final = 3
"""Commits that two units have both measured, for one to be corrected by the other."""


def corrected(unit: OnUnit, metric: Metric, other: str) -> OneMetric | None:
    """What ``other`` measured, as if it had been ``unit``; None where that cannot be told.

    Sizes are the same on all units.
    """
    own, theirs = unit.metric(metric), unit.metric(metric, other)
    if metric.kind != "operator" or not theirs.baseline.any() or not len(own.now):
        return theirs
    common = np.intersect1d(own.earlier.origins, theirs.earlier.origins)
    ratios = [
        np.median(own.earlier.values[own.earlier.origins == origin])
        / np.median(theirs.earlier.values[theirs.earlier.origins == origin])
        for origin in common.tolist()
        if np.median(theirs.earlier.values[theirs.earlier.origins == origin])
    ]
    if len(ratios) < LEAST_COMMON:
        return None
    factor = float(np.median(ratios))
    earlier = theirs.earlier.with_values(theirs.earlier.values * factor)
    return OneMetric(earlier, theirs.baseline, theirs.now)


def with_confirmations(
    numbers: Sequence[Compared], units: Sequence[OnUnit], limits: HistoryLimits
) -> list[Compared]:
    """Say of every regression and improvement what the other units say that measured the commit."""
    return [
        replace(number, confirmations=_confirmations(number, units, limits))
        if number.judgement in ("regression", "improvement")
        else number
        for number in numbers
    ]


def _confirmations(
    number: Compared, units: Sequence[OnUnit], limits: HistoryLimits
) -> tuple[Confirmation, ...]:
    found = []
    for unit in units:
        one = unit.metric(number.metric)
        if unit.unit == number.board_unit or not len(one.now):
            continue
        other = compared(unit, number.metric, one, limits)
        confirms = beyond(other) and _grew(other) == _grew(number)
        found.append(Confirmation(unit=unit.unit, change=other.change, confirms=confirms))
    return tuple(found)


def _grew(number: Compared) -> bool:
    return number.change is not None and number.change.value > 0
