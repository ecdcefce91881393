"""What a decision changes in the numbers of a comparison."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from harness import (
    Compared,
    Decision,
    DecisionKind,
    History,
    HistoryComparison,
    HistoryLimits,
    Interval,
    Judgement,
    Metric,
    MetricStep,
    Sample,
    Series,
)
from harness.check.history.group_sessions import series_of, used_results, with_decisions
from tests.support.histories import at, decision, operator, results

COUNT = 10
"""Nights of the history, each a result in its rolling baseline; the next one is compared."""


def decided(
    judgement: Judgement = "same",
    made: Decision | None = None,
    *,
    steps: tuple[MetricStep, ...] = (),
    nights: tuple[int, ...] = tuple(range(COUNT)),
) -> Compared:
    """A number after the decision; its operator has results in ``nights``, another in all."""
    *earlier, tested = results(COUNT + 1)
    series = [
        Series(metric, places, (Sample(1.0),) * len(places))
        for metric, places in ((operator(), nights), (operator(1), tuple(range(COUNT))))
    ]
    history = History(
        tuple(earlier),
        tuple(series),
        tuple(range(COUNT)),
        rolling=True,
        decisions=() if made is None else (made,),
    )
    number = Compared(
        metric=operator(), board_unit="one", judgement=judgement, steps=steps, reason="as it was"
    )
    comparison = HistoryComparison(
        description="", limits=HistoryLimits(), commit="c", units=("one",), numbers=(number,)
    )
    [found] = with_decisions(comparison, history, [tested]).numbers
    return found


def step(size: float, night: int) -> MetricStep:
    return MetricStep(
        last_good=f"c{night - 1}",
        first_bad=f"c{night}",
        last_good_utc=at(night - 1),
        first_bad_utc=at(night),
        size=Interval(size, size, size),
        before=100.0,
        p=0.0,
    )


@pytest.mark.parametrize(
    ("size", "night", "undecided"),
    [(0.5, 5, True), (0.5, 9, True), (0.5, 10, False), (0.0, 5, False), (-0.5, 5, False)],
)
def test_only_an_increase_that_the_baseline_contains_is_undecided(
    size: float, night: int, undecided: bool
) -> None:
    found = decided(steps=(step(9, 2), step(size, night))).steps
    assert [(one.size.value, one.undecided) for one in found] == [(9, False), (size, undecided)]


def test_a_step_after_the_decided_level_is_undecided() -> None:
    found = decided(made=decision("accepted", 3, 4), steps=(step(9, 3), step(8, 5)))
    assert [(one.first_bad, one.undecided) for one in found.steps] == [("c5", True)]
    assert found.decision_holds


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("reopened", "appeared", "too little"),
        ("reopened", "regression", "regression"),
        ("accepted", "appeared", "appeared"),
        ("accepted", "regression", "regression"),
    ],
)
def test_a_reopened_change_whose_baseline_is_gone_is_not_a_new_operator(
    kind: DecisionKind, before: Judgement, after: Judgement
) -> None:
    found = decided(before, decision(kind, 2, 2))
    assert found.judgement == after
    if after == "too little":
        assert at(2) in found.reason
    else:
        assert found.reason == "as it was"


@pytest.mark.parametrize(
    ("nights", "judgement"),
    [
        ((0, 1, 2, 3, 4, 5), "regression"),  # compared with night 5
        ((0, 1, 2, 3, 4), "same"),  # compared with what was before the accepted change
    ],
)
def test_the_first_night_at_an_accepted_level_is_no_regression_but_the_second_may_be(
    nights: tuple[int, ...], judgement: Judgement
) -> None:
    assert decided("regression", decision("accepted", 5, 5), nights=nights).judgement == judgement


def test_an_operator_is_one_series_and_every_statistic_of_a_size_another() -> None:
    assert series_of(operator(statistic="p50")) == operator(statistic="")
    peak = Metric("allocator", "planned", "peak_bytes", "bytes")
    assert series_of(peak) == peak


def test_a_level_without_results_before_it_moves_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a median of nothing would warn
        noise, baseline, shift = used_results(
            decision("accepted", 0, 2),
            results(4)[-1],
            results(3),
            np.array([100.0, 110.0, 120.0]),
            np.zeros(3, bool),
            np.ones(3, bool),
            rolling=True,
        )
    assert shift.tolist() == [0, 0, 0]
    assert noise.all()
    assert baseline.all()
