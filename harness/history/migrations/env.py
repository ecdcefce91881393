"""Alembic's way to the database: the connection, and the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from harness.history.migrating import VERSION_TABLE
from harness.history.tables import METADATA

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=False,  # the caller's transaction is the one
)
context.run_migrations()
