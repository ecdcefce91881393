"""Netron shows our times at the values of a ``.pte`` file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("netron", reason="needs the tools that read exports")

import netron
from selenium.webdriver.support.wait import WebDriverWait

from harness import RunIdentity, export_trace, read_ed00, read_program
from tests.conftest import FIXTURES, MODELS
from tests.support.perfetto_ui import chromium

pytestmark = pytest.mark.tools

MODEL = MODELS / "kws_f32.pte"
CLICK = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
SIDEBAR = "return document.getElementById('sidebar')?.innerText ?? ''"


def test_its_page_shows_the_times(tmp_path: Path) -> None:
    """Of a dump that ExecuTorch's own runtime wrote: every value that an instruction computes."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("chromium and chromedriver are not installed; `tools/setup test` does that")
    method = read_program(MODEL.read_bytes()).method("forward")
    assert method is not None
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    attachment = tmp_path / "times.json"
    identity = RunIdentity(board="a board of ours")
    attachment.write_bytes(export_trace(trace, "netron", method=method, identity=identity).data)
    metrics = json.loads(attachment.read_text())["metrics"]
    assert len(metrics) == len(method.chains[0])
    host, port = netron.start(None, browse=False)
    try:
        with chromium((1500, 1000)) as chrome:
            chrome.get(f"http://{host}:{port}")
            wait = WebDriverWait(chrome, 30)
            wait.until(lambda _: [b for b in chrome.find_elements("tag name", "button") if b.text])
            for button in chrome.find_elements("tag name", "button"):
                if button.text == "Accept":  # cookies
                    button.click()
            opened = chrome.find_element("id", "open-file-dialog")
            opened.send_keys(str(MODEL))
            lines = "#edge-paths-hit-test path"
            wait.until(lambda _: chrome.find_elements("css selector", lines))
            chrome.execute_script("arguments[0].value = ''", opened)
            opened.send_keys(str(attachment))
            shown = set()

            def texts(_: object) -> set[str]:
                for line in chrome.find_elements("css selector", lines):
                    chrome.execute_script(CLICK, line)
                    shown.add(chrome.execute_script(SIDEBAR).split("\n")[-1])
                return shown & {metric["value"] for metric in metrics}

            wait.until(texts)
            texts(None)
    finally:
        netron.stop()
    drawn = {metric["value"] for metric in metrics}
    # The last value is the model's output, and no line leads from one that nothing reads.
    assert len(drawn & shown) >= len(drawn) - 2
