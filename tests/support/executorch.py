"""Programs around ExecuTorch's wheel, made with nothing but compilers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.extensions.executorch.linking import find_executorch
from harness.target.build import cxx_compiler
from tests.conftest import ROOT

FIRMWARE = ROOT / "firmware_stub"


class Build:
    """Compiles our C and C++ beside the wheel's headers, and links with its libraries."""

    def __init__(self, directory: Path) -> None:
        package = find_executorch()
        assert package is not None
        self.directory, self.library = directory, package / "lib"
        ours = [f"-I{FIRMWARE / 'include'}", f"-I{FIRMWARE / 'executorch'}"]
        headers = package / "include"
        system = (headers, headers / "executorch/runtime/core/portable_type/c10")
        defined = ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"]
        theirs = [word for path in system for word in ("-isystem", str(path))]
        self.c = [os.environ.get("CC") or "cc", "-std=c11", *ours]
        self.cxx = [cxx_compiler(), "-std=c++17", *ours, *theirs, *defined]

    def compile(self, source: Path, *options: str) -> str:
        """Return the object file made of a source file."""
        compiler = self.cxx if source.suffix == ".cpp" else self.c
        made = str(self.directory / f"{source.parent.name}_{source.stem}.o")
        subprocess.run([*compiler, *options, "-c", str(source), "-o", made], check=True)
        return made

    def tracer(self) -> list[str]:
        """Return the object files of our tracer."""
        return [self.compile(path) for path in sorted((FIRMWARE / "src/tracer").glob("*.c"))]

    def link(self, objects: list[str], *libraries: str) -> Path:
        """Return the program made of object files, ExecuTorch and ``libraries``."""
        program = self.directory / "program"
        paths = [f"-L{self.library}", f"-Wl,-rpath,{self.library}", "-Wl,--no-as-needed"]
        names = [f"-l{name}" for name in ("executorch", *libraries, "m")]
        subprocess.run([self.cxx[0], "-o", str(program), *objects, *paths, *names], check=True)
        return program
