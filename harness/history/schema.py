"""Creates the tables of a store, and migrates those of an older version.

Written with SQLAlchemy alone: a migration tool would keep a second copy of every table definition
for the only version there is so far, and the version of a store is one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select, text
from sqlalchemy.exc import DBAPIError

from harness.errors import UsageError
from harness.history.database import Database
from harness.history.db_errors import is_permission_error
from harness.history.tables import METADATA

VERSION: Final = "v0001"
"""The version of ``harness.history.tables``."""

MIGRATIONS: Final[dict[str, tuple[str, Callable[[Connection], None]]]] = {}
"""By the version that it starts from: the version that a migration leads to, and its function."""

VERSION_TABLE: Final = Table(
    "etharness_history",
    MetaData(),
    Column("version_num", String(32), primary_key=True),
)

_LOCK: Final = 0x45544854
"""Key of the PostgreSQL advisory lock that one migrating client holds at a time."""


def version_of(connection: Connection) -> str | None:
    """Return the version of a store; None for an empty database.

    Raises:
        UsageError: The database has tables of another application under the names of ours.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE.name in tables:
        version: str | None = connection.scalar(select(VERSION_TABLE.c.version_num))
        return version
    if foreign := tables & set(METADATA.tables):
        raise UsageError(
            f"the database has tables with our names that are not ours: "
            f"{', '.join(sorted(foreign))}",
            hint="use another database or file for the history",
        )
    return None


def ensure_schema(database: Database) -> None:
    """Create the tables or migrate them; do nothing if they are of this version.

    Raises:
        UsageError: The tables are of a newer version, or cannot be changed for lack of permission.
    """
    found = database.read(version_of)
    if found == VERSION:
        return
    state = f"is a history of version {found}" if found else "is empty"
    outdated = UsageError(
        f"{database.location} {state}, this package needs version {VERSION}, and the database is "
        "read-only",
        hint="run `etharness history info` as a user who may write to it",
    )
    if database.read_only:
        raise outdated
    try:
        database.write(lambda connection: _migrate(connection, database))
    except UsageError as error:
        if isinstance(error.__cause__, DBAPIError) and is_permission_error(error.__cause__):
            raise outdated from error
        raise


def _migrate(connection: Connection, database: Database) -> None:
    # Looked at and changed in one transaction that excludes other writers: of several processes
    # that open a new store at the same time, one creates the tables.
    if not database.is_sqlite:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    version = version_of(connection)
    if version is None:
        VERSION_TABLE.create(connection, checkfirst=True)
        METADATA.create_all(connection)
        connection.execute(VERSION_TABLE.insert().values(version_num=VERSION))
        return
    while version != VERSION:
        if version not in MIGRATIONS:
            raise UsageError(
                f"{database.location} is a history of version {version}, which is newer than "
                f"{VERSION}",
                hint="pip install --upgrade etdump-harness",
            )
        version, migrate = MIGRATIONS[version]
        migrate(connection)
        connection.execute(VERSION_TABLE.update().values(version_num=version))
