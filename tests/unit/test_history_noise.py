"""The noise of a history, against formulas applied value by value."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage, special, stats

from harness import Points
from harness.check.history.noise import (
    SessionNoise,
    TypicalSpread,
    median_error,
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


def noise_of(deviations: Sequence[float] | Floats, correlation: float = 0.0) -> SessionNoise:
    """A noise whose residuals are the deviations, too."""
    values = np.array(deviations, float)
    places = np.arange(len(values))
    return SessionNoise(0.01, values, places, values, correlation, float(len(values) - 1))


def residuals(values: Floats) -> Floats:
    """How far each value is from the median of up to 20 before it, as a share of the level.

    The first four have too few before them: each is compared with the others of the first five.
    """
    found = []
    for place, value in enumerate(values):
        others = np.delete(values[:5], place) if place < 4 else values[max(place - 20, 0) : place]
        level = np.median(others)
        share = (value - level) / (level or np.median(values))
        found.append(share / np.sqrt(1 + np.pi / 2 / len(others)))
    return np.array(found)


def winsorised(values: Floats) -> Floats:
    """Ten or more values, clipped to three deviations, unless more than half of them are equal."""
    reach = 3 * 1.4826 * np.median(np.abs(values))
    return np.clip(values, -reach, reach) if len(values) >= 10 and reach else values


def deviation(values: Floats) -> float:
    return float(np.sqrt(np.mean(winsorised(values) ** 2)))


def shocks(deviations: Floats, smallest: float) -> Floats:
    """Each of the deviations divided by the spread of the others."""
    clipped = winsorised(deviations)
    found = []
    for place, value in enumerate(deviations):
        others = np.delete(clipped, place)
        spread = max(float(np.sqrt(np.mean(others**2))), smallest)
        found.append(value / spread if spread else 0.0)
    return np.array(found)


def tail(values: Floats) -> float:
    """Degrees of freedom whose tail has half of what the values have beyond ranks 2, 4, 8, ..."""
    ordered = sorted(np.abs(values), reverse=True)
    count = len(ordered)
    ranks = [2]
    while ranks[-1] * 2 * 20 <= count:
        ranks.append(ranks[-1] * 2)

    def lightest(ranks: list[int]) -> int:
        fitting = [
            place
            for place, freedom in enumerate(FREEDOM)
            if place == 0
            or all(
                2 * stats.t.sf(ordered[rank - 1], freedom) >= 0.5 * (rank - 0.3) / (count + 0.4)
                for rank in ranks
            )
        ]
        return max(fitting)

    place = lightest(ranks)
    if FREEDOM[lightest(ranks[1:])] <= 5:
        place = max(place - 2, 0)
    return FREEDOM[place]


@pytest.mark.parametrize(
    ("sessions", "error", "freedom"),
    [
        (1, 0.02 * np.sqrt(1 + np.pi / 8), 4),
        (2, 0.02 * np.sqrt(1 / (4 / 3) + np.pi / 8), 4 * (4 / 3 + 1) / 2),
        (3, 0.02 * np.sqrt(np.pi / 2 / 1.5 + np.pi / 8), 5),
        (9, 0.02 * np.sqrt(np.pi / 2 / 1.8 + np.pi / 8), 5.5),
    ],
)
def test_correlated_sessions_count_as_fewer(sessions: int, error: float, freedom: float) -> None:
    """With a correlation of 0.5, 2 sessions count as 4/3, 3 as 1.5 and 9 as 1.8."""
    empty = np.array([])
    noise = SessionNoise(0.01, empty, np.arange(0), empty, 0.5, freedom=5.5, tail=4.0, scatter=2.0)
    assert noise.error(sessions, 4) == pytest.approx(error)
    assert noise.freedom_of(sessions) == pytest.approx(freedom)


def test_a_robust_deviation_is_that_of_normal_values() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 1000.0])
    assert robust_deviation(values) == pytest.approx(1.4826 * 3)


@pytest.mark.parametrize(("count", "rank"), [(9, 2), (11, 2), (12, 3), (20, 6), (101, 41)])
def test_the_error_of_a_median_is_that_of_the_ranks_around_it(count: int, rank: int) -> None:
    """With 95 % the median is between the values of this rank from below and from above."""
    values = np.random.default_rng(count).exponential(size=count)
    ordered = sorted(values)
    outside = stats.binom.cdf(rank - 1, count, 0.5)
    assert outside < 0.035
    expected = (ordered[-rank] - ordered[rank - 1]) / (2 * stats.norm.isf(outside))
    assert median_error(values) == pytest.approx(expected)


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 40])
def test_medians_of_neighbors_are_those_of_a_filter(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    assert neighbor_medians(values).tolist() == (
        ndimage.median_filter(values, 7, mode="mirror").tolist()
    )


def test_three_sessions_have_a_noise() -> None:
    noise = session_noise(points([100, 110, 104]), 3, rounding=0.0)
    assert noise is not None
    shares = np.array([-7 / 107, 8 / 102, -1 / 105]) / np.sqrt(1 + np.pi / 2 / 2)
    assert noise.residuals == pytest.approx(shares)
    assert noise.deviations == pytest.approx([0, 6 / 104, 0])
    assert noise.results.tolist() == [0, 1, 2]
    assert noise.spread == pytest.approx(np.sqrt(np.mean(shares**2)))
    assert (noise.freedom, noise.tail, noise.scatter) == (2, np.inf, 1)
    assert session_noise(points([100, 110, 104]), 4, rounding=0.0) is None


@pytest.mark.parametrize(("count", "seed"), [(5, 0), (9, 1), (10, 2), (20, 3), (21, 4), (60, 5)])
def test_each_session_is_compared_with_those_before_it(count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = 1000 + np.cumsum(chance.standard_normal(count)) + chance.standard_t(2, count)
    noise = session_noise(points(values.tolist()), 5, rounding=0.0)
    assert noise is not None
    expected = residuals(values)
    assert noise.residuals == pytest.approx(expected)
    deviations = (values - neighbor_medians(values)) / np.median(values)
    assert noise.deviations == pytest.approx(deviations)
    assert noise.spread == pytest.approx(deviation(expected))
    assert noise.freedom == count - 1
    clipped = winsorised(expected)
    seen = sum(clipped[1:] * clipped[:-1]) / sum(clipped**2)
    seen += (1 + 3 * max(seen, 0)) / count
    assert noise.correlation == pytest.approx(min(max(seen, 0), 0.98))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_noise_is_a_share_in_any_unit(scale: float) -> None:
    values = 1000 + np.random.default_rng(0).standard_normal(30)
    one, other = (session_noise(points((values * by).tolist()), 5, 0.0) for by in (1, scale))
    assert one is not None
    assert other is not None
    assert other.residuals == pytest.approx(one.residuals)
    assert other.deviations == pytest.approx(one.deviations)
    assert other.spread == pytest.approx(one.spread)


def test_a_few_sessions_that_differ_from_equal_ones_are_noise() -> None:
    """Nothing is clipped to the deviation of most of them, which is 0."""
    noise = session_noise(points([100.0] * 12 + [110, 100, 90]), 5, rounding=0.0)
    assert noise is not None
    squares = 0.1**2 / (1 + np.pi / 2 / 12) + 0.1**2 / (1 + np.pi / 2 / 14)
    assert noise.spread == pytest.approx(np.sqrt(squares / 15))


def test_sessions_that_drift_all_the_time_say_little_of_noise() -> None:
    """A correlation of 0.98 is the largest: 30 sessions count as one."""
    drifting = session_noise(points((100 * 1.1 ** np.arange(30)).tolist()), 5, rounding=0.0)
    assert drifting is not None
    assert drifting.correlation == 0.98
    [noise] = pooled([drifting], [0.0])
    assert (noise.correlation, noise.freedom) == (0.98, 1)


def test_sessions_of_a_commit_are_compared_with_each_other() -> None:
    """Commit 0 has 12 sessions and commit 5 has 4; the others have 3 at the most, and follow each
    other. The levels of commits differ more than their sessions do."""
    commits = np.array([0, 1, 0, 2, 0, 3, 0, 0, 5, 0, 5, 0, 5, 6, 5, 6, 0, 6, 0, 0, 7, 0])
    values = 1000 + 100 * commits + np.random.default_rng(0).standard_t(2, len(commits))
    noise = session_noise(points(values.tolist(), commits.tolist()), 5, rounding=0.0)
    assert noise is not None
    several = ~np.isin(commits, [0, 5])
    chains = [np.flatnonzero(chosen) for chosen in (several, commits == 0, commits == 5)]
    parts = [residuals(values[places]) for places in chains]
    assert noise.results.tolist() == np.concatenate(chains).tolist()
    assert noise.residuals == pytest.approx(np.concatenate(parts))
    clipped = [winsorised(part) for part in parts]
    seen = sum(sum(part[1:] * part[:-1]) for part in clipped)
    seen /= sum(sum(part**2) for part in clipped)
    assert seen > 0
    assert noise.correlation == pytest.approx(seen + (1 + 3 * seen) / len(commits))
    levels = np.concatenate([np.full(len(places), np.median(values[places])) for places in chains])
    medians = np.concatenate([neighbor_medians(values[places]) for places in chains])
    deviations = (np.concatenate([values[places] for places in chains]) - medians) / levels
    assert noise.deviations == pytest.approx(deviations)


def test_times_of_no_ticks_are_measured_by_the_others() -> None:
    values = [0, 0, 0, 0, 0, 3, 4, 3, 4, 3, 4, 5]
    noise = session_noise(points(values), 5, rounding=0.0)
    assert noise is not None
    assert noise.residuals == pytest.approx(residuals(np.array(values, float)))
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
    assert noise.correlation == 0


@pytest.mark.parametrize(
    ("correlation", "kept"), [(0.49, 0.0), (0.5, 0.0), (0.51, 0.51), (0.98, 0.98)]
)
def test_a_correlation_that_chance_explains_is_none(correlation: float, kept: float) -> None:
    """Of 16 values, 0.5 has a chance of 5 %."""
    [noise] = pooled([noise_of([1.0, -1.0] * 8, correlation)], [0.0])
    assert noise.correlation == kept
    independent = 16 * (1 - kept**2) / (1 + kept**2)
    assert noise.freedom == pytest.approx(max(1, independent - 1))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 10, 30, 39, 40, 79, 80, 100, 160, 400])
def test_a_tail_is_as_heavy_as_that_of_the_most_extreme_sessions(count: int) -> None:
    chance = np.random.default_rng(count)
    for freedom in (0.5, 1, 1.5, 2, 3, 5, 30) * 2:
        values = chance.standard_t(freedom, count)
        for smallest in (0.2, 2.0):
            [noise] = pooled([noise_of(values)], [smallest])
            expected = tail(shocks(values, smallest)) if count > 2 else 1
            assert noise.tail == expected


def test_one_wild_session_is_no_tail_and_equal_ones_have_none() -> None:
    calm = np.tile([1.0, -1.0], 40)
    wild = calm.copy()
    wild[7] = 1000
    two = wild.copy()
    two[13] = 1000
    # A tail that ends at rank 2 is believed as it is; from rank 4 it counts as heavier.
    tails = [pooled([noise_of(values)], [0.0])[0].tail for values in (calm, wild, two)]
    assert tails == [1000, 1000, 1]
    [noise] = pooled([noise_of(np.zeros(80))], [0.0])
    assert noise.tail == 1000


def test_a_tail_that_begins_at_the_fourth_session_counts_as_heavier() -> None:
    found = set()
    for height in np.linspace(1, 4, 40).tolist():
        values = np.tile([1.0, -1.0], 40)
        values[[3, 20, 44, 71]] *= height
        [noise] = pooled([noise_of(values)], [0.0])
        assert noise.tail == tail(shocks(values, 0.0))
        found.add(noise.tail)
    assert found >= {3.5, 6, 7, 8, 1000}
    assert not found & {4, 5}, "5 counts as 3.5"


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
    for before, smallest, after in zip(noises, rounding, pooled(noises, rounding), strict=True):
        assert after.spread == before.spread
        count = len(before.deviations)
        known = before.correlation if before.correlation > 2 / np.sqrt(count) else 0
        assert after.correlation == known
        assert after.tail == tail(shocks(before.deviations, smallest))


@pytest.mark.parametrize("count", [10, 12])
def test_ten_operators_share_what_they_say_of_tail_correlation_and_sessions(count: int) -> None:
    noises, rounding = operators(count)
    usual = [1.4826 * np.median(np.abs(noise.residuals)) for noise in noises]
    scatter = noisier(scatters(noises, usual), count)
    assert scatter[30] > 3
    assert scatter[20] == 1, "too few operators have it to say how noisy it was"
    spreads = [
        max(deviation(noise.residuals / scatter[noise.results]), smallest)
        for noise, smallest in zip(noises, rounding, strict=True)
    ]
    together = [
        shocks(noise.deviations / scatter[noise.results], smallest)
        for noise, smallest in zip(noises, rounding, strict=True)
    ]
    correlation = np.median([noise.correlation for noise in noises])
    assert correlation > 2 / np.sqrt(sum(map(len, together)))
    middle = np.median(spreads)
    for noise, spread, found in zip(noises, spreads, pooled(noises, rounding), strict=True):
        sessions = len(noise.residuals)
        moderated = np.sqrt((4 * middle**2 + sessions * spread**2) / (4 + sessions))
        expected = max(spread, moderated) if sessions < 20 else spread
        assert found.spread == pytest.approx(expected)
        assert found.tail == tail(np.concatenate(together))
        assert found.correlation == pytest.approx(correlation)
        share = (1 - correlation**2) / (1 + correlation**2)
        assert found.freedom == pytest.approx(sessions * share - 1)


def test_of_two_sessions_each_is_compared_with_the_other() -> None:
    """Forty operators with residuals of one size, so that no session is noisier than another."""
    second = np.exp(0.7 * np.random.default_rng(0).standard_normal(40))
    noises = [replace(noise_of([1.0, -1.0]), deviations=np.array([1.0, of])) for of in second]
    expected = tail(np.concatenate([shocks(noise.deviations, 0.0) for noise in noises]))
    assert {noise.tail for noise in pooled(noises, [0.0] * 40)} == {expected}


def test_a_result_is_as_noisy_as_the_median_operator() -> None:
    """Ten operators have result 0, nine have result 2, and one without a spread has all four."""
    shares = [0.01, -0.02, 0.03, -0.04, 0.05, 0.06, -0.07, 0.08, -0.09, 0.10]
    noises = [
        SessionNoise(0.01, np.array([share, share]), np.array([0, 2]), np.zeros(2), 0.0, 1.0)
        for share in shares[:9]
    ]
    noises.append(SessionNoise(0.01, np.array([0.10]), np.arange(1), np.zeros(1), 0.0, 1.0))
    noises.append(noise_of([0.5] * 4))
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
