"""The device library as other projects use it: its sources, and compilers of each standard."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

STUB = ROOT / "firmware_stub"
INCLUDE = STUB / "include"
CONSUMER = Path(__file__).with_name("consumer.c")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


class Dialect(NamedTuple):
    """A compiler and a language standard."""

    compiler: str
    standard: str

    @property
    def command(self) -> list[str]:
        """How to compile a file as this language, whatever its suffix."""
        language = "c++" if "++" in self.standard else "c"
        return [self.compiler, "-x", language, f"-std={self.standard}", *WARNINGS]

    def __str__(self) -> str:
        return f"{self.compiler}-{self.standard}"


DIALECTS = [
    *(Dialect(name, std) for name in ("gcc", "clang") for std in ("c99", "c11")),
    *(
        Dialect(name, std)
        for name in ("g++", "clang++")
        for std in ("c++11", "c++14", "c++17", "c++20")
    ),
]


def sh(*command: str | Path, cwd: Path) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def sources(*folders: str) -> list[Path]:
    """C files of these folders of ``firmware_stub/src``."""
    return [path for folder in folders for path in sorted((STUB / "src" / folder).rglob("*.c"))]
