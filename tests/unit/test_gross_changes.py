"""Changes that no noise explains, however few results there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness import (
    Compared,
    HistoryComparison,
    HistoryLimits,
    Interval,
    Metric,
    Sample,
    Verdict,
    compare_with_history,
)
from harness.check.history.comparison import CommonChange
from harness.check.history.noise import gross_direction
from tests.support.histories import HistoryBuilder, history_checks, operator, size

TIMES = st.integers(0, 10**6)


def compared(
    before: Sequence[dict[Metric, float]],
    now: dict[Metric, float],
    *,
    tick: float = 0.0,
    emulated: bool | None = None,
    required: bool = False,
) -> HistoryComparison:
    builder = HistoryBuilder()
    for night, values in enumerate(before):
        builder.earlier(f"s{night}", f"c{night}", values)
    builder.now("now", "new", now)
    history = replace(builder.history(), required=required)
    history = replace(
        history, results=tuple(replace(one, emulated_time=emulated) for one in history.results)
    )
    judged = [
        replace(one, provenance=replace(one.provenance, emulated_time=emulated, ticks={"": tick}))
        for one in builder.judged
    ]
    return compare_with_history(history, judged, HistoryLimits())


def both(value: float, number: int = 0, fastest: float | None = None) -> dict[Metric, float]:
    """The two statistics of an operator that are compared."""
    return {
        operator(number, "min"): value if fastest is None else fastest,
        operator(number, "p50"): value,
    }


def failed(comparison: HistoryComparison) -> list[str]:
    return [check.code for check in history_checks(comparison) if check.failed]


@pytest.mark.parametrize("nights", [1, 2, 4])
def test_a_gross_change_fails_from_the_first_result_on(nights: int) -> None:
    noisy = [both(10_000.0 + 400 * night) for night in range(nights)]
    comparison = compared(noisy, both(30_000.0))
    [number] = comparison.numbers
    assert (number.judgement, number.method) == ("regression", "gross")
    assert failed(comparison) == ["H01"]
    [check] = [check for check in history_checks(comparison) if check.code == "H01"]
    assert "no noise explains it" in check.reason
    [number] = compared(noisy, both(4_000.0)).numbers
    assert number.judgement == "improvement"


def test_what_noise_may_explain_has_too_few_results() -> None:
    # Less than twice; within everything seen; only the median, which one disturbance may double.
    for before, now in (
        ([both(10_000.0)], both(19_000.0)),
        ([both(10_000.0), both(9_000.0), both(40_000.0)], both(39_000.0)),
        ([both(10_000.0)], both(50_000.0, fastest=10_000.0)),
    ):
        [number] = compared(before, now).numbers
        assert number.judgement == "too little"


def test_the_resolution_of_a_clock_explains_a_few_ticks() -> None:
    def judgement(before: int, now: int, emulated: bool | None = None) -> str:
        comparison = compared([both(1e6 * before)], both(1e6 * now), tick=1e6, emulated=emulated)
        return comparison.numbers[0].judgement

    assert judgement(1, 3) == judgement(1, 5) == judgement(3, 1) == "too little"
    assert judgement(1, 6) == "regression"
    assert judgement(6, 1) == "improvement"
    # Two ticks are within the limits of an exact comparison as well.
    assert judgement(1, 3, emulated=True) == "changed"
    assert judgement(100, 104, emulated=True) == "regression"


def test_a_time_that_was_measured_once_may_double_by_chance() -> None:
    def judgement(now: float) -> str:
        builder = HistoryBuilder()
        builder.earlier("s0", "a", both(10e6))
        builder.now("now", "b", both(now))
        judged = [
            replace(one, samples={m: Sample(s.value) for m, s in one.samples.items()})
            for one in builder.judged
        ]
        [number] = compare_with_history(builder.history(), judged).numbers
        return number.judgement

    assert (judgement(39e6), judgement(41e6)) == ("too little", "regression")


def test_enough_sessions_are_compared_by_their_noise() -> None:
    # Ten times as long happened in one night of ten, so it may be chance.
    wild = [both(1e4 * factor) for factor in (1, 1.1, 1, 10, 1, 0.9, 1, 1.1, 1, 0.9)]
    [number] = compared(wild, both(25_000.0)).numbers
    assert number.method == "between sessions"


def test_an_emulated_clock_is_compared_exactly_from_the_first_result_on() -> None:
    [number] = compared([both(10_000.0)], both(10_300.0), emulated=True).numbers
    assert (number.judgement, number.method, number.noise) == ("regression", "exact", 0.0)
    for unknown in (None, False):
        [number] = compared([both(10_000.0)], both(10_300.0), emulated=unknown).numbers
        assert number.judgement == "too little"


def test_an_emulated_clock_is_not_exact_where_repeats_of_a_program_differ() -> None:
    [number] = compared([both(10_000.0), both(12_000.0)], both(12_500.0), emulated=True).numbers
    assert number.judgement == "too little"


def test_all_operators_that_change_grossly_are_reported_once() -> None:
    def all_of(factor: float) -> dict[Metric, float]:
        times: dict[Metric, float] = {}
        for number in range(12):
            times |= both(factor * 1_000.0 * (5 + number), number)
        return times

    comparison = compared([all_of(1.0)], all_of(3.0))
    assert failed(comparison) == ["H09"]
    [check] = [check for check in history_checks(comparison) if check.failed]
    assert check.subject == "12 operators, min"
    assert "all operators +200 %, 12 of 12 with it" in check.reason
    assert "no noise explains it" in check.reason
    assert "; op11, instruction 11 +200 %; op10, instruction 10 +200 %; " in check.reason
    assert check.reason.endswith("op7, instruction 7 +200 % and 7 more")
    assert failed(compared([all_of(1.0)], all_of(0.3))) == []


def test_a_gross_improvement_does_not_make_a_weak_comparison_pass() -> None:
    before, now = both(10_000.0) | both(9_000.0, 1), both(1_000.0) | both(9_500.0, 1)
    comparison = compared([before], now, required=True)
    assert Verdict((*history_checks(comparison),)).exit_code == 3


def test_sizes_need_no_noise() -> None:
    assert failed(compared([{size(): 1000.0}], {size(): 1200.0})) == ["H02"]


@given(earlier=st.lists(TIMES, min_size=1, max_size=4), now=TIMES, tick=st.integers(0, 100))
def test_a_gross_change_is_beyond_twice_and_outside_whatever_the_resolution(
    earlier: list[int], now: int, tick: int
) -> None:
    seen = np.array(earlier, np.float64)
    direction = gross_direction(seen, np.array([now], np.float64), tick)
    for off in (-tick, 0, tick):
        true, level = now - off, float(np.median(seen)) + off
        if direction > 0:
            assert true > max(earlier) + off
            assert true > 2 * level
        if direction < 0:
            assert true < min(earlier) + off
            assert 2 * true < level


@pytest.mark.parametrize("judgement", ["suspect", "scattered"])
def test_operators_that_changed_up_and_down_are_listed(
    judgement: Literal["suspect", "scattered"],
) -> None:
    numbers = [
        Compared(
            metric=operator(number),
            board_unit="one",
            judgement="same",
            baseline=Interval(100.0 * number, None, None),
            current=100.0 * number * factor,
        )
        for number, factor in enumerate((1.0, 1.3, 0.8, 1.001))
    ]
    common = CommonChange(
        board_unit="one",
        clock="",
        statistic="p50",
        operators=4,
        judgement=judgement,
        change=Interval(0.0, None, None),
        q=1.0,
        typical=0.2,
        relative_limit=0.02,
    )
    comparison = HistoryComparison(
        description="the last 20",
        limits=HistoryLimits(),
        commit="",
        units=("one",),
        numbers=tuple(numbers),
        common=(common,),
    )
    [reason] = [one.reason for one in history_checks(comparison) if one.code in ("H09", "H12")]
    assert "; op2, instruction 2 -20 %; op1, instruction 1 +30 %" in reason
    assert "op3" not in reason
