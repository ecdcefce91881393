"""Limits on hardware counters: counts, ratios, and counts that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import (
    EXECUTION,
    NO_COUNT,
    Budget,
    Check,
    HardwareCounter,
    Subject,
    UsageError,
    evaluate,
)
from harness.extensions.budgets.suggest import suggest
from tests.support.traces import EventSpec, RunSpec, trace_of

COUNTERS = (HardwareCounter("cycles"), HardwareCounter("instret"), HardwareCounter("jumps"))


def execution(cycles: int, *, jumps: int = 3) -> RunSpec:
    """Two convolutions and an activation of which no jumps were recorded."""
    return RunSpec(
        [
            EventSpec("conv", 0, 10, instruction=0, counts=(cycles, 100, jumps)),
            EventSpec("conv", 10, 40, instruction=1, counts=(2 * cycles, 200, 5)),
            EventSpec("relu", 40, 45, instruction=2, counts=(50, 0, NO_COUNT)),
            EventSpec(EXECUTION, 0, 60, chain=-1, counts=(4 * cycles, 400, 20)),
        ]
    )


def subject(*runs: RunSpec) -> Subject:
    """A cold execution with twice the cycles of the warm ones."""
    return Subject(
        trace_of(*(runs or (execution(300), execution(150), execution(150))), counters=COUNTERS)
    )


def checks(tmp_path: Path, rule: str, about: Subject | None = None) -> list[Check]:
    path = tmp_path / "budget.toml"
    path.write_text(f"schema = 1\n[[counter]]\n{rule}\n")
    verdict = evaluate(about or subject(), Budget.load(path))
    return [check for check in verdict.checks if check.code == "B13"]


@pytest.mark.parametrize(
    ("rule", "measured"),
    [
        ("counter = 'cycles'\nevent = 'conv'\nlimit_count = 1", [150.0, 300.0]),
        ("counter = 'cycles'\nevent = 'conv'\nstatistic = 'max'\nlimit_count = 1", [300.0, 600.0]),
        ("counter = 'cycles'\nevent = 'conv'\nexecutions = 'cold'\nlimit_count = 1", [300, 600]),
        ("counter = 'cycles'\nevent = 'conv'\ninstruction = 1\nlimit_count = 1", [300.0]),
        ("counter = 'cycles'\nevent = '*'\nexcept = ['c*', 'M*']\nlimit_count = 1", [50.0]),
        ("counter = 'cycles'\nevent = 'conv'\nper = 'execution'\nlimit_count = 1", [450.0]),
        ("counter = 'cycles'\nevent = 'conv'\nof = 'instret'\nlimit_ratio = 1", [1.5, 1.5]),
        (
            "counter = 'cycles'\nevent = 'conv'\nof = 'instret'\nper = 'execution'\n"
            "statistic = 'max'\nlimit_ratio = 1",
            [3.0],
        ),
        ("counter = 'jumps'\nevent = '*'\nlimit_count = 100", [3.0, 5.0, 20.0]),
    ],
)
def test_counts_and_ratios(rule: str, measured: list[float], tmp_path: Path) -> None:
    assert [check.measured for check in checks(tmp_path, rule)] == measured


def test_a_count_beyond_its_limit_fails_at_its_line(tmp_path: Path) -> None:
    rule = "counter = 'instret'\nevent = 'conv'\ninstruction = 1\nlimit_count = 199"
    (found,) = checks(tmp_path, rule)
    assert not found.passed
    assert found.subject == "conv, instruction 1"
    assert found.reason == "200 instret exceeds the limit of 199 instret"
    assert found.source == "budget.toml:6"
    (found,) = checks(tmp_path, rule.replace("199", "200"))
    assert found.passed


def test_a_count_below_its_lower_limit_fails(tmp_path: Path) -> None:
    rule = "counter = 'instret'\nevent = 'relu'\nat_least_count = 1"
    (found,) = checks(tmp_path, rule)
    assert (found.passed, found.measured) == (False, 0)
    assert found.rule.startswith("lower limit of p50 of instret")


def test_a_counter_that_was_not_recorded_is_said_with_those_that_were(tmp_path: Path) -> None:
    rule = "counter = 'load_stall'\nevent = 'conv'\nlimit_count = 1"
    (found,) = checks(tmp_path, rule)
    assert not found.passed
    assert found.measured is None
    assert found.reason == (
        "the run did not record the counter 'load_stall' (--counters; recorded: cycles, instret, "
        "jumps): the limit matches nothing"
    )
    assert checks(tmp_path, f"{rule}\noptional = true") == []


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("counter = 'cycles'\nevent = 'add'\nlimit_count = 1", "no event with counts matches"),
        ("counter = 'jumps'\nevent = 'relu'\nlimit_count = 1", "no event with counts matches"),
        (
            "counter = 'cycles'\nevent = 'relu'\nof = 'instret'\nlimit_ratio = 1",
            "instret counted 0, so there is no ratio to it",
        ),
    ],
)
def test_what_cannot_be_measured_fails(rule: str, reason: str, tmp_path: Path) -> None:
    (found,) = checks(tmp_path, rule)
    assert not found.passed
    assert reason in found.reason


def test_a_count_that_is_missing_of_one_execution_fails(tmp_path: Path) -> None:
    rule = "counter = 'jumps'\nevent = 'conv'\ninstruction = 0\nlimit_count = 9"
    about = subject(execution(1), execution(1, jumps=NO_COUNT))
    (found,) = checks(tmp_path, rule, about)
    assert not found.passed
    assert found.reason == "1 of 2 events have no count of jumps"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("event = 'a'\nlimit_count = 1", "the key 'counter' is missing"),
        ("counter = 'a'\nlimit_count = 1", "the key 'event' is missing"),
        ("counter = 'a'\nevent = 'a'", "limit missing: set one of limit_count, limit_ratio"),
        ("counter = 'a'\nevent = 'a'\nlimit_ratio = 1", "limit_ratio and at_least_ratio require"),
        ("counter = 'a'\nof = 'b'\nevent = 'a'\nlimit_count = 1", "limit_ratio and at_least_ratio"),
        (
            "counter = 'a'\nevent = 'a'\nlimit_count = 1\nat_least_count = 2",
            "budget.toml:6:1: [counter] at_least_count = 2 is more than limit_count = 1",
        ),
        ("counter = 'a'\nevent = 'a'\nlimit_counts = 1", "did you mean 'limit_count'?"),
    ],
)
def test_errors_name_the_place(rule: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        checks(tmp_path, rule)
    assert said in f"{caught.value} {caught.value.hint}"


def test_a_section_changes_the_limit_of_the_same_selection(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    rule = "counter = 'cycles'\nof = 'instret'\nevent = 'conv'\n"
    path.write_text(
        f"schema = 1\n[[counter]]\n{rule}limit_ratio = 2\n"
        f"[[for]]\nboard = 'native'\n[[for.counter]]\n{rule}limit_ratio = 3\n"
    )
    (found,) = Budget.load(path, "native").counter
    assert (found.limit_ratio, found.of) == (3, "instret")


def test_a_suggestion_limits_the_counters_of_the_execution(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    wishes: dict[str, Any] = {"margin": 0.0, "share": 0.2}
    path.write_text(suggest([subject()], **wishes))
    limits = {
        (item.counter, item.event, item.instruction): item.limit_count
        for item in Budget.load(path).counter
    }
    assert limits["cycles", EXECUTION, 0] == 1200
    assert limits["instret", EXECUTION, 0] == 400
    assert limits["instret", "conv", 1] == 200
    assert ("cycles", "conv", 1) not in limits
    assert all(
        check.passed
        for check in evaluate(subject(), Budget.load(path)).checks
        if check.code == "B13"
    )
    more = evaluate(subject(execution(301)), Budget.load(path)).worst_failures
    assert [check.measured for check in more if check.code == "B13"] == [1204]
