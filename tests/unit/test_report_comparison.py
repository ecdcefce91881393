"""A page about two traces: what changed comes first, with a word, a sign and both values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Trace, compare
from harness.extensions.web.html.page import (
    comparison_report,
    comparison_view,
)
from harness.report.compare import side
from tests.conftest import FIXTURES, CommandResult
from tests.support.pages import Page
from tests.support.traces import EventSpec, RunSpec, trace_of


def trace(times: dict[str, int], allocated: int = 1024) -> Trace:
    """An execution of operators that take so long, in ns, one after the other."""
    events, now = [EventSpec(allocated=allocated)], 0
    for number, (name, length) in enumerate(times.items()):
        events.append(EventSpec(name, now, now + length, instruction=number))
        now += length
    events.append(EventSpec("Method::execute", 0, now, chain=-1, instruction=-1))
    return trace_of(RunSpec(events, allocators=("heap",)))


def view_of(before: Trace, after: Trace) -> dict[str, Any]:
    return comparison_view([side("a", before), side("b", after)], compare(before, after))


def test_what_changed_comes_first_and_what_is_the_same_is_folded() -> None:
    before = trace({"conv": 1000, "relu": 500, "add": 10, "old": 1})
    after = trace({"conv": 1500, "relu": 400, "add": 10}, allocated=2048)
    page = Page(comparison_report([side("a", before), side("b", after)], compare(before, after)))
    page.assert_sound()
    changed = " ".join(page.section("changed").split())
    assert "conv #0" in changed
    assert changed.index("slower") < changed.index("faster")
    for part in ("+50.0 %", "+500 ns", "1.00 us", "1.50 us", "-20.0 %", "-100 ns", "gone"):
        assert part in changed
    assert "add #2" not in changed
    [folded] = page.all("details")
    assert "add #2" in page.text(folded)
    memory = " ".join(page.section("memory").split())
    assert "larger" in memory
    assert "+100.0 %" in memory


def test_the_headline_is_about_an_execution() -> None:
    view = view_of(trace({"conv": 1000}), trace({"conv": 1100}))
    assert view["headline"] == (
        "An execution takes 1.10 us, was 1.00 us (+10.0 %, slower). 2 events: 2 slower."
    )
    assert view["kind"] == "regression"
    same = view_of(trace({"conv": 1000}), trace({"conv": 1000}))
    assert "as long as before" in same["headline"]
    assert (same["kind"], same["changed"], same["memory"]) == ("same", [], [])


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), max_size=6),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), max_size=6),
)
def test_every_event_is_listed_once_and_its_word_is_right(
    before: dict[str, int], after: dict[str, int]
) -> None:
    # The same instruction for the same name, whichever events there are.
    def placed(times: dict[str, int]) -> Trace:
        events = [
            EventSpec(name, 0, length, instruction=ord(name)) for name, length in times.items()
        ]
        return trace_of(RunSpec(events))

    before, after = before | {"z": 5}, after | {"z": 5}  # traces without a common event are refused
    view = view_of(placed(before), placed(after))
    words = {
        row["name"].partition(" ")[0]: row["word"] for row in (*view["changed"], *view["same"])
    }
    expected = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            expected[name] = "new" if old is None else "gone"
        else:
            expected[name] = "slower" if new > old else "faster" if new < old else "same"
    assert words == expected
    assert len(view["changed"]) + len(view["same"]) == len(expected)


def test_the_command_writes_a_page_and_json(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    file = FIXTURES / "kws_f32_executorch.etdp"
    reports = ["--report", tmp_path / "x.html", "--report", tmp_path / "x.json"]
    assert etharness("compare", file, file, *reports).code == 0
    assert "No event changed." in (tmp_path / "x.html").read_text()
    assert "comparison" in json.loads((tmp_path / "x.json").read_text())


@pytest.mark.parametrize("name", ["<b>", "a\x1b[31m"])
def test_names_are_shown_as_they_are(name: str) -> None:
    before, after = trace({name: 10}), trace({name: 20})
    sides = [side("a", before), side("b", after)]
    Page(comparison_report(sides, compare(before, after))).assert_sound()
