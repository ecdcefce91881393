"""Bringing a store to the version of this package, whatever it was before.

A store is looked at and changed in one transaction, with all others kept out, so that of several
processes that open it at the same time one does the work. Alembic is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from harness.errors import UsageError
from harness.extras import require
from harness.history.database import Database
from harness.history.db_errors import is_forbidden
from harness.history.tables import METADATA

if TYPE_CHECKING:
    from alembic.config import Config

REVISION: Final = "v0001"
"""The newest version of the tables; the last of ``migrations/versions``."""

VERSION_TABLE: Final = "etharness_history"
_LOCK: Final = 0x45544854
"""Number of the lock that keeps PostgreSQL's other clients from migrating, too."""


def version_of(connection: Connection) -> str | None:
    """The version of a store, None for an empty database.

    Raises:
        UsageError: The database holds something else.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return None if found is None else str(found)
    if tables & set(METADATA.tables):
        names = ", ".join(sorted(tables & set(METADATA.tables)))
        raise UsageError(
            f"the database holds tables by the names of a history's that are none: {names}",
            hint="name another database or file",
        )
    return None


def bring_up_to_date(database: Database) -> None:
    """Make the tables, or migrate them, or do nothing when they are as they should be.

    Raises:
        UsageError: They are of a newer version, or may not be changed.
    """
    found = database.read(version_of)
    if found == REVISION:
        return
    behind = UsageError(
        f"{database.place} is {f'a history of version {found}' if found else 'empty'}, this "
        f"package's is {REVISION}, and it may not be written",
        hint="let somebody migrate it who may: `etharness history info`",
    )
    if database.read_only:
        raise behind
    try:
        migrate(database)
    except UsageError as error:
        if isinstance(error.__cause__, DBAPIError) and is_forbidden(error.__cause__):
            raise behind from error
        raise


def migrate(database: Database, revision: str = REVISION) -> None:
    """Bring the tables to ``revision``, forwards or backwards; ``base`` removes them.

    Raises:
        UsageError: They are of a newer version than this package knows.
    """
    command, script = require(
        "history", "making or migrating a history", "alembic.command", "alembic.script"
    )

    def change(connection: Connection) -> None:
        if not database.is_sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        found = version_of(connection)
        config = configuration(connection)
        known = [
            step.revision for step in script.ScriptDirectory.from_config(config).walk_revisions()
        ]
        if found is not None and found not in known:
            raise UsageError(
                f"{database.place} is a history of version {found}, which is newer than {REVISION}",
                hint="pip install --upgrade etdump-harness",
            )
        if found == revision:
            return
        older = found is not None and (
            revision == "base" or known.index(revision) > known.index(found)
        )
        (command.downgrade if older else command.upgrade)(config, revision)

    database.write(change)


def configuration(connection: Connection) -> Config:
    """What Alembic is told: where the migrations are, and the connection to do them on."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "harness.history:migrations")
    config.attributes["connection"] = connection
    return config
