"""A PostgreSQL server of the tests' own: on a socket in a directory of its own, gone with them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

START_S = 600.0


@dataclass
class Server:
    """A running server.

    Attributes:
        directory: Where its socket and its data are.
        log: What it printed.
        port: On 127.0.0.1, with passwords; 0 if it listens on its socket alone.
    """

    directory: Path
    log: Path
    port: int
    _start: Callable[[], subprocess.Popen[bytes]]
    _process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str) -> str:
        port = f"&port={self.port}" if self.port else ""
        return f"postgresql://postgres@/{database}?host={self.directory}{port}"

    def url_of(self, user: str, password: str, database: str, port: int = 0) -> str:
        """A URL over TCP, by way of another port if given."""
        return f"postgresql://{user}:{password}@127.0.0.1:{port or self.port}/{database}"

    def stop(self) -> None:
        """End it, and all who are connected."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def start(self) -> None:
        """Start it again."""
        self._process = self._start()
        _wait(self, self._process, self.log)

    def new_database(self, template: str | None = None) -> str:
        """The URL of an empty database, or of a copy of the one whose URL is ``template``."""
        name = f"test{next(self._numbers)}"
        original = "template0" if template is None else self.name_of(template)
        self.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE {original}")
        return self.url(name)

    def name_of(self, url: str) -> str:
        """The name of the database of a URL."""
        return url.partition("@/")[2].partition("?")[0]

    def size(self) -> int:
        """Bytes of all databases on the disk."""
        import psycopg

        with psycopg.connect(self.url("postgres")) as connection:
            query = "SELECT sum(pg_database_size(datname)) FROM pg_database WHERE datname ~ '^test'"
            found = connection.execute(query).fetchone()
        assert found is not None
        return int(found[0])

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def server(*, durable: bool = False, tcp: bool = False) -> Iterator[Server]:
    """Start a server, and end it; FileNotFoundError where PostgreSQL is not installed.

    Without ``durable`` it is as quick, and as careless, as a test can afford.
    """
    port = _free_port() if tcp else 0
    programs = _programs()
    directory = Path(tempfile.mkdtemp(prefix="etharness-pg-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # it refuses to run as root
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    data, log = directory / "data", directory / "log"
    try:
        # A locale with rules of its own, so that nothing relies on the order of bytes by chance.
        settings = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]
        settings += ["--locale-provider=icu", "--icu-locale=en-US"]
        subprocess.run(
            [*as_user, programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", *settings],
            cwd=directory,
            check=True,
            capture_output=True,
        )
        settings = [f"unix_socket_directories={directory}"]
        settings += [f"listen_addresses={'127.0.0.1' if tcp else ''}"]
        if not durable:
            settings += ["fsync=off", "shared_buffers=16MB", "max_connections=40"]
        if tcp:
            rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
            (data / "pg_hba.conf").write_text(rules)
            settings += [f"port={port}"]
        options = [word for setting in settings for word in ("-c", setting)]

        def start() -> subprocess.Popen[bytes]:
            with log.open("ab") as out:
                dying = ["--pdeathsig=KILL"] if as_user else []
                return subprocess.Popen(
                    [*as_user, *dying, programs / "postgres", "-D", data, *options],
                    cwd=directory,
                    stdout=out,
                    stderr=out,
                )

        process = start()
        running = Server(directory, log, port, start, process)
        try:
            _wait(running, process, log)
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _programs() -> Path:
    """The folder of the newest server that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and (path := shutil.which("initdb")):
        found = [Path(path)]
    if not found:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    end = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(server.url("postgres")).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the server does not start: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return
