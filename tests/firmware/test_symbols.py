"""Every symbol that the device library exports begins with etd_."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import ROOT


def foreign_symbols(objects: Iterable[Path]) -> dict[str, list[str]]:
    """By object the symbols that it defines for others and that do not begin with ``etd_``."""
    found = {}
    for path in objects:
        command = ["nm", "--extern-only", "--defined-only", "--format=just-symbols", path]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if foreign := [name for name in listed.split() if not name.startswith("etd_")]:
            found[path.name] = foreign
    return found


@pytest.mark.long
def test_every_external_symbol_of_the_library_has_our_prefix(native_build: Path) -> None:
    library = ROOT / "firmware_stub"
    folder = native_build / "CMakeFiles/rooms.dir"
    # Objects of sources that were renamed since stay in the folder.
    objects = [
        path
        for path in folder.rglob("*.o")
        if (library / path.relative_to(folder).with_suffix("")).is_file()
    ]
    assert len(objects) > 100
    assert foreign_symbols(objects) == {}


def test_another_symbol_is_found(tmp_path: Path) -> None:
    source = tmp_path / "values.c"
    source.write_text(
        "static int hidden;\nint *etd_at(void) { return &hidden; }\nint et_more = 1;\n"
    )
    compiled = tmp_path / "values.o"
    subprocess.run(["cc", "-c", source, "-o", compiled], check=True)
    assert foreign_symbols([compiled]) == {"values.o": ["et_more"]}
