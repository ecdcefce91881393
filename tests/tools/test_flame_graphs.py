"""speedscope and inferno open flame graphs, and show our self times."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="needs the tools that read exports")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from harness import RunIdentity, Trace, draw, export_trace, read_ed00
from harness.extensions.exports.flame_graph import flames, self_times_of
from tests.conftest import FIXTURES
from tests.support.exports import delegated_trace

pytestmark = pytest.mark.tools

RELEASE = Path(sys.prefix) / "node_modules/speedscope/dist/release/index.html"
IDENTITY = RunIdentity("native", "kws;1.pte")
UNITS = {"": 1, "ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
ROWS = """
return [...document.querySelectorAll("tr")].map((row) => row.innerText)
    .filter((text) => /%\\)/.test(text));
"""


def recorded_trace() -> Trace:
    return read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bytes], Any]]:
    """Opens a file in speedscope, as its command line does; returns the browser."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None or not RELEASE.exists():
        pytest.skip("needs chromium, its driver and speedscope (`npm install speedscope`)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    folder = tmp_path_factory.mktemp("speedscope")
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1200,4000"):
        options.add_argument(f"--{flag}")
    # Rows of a table that are out of sight are not made.
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    chrome = webdriver.Chrome(options=options, service=Service(driver))

    def open_(data: bytes) -> Any:
        script = folder / "profile.js"
        content = json.dumps(base64.b64encode(data).decode())
        script.write_text(f'speedscope.loadFileFromBase64("given", {content});')
        chrome.get("about:blank")
        chrome.get(f"{RELEASE.as_uri()}#localProfilePath={script}")
        shown = WebDriverWait(chrome, 60)
        shown.until(lambda page: "Sandwich" in page.find_element("tag name", "body").text)
        return chrome

    yield open_
    chrome.quit()


def table(chrome: Any) -> dict[str, float]:
    """Return the self time of each frame in speedscope's table, in nanoseconds or as given."""
    chrome.find_element("xpath", "//*[contains(text(), 'Sandwich')]").click()
    WebDriverWait(chrome, 60).until(lambda page: page.execute_script(ROWS))
    found = {}
    for row in chrome.execute_script(ROWS):
        _, own, name = (cell.strip() for cell in row.split("\t"))
        match = re.match(r"([\d.,]+)(ns|µs|ms|s|) ", own)
        assert match is not None, own
        found[name] = float(match[1].replace(",", "")) * UNITS[match[2]]
    return found


@pytest.mark.parametrize("make", [recorded_trace, delegated_trace])
def test_speedscope_opens_the_first_execution(
    make: Callable[[], Trace], opened: Callable[[bytes], Any]
) -> None:
    trace = make()
    chrome = opened(export_trace(trace, "speedscope", identity=IDENTITY).data)
    assert chrome.title.startswith("kws;1.pte on native")
    drawing = draw(trace)
    drawn = flames(drawing)
    text = chrome.find_element("tag name", "body").text
    assert re.search(rf"Execute 1\s+\(\d+/{len(drawn)}\)", text), text
    [flame] = [item for item in drawn if item.title == "Execute 1"]
    own: dict[str, float] = defaultdict(float)
    for stack, time in self_times_of(drawing, flame):
        own[stack[-1]] += time
    # The table rounds each time to hundredths of its unit.
    assert table(chrome) == pytest.approx(own, rel=0.006)


def test_speedscope_opens_folded_stacks(opened: Callable[[bytes], Any]) -> None:
    data = export_trace(recorded_trace(), "folded", identity=IDENTITY).data
    own: dict[str, float] = defaultdict(float)
    _, *lines = data.decode().splitlines()  # the first names the run, and has no time
    for line in lines:
        stack, _, time = line.rpartition(" ")
        for frame in stack.split(";"):
            own[frame] += 0
        own[stack.split(";")[-1]] += int(time)
    assert table(opened(data)) == own
    assert any(r"kws\x3b1.pte on native" in frame for frame in own)


@pytest.mark.parametrize("make", [recorded_trace, delegated_trace])
def test_inferno_draws_every_stack(make: Callable[[], Trace]) -> None:
    pyinferno = pytest.importorskip("pyinferno", reason="needs the tools that read exports")
    lines = export_trace(make(), "folded", identity=IDENTITY).data.decode().splitlines()
    svg = pyinferno.flamegraph_from_lines(lines, title="run")
    total = sum(int(line.rpartition(" ")[2]) for line in lines)
    assert f"all ({total:,} samples" in svg
