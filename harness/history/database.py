"""The database behind a store: opening it, transactions with retries, one writer at a time.

SQLite: a write-ahead log, so that readers never wait; a writer locks the file when its transaction
begins, because in the middle of one it could not wait any more. PostgreSQL: a reader sees one
snapshot; a writer waits for locks at most until the deadline.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from harness.config.project import HISTORY_FOLDER
from harness.errors import (
    FormatError,
    HarnessError,
    InfrastructureError,
    NotWritableError,
    UsageError,
)
from harness.plugins import require
from harness.records.store_address import StoreAddress, address_of, is_secret

_T = TypeVar("_T")

_BUSY_MS: Final = 200
"""How long SQLite itself waits for another writer before that counts as a retry."""

_CONNECT_S: Final = 10
_CONFLICT_PAUSE_S: Final = 0.05
_DISCONNECT_PAUSE_S: Final = 0.5
_KEEPALIVES: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""A connection that dies while the client waits for an answer is detected within 25 s."""

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
)
_MOUNTS: Final = Path("/proc/self/mounts")


class Database:
    """An SQLite or PostgreSQL database.

    Attributes:
        retries: Number of transactions begun again because of another writer, or of a lost
            connection to the server.
        read_only: Whether the SQLite file is not writable.
    """

    def __init__(self, url: URL, deadline_s: float, *, create: bool) -> None:
        self.url = url
        self._address = StoreAddress(url.render_as_string(hide_password=False))
        self.deadline_s = deadline_s
        self.retries = 0
        self.read_only = False
        self._reached = False
        self._engine = self._open(create=create)

    @property
    def location(self) -> str:
        """The path or URL without a password, for messages."""
        if self.is_sqlite:
            return self.url.database or "memory"
        return str(self._address).replace("postgresql+psycopg:", "postgresql:", 1)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    def same_as(self, other: Database) -> bool:
        """Return whether both are one database, whatever their paths and URLs are."""
        if self.is_sqlite or other.is_sqlite:
            files = [base.url.database for base in (self, other) if base.is_sqlite]
            if len(files) < 2 or not all(files) or ":memory:" in files:
                return self is other
            return Path(str(files[0])).samefile(str(files[1]))
        # A server has many names. Locks are per database, and everybody may take one.
        lock = select(func.pg_try_advisory_xact_lock(secrets.randbits(62)))
        schema = select(func.current_schema())
        with self.reading() as ours, other.reading() as theirs:
            ours.execute(lock)
            locked = not theirs.scalar(lock)
            return locked and ours.scalar(schema) == theirs.scalar(schema)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a read transaction: all its queries see one snapshot."""
        engine: Engine = self._engine
        if not self.is_sqlite:
            engine = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with self._translated(), engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a write transaction, which is committed at the end."""
        begin = {"sqlite_begin": "BEGIN IMMEDIATE"} if self.is_sqlite else {}
        with (
            self._translated(),
            self._engine.execution_options(**begin).begin() as connection,
        ):
            yield connection

    def read(self, action: Callable[[Connection], _T]) -> _T:
        """Return the result of ``action`` in one read transaction; errors as for ``write``."""
        return self._with_retries(self.reading, action)

    def write(self, action: Callable[[Connection], _T]) -> _T:
        """Return the result of ``action`` in one write transaction, begun again after a conflict.

        Raises:
            NotWritableError: The database is not writable.
            InfrastructureError: It stayed locked until the deadline, or it failed.
        """
        if self.read_only:
            raise NotWritableError(f"{self.location} is not writable")
        return self._with_retries(self.writing, action)

    def _with_retries(
        self,
        transaction: Callable[[], AbstractContextManager[Connection]],
        action: Callable[[Connection], _T],
    ) -> _T:
        end = time.monotonic() + self.deadline_s
        while True:
            try:
                with transaction() as connection:
                    done = action(connection)
                self._reached = True
            except HarnessError as error:
                longest = self._retry_pause_s(error.__cause__)
                if not longest or time.monotonic() >= end:
                    raise
                self.retries += 1
                time.sleep(random.uniform(0.1, 1) * longest)
            else:
                return done

    def _retry_pause_s(self, error: BaseException | None) -> float:
        """Return the longest pause before the transaction is begun again, seconds; 0 for no retry.

        A lost connection is retried only if the server was reached before: otherwise its address is
        more likely wrong.
        """
        if isinstance(error, DBAPIError):
            if is_conflict(error):
                return _CONFLICT_PAUSE_S
            if self._reached and is_disconnect(error):
                return _DISCONNECT_PAUSE_S
        return 0.0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            hide_secrets(error, self._address)
            raise translate(error, self.location, self.deadline_s) from error
        except msgspec.DecodeError as error:
            raise FormatError(
                f"the history {self.location} holds a damaged text: {error}",
                hint="restore it from a backup, or add the results to a new history",
            ) from error

    def _open(self, *, create: bool) -> Engine:
        if self.is_sqlite:
            return self._open_file(create=create)
        require("postgresql", "a history on PostgreSQL", "psycopg")
        # As arguments they are in no text of the engine, which shows the query of its URL.
        query = {key: str(value) for key, value in self.url.query.items() if is_secret(key)}
        engine = create_engine(
            self.url.difference_update_query(query),
            connect_args={
                "connect_timeout": _CONNECT_S,
                "tcp_user_timeout": int(1000 * self.deadline_s),
                "application_name": "etharness",
                **_KEEPALIVES,
                **query,
            },
            pool_pre_ping=True,  # discards connections from before a server restart
        )
        lock_ms = int(1000 * self.deadline_s)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            connection.execute(f"SET lock_timeout = {lock_ms}")
            connection.commit()

        return engine

    def _open_file(self, *, create: bool) -> Engine:
        url, database = self.url, self.url.database
        if database and database != ":memory:":
            file = Path(database)
            refuse_network(file)
            self.read_only = _prepare_file(file, create=create)
            if self.read_only:
                url = _read_only_url(file)
        engine = create_engine(url)
        read_only = self.read_only

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            connection.isolation_level = None  # transactions begin below, not in the driver
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute("PRAGMA foreign_keys = ON")
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            options = connection.get_execution_options()
            connection.exec_driver_sql(options.get("sqlite_begin", "BEGIN"))

        return engine


def parse_url(address: StoreAddress | str) -> URL:
    """Read the URL of a store, or the path of an SQLite file.

    Raises:
        UsageError: It is neither.
    """
    address = address_of(address)
    text = address.with_secrets()
    if not text.strip():
        raise UsageError("empty history name", hint="name a file, or postgresql://HOST/DATABASE")
    if address.is_path:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    # The reason may quote a password that stands where a port should.
    invalid = UsageError(
        f"invalid history URL {address}",
        hint="write postgresql://USER@HOST:PORT/DATABASE; in names and passwords encode special "
        "characters, such as @ as %40",
    )
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise invalid from None
    if address.is_ambiguous:
        raise invalid
    if backend == "sqlite":
        return url.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError(
        f"unsupported history database {backend!r}", hint="use an SQLite file or postgresql://"
    )


def _prepare_file(file: Path, *, create: bool) -> bool:
    """Create the folder of a new file; return whether the file is read-only."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory", hint="name a file in it")
    if not file.exists():
        if not create:
            raise UsageError(
                f"history {file} not found",
                hint="`etharness run --history FILE` and `etharness history add` create it",
            )
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.parent.name == HISTORY_FOLDER and not any(file.parent.iterdir()):
                (file.parent / ".gitignore").write_text("*\n")
        except OSError as error:
            raise UsageError(f"cannot create {file.parent}: {error.strerror}") from error
        return False
    return not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def _read_only_url(file: Path) -> URL:
    """Return a URL with which SQLite reads a file and creates no files beside it."""
    log = file.with_name(f"{file.name}-wal")
    query = {"mode": "ro", "uri": "true"}
    if not log.exists() or not log.stat().st_size:
        query["immutable"] = "1"  # no write-ahead log to read
    return URL.create("sqlite", database=file.absolute().as_uri(), query=query)


def refuse_network(file: Path) -> None:
    """Refuse a file on a network file system, where SQLite's locks do not hold.

    Raises:
        UsageError: The file is on a network file system.
    """
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux: the file system is unknown, so SQLite is tried
        return
    kind = file_system(file, mounts)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise UsageError(
            f"{file} is on a network file system ({kind}), where concurrent writers corrupt it",
            hint="use a file on a local disk, or postgresql:// to share a history between hosts",
        )


def file_system(file: Path, mounts: Sequence[str]) -> str:
    """Return the type of the file system of ``file``, by ``/proc/mounts``; "" if unknown."""
    resolved, found, longest = file.resolve(), "", -1
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode("utf-8", "surrogateescape").decode("unicode_escape"))
        if resolved.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = fields[2], len(point.parts)
    return found


_RETRY: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "40001", "40P01")
"""Another writer; for PostgreSQL: serialization failure, deadlock."""

_SHUTTING_DOWN: Final = ("57P01", "57P02", "57P03")  # stopped by its admin, crashed, starting up

_Translation = tuple[Callable[..., HarnessError], str, str]
"""Class of the error, its message with the location as a field, and its hint."""

_UNREACHABLE: Final[_Translation] = (
    InfrastructureError,
    "{location} does not answer",
    "check that the server runs and that its address is right",
)
_REFUSED: Final[_Translation] = (
    UsageError,
    "{location}: authentication failed or no such database",
    "check the user, the password and the database name in the URL",
)
_UNKNOWN: Final[_Translation] = (
    InfrastructureError,
    "{location} failed",
    "try again; if it fails again, report it",
)
_KINDS: Final[tuple[tuple[str, _Translation], ...]] = (
    (
        "SQLITE_BUSY SQLITE_LOCKED 55P03 40",
        (
            InfrastructureError,
            "{location} stayed locked for {deadline:g} s",
            "try again; if it stays locked, look for the process that has it open",
        ),
    ),
    (
        "SQLITE_READONLY SQLITE_PERM 42501 25006",
        (
            NotWritableError,
            "{location} is not writable",
            "ask its owner for write permission, or name another history with --history",
        ),
    ),
    (
        "SQLITE_FULL 53100",
        (
            InfrastructureError,
            "no space left for {location}",
            "free some space, or run `etharness history prune`; results added before are intact",
        ),
    ),
    (
        "SQLITE_CORRUPT SQLITE_NOTADB",
        (
            FormatError,
            "{location} is damaged or not a history",
            "move it aside, and add the run directories again: `etharness history add DIRECTORY`",
        ),
    ),
    (
        "SQLITE_CANTOPEN",
        (
            UsageError,
            "cannot open {location}",
            "check the permissions of the file and its folder",
        ),
    ),
    (
        "SQLITE_IOERR",
        (InfrastructureError, "cannot read or write {location}", "check the disk"),
    ),
    ("53", (InfrastructureError, "{location} is out of resources", "try again later")),
    ("28 3D000", _REFUSED),
    ("57 08", _UNREACHABLE),
)
_TRANSLATIONS: Final = {code: kind for codes, kind in _KINDS for code in codes.split()}
"""By the first two words of SQLite's error name, or by PostgreSQL's SQLSTATE; by its class of two
characters where the full code is not listed."""

_REFUSALS: Final = ("authentication failed", "does not exist", "no password supplied", "pg_hba")
"""Texts of PostgreSQL's errors when it refuses a connection: the driver gives no SQLSTATE then."""


def is_conflict(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when it is begun again at once."""
    return (_sqlite_name(error) or getattr(error.orig, "sqlstate", None)) in _RETRY


def is_disconnect(error: DBAPIError) -> bool:
    """Whether the connection to a server was lost that may come back: a restart, or the network."""
    if _sqlite_name(error) is not None or not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return not any(text in str(error.orig) for text in _REFUSALS)
    return state in _SHUTTING_DOWN or state.startswith("08")


def is_permission_error(error: DBAPIError) -> bool:
    """Whether the database refused a write for lack of permission."""
    return _translation(error)[0] is NotWritableError


def hide_secrets(error: BaseException, address: StoreAddress) -> None:
    """Remove the secrets of an address from the texts of an error and of its causes.

    libpq quotes a value that it does not understand, and tracebacks show every cause.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(
            address.without_secrets(part) if isinstance(part, str) else part for part in one.args
        )
        left += [one.__cause__, one.__context__, getattr(one, "orig", None)]


def translate(error: SQLAlchemyError, location: str, deadline_s: float) -> HarnessError:
    """Return the error of this package for an error of the database."""
    kind, text, hint = _translation(error)
    cause: Any = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    reason = lines[0] if lines else type(cause).__name__
    return kind(f"{text.format(location=location, deadline=deadline_s)}: {reason}", hint=hint)


def _translation(error: SQLAlchemyError) -> _Translation:
    if not isinstance(error, DBAPIError):
        return _UNKNOWN
    if (name := _sqlite_name(error)) is not None:
        return _TRANSLATIONS.get(name, _UNKNOWN)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        message = str(error.orig)
        return _REFUSED if any(text in message for text in _REFUSALS) else _UNREACHABLE
    return _TRANSLATIONS.get(state) or _TRANSLATIONS.get(state[:2]) or _UNKNOWN


def _sqlite_name(error: DBAPIError) -> str | None:
    """Return SQLite's name of the error; None for an error of another database."""
    name: str | None = getattr(error.orig, "sqlite_errorname", None)
    if name is None:
        is_sqlite = type(error.orig).__module__ == "sqlite3"
        return "SQLITE_ERROR" if is_sqlite else None
    return "_".join(name.split("_")[:2])
