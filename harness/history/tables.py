"""The tables of a store, for SQLite and PostgreSQL alike, and their migration.

``name`` and ``metric`` hold each text and each metric once; other tables refer to them by number.
Both are looked up by a digest, because a name may be longer than an index key. Texts are `escaped`,
because they may hold characters that no database stores. The columns of ``result`` have the meaning
of the fields of ``StoredResult`` that they are read into.

Migrations use SQLAlchemy alone: a migration tool would keep a second copy of every table
definition, and the version of a store is one row.

Rows of ``name`` and ``metric`` are never removed, so numbers can be cached. Writers insert rows in
the order of their digests, so that two writers of the same rows cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
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
    Row,
    SmallInteger,
    String,
    Table,
    Text,
    false,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from harness.analyze.statistics import EXECUTIONS
from harness.check.history.samples import Metric
from harness.errors import UsageError
from harness.formatting import escaped, unescaped
from harness.history.database import Database, is_permission_error
from harness.records.trace import Losses

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


PROVENANCE_NAMES: Final = {
    **{name: f"{name}_id" for name in ("board", "unit", "model", "model_sha256", "method")},
    "build_id": "build_id",
    "tool_version": "tool_id",
    **{name: f"{name}_id" for name in ("commit", "session")},
}
"""Columns of ``result`` that refer to ``name``, by the fields of a Provenance."""

LOSS_COLUMNS: Final = {name: f"lost_{name}" for name in Losses.__dataclass_fields__}
"""Columns of ``result`` by the fields of Losses."""

METRIC_NAMES: Final = {name: f"{name}_id" for name in ("name", "block", "delegate_str", "clock")}
"""Columns of ``metric`` that refer to ``name``, by the fields of a Metric."""

METRIC_FIELDS: Final = ("kind", "statistic", "unit", "chain", "instruction", "delegate_int")
"""Columns of ``metric`` with the values of the same fields of a Metric."""


def _name(column: str, *, nullable: bool = False) -> Column[Any]:
    return Column(column, Integer, ForeignKey("name.id"), nullable=nullable)


def _of_result() -> Column[Any]:
    return Column(
        "result_id",
        Integer,
        ForeignKey("result.id", ondelete="CASCADE"),
        primary_key=True,
    )


def _count(column: str) -> Column[Any]:
    return Column(column, BigInteger, nullable=False)


def _text(column: str) -> Column[Any]:
    return Column(column, Text, nullable=False)


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
    _text("kind"),
    _name("name_id"),
    *map(_text, ("statistic", "unit")),
    _name("block_id"),
    *map(_count, ("chain", "instruction", "delegate_int")),
    _name("delegate_str_id", nullable=True),
    _name("clock_id"),
)

RESULT: Final = Table(
    "result",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("own_id", _ORDERED, nullable=False, unique=True),
    _text("started_utc"),
    _count("started_us"),
    *map(_name, PROVENANCE_NAMES.values()),
    Column("duration_s", Double, nullable=False),
    Column("exit_code", SmallInteger, nullable=False),
    Column("passed", Boolean),
    _name("budget_id"),
    _name("failure_id"),
    _text("failure_message"),
    *map(_count, ("runs_requested", "runs_completed")),
    *map(_count, ("baud", "link_bytes", "link_corrupt", "link_retries")),
    Column("link_goodput", Double),
    *map(_count, LOSS_COLUMNS.values()),
    _count("indistinct"),
    Column("sound", Boolean, nullable=False),
    # Added in v0002. SQLite only adds columns that have a default.
    Column("complete", Boolean, nullable=False, server_default=false()),
    # JSON of the measurement settings; NULL for results whose settings were not recorded.
    _name("settings_id", nullable=True),
    # Added in v0005. NULL for results of earlier versions.
    Column("emulated_time", Boolean),
    # Likewise: JSON of the nanoseconds per tick of each clock.
    Column("ticks", Text),
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
    *map(_name, ("clock_id", "reference_id", "epochs_id", "unknown_id")),
    *map(_count, ("readings", "events", "placed", "bounded")),
    Column("half_width_ns", BigInteger),
    *map(_count, ("silent_wraps", "unsettled")),
    Column("rate_low_ppm", Double),
    Column("rate_high_ppm", Double),
    sqlite_with_rowid=False,
)

BASELINE: Final = Table(
    "baseline",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name_id", Integer, ForeignKey("name.id"), nullable=False, unique=True),
    _text("set_utc"),
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
    *map(_name, ("board_id", "unit_id", "model_id", "method_id")),
    _name("settings_id", nullable=True),
    Column("metric_id", Integer, ForeignKey("metric.id"), nullable=False),
    *map(_text, ("kind", "since_utc", "at_utc", "reason", "who", "made_utc")),
    Column("until", Text),
    Index("decision_by_board", "board_id", "model_id", "method_id"),
)
"""The decisions of people about changes, in the order in which they were made.

Rows are only ever added: the newest one of a series counts.
"""


NIGHT: Final = Table(
    "night",
    METADATA,
    Column("label", _ORDERED, primary_key=True),
    _count("started_us"),
    _text("verdict"),
)
"""The verdicts of nightly runs, as JSON, by the label of their results."""


PROGRAM: Final = Table(
    "program",
    METADATA,
    Column("model_sha256_id", Integer, ForeignKey("name.id"), primary_key=True),
    Column("method_id", Integer, ForeignKey("name.id"), primary_key=True),
    _text("outline"),
    sqlite_with_rowid=False,
)
"""What model files say of the instructions of a method, as JSON: once for all of its results."""


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


def _add_emulated_time(connection: Connection) -> None:
    """Migrate v0004 to v0005: whether clocks count the steps of an emulator, and their ticks."""
    connection.execute(text("ALTER TABLE result ADD COLUMN emulated_time BOOLEAN"))
    connection.execute(text("ALTER TABLE result ADD COLUMN ticks TEXT"))


def _add_nights(connection: Connection) -> None:
    """Migrate v0005 to v0006: the verdicts of nightly runs."""
    NIGHT.create(connection)


def _add_programs(connection: Connection) -> None:
    """Migrate v0006 to v0007: the shapes of the operators of each program."""
    PROGRAM.create(connection)


def _allow_accuracies(connection: Connection) -> None:
    """Migrate v0007 to v0008: metrics of accuracy, likewise. No table changes."""


VERSION: Final = "v0008"
"""The version of ``harness.history.tables``."""

MIGRATIONS: Final[dict[str, tuple[str, Callable[[Connection], None]]]] = {
    "v0001": ("v0002", _add_settings_and_decisions),
    "v0002": ("v0003", _allow_counters),
    "v0003": ("v0004", _allow_energies),
    "v0004": ("v0005", _add_emulated_time),
    "v0005": ("v0006", _add_nights),
    "v0006": ("v0007", _add_programs),
    "v0007": ("v0008", _allow_accuracies),
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


_T = TypeVar("_T")

BATCH: Final = 500
"""Values in one IN list of a query."""


@dataclass(slots=True)
class Interned:
    """A cache of the numbers of texts and metrics.

    Attributes:
        names: Numbers by text.
        metrics: Numbers by metric; metrics of operators have no statistic here.
    """

    names: dict[str, int] = field(default_factory=dict)
    metrics: dict[Metric, int] = field(default_factory=dict)

    def write(self, database: Database, action: Callable[[Connection, Interned], _T]) -> _T:
        """Return the result of ``action`` in one write transaction, with numbers to add to.

        New numbers are valid in the transaction, and are cached once it is committed.
        """

        def act(connection: Connection) -> tuple[_T, Interned]:
            numbers = Interned({**self.names}, {**self.metrics})
            return action(connection, numbers), numbers

        done, numbers = database.write(act)
        self.names, self.metrics = numbers.names, numbers.metrics
        return done

    def intern(
        self, connection: Connection, texts: Iterable[str], metrics: Collection[Metric] = ()
    ) -> None:
        """Number texts and metrics; insert the new ones."""
        wanted = {*texts, *(text for metric in metrics for text in _texts(metric))}
        _number(connection, NAME, self.names, wanted, name_digest, _name_row)
        row = partial(_metric_row, names=self.names)
        _number(connection, METRIC, self.metrics, metrics, metric_digest, row)


def name_digest(text: str) -> bytes:
    """Return the key of a text in ``name``."""
    return blake2b(escaped(text).encode(), digest_size=16).digest()


def metric_digest(metric: Metric) -> bytes:
    """Return the key of a metric in ``metric``."""
    fields = [
        escaped(value) if isinstance(value, str) else value
        for value in msgspec.structs.astuple(metric)
    ]
    return blake2b(msgspec.json.encode(fields), digest_size=16).digest()


def known_names(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return texts by number."""
    return {
        row.id: unescaped(row.text)
        for some in batches(numbers)
        for row in connection.execute(select(NAME.c.id, NAME.c.text).where(NAME.c.id.in_(some)))
    }


def known_metrics(connection: Connection, numbers: Iterable[int]) -> dict[int, Metric]:
    """Return metrics by number."""
    rows = [
        row
        for some in batches(numbers)
        for row in connection.execute(select(METRIC).where(METRIC.c.id.in_(some)))
    ]
    names = names_in(connection, rows, METRIC_NAMES.values())
    return {
        row.id: Metric(
            **{name: names[getattr(row, column)] for name, column in METRIC_NAMES.items()},
            **{name: getattr(row, name) for name in METRIC_FIELDS},
        )
        for row in rows
    }


def names_in(
    connection: Connection, rows: Iterable[Row[Any]], columns: Collection[str]
) -> dict[int | None, Any]:
    """Return the texts that columns of some rows refer to, by number; None for NULL."""
    used = {getattr(row, column) for row in rows for column in columns}
    found = known_names(connection, used - {None})
    return {number: None if number is None else found[number] for number in used}


def insert_new(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that skips rows that violate a unique constraint."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


def _texts(metric: Metric) -> Iterator[str]:
    texts = (getattr(metric, name) for name in METRIC_NAMES)
    return (text for text in texts if text is not None)


def _name_row(text: str) -> dict[str, Any]:
    return {"text": escaped(text)}


def _metric_row(metric: Metric, names: Mapping[str, int]) -> dict[str, Any]:
    texts = {column: getattr(metric, name) for name, column in METRIC_NAMES.items()}
    return {
        **{column: None if text is None else names[text] for column, text in texts.items()},
        **{name: getattr(metric, name) for name in METRIC_FIELDS},
    }


def _number(
    connection: Connection,
    table: Table,
    known: dict[_T, int],
    wanted: Collection[_T],
    digest: Callable[[_T], bytes],
    row: Callable[[_T], dict[str, Any]],
) -> None:
    """Add the numbers of ``wanted`` in ``table`` to ``known``; insert the missing rows."""
    missing = {digest(item): item for item in wanted if item not in known}
    known |= _look_up(connection, table, missing)
    new = {key: item for key, item in sorted(missing.items()) if item not in known}
    if new:
        rows = [{"digest": key} | row(item) for key, item in new.items()]
        connection.execute(insert_new(connection, table), rows)
        known |= _look_up(connection, table, new)


def _look_up(connection: Connection, table: Table, items: Mapping[bytes, _T]) -> dict[_T, int]:
    return {
        items[bytes(row.digest)]: row.id
        for some in batches(items)
        for row in connection.execute(
            select(table.c.id, table.c.digest).where(table.c.digest.in_(some))
        )
    }


def batches(items: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield items in groups that fit into one query."""
    rest = [*items]
    return (rest[start : start + BATCH] for start in range(0, len(rest), BATCH))
