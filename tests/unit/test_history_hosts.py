"""One history of several hosts: over TCP with passwords, while servers and networks come and go."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from harness import InfrastructureError, UsageError, open_store
from tests.support.postgresql import Server, server
from tests.support.results import made
from tests.unit.test_history_writers import check_whole, result

pytestmark = pytest.mark.slow

ADD = """
import sys
from tests.unit.test_history_writers import open_store, result
url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_store(url) as store:
    print("open", flush=True)
    for number in range(first, last):
        item = result(number)
        store.add(item.result, item.subject)
"""
ONE = made("one")


@pytest.fixture(scope="module")
def far() -> Iterator[Server]:
    """A server as machines share one, with the users that docs/history.md makes."""
    try:
        with server(tcp=True) as running:
            running.execute("CREATE ROLE lab LOGIN PASSWORD 'secret'")
            running.execute("CREATE ROLE guest LOGIN PASSWORD 'secret'")
            yield running
    except FileNotFoundError as error:
        if shutil.which("apt-get"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def database(far: Server) -> str:
    """The name of an empty database that is the lab's."""
    name = far.name_of(far.new_database())
    far.execute(f"ALTER DATABASE {name} OWNER TO lab")
    return name


class Proxy:
    """A network between hosts and their server, which cuts connections when it is told to."""

    def __init__(self, port: int, seed: int) -> None:
        self.cut = 0
        self._chance = random.Random(seed)
        self._left = 0
        self._to = port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_often(self, times: int) -> None:
        with self._lock:
            self._left = times

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if self._now():
                    break
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _now(self) -> bool:
        with self._lock:
            if not self._left or self._chance.random() > 0.1:
                return False
            self._left -= 1
            self.cut += 1
            return True


@pytest.mark.long
def test_hosts_add_to_one_history_while_its_server_is_started_again(
    far: Server, database: str
) -> None:
    """Three processes add results, half of them the same; each is there once."""
    url = far.url_of("lab", "secret", database)
    ranges = [(0, 16), (8, 24), (16, 32)]
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, url, *map(str, numbers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for numbers in ranges
    ]
    for host in hosts:
        assert host.stdout is not None
        assert host.stdout.readline() == "open\n"
    far.stop()
    time.sleep(0.5)
    far.start()
    for host in hosts:
        _, said = host.communicate(timeout=600)
        assert host.returncode == 0, said
    check_whole(url, {f"r{number:03}" for number in range(32)})
    with open_store(url) as store:
        assert len(store.results()) == 32


@pytest.mark.attack(
    "Nights and history",
    "a network that cuts connections to PostgreSQL",
    "each result is stored once",
)
@pytest.mark.long
def test_a_network_that_cuts_connections_doubles_and_loses_nothing(
    far: Server, database: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    proxy = Proxy(far.port, seed)
    url = far.url_of("lab", "secret", database, proxy.port)

    def host(first: int) -> int:
        with open_store(url) as store:
            opened.wait(600)
            for number in range(first, first + 15):
                item = result(number)
                store.add(item.result, item.subject)
                store.add(item.result, item.subject)
            return store.retries

    opened = threading.Barrier(3)
    with ThreadPoolExecutor(2) as threads:
        hosts = [threads.submit(host, first) for first in (0, 10)]
        opened.wait(600)
        proxy.cut_often(12)
        retries = sum(each.result(60) for each in hosts)
    proxy.close()
    assert proxy.cut > 0
    assert retries > 0
    check_whole(far.url_of("lab", "secret", database), {f"r{number:03}" for number in range(25)})
    with open_store(far.url_of("lab", "secret", database)) as store:
        assert len(store.results()) == 25


def test_a_server_that_stays_away_is_told_at_the_deadline(far: Server, database: str) -> None:
    with open_store(far.url_of("lab", "secret", database), deadline_s=3) as store:
        far.stop()
        try:
            with pytest.raises(InfrastructureError, match="does not answer") as caught:
                store.add(ONE.result, ONE.subject)
        finally:
            far.start()
        assert "secret" not in caught.value.message
        assert store.retries > 0
        assert store.add(ONE.result, ONE.subject)


def test_a_password_may_stand_in_a_file(
    far: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{far.port}:{database}:lab:secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    url = f"postgresql://lab@127.0.0.1:{far.port}/{database}"
    with open_store(url) as store:
        assert store.location == url
        assert store.add(ONE.result, ONE.subject)


def test_who_may_not_is_told_why(far: Server, database: str) -> None:
    url = far.url_of("lab", "secret", database)
    with pytest.raises(UsageError, match=r"authentication failed.*password") as caught:
        open_store(far.url_of("lab", "wrong", database))
    assert "wrong" not in caught.value.message
    with pytest.raises(UsageError, match=r"authentication failed.*no password"):
        open_store(far.url_of("lab", "", database))
    with pytest.raises(UsageError, match=r'database "nowhere" does not exist'):
        open_store(far.url_of("lab", "secret", "nowhere"))
    with pytest.raises(
        UsageError, match=r"is empty, this package needs version v.* and the database is read-only"
    ):
        open_store(far.url_of("guest", "secret", database))  # nobody has made the tables
    with open_store(url) as store:
        store.add(ONE.result, ONE.subject)
    with pytest.raises(UsageError, match="permission denied"):
        open_store(far.url_of("guest", "secret", database))
    far.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest", database)
    with open_store(far.url_of("guest", "secret", database)) as store:
        assert len(store.results()) == 1
        with pytest.raises(UsageError, match="is not writable"):
            store.add(made("two").result)
