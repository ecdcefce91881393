"""The pages that people meet, of believable results: what the first screen of each says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.accessibility import AUDIT, AXE
from tests.support.browser import Browser
from tests.support.scenarios import DECIDING, Scenarios

SIZES = ((1280, 900), (380, 800))
THEMES = ("light", "dark")

TEXT = """
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const parent = node.parentElement;
  if (!node.data.trim() || !parent.checkVisibility()) continue;
  if (parent.closest("button, label, select, output, .tools, .age, .folded, #elsewhere")) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const inside = [...range.getClientRects()].some((box) => box.width > 0 && box.top >= 0
    && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth);
  if (inside || arguments[0]) texts.push(node.data);
}
return texts.join(" ").replace(/\\s+/g, " ");
"""
"""Returns the text that is within the window, or, with an argument, all that is not folded. What
only scripts can do something with is left out."""

REMOVE_FOLDED = """
for (const item of document.querySelectorAll("details:not([open]) > :not(summary)")) item.remove();
"""
"""What is folded is alike in all pages; ``test_html_report`` and ``test_site`` unfold and audit it.
Axe takes time for all that is there, and a night's page has all runs."""


@pytest.fixture(scope="session")
def scenarios(shared: Path) -> Scenarios:
    folder = shared / "scenarios"
    folder.mkdir(exist_ok=True)
    return Scenarios(folder)


@pytest.fixture
def reader(browser: Browser, scenarios: Scenarios, request: pytest.FixtureRequest) -> Browser:
    """The browser with the page of a scenario."""
    name = request.param
    return replace(browser, files={name: scenarios.page(name)})


@pytest.mark.parametrize("reader", DECIDING, indirect=True)
def test_the_first_screen_decides(reader: Browser) -> None:
    [name] = reader.files
    for width, height in SIZES:
        for theme in THEMES:
            reader.size(width, height)
            reader.open(name, theme=theme)
            said = reader.run(TEXT)
            assert re.search(DECIDING[name], said), (width, said)
            assert reader.run("return document.documentElement.scrollWidth") <= width
            reader.screenshot(f"{name}-{width}-{theme}")
        reader.run(REMOVE_FOLDED)
        reader.run(AXE)
        found = reader.chrome.execute_async_script(AUDIT)
        assert "error" not in found
        assert [(item["id"], item["nodes"][0]["html"]) for item in found["violations"]] == []


@pytest.mark.parametrize("reader", sorted({*DECIDING} - {"site-compare"}), indirect=True)
def test_without_a_script_the_page_shows_everything(reader: Browser) -> None:
    [name] = reader.files
    reader.open(name)
    whole = not name.startswith("night")  # its runs are pages of their own, and many
    if whole:
        reader.unfold()
    shown = reader.run(TEXT, True).split()
    reader._command("Emulation.setScriptExecutionDisabled", value=True)
    reader.open(name)
    reader._command("Emulation.setScriptExecutionDisabled", value=False)
    assert re.search(DECIDING[name], reader.run(TEXT))
    if whole:
        reader.unfold()
    without = reader.run(TEXT, True).split()
    assert set(shown) <= set(without)
