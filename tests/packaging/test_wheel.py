"""An installed copy, far from any checkout, builds and runs the native board."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import MODELS

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(ROOT)],
        check=True,
        capture_output=True,
    )
    [path] = directory.glob("*.whl")
    return path


def test_the_wheel_holds_boards_schemas_and_firmware(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "harness/py.typed",
        "harness/_data/boards/native.toml",
        "harness/_data/boards/budgets/native.toml",
        "harness/_data/checks/README.md",
        "harness/_data/schema/result.schema.json",
        "harness/_data/firmware_stub/CMakeLists.txt",
        "harness/_data/firmware_stub/include/et_tracer.h",
        "harness/_data/firmware_stub/ports/mps2/port.cmake",
    } <= names
    assert not [name for name in names if "/build/" in name]


def test_an_installed_copy_runs_the_native_board(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    subprocess.run(
        [environment / "bin" / "pip", "install", "--quiet", f"{wheel}[build]"], check=True
    )
    variables = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "ETHARNESS_BUILD_DIR": str(tmp_path / "build"),
    }
    command = [
        environment / "bin" / "etharness",
        "run",
        "--board",
        "native",
        "--runs",
        "2",
        "--json",
    ]
    done = subprocess.run(
        [*command, "--model", MODELS / "kws_int8.pte", "-o", tmp_path / "out"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["runs_completed"] == 2
    assert result["verdict"]["passed"] is True
