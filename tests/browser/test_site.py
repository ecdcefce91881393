"""A site in a real browser: from a disk, from a server, on a phone, without a script."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from harness import open_store
from harness.extensions.web.site.writer import write_site
from tests.support.accessibility import AUDIT, AXE, CONTRAST
from tests.support.browser import Browser
from tests.support.sites import NIGHTS, SLOWER_FROM, commit_of, site_history

TEXT = "e.textContent.replace(/\\s+/g, ' ').trim()"
PAGES = ("index", "model", "series", "commit", "night", "compare", "commits", "nights")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a site below a folder with a space in its name, one of each kind."""
    folder = tmp_path_factory.mktemp("a site") / "public"
    with open_store(str(site_history(folder.parent / "h.sqlite"))) as store:
        write_site(store, folder)
    found = {name: folder / f"{name}.html" for name in ("index", "compare", "commits", "nights")}
    found["model"] = next(folder.glob("models/kws-board-a*.html"))
    found["series"] = next(folder.glob("series/kws-board-b*/median-of-add*.html"))
    found["commit"] = next(folder.glob(f"commits/{commit_of(SLOWER_FROM)[:12]}*.html"))
    found["night"] = next(folder.glob(f"nights/night-{NIGHTS - 1}*.html"))
    return found


@pytest.fixture
def reader(browser: Browser, site: dict[str, Path]) -> Browser:
    return replace(browser, files=site)


@pytest.fixture
def below_a_path(site: dict[str, Path]) -> Iterator[str]:
    """The address of the site on a server that has it below a path, as Pages do."""

    class QuietHandler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    root = site["index"].parents[1]
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(root))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/public"
    server.shutdown()
    server.server_close()


def search(browser: Browser, text: str) -> list[str]:
    browser.run("document.getElementById('search').value = ''")
    browser.chrome.find_element(By.ID, "search").send_keys(text)
    words = text.split()
    shown = "document.getElementById('found').textContent"
    WebDriverWait(browser.chrome, 20).until(
        lambda _: words and "found" in browser.run(f"return {shown}")
    )
    return browser.those("#hits li", "e.checkVisibility()", TEXT)


def compared(browser: Browser) -> str:
    """What the comparison of two commits says, when it is there."""
    text = "document.getElementById('compared').textContent"
    WebDriverWait(browser.chrome, 20).until(lambda _: browser.run(f"return {text}"))
    return str(browser.run(f"return {text}"))


def test_the_first_screen_says_what_is_new(reader: Browser) -> None:
    reader.size(1280, 900)
    reader.open("index")
    above = "e.getBoundingClientRect().bottom <= 900"
    counts = reader.those(
        ".counts div", above, "[...e.children].map((c) => c.textContent).join(' ')"
    )
    assert counts == [
        *("New failures 0", "Slower 2", "Larger 1", "Fixed 1", "Faster or smaller 0", "Gone 1"),
        "Still failing 1",
    ]
    assert (
        len(reader.those("#new-slower + ul li, #new-larger + ul li, #new-fixed + ul li", above))
        == 4
    )
    reader.screenshot("site")


@pytest.mark.parametrize("page", PAGES)
def test_on_a_phone_nothing_is_wider_than_the_screen(reader: Browser, page: str) -> None:
    reader.size(380, 740)
    reader.open(page)
    assert reader.run("return document.documentElement.scrollWidth") <= 380
    if page in ("index", "series"):
        reader.screenshot(f"site-{page}-phone")


@pytest.mark.parametrize("page", ["index", "series", "compare", "commit"])
def test_pages_are_accessible_and_readable(reader: Browser, page: str) -> None:
    reader.open(page, theme="dark" if page == "series" else "light")
    reader.unfold()
    reader.run(AXE)
    found = reader.chrome.execute_async_script(AUDIT)
    assert "error" not in found
    assert [
        (item["id"], [node["html"][:100] for node in item["nodes"]]) for item in found["violations"]
    ] == []
    assert [item for item in reader.run(CONTRAST) if item[0] < 4.5] == []


def test_the_search_finds_models_boards_operators_and_commits(reader: Browser) -> None:
    reader.open("index")
    reader.press("/")
    assert reader.run("return document.activeElement.id") == "search"
    assert search(reader, "softmax board-b vww") == [
        "numbermedian of softmax #2 of vww on board-b (board-b-1) (native_call_softmax.out)"
    ]
    [commit] = [hit for hit in search(reader, commit_of(3)[:10]) if hit.startswith("commit")]
    assert commit_of(3) in commit
    assert search(reader, "no such thing") == []
    hits = search(reader, "model kws board-a")
    assert hits[0] == "modelkws on board-a (board-a-1)"
    reader.chrome.find_element(By.CSS_SELECTOR, "#hits a").click()
    assert reader.those("h1", "true", TEXT) == ["kws on board-a (board-a-1)"]


def test_any_two_commits_are_compared(reader: Browser) -> None:
    reader.open("compare")
    compared(reader)
    first, last = commit_of(SLOWER_FROM - 1), commit_of(SLOWER_FROM)
    reader.run(f"location.hash = '{first}..{last}'")
    rows = "#table tbody tr"

    def shown() -> list[str]:
        return reader.those(rows, "true", TEXT)

    conv = "kws on board-a (board-a-1)median of conv #039.8 us47.9 us+20.6 %"
    WebDriverWait(reader.chrome, 20).until(lambda _: any(row.startswith(conv) for row in shown()))
    # The page of the commit has the same numbers without a script, and what the history says.
    here = {row for row in shown() if row.startswith("kws on board-a")}
    reader.open("commit")
    there = reader.those("#changed ~ .scroll tbody tr", "true", TEXT)
    assert here == {row.removesuffix("slower") for row in there if row.startswith("kws on board-a")}
    assert any(row.startswith(conv) and row.endswith("slower") for row in there)
    # Turned around, what grew shrinks.
    reader.open("compare")
    reader.run(f"location.hash = '{first}..{last}'")
    WebDriverWait(reader.chrome, 20).until(lambda _: any(row.startswith(conv) for row in shown()))
    reader.chrome.find_element(By.ID, "swap").click()
    WebDriverWait(reader.chrome, 20).until(
        lambda _: any("39.8 us-17.1 %" in row for row in shown())
    )
    assert reader.run("return location.hash") == f"#{last}..{first}"
    # A board that did not answer has lost none of its numbers.
    reader.run(f"location.hash = '{commit_of(NIGHTS - 2)}..{commit_of(NIGHTS - 1)}'")
    WebDriverWait(reader.chrome, 20).until(
        lambda _: (
            "No result has numbers at one of them: vww on board-b."
            in reader.those("#notes p", "true", TEXT)
        )
    )
    assert not any("gone" in row for row in reader.those(rows, "true", TEXT))
    reader.screenshot("site-compare")


def test_points_of_a_chart_are_read_and_looked_at_closely(reader: Browser) -> None:
    reader.open("series")
    buttons = {
        item.text: item
        for item in reader.chrome.find_elements(By.CSS_SELECTOR, ".series .tools button")
    }
    output = reader.chrome.find_element(By.CSS_SELECTOR, ".series .tools output")
    buttons["Earlier result"].click()
    assert f"commit {commit_of(NIGHTS - 1)[:8]}" in output.text
    buttons["Earlier result"].click()
    assert f"commit {commit_of(NIGHTS - 2)[:8]}" in output.text
    visible = "getComputedStyle(e).visibility === 'visible' && e.checkVisibility()"
    columns = len(reader.those(".plot line.column", visible))
    assert columns == NIGHTS
    buttons["Zoom in"].click()
    assert 0 < len(reader.those(".plot line.column", visible)) < columns
    assert reader.those(".plot .cursor", visible)
    buttons["Show all"].click()
    assert len(reader.those(".plot line.column", visible)) == columns
    elsewhere = reader.those("#elsewhere li", "e.checkVisibility()", TEXT)
    assert "vww on board-a (board-a-1)" in elsewhere
    reader.screenshot("site-series")


def test_without_a_script_everything_is_a_table(reader: Browser) -> None:
    reader._command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown = {}
        for page in ("index", "series", "commit", "compare"):
            reader.open(page)
            shown[page] = reader.chrome.find_element(By.TAG_NAME, "main").text
            assert not any(
                item.is_displayed() for item in reader.chrome.find_elements(By.CLASS_NAME, "tools")
            )
    finally:
        reader._command("Emulation.setScriptExecutionDisabled", value=False)
    assert "kws on board-a" in shown["index"]
    assert "accepted by jane: exact rounding now" in shown["series"]
    assert "+20.6 %" in shown["commit"]
    assert "needs JavaScript" in shown["compare"]


def test_the_same_site_works_from_a_server_below_a_path(reader: Browser, below_a_path: str) -> None:
    reader.chrome.get(f"{below_a_path}/index.html")
    assert len(search(reader, "conv board-a kws")) == 1
    reader.chrome.find_element(By.CSS_SELECTOR, "#hits a").click()
    assert reader.those("h1", "true", TEXT) == ["median of conv #0"]
    reader.chrome.get(f"{below_a_path}/compare.html#{commit_of(0)}..{commit_of(NIGHTS - 1)}")
    assert "with a difference" in compared(reader)
    assert {url.split("/")[2] for url in reader.requests() if not url.startswith("data:")} == {
        below_a_path.split("/")[2]
    }


def test_from_a_disk_nothing_is_asked_of_a_network(reader: Browser) -> None:
    reader.requests()
    for page in PAGES:
        reader.open(page)
    search_page = reader.files["index"].as_uri()
    reader.chrome.get(search_page)
    search(reader, "kws")
    asked = reader.requests()
    assert len(asked) > len(PAGES)
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
