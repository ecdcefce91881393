"""A project of someone else for a Cortex-M, from an empty folder: it runs, and gets a verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.compilers import CORES, compiled, headers
from tests.library.conftest import CONSUMER, INCLUDE, STUB, sh
from tests.library.test_cmake import WAYS
from tests.support.examples import sampled

pytestmark = pytest.mark.sim

TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m3 -mthumb -Os -ffunction-sections")
"""

# newlib's semihosting gives the program its arguments and files.
PROJECT = """\
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
{way}
add_executable(consumer consumer.c vectors.c)
target_link_libraries(consumer PRIVATE etdump::tracer etdump::link)
target_link_options(consumer PRIVATE
  --specs=rdimon.specs -Wl,--gc-sections -T ${{CMAKE_SOURCE_DIR}}/memory.ld)
"""


@pytest.mark.parametrize("way", sampled(["find_package", "FetchContent"]))
def test_a_cortex_m_project_runs_and_gets_a_verdict(
    way: str, tmp_path: Path, etharness: Callable
) -> None:
    if way == "find_package":
        sh("cmake", "-S", STUB, "-B", "installing", cwd=tmp_path)
        sh("cmake", "--install", "installing", "--prefix", tmp_path / "usr", cwd=tmp_path)
    shutil.copytree(Path(__file__).with_name("microcontroller"), tmp_path, dirs_exist_ok=True)
    shutil.copy(CONSUMER, tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(way=WAYS[way]))
    (tmp_path / "arm.cmake").write_text(TOOLCHAIN)
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}"
    sh("cmake", "-B", "build", "-DCMAKE_TOOLCHAIN_FILE=arm.cmake", prefix, cwd=tmp_path)
    sh("cmake", "--build", "build", "--parallel", "2", cwd=tmp_path)
    machine = ("qemu-system-arm", "-M", "mps2-an385", "-nographic", "-kernel", "build/consumer")
    arguments = "enable=on,target=native,arg=consumer,arg=run.etlog"
    assert sh(*machine, "-semihosting-config", arguments, cwd=tmp_path).startswith("etdump ")
    checked = etharness("check", tmp_path / "run.etlog")
    assert checked.code == 0, checked.err
    assert "PASS" in checked.out


@pytest.mark.parametrize("variant", ["os", "oz"])
def test_a_program_built_by_clang_logs_what_one_built_by_gcc_does(
    variant: str, tmp_path: Path
) -> None:
    """Library and program are Clang's, start-up code and C library are those of GCC's toolchain."""
    core, project = "Cortex-M3", Path(__file__).with_name("microcontroller")
    logs = []
    for compiler in ("gcc", "clang"):
        folder = tmp_path / compiler
        objects = compiled(core, compiler, variant, folder)
        options = CORES[core].gcc
        command = ["arm-none-eabi-gcc", *options]
        if compiler == "clang":
            folders = headers("arm-none-eabi-gcc", *options)
            command = ["clang", *CORES[core].clang, *(f"-isystem{path}" for path in folders)]
        enums = ["-fshort-enums"] * (variant == "oz")
        sources = [CONSUMER, project / "vectors.c"]
        sh(*command, *enums, "-Os", "-std=c11", f"-I{INCLUDE}", "-c", *sources, cwd=folder)
        objects += [folder / "consumer.o", folder / "vectors.o"]
        link = ("--specs=rdimon.specs", "-Wl,--gc-sections", "-Wl,--no-warn-mismatch")
        linker = ("arm-none-eabi-gcc", *options, *link, f"-T{project / 'memory.ld'}")
        sh(*linker, *objects, "-o", "image.elf", cwd=folder)
        run = ("qemu-system-arm", "-M", "mps2-an385", "-nographic", "-kernel", "image.elf")
        arguments = "enable=on,target=native,arg=consumer,arg=run.etlog"
        assert sh(*run, "-semihosting-config", arguments, cwd=folder).startswith("etdump ")
        comment = sh("arm-none-eabi-readelf", "-p", ".comment", *objects[:1], cwd=folder)
        assert ("clang" in comment) == (compiler == "clang")
        logs.append((folder / "run.etlog").read_bytes())
    assert logs[0] == logs[1] != b""
