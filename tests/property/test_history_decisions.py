"""Measurement settings, and the results that a comparison uses after a decision."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness import DecisionKind, MeasurementSettings
from harness.check.history.group_sessions import decisions_for, used_results
from harness.records.measurement import describe_difference, settings_key, settings_of_key
from tests.support.histories import at, decision, results

LEVEL_RESULTS = 20
UNRECORDED = ""

SETTINGS = st.builds(
    MeasurementSettings,
    st.sampled_from(["none", "outputs", "intermediate"]),
    st.sampled_from(["all", "method"]),
    st.sampled_from(["stop", "drop-oldest"]),
    st.booleans(),
    st.sampled_from([0, 1, 4096]),
    st.sampled_from(["", "etharness", "executorch"]),
    st.sampled_from(["", "native"]),
    st.sampled_from(["", "0: 1x8"]),
)
KINDS: st.SearchStrategy[DecisionKind] = st.sampled_from(["accepted", "ignored", "reopened"])
COUNTS = st.integers(1, 40)


@given(SETTINGS | st.none(), SETTINGS | st.none())
def test_settings_are_equal_exactly_if_their_keys_are(
    one: MeasurementSettings | None, other: MeasurementSettings | None
) -> None:
    assert (settings_key(one) == settings_key(other)) == (one == other)
    assert settings_of_key(settings_key(one)) == one
    assert (settings_key(one) == UNRECORDED) == (one is None)


@given(SETTINGS, SETTINGS)
def test_a_difference_names_the_settings_that_differ_and_no_other(
    one: MeasurementSettings, other: MeasurementSettings
) -> None:
    names = [
        name
        for name in MeasurementSettings.__struct_fields__
        if getattr(one, name) != getattr(other, name)
    ]
    texts = describe_difference(one, other)
    assert [len(text.split(", ")) for text in texts] == [max(len(names), 1)] * 2
    assert (texts[0] != texts[1]) == bool(names)
    if "values" in names:
        assert f"--values {one.values}" in texts[0]
        assert f"--values {other.values}" in texts[1]
    else:
        assert "--values" not in texts[0] + texts[1]


@given(KINDS, COUNTS, st.data(), st.integers(0, 3), st.none() | st.integers(0, 45))
def test_a_decision_chooses_one_side_of_its_change(
    kind: DecisionKind, count: int, data: st.DataObject, covered: int, until: int | None
) -> None:
    """The values are 100 before the change and 110 since, so a side shows in them."""
    since = data.draw(st.integers(0, count - 1))
    failed = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    values = np.where(np.arange(count) < since, 100.0, 110.0)
    sound = ~failed
    made = decision(kind, since, since + covered, until)
    earlier, tested = results(count + 1)[:-1], results(count + 1)[-1]
    noise, used, shift = used_results(
        made, tested, earlier, values, failed, _newest(sound, LEVEL_RESULTS), rolling=True
    )
    holds = kind != "reopened" and (until is None or until >= count)
    nights = np.arange(count)
    if holds:
        level = (nights >= since) & (sound | (nights <= since + covered))
        assert level.any(), "the night of the change is covered"
        assert not (failed & used & (nights > since + covered)).any()
        assert set((values + shift)[noise]) == {110.0}, "a known step is no noise"
    else:
        level = (nights < since) & sound
        assert set((values + shift)[noise]) <= {100.0}
    assert (used == _newest(level, LEVEL_RESULTS)).all()
    assert (noise | ~used).all()


@given(COUNTS, st.data(), st.booleans())
def test_without_a_decision_failed_nights_are_neither_baseline_nor_noise(
    count: int, data: st.DataObject, rolling: bool
) -> None:
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    failed, baseline = (np.array(data.draw(flags)) for _ in range(2))
    earlier, tested = results(count + 1)[:-1], results(count + 1)[-1]
    noise, used, shift = used_results(
        None, tested, earlier, np.ones(count), failed, baseline, rolling=rolling
    )
    assert (used == baseline).all()
    assert (noise == (~failed | baseline)).all(), "unless a person chose them"
    assert not shift.any()


@given(st.integers(0, 20), st.integers(0, 20), KINDS)
def test_a_chosen_baseline_gives_way_only_to_a_later_level(
    since: int, newest: int, kind: DecisionKind
) -> None:
    count = 21
    nights = np.arange(count)
    baseline = nights == newest
    _, used, _ = used_results(
        decision(kind, since, count),
        results(count + 1)[-1],
        results(count),
        np.ones(count),
        np.zeros(count, bool),
        baseline,
        rolling=False,
    )
    replaced = kind != "reopened" and newest < since
    assert (used == baseline).all() == (not replaced)


@given(st.lists(st.tuples(KINDS, st.integers(0, 9)), max_size=5), st.integers(0, 9))
def test_the_newest_decision_about_a_known_level_counts(
    made: list[tuple[DecisionKind, int]], night: int
) -> None:
    decisions = [decision(kind, since, since) for kind, since in made]
    found = decisions_for(decisions, results(night + 1)[-1])
    known = [item for item in decisions if item.since_utc <= at(night)]
    assert [*found.values()] == known[-1:]
    other = replace(results(night + 1)[-1], unit="two")
    assert decisions_for(decisions, other) == {}


@given(st.integers(0, 400), st.integers(-3, 3))
def test_a_decision_holds_on_its_last_day(until: int, later: int) -> None:
    tested = date(2026, 1, 1) + timedelta(days=until + later)
    assert decision("ignored", 0, 0, until).holds_on(tested) == (later <= 0)
    assert not decision("reopened", 0, 0, until).holds_on(tested)


def _newest(chosen: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(len(chosen), bool)
    found[np.flatnonzero(chosen)[-count:]] = True
    return found
