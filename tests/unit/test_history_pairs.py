"""What is suspect is decided by runs of the baseline's model and of the tested one, in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from harness import Compared, History, HistoryComparison, Measured, Pairs, compare_with_history
from tests.support.histories import HistoryBuilder, history_checks, operator

pytestmark = pytest.mark.extension("history")

OPERATORS = 12
TIMES = np.linspace(5_000, 60_000, OPERATORS)
Floats = npt.NDArray[np.float64]


def noisy(chance: np.random.Generator, spread: float = 0.004) -> Floats:
    return TIMES * (1 + spread * chance.standard_normal(OPERATORS))


def values(times: Floats) -> dict[object, float]:
    return {operator(number): float(time) for number, time in enumerate(times)}


def measured(times: Floats) -> Measured:
    builder = HistoryBuilder()
    builder.now("t", "new", values(times))  # type: ignore[arg-type]
    return builder.judged[0]


def night(
    tonight: Floats,
    pairs: Sequence[tuple[Floats, Floats]],
    note: str = "",
    spread: float = 0.004,
    *,
    models_only: bool = False,
    against: str = "model",
    upper: float = 1.0,
    at: Sequence[int] = (1, 3, 6, 8, 11, 13, 16, 18),
) -> tuple[HistoryComparison, History]:
    """Compare a run after 20 quiet nights, with pairs (of the baseline's model, of the tested).

    Operator 5 has another level in the nights ``at``, ``upper`` times the first one.
    """
    chance = np.random.default_rng(3)
    builder = HistoryBuilder()
    for number in range(20):
        times = noisy(chance, spread) * factors({5: upper if number in at else 1.0})
        builder.earlier(f"n{number}", f"c{number}", values(times))  # type: ignore[arg-type]
    builder.now("tonight", "new", values(tonight))  # type: ignore[arg-type]
    found, history = (
        Pairs(unit="one", note=note, models_only=models_only, against=against),
        builder.history(),
    )
    for before, after in pairs:
        found = found.followed_by(measured(before), measured(after))
    if pairs or note:
        history = history.with_pairs(found)
    return compare_with_history(history, builder.judged), history


def of(comparison: HistoryComparison, number: int) -> Compared:
    [found] = [one for one in comparison.numbers if one.metric == operator(number)]
    return found


def factors(changed: Mapping[int, float]) -> Floats:
    return np.array([changed.get(number, 1.0) for number in range(OPERATORS)])


def pairs(count: int, before: Floats, after: Floats) -> list[tuple[Floats, Floats]]:
    chance = np.random.default_rng(4)
    return [(noisy(chance) * before, noisy(chance) * after) for _ in range(count)]


SLOW = factors({5: 1.06})
SAME = factors({})


def test_pairs_that_show_a_change_make_it_a_regression() -> None:
    suspect, _ = night(TIMES * SLOW, [])
    assert of(suspect, 5).judgement == "suspect"
    assert of(suspect, 5).unsure
    shown, _ = night(TIMES * SLOW, pairs(5, SAME, SLOW))
    number = of(shown, 5)
    assert number.judgement == "regression"
    assert number.paired is not None
    assert number.paired.outcome == "shown"
    assert number.paired.change.value == pytest.approx(0.06, abs=0.01)
    [failed] = [check for check in history_checks(shown) if check.failed]
    assert failed.code == "H01"
    assert "measured against the baseline's model in 5 pairs: +" in failed.reason


def test_what_both_models_show_is_gone() -> None:
    comparison, _ = night(TIMES * SLOW, pairs(1, SLOW, SLOW))
    number = of(comparison, 5)
    assert number.judgement == "same"
    assert not number.unsure
    assert number.gone == pytest.approx(0.06, abs=0.01)
    assert comparison.disturbed
    checks = history_checks(comparison)
    assert not any(check.failed for check in checks)
    [gone] = [check for check in checks if check.code == "H12"]
    assert gone.passed
    assert "+5.97 % at first" in gone.reason
    assert "in 1 pair" in gone.reason


@pytest.mark.parametrize("count", [1, 2])
def test_what_noise_may_explain_stays_suspect(count: int) -> None:
    slow_once = [(TIMES * SAME, TIMES * factors({5: 1.3})), (TIMES * SAME, TIMES * SLOW)]
    comparison, _ = night(TIMES * SLOW, slow_once[:count])
    number = of(comparison, 5)
    assert number.judgement == "suspect"
    assert number.unsure
    assert number.paired is not None
    assert number.paired.outcome == "undecided"
    [failed] = [check for check in history_checks(comparison) if check.failed]
    assert failed.code == "H12"
    assert "which noise may explain" in failed.reason


def test_a_throttled_board_slows_both_models() -> None:
    alone, _ = night(1.3 * TIMES, [])
    assert [one.judgement for one in alone.common] == ["suspect"]
    throttled, _ = night(1.3 * TIMES, pairs(1, 1.3 * SAME, 1.3 * SAME))
    [common] = throttled.common
    assert common.judgement == "same"
    assert common.gone == pytest.approx(0.3, abs=0.01)
    assert not any(check.failed for check in history_checks(throttled))
    slower, _ = night(1.3 * TIMES, pairs(5, SAME, 1.3 * SAME))
    [common] = slower.common
    assert common.judgement == "regression"
    [failed] = [check for check in history_checks(slower) if check.failed]
    assert failed.code == "H09"
    assert "measured against the baseline's model in 5 pairs: +" in failed.reason


def test_a_throttled_board_hides_no_regression() -> None:
    comparison, _ = night(1.3 * TIMES * SLOW, pairs(5, 1.3 * SAME, 1.3 * SLOW))
    assert [one.judgement for one in comparison.common] == ["same"]
    assert of(comparison, 5).judgement == "regression"


def test_a_first_look_is_lenient_where_pairs_decide() -> None:
    little = factors({5: 1.028})
    alone, _ = night(TIMES * little, [], spread=0.01)
    assert of(alone, 5).judgement == "same"
    assert of(alone, 5).unsure
    shown, _ = night(TIMES * little, pairs(5, SAME, little), spread=0.01)
    assert of(shown, 5).judgement == "regression"
    gone, _ = night(TIMES * little, pairs(1, SAME, SAME), spread=0.01)
    assert of(gone, 5).judgement == "same"
    assert not of(gone, 5).unsure
    # Nothing was suspect, so nothing is said, and the night is like others.
    assert not gone.disturbed
    assert not any(check.code == "H12" for check in history_checks(gone))


def test_a_note_says_what_pairs_do_not_compare() -> None:
    quiet, _ = night(TIMES, [], note="no pairs")
    assert not any(check.reason == "no pairs" for check in history_checks(quiet))
    suspect, _ = night(TIMES * SLOW, [], note="no pairs")
    [said] = [check for check in history_checks(suspect) if check.reason == "no pairs"]
    assert (said.code, said.severity, said.passed) == ("H12", "note", False)


def test_pairs_on_other_firmware_clear_nothing() -> None:
    """Both models are slow on it: the firmware may be slower than that of the baseline."""
    for slow in (TIMES * SLOW, 1.3 * TIMES):
        same = [(slow, slow)]
        cleared, _ = night(slow, same)
        assert not any(check.failed for check in history_checks(cleared))
        kept, _ = night(slow, same, models_only=True)
        assert not kept.disturbed
        assert not any(one.unsure for one in kept.numbers)
        assert not any(one.unsure for one in kept.common)
        [failed] = [check for check in history_checks(kept) if check.failed]
        assert failed.code == "H12"
        assert "so it is the firmware, or noise that lasts" in failed.reason
    shown, _ = night(TIMES * SLOW, pairs(5, SAME, SLOW), models_only=True)
    assert of(shown, 5).judgement == "regression"


@pytest.mark.parametrize(("factor", "judgement"), [(1.06, "same"), (1.2, "regression")])
def test_an_operator_may_be_in_its_other_mode_in_all_pairs(factor: float, judgement: str) -> None:
    slow = factors({5: factor})
    comparison, _ = night(TIMES * slow, pairs(5, SAME, slow), upper=1.06)
    assert len(of(comparison, 5).modes) == 2
    assert of(comparison, 5).judgement == judgement


@pytest.mark.parametrize(("seen", "judgement"), [(1.0, "regression"), (1.06, "suspect")])
def test_firmware_may_be_aligned_as_in_an_earlier_night(seen: float, judgement: str) -> None:
    """Builds differ without a reason in their code: what one of them had is decided by nights."""
    pairs_of_builds = pairs(5, SAME, SLOW)
    found, _ = night(TIMES * SLOW, pairs_of_builds, against="firmware", upper=seen, at=[4])
    assert of(found, 5).judgement == judgement
    assert of(found, 5).unsure == (judgement == "regression")
    # Models in turns on one firmware have one alignment.
    models, _ = night(TIMES * SLOW, pairs_of_builds, upper=seen, at=[4])
    assert of(models, 5).judgement == "regression"


def test_pairs_are_of_one_unit() -> None:
    _, history = night(TIMES * SLOW, pairs(5, SAME, SAME))
    [found] = history.pairs
    other = Pairs(unit="two", count=5, values=found.values)
    moved = History(**{**as_fields(history), "pairs": (other,)})
    builder = HistoryBuilder()
    builder.now("tonight", "new", values(TIMES * SLOW))  # type: ignore[arg-type]
    assert of(compare_with_history(moved, builder.judged), 5).judgement == "suspect"


def as_fields(history: History) -> dict[str, object]:
    return {name: getattr(history, name) for name in history.__struct_fields__}
