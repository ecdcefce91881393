"""Where the history is when nobody says it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from harness.config.project import find_project
from harness.files import absolute

VARIABLE: Final = "ETHARNESS_HISTORY"
FOLDER: Final = ".etharness"
_FILE: Final = "history.sqlite"


def configured_history(within: Path | None = None) -> str | None:
    """Return the history that ``ETHARNESS_HISTORY`` or the project sets; None if neither does.

    Raises:
        UsageError: The project's table ``[tool.etharness]`` is wrong.
    """
    if url := os.environ.get(VARIABLE, "").strip():
        return url if "://" in url else str(absolute(url))
    return find_project(within).history


def default_history(within: Path | None = None) -> str:
    """Return the URL or path of the history.

    That is what ``ETHARNESS_HISTORY`` says, or else ``history`` of ``[tool.etharness]`` in
    ``pyproject.toml``, or else ``.etharness/history.sqlite`` in the nearest
    folder, from ``within`` upwards, that has an ``.etharness`` or is a git checkout; or in
    ``within``, the current folder by default, when none is.
    """
    if configured := configured_history(within):
        return configured
    here = (within or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FOLDER).is_dir() or (folder / ".git").exists():
            return str(folder / FOLDER / _FILE)
    return str(here / FOLDER / _FILE)
