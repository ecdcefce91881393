"""A run beside its baseline as pictures: below the timeline, in the table, and as a flame graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from harness import EvaluatedRun, Metric, Sample, render_report
from tests.support.compared import with_history
from tests.support.pages import Page
from tests.support.traces import EventSpec, RunSpec, trace_of

NETWORK = trace_of(
    *(
        RunSpec(
            [
                EventSpec("native_call_relu.out", 0, 300 + n, instruction=0),
                EventSpec("OPERATOR_CALL", 0, 300 + n, instruction=0),
                EventSpec("DELEGATE_CALL", 300 + n, 700 + n, instruction=1),
                EventSpec("mac", 320 + n, 420 + n, instruction=1, delegate=0),
                EventSpec("Method::execute", 0, 700 + n, chain=-1, instruction=-1),
            ]
        )
        for n in range(3)
    )
)


def compared(**judgements: str) -> EvaluatedRun:
    """A run whose numbers were 1.25 times as large, and are judged so, by names of operators."""
    run = with_history(NETWORK, shift=0.8)
    assert run.comparison is not None
    numbers = [
        msgspec.structs.replace(number, judgement=judgements.get(number.metric.name, "same"))
        for number in run.comparison.numbers
    ]
    return replace(run, comparison=msgspec.structs.replace(run.comparison, numbers=tuple(numbers)))


def page_of(run: EvaluatedRun) -> Page:
    page = Page(render_report("report.html", [run]))
    page.assert_sound()
    return page


def frames(page: Page, class_: str) -> list[tuple[str, str]]:
    """The class of each frame of a picture, and what it says of itself."""
    found = []
    for item in page.all("svg"):
        first, *others = (item.get("class") or "").split()[:2] or [""]
        if first == class_ and others and others[0].startswith("d-"):
            found.append((others[0], page.text(item[0])))
    return found


def attribute(page: Page, class_: str, name: str) -> list[Any]:
    found = [e for e in page.all("svg") if (e.get("class") or "").startswith(f"{class_} d-")]
    return [float(e.get(name).rstrip("%")) for e in found]


def test_an_execution_is_drawn_in_the_colours_of_its_changes() -> None:
    page = page_of(compared(**{"native_call_relu.out": "improvement", "mac": "regression"}))
    assert frames(page, "f") == [
        ("d-same", "Method::execute: 701 ns, was 876 ns (-20.0 %, no detectable change)"),
        ("d-faster2", "relu #0: 301 ns, was 376 ns (-20.0 %, faster)"),
        ("d-same", "DELEGATE_CALL #1: 400 ns, was 500 ns (-20.0 %, no detectable change)"),
        ("d-slower2", "mac [0] #1: 100 ns, was 125 ns (-20.0 %, slower)"),
    ]
    assert attribute(page, "f", "y") == [0, 24, 24, 48]
    widths = attribute(page, "f", "width")
    assert widths == [100, 42.9387, 57.0613, 14.2653]
    text = page.section("-difference")
    assert "beside the baseline (the first 10)" in " ".join(text.split())
    assert [word in text for word in ("slower", "faster", "no detectable change", "new")] == [
        *(True, True, True, False)
    ]


def test_what_operators_took_before_is_below_the_timeline_and_in_the_table() -> None:
    page = page_of(compared(**{"native_call_relu.out": "improvement"}))
    assert [kind for kind, _ in frames(page, "u")] == ["d-faster2", "d-same"]
    begins, widths = attribute(page, "u", "x"), attribute(page, "u", "width")
    assert begins == [0, widths[0]]
    assert abs(sum(widths) - 100) < 0.01, "the earlier execution was longer, so it sets the scale"
    assert "the medians of the baseline (the first 10)" in page.section("-timeline")
    rows = [[page.text(cell).strip() for cell in row] for row in page.all("tr")]
    [head, relu] = [row for row in rows if row[0] == "operator" or row[0].startswith("relu")]
    assert head[1:3] == ["median [ns]", "before [ns]"]
    assert relu[1:3] == ["301", "376"]


def test_a_run_as_its_baseline_has_a_sentence_instead_of_a_picture() -> None:
    page = page_of(compared())
    assert frames(page, "f") == []
    text = " ".join(page.section("-difference").split())
    assert "An execution takes 701 ns, was 876 ns (-20.0 %, no detectable change): no part" in text


def test_what_is_gone_is_folded_away() -> None:
    run = compared(mac="regression")
    assert run.history is not None
    relu = next(s for s in run.history.series if s.metric.name == "native_call_relu.out")
    old = Metric("operator", "native_call_old.out", "p50", "ns", "Execute", 0, 9)
    series = (*run.history.series, msgspec.structs.replace(relu, metric=old))
    history = msgspec.structs.replace(run.history, series=series)
    page = page_of(replace(run, history=history))
    assert ("d-gone", "old #9: gone, was 376 ns") in frames(page, "f")
    [details] = [e for e in page.all("details") if e.get("class") == "gone"]
    assert details.get("open") is None
    assert "1 operator gone: 376 ns" in page.text(details)


def test_without_a_baseline_the_result_before_is_shown_and_not_judged() -> None:
    run = compared()
    assert run.history is not None
    results = run.history.results[:10]
    earlier = tuple(
        msgspec.structs.replace(s, results=s.results[:10], samples=s.samples[:10])
        for s in run.history.series
    )
    history = msgspec.structs.replace(run.history, results=results, series=earlier, baseline=())
    page = page_of(replace(run, history=history, comparison=None))
    text = " ".join(page.section("-difference").split())
    assert "beside the result before this one (2026-11-10 00:00 UTC, commit 1000000" in text
    assert "relu #0: 301 ns, was 376 ns (-20.0 %, faster)" in [t for _, t in frames(page, "f")]


def test_a_page_without_a_history_has_none_of_it() -> None:
    run = replace(compared(), history=None, comparison=None)
    page = page_of(run)
    assert not [e for e in page.all("h2") if (e.get("id") or "").endswith("-difference")]
    assert frames(page, "u") == []
    assert "before [" not in page.section("-operators")


def test_numbers_that_never_changed_are_a_sentence() -> None:
    run = compared()
    assert run.history is not None
    page = page_of(run)
    assert "The same in all results" not in page.section("-trends")
    first, *others = run.history.series
    steady = msgspec.structs.replace(first, samples=(Sample(301.0),) * 20)
    history = msgspec.structs.replace(run.history, series=(steady, *others))
    page = page_of(replace(run, history=history))
    assert "The same in all results: median of relu #0 (301.0 ns)." in page.section("-trends")
    titles = [page.text(e) for e in page.all("figcaption")]
    assert "median of relu #0 of native" not in titles
    assert "median execution of native" in titles
