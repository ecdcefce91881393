"""Estimates of a change, against textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest

from harness.check.history.common_shift import correction
from harness.check.history.comparison import Interval
from harness.check.history.estimate import estimate, exact_change
from harness.check.history.samples import Points


def points(values: list[float], sessions: list[int] | None = None) -> Points:
    count = len(values)
    where = np.array(sessions if sessions is not None else range(count), np.int64)
    return Points(np.array(values, float), where, np.zeros(count, np.int64), np.arange(count))


@pytest.mark.parametrize(
    ("baseline", "level"),
    [
        ([7], 7),
        ([7, 5], 5),
        ([9, 5, 7], 7),
        ([9, 5, 7, 8], 7),
        ([9, 5, 7, 8, 10, 11], 8),
        ([3, 3, 3, 9, 9, 9, 9], 9),
    ],
)
def test_an_exact_level_is_a_value_that_was_measured(baseline: list[float], level: float) -> None:
    found = exact_change(points(baseline), points([10, 12, 11]))
    assert (found.method, found.baseline, found.current) == ("exact", level, 12)
    assert (found.baseline_error, found.error, found.noise) == (0, 0, 0)
    assert found.p == 0
    assert found.interval(0.95) == Interval(12 - level, 12 - level, 12 - level)
    assert found.baseline_interval(0.95) == Interval(level, level, level)
    assert found.detectable(0.001, 3, 1) == 4


def test_within_sessions_is_the_regression_on_side_and_session() -> None:
    before = points([100, 103, 108, 111, 120], [1, 1, 2, 2, 3])
    after = points([106, 104, 116, 113, 128, 125], [1, 1, 2, 2, 3, 3])
    found = estimate(before, after, None, None, rounding=0.0)
    assert found is not None
    assert found.method == "within sessions"
    sessions = np.concatenate([before.sessions, after.sessions])
    side = np.repeat([0.0, 1.0], [5, 6])
    design = np.column_stack([*[(sessions == each).astype(float) for each in (1, 2, 3)], side])
    values = np.concatenate([before.values, after.values])
    solution, rest, *_ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - design.shape[1]
    variance = float(rest[0]) / freedom
    assert found.change == pytest.approx(solution[3])
    assert found.freedom == freedom == 7
    assert found.noise == pytest.approx(np.sqrt(variance))
    error = np.sqrt(variance * np.linalg.inv(design.T @ design)[3, 3])
    assert found.error == pytest.approx(error)


def test_an_error_within_sessions_is_not_below_that_of_the_clock() -> None:
    before = points([100, 100, 108, 108, 120], [1, 1, 2, 2, 3])
    after = points([105, 105, 113, 113, 125, 125], [1, 1, 2, 2, 3, 3])
    found = estimate(before, after, None, None, rounding=0.5)
    assert found is not None
    assert found.change == pytest.approx(5)
    assert found.noise == pytest.approx(0.5)
    assert found.error == pytest.approx(0.5 / np.sqrt(1 + 1 + 2 / 3))


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
