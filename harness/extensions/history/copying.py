"""Copies a history to a new one: every row of every table, in one transaction.

Both have tables of this version, and rows keep their numbers, so SQLite and PostgreSQL are copied
to each other alike. A copy that fails or is killed leaves the target empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Table, func, insert, select, text

from harness.check.history.samples import CopyOutcome
from harness.errors import UsageError
from harness.history.store import Store
from harness.history.tables import BASELINE, DECISION, METADATA, NIGHT, RESULT

_BATCH: Final = 5_000
"""Rows in memory at a time."""


def copy_history(
    source: Store, target: Store, progress: Callable[[str, int, int], None] = lambda *_: None
) -> CopyOutcome:
    """Copy results, named baselines, decisions and verdicts of nightly runs to an empty store.

    Args:
        source: The store to copy, as it is when the copy begins.
        target: The store to copy to.
        progress: Called with a stage, the number of rows done, and their total number.

    Raises:
        UsageError: The target has results, is not writable, or is the source.
        InfrastructureError: A store is locked, full or unreachable.
    """
    if source.database.same_as(target.database):
        raise UsageError(
            f"{source.location} and {target.location} are the same history",
            hint="copy to another file or database",
        )

    def copy(there: Connection) -> CopyOutcome:
        with source.database.reading() as here:
            _check_empty(there, target.location)
            rows = {table: _count(here, table) for table in METADATA.sorted_tables}
            done, total = 0, sum(rows.values())
            for table in rows:
                found = here.execution_options(yield_per=_BATCH).execute(select(table))
                for some in found.mappings().partitions():
                    progress("copying", done, total)
                    there.execute(insert(table), [{**row} for row in some])
                    done += len(some)
                if "id" in table.c and there.dialect.name == "postgresql":
                    _continue_numbers(there, table.name)
            progress("copying", total, total)
        return CopyOutcome(
            results=rows[RESULT],
            baselines=rows[BASELINE],
            decisions=rows[DECISION],
            nights=rows[NIGHT],
        )

    return target.database.write(copy)


def _count(connection: Connection, table: Table) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


def _check_empty(connection: Connection, location: str) -> None:
    """Keep other writers out until the end of the transaction, and check that there is nothing."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        names = ", ".join(METADATA.tables)
        connection.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))
    for table in METADATA.sorted_tables:
        if connection.scalar(select(1).select_from(table).limit(1)):
            raise UsageError(
                f"{location} is not empty",
                hint="copy to a new file, or to an empty database or schema; `etharness history "
                "add DIRECTORY` adds results to a history",
            )


def _continue_numbers(connection: Connection, table: str) -> None:
    """Let PostgreSQL number further rows from the largest number on."""
    connection.execute(
        text(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} "
            "HAVING max(id) IS NOT NULL"
        )
    )
