"""Databases that are damaged, full, locked, read-only, foreign, or of another version."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from harness import (
    FormatError,
    HarnessError,
    InfrastructureError,
    MeasurementSettings,
    Selection,
    UsageError,
    entry_of,
    open_store,
)
from harness.history.database import Database, file_system, parse_url, refuse_network
from harness.history.store import Store
from harness.history.tables import METADATA, MIGRATIONS, VERSION, VERSION_TABLE, ensure_schema
from tests.support.postgresql import Server
from tests.support.results import made

UNRECORDED = ""

ONE = made("one")
FIXTURES = Path(__file__).parents[1] / "fixtures"


def database(url: str) -> Database:
    return Database(parse_url(url), 30, create=True)


def test_a_new_store_has_the_tables_and_a_version(empty_url: str) -> None:
    base = database(empty_url)
    ensure_schema(base)
    with base.reading() as connection:
        tables = set(inspect(connection).get_table_names())
        version = connection.scalar(text("SELECT version_num FROM etharness_history"))
    base.close()
    assert tables == {*METADATA.tables, VERSION_TABLE.name}
    assert version == VERSION


def _add_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE result ADD COLUMN added INTEGER DEFAULT 7"))


def test_an_older_store_is_migrated_step_by_step_and_keeps_its_results(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(empty_url) as store:
        store.add(ONE.result, ONE.subject)
    monkeypatch.setitem(MIGRATIONS, VERSION, ("v9002", lambda _: None))
    monkeypatch.setitem(MIGRATIONS, "v9002", ("v9003", _add_column))
    monkeypatch.setattr("harness.history.tables.VERSION", "v9003")
    for _ in range(2):
        with open_store(empty_url) as store:
            assert [entry.provenance.id for entry in store.results()] == ["one"]
            assert store.info().version == "v9003"
    base = database(empty_url)
    with base.reading() as connection:
        assert connection.scalar(text("SELECT added FROM result")) == 7
    base.close()


def test_a_store_of_the_first_version_is_migrated(empty_url: str) -> None:
    """The fixtures are histories of that version, written by it."""
    base = database(empty_url)
    kind = "sqlite" if base.is_sqlite else "postgresql"
    script = (FIXTURES / f"history_v0001_{kind}.sql").read_text()
    statements = [line for line in script.splitlines() if not line.startswith("--")]
    base.write(lambda c: [c.exec_driver_sql(statement) for statement in statements])
    base.close()
    new = made("new", settings=MeasurementSettings(values="outputs"))
    with open_store(empty_url, create=False) as store:
        assert store.info().version == VERSION
        entries = {entry.provenance.id: entry for entry in store.results()}
        assert list(entries) == ["good", "red", "wrong", "lossy", "cut", "crashed"]
        assert [own_id for own_id, entry in entries.items() if entry.complete] == ["good", "red"]
        assert [own_id for own_id, entry in entries.items() if entry.sound] == ["good"]
        assert (entries["red"].failed, entries["red"].warned) == ({"H01": 1}, {"B05": 1})
        assert {entry.provenance.settings for entry in entries.values()} == {None}
        history = store.history("native", "kws.pte", "forward", settings=UNRECORDED)
        assert [result.id for result in history.results] == ["good", "red"]
        assert history.failed == (1,)
        assert store.baseline_results("v1") == ["good", "red"]
        assert store.decisions() == []
        assert store.add(new.result, new.subject)
        assert store.results(Selection(ids=["new"])) == [entry_of(new.result, new.subject)[0]]


@pytest.mark.attack(
    "Nights and history", "a migration that fails halfway", "the history is unchanged"
)
def test_a_migration_that_fails_changes_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(empty_url):
        pass

    def fail(connection: Connection) -> None:
        _add_column(connection)
        connection.execute(text("SELECT 1 FROM nowhere"))

    with monkeypatch.context() as newer:
        newer.setitem(MIGRATIONS, VERSION, ("v9002", fail))
        newer.setattr("harness.history.tables.VERSION", "v9002")
        with pytest.raises(HarnessError, match="nowhere"):
            open_store(empty_url)
    with open_store(empty_url) as store:
        assert store.add(ONE.result, ONE.subject)


@pytest.mark.attack(
    "Nights and history", "a history of a newer version", "exit code 2; nothing is changed"
)
def test_a_newer_version_is_refused(empty_url: str) -> None:
    with open_store(empty_url):
        pass
    base = database(empty_url)
    base.write(lambda c: c.execute(VERSION_TABLE.update().values(version_num="v9000")))
    base.close()
    with pytest.raises(UsageError, match="version v9000, which is newer than v") as raised:
        open_store(empty_url)
    assert raised.value.hint == "pip install --upgrade etdump-harness"


@pytest.mark.attack(
    "Nights and history", "a database of another program", "exit code 2; nothing is changed"
)
def test_a_database_of_something_else_is_refused(empty_url: str) -> None:
    base = database(empty_url)
    base.write(lambda c: c.execute(text("CREATE TABLE invoices (mine INTEGER)")))
    with pytest.raises(UsageError, match=r"not a history; it has 1 tables .*: invoices"):
        open_store(empty_url)
    assert base.read(lambda c: inspect(c).get_table_names()) == ["invoices"]
    base.close()


def test_making_a_history_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), open_store(str(tmp_path / "h.sqlite")):
        pass
    assert [record for record in caplog.records if record.name.startswith("harness")] == []


@pytest.mark.attack("Nights and history", "a damaged SQLite file", "exit code 2, with its name")
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no database" * 100, "is damaged or not a history"), (b"SQLite format 3\0" * 90, "damaged")],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "h.sqlite"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=said) as raised:
        open_store(str(file))
    assert str(file) in raised.value.message
    assert "etharness history add" in raised.value.hint
    assert file.read_bytes() == content


def test_damage_within_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    with open_store(str(file)) as store:
        store.add(ONE.result, ONE.subject)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(FormatError, match="is damaged"), open_store(str(file)) as store:
        store.results()


@pytest.mark.attack(
    "Nights and history", "a full disk while results are added", "the earlier results are kept"
)
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    items = [made(f"r{number:02}", unit="u" * 9000 + str(number)) for number in range(40)]

    def add_all(store: Store) -> list[bool]:
        return [store.add(item.result, item.subject) for item in items]

    with open_store(str(file)) as store:
        store.add(ONE.result, ONE.subject)
        store.database.write(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 100"))
        with pytest.raises(InfrastructureError, match="no space left"):
            add_all(store)
        there = {entry.provenance.id for entry in store.results()}
    assert 2 <= len(there) < len(items)
    with open_store(str(file)) as store:
        assert add_all(store) == [item.result.id not in there for item in items]
        assert len(store.results()) == len(items) + 1


def test_what_may_only_be_read_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``os.access`` says it of a read-only file system; root may write any other."""
    file = tmp_path / "what? 100%#.sqlite"
    with open_store(str(file)) as store:
        store.add(ONE.result, ONE.subject)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with open_store(str(file)) as store:
        assert [entry.provenance.id for entry in store.results()] == ["one"]
        assert store.location == str(file)
        with pytest.raises(UsageError, match=r"what.* is not writable"):
            store.set_baseline("v1", ["one"])
    assert not file.with_name(f"{file.name}-wal").exists()


@pytest.mark.attack("Nights and history", "a read-only file", "queries work; writing is refused")
def test_a_file_of_another_is_not_written(tmp_path: Path) -> None:
    """SQLite itself refuses, though the file looked as if it could be written."""
    file = tmp_path / "h.sqlite"
    with open_store(str(file)) as store:
        store.add(ONE.result, ONE.subject)
        store.database.write(lambda c: c.exec_driver_sql("PRAGMA query_only = 1"))
        with pytest.raises(UsageError, match="is not writable") as raised:
            store.set_baseline("v1", ["one"])
    assert "--history" in raised.value.hint


def test_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        open_store(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot create"):
        open_store(str(tmp_path / "file/h.sqlite"))
    with pytest.raises(UsageError, match=r"history .*none\.sqlite not found"):
        open_store(str(tmp_path / "none.sqlite"), create=False)


@pytest.mark.parametrize("url", ["", "  ", "mysql://host/db", "nothing://", "http://[::1"])
def test_urls_of_no_history(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)


@pytest.mark.attack(
    "Texts",
    "a database URL with a password, and a connection that fails",
    "no message contains the password",
)
def test_no_message_has_a_password() -> None:
    with pytest.raises(HarnessError) as raised:
        open_store("postgresql://me:secret@localhost:1/db", deadline_s=1)
    assert "secret" not in str(raised.value) + raised.value.hint
    with pytest.raises(UsageError) as refused:
        open_store("oracle://me:secret@host/db")
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_answer_may_answer_later(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="does not answer"):
        open_store(f"postgresql://postgres@/db?host={tmp_path}")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(InfrastructureError, match="does not answer"):
            open_store(f"postgresql://postgres@127.0.0.1:{port}/db")


def test_a_server_that_refuses_will_refuse_again(postgresql: Server) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        open_store(postgresql.url("nowhere"))
    url = postgresql.new_database()
    with open_store(url) as store:
        store.add(ONE.result, ONE.subject)
    postgresql.execute("CREATE ROLE reader LOGIN", "postgres")
    name = postgresql.name_of(url)
    postgresql.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    with open_store(url.replace("postgres@", "reader@")) as store:
        assert len(store.results()) == 1
        with pytest.raises(UsageError, match="is not writable"):
            store.set_baseline("v1", ["one"])


def test_a_lock_that_lasts_is_reported(postgresql: Server) -> None:
    import psycopg

    url = postgresql.new_database()
    name = postgresql.name_of(url)
    with open_store(url, deadline_s=1) as store:
        with psycopg.connect(postgresql.url(name)) as holder:
            holder.execute("LOCK TABLE name IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(InfrastructureError, match="stayed locked"):
                store.add(ONE.result, ONE.subject)
        assert store.add(ONE.result, ONE.subject)


def test_file_systems_of_networks_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = [
        "/dev/vda / ext4 rw 0 0",
        "lab:/runs /mnt/a\\040share nfs4 rw 0 0",
        "tmpfs /mnt/a\\040share/local tmpfs rw 0 0",
        "odd",
    ]
    assert file_system(Path("/mnt/a share/h.sqlite"), mounts) == "nfs4"
    assert file_system(Path("/mnt/a share/local/h.sqlite"), mounts) == "tmpfs"
    assert file_system(Path("/mnt/h.sqlite"), mounts) == "ext4"
    assert file_system(Path("/h.sqlite"), []) == ""
    mounts_file = tmp_path / "mounts"
    mounts_file.write_text(f"lab:/runs {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr("harness.history.database._MOUNTS", mounts_file)
    with pytest.raises(UsageError, match=r"is on a network file system \(nfs\)") as raised:
        open_store(str(tmp_path / "h.sqlite"))
    assert "postgresql://" in raised.value.hint
    mounts_file.unlink()
    refuse_network(tmp_path / "h.sqlite")  # nobody knows


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_history_of_a_checkout_is_no_change_of_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with open_store(str(tmp_path / ".etharness/history.sqlite")):
        pass
    status = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain"], capture_output=True, check=True
    )
    assert status.stdout == b""
