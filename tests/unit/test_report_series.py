"""Charts of a number over results: a sensible scale, noise, steps, decisions and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness import Compared, Decision, History, Interval, Metric, MetricStep, Sample, Series
from harness.check.history.group_sessions import series_of
from harness.extensions.web.html.history import outliers, series_axis, series_chart
from harness.extensions.web.html.svg import Limits, View, curve
from harness.report.words import metric_title
from tests.support.histories import provenance

EXECUTION = Metric("operator", "Method::execute", "p50", "ns", "Execute")
SECONDS = 1e9


def history_of(values: Sequence[float], metric: Metric = EXECUTION) -> History:
    """A history of one series with a new commit every other result, all of it the baseline."""
    places = tuple(range(len(values)))
    results = [provenance(n, f"night {n}", f"{n // 2:08x}{'0' * 32}") for n in places]
    series = Series(metric, places, tuple(Sample(value) for value in values))
    return History(tuple(results), (series,), places, "all")


def chart_of(values: Sequence[float], *, now: float | None = None) -> View:
    history = history_of(values)
    sample = None if now is None else Sample(now)
    return series_chart(
        history, history.series[0], Limits.of(1), now=sample, where="kws_int8 on qemu-mps2-an385"
    )


def test_a_title_is_in_words() -> None:
    chart = chart_of([1000.0, 1001.0])
    assert chart["title"] == "median execution of kws_int8 on qemu-mps2-an385"


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        (
            Metric("operator", "native_call_add.out", "p90", "ns", "E", 0, 3),
            "90th percentile of add #3",
        ),
        (Metric("operator", "x", "cold min", "ns", "E", 0, 3, 7), "cold fastest of x #3 [7]"),
        (Metric("operator", "Method::init", "avg", "ns"), "average of Method::init"),
        (
            Metric("counter", "native_call_add.out", "cycles", "count", "E", 0, 1),
            "cycles of add #1",
        ),
        (Metric("allocator", "planned_1", "peak_bytes", "bytes"), "peak of allocator planned_1"),
        (Metric("result", "log_bytes", "", "bytes"), "size of the log"),
        (Metric("result", "new_size", "", "bytes"), "new size"),
    ],
)
def test_every_kind_of_metric_has_a_title(metric: Metric, title: str) -> None:
    assert metric_title(metric) == title


@given(
    st.lists(st.floats(1.0, 1e9), min_size=1, max_size=40),
    st.one_of(st.none(), st.tuples(st.floats(1.0, 1e9), st.floats(0.0, 1e8))),
)
@example([9810.0] * 19 + [9811.0], None)
def test_a_scale_holds_all_and_is_not_narrower_than_noise_and_5_percent(
    values: list[float], noise: tuple[float, float] | None
) -> None:
    band = None if noise is None else (noise[0], noise[0] + noise[1])
    found = series_axis(values, band)
    shown = [*values, *(band or ())]
    assert found.low <= min(shown)
    assert found.high >= max(shown)
    # A scale that would reach below 0 begins there.
    missing = found.high - found.low + (0.05 * max(shown) if found.low == 0 else 0.0)
    median = sorted(values)[(len(values) - 1) // 2]
    assert missing >= 0.049 * median
    if band is not None and found.low > 0:
        assert found.high - found.low >= 1.99 * (band[1] - band[0])


def test_a_step_of_one_tick_stays_small_and_the_scale_says_where_it_begins() -> None:
    chart = chart_of([9810.0] * 10 + [9811.0] * 10)
    heights = [mark.y for mark in chart["curve"].marks]
    assert 0 < max(heights) - min(heights) < 10  # of 1,000
    assert any(text.startswith("The scale begins at 9") for text in chart["legend"])
    assert chart["points"][0]["change"] == "+0.0051 %"


def test_a_scale_from_zero_does_not_say_where_it_begins() -> None:
    chart = chart_of([0.0, 50.0, 100.0])
    assert not any("begins at" in text for text in chart["legend"])


def test_an_outlier_is_an_arrow_with_its_number_and_a_step_is_not_one() -> None:
    quiet = [1000.0, 1001.0, 999.0] * 5
    chart = chart_of([*quiet, 90_000.0, *quiet])
    [note] = chart["curve"].notes
    assert note.text == "▲ 90.0 us"
    assert chart["curve"].marks[len(quiet)].kind == "clipped above"
    assert chart["curve"].line.count("L") == len(quiet) * 2 - 1
    assert len({mark.y for mark in chart["curve"].marks}) > 3  # the others are still told apart
    stepped = chart_of([*quiet, *(2 * value for value in quiet)])
    assert stepped["curve"].notes == ()


@given(st.lists(st.floats(1.0, 1e6), max_size=30))
def test_the_last_value_and_neighbours_on_one_side_are_never_clipped(values: list[float]) -> None:
    found = outliers(values, None, last_counts=True)
    assert len(values) - 1 not in found
    assert not any(place + 1 in found and found[place] == found[place + 1] for place in found)


def test_the_value_of_now_is_drawn_however_far_it_is() -> None:
    chart = chart_of([1000.0, 1001.0, 999.0] * 5, now=5000.0)
    assert chart["curve"].notes == ()
    assert chart["curve"].marks[-1].kind == "now"
    assert "+400 % from the baseline's median" in chart["sentence"]


def test_noise_and_the_detectable_change_are_drawn_and_named() -> None:
    history = history_of([1000.0] * 20)
    compared = Compared(
        metric=EXECUTION,
        board_unit="one",
        judgement="same",
        baseline=Interval(1000.0, 990.0, 1010.0),
        current=1001.0,
        noise=0.02,
        detectable=0.03,
    )
    chart = series_chart(
        history, history.series[0], Limits.of(1), now=Sample(1001.0), compared=compared
    )
    assert chart["curve"].area
    assert "Band: noise between sessions: ±4 % around the baseline." in chart["legend"]
    assert [rule.text for rule in chart["curve"].rules] == [
        "+3 %: detectable change",
        "-3 %: detectable change",
    ]
    assert "Detectable change: 3 %." in chart["sentence"]
    far = msgspec.structs.replace(compared, detectable=0.9)
    beyond = series_chart(history, history.series[0], Limits.of(1), compared=far)
    assert beyond["curve"].rules == ()
    assert any("90 %, is beyond this scale" in text for text in beyond["legend"])


def test_a_step_names_its_commits_and_an_accepted_one_has_a_flag() -> None:
    values = [1000.0] * 10 + [1500.0] * 10
    history = history_of(values)
    old, new = history.results[9], history.results[10]
    step = MetricStep(
        last_good=old.commit,
        first_bad=new.commit,
        last_good_utc=old.started_utc,
        first_bad_utc=new.started_utc,
        size=Interval(500.0, 490.0, 510.0),
        before=1000.0,
        p=1e-9,
    )
    compared = Compared(metric=EXECUTION, board_unit="one", judgement="same", steps=(step,))
    decision = Decision(
        kind="accepted",
        unit="one",
        metric=series_of(EXECUTION),
        since_utc=new.started_utc,
        at_utc=new.started_utc,
        reason="rounding",
        who="jane",
        made_utc=new.started_utc,
    )
    decided = msgspec.structs.replace(
        history,
        decisions=(decision, msgspec.structs.replace(decision, unit="other")),
    )
    chart = series_chart(decided, decided.series[0], Limits.of(1), compared=compared)
    assert "50.0 % slower since 00000005: from 1,000 to 1,500 ns." in chart["sentence"]
    known = {new.commit: "round as the reference does"}
    named = series_chart(
        *(decided, decided.series[0], Limits.of(1)), compared=compared, subjects=known
    )
    assert named["sentence"].startswith("50.0 % slower since 00000005: round as the reference does")
    [drawn], [flag] = chart["curve"].steps, chart["curve"].flags
    assert drawn.text == "50.0 % slower since 00000005"
    assert flag.text == "⚑ accepted by jane: rounding"
    assert flag.place == drawn.place
    svg = str(curve(chart["curve"]))
    assert "⚑ accepted by jane" in svg
    assert curve(chart["curve"]).count('class="percent"') == len(chart["curve"].scale)


@given(st.integers(2, 200))
def test_dates_do_not_overlap(count: int) -> None:
    chart = chart_of([1000.0] * count)
    labels = sorted([*chart["curve"].base, *chart["curve"].wide], key=lambda tick: tick.place)
    assert labels
    inner = [tick.place for tick in labels if 8 <= tick.place <= 92]
    assert all(b - a >= 18 for a, b in pairwise(inner))
    started = history_of([1000.0] * count).results[0].started_utc
    assert chart["curve"].base[0].text in (started[:10], started[11:16])
