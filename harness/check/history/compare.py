"""Compares results with their history: every metric, the worst change first.

Boards of one type differ, at least in their oscillators and flash wait states, so a unit is
compared with its own results. When the baseline has no result of it, those of another unit serve,
corrected by what both measured of the same commits: the median of their ratios. Other units then
confirm what one unit shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.check.history.compare_metric import beyond, compared
from harness.check.history.comparison import Compared, Confirmation, HistoryComparison, Judgement
from harness.check.history.group_sessions import OneMetric, OnUnit, arrange
from harness.check.history.modes import find_modes
from harness.check.history.samples import Floats, History, Measured, Metric
from harness.check.history.settings import HistoryLimits
from harness.extras import require
from harness.records.trace import OPERATOR_CALL

_ORDER: Final[tuple[Judgement, ...]] = (
    *("regression", "changed", "improvement", "vanished", "appeared", "too little", "same"),
)

_PER_EXECUTION: Final = ("log_bytes", "total_bytes", "min", "max")
"""What depends on the number of executions: sizes that grow with it, and extremes."""

NO_LIMITS: Final = HistoryLimits()
"""What results are held against unless a budget says otherwise."""


def hold_against(
    history: History,
    judged: Sequence[Measured],
    limits: HistoryLimits = NO_LIMITS,
    durations: Mapping[Metric, Floats] | None = None,
) -> HistoryComparison:
    """Hold results against their history.

    A number is a regression if it grew by more than both limits, and if that is not likely by
    chance, whatever the noise is; of times, considering how many are judged. ``OPERATOR_CALL``
    scopes are left out, as they repeat the times of what is in them.

    Args:
        history: Earlier results, and which of them are the baseline.
        judged: One or several results of one commit, such as those of a night, on any units.
        limits: When a change is one.
        durations: Of operators, metrics without a statistic, all durations of one result, to find
            modes among.

    Raises:
        UsageError: SciPy or ruptures is not installed, or results are of different commits.
    """
    units, witnesses = arrange(history, judged)
    notes: list[str] = []
    numbers = [number for unit in units for number in _numbers(unit, limits, notes)]
    numbers = _telling(_adjusted(numbers, limits))
    numbers = with_confirmations(numbers, [*units, *witnesses], limits)
    if durations:
        numbers = [_with_modes_within(number, durations) for number in numbers]
    return HistoryComparison(
        description=history.description,
        limits=limits,
        commit=judged[0].provenance.commit if judged else "",
        units=tuple(unit.unit for unit in units),
        numbers=tuple(sorted(numbers, key=_badness)),
        notes=tuple(notes),
    )


def _numbers(unit: OnUnit, limits: HistoryLimits, notes: list[str]) -> Iterator[Compared]:
    other = ""
    if not unit.has_baseline:
        others = unit.other_units()
        if not others:
            notes.append(f"{unit.unit}: the baseline has no result, of no other unit either")
            return
        other = others[0]
        notes.append(f"{unit.unit}: the baseline has no result of it; held against {other}")
    uneven = _uneven(unit)
    if uneven:
        old, new = uneven
        what = f"{old:g} executions in the baseline, {new:g} now"
        notes.append(f"{unit.unit}: {what}: what depends on them is left out")
    left_out = 0
    for metric, found in unit.metrics():
        if metric.name == OPERATOR_CALL or (uneven and _grows(metric)):
            continue
        one = corrected(unit, metric, other) if other else found
        if one is None:
            left_out += 1
        else:
            yield compared(unit, metric, one, limits)
    if left_out:
        few = f"fewer than {LEAST_COMMON} commits were measured on both"
        notes.append(f"{unit.unit}: {left_out} operators are left out, as {few}")


def _grows(metric: Metric) -> bool:
    return metric.name in _PER_EXECUTION or metric.statistic in _PER_EXECUTION


def _uneven(unit: OnUnit) -> tuple[float, float] | None:
    """Executions in the baseline and now, where these are not as many."""
    for metric in unit.judged_metrics:
        counts = unit.executions(metric) if metric.kind == "operator" else None
        if counts and counts[0] != counts[1]:
            return counts
    return None


def _adjusted(numbers: list[Compared], limits: HistoryLimits) -> list[Compared]:
    """Give every probability what it is worth among so many, and every number its judgement."""
    places = [place for place, number in enumerate(numbers) if number.p is not None]
    if places:
        p = [number.p for number in numbers if number.p is not None]
        for place, q in zip(places, _among_all(p), strict=True):
            numbers[place] = replace(numbers[place], q=q)
    # A number without steps is one where there might have been.
    clearest = [min((step.p for step in number.steps), default=1.0) for number in numbers]
    steps = _among_all(clearest) if clearest else []
    return [
        _judged(number if q <= limits.fdr else replace(number, steps=()), limits)
        for number, q in zip(numbers, steps, strict=True)
    ]


def _judged(number: Compared, limits: HistoryLimits) -> Compared:
    if number.change is None:
        return number
    change = number.change.value
    certain = number.method == "exact" or (number.q is not None and number.q <= limits.fdr)
    if beyond(number) and certain:
        return replace(number, judgement="regression" if change > 0 else "improvement")
    if number.method == "exact" and change:
        return replace(number, judgement="changed")
    return replace(number, judgement="same")


def _among_all(p: Sequence[float]) -> list[float]:
    """Probabilities adjusted by Benjamini and Hochberg (1995)."""
    [stats] = require("history", "a comparison with history", "scipy.stats")
    adjusted: list[float] = stats.false_discovery_control(p).tolist()
    return adjusted


def _telling(numbers: Sequence[Compared]) -> list[Compared]:
    """Of the statistics of each operator the one that says most, with the steps of them all."""
    found: dict[tuple[str, Metric], list[Compared]] = {}
    for number in numbers:
        same = number.board_unit, replace(number.metric, statistic="")
        key = same if number.metric.kind == "operator" else (number.board_unit, number.metric)
        found.setdefault(key, []).append(number)
    return [
        replace(
            min(alike, key=lambda number: (_ORDER.index(number.judgement), number.p or 0.0)),
            steps=max((number.steps for number in alike), key=len),
        )
        for alike in found.values()
    ]


def _with_modes_within(number: Compared, durations: Mapping[Metric, Floats]) -> Compared:
    values = durations.get(replace(number.metric, statistic=""))
    found = find_modes(values) if values is not None else None
    return replace(number, modes_within=found) if found else number


def _badness(number: Compared) -> tuple[int, float]:
    size = number.relative if number.relative is not None else np.inf if number.change else 0.0
    return _ORDER.index(number.judgement), -size


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
