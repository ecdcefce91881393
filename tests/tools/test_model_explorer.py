"""Model Explorer shows our times on the nodes of a ``.pte`` file, as Arm's adapter draws it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pte_adapter_model_explorer", reason="needs the tools that read exports")

from selenium.webdriver.support.wait import WebDriverWait

from harness import Method, RunIdentity, export_trace, read_ed00, read_program
from tests.conftest import FIXTURES, MODELS
from tests.support.perfetto_ui import chromium

pytestmark = pytest.mark.tools

MODEL = MODELS / "kws_f32.pte"


@pytest.fixture(scope="module")
def method() -> Method:
    found = read_program(MODEL.read_bytes()).method("forward")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def overlay(method: Method, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node data of a dump that ExecuTorch's own runtime wrote."""
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    file = tmp_path_factory.mktemp("overlay") / "times.json"
    identity = RunIdentity(board="host")
    file.write_bytes(export_trace(trace, "model-explorer", method=method, identity=identity).data)
    return file


def test_every_instruction_is_a_node_of_arms_graph(method: Method, overlay: Path) -> None:
    from pte_adapter_model_explorer.main import PTEAdapter

    (collection,) = PTEAdapter().convert(str(MODEL), {})["graphCollections"]
    (graph,) = collection.graphs
    labels = {node.id: node.label for node in graph.nodes}
    times = json.loads(overlay.read_text())[graph.id]["results"]
    assert {node: labels[node] + ".out" for node in times} == {
        f"forward_0_{number}": step.name for number, step in enumerate(method.chains[0])
    }


def test_its_page_shows_the_times(method: Method, overlay: Path) -> None:
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("chromium and chromedriver are not installed; `tools/setup test` does that")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).parent / "model-explorer"
    command = [
        *(str(program), str(MODEL), f"--node_data_paths={overlay}"),
        *("--extensions=pte_adapter_model_explorer", "--no_open_in_browser"),
        *("--host=127.0.0.1", f"--port={port}", "--skip_health_check"),
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            address = next(line.strip() for line in server.stdout if line.startswith("http://"))
            with chromium((1500, 1000)) as chrome:
                chrome.get(address)
                shown = "return document.body.innerText"
                wait = WebDriverWait(chrome, 60)
                wait.until(lambda page: "Node data\n" in page.execute_script(shown))
                text = chrome.execute_script(shown)
        finally:
            server.terminate()
    assert "median time on host [us]" in text
    times = json.loads(overlay.read_text())["forward"]["results"]
    for number, step in enumerate(method.chains[0][:4]):
        label = step.name.removesuffix(".out")
        assert f"{label}\t{times[f'forward_0_{number}']['value']}" in text
