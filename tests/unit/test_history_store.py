"""The store of results, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness import (
    ClockDomain,
    ClockQuality,
    Failure,
    HistoryLimits,
    HistoryRef,
    Losses,
    NotComparableError,
    Selection,
    UsageError,
    entry_of,
    measure,
    open_store,
    parse_baseline,
)
from harness.history.entries import provenance_of
from tests.support.results import Made, made, trace_with, unmet

EXECUTIONS = ("all", "cold", "warm")
TIME_STATISTICS = ("total", "avg", "p10", "p50", "p90", "min", "max")
UNFINISHED = "Unfinished"

KWS = ("native", "kws.pte", "forward")


def numbered(count: int, **facts: str) -> list[Made]:
    """Results of successive seconds, in which everything took a little longer each time."""
    return [
        made(
            f"r{number:02}",
            trace_with({"a": [10 + number, 20], "b": [5, 5]}, allocated=64),
            **{"started_utc": f"2026-11-21T00:00:{number:02}+00:00", **facts},
        )
        for number in range(count)
    ]


def test_a_result_is_kept_once(store_url: str) -> None:
    quality = ClockQuality("a\0b", "host", 9, ("start",), 4, 4, 3, 12, 0, 1, (-2.5, 3.0), "\udcff")
    one = made(
        "one",
        trace_with({"a": [1]}, dropped=3),
        checks=(unmet(), unmet(), unmet("B05", severity="warning")),
        clock_quality=(quality,),
        unit="a unit\nwith\0 anything",
        failure=Failure("TargetError", "\x1b[31m", ""),
        exit_code=4,
    )
    with open_store(store_url) as store:
        assert store.add(one.result, one.subject)
        assert not store.add(one.result, one.subject)
    with open_store(store_url) as store:
        assert not store.add(one.result, one.subject)
        (entry,) = store.results()
    assert entry == entry_of(one.result, one.subject)[0]
    assert entry.failed == {"B01": 2}
    assert entry.warned == {"B05": 1}
    assert entry.clocks == (quality,)
    assert entry.losses == Losses(events=3)
    assert (entry.link.corrupt_frames, entry.link.retries) == (1, 2)
    assert entry.link.goodput == 250_000
    assert not entry.sound


def test_a_result_takes_the_place_of_what_was_added_while_its_run_went_on(store_url: str) -> None:
    whole = made("one", trace_with({"a": [1, 2]}, allocated=64))
    begun = replace(whole.result, failure=Failure(UNFINISHED, "cut off", ""), exit_code=75)
    with open_store(store_url) as store:
        assert store.add(begun)
        assert not store.add(begun)
        assert store.has("one")
        assert not store.has("one", finished=True)
        assert store.add(whole.result, whole.subject)
        assert not store.add(begun)
        assert store.results() == [entry_of(whole.result, whole.subject)[0]]


@pytest.mark.parametrize("rate", [None, 1_000_000_000])
def test_a_history_says_what_measuring_says(store_url: str, rate: int | None) -> None:
    clock = ClockDomain("c", rate, 32)  # type: ignore[arg-type]
    one = made(
        "one", trace_with({"a": [7, 9, 30], "b": [5], "c": [1, 1]}, clock=clock, allocated=64)
    )
    with open_store(store_url) as store:
        store.add(one.result, one.subject)
        for executions in EXECUTIONS:
            together = store.history(*KWS, statistics=TIME_STATISTICS, executions=executions)
            apart = {}
            for statistic in TIME_STATISTICS:
                found = store.history(*KWS, statistics=[statistic], executions=executions)
                samples = {series.metric: series.samples for series in found.series}
                expected = measure(one.subject, statistic, executions)
                assert samples == {metric: (sample,) for metric, sample in expected.items()}
                apart |= samples
            assert {series.metric: series.samples for series in together.series} == apart
            assert len(together.series) == len(apart), "what is no time is there once"
    units = {metric.unit for metric in expected if metric.kind == "operator"}
    assert units == {"ticks" if rate is None else "ns"}


def test_the_last_results_are_the_baseline_and_the_window_tells_more(store_url: str) -> None:
    with open_store(store_url) as store:
        for item in reversed(numbered(9)):
            store.add(item.result, item.subject)
        found = store.history(*KWS, baseline=parse_baseline("last:3"), window=5, without=["r07"])
        earlier = store.history(*KWS, baseline=None, before="2026-11-21T00:00:02+00:00")
    assert [origin.id for origin in found.results] == ["r03", "r04", "r05", "r06", "r08"]
    assert found.baseline == (2, 3, 4)
    assert found.description == "the last 3"
    assert [origin.id for origin in earlier.results] == ["r00", "r01"]
    assert earlier.baseline == ()
    [first] = [series for series in found.series if series.metric.name == "a"]
    assert first.metric.statistic == "p50"
    assert [sample.value for sample in first.samples] == [16.5, 17, 17.5, 18, 19]
    assert first.results == (0, 1, 2, 3, 4)


def test_nights_that_failed_a_limit_stay_in_the_series(store_url: str) -> None:
    with open_store(store_url) as store:
        for item in (
            made("good"),
            made("slower", checks=(unmet("H01"),)),
            made("large", checks=(unmet("B12"), unmet("H02"))),
            made("unsound", checks=(unmet("I03"), unmet("H01"))),
            made("lossy", trace_with({"a": [1]}, dropped=1), checks=(unmet("B05"),)),
            made("cut", runs_completed=1, checks=(unmet("B01"),)),
            made("crashed", failure=Failure("TargetError", "", ""), exit_code=4),
        ):
            store.add(item.result, item.subject)
        found = store.history(*KWS)
    assert {origin.id for origin in found.results} == {"good", "slower", "large"}
    assert [found.results[place].id for place in found.baseline] == ["good"]


def test_a_suspect_night_that_the_next_one_clears_did_not_fail(store_url: str) -> None:
    """Of each unit: s is suspect, r red, . passed."""
    nights = {"cleared": "s.", "red next": "sr.", "suspect next": "ss.", "last": ".s", "red": "r."}
    with open_store(store_url) as store:
        for unit, states in nights.items():
            for night, state in enumerate(states):
                kinds = {"s": [unmet("H12", severity="error")], "r": [unmet("H01")], ".": []}
                item = made(
                    f"{unit} {night}",
                    unit=unit,
                    checks=tuple(kinds[state]),
                    exit_code={"s": 3, "r": 1, ".": 0}[state],
                    session=f"night {night}",
                    started_utc=f"2026-11-2{night}T00:00:00+00:00",
                )
                store.add(item.result, item.subject)
        found = store.history(*KWS)
        failed = {found.results[place].id for place in found.failed}
        expected = {"red next 0", "red next 1", "suspect next 0", "last 1", "red 0"}
        assert failed == expected
        # It does not become the baseline by that.
        last = store.history(*KWS, baseline=parse_baseline("last:20"))
        assert "cleared 0" not in {last.results[place].id for place in last.baseline}


def test_a_result_that_history_says_too_little_about_is_sound(store_url: str) -> None:
    """Else a history that is required could never begin."""
    with open_store(store_url) as store:
        little = made("little", checks=(unmet("H06", severity="error"),), exit_code=3)
        both = made("both", checks=(unmet("H06", severity="error"), unmet("H01")))
        for item in (little, both):
            store.add(item.result, item.subject)
        found = store.history(*KWS)
    assert [found.results[place].id for place in found.baseline] == ["little"]


def test_what_was_known_then_is_known_later(store_url: str) -> None:
    """A result that is judged again sees the results before it, unless others are named."""
    ref = HistoryRef(store_url)
    limits = HistoryLimits(statistics=("p50",))
    with open_store(store_url) as store:
        results = numbered(8)
        for item in results[:5]:
            store.add(item.result, item.subject)
        judged = provenance_of(results[4].result)
        then = ref.fetch(judged, limits)
        for item in results[5:]:
            store.add(item.result, item.subject)
        store.set_baseline("v2", ["r06", "r07"])
    assert [origin.id for origin in then.results] == ["r00", "r01", "r02", "r03"]
    assert ref.fetch(judged, limits) == then
    named = HistoryRef(store_url, parse_baseline("name:v2"), required=True)
    later = named.fetch(judged, limits)
    assert [later.results[place].id for place in later.baseline] == ["r06", "r07"]
    assert later.required


def test_results_of_one_occasion_are_known_to_each_other(store_url: str) -> None:
    with open_store(store_url) as store:
        results = [
            made(
                f"{commit}{place}",
                trace_with({"a": [10, 20]}),
                commit=commit * 6,
                session=f"night 1/{place}",
                started_utc=f"2026-11-21T0{place}:00:00+00:00",
            )
            for place in range(3)
            for commit in "ab"
        ]
        results.append(made("next", started_utc="2026-11-22T00:00:00+00:00", session="night 2"))
        for item in results:
            store.add(item.result, item.subject)
    ref = HistoryRef(store_url, parse_baseline("commit:aaaaaa"))
    found = ref.fetch(provenance_of(results[1].result), HistoryLimits(statistics=("p50",)))
    assert {origin.id for origin in found.results} == {"a0", "a1", "a2", "b1", "b2"}


def test_what_failed_or_lost_something_is_kept_but_no_baseline(store_url: str) -> None:
    with open_store(store_url) as store:
        for item in (
            made("good"),
            made("red", checks=(unmet(),)),
            made("wrong", checks=(unmet("I11"),)),
            made("lossy", trace_with({"a": [1]}, dropped=1)),
            made("cut", runs_completed=1),
            made("crashed", failure=Failure("TargetError", "", ""), exit_code=4),
        ):
            store.add(item.result, item.subject)
        store.add(made("nothing").result)
        assert len(store.results()) == 7
        history = store.history(*KWS)
        assert [origin.id for origin in history.results] == ["good", "red"], "a series has both"
        assert (history.baseline, history.failed) == ((0,), (1,))
        everything = store.history(*KWS, unsound=True)
        assert len(everything.baseline) == 7
        store.set_baseline("v1", ["red", "good"])
        named = store.history(*KWS, baseline=parse_baseline("name:v1"))
    assert {named.results[place].id for place in named.baseline} == {"good", "red"}
    assert named.description == "name v1"


def test_a_baseline_may_be_a_commit(store_url: str) -> None:
    commits = ["abc1230", "abc1230", "abc1239", "abc1230-dirty"]
    with open_store(store_url) as store:
        for number, commit in enumerate(commits):
            item = made(f"r{number}", commit=commit)
            store.add(item.result, item.subject)

        def of(text: str) -> list[str]:
            found = store.history(*KWS, baseline=parse_baseline(text))
            return [found.results[place].id for place in found.baseline]

        assert of("commit:abc1230") == ["r0", "r1"]
        assert of("commit:abc1230-dirty") == ["r3"]
        assert of("commit:abc1239") == ["r2"]
        with pytest.raises(UsageError, match="matches 2 commits: abc1230, abc1239"):
            of("commit:abc123")


@pytest.mark.parametrize("text", ["name:v9", "commit:beef", "last:5"])
def test_a_baseline_that_means_nothing_is_not_comparable(store_url: str, text: str) -> None:
    with open_store(store_url) as store:
        item = made("red", checks=(unmet(),))
        store.add(item.result, item.subject)
        with pytest.raises(NotComparableError, match=text.partition(":")[2]):
            store.history(*KWS, baseline=parse_baseline(text))
        with pytest.raises(NotComparableError, match=r"no result of kws\.pte forward on native"):
            store.history(*KWS)


def test_results_are_found_by_what_they_are_of(store_url: str) -> None:
    items = {
        "a": made("a", unit="u1", session="s", commit="abcd"),
        "b": made("b", board="other", started_utc="2026-11-22T00:00:00+00:00"),
        "c": made("c", model="x/other.pte", checks=(unmet(),), build_id="build 2"),
        "d": made("d", method="encode", started_utc="2026-11-20T23:59:59.5+00:00"),
    }
    with open_store(store_url) as store:
        for item in items.values():
            store.add(item.result, item.subject)

        def of(**wanted: object) -> str:
            found = store.results(Selection(**wanted))  # type: ignore[arg-type]
            return "".join(entry.provenance.id for entry in found)

        assert of() == "dacb"
        assert of(board="native") == "dac"
        assert of(unit="u1") == of(session="s") == of(commit="ab") == "a"
        assert of(model="other.pte") == of(passed=False) == of(build_id="build 2") == "c"
        assert of(method="encode") == of(before="2026-11-21") == "d"
        assert of(since="2026-11-21T23:00:00-01:00") == "b"
        assert of(sound=True, newest=2) == "ab"
        assert of(ids=["c", "nobody", "a"]) == "ac"
        assert of(board="nowhere") == ""


def test_pruning_leaves_the_newest_and_what_has_a_name(store_url: str) -> None:
    with open_store(store_url) as store:
        for item in [*numbered(5), made("x", unit="another")]:
            store.add(item.result, item.subject)
        store.set_baseline("v1", ["r01"])
        assert store.prune(2) == 2
        assert [entry.provenance.id for entry in store.results()] == ["x", "r01", "r03", "r04"]
        assert store.remove(Selection(ids=["r01", "r03"])) == 1
        assert store.remove(Selection(ids=["r01"]), also_named=True) == 1
        assert store.info().rows["operator times"] == 5 + 3 + 2 * 3  # with their sums
        assert [(item.name, item.results) for item in store.baselines()] == [("v1", 0)]


def test_baselines_are_replaced_and_forgotten(store_url: str) -> None:
    with open_store(store_url) as store:
        for item in numbered(3):
            store.add(item.result, item.subject)
        store.set_baseline("ß\0", ["r00", "r01"])
        store.set_baseline("ß\0", ["r02"])
        assert store.baseline_results("ß\0") == ["r02"]
        with pytest.raises(UsageError, match="result r9 not found"):
            store.set_baseline("ß\0", ["r02", "r9"])
        with pytest.raises(UsageError, match="would have no results"):
            store.set_baseline("v2", [])
        assert [item.name for item in store.baselines()] == ["ß\0"]
        assert store.remove_baseline("ß\0")
        assert not store.remove_baseline("ß\0")
        assert store.baseline_results("ß\0") is None
        assert len(store.results()) == 3
