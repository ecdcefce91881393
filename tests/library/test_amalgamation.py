"""The tracer as one header and one source: each standard reads it, and it logs the same bytes."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_stub.packages.__main__ import write
from firmware_stub.packages.library import sources
from tests.library.conftest import DIALECTS, WARNINGS, Dialect, sh
from tests.support.device_file import device_file
from tests.support.tracer import CTracer, Pair
from tests.support.tracer_calls import CALL
from tests.support.tracer_model import Model

C_DIALECTS = [dialect for dialect in DIALECTS if "++" not in dialect.standard]
PROGRAM = """\
#include "etdump_tracer.h"
static uint32_t now(void *context) { return *(uint32_t *)context; }
int main(void) {
    static uint8_t log[256];
    static etd_tracer tracer;
    static uint32_t time = 7;
    etd_tracer_init(&tracer, log, sizeof log, now, &time);
    etd_end_profiling(&tracer, etd_start_profiling(&tracer, ETD_VERSION, 0, 1));
    return etd_log_size(&tracer) == 64 + 16 + sizeof ETD_VERSION ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two files, and the source compiled by a C compiler."""
    folder = tmp_path_factory.mktemp("amalgamation")
    header, source = write("amalgamation", folder / "vendored")
    assert (header.name, source.name) == ("etdump_tracer.h", "etdump_tracer.c")
    sh("gcc", "-std=c11", "-c", source, "-o", "etdump_tracer.o", cwd=folder)
    return folder


@pytest.mark.parametrize("dialect", C_DIALECTS, ids=str)
def test_the_source_compiles(dialect: Dialect, folder: Path, tmp_path: Path) -> None:
    source = folder / "vendored/etdump_tracer.c"
    sh(*dialect.command, "-Wconversion", "-Os", "-c", source, cwd=tmp_path)


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_a_program_of_each_standard_links(dialect: Dialect, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "program.txt").write_text(PROGRAM)
    include = f"-I{folder / 'vendored'}"
    sh(*dialect.command, include, "-c", "program.txt", "-o", "program.o", cwd=tmp_path)
    sh(dialect.compiler, "program.o", folder / "etdump_tracer.o", "-o", "program", cwd=tmp_path)
    sh(tmp_path / "program", cwd=tmp_path)


def test_it_compiles_for_a_small_core_without_a_library(folder: Path, tmp_path: Path) -> None:
    target = ("-mcpu=cortex-m0", "-mthumb", "-Os", "-std=c11", *WARNINGS)
    source = folder / "vendored/etdump_tracer.c"
    sh("arm-none-eabi-gcc", *target, "-c", source, "-o", "tracer.o", cwd=tmp_path)
    undefined = sh("arm-none-eabi-nm", "-u", "tracer.o", cwd=tmp_path).split()
    names = {name for name in undefined if name != "U"}
    assert names <= {"memcpy", "memset", "memcmp", "memmove", "strlen", "strncmp"} | {
        name for name in names if name.startswith("__gnu_thumb1_case") or name == "__aeabi_uidiv"
    }


def test_it_is_the_whole_tracer(folder: Path) -> None:
    text = (folder / "vendored/etdump_tracer.c").read_text()
    for path in sources("tracer"):
        assert f"/* {path.as_posix()} */" in text


@pytest.fixture(scope="module")
def amalgamated(folder: Path) -> ct.CDLL:
    source = folder / "vendored/etdump_tracer.c"
    sh("gcc", "-std=c11", "-O1", "-fPIC", "-shared", source, "-o", "libtracer.so", cwd=folder)
    return ct.CDLL(str(folder / "libtracer.so"))


@given(size=st.integers(0, 2000), calls=st.lists(CALL, max_size=40))
def test_its_log_is_the_librarys_byte_for_byte(
    etstub: ct.CDLL, amalgamated: ct.CDLL, size: int, calls: list[tuple]
) -> None:
    logs = []
    for library in (etstub, amalgamated):
        pair = Pair(CTracer(library, size, debug=64), Model(size, 64))
        for call in calls:
            pair.make(call)
        logs.append((pair.tracer.image(), pair.tracer.debug_bytes(), device_file(pair.tracer)))
    assert logs[0] == logs[1]
