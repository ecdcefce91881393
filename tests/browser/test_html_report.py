"""The HTML report in a real browser: drawn, quiet, reachable, readable."""

from __future__ import annotations

import re
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.accessibility import AUDIT, AXE, CONTRAST
from tests.support.browser import FOCUSABLE, Browser, energy

THEMES = ("light", "dark")

PLACES = """
return [...document.querySelectorAll(arguments[0])].map((mark) => {
  const box = mark.getBoundingClientRect();
  const style = getComputedStyle(mark);
  return [box.left + scrollX, box.top + scrollY, box.width, box.height, style.fill, style.stroke];
});
"""


def colour(text: str) -> tuple[int, ...]:
    found = re.match(r"rgb\((\d+), (\d+), (\d+)\)", text)
    assert found, text
    return tuple(map(int, found.groups()))


def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(a - b) <= 3 for a, b in zip(one, other, strict=True))


def far_apart(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Colours that differ enough for marks: 3 to 1 in luminance."""
    weights = (0.2126, 0.7152, 0.0722)
    low, high = sorted(
        sum(w * (v / 255) ** 2.2 for w, v in zip(weights, rgb, strict=True)) for rgb in (one, other)
    )
    return (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_pictures_are_drawn(browser: Browser, theme: str) -> None:
    browser.open("run", theme=theme)
    browser.size(1200, browser.run("return document.documentElement.scrollHeight"))
    frames = browser.run(PLACES, ".f rect")
    bars = browser.run(PLACES, "#run-1-operator-rows .bar rect")
    areas = browser.run(PLACES, ".curve .area")
    dots = browser.run(PLACES, ".dot.now, .dot.peak")
    assert (len(frames), len(bars)) == (12, 5)  # an execution twice: its time, its change
    assert len({frame[4] for frame in frames}) > 2
    assert len(areas) >= 2  # memory, and the noise of a number through history
    assert len(dots) >= 8
    # A frame below its text, a bar in its middle, a dot in its middle.
    points = [(x + 3, y + h - 3) for x, y, _, h, *_ in frames]
    points += [(x + w / 2, y + h / 2) for x, y, w, h, *_ in bars]
    points += [(x + w / 2, y + h / 2) for x, y, w, h, *_ in dots]
    expected = [colour(mark[4]) for mark in frames + bars] + [colour(mark[5]) for mark in dots]
    seen = browser.pixels(points)
    wrong = [
        (point, pixel, right)
        for point, pixel, right in zip(points, seen, expected, strict=True)
        if not near(pixel, right)
    ]
    assert not wrong
    back = colour(browser.run("return getComputedStyle(document.body).backgroundColor"))
    lines = browser.run(PLACES, ".curve path.line")
    assert lines
    for drawn in {bar[4] for bar in bars} | {line[5] for line in lines}:
        assert far_apart(colour(drawn), back)
    assert not {dot[5] for dot in dots} & {line[5] for line in lines}
    # Bars get shorter from the first to the last, as the operators' times do.
    widths = [bar[2] for bar in bars]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(widths[0] / 5, rel=0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_the_roofline_and_the_heat_of_counters_are_drawn(browser: Browser, theme: str) -> None:
    browser.open("counters", theme=theme)
    browser.size(1200, browser.run("return document.documentElement.scrollHeight"))
    dots = browser.run(PLACES, ".curve .dot")
    assert len(dots) == 3
    assert len({dot[5] for dot in dots}) == 3  # a colour for each bound
    points = [(x + w / 2, y + h / 2) for x, y, w, h, *_ in dots]
    seen = browser.pixels(points)
    assert all(near(pixel, colour(dot[5])) for pixel, dot in zip(seen, dots, strict=True))
    [roof] = browser.run(PLACES, "#run-1-roofline ~ .curves path.line")
    assert roof[2] > 200  # it reaches across the picture
    assert all(y >= roof[1] - 1 for _, y in points)  # and no operator is above it
    heat = "getComputedStyle(e).backgroundColor"
    shades = browser.those("#run-1-counters ~ .scroll td.n", "e.cellIndex === 2", heat)
    assert len(set(shades)) == 3  # 60, 65 and 100 % of the largest


def test_the_current_and_the_joules_of_operators_are_shown(browser: Browser) -> None:
    browser.open("energy")
    browser.size(1200, browser.run("return document.documentElement.scrollHeight"))
    assert browser.those("#run-1-energy", "e.checkVisibility()", "e.textContent") == ["Energy"]
    [current] = browser.run(PLACES, "#run-1-energy ~ .curves path.line")
    [peak] = browser.run(PLACES, "#run-1-energy ~ .curves .dot")
    assert current[2] > 200  # it reaches across the picture
    assert peak[1] + peak[3] / 2 < current[1]  # the largest sample is above every mean
    [pixel] = browser.pixels([(peak[0] + peak[2] / 2, peak[1] + peak[3] / 2)])
    assert near(pixel, colour(peak[5]))
    rows = browser.those("#run-1-energy ~ .scroll tbody tr", "e.checkVisibility()", "e.innerText")
    shown = [item for item in energy().operators if item.name != "OPERATOR_CALL"]
    assert len(rows) == len(shown) == 6
    for item in shown:
        [row] = [row for row in rows if row.startswith(item.name)]
        assert f"{1e6 * (item.joules or 0):.3f}" in row.split("\t")
    assert browser.complaints() == []


def test_nothing_is_asked_of_a_network(browser: Browser) -> None:
    for name in ("run", "night"):
        browser.open(name)
        browser.unfold()
        asked = browser.requests()
        assert asked[0] == browser.files[name].as_uri()
        assert set(asked[1:]) <= {"data:,"}


@pytest.mark.parametrize("name", ["run", "counters", "exported", "night", "nightly"])
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(
    browser: Browser, name: str
) -> None:
    browser.open(name)
    count = len(browser.those(FOCUSABLE, "e.checkVisibility()"))
    reached = []
    for _ in range(count + 5):
        browser.press(Keys.TAB)
        at = browser.run(_FOCUS)
        if at is None or at["number"] in [other["number"] for other in reached]:
            break
        reached.append(at)
    assert len(reached) == count
    assert reached[0]["text"] == "Skip to the verdict"
    assert reached[0]["top"] >= 0  # it comes into view
    assert [at["text"] for at in reached if not at["shown"]] == []


_FOCUS = """
const at = document.activeElement;
if (!at || at === document.body) return null;
const mark = at.classList.contains("f") ? at.querySelector("rect") : at;
const style = getComputedStyle(mark);
const shown = at === mark
  ? style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
  : parseFloat(style.strokeWidth) >= 3;
const number = [...document.querySelectorAll("*")].indexOf(at);
const top = at.getBoundingClientRect().top;
return { number, shown, text: at.textContent.trim().slice(0, 60), top };
"""


def test_operators_can_be_filtered_and_sorted(browser: Browser) -> None:
    browser.open("run")

    def names() -> list[str]:
        rows = "#run-1-operator-rows tbody tr"
        return browser.those(rows, "!e.hidden", "e.cells[0].textContent")

    everything = [f"op{n} #{n}" for n in (4, 3, 2, 1, 0)]
    assert names() == everything
    field = browser.chrome.find_element(By.CSS_SELECTOR, "[data-filter=run-1-operator-rows]")
    field.send_keys("CALL_OP3.")  # the exact name is found, too
    assert names() == ["op3 #3"]
    assert "1 of 5 shown" in browser.chrome.find_element(By.TAG_NAME, "main").text
    field.send_keys(Keys.BACKSPACE * 9)
    assert names() == everything
    share = browser.chrome.find_element(
        By.XPATH, "//*[@id='run-1-operator-rows']//th/button[starts-with(., 'share')]"
    )
    share.click()
    assert names() == everything
    share.send_keys(Keys.ENTER)
    assert names() == everything[::-1]
    header = browser.run("return arguments[0].parentElement.getAttribute('aria-sort')", share)
    assert header == "ascending"


def test_runs_can_be_filtered_and_are_unfolded_by_links(browser: Browser) -> None:
    browser.open("night")

    def shown() -> list[str]:
        return browser.those("details.run", "!e.hidden", "e.id")

    assert shown() == ["run-1", "run-2", "run-3"]
    browser.chrome.find_element(By.ID, "only-failed").click()
    assert shown() == ["run-1", "run-3"]
    browser.chrome.find_element(By.ID, "only-failed").click()
    folded = "return document.getElementById('run-2').open"
    assert browser.run(folded) is False
    browser.chrome.find_element(By.CSS_SELECTOR, ".matrix a[href='#run-2']").click()
    assert browser.run(folded) is True
    code = browser.chrome.find_element(By.CSS_SELECTOR, "#run-1 .why a[href='#code-B01']")
    browser.run("arguments[0].click()", code)
    assert browser.run("return document.getElementById('code-B01').open") is True


def test_the_flame_view_is_moved_in_and_zoomed_by_keys(browser: Browser) -> None:
    browser.open("run")
    focused = "return document.activeElement.querySelector('title').textContent"
    width = "return document.activeElement.querySelector('rect').getBoundingClientRect().width"
    flame = browser.chrome.find_element(By.CSS_SELECTOR, "#run-1-tree ~ .flame .icicle")
    browser.run("arguments[0].scrollIntoView(); arguments[0].querySelector('.f').focus()", flame)
    assert browser.run(focused).startswith("Method::execute: ")
    whole = browser.run(width)
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert browser.run(focused).startswith("native_call_op1.out")
    panel = browser.chrome.find_element(By.CSS_SELECTOR, "#run-1-tree ~ .flame .panel")
    assert "instruction 1: 20.100 us" in panel.text, "one of the median execution"
    assert "13.4 % of the wall time" in panel.text
    small = browser.run(width)
    assert small == pytest.approx(whole * 2 / 15, rel=0.02)
    browser.press(Keys.ENTER)
    assert browser.run(width) == pytest.approx(whole, abs=1)
    left = "return [...document.querySelectorAll('#run-1-tree ~ .flame .f:not(.gone)')].length"
    assert browser.run(left) == 2  # it and what is around it; wrappers are not drawn
    browser.press(Keys.ARROW_UP)
    assert browser.run(focused).startswith("Method::execute: ")
    browser.press(Keys.ESCAPE)
    assert browser.run(left) == 6
    browser.press(Keys.ARROW_DOWN)
    assert browser.run(focused).startswith("native_call_op0.out")
    frame = browser.chrome.find_elements(By.CSS_SELECTOR, "#run-1-tree ~ .flame .f rect")[1]
    frame.click()
    assert browser.run(left) < 6
    browser.chrome.find_element(By.CSS_SELECTOR, "#run-1-tree ~ .flame .out").click()
    assert browser.run(left) == 6


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["run", "counters", "exported", "night", "nightly", "compared"])
def test_no_text_is_hard_to_read(browser: Browser, name: str, theme: str) -> None:
    browser.open(name, theme=theme)
    browser.unfold()
    found = browser.run(CONTRAST)
    assert len(found) > (40 if name == "compared" else 100)
    assert [item for item in found if item[0] < 4.5] == []


@pytest.mark.parametrize("name", ["run", "counters", "exported", "night", "nightly", "compared"])
def test_an_audit_of_accessibility_finds_nothing(browser: Browser, name: str) -> None:
    browser.open(name)
    browser.unfold()
    browser.run(AXE)
    result: dict[str, Any] = browser.chrome.execute_async_script(AUDIT)
    assert "error" not in result, result
    assert len(result["passes"]) > 20
    assert [
        (wrong["id"], wrong["help"], [node["html"][:200] for node in wrong["nodes"]])
        for wrong in result["violations"]
    ] == []


@pytest.mark.parametrize("name", ["run", "counters", "exported", "night", "nightly"])
def test_a_phone_needs_no_scrolling_sideways(browser: Browser, name: str) -> None:
    browser.size(360, 740)
    browser.open(name)
    browser.unfold()
    root = "document.documentElement"
    assert browser.run(f"return {root}.scrollWidth <= {root}.clientWidth")
    outside = "!e.closest('.scroll, svg') && e.getBoundingClientRect().right > 361"
    found = browser.those(
        "main *", f"e.checkVisibility() && {outside}", "e.outerHTML.slice(0, 100)"
    )
    assert found == []


def test_the_button_overrules_the_system(browser: Browser) -> None:
    browser.open("run", theme="light")
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    button = browser.chrome.find_element(By.ID, "theme")
    button.click()
    assert button.text == "Theme: dark"
    assert sum(colour(browser.run(background))) < 150 < sum(colour(light))
    browser.open("run", theme="light")  # and it is remembered
    assert sum(colour(browser.run(background))) < 150
    browser.open("run", theme="dark", media="print")  # but paper is light
    assert browser.run(background) == light
    browser.run("localStorage.clear()")


def test_print_unfolds_everything_and_cuts_nothing(browser: Browser) -> None:
    browser.size(760)  # about what paper is wide
    browser.open("night", media="print")
    folded = "return document.querySelectorAll('details:not([open])').length"
    before = browser.run(folded)
    assert before > 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(folded) == 0
    root = "document.documentElement"
    assert browser.run(f"return {root}.scrollWidth <= {root}.clientWidth")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(folded) == before


def test_without_scripts_everything_can_be_read_and_nothing_is_dead(browser: Browser) -> None:
    browser.chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.open("run")
    text = browser.chrome.find_element(By.TAG_NAME, "main").text
    for expected in (
        "1 of 4 checks failed, 1 warning, 1 note",
        "native_call_op4.out",
        "Call tree",
        "heap: peak",
    ):
        assert expected in text
    controls = browser.chrome.find_elements(By.CSS_SELECTOR, "button, input")
    assert controls
    assert not any(control.is_displayed() for control in controls)
