"""A sample of the study of rules for verdicts (``benchmarks/verdict_study.py``), with fixed seeds.

The whole study has 600 nights of each noise; a sample finds only what is broken.
"""

from __future__ import annotations

from pkgutil import resolve_name

import numpy as np
import pytest

from benchmarks.verdict_counts import Share
from benchmarks.verdict_noise import NOISES, Life
from benchmarks.verdict_parts import PARTS, rules
from benchmarks.verdict_rules import RULES, Rule, change_points
from benchmarks.verdict_study import CHANGES, Counts, limit, measure, tables

SAMPLE = ("throttling", "burst", "build modes", "noisier")


def chosen(*names: str) -> dict[str, Rule]:
    return {name: RULES[name] for name in names}


def test_rules_that_look_twice_in_a_sample_of_nights() -> None:
    results = measure(SAMPLE, chosen("once", "twice"), seed=3, lives=1, changed=1, jobs=1)
    total = {rule: Counts() for rule in ("once", "twice")}
    for (_, rule), counts in results.items():
        total[rule].add_all(counts)
    # The same nights, of which only the first look is disturbed.
    assert total["once"].alarms.of == total["twice"].alarms.of == 30 * len(SAMPLE)
    assert total["once"].alarms.count > 2
    assert total["twice"].alarms.count == 0
    assert total["once"].repeats == 0 < total["twice"].repeats
    assert total["twice"].by_night("x2", 1).count == len(SAMPLE)
    lines = [*tables(results)]
    assert len(lines) > len(SAMPLE) * (1 + len(CHANGES))
    assert any(line.startswith("| twice | 0 of 90 |") for line in lines)


@pytest.mark.parametrize("name", NOISES)
def test_all_rules_see_the_same_runs(name: str) -> None:
    first, second = Life(name, 1, 0), Life(name, 1, 0)
    # Whatever was measured before, in another order or at all.
    again = second.times(70, run=2, begin=2.0, age=10), second.times(70)
    assert (again[0] == first.times(70, run=2, begin=2.0, age=10)).all()
    assert (again[1] == first.times(70)).all()
    assert (first.times(70, slower=np.full(first.times(70).shape[1], 2.0)) >= again[1]).all()


def test_a_comparison_has_the_parts_that_are_taken_away() -> None:
    for places in PARTS.values():
        for place in places:
            assert resolve_name(f"harness.check.history.{place}") is not None
    rule = "without the lenient first look"
    results = measure(["normal"], {rule: rules()[rule]}, seed=3, lives=0, changed=1, jobs=1)
    assert results["normal", rule].by_night("x2", 2) == Share(1, 1)


def test_an_operator_twice_as_slow_under_normal_noise() -> None:
    # Otava needs nights after the change; the comparison of today takes long.
    rules = [rule for rule in RULES if rule not in ("otava", "harness")]
    results = measure(["normal"], chosen(*rules), seed=5, lives=0, changed=1, jobs=1)
    for rule in rules:
        # What waits for the next night finds it then.
        night = 2 if rule.startswith("next night") else 1
        assert results["normal", rule].by_night("x2", night) == Share(1, 1), rule


@pytest.mark.slow
def test_the_rules_of_today_and_of_otava_under_exact_clocks() -> None:
    results = measure(["exact"], chosen("harness", "otava"), seed=5, lives=0, changed=1, jobs=1)
    assert results["exact", "harness"].by_night("x2", 1) == Share(1, 1)
    assert results["exact", "otava"].by_night("x2", 5) == Share(1, 1)


def test_change_points_are_those_of_otava() -> None:
    """Values by ``otava.analysis.compute_change_points`` of apache-otava 0.8.0."""
    chance = np.random.default_rng(0)
    series = 100 + chance.standard_t(3, 60)
    series[25:] += 5
    series[40:] -= 3
    assert change_points(series) == (25, 40)
    assert change_points(series[:27]) == (25,)


def test_upper_limit_of_a_share() -> None:
    # 1 - 0.05 ** (1 / 600)
    assert limit(Share(0, 600)) == pytest.approx(0.00498, abs=1e-5)
    assert limit(Share(3, 3)) == 1.0
