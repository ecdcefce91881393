"""Pages of the documentation: in the navigation of the site once, and named by messages."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import render_report
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.reported import reported, unmet
from tools.docs import messages
from tools.docs.links import broken_links
from tools.docs.markdown import code, for_site, prose, table

Etharness = Callable[..., CommandResult]

ROOT = Path(__file__).parents[2]
SITE = "https://docs.example.com/etharness/"


def navigation(entry: Any) -> Iterator[str]:
    """Pages of an entry of ``nav`` and of those below it."""
    if isinstance(entry, str):
        yield entry
    else:
        below = entry.values() if isinstance(entry, dict) else entry
        yield from (page for item in below for page in navigation(item))


def test_the_navigation_has_every_page_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = Counter(navigation(settings["nav"]))
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    expected = Counter(path.relative_to(ROOT).as_posix() for path in pages)
    own = {page: count for page, count in listed.items() if not page.startswith("reference/")}
    assert own == expected, "mkdocs.yml: list each page once under `nav`"
    assert max(listed.values()) == 1


def test_explain_prints_pages(etharness: Etharness) -> None:
    for name in ("lab", "library/cmake"):
        text = (ROOT / f"docs/{name}.md").read_text()
        assert etharness("explain", name).out == text
        [found] = document("explain", etharness("explain", name, "--json").out)
        title = text.partition("\n")[0].removeprefix("# ")
        assert found == {
            "code": name,
            "title": title,
            "severity": None,
            "page": text,
            "url": None,
        }


@pytest.mark.parametrize("name", ["labb", "X99", "../README", ""])
def test_an_unknown_page_is_a_usage_error(etharness: Etharness, name: str) -> None:
    done = etharness("explain", name)
    assert done.code == 2
    assert "`etharness explain` lists" in done.err
    assert ("did you mean 'lab'?" in done.err) == (name == "labb")


def test_pages_have_addresses_where_a_site_is_set(
    etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = json.loads(render_report("report.sarif", [reported(unmet())]))["runs"][0]["tool"][
        "driver"
    ]["rules"]
    assert "helpUri" not in rules[0]
    monkeypatch.setenv("ETHARNESS_DOCS_URL", SITE)
    [check] = document("explain", etharness("explain", "B01", "--json").out)
    assert check["url"] == f"{SITE}docs/checks/B01-times.html"
    [page] = document("explain", etharness("explain", "library/README", "--json").out)
    assert page["url"] == f"{SITE}docs/library/index.html"
    assert etharness("explain", "lab").out.endswith(f"\n<{SITE}docs/lab.html>\n")
    rules = json.loads(render_report("report.sarif", [reported(unmet())]))["runs"][0]["tool"][
        "driver"
    ]["rules"]
    assert rules[0]["helpUri"] == f"{SITE}docs/checks/B01-times.html"


def test_messages_name_pages_that_an_installed_copy_has(etharness: Etharness) -> None:
    sources = [path.read_text() for path in (ROOT / "harness").rglob("*.py")]
    named = {
        name for text in sources for name in re.findall(r"`etharness explain ([a-z/-]+)`", text)
    }
    assert {"lab", "boards", "executorch"} <= named
    assert named <= {item["code"] for item in json.loads(etharness("explain", "--json").out)}


def test_messages_of_the_troubleshooting_page_are_those_of_the_program() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoted = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\*\*(.*?)\*\*", page, re.MULTILINE)))
    pieces = [
        piece for text in quoted for piece in re.split(r" ?\.\.\.", text) if piece.strip(" ,")
    ]
    source = " ".join(path.read_text() for path in (ROOT / "harness").rglob("*.py"))
    assert len(pieces) > 8
    assert [piece for piece in pieces if piece not in source] == []


def test_the_catalogue_has_messages_with_what_to_try() -> None:
    catalogue = dict(messages.pages(ROOT))
    assert set(catalogue) == {f"messages/{name}.md" for name in ("README", 2, 3, 4, 75)}
    found = re.search(
        r"^\| `serial port \{\w+\} not found; .*\| check that", catalogue["messages/75.md"], re.M
    )
    assert found
    assert sum(text.count("\n| `") for text in catalogue.values()) > 400


def test_broken_links_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">A</h1><a href="#top"></a><a href="a%20b/#x"></a><img src="x.png">'
        '<a href="a%20b/index.html#y"></a><a href="https://example.com/gone"></a><a href="c"></a>'
        '<script src="https://cdn.example.com/x.js"></script>'
    )
    (tmp_path / "a b/index.html").write_text('<p id="x"></p><a href="../index.html#top"></a>')
    broken = [link for page, link in broken_links(tmp_path) if page == tmp_path / "index.html"]
    assert broken == ["x.png", "a%20b/index.html#y", "c", "https://cdn.example.com/x.js"]
    (tmp_path / "x.png").touch()
    (tmp_path / "c").touch()
    assert [link for _, link in broken_links(tmp_path)] == broken[1::2]


def test_text_from_code_is_no_markdown() -> None:
    assert prose("a <b> of\n  *c_d* | `e|f*`") == r"a &lt;b> of \*c\_d\* \| `e|f*`"
    assert (code("a|b\n c"), code("`a` b")) == ("`a|b c`", "`` `a` b ``")
    assert table(["x"], [["1"]]) == "| x |\n| --- |\n| 1 |\n\n"


def test_pages_become_those_of_the_site() -> None:
    page = "| `a \\| b` | c \\| d |\n\n```toml file=plan.toml\nx = 1\n```\n"
    expected = page.replace("a \\|", "a |").replace("file=plan.toml", 'title="plan.toml"')
    assert for_site(page, Path("docs/nightly.md"), {}) == expected


def test_files_that_sentences_name_become_links() -> None:
    files = {Path("docs/lab.md"), Path("docs/checks/README.md"), Path("schema/result.schema.json")}
    page = "See `docs/lab.md`, [`docs/lab.md`](x) and `docs/gone.md`.\n\n    `docs/lab.md`\n"
    linked = page.replace("See `docs/lab.md`", "See [`docs/lab.md`](../lab.md)")
    assert for_site(page, Path("docs/checks/B01.md"), files) == linked
    assert for_site(page, Path("docs/lab.md"), files) == page
    shown = for_site("`schema/result.schema.json`", Path("README.md"), files)
    assert shown == "[`schema/result.schema.json`](schema/result.schema.json)"
