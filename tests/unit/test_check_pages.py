"""Every check is explained: codes, their pages, the index, and the command that prints them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from harness import CODES
from tests.conftest import ROOT, CommandResult
from tests.support.documents import document

Etharness = Callable[..., CommandResult]

PAGES = sorted(path.name for path in (ROOT / "docs/checks").glob("*-*.md"))
EXPLAINED = [name.partition("-")[0] for name in PAGES]
SECTIONS = ["What it means", "How it is computed", "Why it happens", "What to do", "Example"]
FAMILIES = {code[0] for code in EXPLAINED}
"""Letters whose codes are explained: all of a letter, or none of it."""


def test_there_are_pages() -> None:
    assert "I" in FAMILIES


def test_every_code_has_one_page_and_every_page_a_code() -> None:
    assert sorted(code for code in CODES if code[0] in FAMILIES) == EXPLAINED
    assert all(re.fullmatch(r"[IBH]\d\d-[a-z0-9-]+\.md", name) for name in PAGES)


@pytest.mark.parametrize("code", EXPLAINED)
def test_a_page_says_everything_in_order(code: str, etharness: Etharness) -> None:
    found, page = CODES[code], etharness("explain", code).out
    assert page.splitlines()[:3] == [f"# {code}: {found.title}", "", f"Severity: {found.severity}."]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == SECTIONS
    example = page.partition("## Example")[2]
    assert re.search(rf"^    .*\b{code}\b", example, re.MULTILINE), "an example prints the code"


def test_the_index_lists_every_code() -> None:
    index = (ROOT / "docs/checks/README.md").read_text()
    assert re.findall(r"^\| \[?([A-Z]\d\d)\b", index, re.MULTILINE) == list(CODES)
    for name in PAGES:
        assert f"({name})" in index


def test_explain_prints_pages_and_lists_codes(etharness: Etharness) -> None:
    texts = [(ROOT / "docs/checks" / name).read_text() for name in (PAGES[0], PAGES[-1])]
    first, second = EXPLAINED[0], EXPLAINED[-1]
    code, out, _ = etharness("explain", first.lower(), second)
    assert code == 0
    assert out == "\n".join(texts)
    code, out, _ = etharness("explain")
    *lines, pages = out.splitlines()[1:]
    assert [line.split()[0] for line in lines if line] == list(CODES)
    docs = ROOT / "docs"
    names = sorted(path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md"))
    names = [name for name in names if not name.startswith("checks/")]
    assert pages == f"pages: {', '.join(names)}"
    found = document("explain", etharness("explain", first, "--json").out)
    assert [(item["code"], item["page"]) for item in found] == [(first, texts[0])]
    every = document("explain", etharness("explain", "--json").out)
    assert [item["code"] for item in every] == [*CODES, *names]
    assert {item["page"] for item in every} == {None}


def test_a_page_is_laid_out_on_a_terminal(
    etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    lines = etharness("explain", "I01").out.splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 60
    assert any("I01: events nest within" in line for line in plain)
    assert not [line for line in plain if line.startswith("#")]
