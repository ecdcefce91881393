"""A stand-in for an ExecuTorch that was built for a Cortex-M core (executorch_standin/)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.extensions.executorch.linking import find_executorch
from harness.target.build import find_cmake
from tests.conftest import ROOT

SOURCES = Path(__file__).with_name("executorch_standin")

CORES = {
    "qemu-mps2-an385-executorch": "-mcpu=cortex-m3",
    "qemu-mps2-an386-executorch": "-mcpu=cortex-m4;-mfloat-abi=hard",
    "qemu-mps3-an547-executorch": "-mcpu=cortex-m55+nomve;-mfloat-abi=hard",
}
"""Compiler options of each board's core."""


def install_standin(cpu_options: str, directory: Path, *definitions: str) -> Path:
    """Return the prefix where the stand-in is installed, built with the wheel's headers."""
    package, cmake = find_executorch(), find_cmake()
    assert package is not None
    assert cmake is not None
    prefix, build = directory / "installed", directory / "build"
    toolchain = ROOT / "firmware_stub/cmake/arm-none-eabi.cmake"
    variables = {
        "CMAKE_TOOLCHAIN_FILE": toolchain,
        "CMAKE_INSTALL_PREFIX": prefix,
        "STANDIN_HEADERS": package / "include",
        "STANDIN_CPU_FLAGS": f"-mthumb;{cpu_options}",
    }
    options = [*(f"-D{name}={value}" for name, value in variables.items()), *definitions]
    for command in (
        [cmake, "-S", SOURCES, "-B", build, *options],
        [cmake, "--build", build, "--target", "install", "--parallel", "2"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return prefix
