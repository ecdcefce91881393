"""The tables of a store, for SQLite and PostgreSQL alike, and their migration.

``name`` and ``metric`` hold each text and each metric once; other tables refer to them by number.
Both are looked up by a digest, because a name may be longer than an index key. Texts are escaped
(``harness.export.values``), because they may hold characters that no database stores. The columns
of ``result`` have the meaning of the fields of ``StoredResult`` that they are read into.

Migrations use SQLAlchemy alone: a migration tool would keep a second copy of every table definition
for the only version there is so far, and the version of a store is one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from harness.analyze.compare import EXECUTIONS
from harness.errors import UsageError
from harness.history.database import Database
from harness.history.db_errors import is_permission_error

METADATA: Final = MetaData(
    naming_convention={
        "ix": "%(table_name)s_by_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
    }
)

_ORDERED: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that sorts by its bytes, as SQLite does."""


def _name(column: str, *, nullable: bool = False) -> Column[Any]:
    return Column(column, Integer, ForeignKey("name.id"), nullable=nullable)


def _of_result(*, primary: bool = True) -> Column[Any]:
    return Column(
        "result_id",
        Integer,
        ForeignKey("result.id", ondelete="CASCADE"),
        primary_key=primary,
        nullable=False,
    )


def _count(column: str) -> Column[Any]:
    return Column(column, BigInteger, nullable=False)


NAME: Final = Table(
    "name",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("text", _ORDERED, nullable=False),
)

METRIC: Final = Table(
    "metric",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    _name("name_id"),
    Column("statistic", Text, nullable=False),
    Column("unit", Text, nullable=False),
    _name("block_id"),
    _count("chain"),
    _count("instruction"),
    _count("delegate_int"),
    _name("delegate_str_id", nullable=True),
    _name("clock_id"),
)

RESULT: Final = Table(
    "result",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("own_id", _ORDERED, nullable=False, unique=True),
    Column("started_utc", Text, nullable=False),
    _count("started_us"),
    _name("board_id"),
    _name("unit_id"),
    _name("model_id"),
    _name("model_sha256_id"),
    _name("method_id"),
    _name("build_id"),
    _name("tool_id"),
    _name("commit_id"),
    _name("session_id"),
    Column("duration_s", Double, nullable=False),
    Column("exit_code", SmallInteger, nullable=False),
    Column("passed", Boolean),
    _name("budget_id"),
    _name("failure_id"),
    Column("failure_message", Text, nullable=False),
    _count("runs_requested"),
    _count("runs_completed"),
    _count("baud"),
    _count("link_bytes"),
    _count("link_corrupt"),
    _count("link_retries"),
    Column("link_goodput", Double),
    _count("lost_events"),
    _count("lost_blocks"),
    _count("lost_values"),
    _count("lost_runs"),
    _count("lost_chunks"),
    _count("lost_records"),
    _count("lost_damaged"),
    _count("indistinct"),
    Column("sound", Boolean, nullable=False),
    Index("result_by_board", "board_id", "model_id", "method_id", "started_us", "own_id"),
    Index("result_by_time", "started_us", "own_id"),
)

BITS: Final = {executions: 1 << index for index, executions in enumerate(EXECUTIONS)}
"""Bits in ``operator_time.executions``: the executions that a row covers."""

TIME: Final = Table(
    "operator_time",
    METADATA,
    _of_result(),
    Column("metric_id", Integer, ForeignKey("metric.id"), primary_key=True),
    # Bits of the executions that the row covers; one row where their statistics are equal.
    Column("executions", SmallInteger, primary_key=True),
    _count("count"),
    *(
        Column(statistic, Double, nullable=False)
        for statistic in ("total", "avg", "p10", "p50", "p90", "min", "max", "std")
    ),
    Index("operator_time_by_metric", "metric_id", "result_id"),
    sqlite_with_rowid=False,
)

NUMBER: Final = Table(
    "number",
    METADATA,
    _of_result(),
    Column("metric_id", Integer, ForeignKey("metric.id"), primary_key=True),
    Column("value", Double, nullable=False),
    Index("number_by_metric", "metric_id", "result_id"),
    sqlite_with_rowid=False,
)

CODE: Final = Table(
    "result_code",
    METADATA,
    _of_result(),
    Column("code_id", Integer, ForeignKey("name.id"), primary_key=True),
    _count("failed"),
    _count("warned"),
    sqlite_with_rowid=False,
)

CLOCK: Final = Table(
    "result_clock",
    METADATA,
    _of_result(),
    Column("position", SmallInteger, primary_key=True),
    _name("clock_id"),
    _name("reference_id"),
    _name("epochs_id"),
    _name("unknown_id"),
    _count("readings"),
    _count("events"),
    _count("placed"),
    _count("bounded"),
    Column("half_width_ns", BigInteger),
    _count("silent_wraps"),
    _count("unsettled"),
    Column("rate_low_ppm", Double),
    Column("rate_high_ppm", Double),
    sqlite_with_rowid=False,
)

BASELINE: Final = Table(
    "baseline",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name_id", Integer, ForeignKey("name.id"), nullable=False, unique=True),
    Column("set_utc", Text, nullable=False),
)

MEMBER: Final = Table(
    "baseline_result",
    METADATA,
    Column("baseline_id", Integer, ForeignKey("baseline.id", ondelete="CASCADE"), primary_key=True),
    # Not cascading: results of a baseline are only removed on request.
    Column("result_id", Integer, ForeignKey("result.id"), primary_key=True),
    Index("baseline_result_by_result", "result_id"),
    sqlite_with_rowid=False,
)


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
