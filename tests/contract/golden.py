"""Files that an earlier version wrote, and what commands print of them.

``written_by_1e92c5bf.zip`` has run directories of every simulated board, a history, a plan, a
budget, a nightly run and a bundle, all written by commit 1e92c5bf in one folder, by
``golden/make.sh``. They are never written again. ``golden/*.txt`` has what commands of today print
of them; after a change that CHANGELOG.md lists,

    ETHARNESS_GOLDEN=write python -m pytest tests/contract/test_golden.py

writes them again, and the difference shows what users will see.
"""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
ARCHIVE = FOLDER / "written_by_1e92c5bf.zip"
WRITE = os.environ.get("ETHARNESS_GOLDEN") == "write"


def unpack(folder: Path) -> Path:
    """Unpack everything that the earlier version wrote."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def boards() -> list[str]:
    """Return the boards with a run directory."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        names = {name.split("/")[1] for name in archive.namelist() if name.startswith("runs/")}
    return sorted(names - {""})


def without_place(text: str, folder: Path) -> str:
    """Return the text without places, and without sizes of images, which any C code changes."""
    checkout = str(Path(__file__).resolve().parents[2])
    text = text.replace(str(folder), "FOLDER").replace(checkout, "CHECKOUT")
    text = text.replace(str(folder).replace("_", r"\_"), "FOLDER")  # in Markdown
    text = text.replace(os.path.relpath(checkout, folder), "CHECKOUT")
    text = re.sub(r'("resource": "image",\s+"needed": )\d+', r"\1SIZE", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def compare(name: str, text: str) -> None:
    """Compare a text with the stored one, or store it.

    Raises:
        AssertionError: They differ, or none is stored.
    """
    stored = FOLDER / f"{name}.txt"
    if WRITE:
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8"), f"{stored} differs; see {__file__}"
