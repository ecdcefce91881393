"""Fixtures of empty places for a history, on every database that can hold one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.postgresql import Server, server


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
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new history can be made."""
    if request.param == "sqlite":
        return str(tmp_path / "history.sqlite")
    running: Server = request.getfixturevalue("postgresql")
    return running.new_database()
