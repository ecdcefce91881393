"""Every example runs in an empty folder, and the list of examples is complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import harness

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def run(arguments: list[str | Path], folder: Path) -> str:
    """Run Python in a folder, with this package; return what it prints."""
    import os

    root = str(Path(harness.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name in SCRIPTS if not name.startswith("test_")])
def test_a_script_runs_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    assert run([EXAMPLES / name], tmp_path)


@pytest.mark.long
def test_the_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "test_my_model.py").write_text((EXAMPLES / "test_my_model.py").read_text())
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    plugin = ["-p", "harness.pytest_plugin"] if not _installed() else []
    assert "2 passed" in run(["-m", "pytest", *options, *plugin], tmp_path)


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == "etharness" for point in entry_points(group="pytest11"))


def test_the_notebook_runs_cell_by_cell(tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids)) > len(cells) > 3
    script = tmp_path / "cells.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in cells) + "\n")
    assert "peak " in run([script], tmp_path)


def test_the_list_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert sorted(re.findall(r"^\| \[([\w.]+)\]\(\1\) \|", text, re.MULTILINE)) == sorted(
        [*SCRIPTS, "tour.ipynb"]
    )
    assert len(SCRIPTS) == 6
