"""Parts of the device library and their files, from ``library.list``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

STUB: Final = Path(__file__).resolve().parents[1]

NAME: Final = "etdump"
SUMMARY: Final = "Event tracer for ExecuTorch models on microcontrollers, and a link to the host"
DESCRIPTION: Final = (
    "Logs operators, delegates, allocations and values into the caller's buffer, without a heap, "
    "and sends them to a host in checked frames. The host tool etharness shows and compares them."
)
LICENSE: Final = "Apache-2.0"
URL: Final = "https://pypi.org/project/etdump-harness/"
MAINTAINER: Final = "etdump-harness developers"


@cache
def parts() -> dict[str, list[Path]]:
    """Return the C sources of each part, relative to ``firmware_stub``."""
    found: dict[str, list[Path]] = {}
    taken: set[Path] = set()
    for line in (STUB / "library.list").read_text().splitlines():
        if line.startswith("#"):
            continue
        part, _, name = line.partition(" ")
        path = STUB / name
        files = {path} if path.suffix == ".c" else set(path.glob("*.c"))
        found.setdefault(part, []).extend(sorted(file.relative_to(STUB) for file in files - taken))
        taken |= files
    return found


def sources(*names: str) -> list[Path]:
    """Return the C sources of these parts."""
    return [path for name in names for path in parts()[name]]


def headers(*names: str) -> list[Path]:
    """Return the public headers that these parts need, relative to ``firmware_stub``."""
    return [path for path in _included(*names) if path.parts[0] == "include"]


def private_files(*names: str) -> list[Path]:
    """Return the files beside the sources of these parts that they include."""
    return [path for path in _included(*names) if path.parts[0] != "include"]


def _included(*names: str) -> list[Path]:
    """What the sources of these parts include, directly or not."""
    found: set[Path] = set()
    files = sources(*names)
    while files:
        file = files.pop()
        for name in re.findall(r'"([\w./]+\.(?:h|def))"', (STUB / file).read_text()):
            beside = (STUB / file.parent / name).resolve()
            path = beside if beside.is_file() else STUB / "include" / name
            relative = path.relative_to(STUB)
            if path.is_file() and relative not in found:
                found.add(relative)
                files.append(relative)
    return sorted(found)


@cache
def version() -> str:
    """Return the version of the library, as its header has it."""
    text = (STUB / "include/etd_version.h").read_text()
    found = re.search(r'#define ETD_VERSION "(.*)"', text)
    assert found is not None, "etd_version.h has no ETD_VERSION"
    return found[1]
