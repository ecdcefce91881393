"""The noise of a history, against formulas applied value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from harness import Points
from harness.check.history.noise import (
    SessionNoise,
    moderated,
    robust_deviation,
    session_noise,
    typical,
)

Floats = npt.NDArray[np.float64]


def points(values: Sequence[float], commits: Sequence[int] | None = None) -> Points:
    """A result and a session each, of a commit each unless they are given."""
    places = np.arange(len(values))
    origins = places if commits is None else np.array(commits, np.int64)
    return Points(np.array(values, float), places, origins, places)


def deviation(residuals: Floats) -> float:
    """The larger of the robust deviation and that of residuals, of which a few are winsorised."""
    robust = 1.4826 * np.median(np.abs(residuals))
    spikes = np.count_nonzero(np.abs(residuals) > 3 * robust)
    if len(residuals) >= 10 and spikes <= len(residuals) / 10:
        residuals = np.clip(residuals, -3 * robust, 3 * robust)
    return float(max(robust, np.sqrt(np.sum(residuals**2) / (len(residuals) - 1))))


@pytest.mark.parametrize(
    ("sessions", "error"), [(1, np.sqrt(1 + np.pi / 8)), (3, np.sqrt(2 / 3 + np.pi / 8))]
)
def test_runs_of_one_night_have_half_of_their_variance_in_common(
    sessions: int, error: float
) -> None:
    noise = SessionNoise(0.02, freedom=5.5, usual=0.01)
    assert noise.error(sessions, 4) == pytest.approx(0.02 * error)
    assert noise.lenient.error(sessions, 4) == pytest.approx(0.01 * error)


def test_a_robust_deviation_is_that_of_normal_values() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 1000.0])
    assert robust_deviation(values) == pytest.approx(1.4826 * 3)


def test_three_sessions_have_a_noise() -> None:
    noise = session_noise(points([100, 110, 104]), 3, rounding=0.0)
    assert noise is not None
    shares = np.array([-4, 6, 0]) / 104
    assert noise.spread == pytest.approx(deviation(shares))
    assert noise.freedom == 2
    assert session_noise(points([100, 110, 104]), 4, rounding=0.0) is None


@pytest.mark.parametrize("count", [5, 20, 60])
def test_the_newest_forty_sessions_show_the_noise(count: int) -> None:
    values = 1000 + np.random.default_rng(count).standard_t(2, count)
    noise = session_noise(points(values.tolist()), 5, rounding=0.0)
    assert noise is not None
    newest = values[-40:]
    shares = newest / np.median(newest) - 1
    assert noise.spread == pytest.approx(deviation(shares))
    assert noise.freedom == len(newest) - 1


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_noise_is_a_share_in_any_unit(scale: float) -> None:
    values = 1000 + np.random.default_rng(0).standard_normal(30)
    one, other = (session_noise(points((values * by).tolist()), 5, 0.0) for by in (1, scale))
    assert one is not None
    assert other is not None
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
    assert noise.spread == pytest.approx(deviation(np.concatenate(expected)))
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
        assert known.freedom == 5
    assert session_noise(mixed, 8, rounding=0.0) is None
    two = session_noise(points([7, 9, 5, 6, 5, 6], [0, 1] + [2] * 4), 5, rounding=0.0)
    assert two is not None
    assert two.freedom == 4


def test_a_noise_is_not_below_that_of_the_clock() -> None:
    noise = session_noise(points([200.0] * 12), 5, rounding=0.3)
    assert noise is not None
    assert noise.spread == pytest.approx(0.3 / 200)


def noises(count: int) -> list[SessionNoise]:
    """Noises of so many operators, of which each is wider than the one before."""
    chance = np.random.default_rng(1)
    found = [
        session_noise(points((1000 + (1 + n) * chance.standard_normal(20)).tolist()), 5, 0.0)
        for n in range(count)
    ]
    return [noise for noise in found if noise is not None]


def together(noise: SessionNoise, others: Sequence[SessionNoise]) -> SessionNoise:
    """The noise with what those of all operators say of it."""
    return noise.moderated(
        typical([other.spread for other in others]),
        typical([other.correlation for other in others]),
    )


def test_few_operators_say_nothing_of_each_other() -> None:
    nine = noises(9)
    for noise in nine:
        assert together(noise, nine) == replace(noise, correlation=0.0)


def test_ten_operators_raise_what_a_few_sessions_show() -> None:
    ten = noises(10)
    middle = np.median([noise.spread for noise in ten])
    correlations = [noise.correlation for noise in ten if noise.correlation]
    for noise in ten:
        found = together(noise, ten)
        square = (4 * middle**2 + noise.freedom * noise.spread**2) / (4 + noise.freedom)
        assert found.spread == pytest.approx(max(noise.spread, np.sqrt(square)))
        assert found.freedom == noise.freedom + 4
        assert found.correlation == (np.median(correlations) if len(correlations) >= 10 else 0)


def test_the_spread_of_pairs_and_that_of_the_median_operator_estimate_each_other() -> None:
    square = (4 * 0.02**2 + 4 * 0.04**2) / 8
    assert moderated(0.04, 4, 0.02) == (pytest.approx(np.sqrt(square)), 8)
    assert moderated(0.04, 4, 0.0) == (0.04, 4)
    assert typical([0.01] * 9) == 0
    assert typical([0.01] * 9 + [0.0]) == 0
    assert typical([0.01] * 5 + [0.03] * 5) == pytest.approx(0.02)


def test_spikes_of_a_few_sessions_do_not_widen_the_noise_and_a_second_level_does() -> None:
    calm = 1000 + np.random.default_rng(3).standard_normal(40)
    for far, wide in ((1, False), (8, True)):
        values = calm.copy()
        values[3 : 3 + far] *= 1.1
        values = values[np.random.default_rng(4).permutation(40)]
        noise = session_noise(points(values.tolist()), 5, 0.0)
        assert noise is not None
        assert (noise.spread > 0.02) is wide
        assert noise.lenient.spread < 0.003


def test_a_clear_step_is_no_noise() -> None:
    chance = np.random.default_rng(0).standard_normal(20)
    stepped = 1000 + chance + np.where(np.arange(20) < 12, 0, 100)
    noise, calm = (session_noise(points(v.tolist()), 5, 0.0) for v in (stepped, 1000 + chance))
    assert noise is not None
    assert calm is not None
    assert noise.spread == pytest.approx(calm.spread, rel=0.2)
