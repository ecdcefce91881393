"""Pages of many runs, of a night and of history in a real browser."""

from __future__ import annotations

from itertools import pairwise

import pytest
from selenium.webdriver.common.by import By

from tests.support.browser import Browser

_VISIBLE = "e.checkVisibility()"
_TEXT = "e.textContent.replace(/\\s+/g, ' ').trim()"


def test_a_night_answers_on_its_first_screen(browser: Browser) -> None:
    browser.size(1280, 900)
    browser.open("nightly")
    above = "e.getBoundingClientRect().bottom <= 900"
    text = "[...e.children].map((part) => part.textContent).join(' ')"
    counts = browser.those(".counts div", above, text)
    assert counts == [
        *("planned runs 9", "failed 1", "set-up errors 1", "infrastructure failures 1"),
        *("not run 1", "passed 5"),
    ]
    reasons = browser.those(".why li .reason", above, _TEXT)
    assert reasons == [
        *("a failure of the product", "a failure of the test", "a failure of the link"),
        "held by jane",
    ]


def test_failures_of_infrastructure_do_not_look_like_those_of_the_product(
    browser: Browser,
) -> None:
    browser.open("nightly")
    colour = "getComputedStyle(e).borderLeftColor"
    product = browser.those("#night-failed ~ .why li", "true", colour)
    other = browser.those("#night-infrastructure ~ .why li", "true", colour)
    assert len(product) == len(other) == 1
    assert product != other
    signs = browser.those(".matrix .badge", "true", _TEXT)
    assert len({sign[0] for sign in signs}) == 5  # a shape for each state


def test_a_cell_leads_to_its_run_and_unfolds_it(browser: Browser) -> None:
    browser.open("nightly")
    link = browser.chrome.find_element(By.CSS_SELECTOR, ".matrix a[href='#run-1']")
    browser.run("arguments[0].click()", link)
    assert browser.run("return document.getElementById('run-1').open") is True


def test_runs_are_filtered_and_sorted_in_their_table(browser: Browser) -> None:
    browser.open("night")

    def shown() -> list[str]:
        return browser.those("#all-runs tbody tr", "!e.hidden", "e.dataset.run")

    assert shown() == ["run-1", "run-3", "run-2"]  # the most urgent first
    browser.chrome.find_element(By.ID, "run-filter").send_keys("another-board")
    assert shown() == ["run-2"]
    assert browser.those("details.run", "!e.hidden", "e.id") == ["run-2"]
    browser.run("document.getElementById('run-filter').value = ''")
    browser.chrome.find_element(By.ID, "only-failed").click()
    assert shown() == ["run-1", "run-3"]
    browser.chrome.find_element(By.ID, "only-failed").click()
    button = browser.chrome.find_element(
        By.XPATH, "//*[@id='all-runs']//th/button[starts-with(., 'median')]"
    )
    button.click()
    assert shown()[-1] == "run-3"  # it has no execution


@pytest.mark.parametrize("name", ["night", "nightly"])
def test_on_a_phone_tables_are_read_from_top_to_bottom(browser: Browser, name: str) -> None:
    browser.size(380, 740)
    browser.open(name)
    cells = browser.those(".stack td", _VISIBLE, "getComputedStyle(e, '::before').content")
    assert cells
    assert '": "' not in cells
    wide = "e.scrollWidth > e.clientWidth"
    assert browser.those(".scroll:has(> .stack)", wide, "e.innerHTML.slice(0, 80)") == []


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 380)])
def test_a_chart_of_history_shows_scale_percent_noise_and_commits(
    browser: Browser, theme: str, width: int
) -> None:
    browser.size(width)
    browser.open("run", theme=theme)
    chart = ".series:first-of-type .plot"
    [box] = browser.those(".series", "e === document.querySelector('.series')", _TEXT)
    assert "The scale begins at" in box or "Percent" in box
    inside = (
        "(() => { const b = e.getBoundingClientRect();"
        " return b.width > 0 && b.left >= 0 && b.right <= innerWidth; })()"
    )
    for kind in ("y", "percent", "x"):
        every = browser.those(f"{chart} text.{kind}", _VISIBLE)
        assert every, kind
        assert browser.those(f"{chart} text.{kind}", f"{_VISIBLE} && {inside}") == every, kind
    labels = browser.those(
        f"{chart} text.x",
        _VISIBLE,
        "[e.getBoundingClientRect().left, e.getBoundingClientRect().right]",
    )
    labels.sort()
    assert all(a[1] <= b[0] for a, b in pairwise(labels))
    # The table of the same numbers stands below it, folded.
    assert browser.those(".series details table", "true")
