"""Markdown: the verdict first, any text shown as it is, never more than CI systems take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.formatting import printable
from harness.report.formats import write_report
from harness.report.markdown import MOST_BYTES, escaped, markdown_report
from harness.runs.evaluation import EvaluatedRun
from tests.support.reported import failed_run, held, reported, slower_by_3_percent, unmet

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
    return markdown_report(runs).decode()


def test_one_run_begins_with_its_verdict_and_why() -> None:
    lines = report(reported(held(), unmet(), unmet("I05", "warned"))).splitlines()
    assert lines[0] == "# FAIL: 1 of 3 checks failed, 1 warning"
    told = "\n".join(lines)
    failed, warned, slow = (
        told.index(text) for text in ("Failed checks", "Warnings", "Longest op")
    )
    assert failed < warned < slow < told.index("Provenance")
    assert "| B01 | relu | a rule | it is not so |" in lines
    assert "| relu | 1 | 1 | 10.0 | 10.0 | 33.3 |" in lines
    assert "| commit | abc |" in lines


def test_of_several_runs_those_that_did_not_pass_come_first() -> None:
    told = report(reported(held(), title="good"), failed_run("port gone"))
    assert told.startswith("# FAIL: 1 of 2 runs passed\n")
    assert told.index("## FAIL: the run failed: LinkError: port gone") < told.index(
        "## PASS: 1 of 1"
    )
    assert "\n\nTry: try again\n" in told
    assert report(reported(held()), reported(held())).startswith("# PASS: 2 of 2 runs passed\n")


def test_changes_against_history_are_shown() -> None:
    comparison = slower_by_3_percent("conv|2d")
    told = report(replace(reported(held()), comparison=comparison))
    assert "**Compared with the last 20**" in told
    assert r"| regression | conv\|2d · instruction 3 · p50 |" in told
    assert "+30.0 ns" in told
    assert "+3.00 %" in told


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
@settings(max_examples=200)
@pytest.mark.parametrize("around", ["{}", "| a |\n| --- |\n| {} |"])
def test_any_text_is_shown_as_it_is(around: str, text: str) -> None:
    shown = texts(around.format("x" + escaped(text) + "x"))
    assert shown[-1] == "x" + printable(text) + "x"


@pytest.mark.attack("Texts", "Markdown and HTML in names", "shown as text")
@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "a|b", "`code`", "**bold**", "[x](http://y)", "# head", "- a"],
)
def test_markup_in_names_is_text(text: str) -> None:
    assert texts(escaped(text)) == [text]


def test_it_stays_below_what_ci_systems_show_and_says_what_is_missing(tmp_path: Path) -> None:
    checks = [unmet(subject=f"{number} " + "|" * 250, reason="<" * 250) for number in range(60)]
    runs = [reported(*checks, title=f"run {number}") for number in range(60)]
    file = tmp_path / "report.md"
    write_report(file, [reported(held(), title="good"), *runs])
    data = file.read_bytes()
    assert MOST_BYTES * 0.9 < len(data) <= MOST_BYTES
    told = data.decode()
    shown = told.count("\n## FAIL")
    assert 0 < shown < 60
    assert f"*{61 - shown} more runs are left out" in told.splitlines()[-1]
    assert "*10 more checks are left out.*" in told
