"""Projects of other people, from empty folders: the three ways of CMake, and make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.library.conftest import CONSUMER, STUB, sh
from tests.support.examples import sampled

pytestmark = pytest.mark.sim

# A parent whose targets and options have the names that a careless library would use itself.
PROJECT = """\
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
foreach(name tracer link runtime server port rooms firmware library)
  add_library(${{name}} STATIC mine.c)
endforeach()
{way}
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE etdump::tracer etdump::link)
add_executable(loader EXCLUDE_FROM_ALL loader.c)
target_link_libraries(loader PRIVATE etdump::server etdump::runtime)
"""

WAYS = {
    "add_subdirectory": f'add_subdirectory("{STUB}" etdump)',
    "FetchContent": f"""\
include(FetchContent)
FetchContent_Declare(etdump SOURCE_DIR "{STUB}")
FetchContent_MakeAvailable(etdump)""",
    "find_package": "find_package(etdump 0.1 CONFIG REQUIRED)",
}

LOADER = """\
#include "etd_runtime.h"
int main(void) {
    etd_program program;
    return etd_program_open(&program, 0, 0, 0) == ETD_LINK_STATUS_BAD_PROGRAM ? 0 : 1;
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    """Write a project that uses the library in one of the ways, and configure it."""

    def make(way: str) -> Path:
        if way == "find_package":
            sh("cmake", "-S", STUB, "-B", "installing", cwd=tmp_path)
            sh("cmake", "--install", "installing", "--prefix", tmp_path / "usr", cwd=tmp_path)
        (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(way=WAYS[way]))
        (tmp_path / "mine.c").write_text("int mine;\n")
        (tmp_path / "loader.c").write_text(LOADER)
        (tmp_path / "consumer.c").write_bytes(CONSUMER.read_bytes())
        prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}"
        sh("cmake", "-S", ".", "-B", "build", prefix, cwd=tmp_path)
        return tmp_path

    return make


@pytest.mark.parametrize("way", sampled(WAYS, "FetchContent"))
def test_a_cmake_project_builds_and_its_log_reads(
    way: str, project: Callable[[str], Path], etharness: Callable
) -> None:
    folder = project(way)
    sh("cmake", "--build", "build", "--parallel", "2", cwd=folder)
    sh(folder / "build/consumer", "run.etlog", cwd=folder)
    checked = etharness("check", folder / "run.etlog")
    assert checked.code == 0, checked.err
    assert "PASS" in checked.out
    # Nothing is built that nobody asked for: not the runtime, and no firmware.
    archives = {path.name for path in (folder / "build").rglob("libetdump*.a")}
    assert archives == {"libetdump_tracer.a", "libetdump_link.a"}


@pytest.mark.long
def test_the_runtime_links_too(project: Callable[[str], Path]) -> None:
    folder = project("FetchContent")
    sh("cmake", "--build", "build", "--parallel", "2", "--target", "loader", cwd=folder)
    sh(folder / "build/loader", cwd=folder)


def test_the_library_sets_no_option_of_the_parent(project: Callable[[str], Path]) -> None:
    folder = project("add_subdirectory")
    cached = [
        line.partition(":")[0]
        for line in (folder / "build/CMakeCache.txt").read_text().splitlines()
        if line and not line.startswith(("#", "//"))
    ]
    known = ("CMAKE_", "ETD_", "etdump_stub_", "consumer_", "FETCHCONTENT_", "_CMAKE", "LANGUAGES")
    assert [name for name in cached if not name.startswith(known)] == []


MAKEFILE = """\
ETDUMP = {stub}
CFLAGS = -std=c11 -O2 -I$(ETDUMP)/include
SOURCES = consumer.c $(wildcard $(ETDUMP)/src/tracer/*.c $(ETDUMP)/src/link/*.c)

consumer: $(SOURCES:%.c=%.o)
	$(CC) -o $@ $(notdir $^)

%.o: %.c
	$(CC) $(CFLAGS) -c $< -o $(notdir $@)
"""


def test_a_makefile_builds_and_its_log_reads(tmp_path: Path, etharness: Callable) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE.format(stub=STUB))
    (tmp_path / "consumer.c").write_bytes(CONSUMER.read_bytes())
    sh("make", "-j2", cwd=tmp_path)
    sh(tmp_path / "consumer", "run.etlog", cwd=tmp_path)
    decoded = etharness("decode", tmp_path / "run.etlog")
    assert decoded.code == 0, decoded.err
    assert {"conv", "relu"} <= set(decoded.out.split())
    assert etharness("check", tmp_path / "run.etlog").code == 0
