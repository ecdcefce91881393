"""Pages of many runs: failures first, runs told apart, counts that sum, numbers of each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness import EvaluatedRun, NightDocument, NightlyStep, Owner, StepOutcome, render_report
from harness.extensions.lab.nightly.verdict import counts_of
from tests.support.compared import with_history
from tests.support.nights import causes_of
from tests.support.pages import Page
from tests.support.reported import FINISHED, SMALL, failed_run, held, reported, unmet
from tests.unit.test_night_reports import NIGHT, attempt

BOARDS = ("board-0", "board-1")


def page_of(*runs: EvaluatedRun) -> Page:
    found = Page(render_report("report.html", runs))
    found.assert_sound()
    return found


def test_failures_come_first_and_infrastructure_apart() -> None:
    other = msgspec.structs.replace(FINISHED, board="qemu")
    runs = [
        reported(held(), title="one"),
        reported(unmet("B01", reason="it took 2 us"), title="two", result=other),
        reported(unmet("B01", reason="it took 3 us"), title="three", result=other),
        failed_run("port gone"),
    ]
    found = page_of(*runs)
    assert "1 of 4 runs passed" in found.text(found.all("h1")[0])
    failed = found.section("failures-failed")
    assert "2 runs, B01" in failed
    assert "it took 2 us" in failed
    assert "a check failed" in failed
    assert "port gone" not in failed
    apart = found.section("failures-infrastructure")
    assert "port gone" in apart
    assert "say nothing about the model" in apart
    text = found.text(found.all("main")[0])
    assert text.index("it took 2 us") < text.index("port gone") < text.index("Models and boards")
    assert sum(d.get("class", "").startswith("run ") for d in found.all("details")) == 4


def test_the_matrix_leads_to_the_most_urgent_run_of_each_cell() -> None:
    other = msgspec.structs.replace(FINISHED, board="qemu")
    found = page_of(
        reported(held(), title="one"),
        reported(held(), title="two", result=other),
        reported(unmet("B01"), title="three", result=other),
    )
    matrix = next(t for t in found.all("table") if "matrix" in (t.get("class") or ""))
    links = [a.get("href") for a in matrix.iter() if a.get("href")]
    assert links == ["#run-1", "#run-3"]
    assert "1 of 2 passed, 1 failed" in " ".join(found.text(matrix).split())


def test_every_run_has_a_row_with_its_numbers() -> None:
    found = page_of(with_history(), reported(held(), title="other"))
    table = next(t for t in found.all("table") if t.get("id") == "all-runs")
    text = " ".join(found.text(table).split())
    assert "30.0 ns" in text
    assert "relu #1" in text


def labels_of(*runs: EvaluatedRun) -> list[str]:
    """What the table of all runs calls each of them."""
    found = Page(render_report("report.html", runs))
    rows = [item for item in found.all("tr") if item.get("data-run")]
    names = [next(row.iter("th")) for row in rows]
    return [" ".join(found.text(name).split()) for name in names]


def test_runs_of_one_name_are_told_apart_by_what_differs() -> None:
    later = msgspec.structs.replace(
        FINISHED, commit="f" * 40, started_utc="2026-11-22T08:30:00.5+00:00"
    )
    assert labels_of(reported(title="a"), reported(title="b", result=later)) == [
        "native commit abc",
        "native commit ffffffff",
    ]
    assert labels_of(reported(title="a"), reported(title="b")) == ["native a", "native b"]
    other = msgspec.structs.replace(FINISHED, board="qemu")
    assert labels_of(reported(title="a"), reported(title="b", result=other)) == ["native", "qemu"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "desk-1", "desk-2"]),
            st.sampled_from(["", "abc", "def"]),
            st.sampled_from(["2026-11-21T00:00:00+00:00", "2026-11-22T00:00:00+00:00"]),
        ),
        min_size=2,
        max_size=12,
    )
)
def test_no_two_runs_have_one_label(facts: list[tuple[str, str, str]]) -> None:
    runs = [
        reported(
            title=f"out/{place}",
            trace=None,
            result=msgspec.structs.replace(FINISHED, unit=unit, commit=commit, started_utc=started),
        )
        for place, (unit, commit, started) in enumerate(facts)
    ]
    labels = labels_of(*runs)
    assert len(set(labels)) == len(labels) == len(runs)


def change_of(run: EvaluatedRun) -> tuple[str, str]:
    """What the table of all runs says of the change of an execution, and how it marks it."""
    found = page_of(run, reported(title="other"))
    cell, _ = (item for item in found.all("td") if item.get("data-label") == "change")
    marks = [part.get("class").removeprefix("change ") for part in cell.iter("span")]
    return found.text(cell).strip(), " ".join(marks)


def test_a_change_is_a_regression_only_if_a_comparison_says_so() -> None:
    run = with_history()
    assert run.comparison is not None
    assert change_of(run) == ("+50.0 %, no detectable change", "same")
    assert change_of(replace(run, comparison=None)) == ("+50.0 %, slower", "same")
    worse = msgspec.structs.replace(run.comparison.numbers[-1], judgement="regression")
    assert worse.metric.name == "Method::execute"
    judged = msgspec.structs.replace(run.comparison, numbers=(worse,))
    assert change_of(replace(run, comparison=judged)) == ("+50.0 %, slower", "regression")
    moved = msgspec.structs.replace(judged, numbers=(msgspec.structs.replace(worse, relative=0.4),))
    # A decision moved the baseline.
    assert change_of(replace(run, comparison=moved)) == ("+40.0 %, slower", "regression")


def test_a_run_without_history_has_a_number_and_no_change() -> None:
    found = page_of(reported(trace=SMALL), failed_run())
    times = [item for item in found.all("td") if item.get("data-label") == "median execution"]
    assert sorted((found.text(item).strip(), item.get("title")) for item in times) == [
        ("-", None),
        ("30.0 ns", "30 ns"),
    ]
    changes = [item for item in found.all("td") if item.get("data-label") == "change"]
    assert [found.text(item).strip() for item in changes] == ["-", "-"]


def outcomes() -> st.SearchStrategy[list[StepOutcome]]:
    def outcome(place: int, kind: str, owner: Owner | None, known: bool) -> StepOutcome:
        step = NightlyStep("desk-1", BOARDS[place % 2], f"net-{place % 3}", "only", place)
        if kind == "pass":
            return StepOutcome(step=step, outcome="pass", attempts=(attempt(1, None),))
        if kind == "not run":
            return StepOutcome(
                step=step, outcome="not run", owner=Owner.LINK, why="benched", noted=known
            )
        return StepOutcome(
            step=step,
            outcome="fail",
            owner=owner,
            why="it is so",
            quarantine="known" if known else "",
            attempts=(attempt(1, owner or Owner.HOST, "it is so"),),
        )

    one = st.tuples(
        st.sampled_from(["pass", "fail", "not run"]),
        st.sampled_from([None, *Owner]),
        st.booleans(),
    )
    # A page names 20 runs of a reason.
    return st.lists(one, max_size=20).map(
        lambda found: [outcome(place, *parts) for place, parts in enumerate(found)]
    )


def runs_of_cell(text: str) -> int:
    """Sum of the counts in a cell of the matrix: ``1 of 2 passed, 1 failed``, ``2 not run``."""
    if "not planned" in text:
        return 0
    whole = re.search(r"of (\d+) passed", text)
    return int(whole[1]) if whole else sum(map(int, re.findall(r"\d+", text))) or 1


@given(outcomes())
def test_the_counts_of_a_night_sum_and_every_failure_is_told_once(
    found: list[StepOutcome],
) -> None:
    night = msgspec.structs.replace(
        NIGHT, outcomes=tuple(found), arms=(), counts=counts_of(found), steps=len(found)
    )
    causes = [*causes_of(night)]
    gone = any(o.outcome == "not run" and o.counts for o in found)  # all are of one unit
    assert [cause["state"] for cause in causes].count("infrastructure") == 1 or not gone
    night = msgspec.convert({**msgspec.to_builtins(night), "causes": causes}, NightDocument)
    page = Page(render_report("report.html", [], night))
    [counts] = [item for item in page.all("dl") if item.get("class") == "counts"]
    shown = [(page.text(item[0]), int(page.text(item[1]))) for item in counts]
    assert shown[0] == ("planned runs", len(found))
    assert sum(count for _, count in shown[1:]) == len(found)
    told = Counter(
        link.get("title").partition(": ")[0]
        for item in page.all("ul")
        if item.get("class") == "why"
        for link in item.iter()
        if link.get("title")
    )
    assert told == {str(o.step): 1 for o in found if o.outcome != "pass"}
    cells = [page.text(item) for item in page.all("td") if item.get("data-label") in BOARDS]
    assert sum(map(runs_of_cell, cells)) == len(found)
    product = [o for o in found if o.counts and o.owner is Owner.PRODUCT]
    assert dict(shown).get("failed", 0) == len(product)


def test_a_night_shows_the_numbers_of_its_runs_and_leads_to_them() -> None:
    run = with_history()
    assert run.result is not None
    passed = replace(run, result=msgspec.structs.replace(run.result, id="tonight"))
    tried = msgspec.structs.replace(attempt(1, None), result="tonight")
    step = NightlyStep("desk-1", "native", "net", "only", 1)
    night = msgspec.structs.replace(
        NIGHT,
        steps=1,
        outcomes=(StepOutcome(step=step, outcome="pass", attempts=(tried,)),),
        arms=(msgspec.structs.replace(NIGHT.arms[1], board="native", model="net"),),
    )
    found = Page(render_report("report.html", [passed], night))
    found.assert_sound()
    matrix = next(t for t in found.all("table") if "matrix" in (t.get("class") or ""))
    text = " ".join(found.text(matrix).split())
    assert "30.0 ns" in text
    assert [a.get("href") for a in matrix.iter() if a.get("href")] == ["#run-1"]
    assert [s.get("aria-label") for s in matrix.iter() if s.get("role") == "img"] == [
        "median execution: 20 earlier results; now 30.0 ns, +50.0 %, no detectable change"
    ]
