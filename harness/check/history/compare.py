"""Compares results with their history: every metric, the worst change first.

Units of one board type differ, at least in their oscillators and flash wait states, so a unit is
compared with its own results. If the baseline has no result of the unit, results of another unit
are used, scaled by the median ratio between both units over commits that both measured. Other
units then confirm a change seen on one unit.

Of one unit, what the operators of a clock share is evaluated first, the common factor of each run.
Then each metric is estimated by itself. All are judged together, by the same rule: a first look
finds what is suspect, and what measures it again decides.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
)
from harness.check.history.estimate import Estimate, Looks, between, exact, paired
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
    ROUNDING,
    SINGLE_FACTOR,
    CommonFactors,
    SessionNoise,
    common_factors,
    exact_metrics,
    find_modes,
    gross_direction,
    modes_of,
    session_noise,
    share_moved,
    typical,
)
from harness.check.history.pairs import exceeds_limits, is_between_modes, judge_in_pairs
from harness.check.history.samples import (
    Floats,
    History,
    HistoryLimits,
    Measured,
    Metric,
    Points,
    median,
)
from harness.check.history.steps import ANCHOR, crept, steps_in
from harness.plugins import require
from harness.printing import counted
from harness.records.trace import is_wrapper
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

FEWEST_PAIRS: Final = 3
"""Pairs from which their scatter may show that a suspect change holds."""

ENOUGH_PAIRS: Final = 5
"""Pairs after which a change that they do not show beyond chance counts as none."""

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
    earlier = {
        (item.number.board_unit, item.number.metric): item.earlier
        for item in evaluated
        if item.earlier is not None
    }
    numbers, commons = judge_in_pairs(numbers, commons, history.pairs, limits, earlier)
    if not every:
        numbers = most_significant(numbers)
    numbers = _with_confirmations(numbers, [*units, *witnesses], limits)
    if durations:
        numbers = [_with_modes_within(number, durations) for number in numbers]
    seen = [n.detectable for n in numbers if n.metric.kind == "operator" and _on_both_sides(n)]
    known = [np.inf if share is None else share for share in seen]
    commit = candidates[0].provenance.commit if candidates else ""
    newest = history.newest_of_baseline(candidates[-1].provenance.unit) if candidates else None
    before = "" if newest is None else newest.commit
    found = HistoryComparison(
        description=history.description,
        limits=limits,
        commit=commit,
        before=before if before != commit else "",
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
            notes.append(f"{unit.unit}: no baseline yet: no earlier result has these settings")
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
        if is_wrapper(metric.name) or (differing and _depends_on_executions(metric)):
            continue
        samples = scale_to_unit(unit, metric, other) if other else found
        if samples is None:
            left_out += 1
        else:
            chosen[metric] = samples
    if left_out:
        reason = f"fewer than {MIN_COMMON_COMMITS} commits were measured on both units"
        notes.append(f"{unit.unit}: {counted(left_out, 'operator')} skipped: {reason}")
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Chances:
    """The p-values that changes need.

    Attributes:
        adjusted: P-value adjusted for the number of comparisons, by p-value.
        limit: Largest adjusted p-value of a change.
        single: P-value that a single change among unchanged numbers needs.
        lenient: P-value of a change that pairs are worth their time for: one unchanged number in
            all of them has it.
    """

    adjusted: Mapping[float, float]
    limit: float
    single: float
    lenient: float

    @classmethod
    def of(
        cls, evaluated: Sequence[Evaluated], commons: Sequence[EvaluatedCommon], limit: float
    ) -> _Chances:
        """Return those of one comparison."""
        found = [item.number.p for item in evaluated] + [item.common.p for item in commons]
        tests = [p for p in found if p is not None]
        lenient = 1 / max(len(tests), 1)
        tests += [_step_p(item.number) for item in evaluated]
        adjusted = dict(zip(tests, _adjust_p_values(tests), strict=True)) if tests else {}
        return cls(adjusted, limit, limit / max(len(tests), 1), lenient)

    def certain(self, p: float | None) -> bool:
        """Return whether a change with this p-value is no chance."""
        return p is not None and self.adjusted[p] <= self.limit


def _with_judgements(
    evaluated: Sequence[Evaluated], commons: Sequence[EvaluatedCommon], limits: HistoryLimits
) -> tuple[list[Compared], list[CommonChange]]:
    """Adjust all p-values together, and set judgements and detectable changes."""
    chances = _Chances.of(evaluated, commons, limits.fdr)
    judged = [_with_common_judgement(item, chances) for item in commons]
    shifts = {
        (common.board_unit, common.clock, common.statistic): common.change.value
        for common in judged
        if common.judgement in _CHANGED
    }
    numbers = []
    for item in evaluated:
        number, metric = item.number, item.number.metric
        steps = number.steps if chances.adjusted[_step_p(number)] <= limits.fdr else ()
        number = replace(
            number,
            q=None if number.p is None else chances.adjusted[number.p],
            steps=steps,
            detectable=_detectable(item, chances.single),
        )
        shift = shifts.get((number.board_unit, metric.clock, metric.statistic), 0.0)
        found = _with_judgement(item, number, shift, chances)
        slow = item.crept is not None and found.judgement in ("same", "changed", "improvement")
        numbers.append(item.crept if slow and item.crept is not None else found)
    return numbers, [_scattered(common, numbers) for common in judged]


def _operator_of(number: Compared) -> tuple[str, Metric]:
    """Return the unit and the metric, of an operator without its statistic."""
    return number.board_unit, series_of(number.metric)


def _step_p(number: Compared) -> float:
    """Return the smallest p-value of a step; numbers without a step count as tests, too."""
    return min((step.p for step in number.steps), default=1.0)


def _detectable(item: Evaluated, needed: float) -> float | None:
    """Return the change that would have been found, as a share."""
    if item.estimate is None or not item.estimate.baseline:
        return None
    level = abs(item.estimate.baseline)
    limit = max(item.number.relative_limit * level, item.number.absolute_limit)
    return _finite(item.estimate.detectable(needed, limit, item.tick) / level)


def _outcome(
    looks: Looks, chances: _Chances, certain: float, gross: bool, shown: Callable[[Estimate], float]
) -> tuple[Judgement, float]:
    """Judge a change by when it was measured.

    Args:
        looks: The change in the first session and in others.
        chances: The p-values that changes need.
        certain: The change of all sessions together, if it is no chance; else 0.
        gross: No noise explains it.
        shown: Returns the change of an estimate if it exceeds both limits, else 0.

    Returns:
        ``same``, ``suspect`` or ``regression``, whatever the direction, and the change: with
        ``same`` the one that is gone, or 0.
    """
    first, before = shown(looks.first), looks.before
    change = first if first and looks.first.p <= chances.single else certain
    if not change or (looks.again is not None and shown(looks.again) * change <= 0):
        return "same", change
    # Few are suspect, so the other night is not adjusted for all numbers.
    lasting = before is not None and shown(before) * change > 0 and before.p <= chances.limit
    return "regression" if lasting or gross else "suspect", change


def _with_judgement(item: Evaluated, number: Compared, shift: float, chances: _Chances) -> Compared:
    """Set the judgement of a number, after a shift of all operators by this share."""
    if number.change is None or number.baseline is None:
        return number
    level = number.baseline.value

    def own(change: float) -> float:
        """Return a change beyond both limits without what all operators did, or 0."""
        if shift:
            # An operator differs from the others only if it also differs from its own baseline: it
            # may be the one that did not change.
            whole = change + shift * (level + change)
            change = min(change, whole, key=abs) if change * whole > 0 else 0.0
        if is_between_modes(number, change) and not item.gross:
            return 0.0
        return change if exceeds_limits(number, change) else 0.0

    certain = number.method == "exact" or item.gross or chances.certain(number.p)
    change = own(number.change.value) if certain else 0.0
    if item.looks is None:
        if change:
            return replace(number, judgement="regression" if change > 0 else "improvement")
        differs = number.method == "exact" and number.change.value
        return replace(number, judgement="changed" if differs else "same")
    worse, change = _outcome(item.looks, chances, change, item.gross, lambda at: own(at.change))
    if worse == "same":
        gone = change / item.looks.first.baseline if item.looks.first.baseline else 0.0
        rare = own(item.looks.lenient.change) > 0 and item.looks.lenient.p <= chances.lenient
        return replace(number, judgement="same", gone=gone or None, unsure=rare and not gone)
    return replace(number, judgement=worse if change > 0 else "improvement")


def _with_common_judgement(item: EvaluatedCommon, chances: _Chances) -> CommonChange:
    common = item.common
    if item.estimate is None or common.p is None:
        return common
    common = replace(
        common,
        q=chances.adjusted[common.p],
        detectable=_finite(item.estimate.detectable(chances.single, common.relative_limit, 0.0)),
    )

    def beyond(change: float) -> float:
        return change if abs(change) > common.relative_limit else 0.0

    change = beyond(common.change.value) if chances.certain(common.p) else 0.0
    worse: Judgement = "regression" if change else "same"
    if item.looks is not None:
        worse, change = _outcome(item.looks, chances, change, False, lambda at: beyond(at.change))
        rare = item.looks.lenient.p <= chances.lenient
        common = replace(common, unsure=rare and beyond(item.looks.lenient.change) > 0)
    if worse not in ("regression", "suspect"):
        return common
    return replace(common, judgement=worse if change > 0 else "improvement")


def _scattered(common: CommonChange, numbers: Sequence[Compared]) -> CommonChange:
    """Judge many changes of a unit's operators by different factors as one."""
    of = [
        number
        for number in numbers
        if number.board_unit == common.board_unit
        and (number.metric.clock, number.metric.statistic) == (common.clock, common.statistic)
    ]
    changed = [number for number in of if number.judgement in _CHANGED]
    if common.judgement != "same" or 2 * len(changed) <= common.operators:
        return common
    certain = sum(number.judgement != "suspect" for number in changed)
    judgement: CommonJudgement = "scattered" if 2 * certain > common.operators else "suspect"
    return replace(common, judgement=judgement, moved=len(changed))


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


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluated:
    """A metric with the estimate that its judgement needs.

    Attributes:
        number: The metric, not judged.
        estimate: Its change; None if it is unknown.
        tick: Smallest difference that the clock shows, in the metric's unit.
        gross: No noise explains its change, whatever its estimate says.
        looks: Its change by when it was measured; None if it was compared in pairs, or exactly.
        crept: The metric, judged by a level of long ago; None if it has not crept away from that.
        earlier: Its values in earlier sound sessions, without the common factor; None if exact.
    """

    number: Compared
    estimate: Estimate | None = None
    tick: float = 0.0
    gross: bool = False
    looks: Looks | None = None
    crept: Compared | None = None
    earlier: Floats | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluatedCommon:
    """What all operators of a clock have in common, with its estimate."""

    common: CommonChange
    estimate: Estimate | None
    looks: Looks | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _OperatorGroup:
    """Operators of one clock by one statistic, without their common factor.

    Attributes:
        samples: Their values.
        factors: The common factor; None of few operators.
        noises: The noise of each between sessions, where it is known.
        pairs: The change of each within sessions with both sides, if there are enough of them.
    """

    samples: Mapping[Metric, MetricHistory]
    factors: CommonFactors | None
    noises: Mapping[Metric, SessionNoise]
    pairs: Mapping[Metric, Estimate]

    @classmethod
    def of(
        cls, unit: UnitHistory, members: Mapping[Metric, MetricHistory], limits: HistoryLimits
    ) -> _OperatorGroup:
        """Separate the common factor, and learn the noise that is left."""
        factors = common_factors(members, len(unit.results))
        samples = {
            m: raw if factors is None else factors.without(raw) for m, raw in members.items()
        }
        noises, pairs = {}, {}
        for metric, one in samples.items():
            rounding = ROUNDING * unit.tick(metric)
            noise = session_noise(one.for_noise, limits.min_results, rounding, one.failed)
            if noise is not None:
                noises[metric] = noise
            in_turns = paired(one.baseline_points, one.now, limits.min_results, rounding)
            if in_turns is not None:
                pairs[metric] = in_turns
        spread = typical([noise.spread for noise in noises.values()])
        correlation = typical([noise.correlation for noise in noises.values()])
        error = typical([one.error / one.baseline for one in pairs.values() if one.baseline > 0])
        return cls(
            samples,
            factors,
            {metric: noise.moderated(spread, correlation) for metric, noise in noises.items()},
            {metric: pair.moderated(error) for metric, pair in pairs.items()},
        )


def compare_unit(
    unit: UnitHistory, found: Mapping[Metric, MetricHistory], limits: HistoryLimits
) -> tuple[list[Evaluated], list[EvaluatedCommon]]:
    """Evaluate metrics of a unit, without adjustment for multiple comparisons.

    Args:
        unit: All results of the unit.
        found: The earlier and current values of its metrics.
        limits: When a change counts.
    """
    without_noise = exact_metrics(unit, found, limits)
    groups: dict[tuple[str, str, str], dict[Metric, MetricHistory]] = defaultdict(dict)
    for metric, samples in found.items():
        if metric not in without_noise and len(samples.now) and samples.baseline.any():
            groups[metric.clock, metric.statistic, metric.unit][metric] = samples
    evaluated: dict[Metric, Evaluated] = {}
    commons = []
    prepared = {key: _OperatorGroup.of(unit, of, limits) for key, of in groups.items()}
    gross = _gross_metrics(unit, prepared.values())
    shared = _gross_clocks(prepared, limits)
    for (clock, statistic, _), group in prepared.items():
        for metric in group.samples:
            evaluated[metric] = _evaluate(unit, metric, group, limits, series_of(metric) in gross)
        if group.factors is not None:
            members = [evaluated[metric] for metric in group.samples]
            common = _common(unit, clock, statistic, group.factors, members, limits)
            commons.append(_with_gross(common, group.factors.change) if clock in shared else common)
    for metric, samples in found.items():
        if metric not in evaluated:
            evaluated[metric] = _evaluate_exactly(unit, metric, samples, limits)
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


def _evaluate(
    unit: UnitHistory, metric: Metric, group: _OperatorGroup, limits: HistoryLimits, gross: bool
) -> Evaluated:
    samples, noise, pairs = group.samples[metric], group.noises.get(metric), group.pairs.get(metric)
    number = replace(
        _number(unit, metric, samples, limits),
        modes=modes_of(samples.earlier),
        common=0.0 if group.factors is None else group.factors.change,
    )
    number = _with_steps(unit, number, samples, limits, noise.correlation if noise else 0.0)
    found, looks = _changes(unit, samples, noise, pairs)
    if found is None:
        return _without_estimate(number, samples, limits, gross)
    number = _with_change(number, found, limits.confidence)
    slow = _crept(number, samples, noise.correlation if noise else 0.0)
    earlier = samples.earlier.cells_in_time.values
    return Evaluated(number, found, unit.tick(metric), gross, looks, slow, earlier)


def _changes(
    unit: UnitHistory,
    samples: MetricHistory,
    noise: SessionNoise | None,
    pairs: Estimate | None,
) -> tuple[Estimate | None, Looks | None]:
    """Return the change by the design that the results allow, and by when it was measured."""
    if pairs is not None:
        return pairs, None
    baseline, now = samples.baseline_points, samples.now
    if noise is None:
        return None, None
    found = between(baseline, now, noise)
    occasions = unit.occasions[now.results]
    tonight = occasions == occasions[0]
    before = samples.night_before if tonight.all() else now.where(~tonight)
    cells = now.where(tonight).cells_in_time
    first, again = cells.where(np.arange(len(cells)) == 0), cells.where(np.arange(len(cells)) > 0)
    return found, Looks(
        between(baseline, first, noise),
        between(baseline, again, noise) if len(again) else None,
        between(baseline, before, noise) if len(before) else None,
        between(baseline, first, noise.lenient),
    )


def _crept(number: Compared, samples: MetricHistory, correlation: float) -> Compared | None:
    """Return a number that grew beyond its limits by steps that were too small to be seen."""
    levels = crept(samples.earlier, samples.now, correlation)
    if levels is None or not levels[0]:
        return None
    return _slowly(number, *levels, f"the level of {ANCHOR[0]} to {ANCHOR[1]} results before")


def _slowly(number: Compared, level: float, current: float, since: str) -> Compared | None:
    """Return a number that grew from a level beyond its limits; None if it did not."""
    change = current - level
    number = replace(number, baseline=Interval(level, None, None))
    if change <= 0 or not exceeds_limits(number, change):
        return None
    return replace(
        number,
        judgement="regression",
        method="slowly",
        current=current,
        change=Interval(change, None, None),
        relative=change / level if level else None,
        p=None,
        q=None,
        reason=f"in steps that are each within the limits, from {since}",
    )


def _evaluate_exactly(
    unit: UnitHistory, metric: Metric, samples: MetricHistory, limits: HistoryLimits
) -> Evaluated:
    """Evaluate a metric without noise, or one that only one side has.

    It is compared with the newest result of the baseline. Of several results now, the largest
    counts.
    """
    number = _number(unit, metric, samples, limits)
    baseline = samples.baseline_points
    if not len(samples.now):
        level, reason = _median_interval(baseline), "in the baseline, but not in the result"
        return Evaluated(replace(number, judgement="vanished", baseline=level, reason=reason))
    if not len(baseline):
        current, reason = median(samples.now.values), "in the result, but not in the baseline"
        return Evaluated(replace(number, judgement="appeared", current=current, reason=reason))
    current = float(samples.now.values.max())
    found = exact(float(baseline.values[-1]), current)
    number = _with_change(number, found, limits.confidence)
    number = _with_steps(unit, number, samples, limits)
    usual = float(np.sort(baseline.values)[(len(baseline) - 1) // 2])
    slow = _slowly(number, usual, current, f"the median of {len(baseline)} results")
    return Evaluated(number, found, unit.tick(metric), crept=slow)


def _with_steps(
    unit: UnitHistory,
    number: Compared,
    samples: MetricHistory,
    limits: HistoryLimits,
    correlation: float = 0.0,
) -> Compared:
    bounds = number.relative_limit, number.absolute_limit
    steps = steps_in(samples.all, unit.results, bounds, limits, correlation)
    return replace(number, steps=steps)


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


def _with_change(number: Compared, found: Estimate, confidence: float) -> Compared:
    """Return a number with an estimate of its change, in intervals of this confidence."""
    level = found.baseline
    return replace(
        number,
        method=found.method,
        baseline=found.baseline_interval(confidence),
        current=found.current,
        change=found.interval(confidence),
        relative=found.change / level if level else None,
        p=None if found.method == "exact" else found.p,
        noise=abs(found.noise / level) if level else None,
    )


def _without_estimate(
    number: Compared, samples: MetricHistory, limits: HistoryLimits, gross: bool
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


def _common(
    unit: UnitHistory,
    clock: str,
    statistic: str,
    factors: CommonFactors,
    members: Sequence[Evaluated],
    limits: HistoryLimits,
) -> EvaluatedCommon:
    history, shift = factors.history, factors.change
    noise = session_noise(history.for_noise, limits.min_results, 0.0, history.failed)
    pairs = paired(history.baseline_points, history.now, limits.min_results, 0.0)
    found, looks = _changes(unit, history, noise, pairs)
    relative = [one.number.relative for one in members]
    deviations = [share for share in relative if share is not None]
    if found is None:
        deviations = [_deviation(one.number) for one in members]
    common = CommonChange(
        board_unit=unit.unit,
        clock=clock,
        statistic=statistic,
        operators=len(deviations),
        moved=share_moved([(1 + one) * (1 + shift) - 1 for one in deviations], shift),
        change=Interval(shift, None, None) if found is None else found.interval(limits.confidence),
        p=None if found is None else found.p,
        noise=None if found is None else found.noise,
        typical=float(np.median(np.abs(deviations))) if deviations else 0.0,
        relative_limit=limits.relative,
        judgement="too little" if found is None else "same",
    )
    return EvaluatedCommon(common, found, looks)


def _deviation(number: Compared) -> float:
    """Return the change of an operator of unknown noise, as a share."""
    level = 0.0 if number.baseline is None else number.baseline.value
    return (number.current or 0.0) / level - 1 if level else 0.0
