"""Write a package of the device library: ``python -m firmware_stub.packages zephyr DIRECTORY``.

``amalgamation`` writes ``etdump_tracer.h`` and ``etdump_tracer.c`` instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from firmware_stub.packages.amalgamation import amalgamation
from firmware_stub.packages.library import STUB
from firmware_stub.packages.manifests import PACKAGES


def write(kind: str, directory: Path) -> list[Path]:
    """Write a package into ``directory``, which must be new or empty; return its files."""
    if directory.exists() and any(directory.iterdir()):
        raise SystemExit(f"{directory} is not empty\ngive a new directory")
    files: dict[Path, Path | str]
    if kind == "amalgamation":
        files = {Path(name): text for name, text in amalgamation().items()}
    else:
        files = {**PACKAGES[kind].files(), Path("LICENSE"): Path("../LICENSE")}
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else (STUB / content).read_text())
    return [directory / name for name in files]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m firmware_stub.packages", description=__doc__)
    parser.add_argument("kind", choices=["amalgamation", *PACKAGES])
    parser.add_argument("directory", type=Path, help="new or empty directory")
    options = parser.parse_args()
    print(f"{options.directory}: {len(write(options.kind, options.directory))} files")


if __name__ == "__main__":
    main()
