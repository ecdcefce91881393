"""Estimates of a change, against textbook formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness import Interval, Points
from harness.check.history.estimate import Estimate, between, common_sessions, exact, paired
from harness.check.history.noise import SessionNoise, correction

NOISY = Estimate("paired sessions", 100.0, 1.5, 103.0, 2.0, 10.0, 4.0)
"""A change of 3 with a standard error of 2."""

CERTAIN = 1 - 2**-53
"""The largest confidence below 1."""


def points(values: list[float], sessions: list[int] | None = None) -> Points:
    count = len(values)
    where = np.array(sessions if sessions is not None else range(count), np.int64)
    return Points(np.array(values, float), where, np.zeros(count, np.int64), np.arange(count))


def test_an_exact_change_has_no_error() -> None:
    found = exact(7, 12)
    assert (found.method, found.baseline, found.current) == ("exact", 7, 12)
    assert (found.baseline_error, found.error, found.noise) == (0, 0, 0)
    assert found.p == 0
    for confidence in (0.95, CERTAIN):
        assert found.interval(confidence) == Interval(5, 5, 5)
        assert found.baseline_interval(confidence) == Interval(7, 7, 7)
    assert found.detectable(0.001, 3, 1) == 4


def test_intervals_are_those_of_student() -> None:
    for found, center, error in (
        (NOISY.interval(0.95), 3, 2),
        (NOISY.baseline_interval(0.95), 100, 1.5),
    ):
        assert found.value == center
        assert (found.low, found.high) == pytest.approx(stats.t(10, center, error).interval(0.95))
    assert NOISY.reach(0.001) == pytest.approx(2 * stats.t(10).isf(0.0005))
    assert NOISY.p == pytest.approx(2 * stats.t(10).sf(1.5))


@pytest.mark.parametrize("limit", [1.0, 50.0])
def test_a_detectable_change_is_the_needed_one_and_what_its_own_noise_may_hide(
    limit: float,
) -> None:
    """Of ten changes of this size, nine are measured as large as needed, and shown a tick less."""
    needed = max(limit, 2 * stats.t(10).isf(0.0005))
    found = NOISY.detectable(0.001, limit, 3.0) - 3
    error = 2 * (1 + needed / 100)  # the noise grows with the time
    assert stats.norm(found, error).sf(needed) == pytest.approx(0.9)
    negative = replace(NOISY, baseline=-100.0, current=-97.0)
    assert negative.detectable(0.001, limit, 3.0) - 3 == pytest.approx(found)
    at_zero = replace(NOISY, baseline=0.0, current=3.0).detectable(0.001, limit, 3.0) - 3
    assert stats.norm(at_zero, 2).sf(needed) == pytest.approx(0.9)


@pytest.mark.parametrize(("count", "cut"), [(5, 0), (11, 0), (12, 1), (16, 3), (24, 6), (100, 25)])
def test_pairs_are_compared_by_the_trimmed_mean_of_their_differences(count: int, cut: int) -> None:
    """At least 10 differences are kept, and at least half of them."""
    chance = np.random.default_rng(count)
    before = 1000 + chance.standard_normal(count)
    differences = 5 + chance.standard_normal(count)
    differences[:2] = 90, -70
    alone = points([3000.0], [count])  # a session without a pair
    old = points([*before, *(before + 2)], [*range(count)] * 2).followed_by(alone)
    found = paired(old, points([*(before + 1 + differences)]), count, rounding=0.0)
    assert found is not None
    assert found.method == "paired sessions"
    share = ((cut + 1e-9) / count,) * 2  # SciPy wants more than 0
    assert found.change == pytest.approx(stats.mstats.trimmed_mean(differences, share))
    assert found.error == pytest.approx(stats.mstats.trimmed_stde(differences, share))
    assert found.freedom == count - 2 * cut - 1
    assert found.baseline == pytest.approx(1 + stats.mstats.trimmed_mean(before, share))
    assert found.baseline_error == pytest.approx(stats.mstats.trimmed_stde(before, share))
    # Each difference has the noise of two sessions.
    deviation = stats.median_abs_deviation(differences, scale="normal") / np.sqrt(2)
    assert found.noise == pytest.approx(deviation, rel=1e-5)
    assert paired(old, points([*before]), count + 1, rounding=0.0) is None


def test_one_pair_has_an_unknown_error() -> None:
    found = paired(points([100]), points([130]), 1, rounding=0.0)
    assert found is not None
    assert found.change == 30
    assert found.p == 1
    assert found.interval(0.95) == Interval(30, None, None)
    assert found.baseline_interval(0.95) == Interval(100, None, None)


def test_an_error_of_pairs_is_not_below_that_of_the_clock() -> None:
    before = points([100, 103, 108, 111, 120, 125, 130, 131])
    found = paired(before, before.with_values(before.values + 3), 5, rounding=0.5)
    assert found is not None
    assert (found.change, found.error) == (3, pytest.approx(0.5 * np.sqrt(2 / 8)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_pairs_that_differ_by_rounding_alone_are_equal(scale: float) -> None:
    before = points([*(scale * np.arange(1, 9))])
    rounded = before.with_values(before.values * (1 + 2**-52))
    found = paired(before, rounded, 5, rounding=0.0)
    assert found is not None
    assert (found.change, found.error, found.p) == (0, 0, 1)
    larger = paired(before, before.with_values(before.values * 1.1), 5, rounding=0.0)
    assert larger is not None
    assert larger.change == pytest.approx(0.45 * scale)


def test_few_pairs_get_some_of_the_error_that_others_have() -> None:
    """4 degrees of freedom of others at 5 %, and 10 of the pairs themselves at 2 %."""
    found = NOISY.moderated(0.05)
    assert found.error == pytest.approx(100 * np.sqrt((4 * 0.05**2 + 10 * 0.02**2) / 14))
    assert found.freedom == 14
    at_zero = replace(NOISY, baseline=0.0, current=3.0)
    assert at_zero.moderated(0.05) == at_zero


def test_sessions_are_compared_by_what_history_knows() -> None:
    spread = 1.8 / 200 / np.sqrt(1 + np.pi / 2 / 3)
    found = between(
        points([200.0, 199.0, 201.0]), points([207.0], [9]), SessionNoise(spread, 10, 0)
    )
    assert (found.method, found.baseline, found.current) == ("between sessions", 200, 207)
    assert (found.error, found.noise) == (pytest.approx(1.8), pytest.approx(200 * spread))
    assert found.freedom == 10


def test_sessions_of_one_side_alone_have_nothing_in_common() -> None:
    before = points([1, 2, 3], [4, 5, 7])
    assert common_sessions(before, points([1, 2], [8, 9])).tolist() == []
    assert common_sessions(before, points([1, 2], [6, 9])).tolist() == []
    assert common_sessions(before, points([1, 2, 3], [7, 9, 5])).tolist() == [5, 7]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, ""),
        (0.00099, ""),
        (-0.00099, ""),
        (0.001, "without the +0.1 % of all operators"),
        (0.02, "without the +2 % of all operators"),
        (-0.157, "without the -16 % of all operators"),
    ],
)
def test_a_correction_is_told_from_a_thousandth_on(share: float, text: str) -> None:
    assert correction(share) == text
