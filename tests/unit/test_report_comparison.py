"""A page about two traces: what changed comes first, with a word, a sign and both values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Trace, write_ed00
from tests.conftest import FIXTURES, CommandResult
from tests.support.examples import examples
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


@pytest.fixture
def page_of(etharness: Callable[..., CommandResult], tmp_path: Path) -> Callable[..., Page]:
    """What writes the page about two traces."""

    def write(before: Trace, after: Trace) -> Page:
        files = [tmp_path / name for name in ("a.etdp", "b.etdp", "page.html")]
        for file, each in zip(files, (before, after), strict=False):
            file.write_bytes(write_ed00(each))
        assert etharness("compare", *files[:2], "--report", files[2]).code == 0
        page = Page(files[2].read_bytes())
        page.assert_sound()
        return page

    return write


def words_of(page: Page) -> list[tuple[str, str]]:
    """Name of each event and the word for its change; events without a change are folded."""
    rows = [row for row in page.all("tr") if (row.get("title") or "").startswith("Execute")]
    return [(page.text(row[0]).partition(" ")[0], page.text(row[1]).split()[-1]) for row in rows]


def headline(page: Page) -> tuple[str, str]:
    [line] = [item for item in page.all("p") if (item.get("class") or "").startswith("headline")]
    return page.text(line).strip(), line.get("class").removeprefix("headline").strip()


def test_what_changed_comes_first_and_what_is_the_same_is_folded(
    page_of: Callable[..., Page],
) -> None:
    before = trace({"conv": 1000, "relu": 500, "add": 10, "old": 1})
    after = trace({"conv": 1500, "relu": 400, "add": 10}, allocated=2048)
    page = page_of(before, after)
    changed = " ".join(page.section("changed").split())
    assert "conv #0" in changed
    assert changed.index("slower") < changed.index("faster")
    for part in ("+50.0 %", "+500 ns", "1.00 us", "1.50 us", "-20.0 %", "-100 ns", "gone"):
        assert part in changed
    assert "add #2" not in changed
    folded = [page.text(item) for item in page.all("details")]
    assert [text.strip().partition("\n")[0] for text in folded] == [
        *("1 operator gone: 1.00 ns", "1 event gone", "1 without a change")
    ]
    assert "add #2" in folded[-1]
    memory = " ".join(page.section("memory").split())
    assert "larger" in memory
    assert "+100.0 %" in memory


def test_the_headline_is_about_an_execution(page_of: Callable[..., Page]) -> None:
    text, kind = headline(page_of(trace({"conv": 1000}), trace({"conv": 1100})))
    assert text == "An execution takes 1.10 us, was 1.00 us (+10.0 %, slower). 2 events: 2 slower."
    assert kind == "fail"
    same = page_of(trace({"conv": 1000}), trace({"conv": 1000}))
    text, kind = headline(same)
    assert "as long as before" in text
    assert kind != "fail"
    assert {word for _, word in words_of(same)} == {"same"}
    assert not [item for item in same.all("h2") if item.get("id") == "memory"]


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), max_size=6),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), max_size=6),
)
def test_every_event_is_listed_once_and_its_word_is_right(
    page_of: Callable[..., Page], before: dict[str, int], after: dict[str, int]
) -> None:
    # The same instruction for the same name, whichever events there are.
    def placed(times: dict[str, int]) -> Trace:
        events = [
            EventSpec(name, 0, length, instruction=ord(name)) for name, length in times.items()
        ]
        return trace_of(RunSpec(events))

    before, after = before | {"z": 5}, after | {"z": 5}  # traces without a common event are refused
    words = words_of(page_of(placed(before), placed(after)))
    expected = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            expected[name] = "new" if old is None else "gone"
        else:
            expected[name] = "slower" if new > old else "faster" if new < old else "same"
    assert dict(words) == expected
    assert len(words) == len(expected)


def test_the_command_writes_a_page_and_json(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    file = FIXTURES / "kws_f32_executorch.etdp"
    reports = ["--report", tmp_path / "x.html", "--report", tmp_path / "x.json"]
    assert etharness("compare", file, file, *reports).code == 0
    assert "No event changed." in (tmp_path / "x.html").read_text()
    assert "comparison" in json.loads((tmp_path / "x.json").read_text())


@pytest.mark.parametrize("name", ["<b>", "a\x1b[31m"])
def test_names_are_shown_as_they_are(name: str, page_of: Callable[..., Page]) -> None:
    page = page_of(trace({name: 10}), trace({name: 20}))
    assert any(word == "slower" for _, word in words_of(page))
