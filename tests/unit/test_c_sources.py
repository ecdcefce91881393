"""The C sources: each names its licence, its file name is its own, and its names are ours."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

STUB = ROOT / "firmware_stub"
LICENCE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]

COMMENTS = dict.fromkeys((".c", ".h", ".cpp", ".hpp", ".def"), "// {}")
COMMENTS |= {".S": "// {}", ".ld": "/* {} */", ".cmake": "# {}"}
"""How a line of comment is written, by suffix."""

ONE_PER_PORT = {"port.cmake"}
"""What CMakeLists.txt includes by this name from the folder of the port."""

FOREIGN = {
    "ET_EVENT_TRACER_ENABLED",
    "et_copy_index",
    "et_pal_current_ticks",
    "et_pal_log_level_t",
    "et_timestamp_t",
    "et_view",
}
"""Names of ExecuTorch."""
FOREIGN_PREFIX = re.compile(r"(?:\b|(?<=-D))(?:et|ET|Et)_\w*")


def sources(root: Path) -> Iterator[Path]:
    """Files of ``root`` that are compiled, included, linked by or read by CMake."""
    for path in sorted(root.rglob("*")):
        if (path.suffix in COMMENTS or path.name == "CMakeLists.txt") and (
            "build" not in path.relative_to(root).parts
        ):
            yield path


def without_licence(paths: Iterable[Path]) -> list[Path]:
    """Files whose first line does not name the licence of the project."""
    found = []
    for path in paths:
        comment = COMMENTS.get(path.suffix, "# {}")
        line = comment.format(f"SPDX-License-Identifier: {LICENCE}")
        if path.read_text().partition("\n")[0] != line:
            found.append(path)
    return found


def shared_names(paths: Iterable[Path]) -> set[str]:
    """File names that occur twice, and ``internal.h``.

    Of sources and of headers the suffix does not count: build systems of vendors (Arduino, CMSIS
    packs) put all objects into one folder.
    """
    kinds = {".c": "source", ".cpp": "source", ".S": "source", ".h": "header", ".hpp": "header"}
    names = [path for path in paths if path.name not in ONE_PER_PORT]
    counts = Counter((kinds.get(path.suffix, path.suffix), path.stem) for path in names)
    twice = {stem for (_, stem), count in counts.items() if count > 1}
    return twice | {path.stem for path in names if path.name == "internal.h"}


def foreign_names(text: str) -> set[str]:
    """Identifiers with a prefix of ExecuTorch's that ExecuTorch does not define."""
    return set(FOREIGN_PREFIX.findall(text)) - FOREIGN


def test_every_file_names_the_licence_first() -> None:
    folders = (STUB, ROOT / "benchmarks", ROOT / "tests")
    files = [path for folder in folders for path in sources(folder)]
    assert len(files) > 200
    assert without_licence(files) == []


def test_no_two_files_share_a_name() -> None:
    assert shared_names(sources(STUB)) == set()


def test_no_name_of_ours_begins_like_executorchs() -> None:
    for path in [*sources(STUB), STUB / "CMakePresets.json"]:
        assert foreign_names(path.read_text()) == set(), path


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("a.c", "/* SPDX-License-Identifier: Apache-2.0 */"),
        ("a.h", "// SPDX-License-Identifier: MIT"),
        ("a.ld", "// SPDX-License-Identifier: Apache-2.0"),
        ("CMakeLists.txt", ""),
    ],
)
def test_a_missing_licence_is_found(tmp_path: Path, name: str, first: str) -> None:
    path = tmp_path / name
    path.write_text(f"{first}\n")
    assert without_licence(sources(tmp_path)) == [path]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("src/a/values.c", "src/b/values.c", {"values"}),
        ("src/a/values.c", "executorch/values.cpp", {"values"}),
        ("src/a/values.h", "include/values.hpp", {"values"}),
        ("ports/a/memory.ld", "ports/b/memory.ld", {"memory"}),
        ("src/a/internal.h", "src/a/names.c", {"internal"}),
        ("src/a/values.c", "src/a/values.h", set()),
        ("ports/a/port.cmake", "ports/b/port.cmake", set()),
    ],
)
def test_a_shared_name_is_found(one: str, other: str, shared: set[str]) -> None:
    assert shared_names([Path(one), Path(other)]) == shared


def test_a_foreign_prefix_is_found() -> None:
    text = (
        "etd_x set_y ETD_Z int et_log; -DET_PORT=1 ET_EVENT_TRACER_ENABLED executorch_prim::et_view"
    )
    assert foreign_names(text) == {"et_log", "ET_PORT"}
