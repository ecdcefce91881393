"""What holds of comparisons with history, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import (
    Compared,
    History,
    HistoryComparison,
    HistoryLimits,
    Measured,
    Metric,
    Series,
    compare_with_history,
)
from harness.check.history.noise import find_modes
from harness.check.history.steps import find_steps
from tests.support.histories import Floats, HistoryBuilder, night, noisy, operator

SEEDS = st.integers(0, 2**32 - 1)
DESIGNS = st.sampled_from(["paired", "between"])


def by_name(comparison: HistoryComparison) -> dict[str, Compared]:
    return {number.metric.name: number for number in comparison.numbers}


def numbered(values: Floats) -> dict[Metric, float]:
    return {operator(number): value for number, value in enumerate(values.tolist())}


def of_design(design: str, before: Floats, after: Floats) -> HistoryBuilder:
    """The same numbers as pairs of sessions, or in sessions of one side each."""
    builder = HistoryBuilder()
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        session = {"paired": f"s{place}", "between": f"old {place}"}[design]
        builder.earlier(session, "old", numbered(old))
        session = {"paired": f"s{place}", "between": f"new {place}"}[design]
        builder.now(session, "new", numbered(new))
    return builder


def compare(design: str, before: Floats, after: Floats) -> dict[str, Compared]:
    builder = of_design(design, before, after)
    return by_name(compare_with_history(builder.history(), builder.judged))


def shifted(after: Floats, share: float) -> Floats:
    changed = after.copy()
    changed[:, 0] *= 1 + share
    return changed


@given(DESIGNS, SEEDS, st.integers(6, 20), st.floats(0.01, 1000), st.floats(0, 0.2))
def test_scale_does_not_matter(
    design: str, seed: int, sessions: int, scale: float, share: float
) -> None:
    before, after = noisy(seed, sessions, 3)
    after = shifted(after, share)
    one = compare(design, before, after)
    other = compare(design, before * scale, after * scale)
    for name, number in one.items():
        assert number.change is not None
        scaled = other[name]
        assert scaled.p == pytest.approx(number.p, rel=1e-4, abs=1e-12)
        assert scaled.relative == pytest.approx(number.relative, rel=1e-6, abs=1e-9)
        assert scaled.method == number.method


@given(SEEDS, st.integers(2, 4), st.randoms(use_true_random=False))
def test_the_order_of_results_within_a_session_does_not_matter(
    seed: int, repeats: int, chance: object
) -> None:
    before, after = noisy(seed, 6 * repeats, 2)
    builder = HistoryBuilder()
    for place in range(len(before)):
        session = f"s{place // repeats}"
        builder.earlier(session, "old", numbered(before[place]))
        builder.now(session, "new", numbered(after[place]))
    history, judged = builder.history(), builder.judged
    orders = np.arange(len(before)).reshape(-1, repeats).tolist()
    for order in orders:
        chance.shuffle(order)  # type: ignore[attr-defined]
    order = [place for session in orders for place in session]
    shuffled = History(
        history.results,
        tuple(
            Series(item.metric, item.results, tuple(item.samples[place] for place in order))
            for item in history.series
        ),
        history.baseline,
        history.description,
    )
    again = [
        Measured(judged[place].provenance, judged[order[place]].samples)
        for place in range(len(judged))
    ]
    one, other = (compare_with_history(*pair) for pair in ((history, judged), (shuffled, again)))
    for name, number in by_name(one).items():
        assert by_name(other)[name].p == pytest.approx(number.p)
        assert by_name(other)[name].change == number.change


@given(DESIGNS, SEEDS, st.integers(6, 16), st.integers(1, 6))
def test_other_operators_change_no_estimate(
    design: str, seed: int, sessions: int, more: int
) -> None:
    before, after = noisy(seed, sessions, 1 + more)
    many = compare(design, before, after)["op0"]
    alone = compare(design, before[:, :1], after[:, :1])["op0"]
    assert (alone.p, alone.change, alone.baseline) == (many.p, many.change, many.baseline)


@given(DESIGNS, SEEDS, st.integers(6, 16), st.floats(0, 0.1), st.floats(0, 0.1))
def test_a_larger_shift_is_never_less_likely_one(
    design: str, seed: int, sessions: int, one: float, more: float
) -> None:
    before, after = noisy(seed, sessions, 2)
    lesser, larger = (
        compare(design, before, shifted(after, share))["op0"] for share in (one, one + more)
    )
    assert lesser.change is not None
    assert larger.change is not None
    assert larger.change.value >= lesser.change.value - 1e-9
    if design == "paired" and lesser.change.value > 0:
        assert larger.p is not None
        assert lesser.p is not None
        # A share of noisy times is itself noisy, so a large one is as certain as it can be.
        assert larger.p <= max(lesser.p * 1.5, 1e-3)


@given(
    DESIGNS,
    st.floats(1, 1e9),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_what_is_constant_is_the_same(
    design: str, level: float, sessions: int, metrics: int
) -> None:
    side = np.full((sessions, metrics), level)
    for number in compare(design, side, side).values():
        assert number.judgement in ("same", "too little")
        assert not number.steps
        assert not number.modes


@given(SEEDS, st.floats(1.0, 1e6), st.integers(12, 60))
def test_one_outlier_is_no_step(seed: int, height: float, count: int) -> None:
    chance = np.random.default_rng(seed)
    series = 1000 + chance.uniform(-0.5, 0.5, count)
    series[chance.integers(count)] += height
    # By chance alone one of a hundred series has a step with a probability of 1 %.
    assert not [step for step in find_steps(series) if step.p < 1e-4]


@given(SEEDS, st.integers(12, 30), st.integers(12, 30), st.sampled_from([-1, 1]))
def test_a_clear_step_is_found_where_it_is(seed: int, old: int, new: int, sign: int) -> None:
    chance = np.random.default_rng(seed)
    series = 1000 + chance.standard_normal(old + new)
    series[old:] += sign * 20
    clearest, *others = sorted(find_steps(series), key=lambda step: step.p)
    assert clearest.at == old
    # Where points happen to resemble their neighbors, they count as fewer.
    assert clearest.p < 0.01
    assert all(step.p > 1e-5 for step in others)
    assert clearest.size.value == pytest.approx(sign * 20, abs=3)


@given(SEEDS, st.integers(20, 200), st.floats(0.3, 0.7), st.floats(11, 1000))
def test_two_modes_are_found_whatever_the_scale(
    seed: int, count: int, weight: float, distance: float
) -> None:
    chance = np.random.default_rng(seed)
    upper = np.arange(count) < round(weight * count)
    values = distance * upper + chance.standard_normal(count)
    for scale in (1.0, 0.001, 1e6):
        modes = find_modes(1e4 * scale + values * scale)
        assert modes is not None
        assert modes[1].weight == pytest.approx(upper.mean(), abs=0.05)
        assert modes[1].center - modes[0].center == pytest.approx(distance * scale, abs=2.5 * scale)


@pytest.mark.parametrize(("shape", "most"), [("normal", 1), ("uniform", 10), ("t", 1)])
def test_one_mode_is_seldom_two(shape: str, most: int) -> None:
    """In 100 series of each length. A uniform one looks like two modes in up to 4 of 100."""
    for count in (5, 20, 42, 60, 200):
        found = 0
        for seed in range(100):
            chance = np.random.default_rng([seed, count])
            values = {
                "normal": chance.standard_normal,
                "uniform": chance.random,
                "t": lambda n, chance=chance: chance.standard_t(3, n),
            }[shape](count)
            found += find_modes(1e3 + values) is not None
        assert found <= most


@pytest.mark.parametrize(("design", "sessions"), [("paired", 24), ("paired", 40), ("between", 8)])
@pytest.mark.slow
def test_nights_without_a_change_raise_no_alarm(design: str, sessions: int) -> None:
    """Without limits, so that it is the level of false discoveries that has to prevent them."""
    limits = HistoryLimits(relative=0.0, absolute_us=0.0)
    alarms = 0
    for seed in range(40):
        builder = of_design(design, *noisy(seed, sessions, 60))
        comparison = compare_with_history(builder.history(), builder.judged, limits)
        # What is suspect is measured again.
        alarms += any(
            number.judgement not in ("same", "suspect") or number.steps
            for number in comparison.numbers
        )
    # With 1 % per night, 3 or more of 40 would come with a probability of 0.8 %.
    assert alarms <= 2


def test_a_slow_down_of_one_operator_is_found_in_one_night() -> None:
    found = 0
    for seed in range(20):
        before, after = noisy(seed, 30, 60, own=0.008)
        after[:, seed % 60] *= 1.04
        builder = night(before, after)
        comparison = compare_with_history(builder.history(), builder.judged)
        worst = comparison.numbers[0]
        found += worst.judgement == "regression" and worst.metric.instruction == seed % 60
    assert found >= 19
