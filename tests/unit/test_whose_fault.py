"""Whose a failure is: exit code and words of each command for faults that many commands share."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness import HOST_NANOSECONDS, TargetError
from harness.extensions.lab.holding import hold_keys
from harness.runs.device import save_trace
from harness.runs.directory import RunDirectory
from harness.target.selection import port_key
from tests.conftest import CommandResult
from tests.support.flash import serial_native
from tests.support.logs import CompactLog

Etharness = Callable[..., CommandResult]

TRACE = Path(__file__).parents[1] / "fixtures/kws_f32_executorch.etdp"
READING = {
    "decode": ("decode", TRACE),
    "check": ("check", TRACE),
    "compare": ("compare", TRACE, TRACE),
    "export": ("export", TRACE, "-f", "csv", "-o", "trace.csv"),
    "report": ("report", TRACE, "-o", "report.html"),
}
"""Commands that read a trace, which may be large."""

ON_A_PORT = {
    "run": ("run", "--model", "small_int8", "-o", "out"),
    "pull": ("pull", "-o", "out"),
    "postmortem": ("postmortem",),
}
"""Commands that wait for a board."""

INTERRUPTS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port of a board that behaves as ``serve`` does; its address."""

    def accept() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            listener.close()  # who connects again is refused
            with connection:
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    path = serial_native(tmp_path, 'order = ["command"]')
    deadlines = "boot_s = 60, reopen_s = 0.2, unit_s = 0.2"
    path.write_text(path.read_text().replace("boot_s = 3, reopen_s = 1", deadlines))
    return path


@pytest.mark.parametrize(("number", "code"), INTERRUPTS, ids=["INT", "TERM"])
@pytest.mark.parametrize("command", READING)
def test_an_interrupt_while_a_trace_is_read(
    command: str,
    number: signal.Signals,
    code: int,
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "harness.runs.source.read_dumps", lambda *_, **__: os.kill(os.getpid(), number)
    )
    assert etharness(*READING[command]).code == code
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("number", "code"), INTERRUPTS, ids=["INT", "TERM"])
@pytest.mark.parametrize("command", ON_A_PORT)
def test_an_interrupt_while_a_board_is_silent(
    command: str, number: signal.Signals, code: int, etharness: Etharness, board: Path
) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)  # the command waits for an answer
        os.kill(os.getpid(), number)
        while connection.recv(4096):
            pass

    with server(serve) as port:
        said = etharness(*ON_A_PORT[command], "--board", board, "--port", port)
    assert said.code == code, said.err


@pytest.mark.parametrize("command", ON_A_PORT)
def test_a_stream_that_is_cut_is_infrastructure(
    command: str, etharness: Etharness, board: Path
) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)  # and hangs up

    with server(serve) as port:
        said = etharness(*ON_A_PORT[command], "--board", board, "--port", port)
    assert said.code == 75, said.err


@pytest.mark.parametrize("command", ON_A_PORT)
def test_a_board_that_somebody_holds_is_infrastructure(
    command: str, etharness: Etharness, board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = "socket://127.0.0.1:9"
    monkeypatch.setenv("ETHARNESS_OWNER", "somebody")
    with_lease = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with hold_keys([port_key(port)], 1.0, reason="work"):
            with_lease.set()
            done.wait(600)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert with_lease.wait(600)
        said = etharness(*ON_A_PORT[command], "--board", board, "--port", port)
    finally:
        done.set()
        holder.join()
    assert said.code == 75, said.err
    assert "already in use by somebody" in said.err


@pytest.mark.parametrize("command", ["export", "report"])
def test_a_full_disk_is_named_and_leaves_no_half_file(
    command: str, etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", fail)
    said = etharness(*READING[command])
    assert said.code == 75, said.err
    assert "No space left on device" in said.err
    assert READING[command][-1] in said.err
    assert [*tmp_path.iterdir()] == []


def test_a_log_that_the_device_damaged_is_the_fault_of_the_device(tmp_path: Path) -> None:
    log = bytearray(CompactLog().block("Execute").profile("a", 0, 1).image())
    del log[-1:]
    directory = RunDirectory.create(tmp_path)
    with pytest.raises(TargetError, match="the device sent a damaged log: ") as caught:
        save_trace(bytes(log), b"", (HOST_NANOSECONDS,), directory)
    assert caught.value.exit_code == 4
    assert "--salvage" in caught.value.hint
    assert (tmp_path / "trace.etlog").read_bytes() == log
