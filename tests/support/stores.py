"""Fixtures of empty places for a history, on every database that can hold one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from harness import open_store
from tests.support.postgresql import Server, server


def make_older(file: str, version: str) -> str:
    """Make an SQLite history one of an older version, and return the version that it had."""
    with closing(sqlite3.connect(file)) as database:
        [newest] = database.execute("SELECT version_num FROM etharness_history").fetchone()
        for column in ("emulated_time", "ticks"):
            database.execute(f"ALTER TABLE result DROP COLUMN {column}")
        database.execute("DROP TABLE night")
        database.execute("DROP TABLE program")
        database.execute("UPDATE etharness_history SET version_num = ?", (version,))
        database.commit()
    return str(newest)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server; only where it cannot be installed are tests that need it skipped."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(server())
        except FileNotFoundError as error:
            if shutil.which("apt-get"):
                raise
            pytest.skip(str(error))
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new history can be made."""
    if request.param == "sqlite":
        return str(tmp_path / "history.sqlite")
    running: Server = request.getfixturevalue("postgresql")
    return running.new_database()


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """Histories without results, by their database: making the tables takes its time."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    templates: dict[str, str],
) -> str:
    """A history of its own without results."""
    if request.param == "sqlite":
        if "sqlite" not in templates:
            templates["sqlite"] = str(tmp_path_factory.mktemp("template") / "history.sqlite")
            open_store(templates["sqlite"]).close()
        return str(shutil.copy(templates["sqlite"], tmp_path / "history.sqlite"))
    running: Server = request.getfixturevalue("postgresql")
    if "postgresql" not in templates:
        templates["postgresql"] = running.new_database()
        open_store(templates["postgresql"]).close()
    return running.new_database(template=templates["postgresql"])
