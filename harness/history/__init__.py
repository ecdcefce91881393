"""The history of results, in one SQLite file or a PostgreSQL server (docs/history.md).

Importing this loads no database library; opening a store does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.extras import require

if TYPE_CHECKING:
    from harness.history.store import Store


def open_store(url: str, *, create: bool = True, deadline_s: float = 30.0) -> Store:
    """Open a store, and make it or bring it to this version where that is needed.

    Args:
        url: Path of an SQLite file, ``sqlite:///PATH``, or ``postgresql://USER@HOST/DATABASE``.
        create: Make the file if there is none; a server's database must be there.
        deadline_s: How long to wait for other writers, and for a server to answer.

    Returns:
        The store; close it, or use it in a ``with`` statement.

    Raises:
        UsageError: The URL is wrong, there is no such store, it is of a newer version, it may not
            be written, or a library is not installed.
        InfrastructureError: The server does not answer, the disk is full, or others keep the store
            to themselves.
    """
    require("history", "the history of results", "sqlalchemy")
    from harness.history.store import Store

    return Store.open(url, create=create, deadline_s=deadline_s)
