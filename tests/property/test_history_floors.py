"""Floors: exact whatever the noise is, and plain where the middle is not."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from harness.check.history.floors import MIN_SESSIONS, floor_change
from harness.check.history.samples import Floats

NUMBERS = st.lists(st.integers(1, 10**6), min_size=1, max_size=40).map(np.array)


def change(before: Floats, after: Floats) -> float:
    return floor_change(before.astype(float), after.astype(float), 0.95, special).p


def disturbed(random: np.random.Generator, count: int, slower: float = 1.0) -> Floats:
    """Times of which two thirds are disturbed, by up to a fifth."""
    noise = np.where(random.random(count) < 1 / 3, random.random(count) * 0.002, 0)
    noise = np.where(noise == 0, random.random(count) * 0.2, noise)
    return np.asarray(1000 * slower * (1 + noise))


@pytest.mark.parametrize("size", [2, 4, 5])
def test_where_nothing_changed_a_probability_is_no_larger_than_it_says(size: int) -> None:
    """By all ways to divide numbers that are all different."""
    numbers = np.arange(2 * size, dtype=float)
    found = []
    for chosen in combinations(range(2 * size), size):
        mine = np.isin(np.arange(2 * size), chosen)
        found.append(change(numbers[mine], numbers[~mine]))
    assert len(found) == comb(2 * size, size)
    for level in (0.05, 0.2, 0.5, 1.0):
        assert sum(p <= level for p in found) <= level * len(found)


@given(NUMBERS, NUMBERS, st.integers(1, 1000))
def test_what_unit_times_are_in_makes_no_difference(
    before: Floats, after: Floats, scale: int
) -> None:
    assert change(before, after) == change(before * scale, after * scale)
    assert change(before, after) == change(after, before)
    assert change(before, before) == 1.0
    small, large = (
        floor_change(a.astype(float), b.astype(float), 0.95, special)
        for a, b in ((before, after), (before * 2, after * 2))
    )
    assert large.change.value == 2 * small.change.value
    assert large.change.low <= large.change.value <= large.change.high


@given(st.integers(MIN_SESSIONS, 60), st.integers(0, 2**32 - 1))
def test_sides_that_lie_apart_are_as_unlikely_as_they_can_be(count: int, seed: int) -> None:
    before = np.random.default_rng(seed).random(count)
    ways = comb(2 * count - count // 2, count) / comb(2 * count, count)
    assert change(before, before + 2) == pytest.approx(6 * ways)


def test_a_small_change_below_large_noise_is_plain() -> None:
    random = np.random.default_rng(20261121)
    unlikely = [change(disturbed(random, 80), disturbed(random, 80, 1.03)) for _ in range(50)]
    assert sum(p < 1e-4 for p in unlikely) >= 48
    alike = [change(disturbed(random, 80), disturbed(random, 80)) for _ in range(200)]
    assert sum(p < 0.05 for p in alike) <= 20


@given(st.integers(MIN_SESSIONS, 200), st.integers(0, 2**32 - 1))
def test_the_interval_holds_what_it_is_of(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = floor_change(disturbed(random, count), disturbed(random, count, 1.5), 0.95, special)
    assert found.change.low <= found.change.value <= found.change.high
    assert found.baseline.low <= found.baseline.value <= found.baseline.high
    assert found.change.low > 0
