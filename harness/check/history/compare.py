"""Compares results with their history: every metric, the worst change first.

Units of one board type differ, at least in their oscillators and flash wait states, so a unit is
compared with its own results. If the baseline has no result of the unit, results of another unit
are used, scaled by the median ratio between both units over commits that both measured. Other
units then confirm a change seen on one unit.

Of one unit, what the operators of a clock share is evaluated first: the common factor of each run,
how noisy each run was, and the tail of the noise. Then each metric is estimated by itself.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.check.history.align import aligned
from harness.check.history.comparison import (
    CommonChange,
    CommonJudgement,
    Compared,
    Confirmation,
    HistoryComparison,
    Interval,
    Mode,
)
from harness.check.history.estimate import (
    UNKNOWN_SPREAD,
    Estimate,
    Looks,
    between,
    estimate,
    exact_change,
    looks,
    paired,
    steps_in,
)
from harness.check.history.group_sessions import (
    MetricHistory,
    UnitHistory,
    group_by_unit,
    series_of,
    with_decisions,
)
from harness.check.history.noise import (
    DISTURBANCE_NS,
    ENOUGH,
    FACTOR,
    GROSS,
    POOLED,
    SINGLE_FACTOR,
    CommonFactors,
    SessionNoise,
    TypicalSpread,
    common_factors,
    exact_metrics,
    find_modes,
    gross_direction,
    mode_of,
    modes_of,
    noisier,
    pooled,
    scatter_of,
    scatter_p_value,
    scatters,
    session_noise,
    share_moved,
    without_modes,
)
from harness.check.history.pairs import exceeds_limits, judge_in_pairs
from harness.check.history.samples import (
    Floats,
    History,
    HistoryLimits,
    Measured,
    Metric,
    Points,
    median,
)
from harness.plugins import require
from harness.records.trace import OPERATOR_CALL
from harness.records.verdict import Judgement

_SEVERITY_ORDER: Final[tuple[Judgement, ...]] = (
    *("regression", "suspect", "changed", "improvement", "vanished", "appeared"),
    *("too little", "same"),
)

_CHANGED: Final = ("regression", "suspect", "improvement")

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
    *,
    every: bool = False,
) -> HistoryComparison:
    """Compare candidate results with their history.

    A number is a regression if it grew by more than both limits, the growth is significant given
    the noise, and shows in another night, too. P-values of times are adjusted for the number of
    comparisons.
    ``OPERATOR_CALL`` scopes are left out, because they repeat the times of their contents.

    Args:
        history: Earlier results, and which of them are the baseline.
        candidates: One or more results of one commit, such as a nightly run, on any units.
        limits: When a change counts.
        durations: All durations of one result per operator (metrics without a statistic), to
            detect modes within a run.
        every: Return all statistics of an operator, and not only the most significant one.

    Raises:
        UsageError: SciPy or ruptures is not installed, or the results are of different commits.
    """
    history, candidates, lost = aligned(history, candidates)
    units, witnesses = group_by_unit(history, candidates)
    notes = [*lost]
    compared = [_compare_unit(unit, limits, notes) for unit in units]
    evaluated = [item for numbers, _ in compared for item in numbers]
    numbers, commons = _with_judgements(
        evaluated, [item for _, items in compared for item in items], limits
    )
    numbers, commons = judge_in_pairs(numbers, commons, history.pairs, limits)
    if not every:
        numbers = most_significant(numbers)
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
        pairs=tuple(pairs.note for pairs in history.pairs if pairs.note),
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
        if common.judgement in _CHANGED
    }
    numbers = []
    for item in evaluated:
        number = item.number
        q = None if number.p is None else adjusted[number.p]
        steps = number.steps if adjusted[_step_p(number)] <= limits.fdr else ()
        metric = number.metric
        shift = shifts.get((number.board_unit, metric.clock, metric.statistic), 0.0)
        number = replace(number, q=q, steps=steps, detectable=_detectable(item, needed))
        numbers.append(_with_judgement(item, number, shift, limits, needed))
    return numbers, judged


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
    level = abs(item.estimate.baseline)
    limit = max(item.number.relative_limit * level, item.number.absolute_limit)
    return _finite((item.estimate.detectable(needed, limit, item.tick) + item.gap) / level)


def _with_judgement(
    item: Evaluated, number: Compared, shift: float, limits: HistoryLimits, needed: float
) -> Compared:
    """Set the judgement of a number, after a shift of all operators by this share."""
    if number.change is None:
        return number

    def own(change: float) -> float:
        """Return a change without what all operators did, which is reported once."""
        if not shift or number.baseline is None:
            return change
        # An operator differs from the others only if it also differs from its own baseline: it may
        # be the one that did not change.
        whole = change + shift * (number.baseline.value + change)
        return min(change, whole, key=abs) if change * whole > 0 else 0.0

    change, by_time = own(number.change.value), item.looks
    certain = number.method == "exact" or (number.q is not None and number.q <= limits.fdr)
    certain |= item.gross
    found = exceeds_limits(number, change) and certain
    worse: Judgement = "regression"
    if by_time is not None:
        first = own(by_time.first.change)
        if exceeds_limits(number, first) and by_time.first.p <= needed:
            found, change = True, first

        def shows(look: Estimate) -> bool:
            return exceeds_limits(number, own(look.change)) and change * look.change > 0

        if found and by_time.again is not None and not shows(by_time.again):
            share = first / by_time.first.baseline if by_time.first.baseline else 0.0
            return replace(number, judgement="same", gone=share)
        # Few are suspect, so the other night is not adjusted for all numbers.
        before = by_time.before
        holds = before is not None and shows(before) and before.p <= limits.fdr
        worse = "regression" if holds or item.gross else "suspect"
    if found:
        return replace(number, judgement=worse if change > 0 else "improvement")
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
    shift, by_time = common.change.value, item.looks

    def shows(look: Estimate | None) -> bool:
        return (
            look is not None
            and look.change * shift > 0
            and look.p <= limits.fdr
            and abs(look.change) > common.relative_limit
        )

    once = by_time is not None and not shows(by_time.before)
    gone = by_time is not None and by_time.again is not None and not shows(by_time.again)
    if q <= limits.fdr and abs(shift) > common.relative_limit and not gone:
        worse: CommonJudgement = "suspect" if once else "regression"
        return replace(common, judgement=worse if shift > 0 else "improvement")
    if common.scatter_q <= limits.fdr and common.typical > common.relative_limit:
        return replace(common, judgement="suspect" if once else "scattered")
    return common


def _worst_of_each(commons: Sequence[CommonChange]) -> Iterator[CommonChange]:
    """Yield the most significant statistic of every clock and unit."""
    found: dict[tuple[str, str], list[CommonChange]] = {}
    for common in commons:
        found.setdefault((common.board_unit, common.clock), []).append(common)
    order = ("regression", "scattered", "suspect", "improvement", "same", "too little")
    for alike in found.values():
        yield min(alike, key=lambda one: (order.index(one.judgement), one.p or 0.0))


def _adjust_p_values(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Hochberg (1995)."""
    [stats] = require("history", "a comparison with history", "scipy.stats")
    adjusted: list[float] = stats.false_discovery_control(p).tolist()
    return adjusted


def most_significant(numbers: Sequence[Compared]) -> list[Compared]:
    """Keep the most significant statistic of each operator.

    It gets the steps of all of them, and the smallest change that any of them would have shown.
    """
    found: dict[tuple[str, Metric], list[Compared]] = {}
    for number in numbers:
        found.setdefault(_operator_of(number), []).append(number)
    return [
        replace(
            min(alike, key=_most_telling),
            unsure=any(number.unsure for number in alike),
            steps=max((number.steps for number in alike), key=len),
            detectable=min((n.detectable for n in alike if n.detectable is not None), default=None),
        )
        for alike in found.values()
    ]


def _most_telling(number: Compared) -> tuple[int, bool, float]:
    return _SEVERITY_ORDER.index(number.judgement), number.gone is None, number.p or 0.0


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
    """Add to every change what other units measured of this commit."""
    wanted = {n.metric for n in numbers if n.judgement in _CHANGED}
    if not wanted or len(units) < 2:
        return list(numbers)
    others: list[Compared] = []
    for unit in units:
        found = {metric: samples for metric, samples in unit.metrics() if metric in wanted}
        others += [item.number for item in compare_unit(unit, found, limits)[0]]
    return [_confirmed(n, others) if n.judgement in _CHANGED else n for n in numbers]


def _confirmed(number: Compared, others: Sequence[Compared]) -> Compared:
    """Add the changes on other units: one that shows what is suspect has measured it again."""
    found = tuple(_confirmations(number, others))
    again = number.judgement == "suspect" and any(one.confirms for one in found)
    judgement = "regression" if again else number.judgement
    return replace(number, confirmations=found, judgement=judgement)


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


_ROUNDING: Final = 12**-0.5
"""Standard deviation of rounding to a tick, in ticks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric with the estimate that its judgement needs.

    Attributes:
        number: The metric, not judged.
        estimate: Its change; None if it is unknown.
        gap: Distance of its modes, in the metric's unit: a smaller change may be a flip.
        tick: Smallest difference that the clock shows, in the metric's unit.
        gross: No noise explains its change, whatever its estimate says.
        looks: Its change by when it was measured; None if it was compared in pairs, or exactly.
    """

    number: Compared
    estimate: Estimate | None = None
    gap: float = 0.0
    tick: float = 0.0
    gross: bool = False
    looks: Looks | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluatedCommon:
    """What all operators of a clock have in common, with its estimate."""

    common: CommonChange
    estimate: Estimate | None
    looks: Looks | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _OperatorGroup:
    """Operators of one clock by one statistic."""

    samples: Mapping[Metric, MetricHistory]
    modes: Mapping[Metric, tuple[Mode, ...]]
    mode_shares: Mapping[Metric, str]
    noises: Mapping[Metric, SessionNoise]
    pairs: Mapping[Metric, Estimate | None]
    factors: CommonFactors | None
    paired_error: TypicalSpread
    scatter: float = 1.0
    scatter_p: float = 1.0
    scatters: Floats | None = None


def compare_unit(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> tuple[list[Evaluated], list[EvaluatedCommon]]:
    """Evaluate metrics of a unit, without adjustment for multiple comparisons.

    Args:
        unit: All results of the unit.
        found: The earlier and current values of its metrics.
        limits: When a change counts.
    """
    exact = exact_metrics(unit, found, limits)
    groups: dict[tuple[str, str, str], dict[Metric, MetricHistory]] = defaultdict(dict)
    for metric, samples in found.items():
        if metric not in exact and len(samples.now) and samples.baseline.any():
            groups[metric.clock, metric.statistic, metric.unit][metric] = samples
    evaluated: dict[Metric, Evaluated] = {}
    commons = []
    prepared = {key: _prepare(unit, members, limits) for key, members in groups.items()}
    gross = _gross_metrics(unit, prepared.values())
    shared = _gross_clocks(prepared, limits)
    for (clock, statistic, _), group in prepared.items():
        for metric in group.samples:
            evaluated[metric] = _evaluate(
                unit, metric, group, limits, gross=series_of(metric) in gross
            )
        if group.factors is not None:
            common = _common(unit, clock, statistic, group, evaluated, limits)
            commons.append(_with_gross(common, group.factors.change) if clock in shared else common)
    for metric, samples in found.items():
        if metric not in evaluated:
            evaluated[metric] = _evaluate_alone(unit, metric, samples, limits)
    return [evaluated[metric] for metric in found], commons


def _gross_metrics(unit: UnitHistory, groups: Iterable[_OperatorGroup]) -> set[Metric]:
    """Return the series with gross changes, whether or not enough is known of their noise.

    All statistics of an operator have to agree: one disturbance of a run is no change.
    """
    directions: dict[Metric, set[int]] = defaultdict(set)
    for group in groups:
        for metric, samples in group.samples.items():
            counts = unit.executions(metric) if metric.kind == "operator" else None
            single = counts is not None and min(counts) <= 1
            direction = gross_direction(
                samples.earlier.values,
                samples.now.values,
                unit.tick(metric),
                SINGLE_FACTOR if single else FACTOR,
                DISTURBANCE_NS if single and metric.unit == "ns" else 0.0,
            )
            directions[series_of(metric)].add(direction)
    return {series for series, found in directions.items() if found in ({1}, {-1})}


def _gross_clocks(
    groups: Mapping[tuple[str, str, str], _OperatorGroup], limits: HistoryLimits
) -> set[str]:
    """Return the clocks on which all operators together changed grossly, likewise."""
    directions: dict[str, set[int]] = defaultdict(set)
    for (clock, _, _), group in groups.items():
        if group.factors is not None:
            factors = group.factors.history
            few = _sessions(factors.earlier) < limits.min_results
            direction = gross_direction(factors.earlier.values, factors.now.values, 0.0)
            directions[clock].add(direction if few else 0)
    return {clock for clock, found in directions.items() if found in ({1}, {-1})}


def _sessions(points: Points) -> int:
    return len(np.unique(points.sessions))


def _prepare(
    unit: UnitHistory, members: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> _OperatorGroup:
    """Separate the common factor and the modes, and learn the noise that is left."""
    factors = _common_factors(members, len(unit.results))
    samples, modes, shares, noises, pairs = {}, {}, {}, {}, {}
    rounding = []
    for metric, raw in members.items():
        whole = raw if factors is None else factors.without(raw)
        modes[metric] = modes_of(whole.earlier)
        shares[metric] = _mode_shares(whole, modes[metric])
        one = samples[metric] = whole.changed(partial(without_modes, modes=modes[metric]))
        of_clock = _ROUNDING * unit.tick(metric)
        pairs[metric] = paired(one.baseline_points, one.now, limits.min_results, of_clock)
        noise = session_noise(one.earlier, limits.min_results, of_clock)
        if noise is not None:
            noises[metric] = noise
            rounding.append(of_clock / median(one.earlier.values))
    learnt = dict(zip(noises, pooled([*noises.values()], rounding), strict=True))
    paired_error = UNKNOWN_SPREAD if factors is None else _paired_error(pairs.values())
    group = _OperatorGroup(samples, modes, shares, learnt, pairs, factors, paired_error)
    if factors is None or len(learnt) < POOLED:
        return group
    changes = []
    for metric, noise in learnt.items():
        found = between(samples[metric].baseline_points, samples[metric].now, noise)
        changes.append(found.change / found.error if found.error else 0.0)
    scatter = scatter_of(changes)
    tonight = float(noisier(np.array([scatter]), len(learnt))[0])
    wider = {metric: dataclasses.replace(one, scatter=tonight) for metric, one in learnt.items()}
    earlier_scatters = scatters([*learnt.values()], [one.spread for one in learnt.values()])
    every = np.full(len(unit.results), tonight)
    every[: len(earlier_scatters)] = noisier(earlier_scatters, len(learnt))
    chance = scatter_p_value(scatter, earlier_scatters)
    return dataclasses.replace(
        group, noises=wider, scatter=scatter, scatter_p=chance, scatters=every
    )


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
    unit: UnitHistory, metric: Metric, group: _OperatorGroup, limits: HistoryLimits, *, gross: bool
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
    number = replace(
        number,
        modes=modes,
        common=common,
        steps=steps_in(
            samples.all,
            unit.results,
            (number.relative_limit, number.absolute_limit),
            limits,
            0.0 if noise is None else noise.correlation,
            group.scatters,
        ),
        reason=group.mode_shares[metric],
    )
    if found is None:
        return _without_estimate(number, samples, limits, gross=gross)
    gap = modes[1].center - modes[0].center if modes else 0.0
    evaluated = _with_estimate(number, found, limits, unit.tick(metric), gap, gross=gross)
    return dataclasses.replace(evaluated, looks=_looks(unit, found, samples, noise))


def _looks(
    unit: UnitHistory, found: Estimate, samples: MetricHistory, noise: SessionNoise | None
) -> Looks | None:
    """Return a change by when it was measured; None if pairs of sessions show it."""
    if noise is None or found.method != "between sessions":
        return None
    occasions = unit.occasions[samples.now.results]
    tonight = occasions == occasions[0]
    other = samples.night_before if tonight.all() else samples.now.where(~tonight)
    return looks(samples.baseline_points, samples.now.where(tonight), other, noise)


def _evaluate_alone(
    unit: UnitHistory, metric: Metric, samples: MetricHistory, limits: HistoryLimits
) -> Evaluated:
    """Evaluate a metric without noise, or one that only one side has."""
    number = _number(unit, metric, samples, limits)
    baseline = samples.baseline_points
    if not len(samples.now):
        level, reason = _median_interval(baseline), "in the baseline, but not in the result"
        return Evaluated(replace(number, judgement="vanished", baseline=level, reason=reason))
    if not len(baseline):
        current, reason = median(samples.now.values), "in the result, but not in the baseline"
        return Evaluated(replace(number, judgement="appeared", current=current, reason=reason))
    limit = number.relative_limit, number.absolute_limit
    number = replace(number, steps=steps_in(samples.all, unit.results, limit, limits))
    change = exact_change(baseline, samples.now)
    return _with_estimate(number, change, limits, unit.tick(metric))


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
    number: Compared,
    found: Estimate,
    limits: HistoryLimits,
    tick: float,
    gap: float = 0.0,
    *,
    gross: bool = False,
) -> Evaluated:
    level = found.baseline
    exact = found.method == "exact"
    number = replace(
        number,
        method=found.method,
        baseline=found.baseline_interval(limits.confidence),
        current=found.current,
        change=found.interval(limits.confidence),
        relative=found.change / level if level else None,
        p=None if exact else found.p,
        noise=abs(found.noise / level) if level else None,
    )
    return Evaluated(number, found, gap, tick, gross)


def _without_estimate(
    number: Compared, samples: MetricHistory, limits: HistoryLimits, *, gross: bool
) -> Evaluated:
    """Evaluate a metric of unknown noise: only a gross change says anything."""
    level, current = median(samples.baseline_points.values), median(samples.now.values)
    change = current - level
    number = replace(number, current=current, baseline=_median_interval(samples.baseline_points))
    if gross and exceeds_limits(number, change):
        number = replace(
            number,
            method="gross",
            change=Interval(change, None, None),
            relative=change / level if level else None,
            reason=GROSS,
        )
        return Evaluated(number, gross=True)
    sessions = _sessions(samples.earlier)
    reason = f"{sessions} of about {ENOUGH} results so far: only changes above {FACTOR:g}x show"
    if sessions >= limits.min_results:
        reason = "most earlier times are shorter than a tick of the clock"
    return Evaluated(replace(number, judgement="too little", reason=reason))


def _with_gross(common: EvaluatedCommon, shift: float) -> EvaluatedCommon:
    """Judge a gross change of all operators of a clock, of which the noise is unknown."""
    if common.estimate is not None:
        return common
    judgement: CommonJudgement = "regression" if shift > 0 else "improvement"
    return dataclasses.replace(common, common=replace(common.common, judgement=judgement))


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
    unit: UnitHistory,
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
    members = [evaluated[metric] for metric in group.samples]
    relative = [one.number.relative for one in members]
    deviations = [share for share in relative if share is not None]
    if found is None:
        deviations = [*_deviations(group.samples.values())]
    shift = group.factors.change
    common = CommonChange(
        board_unit=unit.unit,
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
        return EvaluatedCommon(replace(common, judgement="too little"), None)
    in_pairs = sum(
        one.estimate is not None and one.estimate.method != "between sessions" for one in members
    )
    common = replace(
        common,
        change=found.interval(limits.confidence),
        p=found.p,
        noise=found.noise,
        # Pairs have an error of their own, to which sessions that are wild contribute.
        scatter_p=group.scatter_p if 2 * in_pairs < len(group.samples) else 1.0,
    )
    return EvaluatedCommon(common, found, _looks(unit, found, history, noise))


def _deviations(found: Iterable[MetricHistory]) -> Iterable[float]:
    """Yield the changes of operators of unknown noise, as shares."""
    for samples in found:
        if level := median(samples.baseline_points.values):
            yield median(samples.now.values) / level - 1
