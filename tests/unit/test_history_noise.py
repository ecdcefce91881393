"""The noise of a history, against formulas applied value by value."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage, special, stats

from harness import Points
from harness.check.history.noise import (
    SessionNoise,
    TypicalSpread,
    neighbor_medians,
    noisier,
    pooled,
    robust_deviation,
    scatter_of,
    scatter_p_value,
    scatters,
    session_noise,
)

Floats = npt.NDArray[np.float64]

FREEDOM = [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 1000]


def points(values: Sequence[float], commits: Sequence[int] | None = None) -> Points:
    """A result and a session each, of a commit each unless they are given."""
    places = np.arange(len(values))
    origins = places if commits is None else np.array(commits, np.int64)
    return Points(np.array(values, float), places, origins, places)


def deviation(residuals: Floats) -> float:
    """The larger of the robust deviation and that of winsorised residuals."""
    robust = 1.4826 * np.median(np.abs(residuals))
    if len(residuals) >= 10 and robust:
        residuals = np.clip(residuals, -3 * robust, 3 * robust)
    return float(max(robust, np.sqrt(np.sum(residuals**2) / (len(residuals) - 1))))


@pytest.mark.parametrize(
    ("sessions", "error"), [(1, np.sqrt(1 + np.pi / 8)), (3, np.sqrt(2 / 3 + np.pi / 8))]
)
def test_runs_of_one_night_have_half_of_their_variance_in_common(
    sessions: int, error: float
) -> None:
    noise = SessionNoise(0.01, np.array([]), np.arange(0), freedom=5.5, scatter=2.0)
    assert noise.error(sessions, 4) == pytest.approx(0.02 * error)


def test_a_robust_deviation_is_that_of_normal_values() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 1000.0])
    assert robust_deviation(values) == pytest.approx(1.4826 * 3)


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 40])
def test_medians_of_neighbors_are_those_of_a_filter(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    assert neighbor_medians(values).tolist() == (
        ndimage.median_filter(values, 7, mode="mirror").tolist()
    )


def test_three_sessions_have_a_noise() -> None:
    noise = session_noise(points([100, 110, 104]), 3, rounding=0.0)
    assert noise is not None
    shares = np.array([-4, 6, 0]) / 104
    assert noise.residuals == pytest.approx(shares)
    assert noise.results.tolist() == [0, 1, 2]
    assert noise.spread == pytest.approx(deviation(shares))
    assert (noise.freedom, noise.scatter) == (2, 1)
    assert session_noise(points([100, 110, 104]), 4, rounding=0.0) is None


@pytest.mark.parametrize("count", [5, 20, 60])
def test_the_newest_twenty_sessions_show_the_noise(count: int) -> None:
    values = 1000 + np.random.default_rng(count).standard_t(2, count)
    noise = session_noise(points(values.tolist()), 5, rounding=0.0)
    assert noise is not None
    newest = values[-20:]
    shares = newest / np.median(newest) - 1
    assert noise.residuals == pytest.approx(shares)
    assert noise.results.tolist() == [*range(count)][-20:]
    assert noise.spread == pytest.approx(deviation(shares))
    assert noise.freedom == len(newest) - 1


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_noise_is_a_share_in_any_unit(scale: float) -> None:
    values = 1000 + np.random.default_rng(0).standard_normal(30)
    one, other = (session_noise(points((values * by).tolist()), 5, 0.0) for by in (1, scale))
    assert one is not None
    assert other is not None
    assert other.residuals == pytest.approx(one.residuals)
    assert other.spread == pytest.approx(one.spread)


def test_a_few_sessions_that_differ_from_equal_ones_are_noise() -> None:
    noise = session_noise(points([100.0] * 12 + [110, 100, 90]), 5, rounding=0.0)
    assert noise is not None
    assert noise.spread == pytest.approx(np.sqrt(2 * 0.1**2 / 14))


def test_sessions_of_a_commit_are_compared_with_each_other() -> None:
    """Commit 0 has 11 sessions and commit 5 has 4; of the others each has 3 at the most."""
    commits = np.array([0, 1, 0, 2, 0, 3, 0, 0, 5, 0, 5, 0, 5, 6, 5, 6, 0, 6, 0, 0, 7, 0])
    values = 1000 + 100 * (37 * commits % 5) + np.random.default_rng(0).standard_t(2, len(commits))
    noise = session_noise(points(values.tolist(), commits.tolist()), 5, rounding=0.0)
    assert noise is not None
    several = ~np.isin(commits, [0, 5])
    groups = [np.flatnonzero(chosen) for chosen in (several, commits == 0, commits == 5)]
    expected = [values[places] / np.median(values[places]) - 1 for places in groups]
    assert noise.results.tolist() == np.concatenate(groups).tolist()
    assert noise.residuals == pytest.approx(np.concatenate(expected))
    assert noise.freedom == len(commits) - 3


def test_times_of_no_ticks_are_measured_by_the_others() -> None:
    assert session_noise(points([0, 0, 0, 1, 1]), 5, rounding=0.0) is None
    assert session_noise(points([0] * 5 + [3, 4, 3, 4], [0] * 5 + [1] * 4), 5, 0.0) is None
    # A commit of no ticks has no shares, and a single session nothing that it differs from.
    commits = [0] * 4 + [1] + [2] * 6
    mixed = points([0, 0, 0, 0, 9, 5, 6, 5, 6, 5, 6], commits)
    for least in (5, 7):
        known = session_noise(mixed, least, rounding=0.0)
        assert known is not None
        assert known.results.tolist() == [5, 6, 7, 8, 9, 10]
    assert session_noise(mixed, 8, rounding=0.0) is None
    two = session_noise(points([7, 9, 5, 6, 5, 6], [0, 1] + [2] * 4), 5, rounding=0.0)
    assert two is not None
    assert two.results.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_noise_is_not_below_that_of_the_clock() -> None:
    noise = session_noise(points([200.0] * 12), 5, rounding=0.3)
    assert noise is not None
    assert noise.spread == pytest.approx(0.3 / 200)


def operators(count: int) -> tuple[list[SessionNoise], list[float]]:
    """Noises of operators that begin at different sessions; sessions 20 and 30 are wild."""
    chance = np.random.default_rng(1)
    noises = []
    for number in range(count):
        scale = np.where(np.isin(np.arange(50), [20, 30]), 6, 1) * (1 + number / 4)
        values = 1000 + scale * chance.standard_t(3, 50) + np.cumsum(chance.standard_normal(50))
        if number == 10:
            values[:] = 1000.0
        first = 3 * number
        found = session_noise(
            Points(values[first:], *(np.arange(first, 50) for _ in range(3))), 5, rounding=0.0
        )
        assert found is not None
        noises.append(found)
    return noises, [0.0001 * number for number in range(count)]


def test_few_operators_are_evaluated_each_by_itself() -> None:
    noises, rounding = operators(9)
    assert pooled(noises, rounding) == noises


@pytest.mark.parametrize("count", [10, 12])
def test_ten_operators_share_what_they_say_of_sessions(count: int) -> None:
    noises, rounding = operators(count)
    usual = [1.4826 * np.median(np.abs(noise.residuals)) for noise in noises]
    scatter = noisier(scatters(noises, usual), count)
    spreads = [
        max(deviation(noise.residuals / scatter[noise.results]), smallest)
        for noise, smallest in zip(noises, rounding, strict=True)
    ]
    middle = np.median(spreads)
    for noise, spread, found in zip(noises, spreads, pooled(noises, rounding), strict=True):
        moderated = np.sqrt((4 * middle**2 + noise.freedom * spread**2) / (4 + noise.freedom))
        assert found.spread == pytest.approx(max(spread, moderated))
        assert found.freedom == noise.freedom + 4
        assert 0 < found.correlation < 1


def test_a_result_is_as_noisy_as_the_median_operator() -> None:
    """Ten operators have result 0, nine have result 2, and one without a spread has all four."""
    shares = [0.01, -0.02, 0.03, -0.04, 0.05, 0.06, -0.07, 0.08, -0.09, 0.10]
    noises = [
        SessionNoise(0.01, np.array([share, share]), np.array([0, 2]), 1.0) for share in shares[:9]
    ]
    noises.append(SessionNoise(0.01, np.array([0.10]), np.arange(1), 1.0))
    noises.append(SessionNoise(0.01, np.full(4, 0.5), np.arange(4), 3.0))
    found = scatters(noises, [0.02] * 5 + [0.01] * 5 + [0.0])
    # Sorted: 0.5, 1, 1.5, 2, 2.5, 6, 7, 8, 9, 10.
    assert found == pytest.approx([1.4826 * 4.25, np.nan, np.nan, np.nan], nan_ok=True)
    few = scatters(noises[:9], [0.02] * 9)
    assert few == pytest.approx([np.nan] * 3, nan_ok=True)


def test_a_scatter_counts_where_chance_does_not_explain_it() -> None:
    """The scatter of 9 operators has an error of 0.39, so up to 1.78 is chance."""
    found = noisier(np.array([0.2, 1.0, 1.77, 1.79, np.nan]), 9)
    assert found.tolist() == [1, 1, 1, 1.79, 1]


def test_a_scatter_of_changes_is_their_median_size() -> None:
    assert scatter_of(change for change in (1.0, -2.0, 30.0)) == pytest.approx(1.4826 * 2)


def test_a_scatter_is_compared_with_those_of_earlier_results() -> None:
    chance = np.random.default_rng(0)
    earlier = np.exp(0.2 * chance.standard_normal(10))
    logs = np.log(earlier)
    error = deviation(logs - np.median(logs)) * np.sqrt(1 + np.pi / 2 / 10)
    expected = stats.t.sf((np.log(1.5) - np.median(logs)) / error, 9)
    assert 0.01 < expected < 0.3
    unknown = np.array([np.nan, 0.0])
    assert scatter_p_value(1.5, np.concatenate([unknown, earlier])) == pytest.approx(expected)
    assert scatter_p_value(1.5, earlier[:9]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a logarithm of 0 would warn
        assert scatter_p_value(0.0, earlier) == 1
    assert 0.9 < scatter_p_value(0.5, earlier) < 1
    assert scatter_p_value(1.5, np.ones(20)) == 1


@pytest.mark.parametrize("alike", [2.5, 4.0, 15.0, 20.0])
def test_spreads_that_are_alike_say_more_about_each(alike: float) -> None:
    """The variance of the logarithms of variances is the trigamma function of half the degrees of
    freedom: of those that each has, and of those that the operators' own variances have."""
    of_estimates = special.polygamma(1, 8 / 2)
    for more, freedom in ((0.999, alike), (1.001, FREEDOM[FREEDOM.index(alike) - 1])):
        variance = of_estimates + more * special.polygamma(1, alike / 2)
        half = np.sqrt(variance * 9 / 10) / 2  # the variance of 10 values, of which 5 are -1
        spreads = [0.02 * np.exp(half), 0.02 * np.exp(-half)] * 5
        found = TypicalSpread.of([*spreads, 0.0], 8)
        assert found.spread == pytest.approx(0.02 * np.cosh(half))
        assert found.freedom == freedom
    assert TypicalSpread.of(spreads[1:], 8) == TypicalSpread(0.0, 0.0)
    assert TypicalSpread.of([*spreads[1:], 0.0], 8) == TypicalSpread(0.0, 0.0)


def test_equal_spreads_count_like_20_and_wild_ones_like_none() -> None:
    assert TypicalSpread.of([0.02] * 10, 8) == TypicalSpread(0.02, 20.0)
    wild = TypicalSpread.of([1e-6, 1e-1] * 5, 8)
    assert wild.freedom == 0
    assert wild.moderated(0.01, 8) == (0.01, 8)


def test_few_values_that_agree_by_chance_have_some_of_the_typical_spread() -> None:
    typical = TypicalSpread(0.02, 6.0)
    for freedom in (4.0, 19.0):
        squares = (6 * 0.02**2 + freedom * 0.01**2) / (6 + freedom)
        assert typical.moderated(0.01, freedom) == (pytest.approx(np.sqrt(squares)), 6 + freedom)
    assert typical.moderated(0.01, 20.0) == (0.01, 20.0)
    assert typical.moderated(0.03, 4.0) == (0.03, 10.0)


def test_a_clear_step_is_no_noise() -> None:
    chance = np.random.default_rng(0).standard_normal(20)
    stepped = 1000 + chance + np.where(np.arange(20) < 12, 0, 100)
    noise, calm = (session_noise(points(v.tolist()), 5, 0.0) for v in (stepped, 1000 + chance))
    assert noise is not None
    assert calm is not None
    assert noise.spread == pytest.approx(calm.spread, rel=0.2)
