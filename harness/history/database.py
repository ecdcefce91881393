"""The database behind a store: how it is reached, how it is written by one at a time, who is to
blame when it fails.

SQLite: a write-ahead log, so that readers never wait; a writer takes the file at the beginning of
its transaction, not in the middle, where it could not wait any more. PostgreSQL: readers see one
moment; writers wait for each other's locks no longer than the deadline.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from harness.errors import HarnessError, UsageError
from harness.extras import require
from harness.history.db_errors import may_retry, may_return, owned
from harness.history.location import FOLDER

_T = TypeVar("_T")

_BUSY_MS: Final = 200
"""How long SQLite itself waits for another writer, before that counts as a retry."""

_CONNECT_S: Final = 10
_OTHERS_S: Final = 0.05
_GONE_S: Final = 0.5
_KEEPALIVES: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""A server that a network has lost, without a word, while it was to answer: noticed in 25 s."""


class Database:
    """A database, whichever it is.

    Attributes:
        retries: How often a transaction had to be begun again because of another writer, or of a
            server that had gone away.
        read_only: Nothing can be written, as the file may not be.
    """

    def __init__(self, url: URL, deadline_s: float, *, create: bool) -> None:
        self.url = url
        self.deadline_s = deadline_s
        self.retries = 0
        self.read_only = False
        self._reached = False
        self._engine = self._open(create=create)

    @property
    def place(self) -> str:
        """Where it is, for people, without a password."""
        if self.is_sqlite:
            return self.url.database or "memory"
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of ours, and not a server's."""
        return self.url.get_backend_name() == "sqlite"

    def close(self) -> None:
        """Let go of it."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads, all of it as of one moment."""
        engine: Engine = self._engine
        if not self.is_sqlite:
            engine = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with self._owning(), engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, committed at the end."""
        begin = {"sqlite_begin": "BEGIN IMMEDIATE"} if self.is_sqlite else {}
        with self._owning(), self._engine.execution_options(**begin).begin() as connection:
            yield connection

    def read(self, action: Callable[[Connection], _T]) -> _T:
        """Do ``action`` in one transaction that reads; errors as for ``write``."""
        return self._in(self.reading, action)

    def write(self, action: Callable[[Connection], _T]) -> _T:
        """Do ``action`` in one transaction, again and again while others are in the way.

        Raises:
            UsageError: It may not be written.
            InfrastructureError: Others were in the way until the deadline, or it failed.
        """
        if self.read_only:
            raise UsageError(f"{self.place} may not be written")
        return self._in(self.writing, action)

    def _in(
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
                longest = self._pause(error.__cause__)
                if not longest or time.monotonic() >= end:
                    raise
                self.retries += 1
                time.sleep(random.uniform(0.1, 1) * longest)
            else:
                return done

    def _pause(self, error: BaseException | None) -> float:
        """How long to wait at most before a transaction is begun again, seconds; 0: it is not.

        A server that was never reached is more likely a wrong address than one that comes back.
        """
        if isinstance(error, DBAPIError):
            if may_retry(error):
                return _OTHERS_S
            if self._reached and may_return(error):
                return _GONE_S
        return 0.0

    @contextmanager
    def _owning(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise owned(error, self.place, self.deadline_s) from error

    def _open(self, *, create: bool) -> Engine:
        if self.is_sqlite:
            return self._open_file(create=create)
        require("postgresql", "a history on PostgreSQL", "psycopg")
        engine = create_engine(
            self.url,
            connect_args={
                "connect_timeout": _CONNECT_S,
                "tcp_user_timeout": int(1000 * self.deadline_s),
                "application_name": "etharness",
                **_KEEPALIVES,
            },
            pool_pre_ping=True,  # a connection of before the server was started again is not used
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
                url = _read_only(file)
        engine = create_engine(url)
        read_only = self.read_only

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            connection.isolation_level = None  # transactions are begun below, not by the driver
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


def _read_only(file: Path) -> URL:
    """The URL by which SQLite reads a file and makes none beside it."""
    log = file.with_name(f"{file.name}-wal")
    query = {"mode": "ro", "uri": "true"}
    if not log.exists() or not log.stat().st_size:
        query["immutable"] = "1"  # no log of a writer: there is nothing to look for
    return URL.create("sqlite", database=f"file:{quote(str(file.absolute()))}", query=query)


def parse_url(text: str) -> URL:
    """Read the URL of a store, or the path of an SQLite file.

    Raises:
        UsageError: It is neither.
    """
    if not text.strip():
        raise UsageError("no history is named", hint="give a file, or postgresql://HOST/DATABASE")
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise UsageError(f"{without_password(text)} is no URL of a history: {error}") from None
    if backend == "sqlite":
        return url.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError(
        f"a history cannot be kept in {backend!r}", hint="use an SQLite file or postgresql://"
    )


def without_password(text: str) -> str:
    """A path, or a URL without who asks and their password, for people."""
    scheme, sign, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if sign else text


def _prepare_file(file: Path, *, create: bool) -> bool:
    """Make the folder of a new file; return whether the file may only be read."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory", hint="name a file in it")
    if not file.exists():
        if not create:
            raise UsageError(
                f"there is no history at {file}", hint="`etharness history add DIRECTORY` makes one"
            )
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.parent.name == FOLDER and not any(file.parent.iterdir()):
                (file.parent / ".gitignore").write_text("*\n")
        except OSError as error:
            raise UsageError(f"cannot make {file.parent}: {error.strerror}") from error
        return False
    return not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


_NETWORK: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
)


_MOUNTS: Final = Path("/proc/self/mounts")


def refuse_network(file: Path) -> None:
    """Refuse a file on a network's file system.

    Raises:
        UsageError: It is on one.
    """
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux: nobody knows, and SQLite is tried
        return
    kind = file_system(file, mounts)
    if kind in _NETWORK:
        raise UsageError(
            f"{file} is on a network ({kind}), where several writers would destroy it",
            hint="keep the file on a local disk, or use postgresql:// for what machines share",
        )


def file_system(file: Path, mounts: Sequence[str]) -> str:
    """The kind of file system that ``file`` is on, by the lines of ``/proc/mounts``; "" if none."""
    place, found, longest = file.resolve(), "", -1
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode("utf-8", "surrogateescape").decode("unicode_escape"))
        if place.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = fields[2], len(point.parts)
    return found
