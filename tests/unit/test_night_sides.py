"""Sides of a night: a variant that is slower than the first one is told, as is one that is not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from harness import (
    ArmComparison,
    Attempt,
    BaselineRef,
    HistoryRef,
    NightlyStep,
    Selection,
    StepOutcome,
    open_store,
)
from harness.extensions.lab.nightly.journal import Account
from harness.extensions.lab.nightly.verdict import compare_arms, night_verdict
from harness.runs.history import add_directory
from tests.support.results import made, run_directory, trace_with

REPEATS = 8


def night(home: Path, times: Mapping[str, Sequence[int]], day: int = 0) -> list[StepOutcome]:
    """Runs of variants on one unit, in which an operator took so long, repeat by repeat."""
    outcomes = []
    for variant, durations in times.items():
        for repeat, duration in enumerate(durations, start=1):
            took = {"relu": [duration] * 5}
            own = f"{variant}-{repeat}".encode().hex().rjust(32, "0")[:32]
            run = made(
                own,
                trace_with(took),
                commit=f"commit-{variant}",
                session=f"night {day}/{repeat}",
                started_utc=f"2026-11-{1 + day:02}T00:{repeat:02}:00+00:00",
            )
            place = f"runs/{variant}/{repeat}"
            run_directory(home / place, run, took)
            attempt = Attempt(number=1, directory=place, started_utc="", outcome="pass", result=own)
            step = NightlyStep("native", "native", "kws", variant, repeat)
            outcomes.append(StepOutcome(step=step, outcome="pass", attempts=(attempt,)))
    return outcomes


def compared(home: Path, old: Sequence[int], new: Sequence[int]) -> ArmComparison:
    outcomes = night(home, {"old": old, "new": new})
    [found] = compare_arms(home, outcomes, ["old", "new"], None, [])
    return found.arm


BEFORE = [10_000 + 7 * n % 30 for n in range(REPEATS)]


@pytest.mark.slow
def test_a_regression_is_told(tmp_path: Path) -> None:
    arm = compared(tmp_path, BEFORE, [time + 2_000 for time in BEFORE])
    assert not arm.passed
    assert arm.counts["regression"] >= 1
    assert re.match(r"relu #0 2\d\.\d % slower\b", arm.summary)
    worst = arm.changed[0]
    assert (worst.what, worst.unit, worst.judgement) == ("relu #0", "native", "regression")
    assert worst.relative == pytest.approx(0.2, rel=0.05)


def test_an_improvement_passes(tmp_path: Path) -> None:
    arm = compared(tmp_path, BEFORE, [time - 2_000 for time in BEFORE])
    assert arm.passed
    assert arm.counts["improvement"] >= 1
    assert re.match(r"none of \d+ numbers worse, \d+ better", arm.summary)


def test_what_did_not_change_is_said(tmp_path: Path) -> None:
    arm = compared(tmp_path, BEFORE, BEFORE)
    assert arm.passed
    assert arm.changed == ()
    assert re.fullmatch(r"none of \d+ numbers worse", arm.summary)


def test_few_repeats_say_too_little(tmp_path: Path) -> None:
    arm = compared(tmp_path, [10_000, 10_500], [12_000, 12_100])
    assert arm.passed
    assert "too few results to tell" in arm.summary


def test_a_side_without_any_whole_run_is_said(tmp_path: Path) -> None:
    outcomes = [
        StepOutcome(step=outcome.step, outcome="not run")
        if outcome.step.variant == "new"
        else outcome
        for outcome in night(tmp_path, {"old": BEFORE, "new": BEFORE})
    ]
    [found] = compare_arms(tmp_path, outcomes, ["old", "new"], None, [])
    assert found.arm.passed
    assert found.arm.summary == "not compared: no complete run"


def test_the_first_night_has_no_earlier_results(tmp_path: Path) -> None:
    outcomes = night(tmp_path, {"only": BEFORE})
    store = HistoryRef(str(tmp_path / "h.sqlite"), BaselineRef("last", "20"))
    [found] = compare_arms(tmp_path, outcomes, ["only"], store, [])
    assert (found.arm.passed, found.arm.summary) == (True, "not compared: no earlier results")


def test_one_variant_alone_is_held_against_nothing(tmp_path: Path) -> None:
    outcomes = night(tmp_path, {"old": BEFORE})
    assert [*compare_arms(tmp_path, outcomes, ["old"], None, [])] == []


@pytest.mark.slow
def test_nights_that_regressed_do_not_become_the_baseline(tmp_path: Path) -> None:
    """Every run of a night passes by itself; that the night failed is added to its results."""
    store = HistoryRef(str(tmp_path / "h.sqlite"), BaselineRef("last", "20"))
    passed = []
    for number in range(9):
        slow = 2_000 if number >= 3 else 0
        home = tmp_path / f"night{number}"
        outcomes = night(home, {f"v{number}": [time + slow for time in BEFORE]}, day=number)
        tonight = [outcome.attempts[0] for outcome in outcomes]
        with open_store(store.url) as opened:
            for attempt in tonight:
                assert add_directory(opened, home / attempt.directory).state == "added"
        ids = [attempt.result for attempt in tonight]
        sides = [*compare_arms(home, outcomes, [f"v{number}"], store, ids)]
        for side in sides:
            side.store_verdicts(store)
        passed.append(sides[0].arm.passed)
        with open_store(store.url) as opened:
            for attempt in tonight:
                assert add_directory(opened, home / attempt.directory).state == "there"
            found = opened.results(Selection(ids=ids))
        assert {entry.sound for entry in found} == {not slow}
        # The first of these nights is suspect, and those after it show that it holds.
        code = {0: set(), 1: {"H12"}}.get(number - 2, {"H01"}) if slow else set()
        assert all(code <= {*entry.failed} for entry in found)
    assert passed == [True] * 3 + [False] * 6


def changed(what: str, kind: str, unit: str, relative: float) -> dict[str, object]:
    """A number of 100 that grew by a share."""
    level = {"before": 100.0, "after": 100.0 * (1 + relative), "relative": relative}
    return {
        **{"unit": "desk-1", "what": what, "statistic": "", "judgement": "regression"},
        **{"counted_in": unit, "reason": "", "metric_kind": kind, **level},
    }


MEMORY = changed("planned_1", "allocator", "bytes", 3.0)
PHASE = changed("Method::init", "phase", "ns", 5.0)
OPERATOR = changed("conv2d #7", "operator", "ns", 0.124)
EXECUTION = changed("Method::execute", "phase", "ns", 0.05)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            (MEMORY, PHASE, OPERATOR, EXECUTION),
            " is 5.0 % slower since a1b2c3: conv2d #7 12.4 % slower, and 2 more regressions",
        ),
        ((MEMORY, OPERATOR), ": conv2d #7 is 12.4 % slower since a1b2c3, and 1 more regression"),
        ((MEMORY,), ": memory planned_1 is 300.0 % larger since a1b2c3"),
        (
            (changed("log_bytes", "result", "bytes", 41.0),),
            ": log size is 42 times larger since a1b2c3",
        ),
    ],
)
def test_time_is_told_before_memory_and_operators_before_phases(
    changes: tuple[dict[str, object], ...], said: str
) -> None:
    names = {"board": "desk", "model": "kws", "before": "last:20", "after": "only"}
    fields = {"passed": False, "summary": "", "commits": ("0f0f", "a1b2c3"), "changed": changes}
    arm = msgspec.convert({**names, **fields}, ArmComparison)
    times = "2026-11-22T00:00:00+00:00", "2026-11-22T01:00:00+00:00"
    night = {"name": "n", "night": "n-1", "directory": "n-1", "times": times}
    document = night_verdict((), (), Account(()), arms=(arm,), **night)  # type: ignore[arg-type]
    [cause] = document.causes
    assert cause.sentence == f"kws on desk{said}"
    assert cause.command.startswith("etharness bisect --good 0f0f --bad a1b2c3 ")
    assert document.headline == f"FAIL: {cause.sentence}"
