"""Compares results with their history: every metric, the worst change first.

Units of one board type differ, at least in their oscillators and flash wait states, so a unit is
compared with its own results. If the baseline has no result of the unit, results of another unit
are used, scaled by the median ratio between both units over commits that both measured. Other
units then confirm a change seen on one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.check.history.compare_metric import compare_metric, exceeds_limits
from harness.check.history.comparison import Compared, Confirmation, HistoryComparison, Judgement
from harness.check.history.decisions import with_decisions
from harness.check.history.group_sessions import MetricHistory, UnitHistory, group_by_unit
from harness.check.history.modes import find_modes
from harness.check.history.samples import Floats, History, Measured, Metric
from harness.check.history.settings import HistoryLimits
from harness.extras import require
from harness.records.trace import OPERATOR_CALL

_SEVERITY_ORDER: Final[tuple[Judgement, ...]] = (
    *("regression", "changed", "improvement", "vanished", "appeared", "too little", "same"),
)

_PER_EXECUTION: Final = ("log_bytes", "total_bytes", "min", "max")
"""Names and statistics that depend on the number of executions: growing sizes, and extremes."""

MIN_COMMON_COMMITS: Final = 3
"""Commits that two units must both have measured to scale results of one to the other."""

DEFAULT_LIMITS: Final = HistoryLimits()
"""Limits without a budget."""


def compare_with_history(
    history: History,
    candidates: Sequence[Measured],
    limits: HistoryLimits = DEFAULT_LIMITS,
    durations: Mapping[Metric, Floats] | None = None,
) -> HistoryComparison:
    """Compare candidate results with their history.

    A number is a regression if it grew by more than both limits and the growth is significant
    given the noise. P-values of times are adjusted for the number of comparisons.
    ``OPERATOR_CALL`` scopes are left out, because they repeat the times of their contents.

    Args:
        history: Earlier results, and which of them are the baseline.
        candidates: One or more results of one commit, such as a nightly run, on any units.
        limits: When a change counts.
        durations: All durations of one result per operator (metrics without a statistic), to
            detect modes within a run.

    Raises:
        UsageError: SciPy or ruptures is not installed, or the results are of different commits.
    """
    units, witnesses = group_by_unit(history, candidates)
    notes: list[str] = []
    numbers = [number for unit in units for number in _compare_unit(unit, limits, notes)]
    numbers = _most_significant(_with_judgements(numbers, limits))
    numbers = with_confirmations(numbers, [*units, *witnesses], limits)
    if durations:
        numbers = [_with_modes_within(number, durations) for number in numbers]
    found = HistoryComparison(
        description=history.description,
        limits=limits,
        commit=candidates[0].provenance.commit if candidates else "",
        units=tuple(unit.unit for unit in units),
        numbers=tuple(sorted(numbers, key=_sort_key)),
        notes=(*history.notes, *notes),
    )
    return with_decisions(found, history, [item.provenance for item in candidates])


def _compare_unit(unit: UnitHistory, limits: HistoryLimits, notes: list[str]) -> Iterator[Compared]:
    other = ""
    if not unit.has_baseline:
        others = unit.other_units()
        if not others:
            notes.append(f"{unit.unit}: the baseline has no result of any unit")
            return
        other = others[0]
        notes.append(f"{unit.unit}: the baseline has no result of this unit; using {other}")
    differing = _differing_executions(unit)
    if differing:
        old, new = differing
        numbers = f"{old:g} executions in the baseline, {new:g} now"
        notes.append(f"{unit.unit}: {numbers}; metrics that depend on the number are skipped")
    left_out = 0
    for metric, found in unit.metrics():
        if metric.name == OPERATOR_CALL or (differing and _depends_on_executions(metric)):
            continue
        samples = scale_to_unit(unit, metric, other) if other else found
        if samples is None:
            left_out += 1
        else:
            yield compare_metric(unit, metric, samples, limits)
    if left_out:
        reason = f"fewer than {MIN_COMMON_COMMITS} commits were measured on both units"
        notes.append(f"{unit.unit}: {left_out} operators skipped: {reason}")


def _depends_on_executions(metric: Metric) -> bool:
    return metric.name in _PER_EXECUTION or metric.statistic in _PER_EXECUTION


def _differing_executions(unit: UnitHistory) -> tuple[float, float] | None:
    """Return the numbers of executions in the baseline and now if they differ."""
    for metric in unit.candidate_metrics:
        counts = unit.executions(metric) if metric.kind == "operator" else None
        if counts and counts[0] != counts[1]:
            return counts
    return None


def _with_judgements(numbers: list[Compared], limits: HistoryLimits) -> list[Compared]:
    """Adjust p-values for multiple comparisons, and set the judgement of every number."""
    places = [place for place, number in enumerate(numbers) if number.p is not None]
    if places:
        p = [number.p for number in numbers if number.p is not None]
        for place, q in zip(places, _adjust_p_values(p), strict=True):
            numbers[place] = replace(numbers[place], q=q)
    # Numbers without a step count as tests, too.
    clearest = [min((step.p for step in number.steps), default=1.0) for number in numbers]
    steps = _adjust_p_values(clearest) if clearest else []
    return [
        _with_judgement(number if q <= limits.fdr else replace(number, steps=()), limits)
        for number, q in zip(numbers, steps, strict=True)
    ]


def _with_judgement(number: Compared, limits: HistoryLimits) -> Compared:
    if number.change is None:
        return number
    change = number.change.value
    certain = number.method == "exact" or (number.q is not None and number.q <= limits.fdr)
    if exceeds_limits(number) and certain:
        return replace(number, judgement="regression" if change > 0 else "improvement")
    if number.method == "exact" and change:
        return replace(number, judgement="changed")
    return replace(number, judgement="same")


def _adjust_p_values(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Hochberg (1995)."""
    [stats] = require("history", "a comparison with history", "scipy.stats")
    adjusted: list[float] = stats.false_discovery_control(p).tolist()
    return adjusted


def _most_significant(numbers: Sequence[Compared]) -> list[Compared]:
    """Keep the most significant statistic of each operator, with the steps of all of them."""
    found: dict[tuple[str, Metric], list[Compared]] = {}
    for number in numbers:
        same = number.board_unit, replace(number.metric, statistic="")
        key = same if number.metric.kind == "operator" else (number.board_unit, number.metric)
        found.setdefault(key, []).append(number)
    return [
        replace(
            min(
                alike, key=lambda number: (_SEVERITY_ORDER.index(number.judgement), number.p or 0.0)
            ),
            steps=max((number.steps for number in alike), key=len),
        )
        for alike in found.values()
    ]


def _with_modes_within(number: Compared, durations: Mapping[Metric, Floats]) -> Compared:
    values = durations.get(replace(number.metric, statistic=""))
    found = find_modes(values) if values is not None else None
    return replace(number, modes_within=found) if found else number


def _sort_key(number: Compared) -> tuple[int, float]:
    size = number.relative if number.relative is not None else np.inf if number.change else 0.0
    return _SEVERITY_ORDER.index(number.judgement), -size


def scale_to_unit(unit: UnitHistory, metric: Metric, other: str) -> MetricHistory | None:
    """Return the results of ``other``, scaled to ``unit``; None if they have few common commits.

    Sizes are not scaled: they are the same on all units.
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
    if len(ratios) < MIN_COMMON_COMMITS:
        return None
    factor = float(np.median(ratios))
    earlier = theirs.earlier.with_values(theirs.earlier.values * factor)
    return MetricHistory(earlier, theirs.baseline, theirs.now)


def with_confirmations(
    numbers: Sequence[Compared], units: Sequence[UnitHistory], limits: HistoryLimits
) -> list[Compared]:
    """Add to every regression and improvement the changes on other units with this commit."""
    return [
        replace(number, confirmations=_confirmations(number, units, limits))
        if number.judgement in ("regression", "improvement")
        else number
        for number in numbers
    ]


def _confirmations(
    number: Compared, units: Sequence[UnitHistory], limits: HistoryLimits
) -> tuple[Confirmation, ...]:
    found = []
    for unit in units:
        samples = unit.metric(number.metric)
        if unit.unit == number.board_unit or not len(samples.now):
            continue
        other = compare_metric(unit, number.metric, samples, limits)
        confirms = exceeds_limits(other) and _increased(other) == _increased(number)
        found.append(Confirmation(unit=unit.unit, change=other.change, confirms=confirms))
    return tuple(found)


def _increased(number: Compared) -> bool:
    return number.change is not None and number.change.value > 0
