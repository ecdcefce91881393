"""Every check is explained: codes, their pages, the index, and the command that prints them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from harness import CODES
from harness.documentation import SECTIONS, explain, index_of_checks, page_names
from harness.report.checks import print_pages
from tests.conftest import ROOT, CommandResult
from tests.support.documents import document

Etharness = Callable[..., CommandResult]

PAGES = sorted(path.name for path in (ROOT / "docs/checks").glob("*-*.md"))
EXPLAINED = [name.partition("-")[0] for name in PAGES]
FAMILIES = {code[0] for code in EXPLAINED}
"""Letters whose codes are explained: all of a letter, or none of it."""


def test_there_are_pages() -> None:
    assert "I" in FAMILIES


def test_every_code_has_one_page_and_every_page_a_code() -> None:
    assert sorted(code for code in CODES if code[0] in FAMILIES) == EXPLAINED
    assert all(re.fullmatch(r"[IBH]\d\d-[a-z0-9-]+\.md", name) for name in PAGES)


@pytest.mark.parametrize("code", EXPLAINED)
def test_a_page_says_everything_in_order(code: str) -> None:
    found, (_, _, page, _) = explain(code)
    assert page.splitlines()[:3] == [f"# {code}: {found.title}", "", f"Severity: {found.severity}."]
    assert tuple(re.findall(r"^## (.*)$", page, re.MULTILINE)) == SECTIONS
    example = page.partition("## Example")[2]
    assert re.search(rf"^    .*\b{code}\b", example, re.MULTILINE), "an example prints the code"


def test_the_index_lists_every_code() -> None:
    listed = re.findall(r"^\| \[?([A-Z]\d\d)\b", index_of_checks(), re.MULTILINE)
    assert listed == list(CODES)
    for name in PAGES:
        assert f"({name})" in index_of_checks()


def test_explain_prints_pages_and_lists_codes(etharness: Etharness) -> None:
    first, second = EXPLAINED[0], EXPLAINED[-1]
    code, out, _ = etharness("explain", first.lower(), second)
    assert code == 0
    assert out == explain(first)[1].text + "\n" + explain(second)[1].text
    code, out, _ = etharness("explain")
    *lines, pages = out.splitlines()[1:]
    assert [line.split()[0] for line in lines if line] == list(CODES)
    assert pages == f"pages: {', '.join(page_names())}"
    found = document("explain", etharness("explain", first, "--json").out)
    assert [(item["code"], item["page"]) for item in found] == [(first, explain(first)[1].text)]
    every = document("explain", etharness("explain", "--json").out)
    assert [item["code"] for item in every] == [*CODES, *page_names()]
    assert {item["page"] for item in every} == {None}


def test_a_page_is_laid_out_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, no_color=True)
    print_pages(console, [explain("I01")[1]])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 60
    assert any("I01: events nest within" in line for line in plain)
    assert not [line for line in plain if line.startswith("#")]
