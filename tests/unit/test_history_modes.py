"""Two modes of a metric, against the criterion written out for every split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from scipy.stats import norm

from harness import Mode, Points
from harness.check.history.noise import find_modes, modes_of


def expected_modes(values: np.ndarray) -> tuple[Mode, Mode] | None:
    """The modes of 12 values or more, by likelihoods, without rounding of narrow modes."""
    count, ordered = len(values), np.sort(values)
    smallest = max(3, -(-15 * count // 100))
    sides = min(
        ((ordered[:at], ordered[at:]) for at in range(smallest, count - smallest + 1)),
        key=lambda pair: sum(len(side) * side.var() for side in pair),
    )
    width = np.sqrt(sum(len(side) * side.var() for side in sides) / count)
    one = norm.logpdf(values, values.mean(), values.std()).sum()
    two = sum(
        (np.log(len(side) / count) + norm.logpdf(side, side.mean(), width)).sum() for side in sides
    )
    # Two modes have a level and a weight more.
    if 2 * (two - one) - 2 * np.log(count) < 10:
        return None
    if np.quantile(sides[1], 0.05) - np.quantile(sides[0], 0.95) < width:
        return None
    low, high = (Mode(median(side.tolist()), width, len(side) / count) for side in sides)
    return low, high


def test_the_split_and_the_decision_are_those_of_the_likelihoods() -> None:
    """Of modes that are so close, by chance, that about half of them are not evident."""
    found = []
    for seed in range(100):
        chance = np.random.default_rng(seed)
        count = int(chance.integers(12, 60))
        upper = chance.random(count) < chance.uniform(0.1, 0.9)
        values = 1e4 + chance.uniform(3, 7) * upper + chance.standard_normal(count)
        modes, expected = find_modes(values), expected_modes(values)
        assert (modes is None) == (expected is None), seed
        for one, other in zip(modes or (), expected or (), strict=True):
            assert one.center == other.center
            assert one.weight == other.weight
            assert one.spread == pytest.approx(other.spread, rel=1e-6)
        found.append(modes is not None)
    assert 30 < sum(found) < 70


def of_two(low: int, high: int) -> np.ndarray:
    """So many values from 1 and from 2 on, a hundredth apart."""
    return np.repeat([1.0, 2.0], [low, high]) + np.arange(low + high) / 100


def test_a_mode_has_three_values_and_a_metric_twelve() -> None:
    modes = find_modes(of_two(9, 3))
    assert modes is not None
    assert [mode.weight for mode in modes] == [0.75, 0.25]
    assert [mode.center for mode in modes] == pytest.approx([1.04, 2.1])
    modes = find_modes(of_two(3, 9))
    assert modes is not None
    assert [mode.weight for mode in modes] == [0.25, 0.75]
    assert find_modes(of_two(10, 2)) is None
    assert find_modes(of_two(2, 10)) is None
    assert find_modes(of_two(9, 3)[1:]) is None


def test_values_without_noise_have_modes_of_a_millionth_of_their_range() -> None:
    modes = find_modes(np.array([10.0, 20.0] * 12))
    assert modes is not None
    assert [(mode.center, mode.weight) for mode in modes] == [(10, 0.5), (20, 0.5)]
    assert [mode.spread for mode in modes] == pytest.approx([1e-5, 1e-5], rel=1e-9)
    assert find_modes(np.full(24, 10.0)) is None


@pytest.mark.parametrize(("gap", "count"), [(3.01, 2), (3, 2), (2.99, 0)])
def test_a_gap_is_as_wide_as_a_mode(gap: float, count: int) -> None:
    """The variance of 18 times -1 and 2 times 9 is 9."""
    low = np.array([-1.0] * 18 + [9.0] * 2)
    assert len(find_modes(np.concatenate([low, 18 + gap - low])) or ()) == count


LOW, HIGH = 100.0, 110.0


def history(
    levels: Sequence[float], origins: Sequence[int], sessions: Sequence[int] | None = None
) -> Points:
    """Results in order, each in a session of its own, that are within 0.1 of these levels."""
    places = np.arange(len(levels))
    return Points(
        np.array(levels) + places * 7 % 10 / 100,
        places if sessions is None else np.array(sessions),
        np.array(origins),
        places,
    )


def centers(points: Points) -> list[float]:
    return [round(mode.center) for mode in modes_of(points)]


FLIPPING = [LOW, HIGH, LOW, LOW, HIGH, LOW, HIGH, HIGH, LOW, HIGH, LOW, HIGH]


def test_modes_are_learnt_from_the_commit_with_the_most_results() -> None:
    assert centers(history([LOW, *FLIPPING], [0] + [1] * 12)) == [100, 110]
    assert centers(history([HIGH * 2] * 6 + FLIPPING, [0] * 6 + [1] * 12)) == [100, 110]
    assert centers(history([LOW] * 13, [1] * 13)) == []
    assert centers(history([], [])) == []


def test_modes_are_learnt_from_commits_of_few_results_together() -> None:
    assert centers(history(FLIPPING, range(12))) == [100, 110]
    # With a commit of many results at a level of its own, whose sessions are among the others.
    both = [level for pair in zip([LOW] * 12, FLIPPING, strict=True) for level in pair]
    assert centers(history(both, [0, 1] * 6 + [0, 2] * 6)) == [100, 110]


def test_a_commit_of_many_results_at_another_level_is_no_mode() -> None:
    """Its twelve sessions and those of the others take turns."""
    assert centers(history([HIGH, LOW] * 12, [0, 1] * 6 + [0, 2] * 6)) == []


def test_two_commits_in_turns_in_each_session_are_no_modes() -> None:
    sessions = [place // 2 for place in range(16)]
    assert centers(history([LOW, HIGH] * 8, [0, 1] * 8, sessions)) == []
    assert centers(history([LOW, HIGH] * 8, [0, 1] * 8)) == [100, 110]


@pytest.mark.parametrize("origins", [[0] * 15, range(15)])
@pytest.mark.parametrize(("flips", "modes"), [(1, []), (3, []), (4, [100, 110]), (5, [100, 110])])
def test_levels_that_change_three_times_are_steps(
    flips: int, modes: list[float], origins: Sequence[int]
) -> None:
    levels = [HIGH if place * (flips + 1) // 15 % 2 else LOW for place in range(15)]
    assert sum(one != other for one, other in pairwise(levels)) == flips
    assert centers(history(levels, origins)) == modes
