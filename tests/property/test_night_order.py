"""The order of a night: the sides of a comparison take turns, whatever is asked for."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness import NightlyStep
from harness.extensions.lab.nightly.night import select_steps, steps_of

NAMES = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4, unique=True)


def ordered(models: list[str], variants: list[str], repeats: int, seed: int) -> list[NightlyStep]:
    return [*steps_of("u", "b", models, variants, repeats=repeats, seed=seed)]


@given(NAMES, NAMES, st.integers(1, 9), st.integers())
def test_everything_is_done_once(
    models: list[str], variants: list[str], repeats: int, seed: int
) -> None:
    steps = ordered(models, variants, repeats, seed)
    wanted = {(m, v, r) for m in models for v in variants for r in range(1, repeats + 1)}
    assert {(s.model, s.variant, s.repeat) for s in steps} == wanted
    assert len(steps) == len(wanted)
    assert steps == ordered(models, variants, repeats, seed)


@given(NAMES, NAMES, st.integers(1, 9), st.integers(), st.data())
def test_any_beginning_of_it_is_balanced(
    models: list[str], variants: list[str], repeats: int, seed: int, data: st.DataObject
) -> None:
    steps = ordered(models, variants, repeats, seed)
    beginning = steps[: data.draw(st.integers(0, len(steps)))]
    for model in models:
        counts = Counter(step.variant for step in beginning if step.model == model)
        of_each = [counts[variant] for variant in variants]
        assert max(of_each) - min(of_each) <= 1


@given(NAMES, NAMES, st.integers(1, 4), st.integers())
def test_a_steady_drift_does_the_same_to_all_sides(
    models: list[str], variants: list[str], pairs: int, seed: int
) -> None:
    steps = ordered(models, variants, 2 * pairs, seed)
    for model in models:
        of_model = [step.variant for step in steps if step.model == model]
        places = {v: [i for i, w in enumerate(of_model) if w == v] for v in variants}
        assert len({sum(found) for found in places.values()}) == 1


def test_units_do_not_all_begin_alike() -> None:
    first = {
        next(steps_of(f"u{n}", "b", ["m"], ["a", "b"], repeats=1, seed=1)).variant
        for n in range(20)
    }
    assert first == {"a", "b"}


def test_patterns_choose_units_and_models() -> None:
    steps = [NightlyStep(unit, "b", model, "v", 1) for unit in ("u1", "u2") for model in ("m", "n")]
    assert select_steps(steps, ()) == steps
    some = select_steps(steps, ("u1/*", "*/n"))
    assert [f"{s.unit}/{s.model}" for s in some] == ["u1/m", "u1/n", "u2/n"]
    assert select_steps(steps, ("u3/*",)) == []
