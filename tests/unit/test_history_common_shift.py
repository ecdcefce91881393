"""What all operators of a run have in common, against a calculation in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest
from scipy.stats import trim_mean

from harness import Metric, Points
from harness.check.history.group_sessions import MetricHistory
from harness.check.history.noise import common_factors, share_moved
from tests.support.histories import operator

Row = Sequence[float | None]
"""The times of an operator in each result; None where it was not measured."""


def points(row: Row, places: range, sessions: Sequence[int]) -> Points:
    results = [place for place in places if row[place] is not None]
    return Points(
        np.array([row[place] for place in results], float),
        np.array([sessions[place] for place in results], np.int64),
        np.zeros(len(results), np.int64),
        np.array(results, np.int64),
    )


def operators(
    rows: Sequence[Row], now: int, unused: int = 0, sessions: Sequence[int] | None = None
) -> dict[Metric, MetricHistory]:
    """Earlier results, the first ``unused`` not in the baseline, and from ``now`` on the others."""
    found = {}
    for number, row in enumerate(rows):
        of = sessions or range(len(row))
        earlier = points(row, range(now), of)
        baseline = earlier.results >= unused
        candidates = points(row, range(now, len(row)), of)
        found[operator(number)] = MetricHistory(earlier, baseline, candidates)
    return found


def factors_of(
    rows: Sequence[Row], now: int, unused: int = 0, sessions: Sequence[int] | None = None
) -> list[float] | None:
    found = common_factors(operators(rows, now, unused, sessions), len(rows[0]))
    return None if found is None else found.factors.tolist()


def times(seed: int, count: int, results: int) -> list[list[float | None]]:
    """Noisy times of operators between 0.1 and 1000 ns, some of which were not measured."""
    chance = np.random.default_rng(seed)
    shared = np.exp(0.2 * chance.standard_normal(results))
    own = np.exp(0.3 * chance.standard_normal((count, results)))
    measured = chance.random((count, results)) < 0.85
    measured[0] = True
    values = np.geomspace(0.1, 1e3, count)[:, None] * shared * own
    return [
        [value if known else None for value, known in zip(*row, strict=True)]
        for row in zip(values.tolist(), measured.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_factor_is_the_median_of_the_times_relative_to_their_baselines(seed: int) -> None:
    count, results, now, unused = 12, 16, 13, 3
    rows = times(seed, count, results)
    levels = [trim_mean([x for x in row[unused:now] if x is not None], 0.25) for row in rows]
    raw, known = [], []
    for place in range(results):
        ratios = [
            row[place] / level
            for row, level in zip(rows, levels, strict=True)
            if row[place] is not None
        ]
        known.append(len(ratios) >= 10)
        raw.append(median(ratios) if known[-1] else 1.0)
    middle = median(raw[unused:now])
    expected = [factor / middle if sure else 1.0 for factor, sure in zip(raw, known, strict=True)]
    assert len(set(known)) == 2
    found = common_factors(operators(rows, now, unused), results)
    assert found is not None
    assert found.factors == pytest.approx(expected)
    assert found.history.earlier.values == pytest.approx(expected[:now])
    assert found.history.now.values == pytest.approx(expected[now:])
    assert found.history.now.results.tolist() == [13, 14, 15]
    assert found.history.baseline.tolist() == [False] * 3 + [True] * 10
    assert found.change == pytest.approx(median(expected[now:]) - 1)


def shared(factors: Sequence[float], count: int = 10) -> list[list[float | None]]:
    """Operators that have nothing but these factors."""
    return [[2.0**level * factor for factor in factors] for level in range(-5, count - 5)]


def test_without_the_factor_all_times_are_those_of_the_baseline() -> None:
    rows = shared([2, 4, 8, 4, 1])
    found = common_factors(operators(rows, 4), 5)
    assert found is not None
    assert found.factors.tolist() == [0.5, 1, 2, 1, 0.25]
    for row, samples in zip(rows, operators(rows, 4).values(), strict=True):
        corrected = found.without(samples)
        assert corrected.earlier.values.tolist() == [row[1]] * 4
        assert corrected.now.values.tolist() == [row[1]]
    assert found.change == -0.75


def test_repeats_in_a_session_count_as_one_in_the_baseline() -> None:
    rows = shared([8, 8, 8, 2, 4, 4])
    assert factors_of(rows, 5, sessions=[0, 0, 0, 1, 2, 3]) == [2, 2, 2, 0.5, 1, 1]


def test_an_operator_that_changed_alone_is_not_in_the_factor() -> None:
    rows = shared([4, 4, 4, 4, 4])
    rows[3][4] = 1e6
    assert factors_of(rows, 4) == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "row",
    [
        [2.0, 2.0, 2.0, 2.0, None],  # not now
        [2.0, 2.0, 2.0, None, 2.0],  # not in the baseline
        [2.0, 2.0, 2.0, 0.0, 2.0],  # of no ticks in the baseline
        [0.0, 0.0, 0.0, 2.0, 2.0],  # mostly of no ticks
    ],
)
def test_operators_without_a_level_do_not_count(row: Row) -> None:
    """The baseline is the last of the earlier results."""
    nine: list[Row] = [*shared([1, 1, 1, 1, 3], count=9)]
    assert factors_of([*nine, row], 4, unused=3) is None
    assert factors_of([*nine, [1.0] * 5], 4, unused=3) == [1, 1, 1, 1, 3]


def test_results_of_few_operators_and_of_no_ticks_have_no_factor() -> None:
    """The factors of the others are divided by their median in the baseline, which is 4."""
    rows = shared([2, 4, 8, 4, 4, 4, 6, 6])
    rows[0][0] = None
    for row in rows[:6]:
        row[4] = 0.0
    rows[1][7] = None
    assert factors_of(rows, 6) == [1, 1, 2, 1, 1, 1, 1.5, 1]


def test_changes_closer_to_the_common_shift_than_to_nothing_moved_with_it() -> None:
    changes = [0.75, 0.375, 0.5, 0.25, 0.0, -0.75]
    assert share_moved(changes, 0.5) == 3
    assert share_moved([-change for change in changes], -0.5) == 3
    assert share_moved(changes, 0.0) == 0
