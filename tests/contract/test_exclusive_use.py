"""One process uses a port at a time, with and without the leases of a lab."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Etharness = Callable[..., Any]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    """A command that asks a silent board, and waits half a second for another process."""
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    board = tmp_path / "nucleo-f446re.toml"
    text = (ROOT / "boards/nucleo-f446re.toml").read_text()
    board.write_text(text.replace("execute_s = 30 }", "execute_s = 30, unit_s = 0.5 }"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = f"socket://127.0.0.1:{server.getsockname()[1]}"
        with waiting(server, "pull", f"--board={board}", f"--port={port}", "-o", tmp_path / "one"):
            yield ("pull", f"--board={board}", f"--port={port}", "-o", str(tmp_path / "two"))


@contextmanager
def waiting(server: socket.socket, *command: str | Path) -> Iterator[None]:
    """Run a command in another process, from its connection to the end of the context."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *command], env=environment, stderr=subprocess.DEVNULL
    ) as process:
        connection, _ = server.accept()
        try:
            yield
        finally:
            process.kill()
            connection.close()


def test_a_port_in_use_is_busy(words: tuple[str, ...], etharness: Etharness) -> None:
    said = etharness(*words)
    assert said.code == 75, said.err
    assert "already in use by" in said.err


def test_a_killed_process_leaves_the_port_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etharness: Etharness
) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = f"--port=socket://127.0.0.1:{server.getsockname()[1]}"
        with waiting(server, "pull", "--board=nucleo-f446re", port, "-o", tmp_path / "one"):
            pass
    said = etharness("pull", "--board=nucleo-f446re", port, "-o", tmp_path / "two")
    assert said.code == 75, said.err
    assert "in use" not in said.err, "the port is free, and nobody listens on it"
