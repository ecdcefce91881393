"""Compares the metrics of one unit with their baseline, before anything is judged.

What the operators of a clock share is evaluated first: the common factor of each run, how noisy
each run was, and the tail of the noise. Then each metric is estimated by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
import numpy as np

from harness.check.history.common_shift import CommonFactors, common_factors, share_moved
from harness.check.history.comparison import CommonChange, Compared, Interval, Mode
from harness.check.history.estimate import (
    UNKNOWN_SPREAD,
    Estimate,
    between,
    estimate,
    exact_change,
    paired,
)
from harness.check.history.group_sessions import MetricHistory, UnitHistory
from harness.check.history.modes import mode_of, modes_of, without_modes
from harness.check.history.noise import (
    POOLED,
    SessionNoise,
    TypicalSpread,
    noisier,
    pooled,
    scatter_of,
    scatter_p_value,
    scatters,
    session_noise,
)
from harness.check.history.samples import EXACT_COUNTERS, Floats, Metric, Points, median
from harness.check.history.series import steps_in
from harness.check.history.settings import HistoryLimits

_EVIDENT_TICKS: Final = 1000.0
"""Ticks of the longest of several times that never vary, from which the clock would show a noise of
0.1 %; a shorter time may vary by less than a tick."""

_ROUNDING: Final = 12**-0.5
"""Standard deviation of rounding to a tick, in ticks."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric with the estimate that its judgement needs.

    Attributes:
        number: The metric, not judged.
        estimate: Its change; None if it is unknown.
        gap: Distance of its modes, in the metric's unit: a smaller change may be a flip.
        limit: Smallest change that counts, in the metric's unit.
        tick: Smallest difference that the clock shows, in the metric's unit.
    """

    number: Compared
    estimate: Estimate | None = None
    gap: float = 0.0
    limit: float = 0.0
    tick: float = 0.0


@dataclass(frozen=True, slots=True)
class EvaluatedCommon:
    """What all operators of a clock have in common, with its estimate."""

    common: CommonChange
    estimate: Estimate | None


@dataclass(frozen=True, slots=True, eq=False)
class _OperatorGroup:
    """Operators of one clock by one statistic."""

    samples: Mapping[Metric, MetricHistory]
    modes: Mapping[Metric, tuple[Mode, ...]]
    mode_shares: Mapping[Metric, str]
    noises: Mapping[Metric, SessionNoise]
    pairs: Mapping[Metric, Estimate | None]
    factors: CommonFactors | None
    scatter: float = 1.0
    scatter_p: float = 1.0
    scatters: Floats | None = None
    paired_error: TypicalSpread = UNKNOWN_SPREAD


def compare_unit(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> tuple[list[Evaluated], list[EvaluatedCommon]]:
    """Evaluate metrics of a unit, without adjustment for multiple comparisons.

    Args:
        unit: All results of the unit.
        found: The earlier and current values of its metrics.
        limits: When a change counts.
    """
    exact = _exact_metrics(unit, found, limits)
    groups: dict[tuple[str, str, str], dict[Metric, MetricHistory]] = defaultdict(dict)
    for metric, samples in found.items():
        if metric not in exact and len(samples.now) and samples.baseline.any():
            groups[metric.clock, metric.statistic, metric.unit][metric] = samples
    evaluated: dict[Metric, Evaluated] = {}
    commons = []
    for (clock, statistic, _), members in groups.items():
        group = _prepare(unit, members, limits)
        for metric in members:
            evaluated[metric] = _evaluate(unit, metric, group, limits)
        if group.factors is not None:
            commons.append(_common(unit.unit, clock, statistic, group, evaluated, limits))
    for metric, samples in found.items():
        if metric not in evaluated:
            evaluated[metric] = _evaluate_alone(unit, metric, samples, limits)
    return [evaluated[metric] for metric in found], commons


def exceeds_limits(number: Compared, change: float) -> bool:
    """Return whether a change of a number exceeds both limits."""
    if number.baseline is None:
        return False
    relative = number.relative_limit * abs(number.baseline.value)
    return abs(change) > relative and abs(change) > number.absolute_limit


def _exact_metrics(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> set[Metric]:
    """Return the metrics without noise: sizes, counts of what a program does, and times and other
    counts that never vary within a commit.

    Noise grows with the time, so it shows first in the longest times. A time counts as
    deterministic only if no longer one of its clock and statistic varies, and if the longest has
    enough ticks to show it; else the clock may hide the noise.
    """
    exact = {metric for metric, samples in found.items() if _is_exact(metric, samples)}
    groups: dict[tuple[str, str], list[tuple[float, Metric]]] = defaultdict(list)
    for metric, samples in found.items():
        if metric not in exact and len(samples.earlier) >= limits.min_results:
            level = median(samples.earlier.values)
            groups[metric.clock, metric.statistic].append((level, metric))
    for members in groups.values():
        members.sort(key=lambda member: -member[0])
        tick = unit.tick(members[0][1])
        if tick and members[0][0] < _EVIDENT_TICKS * tick:
            continue
        for _, metric in members:
            if not _constant(found[metric].earlier, limits.min_results):
                break
            if _alike(found[metric].now):
                exact.add(metric)
    return exact


def _is_exact(metric: Metric, samples: MetricHistory) -> bool:
    """Return whether a metric has no noise by its kind, or has counted 0 so far."""
    if metric.kind != "counter":
        return metric.kind not in ("operator", "energy")
    counted_nothing = len(samples.earlier) > 0 and not samples.earlier.values.any()
    return metric.statistic in EXACT_COUNTERS or counted_nothing


def _constant(earlier: Points, least: int) -> bool:
    """Return whether all results of each commit are equal; of all commits, if none has repeats."""
    if (earlier.values == earlier.values[0]).all():
        return True
    order = np.lexsort((earlier.values, earlier.origins))
    values, origins = earlier.values[order], earlier.origins[order]
    repeats = origins[1:] == origins[:-1]
    enough = int(np.count_nonzero(repeats)) >= least - 1
    return enough and bool((np.diff(values)[repeats] == 0).all())


def _alike(now: Points) -> bool:
    return not len(now) or bool((now.values == now.values[0]).all())


def _prepare(
    unit: UnitHistory, members: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> _OperatorGroup:
    """Separate the common factor and the modes, and learn the noise that is left."""
    factors = _common_factors(members, len(unit.results))
    samples, modes, shares, noises = {}, {}, {}, {}
    rounding = []
    for metric, raw in members.items():
        whole = raw if factors is None else factors.without(raw)
        modes[metric] = modes_of(whole.earlier)
        shares[metric] = _mode_shares(whole, modes[metric])
        samples[metric] = whole.changed(partial(without_modes, modes=modes[metric]))
        earlier = samples[metric].earlier
        of_clock = _ROUNDING * unit.tick(metric)
        noise = session_noise(earlier, limits.min_results, of_clock)
        if noise is not None:
            noises[metric] = noise
            rounding.append(of_clock / median(earlier.values))
    learnt = dict(zip(noises, pooled([*noises.values()], rounding), strict=True))
    pairs = {
        metric: paired(
            one.baseline_points, one.now, limits.min_results, _ROUNDING * unit.tick(metric)
        )
        for metric, one in samples.items()
    }
    group = _OperatorGroup(samples, modes, shares, learnt, pairs, factors)
    if factors is not None:
        group = replace(group, paired_error=_paired_error(pairs.values()))
    if factors is None or len(learnt) < POOLED:
        return group
    changes = []
    for metric, noise in learnt.items():
        found = between(samples[metric].baseline_points, samples[metric].now, noise)
        changes.append(found.change / found.error if found.error else 0.0)
    scatter = scatter_of(changes)
    tonight = float(noisier(np.array([scatter]), len(learnt))[0])
    wider = {metric: replace(one, scatter=tonight) for metric, one in learnt.items()}
    earlier_scatters = scatters([*learnt.values()], [one.spread for one in learnt.values()])
    every = np.full(len(unit.results), tonight)
    every[: len(earlier_scatters)] = noisier(earlier_scatters, len(learnt))
    chance = scatter_p_value(scatter, earlier_scatters)
    return replace(group, noises=wider, scatter=scatter, scatter_p=chance, scatters=every)


def _common_factors(members: Mapping[Metric, MetricHistory], results: int) -> CommonFactors | None:
    """Return the common factors of operators, whichever of their two levels each happens to have.

    In one night of a hundred most operators that flip are at their upper levels, and the median of
    all would be as much higher.
    """
    factors = common_factors(members, results)
    if factors is None:
        return None
    steady = {}
    for metric, raw in members.items():
        whole = factors.without(raw)
        if modes := modes_of(whole.earlier):
            level = whole.changed(partial(without_modes, modes=modes))
            steady[metric] = factors.restored(level)
    return common_factors({**members, **steady}, results) if steady else factors


def _paired_error(found: Iterable[Estimate | None]) -> TypicalSpread:
    """Return what the errors of the operators' paired changes are like, as shares."""
    known = [pairs for pairs in found if pairs is not None and pairs.baseline > 0]
    if not known:
        return UNKNOWN_SPREAD
    errors = [pairs.error / pairs.baseline for pairs in known]
    return TypicalSpread.of(errors, min(pairs.freedom for pairs in known))


def _evaluate(
    unit: UnitHistory, metric: Metric, group: _OperatorGroup, limits: HistoryLimits
) -> Evaluated:
    samples, modes = group.samples[metric], group.modes[metric]
    noise = group.noises.get(metric)
    rounding = _ROUNDING * unit.tick(metric)
    found = estimate(
        samples.baseline_points,
        samples.now,
        noise,
        group.pairs[metric],
        rounding,
        group.paired_error,
    )
    number = _number(unit, metric, samples, limits)
    common = 0.0 if group.factors is None else group.factors.change
    number = msgspec.structs.replace(
        number,
        modes=modes,
        common=common,
        steps=steps_in(
            samples.all,
            unit.results,
            (number.relative_limit, number.absolute_limit),
            limits,
            # One series cannot tell steps from noise that lasts.
            noise if group.scatters is not None else None,
            group.scatters,
        ),
        reason=group.mode_shares[metric],
    )
    if found is None:
        return Evaluated(_too_little(number, samples, limits))
    gap = modes[1].center - modes[0].center if modes else 0.0
    return _with_estimate(number, found, limits, gap, unit.tick(metric))


def _evaluate_alone(
    unit: UnitHistory, metric: Metric, samples: MetricHistory, limits: HistoryLimits
) -> Evaluated:
    """Evaluate a metric without noise, or one that only one side has."""
    number = _number(unit, metric, samples, limits)
    baseline = samples.baseline_points
    if not len(samples.now):
        return Evaluated(
            msgspec.structs.replace(
                number,
                judgement="vanished",
                baseline=_median_interval(baseline),
                reason="in the baseline, but not in the result",
            )
        )
    if not len(baseline):
        return Evaluated(
            msgspec.structs.replace(
                number,
                judgement="appeared",
                current=median(samples.now.values),
                reason="in the result, but not in the baseline",
            )
        )
    limit = number.relative_limit, number.absolute_limit
    number = msgspec.structs.replace(
        number, steps=steps_in(samples.all, unit.results, limit, limits)
    )
    return _with_estimate(
        number, exact_change(baseline, samples.now), limits, 0.0, unit.tick(metric)
    )


def _number(
    unit: UnitHistory, metric: Metric, samples: MetricHistory, limits: HistoryLimits
) -> Compared:
    relative, absolute = limits.of(metric)
    baseline = samples.baseline_points
    return Compared(
        metric=metric,
        board_unit=unit.unit,
        judgement="same",
        baseline_results=len(baseline),
        baseline_sessions=len(np.unique(baseline.sessions)),
        current_results=len(samples.now),
        current_sessions=len(np.unique(samples.now.sessions)),
        relative_limit=relative,
        absolute_limit=max(absolute, 2 * unit.tick(metric)),
    )


def _with_estimate(
    number: Compared, found: Estimate, limits: HistoryLimits, gap: float, tick: float
) -> Evaluated:
    level = found.baseline
    exact = found.method == "exact"
    number = msgspec.structs.replace(
        number,
        method=found.method,
        baseline=found.baseline_interval(limits.confidence),
        current=found.current,
        change=found.interval(limits.confidence),
        relative=found.change / level if level else None,
        p=None if exact else found.p,
        noise=abs(found.noise / level) if level else None,
    )
    limit = max(number.relative_limit * abs(level), number.absolute_limit)
    return Evaluated(number, found, gap, limit, tick)


def _too_little(number: Compared, samples: MetricHistory, limits: HistoryLimits) -> Compared:
    sessions = len(np.unique(samples.earlier.sessions))
    held = "1 session" if sessions == 1 else f"{sessions} sessions"
    reason = f"history has {held} of it, {limits.min_results} are needed"
    if sessions >= limits.min_results:
        reason = "most earlier times are shorter than a tick of the clock"
    return msgspec.structs.replace(
        number,
        judgement="too little",
        current=median(samples.now.values),
        baseline=_median_interval(samples.baseline_points),
        reason=reason,
    )


def _median_interval(baseline: Points) -> Interval:
    return Interval(median(baseline.values), -np.inf, np.inf)


def _mode_shares(samples: MetricHistory, modes: tuple[Mode, ...]) -> str:
    if not modes:
        return ""
    upper = [
        np.bincount(mode_of(side.values, modes), minlength=2)[1] / len(side)
        for side in (samples.baseline_points, samples.now)
    ]
    shares = f"{upper[0]:.0%} of the baseline in the upper mode, {upper[1]:.0%} now"
    return f"two modes: {shares}"


def _common(
    unit: str,
    clock: str,
    statistic: str,
    group: _OperatorGroup,
    evaluated: Mapping[Metric, Evaluated],
    limits: HistoryLimits,
) -> EvaluatedCommon:
    assert group.factors is not None
    history = group.factors.history
    noise = session_noise(history.earlier, limits.min_results, 0.0)
    if noise is not None:
        [noise] = pooled([noise], [0.0])
    pairs = paired(history.baseline_points, history.now, limits.min_results, 0.0)
    found = estimate(history.baseline_points, history.now, noise, pairs, 0.0)
    deviations = [*_relative(evaluated[metric] for metric in group.samples)]
    shift = group.factors.change
    common = CommonChange(
        board_unit=unit,
        clock=clock,
        statistic=statistic,
        operators=len(deviations),
        moved=share_moved([(1 + one) * (1 + shift) - 1 for one in deviations], shift),
        change=Interval(shift, None, None),
        scatter=group.scatter,
        typical=float(np.median(np.abs(deviations))) if deviations else 0.0,
        relative_limit=limits.relative,
    )
    if found is None:
        return EvaluatedCommon(msgspec.structs.replace(common, judgement="too little"), None)
    in_pairs = sum(
        one.estimate is not None and one.estimate.method != "between sessions"
        for one in (evaluated[metric] for metric in group.samples)
    )
    common = msgspec.structs.replace(
        common,
        change=found.interval(limits.confidence),
        p=found.p,
        noise=found.noise,
        # Pairs have an error of their own, to which sessions that are wild contribute.
        scatter_p=group.scatter_p if 2 * in_pairs < len(group.samples) else 1.0,
    )
    return EvaluatedCommon(common, found)


def _relative(found: Iterable[Evaluated]) -> Iterable[float]:
    for one in found:
        if one.number.relative is not None:
            yield one.number.relative
