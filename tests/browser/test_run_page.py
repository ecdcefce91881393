"""The page of one run in a real browser: its first screen, timelines, strips and memory plan."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By

from tests.browser.test_html_report import PLACES, THEMES, colour, far_apart, near
from tests.support.browser import Browser

_ROWS = "#run-1-operator-rows tbody tr"
_SEEN = "e.getClientRects().length > 0"
_VISIBLE = "e.checkVisibility()"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [(1280, 900), (380, 800)])
def test_the_first_screen_answers(browser: Browser, theme: str, size: tuple[int, int]) -> None:
    browser.size(*size)
    for name in ("exported", "run"):
        browser.open(name, theme=theme)
        browser.screenshot(f"{name}-{size[0]}-{theme}")
    browser.open("exported", theme=theme)
    tops = browser.those(
        "h1, .headline, .tiles, .trust", "true", "[e.className, e.getBoundingClientRect().bottom]"
    )
    assert [name for name, _ in tops] == ["", "headline pass", "tiles", "trust"]
    assert all(bottom <= size[1] for _, bottom in tops)
    labels = browser.those(".tiles dt", "true", "e.textContent")
    assert labels == ["median execution", "peak memory", "slowest operator"]  # no reference
    if size[0] > 1000:
        [bottom] = browser.those(
            "#run-1-timeline ~ figure > .timeline", "true", "e.getBoundingClientRect().bottom"
        )
        assert bottom <= size[1]


@pytest.mark.parametrize("theme", THEMES)
def test_the_median_execution_is_drawn_block_by_block(browser: Browser, theme: str) -> None:
    browser.open("exported", theme=theme)
    browser.size(1280, browser.run("return document.documentElement.scrollHeight"))
    blocks = browser.run(PLACES, "#run-1-timeline ~ figure .b rect")
    assert len(blocks) == 31
    assert len({block[4] for block in blocks}) >= 4  # a colour for each kind
    ends = [x + width for x, _, width, *_ in blocks]
    begins = [x for x, *_ in blocks]
    assert all(end <= begin + 0.5 for end, begin in zip(ends, begins[1:], strict=False))
    [frame] = browser.run(PLACES, "#run-1-timeline ~ figure .idle")
    assert begins[0] >= frame[0]
    assert ends[-1] <= frame[0] + frame[2] + 0.5
    wide = [block for block in blocks[::2] if block[2] > 40]  # every second one is paler
    seen = browser.pixels([(x + w - 3, y + 3) for x, y, w, *_ in wide])
    assert seen
    assert all(near(pixel, colour(block[4])) for pixel, block in zip(seen, wide, strict=True))
    clipped = browser.those(
        "#run-1-timeline ~ figure .b text",
        "e.textContent",
        "[e.getBBox().width, e.parentElement.getBoundingClientRect().width]",
    )
    assert clipped
    assert all(text <= block for text, block in clipped)


@pytest.mark.parametrize("theme", THEMES)
def test_strips_have_a_dot_for_each_execution_and_a_tick_that_can_be_seen(
    browser: Browser, theme: str
) -> None:
    browser.open("run", theme=theme)
    browser.size(1280, browser.run("return document.documentElement.scrollHeight"))
    dots = browser.run(PLACES, f"{_ROWS} .strip .dots")
    medians = browser.run(PLACES, f"{_ROWS} .strip .median")
    assert len(dots) == len(medians) == 5
    back = colour(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert all(far_apart(colour(mark[5]), back) for mark in [*dots, *medians])
    for dot, median in zip(dots, medians, strict=True):  # three executions, the median between
        assert dot[0] < median[0] < dot[0] + dot[2]
        assert dot[2] > 20


@pytest.mark.parametrize("theme", THEMES)
def test_a_slower_operator_is_red_and_the_baseline_is_below_the_timeline(
    browser: Browser, theme: str
) -> None:
    browser.open("run", theme=theme)
    browser.size(1280, browser.run("return document.documentElement.scrollHeight"))
    frames = browser.run(PLACES, "#run-1-difference ~ figure .f rect")
    whole, slower, *same = [colour(frame[4]) for frame in frames]
    assert slower[0] > slower[2] + 40
    assert all(abs(other[0] - other[2]) < 40 for other in (whole, *same))
    now = browser.run(PLACES, "#run-1-timeline ~ figure .b rect")
    before = browser.run(PLACES, "#run-1-timeline ~ figure .u rect")
    assert [round(b[2] / n[2], 2) for b, n in zip(before, now, strict=True)] == [0.67] * 5
    assert all(b[1] > n[1] + n[3] for b, n in zip(before, now, strict=True))
    assert near(colour(before[0][4]), slower)
    browser.run("document.querySelector('#run-1-difference').scrollIntoView()")
    browser.screenshot(f"difference-{theme}")


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("size", [(1280, 900), (380, 800)])
def test_a_comparison_is_drawn_in_red_and_what_is_gone_is_folded(
    browser: Browser, size: tuple[int, int], script: bool
) -> None:
    if not script:
        browser.chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.size(*size)
    browser.open("compared")
    picture = browser.chrome.find_element(By.CSS_SELECTOR, "#difference ~ figure .icicle")
    assert picture.is_displayed()
    frames = picture.find_elements(By.CSS_SELECTOR, ".f")
    kinds = [(frame.get_attribute("class") or "").split()[1] for frame in frames]
    assert kinds == ["d-same", "d-same", "d-slower3", "d-new"]
    assert "50.0 %" in (frames[2].get_attribute("textContent") or "")
    fill = frames[2].find_element(By.CSS_SELECTOR, "rect").value_of_css_property("fill")
    red, _, blue = colour(fill)
    assert red > blue + 40
    details = browser.chrome.find_element(By.CSS_SELECTOR, "details.gone")
    assert details.get_attribute("open") is None
    assert details.text.startswith("1 operator gone: 40.0 us")
    if script:
        browser.screenshot(f"compared-{size[0]}")


def test_eight_operators_are_shown_until_all_are_asked_for(browser: Browser) -> None:
    browser.open("exported")
    assert len(browser.those(_ROWS, _SEEN)) == 8
    button = browser.chrome.find_element(By.CSS_SELECTOR, "[data-all]")
    assert button.text == "All 31 operators"
    button.click()
    assert len(browser.those(_ROWS, _SEEN)) == 31
    assert not button.is_displayed()
    browser.open("exported")
    field = browser.chrome.find_element(By.CSS_SELECTOR, "[data-filter=run-1-operator-rows]")
    field.send_keys("batch_norm")
    found = browser.those(_ROWS, _SEEN, "e.cells[0].textContent")
    assert len(found) == 9
    assert all("native_batch_norm" in name for name in found)
    browser.open("exported", media="print")
    assert len(browser.those(_ROWS, _SEEN)) == 31


def test_operators_can_be_grouped_and_a_sum_stands_for_those_that_are_folded(
    browser: Browser,
) -> None:
    browser.open("exported")
    [folded] = browser.those(".folded", _VISIBLE, "e.textContent")
    assert folded.startswith("23 more operators: ")
    table, groups = "#run-1-operator-rows table", "[data-by=kind] table"
    assert (browser.those(table, _VISIBLE), browser.those(groups, _VISIBLE)) == ([True], [])
    header = browser.chrome.find_element(By.CSS_SELECTOR, f"{table} th button")
    header.click()  # by name: eight other ones are shown
    assert len(browser.those(_ROWS, _VISIBLE)) == 8
    browser.chrome.find_element(By.CSS_SELECTOR, "button[data-by=kind]").click()
    assert (browser.those(table, _VISIBLE), browser.those(groups, _VISIBLE)) == ([], [True])
    names = browser.those("[data-by=kind] summary", _VISIBLE, "e.textContent")
    assert {"convolution", "native_batch_norm_legit_no_training"} <= set(names)
    browser.run("document.querySelector('#run-1-operators').scrollIntoView()")
    browser.screenshot("groups")
    browser.chrome.find_element(By.CSS_SELECTOR, "button[data-by=operator]").click()
    assert (browser.those(table, _VISIBLE), browser.those(groups, _VISIBLE)) == ([True], [])


def test_an_outlier_leads_to_its_execution(browser: Browser) -> None:
    browser.open("outlier")
    link = browser.chrome.find_element(By.CSS_SELECTOR, ".outlier a")
    assert link.text == "execution 4: 900 ns"
    target = "return document.getElementById('run-1-execution-4').checkVisibility()"
    assert browser.run(target) is False
    browser.run("arguments[0].click()", link)
    assert browser.run(target) is True


@pytest.mark.parametrize("theme", THEMES)
def test_the_memory_plan_is_drawn_without_overlaps(browser: Browser, theme: str) -> None:
    browser.open("exported", theme=theme)
    browser.size(1280, browser.run("return document.documentElement.scrollHeight"))
    plan = "#run-1-plan ~ figure"
    bars = browser.run(PLACES, f"{plan} .plot > svg:not(.gap, .peak) > rect")
    assert len(bars) > 20
    for n, (x, y, w, h, *_) in enumerate(bars):
        for x2, y2, w2, h2, *_ in bars[:n]:
            across = min(x + w, x2 + w2) - max(x, x2)
            along = min(y + h, y2 + h2) - max(y, y2)
            assert across <= 1 or along <= 2.5  # a bar is at least two pixels high
    [peak] = browser.run(PLACES, f"{plan} .peak rect")
    through = [bar for bar in bars if bar[0] < peak[0] + peak[2] / 2 < bar[0] + bar[2]]
    assert sum(bar[3] for bar in through) > 0.9 * max(bar[3] for bar in bars)
    large = [bar for bar in bars if bar[3] > 20 and bar[2] > 20]
    points = [(x + 8, y + 5) for x, y, *_ in large]
    seen = browser.pixels(points)
    assert all(near(pixel, colour(bar[4])) for pixel, bar in zip(seen, large, strict=True))
    browser.run("document.querySelector('#run-1-plan').scrollIntoView()")
    browser.screenshot(f"plan-{theme}")
