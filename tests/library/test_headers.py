"""Every public header compiles alone, and a program links, in each standard of C and C++."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import harness
from tests.conftest import ROOT
from tests.library.conftest import CONSUMER, DIALECTS, INCLUDE, WARNINGS, Dialect, sh, sources

HEADERS = sorted(path.name for path in INCLUDE.glob("*.h"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Tracer and link, compiled once, as a library that is brought along is."""
    folder = tmp_path_factory.mktemp("objects")
    files = [str(path) for path in sources("tracer", "link")]
    sh("gcc", "-std=c11", "-O1", *WARNINGS, f"-I{INCLUDE}", "-c", *files, cwd=folder)
    return sorted(folder.glob("*.o"))


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@pytest.mark.long
def test_every_header_compiles_alone(dialect: Dialect, tmp_path: Path) -> None:
    for name in HEADERS:
        (tmp_path / f"{name}.txt").write_text(f'#include "{name}"\nextern int etd_unused;\n')
    files = sorted(str(path) for path in tmp_path.glob("*.txt"))
    sh(*dialect.command, f"-I{INCLUDE}", "-fsyntax-only", *files, cwd=tmp_path)


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_a_program_links_and_runs(dialect: Dialect, objects: list[Path], tmp_path: Path) -> None:
    sh(*dialect.command, f"-I{INCLUDE}", "-c", str(CONSUMER), "-o", "consumer.o", cwd=tmp_path)
    sh(dialect.compiler, "consumer.o", *objects, "-o", "consumer", cwd=tmp_path)
    assert sh(tmp_path / "consumer", "log.etlog", cwd=tmp_path) == f"etdump {version()}\n"
    operators = harness.load(tmp_path / "log.etlog").operators(block="*")
    counts = [(operator.name, operator.count) for operator in operators]
    assert counts == [("conv", 3), ("relu", 3), ("Method::execute", 3)]


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_needs_c11_or_a_keyword_of_one_language(name: str) -> None:
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", (INCLUDE / name).read_text(), flags=re.DOTALL)
    assert re.findall(r"\b(?:_Noreturn|_Atomic|_Static_assert|_Alignas|stdatomic)\b", code) == []


@pytest.mark.parametrize("name", HEADERS)
def test_every_callback_has_a_context(name: str) -> None:
    """Kernels, delegates and the tracer have callbacks whose first argument is their own."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", (INCLUDE / name).read_text(), flags=re.DOTALL)
    callbacks = re.findall(r"\(\*(\w+)\)\(([^;]*?)\)", code)
    own = {"etd_kernel_fn": "const etd_call *call", "init": "const etd_delegate_source *source"}
    own |= {"put_counts": "etd_tracer *tracer", "start": "etd_tracer *tracer"}
    own |= {"execute": "void *handle", "destroy": "void *handle"}
    for callback, arguments in callbacks:
        first = arguments.split(",")[0].strip()
        assert first.removeprefix("const ") == "void *context" or first == own.get(callback)


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def test_the_version_is_the_projects() -> None:
    text = (INCLUDE / "etd_version.h").read_text()
    numbers = dict(re.findall(r"#define ETD_VERSION_(\w+) (\d+)", text))
    assert re.findall(r'#define ETD_VERSION "(.*)"', text) == [version()]
    parts = [int(numbers[name]) for name in ("MAJOR", "MINOR", "PATCH")]
    assert ".".join(map(str, parts)) == version()
    assert int(numbers["NUMBER"]) == parts[0] * 10000 + parts[1] * 100 + parts[2]
