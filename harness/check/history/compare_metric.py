"""Compares one metric with its baseline."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from harness.check.history.comparison import Compared, Interval, Mode
from harness.check.history.estimate import Estimate, estimate
from harness.check.history.group_sessions import MetricHistory, UnitHistory
from harness.check.history.modes import mode_of, modes_of, without_modes
from harness.check.history.samples import Metric, Points
from harness.check.history.series import steps_in
from harness.check.history.settings import HistoryLimits


def compare_metric(
    unit: UnitHistory, metric: Metric, samples: MetricHistory, limits: HistoryLimits
) -> Compared:
    """Compare one metric with its baseline, without adjustment for multiple comparisons.

    Args:
        unit: All results of the unit.
        metric: The metric.
        samples: Its earlier and current values.
        limits: When a change counts.
    """
    relative, absolute = limits.of(metric)
    baseline = samples.baseline_points
    modes = modes_of(samples.earlier) if metric.kind == "operator" else ()
    number = Compared(
        metric=metric,
        board_unit=unit.unit,
        judgement="same",
        baseline_results=len(baseline),
        baseline_sessions=len(np.unique(baseline.sessions)),
        current_results=len(samples.now),
        current_sessions=len(np.unique(samples.now.sessions)),
        modes=modes,
        relative_limit=relative,
        absolute_limit=absolute,
    )
    if not len(samples.now):
        return replace(
            number,
            judgement="vanished",
            baseline=_median_interval(baseline),
            reason="in the baseline, but not in the result",
        )
    if not len(baseline):
        return replace(
            number,
            judgement="appeared",
            current=float(np.median(samples.now.values)),
            reason="in the result, but not in the baseline",
        )
    found = _change(metric, samples, modes, limits)
    series = without_modes(samples.all, modes)
    number = replace(number, steps=steps_in(series, unit.results, (relative, absolute), limits))
    if found is None:
        sessions = len(np.unique(samples.earlier.sessions))
        return replace(
            number,
            judgement="too little",
            current=float(np.median(samples.now.values)),
            baseline=_median_interval(baseline),
            reason=f"history has {sessions} sessions of it, {limits.min_results} are needed",
        )
    return _with_change(number, found, samples)


def _median_interval(baseline: Points) -> Interval:
    return Interval(float(np.median(baseline.values)), -np.inf, np.inf)


def _change(
    metric: Metric, samples: MetricHistory, modes: tuple[Mode, ...], limits: HistoryLimits
) -> Estimate | None:
    baseline, now, earlier = samples.baseline_points, samples.now, samples.earlier
    alike = bool((now.values == now.values[0]).all())
    if metric.kind != "operator" or (alike and is_exact(earlier, limits)):
        return exact_change(baseline, now)
    old, new, noise = (without_modes(side, modes) for side in (baseline, now, earlier))
    return estimate(old, new, noise, limits)


def _with_change(number: Compared, found: Estimate, samples: MetricHistory) -> Compared:
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
        reason=_mode_shares(number, samples),
    )


def _mode_shares(number: Compared, samples: MetricHistory) -> str:
    if not number.modes:
        return ""
    upper = [
        np.bincount(mode_of(side.values, number.modes), minlength=2)[1] / len(side)
        for side in (samples.baseline_points, samples.now)
    ]
    shares = f"{upper[0]:.0%} of the baseline in the upper mode, {upper[1]:.0%} now"
    return f"two modes: {shares}"


def exceeds_limits(number: Compared) -> bool:
    """Return whether a number changed by more than both limits."""
    if number.change is None or number.baseline is None:
        return False
    size = abs(number.change.value)
    relative = number.relative_limit * abs(number.baseline.value)
    return size > relative and size > number.absolute_limit


def is_exact(earlier: Points, limits: HistoryLimits) -> bool:
    """Return whether a metric is deterministic: equal in all results of each commit.

    Needs ``min_results`` results; equal results of different commits count as well.
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
    """Return the change of a deterministic metric.

    The baseline's level is its median, because a baseline of several commits may have several
    values. The current value is the largest of the results.
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
