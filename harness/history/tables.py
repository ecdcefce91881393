"""The tables of a store, for SQLite and PostgreSQL alike, and their migration.

``name`` and ``metric`` hold each text and each metric once; other tables refer to them by number.
Both are looked up by a digest, because a name may be longer than an index key. Texts are escaped
(``harness.export.values``), because they may hold characters that no database stores. The columns
of ``result`` have the meaning of the fields of ``StoredResult`` that they are read into.

Migrations use SQLAlchemy alone: a migration tool would keep a second copy of every table
definition, and the version of a store is one row.
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
    false,
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
    # Added in v0002. SQLite only adds columns that have a default.
    Column("complete", Boolean, nullable=False, server_default=false()),
    # JSON of the measurement settings; NULL for results whose settings were not recorded.
    _name("settings_id", nullable=True),
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

DECISION: Final = Table(
    "decision",
    METADATA,
    Column("id", Integer, primary_key=True),
    _name("board_id"),
    _name("unit_id"),
    _name("model_id"),
    _name("method_id"),
    _name("settings_id", nullable=True),
    Column("metric_id", Integer, ForeignKey("metric.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("since_utc", Text, nullable=False),
    Column("at_utc", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("made_utc", Text, nullable=False),
    Column("until", Text),
    Index("decision_by_board", "board_id", "model_id", "method_id"),
)
"""The decisions of people about changes, in the order in which they were made.

Rows are only ever added: the newest one of a series counts.
"""


def _add_settings_and_decisions(connection: Connection) -> None:
    """Migrate v0001 to v0002: settings, decisions, and which results are complete."""
    connection.execute(
        text("ALTER TABLE result ADD COLUMN complete BOOLEAN DEFAULT FALSE NOT NULL")
    )
    connection.execute(
        text("ALTER TABLE result ADD COLUMN settings_id INTEGER REFERENCES name (id)")
    )
    connection.execute(
        text(
            """
            UPDATE result SET complete = TRUE
            WHERE failure_id IN (SELECT id FROM name WHERE text = '')
              AND lost_events = 0 AND lost_blocks = 0 AND lost_chunks = 0
              AND lost_records = 0 AND lost_damaged = 0
              AND runs_completed >= 1 AND runs_completed >= runs_requested
              AND (EXISTS (SELECT 1 FROM operator_time WHERE result_id = result.id)
                   OR EXISTS (SELECT 1 FROM number WHERE result_id = result.id))
              AND NOT EXISTS (
                SELECT 1 FROM result_code JOIN name ON name.id = result_code.code_id
                WHERE result_code.result_id = result.id AND result_code.failed > 0
                  AND name.text LIKE 'I%')
            """
        )
    )
    DECISION.create(connection)


def _allow_counters(connection: Connection) -> None:
    """Migrate v0002 to v0003: metrics of hardware counters, which earlier versions cannot read.

    No table changes.
    """


def _allow_energies(connection: Connection) -> None:
    """Migrate v0003 to v0004: metrics of energy, likewise. No table changes."""


VERSION: Final = "v0004"
"""The version of ``harness.history.tables``."""

MIGRATIONS: Final[dict[str, tuple[str, Callable[[Connection], None]]]] = {
    "v0001": ("v0002", _add_settings_and_decisions),
    "v0002": ("v0003", _allow_counters),
    "v0003": ("v0004", _allow_energies),
}
"""By the version that it starts from: the version that a migration leads to, and its function."""

VERSION_TABLE: Final = Table(
    "etharness_history",
    MetaData(),
    Column("version_num", String(32), primary_key=True),
)

_MOST_NAMED: Final = 5
"""Tables that a refusal names."""

_LOCK: Final = 0x45544854
"""Key of the PostgreSQL advisory lock that one migrating client holds at a time."""


def version_of(connection: Connection) -> str | None:
    """Return the version of a store; None for an empty database.

    Raises:
        UsageError: The database is another application's.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE.name in tables:
        version: str | None = connection.scalar(select(VERSION_TABLE.c.version_num))
        return version
    if tables:
        some = sorted(tables)[:_MOST_NAMED]
        raise UsageError(
            f"the database is not a history; it has {len(tables)} tables of another application: "
            f"{', '.join(some)}{', ...' if len(tables) > len(some) else ''}",
            hint="use another file, or a database or schema of its own, for the history",
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
