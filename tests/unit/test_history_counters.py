"""Hardware counters in the history: exact where they count what a program does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import (
    EXECUTION,
    NO_COUNT,
    Compared,
    HardwareCounter,
    HistoryLimits,
    Metric,
    Subject,
    Trace,
    compare_with_history,
    open_store,
)
from harness.check.history.measure import history_numbers
from tests.support.histories import HistoryBuilder
from tests.support.results import made
from tests.support.stores import make_older
from tests.support.traces import EventSpec, RunSpec, trace_of


def counter(name: str, operator: int = 0) -> Metric:
    return Metric("counter", f"op{operator}", name, "count", "Execute", 0, operator, clock="cpu")


def compared(before: list[float], now: float, name: str = "instret", **limits: float) -> Compared:
    builder = HistoryBuilder()
    for place, value in enumerate(before):
        builder.earlier(f"s{place}", "a", {counter(name): value})
    builder.now("now", "b", {counter(name): now})
    (number,) = compare_with_history(
        builder.history(), builder.judged, HistoryLimits(**limits)
    ).numbers
    return number


def test_one_instruction_more_is_a_change_after_a_single_result() -> None:
    number = compared([1204.0], 1205.0)
    assert (number.judgement, number.method) == ("changed", "exact")
    assert compared([1204.0], 1204.0).judgement == "same"
    assert compared([1204.0], 1205.0, relative_counts=0, absolute_counts=0).judgement == (
        "regression"
    )


@pytest.mark.parametrize(("now", "judgement"), [(1300, "regression"), (1100, "improvement")])
def test_beyond_the_limits_it_counts(now: float, judgement: str) -> None:
    assert compared([1204.0] * 3, now).judgement == judgement


def test_cycles_of_a_target_with_noise_are_compared_beyond_the_noise() -> None:
    noisy = [100_000.0 + 3000 * (place % 3) for place in range(12)]
    number = compared(noisy, 103_500.0, "cycles")
    assert (number.judgement, number.method) == ("same", "between sessions")
    assert number.detectable is not None
    assert number.detectable > 0.01
    assert compared(noisy, 180_000.0, "cycles").judgement == "suspect"


def test_cycles_that_never_vary_are_exact() -> None:
    number = compared([100_000.0] * 5, 100_001.0, "cycles")
    assert (number.judgement, number.method) == ("changed", "exact")


def test_a_counter_that_counted_nothing_so_far_is_exact() -> None:
    number = compared([0.0] * 5, 200.0, "load_stall")
    assert (number.judgement, number.method) == ("regression", "exact")
    assert compared([0.0] * 5, 0.0, "load_stall").judgement == "same"


def test_a_step_is_found_between_its_commits() -> None:
    builder = HistoryBuilder()
    for place in range(10):
        value = 1000.0 if place < 6 else 1200.0
        builder.earlier(f"s{place}", f"c{place}", {counter("instret"): value})
    builder.now("now", "c10", {counter("instret"): 1200.0})
    (number,) = compare_with_history(builder.history(), builder.judged).numbers
    assert [(step.last_good, step.first_bad) for step in number.steps] == [("c5", "c6")]


def counted(instret: int) -> Trace:
    events = [
        EventSpec("native_call_a", 0, 10, instruction=0, counts=(instret, NO_COUNT)),
        EventSpec(EXECUTION, 0, 20, chain=-1, counts=(2 * instret, 7)),
    ]
    return trace_of(
        RunSpec(events),
        RunSpec(events),
        counters=[HardwareCounter("instret"), HardwareCounter("x")],
    )


def test_the_numbers_of_a_run_have_medians_of_counters_and_nothing_for_missing_ones() -> None:
    numbers = history_numbers(Subject(counted(50))).numbers
    found = {
        (metric.name, metric.statistic): value
        for metric, value in numbers.items()
        if metric.kind == "counter"
    }
    assert found == {
        ("native_call_a", "instret"): 50,
        (EXECUTION, "instret"): 100,
        (EXECUTION, "x"): 7,
    }


def test_a_store_of_the_version_before_is_migrated_and_keeps_counters(tmp_path: Path) -> None:
    url = str(tmp_path / "history.sqlite")
    with open_store(url) as store:
        old = made("old", counted(50))
        assert store.add(old.result, old.subject)
    newest = make_older(url, "v0002")
    new = made("new", counted(60), started_utc="2026-11-22T00:00:00+00:00")
    with open_store(url) as store:
        assert store.info().version == newest
        assert store.add(new.result, new.subject)
        history = store.history("native", "kws.pte", "forward")
    series = {
        (item.metric.name, item.metric.statistic): [sample.value for sample in item.samples]
        for item in history.series
        if item.metric.kind == "counter"
    }
    assert series["native_call_a", "instret"] == [50, 60]
    assert series[EXECUTION, "x"] == [7, 7]
