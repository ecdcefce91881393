"""The history of results, in an SQLite file or on a PostgreSQL server (docs/history.md).

Importing this package loads no database library; opening a store does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.config.project import find_project
from harness.plugins import require
from harness.records.store_address import StoreAddress, address_of

if TYPE_CHECKING:
    from harness.history.store import Store

VARIABLE: Final = "ETHARNESS_HISTORY"
FOLDER: Final = ".etharness"
_FILE: Final = "history.sqlite"


def open_store(url: str | StoreAddress, *, create: bool = True, deadline_s: float = 30.0) -> Store:
    """Open a store; create its tables or migrate them to this version if necessary.

    Args:
        url: Path of an SQLite file, ``sqlite:///PATH``, or ``postgresql://USER@HOST/DATABASE``.
        create: Create a missing SQLite file; the database of a server must exist.
        deadline_s: How long to wait for other writers, and for a server to answer, seconds.

    Returns:
        The store; close it, or use it in a ``with`` statement.

    Raises:
        UsageError: The URL is invalid; the store does not exist, is of a newer version, or is not
            readable; or a library is not installed.
        InfrastructureError: The server does not answer, the disk is full, or another process keeps
            the store locked.
    """
    require("history", "the history of results", "sqlalchemy")
    from harness.history.store import Store

    return Store(address_of(url), create=create, deadline_s=deadline_s)


def configured_history(within: Path | None = None) -> StoreAddress | None:
    """Return the history that ``$ETHARNESS_HISTORY`` or the project sets; None if neither does.

    Raises:
        UsageError: The project's table ``[tool.etharness]`` is invalid.
    """
    if url := os.environ.get(VARIABLE, "").strip():
        return StoreAddress(url).within(Path.cwd())
    return find_project(within).history


def default_history(within: Path | None = None) -> StoreAddress:
    """Return the URL or path of the history that commands use by default.

    It is ``$ETHARNESS_HISTORY`` if set, else ``history`` of ``[tool.etharness]`` in the project's
    ``pyproject.toml``. Otherwise it is ``.etharness/history.sqlite`` in the nearest folder, from
    ``within`` (default: the current folder) upwards, that has an ``.etharness`` or is a git
    checkout; or in ``within`` itself if there is no such folder.
    """
    if configured := configured_history(within):
        return configured
    here = (within or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FOLDER).is_dir() or (folder / ".git").exists():
            return StoreAddress(str(folder / FOLDER / _FILE))
    return StoreAddress(str(here / FOLDER / _FILE))
