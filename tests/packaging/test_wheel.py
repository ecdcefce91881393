"""An installed copy, far from any checkout, builds and runs the native board."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import MODELS
from tests.packaging.conftest import ROOT, Installed

TEN_LINES = """
import pytest
from harness.pytest_plugin import s


@pytest.mark.etharness(board="native", model="kws_int8.pte", runs=3)
def test_kws(etharness_run):
    etharness_run.check()
    assert etharness_run.slowest("native_call_*conv*").p50 < 10 * s
"""

BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]


def test_the_wheel_holds_boards_schemas_and_firmware(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "harness/py.typed",
        "harness/extensions/web/html/templates/page.html.j2",
        "harness/extensions/web/html/templates/script.js",
        "harness/extensions/web/site/templates/index.html.j2",
        "harness/extensions/web/site/templates/site.css",
        "harness/_data/boards/native.toml",
        "harness/_data/boards/budgets/default.toml",
        "harness/_data/docs/checks/README.md",
        "harness/_data/docs/lab.md",
        "harness/_data/schema/result.schema.json",
        "harness/_data/firmware_stub/CMakeLists.txt",
        "harness/_data/firmware_stub/include/etd_tracer.h",
        "harness/_data/firmware_stub/ports/mps2/port.cmake",
    } <= names
    assert not [name for name in names if "/build/" in name]


def test_an_installed_copy_runs_the_native_board(installed: Installed, tmp_path: Path) -> None:
    arguments = ["run", "--board", "native", "--runs", "2", "--json"]
    model = ["--model", MODELS / "kws_int8.pte", "-o", tmp_path / "out"]
    done = installed.run("etharness", *arguments, *model, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["runs_completed"] == 2
    assert result["verdict"]["passed"] is True


def test_an_installed_copy_is_a_pytest_plugin(installed: Installed, tmp_path: Path) -> None:
    shutil.copy(MODELS / "kws_int8.pte", tmp_path)
    (tmp_path / "test_kws.py").write_text(TEN_LINES)
    done = installed.run("pytest", "-v", "-rs", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "etharness: 0.1.0, boards: as tests or [tool.etharness] say, or native" in done.stdout
    assert "test_kws.py::test_kws[native-kws_int8] PASSED" in done.stdout
    off = installed.run("pytest", "-p", "no:etharness", "--fixtures", cwd=tmp_path)
    assert "etharness_run" not in off.stdout


@pytest.mark.long
def test_the_steps_of_the_boards_page_make_a_board_that_runs(
    installed: Installed, tmp_path: Path
) -> None:
    """docs/boards.md, followed word by word in an empty folder."""
    followed = []
    for language, file, body in BLOCK.findall((ROOT / "docs/boards.md").read_text()):
        if file:
            (tmp_path / file).write_text(body)
        elif language == "diff":
            subprocess.run(["patch", "-p1"], cwd=tmp_path, input=body, text=True, check=True)
        elif language == "sh":
            installed.paste(body, cwd=tmp_path)
        followed.append(language)
    assert followed == ["sh", "diff", "toml", "toml", "sh"]

    port = tmp_path / "my_mps2"
    assert not [path for path in port.iterdir() if "FILL_IN" in path.read_text()]
    result = json.loads((tmp_path / "out/my-mps2/result.json").read_text())
    assert result["exit_code"] == 0
    assert result["target"]["board"] == "my-mps2"
    assert result["runs_completed"] == 3
    # The template is as good as the port that was written for this board.
    shipped = ("--board", "qemu-mps2-an385", "--model", "small_int8", "--runs", "3")
    done = installed.run("etharness", "run", *shipped, "-o", "out/shipped", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = [tmp_path / "out" / run / "outputs/0.npy" for run in ("my-mps2", "shipped")]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    # A change of the port is another build.
    with (port / "my_mps2.c").open("a") as source:
        source.write("/* changed */\n")
    done = installed.run("etharness", "build", "--board", "my-mps2.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["target"]["build_id"] not in done.stdout
    assert "build_id" in done.stdout
