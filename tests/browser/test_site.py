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
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from harness import open_store
from harness.extensions.web.site.writer import write_site
from tests.support.accessibility import AUDIT, AXE, CONTRAST
from tests.support.browser import Browser
from tests.support.results import made, trace_with
from tests.support.sites import (
    NIGHTS,
    SLOWER_FROM,
    WIDE_HIT,
    WIDE_MODELS,
    WIDE_NIGHTS,
    WIDE_SLOWER,
    commit_of,
    site_history,
    wide_history,
)

TEXT = "e.textContent.replace(/\\s+/g, ' ').trim()"
PAGES = ("index", "wide", "model", "series", "commit", "night", "compare", "commits", "nights")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a site below a folder with a space in its name, one of each kind."""
    folder = tmp_path_factory.mktemp("a site") / "public"
    with open_store(str(site_history(folder.parent / "h.sqlite"))) as store:
        write_site(store, folder)
    found = {name: folder / f"{name}.html" for name in ("index", "compare", "commits", "nights")}
    with open_store(str(wide_history(folder.parent / "wide.sqlite", nights=WIDE_NIGHTS))) as store:
        write_site(store, folder.parent / "wide", "Sensor firmware")
    found["wide"] = folder.parent / "wide/index.html"
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


CHANGE = "Number(e.cells[2].dataset.c ?? 0)"
ABOVE = "e.getBoundingClientRect().bottom <= innerHeight && e.checkVisibility()"


def test_the_first_screen_says_what_got_worse(reader: Browser) -> None:
    reader.size(1280, 900)
    reader.open("index")
    first, *_ = reader.those("#causes summary", ABOVE, TEXT)
    assert first.startswith("kws on board-a is 3.")
    assert f"% slower since {commit_of(SLOWER_FROM)[:10]}: conv #0" in first
    assert len(reader.those("#causes > details.cause > summary", ABOVE)) == 3
    reader.screenshot("site")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_thirty_models_fit_one_screen(reader: Browser, theme: str) -> None:
    reader.size(1280, 900)
    reader.open("wide", theme=theme)
    rows = reader.those("#matrix-table tbody tr", ABOVE, "e.cells[0].textContent")
    assert sorted(rows) == sorted(WIDE_MODELS)
    top = reader.run("return document.getElementById('matrix-table').getBoundingClientRect().top")
    [sentence] = reader.those("summary.headline", ABOVE, f"[{TEXT}, e.getBoundingClientRect()]")
    assert sentence[1]["bottom"] < top
    # The board that fails comes first; what one commit slowed down is one line below it.
    assert sentence[0].startswith("ocr_line on mimxrt1060-evk-1: B01 does not hold")
    slower = reader.those("#causes [data-kind=slower] > summary", ABOVE, TEXT)
    assert len(slower) == 1
    assert f"slower since {commit_of(WIDE_SLOWER)[:10]}" in slower[0]
    assert slower[0].endswith("(6 models on 3 boards; owner: product)")
    heights = set(
        reader.those("#matrix-table tbody tr", "true", "e.getBoundingClientRect().height")
    )
    assert max(heights) < 22  # a row is a line
    assert reader.run("return document.querySelector('.matrix-of .scroll').scrollWidth") <= 1280
    reader.screenshot(f"site-thirty-{theme}")


def test_the_matrix_is_filtered_and_sorted_and_its_address_has_the_state(reader: Browser) -> None:
    def shown() -> list[str]:
        return reader.those("#matrix-table tbody tr", "!e.hidden", "e.cells[0].textContent")

    reader.size(1280, 900)
    reader.open("wide")
    reader.press("/")
    assert reader.run("return document.activeElement.id") == "filter"
    reader.press("speaker")
    assert shown() == ["speaker_id"]
    assert reader.those("#counted", "true", TEXT) == ["1 of 30 models"]
    reader.press(Keys.ESCAPE)
    assert shown() == sorted(WIDE_MODELS)
    reader.chrome.find_element(By.CSS_SELECTOR, "[data-state=failed]").click()
    assert shown() == ["ocr_line"]
    reader.chrome.find_element(By.CSS_SELECTOR, "[data-state=failed]").click()
    reader.chrome.find_element(By.CSS_SELECTOR, "[data-only]").click()
    reader.run(
        "for (const [id, value] of [['sort', 'worst'], ['board', '2']]) {"
        "  const select = document.getElementById(id); select.value = value;"
        "  select.dispatchEvent(new Event('change')); }"
    )
    # By the size of the change, in which direction it may be.
    sizes = reader.those("#matrix-table tbody tr:not([hidden])", "true", CHANGE)
    assert sizes == sorted(sizes, reverse=True)
    assert {*WIDE_HIT, "gait"} <= set(shown())
    assert len(shown()) < 12
    heads = reader.those("#matrix-table thead th", "e.checkVisibility()", TEXT)
    assert len(heads) == 2
    fragment = reader.run("return location.hash")
    assert len(fragment) < 200
    before = shown()
    # Who gets the address sees the same.
    reader.chrome.get("about:blank")
    reader.chrome.get(reader.files["wide"].as_uri() + fragment)
    assert shown() == before
    assert reader.those("#matrix-table thead th", "e.checkVisibility()", TEXT) == heads
    reader.screenshot("site-filtered")
    # A click on a board sorts by its changes, another one by its times.
    reader.chrome.get(reader.files["wide"].as_uri() + "#sort=")
    [button] = reader.chrome.find_elements(By.CSS_SELECTOR, "#matrix-table th:nth-child(3) button")
    button.click()
    assert reader.run("return location.hash") == "#sort=c2"
    sizes = reader.those("#matrix-table tbody tr", "true", CHANGE)
    assert sizes[0] > 0.1
    assert sizes == sorted(sizes, reverse=True)
    button.click()
    times = reader.those("#matrix-table tbody tr", "true", "Number(e.cells[2].dataset.t)")
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("page", PAGES)
def test_on_a_phone_nothing_is_wider_than_the_screen(reader: Browser, page: str) -> None:
    reader.size(380, 740)
    reader.open(page)
    assert reader.run("return document.documentElement.scrollWidth") <= 380
    if page in ("index", "wide", "series"):
        reader.screenshot(f"site-{page}-phone")


@pytest.mark.parametrize("page", ["index", "wide", "series", "compare", "commit"])
def test_pages_are_accessible_and_readable(reader: Browser, page: str) -> None:
    reader.open(page, theme="dark" if page in ("series", "wide") else "light")
    reader.unfold()
    reader.run(AXE)
    found = reader.chrome.execute_async_script(AUDIT)
    assert "error" not in found
    assert [
        (item["id"], [node["html"][:100] for node in item["nodes"]]) for item in found["violations"]
    ] == []
    assert [item for item in reader.run(CONTRAST) if item[0] < 4.5] == []


def test_the_search_finds_models_boards_operators_and_commits(reader: Browser) -> None:
    reader.open("commits")
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

    conv = "median of conv #0kws on board-a (board-a-1)+20.6 % slower39.8 us47.9 us"
    WebDriverWait(reader.chrome, 20).until(lambda _: any(row.startswith(conv) for row in shown()))
    # Executions come first; what noise explains is not among them.
    assert shown()[0].startswith("median execution")
    assert compared(reader).startswith("kws on board-a is 3.")
    assert len(shown()) < 10
    reader.chrome.find_element(By.ID, "all-rows").click()
    WebDriverWait(reader.chrome, 20).until(lambda _: len(shown()) > 10)
    # The page of the commit has the same numbers without a script, and what the history says.
    cells = "[...e.querySelectorAll('.n')].map((c) => c.textContent)"
    figures = f"{cells}.filter((text) => /[a-z]/.test(text)).join()"
    names = 'e.querySelector(\'a[href^="series"], a[href*="/series"]\').textContent'
    about = f"[{names}, {figures}].join()"
    differs = f"{TEXT}.includes('kws on board-a') && !{TEXT}.includes('no difference')"
    here = reader.those(rows, differs, about)
    reader.open("commit")
    selector = "section:has(> #changed) tbody tr"
    there = reader.those(selector, f"{TEXT}.includes('kws on board-a')", about)
    assert set(there) == set(here)
    assert "median of conv #0,39.8 us,47.9 us" in there
    found = reader.those(selector, "true", TEXT)
    assert found[0].startswith("median execution kws on board-a")
    assert any("conv #0" in row and "+20.6 %slower" in row for row in found)
    # Turned around, what grew shrinks.
    reader.open("compare")
    reader.run(f"location.hash = '{first}..{last}'")
    WebDriverWait(reader.chrome, 20).until(lambda _: any(row.startswith(conv) for row in shown()))
    reader.chrome.find_element(By.ID, "swap").click()
    WebDriverWait(reader.chrome, 20).until(
        lambda _: any("-17.1 % faster47.9 us39.8 us" in row for row in shown())
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


def test_the_change_is_seen_on_a_phone_and_new_and_gone_rows_are_a_line(
    reader: Browser, tmp_path: Path
) -> None:
    with open_store(str(tmp_path / "h.sqlite")) as store:
        for night in range(8):
            operators = {f"op{n}": [1000 * (n + 1)] for n in range(4 + 30 * (night == 7))}
            if night < 7:
                operators |= {f"old{n}": [500] for n in range(17)}
            factor = 1.5 if night == 7 else 1.0
            whole = sum(value for [value] in operators.values())
            times = {
                name: [int(value * factor) for value in some]
                for name, some in ({"Method::execute": [whole]} | operators).items()
            }
            facts = {"commit": commit_of(night), "session": f"s{night}"}
            facts |= {"started_utc": f"2026-11-{night + 1:02}T00:00:00+00:00"}
            item = made(f"r{night}", trace_with(times), **facts)
            store.add(item.result, item.subject)
        write_site(store, tmp_path / "site")
    reader.size(380, 740)
    reader.chrome.get((tmp_path / "site/compare.html").as_uri())
    compared(reader)
    first, *_ = reader.those(
        "#table tbody tr", "true", "e.cells[1]?.getBoundingClientRect() ?? null"
    )
    assert first["right"] <= 380
    assert first["bottom"] <= 740
    texts = reader.those("#table tbody tr", "true", TEXT)
    assert texts[0].startswith("median execution")
    folds = reader.those("#table details.fold:not([open]) > summary", "true", TEXT)
    assert folds == ["30 numbers new", "17 numbers gone"]
    assert len(texts) < 10
    changes = reader.those("#table .change", "true", f"[{TEXT}, e.className]")
    assert changes
    assert all(
        text.startswith("+") and text.endswith("slower") and "regression" in look
        for text, look in changes[1:2]
    )
    assert reader.run("return document.documentElement.scrollWidth") <= 380
    reader.screenshot("site-compare-phone")


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
    # A drag over a part of the chart zooms in, a double click shows all again.
    plot = reader.chrome.find_element(By.CSS_SELECTOR, ".series .plot")
    ActionChains(reader.chrome).move_to_element_with_offset(
        plot, -200, 20
    ).click_and_hold().move_by_offset(250, 0).perform()
    assert reader.those(".plot .chosen", visible)
    reader.screenshot("site-series-drag")
    ActionChains(reader.chrome).release().perform()
    assert 0 < len(reader.those(".plot line.column", visible)) < columns
    assert not reader.those(".plot .chosen", visible)
    ActionChains(reader.chrome).double_click(plot).perform()
    assert len(reader.those(".plot line.column", visible)) == columns
    # Dates, or commits.
    dates = reader.those(".plot text.x", visible, TEXT)
    assert all(text.startswith("2026-11-") for text in dates)
    buttons["Commits"].click()
    commits = reader.those(".plot text.x", visible, TEXT)
    assert len(commits) > 2
    assert set(commits) <= {commit_of(night)[:8] for night in range(NIGHTS)}
    assert buttons["Commits"].text == "Dates"
    elsewhere = reader.those("#elsewhere li", "e.checkVisibility()", TEXT)
    assert "vww on board-a (board-a-1)" in elsewhere
    reader.screenshot("site-series")


def test_without_a_script_everything_is_a_table(reader: Browser) -> None:
    reader._command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown = {}
        for page in ("index", "wide", "series", "commit", "compare"):
            reader.open(page)
            shown[page] = reader.chrome.find_element(By.TAG_NAME, "main").text
            assert not any(
                item.is_displayed() for item in reader.chrome.find_elements(By.CLASS_NAME, "tools")
            )
    finally:
        reader._command("Emulation.setScriptExecutionDisabled", value=False)
    assert "kws on board-a" in shown["index"]
    assert all(model in shown["wide"] for model in WIDE_MODELS)
    assert "accepted by jane: exact rounding now" in shown["series"]
    assert "+20.6 %" in shown["commit"]
    assert "needs JavaScript" in shown["compare"]
    assert "2026-11-01" in shown["series"]  # below the chart, too


def test_the_same_site_works_from_a_server_below_a_path(reader: Browser, below_a_path: str) -> None:
    reader.chrome.get(f"{below_a_path}/index.html")
    assert len(search(reader, "conv board-a kws")) == 1
    reader.chrome.find_element(By.CSS_SELECTOR, "#hits a").click()
    assert reader.those("h1", "true", TEXT) == ["median of conv #0"]
    reader.chrome.get(f"{below_a_path}/compare.html#{commit_of(0)}..{commit_of(NIGHTS - 1)}")
    assert "beyond the noise" in compared(reader)
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
