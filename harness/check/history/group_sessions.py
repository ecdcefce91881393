"""Groups results by unit: candidate, baseline by decisions, earlier results that show the noise.

What people decided about changes, and what that means for a comparison.

A change that nobody decided about is never forgotten: results that failed stay out of the baseline,
and a step within the baseline fails. A decision gives a series a level, which begins with a result:

- accepted: the baseline is the level, so the change is none any more;
- ignored: the same, but the change is shown as a note, until a date;
- reopened, or past its date: the baseline is what was before the level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.check.history.comparison import Compared, HistoryComparison, MetricStep
from harness.check.history.samples import (
    Decision,
    Floats,
    History,
    Ints,
    Measured,
    Metric,
    Points,
    Provenance,
    Sample,
    numbered,
    occasion_of,
    origin_of,
    repeat_key,
    session_of,
)
from harness.errors import UsageError
from harness.records.result import microseconds, moment


@dataclass(frozen=True, eq=False)
class MetricHistory:
    """The values of a metric on one unit.

    Attributes:
        earlier: Values in earlier results that did not fail, oldest first. Those before an accepted
            change are moved to its level.
        baseline: True for the earlier results in the baseline, shape (n,).
        now: Values in the candidate results.
        series: Values in all earlier results, also of nights that failed; None for ``earlier``.
        noisy: Values that show the noise, those of nights that failed at most as spikes; None for
            ``earlier``.
        failed: Results of these nights.
    """

    earlier: Points
    baseline: np.ndarray
    now: Points
    series: Points | None = None
    noisy: Points | None = None
    failed: frozenset[int] = frozenset()

    @cached_property
    def baseline_points(self) -> Points:
        """The values in the baseline."""
        return self.earlier.where(self.baseline)

    @property
    def all(self) -> Points:
        """The values of the whole series, then the current ones."""
        return self.whole_series.followed_by(self.now)

    @property
    def whole_series(self) -> Points:
        """The values in all earlier results."""
        return self.earlier if self.series is None else self.series

    @property
    def for_noise(self) -> Points:
        """The values that show the noise."""
        return self.earlier if self.noisy is None else self.noisy

    @property
    def night_before(self) -> Points:
        """The values of the newest earlier session; none if the baseline has it."""
        series = self.whole_series
        newest = series.where(series.sessions == series.sessions[-1:])
        known = np.isin(newest.results, self.baseline_points.results)
        return newest.where(~known)

    def changed(self, change: Callable[[Points], Points]) -> MetricHistory:
        """Return the values after ``change``, for the same results."""
        series = None if self.series is None else change(self.series)
        noisy = None if self.noisy is None else change(self.noisy)
        sides = change(self.earlier), self.baseline, change(self.now)
        return MetricHistory(*sides, series, noisy, self.failed)


@dataclass(frozen=True, eq=False)
class UnitHistory:
    """All results of one unit.

    Attributes:
        unit: Name of the unit.
        earlier: Earlier results of any unit, oldest first.
    """

    unit: str
    earlier: tuple[Provenance, ...]
    _series: Mapping[Metric, tuple[tuple[int, ...], tuple[Sample, ...]]]
    _baseline: frozenset[int]
    _measured: tuple[Measured, ...]
    _history: History

    @cached_property
    def results(self) -> tuple[Provenance, ...]:
        """The earlier results, then the candidates; ``Points.results`` are indices into it."""
        return *self.earlier, *(item.provenance for item in self._measured)

    @cached_property
    def _units(self) -> list[str]:
        return [result.unit for result in self.earlier]

    @property
    def has_baseline(self) -> bool:
        """Whether the baseline has results of this unit."""
        return any(self.earlier[place].unit == self.unit for place in self._baseline)

    @cached_property
    def candidate_metrics(self) -> dict[Metric, None]:
        """The metrics of the candidates, in order of first occurrence."""
        return dict.fromkeys(metric for item in self._measured for metric in item.samples)

    def metrics(self) -> Iterator[tuple[Metric, MetricHistory]]:
        """Yield every metric of the candidates, then every other metric of the baseline."""
        first = self.candidate_metrics
        for metric in [*first, *(metric for metric in self._series if metric not in first)]:
            found = self.metric(metric)
            if len(found.now) or found.baseline.any():
                yield metric, found

    def metric(self, metric: Metric, of_unit: str | None = None) -> MetricHistory:
        """Return the values of a metric; earlier values are those of ``of_unit``, if given."""
        unit = of_unit or self.unit
        places, samples = self._series.get(metric, ((), ()))
        here = [
            (place, sample.value)
            for place, sample in zip(places, samples, strict=True)
            if self._units[place] == unit
        ]
        now = [
            (len(self.earlier) + index, item.samples[metric].value)
            for index, item in enumerate(self._measured)
            if metric in item.samples
        ]
        baseline = np.array([place in self._baseline for place, _ in here], bool)
        points = self._points(here)
        failed = np.array([place in self._failed for place, _ in here], bool)
        noise, used, shift = used_results(
            self._decisions.get(series_of(metric)) if unit == self.unit else None,
            self._measured[0].provenance,
            [self.earlier[place] for place, _ in here],
            points.values,
            failed,
            baseline,
            rolling=self._history.rolling,
        )
        shifted = points.with_values(points.values + shift)
        sides = shifted.where(noise), used[noise], self._points(now)
        return MetricHistory(*sides, points, shifted, self._failed)

    @cached_property
    def _failed(self) -> frozenset[int]:
        return frozenset(self._history.failed)

    @cached_property
    def _decisions(self) -> dict[Metric, Decision]:
        return decisions_for(self._history.decisions, self._measured[0].provenance)

    def _points(self, found: Sequence[tuple[int, float]]) -> Points:
        places = np.array([place for place, _ in found], np.int64)
        values = np.array([value for _, value in found], np.float64)
        return Points(values, self._sessions[places], self._origins[places], places)

    @cached_property
    def _sessions(self) -> Ints:
        return numbered(map(session_of, self.results))

    @cached_property
    def occasions(self) -> Ints:
        """Number of the occasion of each result, shape (results,)."""
        return numbered(map(occasion_of, self.results))

    @cached_property
    def _origins(self) -> Ints:
        return numbered(map(origin_of, self.results))

    @cached_property
    def emulated_time(self) -> bool:
        """Whether clocks count the steps of an emulator, in all results of which that is known."""
        return all(item.provenance.emulated_time for item in self._measured) and not any(
            result.emulated_time is False for result in self.earlier
        )

    @cached_property
    def programs(self) -> Ints:
        """Number of the firmware and model file of each result, shape (results,)."""
        return numbered(f"{result.build_id} {result.model_sha256}" for result in self.results)

    def tick(self, metric: Metric) -> float:
        """Return the smallest difference of times that the clock shows, in the metric's unit.

        0 for sizes, and for clocks that nothing is known of.
        """
        if metric.unit == "ticks":
            return 1.0
        known = (item.provenance.ticks.get(metric.clock, 0.0) for item in self._measured)
        return max(known, default=0.0) if metric.kind == "operator" else 0.0

    def executions(self, metric: Metric) -> tuple[float, float] | None:
        """Return the median number of executions per result, in the baseline and now.

        None if either has no result with this metric.
        """
        places, samples = self._series.get(metric, ((), ()))
        old = [
            sample.count
            for place, sample in zip(places, samples, strict=True)
            if place in self._baseline and self.earlier[place].unit == self.unit
        ]
        new = [item.samples[metric].count for item in self._measured if metric in item.samples]
        return (float(np.median(old)), float(np.median(new))) if old and new else None

    def other_units(self) -> list[str]:
        """Return the other units in the baseline, the one with the most results first."""
        units = [self.earlier[place].unit for place in sorted(self._baseline)]
        found = dict.fromkeys(unit for unit in units if unit != self.unit)
        return sorted(found, key=units.count, reverse=True)


def group_by_unit(
    history: History, candidates: Sequence[Measured]
) -> tuple[list[UnitHistory], list[UnitHistory]]:
    """Group results by unit.

    Results in the history with the same origin, unit and occasion as a candidate are repeats: they
    become candidates, unless they are in the baseline. Results of the same origin on other units
    are witnesses.

    Args:
        history: Earlier results; candidates among them are ignored.
        candidates: One or more results of the same commit.

    Returns:
        The units of the candidates, and the units of the witnesses.

    Raises:
        UsageError: The candidates are of several commits.
    """
    ids = {item.provenance.id for item in candidates}
    keys = {repeat_key(item.provenance) for item in candidates}
    origins = {origin_of(item.provenance) for item in candidates}
    if len(origins) > 1:
        commits = ", ".join(sorted({item.provenance.commit or "unknown" for item in candidates}))
        raise UsageError(
            f"results of several commits cannot be compared as one: {commits}",
            hint="compare the results of each commit separately",
        )
    units = {item.provenance.unit for item in candidates}
    baseline = {p for p in history.baseline if history.results[p].id not in ids}
    repeats, witnesses, earlier = [], [], []
    for index, result in enumerate(history.results):
        if result.id in ids:
            continue
        if index not in baseline and repeat_key(result) in keys:
            repeats.append(index)
        elif index not in baseline and origin_of(result) in origins and result.unit not in units:
            witnesses.append(index)
        else:
            earlier.append(index)
    kept = frozenset(earlier)
    series = {item.metric: _only(item.results, item.samples, kept) for item in history.series}

    def by_unit(results: Sequence[Measured]) -> list[UnitHistory]:
        ordered = sorted(results, key=lambda item: microseconds(item.provenance.started_utc))
        return [
            UnitHistory(
                unit,
                history.results,
                series,
                frozenset(baseline),
                tuple(item for item in ordered if item.provenance.unit == unit),
                history,
            )
            for unit in dict.fromkeys(item.provenance.unit for item in results)
        ]

    return (
        by_unit([*candidates, *_measured(history, repeats)]),
        by_unit(_measured(history, witnesses)),
    )


def _only(
    results: tuple[int, ...], samples: tuple[Sample, ...], kept: frozenset[int]
) -> tuple[tuple[int, ...], tuple[Sample, ...]]:
    if kept.issuperset(results):
        return results, samples
    pairs = [pair for pair in zip(results, samples, strict=True) if pair[0] in kept]
    return tuple(place for place, _ in pairs), tuple(sample for _, sample in pairs)


def _measured(history: History, places: Sequence[int]) -> list[Measured]:
    found: dict[int, dict[Metric, Sample]] = {place: {} for place in places}
    for series in history.series:
        for place, sample in zip(series.results, series.samples, strict=True):
            if place in found:
                found[place][series.metric] = sample
    return [Measured(history.results[place], samples) for place, samples in found.items()]


Bools = npt.NDArray[np.bool_]

LEVEL_RESULTS: Final = 20
"""The newest results of a level that become the baseline."""


def series_of(metric: Metric) -> Metric:
    """Return the series of a metric: operators have one for all statistics."""
    return replace(metric, statistic="") if metric.kind == "operator" else metric


def decisions_for(decisions: Iterable[Decision], tested: Provenance) -> dict[Metric, Decision]:
    """Return the decisions that count for a result, by series: the newest of each.

    Decisions about levels that began after the result do not count for it.

    Args:
        decisions: Decisions in the order in which they were made.
        tested: The result.
    """
    began = microseconds(tested.started_utc)
    return {
        decision.metric: decision
        for decision in decisions
        if decision.unit == tested.unit and microseconds(decision.since_utc) <= began
    }


def used_results(
    decision: Decision | None,
    tested: Provenance,
    earlier: Sequence[Provenance],
    values: Floats,
    failed: Bools,
    baseline: Bools,
    *,
    rolling: bool,
) -> tuple[Bools, Bools, Floats]:
    """Return which earlier results of a series a comparison uses.

    A baseline that a person named or gave as a commit is replaced only by a level that holds, and
    only if it is older than that.

    Args:
        decision: The decision about the series; None for no decision.
        tested: A result of the evaluated night.
        earlier: Earlier results of its unit, oldest first.
        values: The values, shape (n,).
        failed: Whether the verdict of each failed, shape (n,).
        baseline: Which of them are the baseline without the decision, shape (n,).
        rolling: Whether this baseline is the newest results.

    Returns:
        Each of shape (n,): True for those that show the noise, which results whose verdict failed
        do not; True for those of the baseline; and what is added to the values, so that those
        before an accepted change show its noise, too.
    """
    no_shift = np.zeros(len(values))
    unchanged = ~failed | baseline, baseline, no_shift
    if decision is None:
        return unchanged
    starts = np.array([microseconds(result.started_utc) for result in earlier], np.int64)
    after = starts >= microseconds(decision.since_utc)
    before = ~after & ~failed
    if not decision.holds_on(moment(tested.started_utc).date()):
        return (before, _newest(before), no_shift) if rolling else unchanged
    level = after & (~failed | (starts <= microseconds(decision.at_utc)))
    # The first night at an accepted level has nothing else to be compared with.
    if not level.any() or not (rolling or (baseline & ~after).any()):
        return unchanged
    shift = no_shift
    if before.any():
        shift[~after] = np.median(values[level]) - np.median(values[before])
    return before | level, _newest(level), shift


def with_decisions(
    comparison: HistoryComparison, history: History, tested: Sequence[Provenance]
) -> HistoryComparison:
    """Add the decisions that count to the numbers of a comparison, and mark undecided steps.

    Args:
        comparison: The comparison.
        history: Its history.
        tested: The results that were compared.
    """
    numbers = tuple(
        _with_decision(number, history, result)
        for number in comparison.numbers
        for result in [next(item for item in tested if item.unit == number.board_unit)]
    )
    return replace(comparison, numbers=numbers)


def _with_decision(number: Compared, history: History, tested: Provenance) -> Compared:
    decision = decisions_for(history.decisions, tested).get(series_of(number.metric))
    if decision is None:
        return replace(number, steps=_with_undecided(number.steps, history, tested.unit))
    holds = decision.holds_on(moment(tested.started_utc).date())
    at = microseconds(decision.at_utc)
    if holds:
        later = [step for step in number.steps if microseconds(step.first_bad_utc) > at]
        steps = _with_undecided(later, history, tested.unit)
    else:
        steps = number.steps
    number = replace(number, steps=steps, decision=decision, decision_holds=holds)
    if not holds and number.judgement == "appeared":
        reason = f"its baseline before {decision.since_utc} is not in the history any more"
        return replace(number, judgement="too little", reason=reason)
    alone = holds and not _has_level(decision, history, tested)
    if alone and number.judgement == "regression":
        return replace(number, judgement="same")
    return number


def _has_level(decision: Decision, history: History, tested: Provenance) -> bool:
    """Return whether the history has results of other nights at the level of a decision."""
    since = microseconds(decision.since_utc)
    others = {
        index
        for index, result in enumerate(history.results)
        if result.unit == decision.unit
        and microseconds(result.started_utc) >= since
        and repeat_key(result) != repeat_key(tested)
    }
    return any(
        place in others
        for series in history.series
        if series_of(series.metric) == decision.metric
        for place in series.results
    )


def _with_undecided(
    steps: Sequence[MetricStep], history: History, unit: str
) -> tuple[MetricStep, ...]:
    """Mark the last step if it is an increase within a rolling baseline.

    Such a baseline consists partly of results after the step, so a comparison with it no longer
    shows the change. Without a decision the step itself has to.
    """
    starts = [history.results[place] for place in history.baseline]
    newest = max((microseconds(r.started_utc) for r in starts if r.unit == unit), default=None)
    if not (steps and history.rolling and newest is not None):
        return tuple(steps)
    last = steps[-1]
    if last.size.value <= 0 or microseconds(last.first_bad_utc) > newest:
        return tuple(steps)
    return (*steps[:-1], replace(last, undecided=True))


def _newest(chosen: Bools) -> Bools:
    found = np.zeros(len(chosen), bool)
    found[np.flatnonzero(chosen)[-LEVEL_RESULTS:]] = True
    return found
