"""``pio run`` of a project with the library in ``lib/``, for a Cortex-M that then runs, simulated.

PlatformIO would download a platform and SCons from its own registry. Here the platform is a folder,
and SCons is PyPI's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_stub.packages.__main__ import write
from harness import Kind, read_log

pytestmark = pytest.mark.tools

HERE = Path(__file__).parent
LIBRARY = HERE.parent / "library"
PIO = Path(sys.executable).with_name("pio")


def install_scons(core: Path) -> None:
    """Make PlatformIO find the SCons of this environment where it would put its own."""
    dependencies = pytest.importorskip("platformio.dependencies")
    version = dependencies.get_core_dependencies()["tool-scons"].lstrip("~^")
    package = {"type": "tool", "name": "tool-scons", "version": version}
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None}
    folder = core / "packages/tool-scons"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(package))
    (folder / ".piopm").write_text(json.dumps(package | {"spec": spec | {"uri": None}}))
    (folder / "scons.py").write_text("from SCons.Script import main\nmain()\n")


def test_pio_run_builds_a_project_that_runs(tmp_path: Path) -> None:
    install_scons(tmp_path / "core")
    write("platformio", tmp_path / "lib/etdump")
    (tmp_path / "src").mkdir()
    shutil.copy(LIBRARY / "consumer.c", tmp_path / "src")
    shutil.copy(LIBRARY / "microcontroller/vectors.c", tmp_path / "src")
    shutil.copy(LIBRARY / "microcontroller/memory.ld", tmp_path)
    platform = (HERE / "platformio_platform").as_uri()
    (tmp_path / "platformio.ini").write_text(f"[env:m3]\nplatform = {platform}\n")
    variables = {
        "PLATFORMIO_CORE_DIR": str(tmp_path / "core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
    }
    built = subprocess.run(
        [PIO, "run"], cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    assert "etdump @ 0." in built.stdout  # found by what the program includes
    program = ".pio/build/m3/program.elf"
    machine = ["qemu-system-arm", "-M", "mps2-an385", "-nographic", "-kernel", program]
    files = ["-semihosting-config", "enable=on,target=native,arg=program,arg=run.etlog"]
    subprocess.run([*machine, *files], cwd=tmp_path, check=True, timeout=600)
    trace = read_log((tmp_path / "run.etlog").read_bytes())
    names = {trace.text(int(name)) for name in trace.name[trace.kind == Kind.PROFILE]}
    assert names == {"conv", "relu", "Method::execute"}
