"""Results held against histories that are made for one question each."""

from __future__ import annotations

import numpy as np
import pytest

from harness import (
    Check,
    Compared,
    HistoryComparison,
    HistoryLimits,
    HistoryOverride,
    Metric,
    Sample,
    UsageError,
    compare_with_history,
)
from tests.support.histories import HistoryBuilder, history_checks, night, noisy, operator, size


def compare(builder: HistoryBuilder, limits: HistoryLimits | None = None) -> HistoryComparison:
    return compare_with_history(builder.history(), builder.judged, limits or HistoryLimits())


def checks(builder: HistoryBuilder, limits: HistoryLimits | None = None) -> list[Check]:
    return history_checks(compare(builder, limits))


def failing(builder: HistoryBuilder) -> list[str]:
    return [check.code for check in checks(builder) if not check.passed]


def only(builder: HistoryBuilder, limits: HistoryLimits | None = None) -> Compared:
    [number] = compare(builder, limits).numbers
    return number


def exact(before: list[float], now: float, metric: Metric | None = None) -> HistoryBuilder:
    builder = HistoryBuilder()
    for place, value in enumerate(before):
        builder.earlier(f"s{place}", "a", {metric or operator(): value})
    builder.now("now", "b", {metric or operator(): now})
    return builder


def test_one_tick_is_shown_where_there_is_no_noise() -> None:
    builder = exact([80_000.0] * 5, 80_001.0)
    number = only(builder)
    assert (number.judgement, number.method, number.p) == ("changed", "exact", None)
    assert number.change is not None
    assert number.change.value == 1.0
    [shown] = [check for check in checks(builder) if check.code == "H05"]
    assert shown.severity == "note"
    assert "changed by +0.00125 %, after commit a; p50 80 us -> 80.001 us" in shown.reason


def test_without_noise_limits_alone_decide() -> None:
    assert only(exact([80_000.0] * 5, 82_000.0)).judgement == "regression"
    assert only(exact([80_000.0] * 5, 78_000.0)).judgement == "improvement"
    assert only(exact([80_000.0] * 5, 80_000.0)).judgement == "same"
    # 5 %, but less than the absolute limit.
    assert only(exact([800.0] * 5, 840.0)).judgement == "changed"


def test_too_few_results_are_not_judged() -> None:
    builder = exact([80_000.0] * 2, 90_000.0)
    number = only(builder)
    assert number.judgement == "too little"
    [check] = checks(builder)
    assert (check.code, check.passed, check.failed) == ("H06", False, False)
    assert "2 of about 15 results so far" in check.reason


def test_no_baseline_is_said() -> None:
    builder = HistoryBuilder()
    builder.now("now", "b", {operator(): 1.0})
    assert compare(builder).numbers == ()
    [check] = checks(builder)
    assert check.code == "H06"
    assert "no baseline yet" in check.reason


def test_sizes_need_no_repeats() -> None:
    builder = exact([10_000.0], 10_200.0, size())
    assert only(builder).judgement == "regression"
    [check] = checks(builder)
    assert (check.code, check.failed, check.unit) == ("H02", True, "bytes")
    assert only(exact([10_000.0], 10_050.0, size())).judgement == "changed"
    assert only(exact([10_000.0], 9_000.0, size())).judgement == "improvement"


def test_between_two_middle_sizes_the_smaller_is_the_level() -> None:
    """A mean of both would be the size of no result."""
    number = only(exact([10_000.0, 20_000.0, 10_000.0, 20_000.0], 20_000.0, size()))
    assert number.baseline is not None
    assert number.baseline.value == 10_000.0
    assert number.judgement == "regression"


def test_operators_that_came_and_went_are_named() -> None:
    builder = HistoryBuilder()
    for place in range(5):
        builder.earlier(f"s{place}", "a", {operator(0): 5e4, operator(1): 5e4})
    builder.now("now", "b", {operator(0): 5e4, operator(2): 5e4})
    by_name = {number.metric.name: number.judgement for number in compare(builder).numbers}
    assert by_name == {"op0": "same", "op1": "vanished", "op2": "appeared"}
    assert [c.reason for c in checks(builder) if c.code == "H07"] == [
        "in the baseline, but not in the result: op1, instruction 1",
        "in the result, but not in the baseline: op2, instruction 2",
    ]


def test_what_a_session_does_to_all_cancels_in_pairs() -> None:
    before, after = noisy(0, 30, 60, own=0.005, common=0.3)
    after[:, 7] *= 1.03
    comparison = compare(night(before, after))
    worst = comparison.numbers[0]
    assert (worst.metric.name, worst.judgement) == ("op7", "regression")
    assert worst.change is not None
    assert worst.baseline is not None
    assert 0 < worst.change.low < worst.change.value
    assert worst.relative == pytest.approx(0.03, abs=0.005)
    assert [n.judgement for n in comparison.numbers[1:]] == ["same"] * 59


def test_the_noise_of_sessions_hides_what_repeats_within_one_would_show() -> None:
    """Repeats agree to 0.2 %, sessions to 4 %: 3 % more in one new session say nothing."""
    chance = np.random.default_rng(3)
    builder = HistoryBuilder()
    for place in range(8):
        level = 5e4 * (1 + 0.04 * chance.standard_normal())
        for _ in range(5):
            value = level * (1 + 0.002 * chance.standard_normal())
            builder.earlier(f"s{place}", "a", {operator(): value})
    for _ in range(5):
        value = 5e4 * 1.03 * (1 + 0.002 * chance.standard_normal())
        builder.now("new", "b", {operator(): value})
    number = only(builder)
    assert (number.method, number.judgement) == ("between sessions", "same")
    assert number.noise == pytest.approx(0.04, rel=0.6)


def test_a_flip_between_known_levels_is_none_but_a_new_level_is() -> None:
    def flipping(now: float) -> HistoryBuilder:
        chance = np.random.default_rng(5)
        builder = HistoryBuilder()
        for place in range(30):
            level = 5e4 if chance.random() < 0.7 else 6e4
            value = level * (1 + 0.002 * chance.standard_normal())
            builder.earlier(f"s{place}", "a", {operator(): value})
        for place in range(3):
            value = now * (1 + 0.002 * chance.standard_normal())
            builder.now(f"n{place}", "b", {operator(): value})
        return builder

    flip, new = only(flipping(6e4)), only(flipping(6.5e4))
    assert flip.judgement == "same"
    assert [round(mode.center, -3) for mode in flip.modes] == [5e4, 6e4]
    assert flip.modes[0].weight == pytest.approx(0.7, abs=0.2)
    assert new.judgement == "regression"
    assert "H08" in failing(flipping(6e4))


def test_modes_within_a_run_are_named() -> None:
    builder = exact([5e4] * 5, 5e4)
    durations = np.array([5e4, 6e4] * 10) + np.arange(20)
    comparison = compare_with_history(
        builder.history(), builder.judged, durations={operator(statistic=""): durations}
    )
    [number] = comparison.numbers
    assert [mode.weight for mode in number.modes_within] == [0.5, 0.5]
    reasons = [check.reason for check in history_checks(comparison) if check.code == "H08"]
    assert reasons == ["two modes: op0, instruction 0 (50% at 50.009 us and 50% at 60.01 us)"]


def test_a_step_names_the_commits_it_is_between() -> None:
    chance = np.random.default_rng(6)
    builder = HistoryBuilder()
    for place in range(20):
        level = 5e4 if place < 12 else 5.5e4
        value = level * (1 + 0.003 * chance.standard_normal())
        builder.earlier(f"s{place}", f"c{place}", {operator(): value})
    builder.now("now", "c20", {operator(): 5.5e4})
    [step] = only(builder).steps
    assert (step.last_good, step.first_bad) == ("c11", "c12")
    assert step.size.value == pytest.approx(5e3, rel=0.1)
    [found] = [check for check in checks(builder) if check.code == "H03"]
    assert (found.severity, found.failed) == ("warning", False)
    assert "(c11, c12]" in found.reason


def test_what_changes_within_a_commit_is_no_step() -> None:
    builder = HistoryBuilder()
    for place in range(20):
        builder.earlier(f"s{place}", "c", {operator(): 5e4 + place % 3 + 5e3 * (place > 10)})
    builder.now("now", "c", {operator(): 5.5e4})
    assert only(builder).steps == ()


def units(now: dict[str, float], *, of_second: bool = True) -> HistoryBuilder:
    chance = np.random.default_rng(7)
    builder = HistoryBuilder()
    for place in range(8):
        noise = 1 + 0.003 * chance.standard_normal()
        builder.earlier(f"s{place}", f"c{place % 4}", {operator(): 5e4 * noise})
        if of_second:
            values = {operator(): 5.2e4 * noise}
            builder.earlier(f"s{place}", f"c{place % 4}", values, unit="two")
    for unit, value in now.items():
        builder.now("now", "new", {operator(): value}, unit=unit)
    return builder


def test_units_are_held_against_themselves_and_confirm_each_other() -> None:
    both = compare(units({"one": 5.5e4, "two": 5.72e4}))
    assert [number.judgement for number in both.numbers] == ["regression", "regression"]
    assert [c.confirms for number in both.numbers for c in number.confirmations] == [True, True]
    one = compare(units({"one": 5.5e4, "two": 5.2e4}))
    assert [number.judgement for number in one.numbers] == ["suspect", "same"]
    [confirmation] = one.numbers[0].confirmations
    assert (confirmation.unit, confirmation.confirms) == ("two", False)
    assert "unit two does not" in history_checks(one)[0].reason


def test_a_unit_without_a_baseline_is_corrected_or_left_alone() -> None:
    def third(commits: int) -> HistoryBuilder:
        builder = units({"three": 7.5e4}, of_second=False)
        for place in range(commits):
            builder.earlier(
                f"t{place}", f"c{place}", {operator(): 7.5e4}, unit="three", baseline=False
            )
        return builder

    known = compare(third(4))
    assert [number.judgement for number in known.numbers] == ["same"]
    assert "using one" in known.notes[0]
    unknown = compare(third(2))
    assert unknown.numbers == ()
    assert "1 operator skipped" in unknown.notes[1]


def test_repeats_of_the_night_in_the_history_are_judged_with_it() -> None:
    builder = exact([5e4] * 5, 5e4)
    builder.earlier("now", "b", {operator(): 5e4}, baseline=False)
    assert only(builder).current_results == 2


def test_limits_may_differ_by_operator() -> None:
    limits = HistoryLimits(override=(HistoryOverride(event="op*", relative=0.5),))
    assert only(exact([5e4] * 5, 6e4), limits).judgement == "changed"
    ticks = Metric("operator", "npu", "p50", "ticks", "Execute")
    assert limits.of(ticks) == (0.02, 2.0)
    assert limits.of(size()) == (0.01, 64.0)


def test_other_numbers_of_executions_leave_sizes_out() -> None:
    builder = exact([5e4] * 5, 5e4)
    [measured] = builder.judged
    measured.samples[operator()] = Sample(5e4, 40)
    measured.samples[size()] = Sample(9e4)
    comparison = compare(builder)
    assert [number.metric.name for number in comparison.numbers] == ["op0"]
    assert "20 executions in the baseline, 40 now" in comparison.notes[0]


def test_results_of_several_commits_are_not_one() -> None:
    builder = exact([5e4] * 5, 5e4)
    builder.now("now", "c", {operator(): 5e4})
    with pytest.raises(UsageError, match="several commits cannot be compared as one: b, c"):
        compare(builder)
