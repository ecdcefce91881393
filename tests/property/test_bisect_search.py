"""The search of a bisection: any place of the change, any commits that cannot be measured."""

from __future__ import annotations

from math import ceil, log2

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bisect_study import METRICS, SIZES, bisect_once
from benchmarks.series_noise import MODELS
from harness.extensions.bisect.answer import describe_bisection
from harness.extensions.bisect.search import Alike, BisectSearch, NextRun, Suspects, Unmeasurable
from harness.extensions.bisect.state import BisectState, CommitRun
from tests.support.bisections import generated_bisection, measured, run_to_its_end
from tests.support.examples import examples


def unmeasured(place: int, outcome: str = "skipped") -> CommitRun:
    """A run without a value."""
    return CommitRun(
        commit=f"{place:040x}",
        outcome=outcome,  # type: ignore[arg-type]
        exit_code=125,
        seconds=1.0,
        reason="it does not build",
    )


@st.composite
def planted(draw: st.DrawFn) -> tuple[int, int, frozenset[int]]:
    """A number of commits, the place of the first bad one, and the commits that do not build."""
    count = draw(st.integers(1, 60))
    first = draw(st.integers(1, count))
    broken = draw(st.frozensets(st.integers(1, count), max_size=count // 2))
    return count, first, broken - {count}


@settings(max_examples=examples(50))
@given(planted())
def test_an_exact_board_needs_one_run_of_a_commit(
    given_history: tuple[int, int, frozenset[int]],
) -> None:
    count, first, broken = given_history

    def value_of(place: int, _: int) -> CommitRun:
        if place in broken:
            return unmeasured(place)
        return measured(place, 1000.0 + 5 * (place >= first), repeatable=True)

    found, state = run_to_its_end(generated_bisection(count), value_of)
    assert isinstance(found, Suspects)
    # The suspects are the first bad commit and those next to it that do not build.
    last = min(place for place in range(first, count + 1) if place not in broken)
    earliest = last
    while earliest - 1 in broken:
        earliest -= 1
    assert [*found.commits] == [*state.request.commits[earliest : last + 1]]
    runs = [run.commit for run in state.runs]
    assert len(runs) == len(set(runs)) + 1  # the good commit ran twice
    assert len(runs) <= 3 + ceil(log2(count)) + 1 + len(broken)
    document = describe_bisection(state)
    assert document.answer == ("found" if earliest == last else "suspects")
    assert document.change == pytest.approx(0.005)
    assert document.bound == document.noise == 0


@settings(max_examples=examples(40))
@given(st.data())
def test_any_outcomes_lead_to_an_answer_and_a_resumed_search_to_the_same(
    data: st.DataObject,
) -> None:
    """Whatever runs do, the search ends, and a state that was saved decides the same."""
    count, most = data.draw(st.integers(1, 9)), 4
    state = generated_bisection(count, max_runs=most)
    values = st.integers(0, 10**6)
    while isinstance(decision := BisectSearch(state).decide(), NextRun):
        place = state.request.commits.index(decision.commit)
        outcome = data.draw(st.sampled_from(["measured"] * 8 + ["skipped", "infrastructure"]))
        repeatable = data.draw(st.booleans())
        run = (
            measured(place, float(data.draw(values)), repeatable=repeatable)
            if outcome == "measured"
            else unmeasured(place, outcome)
        )
        state = state.followed_by(run)
        saved = msgspec.json.decode(msgspec.json.encode(state), type=BisectState)
        assert BisectSearch(saved).decide() == BisectSearch(state).decide()
        document = describe_bisection(state)
        assert sum(commit.runs for commit in document.commits) <= len(state.runs)
        msgspec.json.encode(document)
    assert isinstance(decision, Suspects | Alike | Unmeasurable)
    if isinstance(decision, Suspects):
        assert decision.commits
        assert 0 < decision.probability <= 1


@settings(max_examples=examples(30))
@given(st.integers(1, 30), st.data())
def test_verdicts_that_flip_are_repeated(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    chance = np.random.default_rng(data.draw(st.integers(0, 50)))

    def verdict_of(place: int, _: int) -> CommitRun:
        fails = (place >= first) != (chance.random() < 0.02)
        return measured(place, float(fails), unit="", resolution=0.0)

    found, state = run_to_its_end(generated_bisection(count, metric="verdict"), verdict_of)
    assert isinstance(found, Suspects)
    assert found.probability >= 0.99 or len(found.commits) > 1
    good = [run for run in state.runs if run.commit == state.request.good.sha]
    assert len(good) >= 5


@pytest.mark.parametrize("metric", ["execution", "verdict"])
def test_without_a_difference_nothing_is_searched(metric: str) -> None:
    chance = np.random.default_rng(1)

    def value_of(place: int, _: int) -> CommitRun:
        value = 1e6 * (1 + 0.01 * chance.standard_normal())
        return measured(place, float(metric != "verdict") * float(value))

    found, state = run_to_its_end(generated_bisection(9, metric=metric, max_runs=12), value_of)
    assert found == Alike("no difference")
    assert len(state.runs) == 24


def test_a_smaller_change_than_asked_for_is_refused() -> None:
    state = generated_bisection(9)
    request = msgspec.structs.replace(state.request, change=0.1)
    found, _ = run_to_its_end(
        BisectState(request), lambda place, _: measured(place, 100.0 + place, repeatable=True)
    )
    assert found == Alike("smaller than the change")


@pytest.mark.parametrize(("change", "expected"), [(None, 5), (0.015, 2), (0.075, 8)])
def test_the_threshold_selects_one_of_several_changes(change: float | None, expected: int) -> None:
    """One per cent slower with each commit; by default the middle of good and bad counts."""
    request = msgspec.structs.replace(generated_bisection(10).request, change=change)
    found, _ = run_to_its_end(
        BisectState(request), lambda place, _: measured(place, 1000.0 + 10 * place, repeatable=True)
    )
    assert isinstance(found, Suspects)
    assert [commit.subject for commit in found.commits] == [f"change {expected}"]


def test_an_improvement_is_found_alike() -> None:
    found, _ = run_to_its_end(
        generated_bisection(50),
        lambda place, _: measured(place, 900.0 if place >= 17 else 1000.0, repeatable=True),
    )
    assert isinstance(found, Suspects)
    assert [commit.subject for commit in found.commits] == ["change 17"]


def test_infrastructure_is_tried_again() -> None:
    def value_of(place: int, run: int) -> CommitRun:
        if run % 2:
            return unmeasured(place, "infrastructure")
        return measured(place, 1000.0 + 5 * (place >= 5), repeatable=True)

    found, state = run_to_its_end(generated_bisection(9), value_of)
    assert isinstance(found, Suspects)
    assert [commit.subject for commit in found.commits] == ["change 5"]
    assert describe_bisection(state).infrastructure == len(state.runs) // 2


def test_a_sample_of_the_study() -> None:
    """A bisection under each noise; the study has a hundred of each size and metric."""
    trials = [
        bisect_once(noise, METRICS[0], SIZES[1 + number % 2], seed=7, number=number)
        for number, noise in enumerate(MODELS)
    ]
    outcomes = [trial.outcome for trial in trials]
    # At least 95 of 100 are right, so that 4 of 12 are not has a probability of 0.2 %.
    assert outcomes.count("right") >= len(MODELS) - 3
