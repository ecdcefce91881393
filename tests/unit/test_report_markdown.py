"""Markdown: the verdict first, any text shown as it is, never more than CI systems take."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness import EvaluatedRun, render_report, write_report
from harness.formatting import printable
from harness.report.markdown import escaped
from tests.support.reported import failed_run, held, reported, slower_by_3_percent, unmet

MOST_BYTES = 64 << 10

READER = MarkdownIt("commonmark", {"html": True}).enable("table")


def texts(markdown: str) -> list[str]:
    """Plain texts of what a reader makes of it; anything but text and structure is named."""
    found = []
    for token in READER.parse(markdown):
        if token.type == "inline":
            parts = [
                child.content if child.type == "text" else child.type
                for child in token.children or ()
            ]
            found.append("".join(parts))
    return found


def report(*runs: EvaluatedRun) -> str:
    return render_report("report.md", runs).decode()


def test_one_run_begins_with_its_verdict_and_why() -> None:
    lines = report(reported(held(), unmet(), unmet("I05", "warned"))).splitlines()
    assert lines[0] == "## FAIL: native: B01 relu: it is not so"
    assert lines[2] == "1 of 3 checks failed, 1 warning; out/run"
    assert lines[-1] == "<!-- etdump-harness: native -->"
    told = "\n".join(lines)
    failed, warned, slow = (
        told.index(text) for text in ("Failed checks", "Warnings", "Longest op")
    )
    assert failed < warned < slow < told.index("Provenance")
    assert "| B01 | relu | a rule | it is not so |" in lines
    assert "| relu | 1 | 1 | 10.0 | 10.0 | 33.3 |" in lines
    assert "| commit | abc |" in lines


def test_of_several_runs_those_that_did_not_pass_come_first() -> None:
    told = report(reported(held(), title="good"), failed_run("port gone"), reported(unmet()))
    lines = told.splitlines()
    assert lines[0].startswith("## FAIL: 1 of 3 runs passed; native, ")
    assert lines[0].endswith(": B01 relu: it is not so")
    assert lines[2] == "1 failed, 1 infrastructure failure, 1 passed"
    failed, board, good = (
        told.index(text)
        for text in ("### failed: native", "### infrastructure failure: native", "PASS: native")
    )
    assert failed < board < good
    assert "the run failed: LinkError: port gone" in told
    assert "\n\nTry: try again\n" in told
    assert "<details><summary>PASS: native" in told
    assert report(reported(held()), reported(held())).startswith("## PASS: 2 of 2 runs passed\n")


def test_the_comment_by_which_a_bot_finds_its_own_names_what_was_tested() -> None:
    run, other = reported(held()), reported(unmet(), title="again")
    assert run.result is not None
    odd = replace(run, result=msgspec.structs.replace(run.result, board="a--b>c"))
    assert report(run).splitlines()[-1] == report(other).splitlines()[-1]
    assert report(run, other).splitlines()[-1] == "<!-- etdump-harness: runs on native -->"
    assert report(odd).splitlines()[-1] == "<!-- etdump-harness: a-b-c -->"


def test_changes_against_history_are_shown() -> None:
    comparison = slower_by_3_percent("conv|2d")
    told = report(replace(reported(held()), comparison=comparison))
    row = r"| median of conv\|2d #&#8203;3 | 1.03 us | 1.00 us | +3.00 % | - | - | slower |"
    assert row in told.splitlines()
    assert "\n1 number compared: 1 slower; " in told
    assert "<summary>Compared with the last 20</summary>" in told
    assert r"| slower | conv\|2d · instruction 3 · p50 |" in told
    assert "+30.0 ns" in told
    assert "+3.00 %" in told


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
@settings(max_examples=200)
@pytest.mark.parametrize("around", ["{}", "| a |\n| --- |\n| {} |"])
def test_any_text_is_shown_as_it_is(around: str, text: str) -> None:
    shown = texts(around.format("x" + escaped(text) + "x"))
    assert without_joints(shown[-1]) == without_joints("x" + printable(text) + "x")


@pytest.mark.attack("Texts", "Markdown and HTML in names", "shown as text")
@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "a|b", "`code`", "**bold**", "[x](http://y)", "# head", "- a"],
)
def test_markup_in_names_is_text(text: str) -> None:
    assert texts(escaped(text)) == [text]


def without_joints(text: str) -> str:
    """Text without the spaces of no width that keep it from becoming a link."""
    return text.replace("\u200b", "")


@pytest.mark.parametrize("text", ["conv2d #5", "@someone", "!5", "~5", "a#1", "owner/name#12"])
def test_names_do_not_notify_people_or_link_to_issues(text: str) -> None:
    """GitHub and GitLab look for these after the Markdown has been read."""
    link = re.compile(r"@\w|[#!~]\d")
    [shown] = texts(escaped(text))
    assert not link.search(shown)
    assert without_joints(shown) == text
    run = report(reported(held(), title="first"), reported(unmet(subject=text), title=text))
    spoken = "".join(texts(run)) + html.unescape("".join(re.findall("<summary>(.*)<", run)))
    assert text in without_joints(spoken)
    assert not link.search(spoken)


def test_it_stays_below_what_ci_systems_show_and_says_what_is_missing(tmp_path: Path) -> None:
    checks = [unmet(subject=f"{number} " + "|" * 250, reason="<" * 250) for number in range(60)]
    runs = [reported(*checks, title=f"run {number}") for number in range(60)]
    file = tmp_path / "report.md"
    write_report(file, [reported(held(), title="good"), *runs])
    data = file.read_bytes()
    assert MOST_BYTES * 0.9 < len(data) <= MOST_BYTES
    told = data.decode()
    shown = told.count("\n### failed")
    assert 0 < shown < 60
    assert f"*{61 - shown} more runs are left out" in told.splitlines()[-3]
    assert told.endswith("<!-- etdump-harness: runs on native -->\n")
    # What does not fit as a section has its line in the table of all.
    assert len([line for line in told.splitlines() if line.startswith("| native, run ")]) == 60
    assert "more checks are left out.*" in told


@given(
    length=st.integers(0, 300),
    checks=st.integers(0, 200),
    text=st.sampled_from(["|", "@", "#5", "é", "𝄞", "<"]),
    runs=st.integers(1, 30),
)
@settings(max_examples=25, deadline=None)
def test_it_is_never_longer_than_a_comment(length: int, checks: int, text: str, runs: int) -> None:
    failed = [unmet(subject=f"{number} {text * length}") for number in range(checks)]
    data = render_report("report.md", [reported(*failed, title=f"run {n}") for n in range(runs)])
    assert len(data) <= MOST_BYTES
    assert data.decode().splitlines()[-1].startswith("<!-- etdump-harness: ")
