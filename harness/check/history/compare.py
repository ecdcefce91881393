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

from harness.check.history.compare_unit import (
    Evaluated,
    EvaluatedCommon,
    compare_unit,
    exceeds_limits,
)
from harness.check.history.comparison import (
    CommonChange,
    Compared,
    Confirmation,
    HistoryComparison,
    Judgement,
)
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
    compared = [_compare_unit(unit, limits, notes) for unit in units]
    evaluated = [item for numbers, _ in compared for item in numbers]
    numbers, commons = _with_judgements(
        evaluated, [item for _, items in compared for item in items], limits
    )
    numbers = _most_significant(numbers)
    numbers = _with_confirmations(numbers, [*units, *witnesses], limits)
    if durations:
        numbers = [_with_modes_within(number, durations) for number in numbers]
    seen = [n.detectable for n in numbers if n.metric.kind == "operator" and _on_both_sides(n)]
    known = [np.inf if share is None else share for share in seen]
    found = HistoryComparison(
        description=history.description,
        limits=limits,
        commit=candidates[0].provenance.commit if candidates else "",
        units=tuple(unit.unit for unit in units),
        numbers=tuple(sorted(numbers, key=_sort_key)),
        common=tuple(_worst_of_each(commons)),
        detectable_median=_finite(float(np.median(known))) if known else None,
        detectable_worst=_finite(max(known)) if known else None,
        required=history.required,
        rolling=history.rolling,
        notes=(*history.notes, *notes),
    )
    return with_decisions(found, history, [item.provenance for item in candidates])


def _on_both_sides(number: Compared) -> bool:
    """Return whether both sides have the metric; with too little data no change of it is seen."""
    return number.change is not None or number.judgement == "too little"


def _finite(share: float) -> float | None:
    return share if np.isfinite(share) else None


def _compare_unit(
    unit: UnitHistory, limits: HistoryLimits, notes: list[str]
) -> tuple[list[Evaluated], list[EvaluatedCommon]]:
    other = ""
    if not unit.has_baseline:
        others = unit.other_units()
        if not others:
            notes.append(f"{unit.unit}: the baseline has no result of any unit")
            return [], []
        other = others[0]
        notes.append(f"{unit.unit}: the baseline has no result of this unit; using {other}")
    differing = _differing_executions(unit)
    if differing:
        old, new = differing
        numbers = f"{old:g} executions in the baseline, {new:g} now"
        notes.append(f"{unit.unit}: {numbers}; metrics that depend on the number are skipped")
    chosen: dict[Metric, MetricHistory] = {}
    left_out = 0
    for metric, found in unit.metrics():
        if metric.name == OPERATOR_CALL or (differing and _depends_on_executions(metric)):
            continue
        samples = scale_to_unit(unit, metric, other) if other else found
        if samples is None:
            left_out += 1
        else:
            chosen[metric] = samples
    if left_out:
        reason = f"fewer than {MIN_COMMON_COMMITS} commits were measured on both units"
        notes.append(f"{unit.unit}: {left_out} operators skipped: {reason}")
    return compare_unit(unit, chosen, limits)


def _depends_on_executions(metric: Metric) -> bool:
    return metric.name in _PER_EXECUTION or metric.statistic in _PER_EXECUTION


def _differing_executions(unit: UnitHistory) -> tuple[float, float] | None:
    """Return the numbers of executions in the baseline and now if they differ."""
    for metric in unit.candidate_metrics:
        counts = unit.executions(metric) if metric.kind == "operator" else None
        if counts and counts[0] != counts[1]:
            return counts
    return None


def _with_judgements(
    evaluated: Sequence[Evaluated], commons: Sequence[EvaluatedCommon], limits: HistoryLimits
) -> tuple[list[Compared], list[CommonChange]]:
    """Adjust all p-values together, and set judgements and detectable changes."""
    chances: list[float | None] = [item.number.p for item in evaluated]
    chances += [_step_p(item.number) for item in evaluated]
    chances += [p for item in commons for p in (item.common.p, item.common.scatter_p)]
    tests = [p for p in chances if p is not None]
    adjusted = dict(zip(tests, _adjust_p_values(tests), strict=True)) if tests else {}
    # The p-value that a single change among unchanged numbers needs.
    needed = limits.fdr / max(len(tests), 1)
    judged = [_with_common_judgement(item, adjusted, needed, limits) for item in commons]
    shifts = {
        (common.board_unit, common.clock, common.statistic): common.change.value
        for common in judged
        if common.judgement in ("regression", "improvement")
    }
    numbers = []
    together = _detectable_together(evaluated, needed)
    for item in evaluated:
        number = item.number
        q = None if number.p is None else adjusted[number.p]
        steps = number.steps if adjusted[_step_p(number)] <= limits.fdr else ()
        metric = number.metric
        shift = shifts.get((number.board_unit, metric.clock, metric.statistic), 0.0)
        sizes = (_detectable(item, needed), together.get(_operator_of(number)))
        detectable = min((size for size in sizes if size is not None), default=None)
        number = replace(number, q=q, steps=steps, detectable=detectable)
        numbers.append(_with_judgement(number, shift, limits))
    return numbers, judged


def _detectable_together(evaluated: Sequence[Evaluated], needed: float) -> dict[object, float]:
    """Return the changes of operators that would have been found in all their statistics.

    Of k p-values that are small together, each may be k times as large as a single one
    (Benjamini and Hochberg 1995).
    """
    statistics: dict[object, list[Evaluated]] = {}
    for item in evaluated:
        statistics.setdefault(_operator_of(item.number), []).append(item)
    found = {}
    for operator, items in statistics.items():
        sizes = [_detectable(item, needed * len(items)) for item in items]
        known = [size for size in sizes if size is not None]
        if len(known) == len(items) > 1:
            found[operator] = max(known)
    return found


def _operator_of(number: Compared) -> tuple[str, Metric]:
    """Return the unit and the metric, of an operator without its statistic."""
    is_operator = number.metric.kind == "operator"
    metric = replace(number.metric, statistic="") if is_operator else number.metric
    return number.board_unit, metric


def _step_p(number: Compared) -> float:
    """Return the smallest p-value of a step; numbers without a step count as tests, too."""
    return min((step.p for step in number.steps), default=1.0)


def _detectable(item: Evaluated, needed: float) -> float | None:
    """Return the change that would have been found, as a share.

    With two modes a change may look like a flip to the other one, so it has to be larger by their
    distance.
    """
    if item.estimate is None or not item.estimate.baseline:
        return None
    size = item.estimate.detectable(needed, item.limit, item.tick) + item.gap
    return _finite(size / abs(item.estimate.baseline))


def _with_judgement(number: Compared, shift: float, limits: HistoryLimits) -> Compared:
    """Set the judgement of a number, after a shift of all operators by this share."""
    if number.change is None:
        return number
    change = number.change.value
    if shift and number.baseline is not None:
        # What the others did is reported once. An operator differs from them only if it also
        # differs from its own baseline: it may be the one that did not change.
        whole = change + shift * (number.baseline.value + change)
        change = min(change, whole, key=abs) if change * whole > 0 else 0.0
    certain = number.method == "exact" or (number.q is not None and number.q <= limits.fdr)
    if exceeds_limits(number, change) and certain:
        return replace(number, judgement="regression" if change > 0 else "improvement")
    if number.method == "exact" and change:
        return replace(number, judgement="changed")
    return replace(number, judgement="same")


def _with_common_judgement(
    item: EvaluatedCommon, adjusted: Mapping[float, float], needed: float, limits: HistoryLimits
) -> CommonChange:
    common = item.common
    if item.estimate is None or common.p is None:
        return common
    q = adjusted[common.p]
    common = replace(
        common,
        q=q,
        scatter_q=adjusted[common.scatter_p],
        detectable=_finite(item.estimate.detectable(needed, common.relative_limit, 0.0)),
    )
    shift = common.change.value
    if q <= limits.fdr and abs(shift) > common.relative_limit:
        return replace(common, judgement="regression" if shift > 0 else "improvement")
    if common.scatter_q <= limits.fdr and common.typical > common.relative_limit:
        return replace(common, judgement="scattered")
    return common


def _worst_of_each(commons: Sequence[CommonChange]) -> Iterator[CommonChange]:
    """Yield the most significant statistic of every clock and unit."""
    found: dict[tuple[str, str], list[CommonChange]] = {}
    for common in commons:
        found.setdefault((common.board_unit, common.clock), []).append(common)
    order = ("regression", "scattered", "improvement", "same", "too little")
    for alike in found.values():
        yield min(alike, key=lambda one: (order.index(one.judgement), one.p or 0.0))


def _adjust_p_values(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Hochberg (1995)."""
    [stats] = require("history", "a comparison with history", "scipy.stats")
    adjusted: list[float] = stats.false_discovery_control(p).tolist()
    return adjusted


def _most_significant(numbers: Sequence[Compared]) -> list[Compared]:
    """Keep the most significant statistic of each operator.

    It gets the steps of all of them, and the smallest change that any of them would have shown.
    """
    found: dict[tuple[str, Metric], list[Compared]] = {}
    for number in numbers:
        found.setdefault(_operator_of(number), []).append(number)
    return [
        replace(
            min(
                alike, key=lambda number: (_SEVERITY_ORDER.index(number.judgement), number.p or 0.0)
            ),
            steps=max((number.steps for number in alike), key=len),
            detectable=min((n.detectable for n in alike if n.detectable is not None), default=None),
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


def _with_confirmations(
    numbers: Sequence[Compared], units: Sequence[UnitHistory], limits: HistoryLimits
) -> list[Compared]:
    """Add to every regression and improvement the changes on other units with this commit."""
    wanted = {n.metric for n in numbers if n.judgement in ("regression", "improvement")}
    if not wanted or len(units) < 2:
        return list(numbers)
    others: list[Compared] = []
    for unit in units:
        found = {metric: samples for metric, samples in unit.metrics() if metric in wanted}
        others += [item.number for item in compare_unit(unit, found, limits)[0]]
    return [
        replace(number, confirmations=tuple(_confirmations(number, others)))
        if number.judgement in ("regression", "improvement")
        else number
        for number in numbers
    ]


def _confirmations(number: Compared, others: Sequence[Compared]) -> Iterator[Confirmation]:
    assert number.change is not None
    for other in others:
        if other.metric != number.metric or other.board_unit == number.board_unit:
            continue
        if other.judgement == "vanished":
            continue
        change = 0.0 if other.change is None else other.change.value
        alike = exceeds_limits(other, change) and change * number.change.value > 0
        yield Confirmation(unit=other.board_unit, change=other.change, confirms=alike)
