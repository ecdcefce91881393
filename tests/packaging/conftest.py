"""The wheel, and a virtual environment that holds it and nothing of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = "build,export,history,report,testing"
"""What the README installs; one of its tests compares."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel.

    Attributes:
        directory: Its programs.
        variables: The environment to run them in.
    """

    directory: Path
    variables: dict[str, str]

    def run(
        self, program: str, *arguments: str | Path, cwd: Path
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.directory / program, *arguments],
            cwd=cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def paste(self, block: str, *, cwd: Path) -> None:
        """Run a block of a page as a reader would paste it into a shell, and expect success.

        The wheel is installed already, so lines that call pip are left out.
        """
        lines = [line for line in block.splitlines() if not line.startswith("pip install ")]
        done = subprocess.run(
            ["sh", "-euxc", "\n".join(lines)],
            cwd=cwd,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, block + done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    with FileLock(shared / "wheel.lock"):
        if not (found := [*(shared / "dist").glob("*.whl")]):
            command = [sys.executable, "-m", "build", "--wheel", "--outdir", shared / "dist", ROOT]
            subprocess.run(command, check=True, capture_output=True)
            found = [*(shared / "dist").glob("*.whl")]
    [path] = found
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, shared: Path) -> Installed:
    programs = shared / "venv" / "bin"
    with FileLock(shared / "venv.lock"):
        if not (programs / "etharness").exists():
            # uv takes a tenth of pip's time for an environment that is made again and again.
            uv = [sys.executable, "-m", "uv", "--quiet"]
            subprocess.run([*uv, "venv", shared / "venv"], check=True)
            python = ["--python", programs / "python"]
            command = [*uv, "pip", "install", *python, f"{wheel}[{EXTRAS}]"]
            subprocess.run(command, check=True)
    variables = {
        "HOME": str(shared / "home"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ETHARNESS_BUILD_DIR": str(shared / "build"),
    }
    return Installed(programs, variables)
