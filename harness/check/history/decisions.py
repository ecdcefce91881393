"""What people decided about changes, and what that means for a comparison.

A change that nobody decided about is never forgotten: results that failed stay out of the baseline,
and a step within the baseline fails. A decision gives a series a level, which begins with a result:

- accepted: the baseline is the level, so the change is none any more;
- ignored: the same, but the change is shown as a note, until a date;
- reopened, or past its date: the baseline is what was before the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.check.history.comparison import Compared, HistoryComparison, MetricStep
from harness.check.history.samples import (
    Decision,
    Floats,
    History,
    Metric,
    Provenance,
    repeat_key,
)
from harness.records.result import microseconds, moment

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


class UsedResults(NamedTuple):
    """Which earlier results of a series a comparison uses, each of shape (n,).

    Attributes:
        noise: They show the noise; results whose verdict failed do not.
        baseline: They are the baseline.
        shift: Added to the values, so that those before an accepted change show its noise, too.
    """

    noise: Bools
    baseline: Bools
    shift: Floats


def used_results(
    decision: Decision | None,
    tested: Provenance,
    earlier: Sequence[Provenance],
    values: Floats,
    failed: Bools,
    baseline: Bools,
    *,
    rolling: bool,
) -> UsedResults:
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
    """
    no_shift = np.zeros(len(values))
    unchanged = UsedResults(~failed | baseline, baseline, no_shift)
    if decision is None:
        return unchanged
    starts = np.array([microseconds(result.started_utc) for result in earlier], np.int64)
    after = starts >= microseconds(decision.since_utc)
    before = ~after & ~failed
    if not decision.holds_on(moment(tested.started_utc).date()):
        return UsedResults(before, _newest(before), no_shift) if rolling else unchanged
    level = after & (~failed | (starts <= microseconds(decision.at_utc)))
    # The first night at an accepted level has nothing else to be compared with.
    if not level.any() or not (rolling or (baseline & ~after).any()):
        return unchanged
    shift = no_shift
    if before.any():
        shift[before] = np.median(values[level]) - np.median(values[before])
    return UsedResults(before | level, _newest(level), shift)


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
