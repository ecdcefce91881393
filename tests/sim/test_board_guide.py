"""docs/boards.md, followed word by word: a new board from the template runs a model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from tests.conftest import BOARDS, ROOT

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

PAGE = ROOT / "docs/boards.md"
PARTS = ("harness", "firmware_stub", "boards", "schema")
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, in which the page's steps leave their files."""
    for part in PARTS:
        skipped = shutil.ignore_patterns("__pycache__", "build", "CMakeUserPresets.json")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=skipped)
    return tmp_path


def shell(script: str, project: Path, given: str = "") -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(project),
        "ETHARNESS_BUILD_DIR": str(project / "build"),
    }
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=project,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_pages_own_steps_make_a_board_that_runs(project: Path) -> None:
    followed = []
    for language, file, body in BLOCK.findall(PAGE.read_text()):
        if file:
            (project / file).write_text(body)
        elif language == "diff":
            shell("patch -p1", project, body)
        elif language == "sh":
            shell(body, project)
        followed.append(language)
    assert followed == ["sh", "diff", "json", "toml", "toml", "sh"]

    port = project / "firmware_stub/ports/my_mps2"
    assert not [path for path in port.iterdir() if "FILL_IN" in path.read_text()]
    result = json.loads((project / "out/my-mps2/result.json").read_text())
    assert result["exit_code"] == 0
    assert result["target"]["board"] == "my-mps2"
    assert result["runs_completed"] == 3
    # The template is as good as the port that was written for this board.
    shipped = "--board qemu-mps2-an385 --model firmware_stub/models/small_int8.pte --runs 3"
    shell(f"etharness run {shipped} -o out/shipped", project)
    outputs = [project / "out" / run / "outputs/0.npy" for run in ("my-mps2", "shipped")]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.parametrize("file", ["template.c", "template.ld", "port.cmake"])
def test_the_template_marks_what_to_fill_in(file: str) -> None:
    template = ROOT / "firmware_stub/ports/template" / file
    filled = (line for line in template.read_text().splitlines() if "FILL_IN" in line)
    removed = re.findall(r"^-(.*FILL_IN.*)$", PAGE.read_text(), re.MULTILINE)
    assert [line for line in filled if line not in removed and not line.startswith(" *")] == []


def test_no_board_claims_real_hardware_that_the_page_denies() -> None:
    """Whoever tries a real board changes the board file, this page and this test."""
    assert "**No board has been tried on real hardware.**" in PAGE.read_text()
    for name in BOARDS:
        board = harness.Board.load(name)
        if name.startswith("qemu-"):
            assert "under QEMU 7.2" in board.tested
            assert "not on a real" in board.tested or "no such hardware" in board.tested
            assert board.memory is not None
