"""What a comparison with history can see, and what it takes for noise."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from harness import (
    Check,
    Compared,
    History,
    HistoryComparison,
    HistoryLimits,
    Measured,
    Metric,
    Verdict,
    compare_with_history,
)
from tests.support.histories import Floats, HistoryBuilder, history_checks, night, operator

OPERATORS = 20
LEVELS = np.geomspace(2e4, 4e5, OPERATORS)


def nights(seed: int, count: int, spread: float = 0.005) -> Floats:
    """Times of nights of one run each, shape (nights, operators); the last one is the candidate."""
    chance = np.random.default_rng(seed)
    return np.asarray(LEVELS * (1 + spread * chance.standard_normal((count, OPERATORS))))


def nightly(times: Floats, baseline: int = 20) -> HistoryBuilder:
    """Runs of another commit each night."""
    builder = HistoryBuilder()
    first = len(times) - 1 - baseline
    for place, row in enumerate(times[:-1]):
        builder.earlier(f"n{place}", f"c{place}", numbered(row), baseline=place >= first)
    builder.now("now", "new", numbered(times[-1]))
    return builder


def numbered(row: Floats) -> dict[Metric, float]:
    return {operator(number): value for number, value in enumerate(row.tolist())}


def compare(builder: HistoryBuilder, tick: float = 0.0) -> HistoryComparison:
    judged = [
        Measured(
            msgspec.structs.replace(item.provenance, ticks={"": tick} if tick else {}), item.samples
        )
        for item in builder.judged
    ]
    return compare_with_history(builder.history(), judged)


def of(comparison: HistoryComparison, number: int) -> Compared:
    [found] = [n for n in comparison.numbers if n.metric.instruction == number]
    return found


def failing(comparison: HistoryComparison) -> list[Check]:
    return [check for check in history_checks(comparison) if check.failed]


def test_what_all_operators_share_is_reported_once() -> None:
    times = nights(1, 41)
    times[-1] *= 1.06
    comparison = compare(nightly(times))
    [failed] = failing(comparison)
    assert failed.code == "H12"
    assert "all operators +" in failed.reason
    assert (
        f"{OPERATORS} of {OPERATORS} with it: the machine, the clock or the build" in failed.reason
    )
    [common] = comparison.common
    assert common.change.value == pytest.approx(0.06, abs=0.005)
    assert {number.judgement for number in comparison.numbers} == {"same"}


def test_an_operator_is_found_on_a_machine_that_is_slower_today() -> None:
    """The machine's rate varies by 5 %, and the operator's by 8 % more only today."""
    chance = np.random.default_rng(2)
    times = nights(2, 41) * np.exp(0.05 * chance.standard_normal((41, 1)))
    times[-1, 7] *= 1.08
    comparison = compare(nightly(times))
    [failed] = failing(comparison)
    assert (failed.code, "instruction 7" in failed.subject) == ("H12", True)
    assert "of all operators" in failed.reason
    assert of(comparison, 7).common == pytest.approx(comparison.common[0].change.value)


@pytest.mark.parametrize(("factor", "judgement"), [(0.9, "improvement"), (1.1, "suspect")])
def test_an_operator_that_alone_did_not_change_is_none(factor: float, judgement: str) -> None:
    times = nights(3, 41)
    times[-1] *= factor
    times[-1, 4] /= factor
    comparison = compare(nightly(times))
    assert comparison.common[0].judgement == judgement
    assert of(comparison, 4).judgement == "same"


def test_different_changes_of_most_operators_do_not_pass() -> None:
    times = nights(4, 41)
    times[-1] *= np.where(np.arange(OPERATORS) % 2, 1.15, 0.87)
    comparison = compare(nightly(times))
    [failed] = failing(comparison)
    assert failed.code == "H12"
    assert f"{OPERATORS} of {OPERATORS} operators changed" in failed.reason


@pytest.mark.parametrize("ago", [1, 5, 15])
def test_a_wild_night_does_not_hide_later_changes(ago: int) -> None:
    times = nights(5, 41)
    times[-1 - ago] *= 3 * np.linspace(0.7, 1.4, OPERATORS)
    times[-1, 3] *= 1.06
    comparison = compare(nightly(times))
    assert [n.metric.instruction for n in comparison.numbers if n.judgement == "suspect"] == [3]
    assert comparison.detectable_median is not None
    assert comparison.detectable_median < 0.06


def test_what_is_twice_as_slow_is_found_in_five_pairs() -> None:
    for seed in range(6):
        times = nights(seed, 10, spread=0.02)
        times[5:, seed] *= 2
        comparison = compare(night(times[:5], times[5:]))
        assert of(comparison, seed).judgement == "regression"


def test_nights_that_remember_each_other_raise_no_alarm() -> None:
    alarms = 0
    for seed in range(8):
        chance = np.random.default_rng(seed)
        steps = chance.standard_normal((61, OPERATORS))
        noise = np.zeros_like(steps)
        for place in range(1, len(steps)):
            noise[place] = 0.9 * noise[place - 1] + np.sqrt(1 - 0.81) * steps[place]
        comparison = compare(nightly(LEVELS * (1 + 0.02 * noise)))
        alarms += bool(failing(comparison)) or any(n.steps for n in comparison.numbers)
    assert alarms <= 1


def test_two_levels_are_learnt_from_commits_of_one_run_each() -> None:
    chance = np.random.default_rng(9)
    times = nights(9, 61, spread=0.002)
    times[:, 5] *= np.where(chance.random(61) < 0.4, 1.1, 1.0)
    times[-1, 5] = LEVELS[5] * 1.1
    number = of(compare(nightly(times)), 5)
    assert number.judgement == "same"
    assert not number.steps
    low, high = (mode.center for mode in number.modes)
    assert high / low == pytest.approx(1.1, abs=0.01)
    # A flip may hide as much.
    assert number.detectable is not None
    assert number.detectable > 0.1


def test_a_change_exceeds_two_ticks() -> None:
    """On a clock of 1 us, 15 us and 17 us may differ by less than 1 us."""
    times = np.round(nights(10, 41, spread=0.0) / 1000) * 1000
    times[-1, 0] += 2000
    assert of(compare(nightly(times), tick=1000.0), 0).judgement != "regression"
    times[-1, 0] += 1000
    assert of(compare(nightly(times), tick=1000.0), 0).judgement == "suspect"


def test_a_coarse_clock_is_no_evidence_that_there_is_no_noise() -> None:
    """20 us to 400 us on a clock of 1 us vary by less than the clock shows."""
    times = np.round(nights(11, 41, spread=0.0) / 1000) * 1000
    coarse, fine = (of(compare(nightly(times), tick=tick), 0) for tick in (1000.0, 40.0))
    assert (coarse.method, fine.method) == ("between sessions", "exact")
    assert coarse.noise is not None
    assert coarse.noise * LEVELS[0] == pytest.approx(1000 / np.sqrt(12), rel=0.05)
    # Longer times that vary say that a shorter one only seems not to.
    times[::3, 1:] += 40.0
    assert of(compare(nightly(times), tick=40.0), 0).method == "between sessions"


def test_a_pass_says_what_it_would_have_noticed() -> None:
    comparison = compare(nightly(nights(12, 61)))
    [passed] = [c for c in history_checks(comparison) if c.code == "H01"]
    assert passed.passed
    median, worst = comparison.detectable_median, comparison.detectable_worst
    assert median is not None
    assert worst is not None
    shares = [number.detectable or 0.0 for number in comparison.numbers]
    assert (median, worst) == (np.median(shares), max(shares))
    assert f"would have noticed {100 * median:.2g} % (median operator; worst" in passed.reason


@pytest.mark.slow
def test_the_stated_change_is_found_and_half_of_it_is_not() -> None:
    whole = half = 0
    for seed in range(20):
        times = nights(seed, 41)
        stated = of(compare(nightly(times)), 3).detectable
        assert stated is not None
        for share in (stated, stated / 2):
            slower = times.copy()
            slower[-1, 3] *= 1 + share
            regressed = of(compare(nightly(slower)), 3).judgement == "suspect"
            whole += regressed and share == stated
            half += regressed and share != stated
    assert whole >= 15
    assert half <= 4


def test_a_few_values_between_two_levels_do_not_hide_them() -> None:
    chance = np.random.default_rng(3)
    values = 5e4 * (1 + 0.01 * chance.standard_normal(200))
    values[chance.random(200) < 0.3] *= 1.07
    values[[20, 90, 150]] = 5e4 * 1.035
    builder = HistoryBuilder()
    for place, value in enumerate(values[:-1].tolist()):
        builder.earlier(f"n{place}", f"c{place}", {operator(): value}, baseline=place >= 179)
    builder.now("now", "new", {operator(): float(values[-1])})
    [number] = compare(builder).numbers
    assert len(number.modes) == 2
    assert not number.steps


def test_the_median_of_ten_sessions_between_two_levels_proves_nothing() -> None:
    alarms = 0
    for seed in range(20):
        chance = np.random.default_rng(seed)
        times = nights(seed, 20)
        upper = chance.random((20, 4)) < 0.4
        times[:, :4] *= np.where(upper, 1.1 + 0.05 * chance.random((20, 4)), 1.0)
        builder = HistoryBuilder()
        for place in range(10):
            builder.earlier(f"night/{place}", "old", numbered(times[2 * place]))
            builder.now(f"night/{place}", "new", numbered(times[2 * place + 1]))
        comparison = compare(builder)
        alarms += any(
            n.judgement in ("regression", "suspect", "improvement") for n in comparison.numbers
        )
    assert alarms <= 1


def test_five_pairs_find_an_operator_twice_as_slow_between_two_levels() -> None:
    missed = 0
    for seed in range(10):
        chance = np.random.default_rng(seed)
        times = nights(seed, 10)
        times *= np.where(chance.random(times.shape) < 0.4, 1.12, 1.0)
        times[1::2, 7] *= 2
        builder = HistoryBuilder()
        for place in range(5):
            builder.earlier(f"night/{place}", "old", numbered(times[2 * place]))
            builder.now(f"night/{place}", "new", numbered(times[2 * place + 1]))
        comparison = compare(builder)
        missed += of(comparison, 7).judgement != "regression"
        assert not any(
            number.judgement in ("regression", "suspect", "improvement")
            for number in comparison.numbers
            if number.metric.instruction != 7
        )
    assert missed == 0


@pytest.mark.parametrize(
    ("required", "severity", "code"), [(False, "warning", 0), (True, "error", 3)]
)
def test_a_comparison_that_sees_nothing_is_no_comparison(
    required: bool, severity: str, code: int
) -> None:
    builder = nightly(nights(13, 13, spread=0.1))
    known = builder.history()
    history = History(known.results, known.series, known.baseline, "the last 20", required)
    comparison = compare_with_history(history, builder.judged)
    assert comparison.detectable_median is not None
    assert comparison.detectable_median > 0.25
    checks = [*history_checks(comparison)]
    [blind] = [check for check in checks if check.code == "H06"]
    assert (blind.passed, blind.severity) == (False, severity)
    assert "changes of 25 % are detectable" in blind.rule
    assert Verdict(tuple(checks)).exit_code == code
    tolerant = compare_with_history(history, builder.judged, HistoryLimits(detectable=10.0))
    assert not any(check.code == "H06" for check in history_checks(tolerant))


@pytest.mark.parametrize(
    ("required", "rolling", "severity", "code"),
    [(True, False, "error", 3), (True, True, "note", 0), (False, False, "note", 0)],
)
def test_one_session_a_side_is_no_comparison(
    required: bool, rolling: bool, severity: str, code: int
) -> None:
    builder = nightly(nights(13, 2, spread=0.1))
    known = builder.history()
    history = replace(known, required=required, rolling=rolling)
    comparison = compare_with_history(history, builder.judged)
    assert comparison.detectable_median is None
    checks = [*history_checks(comparison)]
    [little] = [check for check in checks if check.code == "H06"]
    assert (little.passed, little.severity) == (False, severity)
    assert "1 of about 15 results so far" in little.reason
    assert Verdict(tuple(checks)).exit_code == code


def test_operators_without_data_count_as_unseen() -> None:
    builder = HistoryBuilder()
    chance = np.random.default_rng(4)
    for number in range(7):
        known = 10 if number == 6 else 3  # seven of ten operators are new
        values = {operator(n): 5e4 * chance.normal(1, 0.001) for n in range(known)}
        if number == 5:
            values |= {operator(n): 5e4 for n in range(3, 10)}
        add = builder.now if number == 6 else builder.earlier
        add(f"night {number}", f"c{number}", values)
    comparison = compare_with_history(builder.history(), builder.judged)
    assert comparison.detectable_median is None
    reasons = [check.reason for check in history_checks(comparison) if check.code == "H06"]
    assert any("would have noticed above 2x" in reason for reason in reasons)


def test_a_step_lies_between_the_commits_that_are_named() -> None:
    for seed in range(10):
        times = nights(seed, 61, spread=0.01)
        times[30:, 6] *= 1.03
        for step in of(compare(nightly(times)), 6).steps:
            good, bad = int(step.last_good[1:]), int(step.first_bad[1:])
            assert good < 30 <= bad
    clear = nights(1, 61, spread=0.002)
    clear[30:, 6] *= 1.05
    [step] = of(compare(nightly(clear)), 6).steps
    assert (step.last_good, step.first_bad) == ("c29", "c30")


def of_builds(history: History) -> History:
    """The history with other firmware for each commit."""
    results = tuple(replace(result, build_id=result.commit) for result in history.results)
    return replace(history, results=results)


def lived(times: Floats, known: int = 20) -> list[str]:
    """The judgement of operator 0 in each night after the first ones: nights that fail stay out."""
    failed: list[int] = []
    judgements = []
    for now in range(known, len(times)):
        sound = [place for place in range(now) if place not in failed][-20:]
        builder = HistoryBuilder()
        for place, row in enumerate(times[:now]):
            builder.earlier(f"n{place}", f"c{place}", numbered(row), baseline=place in sound)
        builder.now("now", "new", numbered(times[now]))
        history = msgspec.structs.replace(
            of_builds(builder.history()), failed=tuple(failed), rolling=True
        )
        found = of(compare_with_history(history, builder.judged), 0)
        judgements.append(found.judgement)
        if found.judgement in ("regression", "suspect"):
            failed.append(now)
    return judgements


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.005])
def test_what_creeps_by_a_fifth_of_a_percent_a_night_is_found_and_stays_open(spread: float) -> None:
    """The baseline of the last 20 nights creeps with it."""
    times = nights(21, 80, spread)
    quiet = lived(times)
    assert "regression" not in quiet[25:]
    times[:, 0] *= 1 + 0.002 * np.maximum(np.arange(80) - 40, 0)
    creeping = lived(times)
    first = creeping.index("regression")
    assert 20 + first - 40 < 35  # nights after the first change
    assert {*creeping[first:]} == {"regression"}


def test_an_exact_size_that_creeps_is_found_and_after_an_improvement_too() -> None:
    size = Metric("result", "text_bytes", "", "bytes")

    def judged(values: list[float]) -> Compared:
        builder = HistoryBuilder()
        for place, value in enumerate(values[:-1]):
            builder.earlier(f"n{place}", f"c{place}", {size: value})
        builder.now("now", "new", {size: values[-1]})
        [number] = compare(builder).numbers
        return number

    creeping = [100_000.0 * 1.004**night for night in range(21)]
    assert judged(creeping).judgement == "regression"
    assert "in steps that are each within the limits" in judged(creeping).reason
    assert judged(creeping[:3]).judgement == "changed"
    # 10 % smaller for two nights, then half of it larger again.
    assert judged([100_000.0] * 18 + [90_000.0] * 2 + [95_000.0]).judgement == "regression"


def test_an_exact_clock_is_known_by_most_of_its_times() -> None:
    """Three operators have other code, and so another time, in every commit."""
    times = np.round(nights(22, 41, spread=0.0))
    moving = np.random.default_rng(22).integers(0, 2, (41, 3))
    times[:, :3] = np.round(times[:, :3] * (1 + 0.01 * moving))
    builder = nightly(times)
    quiet = compare_with_history(of_builds(builder.history()), builder.judged)
    assert {number.method for number in quiet.numbers} == {"exact"}
    times[-1, 0] *= 1.05
    builder = nightly(times)
    found = compare_with_history(of_builds(builder.history()), builder.judged)
    assert [n.metric.instruction for n in found.numbers if n.judgement == "regression"] == [0]
