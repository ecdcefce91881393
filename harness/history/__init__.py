"""The history of results, in an SQLite file or on a PostgreSQL server (docs/history.md).

Importing this package loads no database library; opening a store does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.plugins import require
from harness.records.store_address import StoreAddress, address_of

if TYPE_CHECKING:
    from harness.history.store import Store


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
