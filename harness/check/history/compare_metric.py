"""One number held against its baseline."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from harness.check.history.comparison import Compared, Interval, Mode
from harness.check.history.estimate import Estimate, estimate
from harness.check.history.group_sessions import OneMetric, OnUnit
from harness.check.history.modes import mode_of, modes_of, without_modes
from harness.check.history.samples import Metric, Points
from harness.check.history.series import steps_in
from harness.check.history.settings import HistoryLimits


def compared(unit: OnUnit, metric: Metric, one: OneMetric, limits: HistoryLimits) -> Compared:
    """Compare one number with its baseline, as if it were the only one.

    Args:
        unit: Where it was measured.
        metric: What it is of.
        one: What it was and is.
        limits: What counts as a change.
    """
    relative, absolute = limits.of(metric)
    baseline = one.held_against
    modes = modes_of(one.earlier) if metric.kind == "operator" else ()
    number = Compared(
        metric=metric,
        board_unit=unit.unit,
        judgement="same",
        baseline_results=len(baseline),
        baseline_sessions=len(np.unique(baseline.sessions)),
        current_results=len(one.now),
        current_sessions=len(np.unique(one.now.sessions)),
        modes=modes,
        relative_limit=relative,
        absolute_limit=absolute,
    )
    if not len(one.now):
        return replace(
            number,
            judgement="vanished",
            baseline=_level(baseline),
            reason="the baseline has it, the result has not",
        )
    if not len(baseline):
        return replace(
            number,
            judgement="appeared",
            current=float(np.median(one.now.values)),
            reason="the result has it, the baseline has not",
        )
    found = _change(metric, one, modes, limits)
    course = without_modes(one.all, modes)
    number = replace(number, steps=steps_in(course, unit.results, (relative, absolute), limits))
    if found is None:
        sessions = len(np.unique(one.earlier.sessions))
        return replace(
            number,
            judgement="too little",
            current=float(np.median(one.now.values)),
            baseline=_level(baseline),
            reason=f"history has {sessions} sessions of it, its noise takes {limits.min_results}",
        )
    return _with_change(number, found, one)


def _level(baseline: Points) -> Interval:
    return Interval(float(np.median(baseline.values)), -np.inf, np.inf)


def _change(
    metric: Metric, one: OneMetric, modes: tuple[Mode, ...], limits: HistoryLimits
) -> Estimate | None:
    baseline, now, earlier = one.held_against, one.now, one.earlier
    alike = bool((now.values == now.values[0]).all())
    if metric.kind != "operator" or (alike and is_exact(earlier, limits)):
        return exact_change(baseline, now)
    old, new, noise = (without_modes(side, modes) for side in (baseline, now, earlier))
    return estimate(old, new, noise, limits)


def _with_change(number: Compared, found: Estimate, one: OneMetric) -> Compared:
    level = found.baseline.value
    return replace(
        number,
        method=found.method,
        baseline=found.baseline,
        current=found.current,
        change=found.change,
        relative=found.change.value / level if level else None,
        p=None if found.method == "exact" else found.p,
        noise=abs(found.noise / level) if level else None,
        reason=_flipped(number, one),
    )


def _flipped(number: Compared, one: OneMetric) -> str:
    if not number.modes:
        return ""
    upper = [
        np.bincount(mode_of(side.values, number.modes), minlength=2)[1] / len(side)
        for side in (one.held_against, one.now)
    ]
    shares = f"{upper[0]:.0%} of the baseline in the upper, {upper[1]:.0%} now"
    return f"it flips between two levels: {shares}"


def beyond(number: Compared) -> bool:
    """Whether a number changed by more than both limits."""
    if number.change is None or number.baseline is None:
        return False
    size = abs(number.change.value)
    relative = number.relative_limit * abs(number.baseline.value)
    return size > relative and size > number.absolute_limit


def is_exact(earlier: Points, limits: HistoryLimits) -> bool:
    """Whether a number is the same in all results of the same, of which there are enough.

    Results of different commits that are all alike count as well.
    """
    if len(earlier) < limits.min_results:
        return False
    if (earlier.values == earlier.values[0]).all():
        return True
    groups = [alike for _, alike in earlier.groups(earlier.origins)]
    repeats = sum(len(alike) - 1 for alike in groups)
    constant = all((alike.values == alike.values[0]).all() for alike in groups)
    return constant and repeats >= limits.min_results - 1


def exact_change(baseline: Points, now: Points) -> Estimate:
    """The change of a number without noise.

    The baseline's level is its middle number; where it has several, the newest result may have been
    one of another commit. What is judged is the largest of the results now.
    """
    ordered = np.sort(baseline.values)
    level = float(ordered[(len(ordered) - 1) // 2])
    current = float(now.values.max())
    change = current - level
    return Estimate(
        "exact",
        Interval(level, float(ordered[0]), float(ordered[-1])),
        current,
        Interval(change, change, change),
        0.0 if change else 1.0,
        0.0,
    )
