"""One unit, one user at a time: who holds it is said, and no death leaves it held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.board import Deadlines, SerialTarget, load_board
from harness.errors import InfrastructureError
from harness.target import start_target
from harness.target.unit_lock import hold_unit, holder, lock_directory

PORT = "/dev/serial/by-id/usb-nowhere"
_HOLD = (
    "import sys; from harness.target.unit_lock import hold_unit\n"
    "with hold_unit(sys.argv[1], 5):\n"
    "    print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))


@contextmanager
def another_process(port: str = PORT) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a unit until its standard input ends."""
    command = [sys.executable, "-c", _HOLD, port]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_held_unit_says_by_whom(caplog: pytest.LogCaptureFixture) -> None:
    with (
        another_process() as process,
        pytest.raises(InfrastructureError) as caught,
        hold_unit(PORT, 0.3),
    ):
        pytest.fail("two processes hold one unit")
    said = caught.value.message
    assert said.startswith(f"the unit on {PORT} was not free within 0.3 s: it is held by process ")
    assert f"process {process.pid} (-c) on {os.uname().nodename} since 20" in said
    assert caught.value.exit_code == 75
    assert "the lock goes with the process" in caught.value.hint
    assert f"waiting up to 0.3 s for {PORT}, held by process {process.pid}" in caplog.text


def test_a_unit_is_let_go_when_its_holder_is_killed() -> None:
    with another_process() as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Its note has outlived it, and says so of nobody else's lock.
        assert f"process {process.pid} " in holder(PORT)
        with hold_unit(PORT, 5):
            assert f"process {os.getpid()} " in holder(PORT)
    assert holder(PORT) == "a process that has left no note"


def test_who_waits_gets_it() -> None:
    with another_process() as process:
        assert process.stdin is not None
        threading.Timer(0.3, process.stdin.close).start()
        with hold_unit(PORT, 30):
            assert process.wait(5) == 0


def test_one_thread_may_ask_again_another_may_not() -> None:
    refused = []

    def other() -> None:
        try:
            with hold_unit(PORT, 0.1):
                pass
        except InfrastructureError as error:
            refused.append(error)

    with hold_unit(PORT, 1), hold_unit(PORT, 0):
        pass
    with hold_unit(PORT, 1):
        with hold_unit(PORT, 0):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_other_names_of_a_device_are_the_same_unit(tmp_path: Path) -> None:
    (tmp_path / "by-id").symlink_to(tmp_path / "tty")
    with hold_unit(str(tmp_path / "tty"), 1):
        assert f"process {os.getpid()} " in holder(str(tmp_path / "by-id"))
        assert holder(str(tmp_path / "tty2")) == "a process that has left no note"
    with hold_unit("rfc2217://shelf:2001", 1):
        [note] = lock_directory().glob("shelf*.json")
        assert note.stem.rpartition("-")[0] == "shelf-2001"
        assert f"process {os.getpid()} " in holder("socket://SHELF:2001?timeout=9")


def test_a_note_that_is_damaged_is_nobodys(tmp_path: Path) -> None:
    with hold_unit(PORT, 1):
        [note] = lock_directory().glob("*.json")
        note.write_text("[1, 2")
        assert holder(PORT) == "a process that has left no note"


def test_a_target_on_a_port_holds_its_unit() -> None:
    master, slave = os.openpty()
    path = os.ttyname(slave)
    board, _ = load_board("native")
    board = replace(board, target=SerialTarget(), deadlines=Deadlines(unit_s=0.2))
    with start_target(board, None, port=path) as target:
        assert f"process {os.getpid()} " in holder(path)
        target.close()
        assert holder(path) == "a process that has left no note"
        target.close()
    with another_process(path), pytest.raises(InfrastructureError, match="it is held by process"):
        start_target(board, None, port=path)
    with pytest.raises(InfrastructureError, match="cannot open the serial port"):
        start_target(board, None, port="/dev/nowhere")
    assert holder("/dev/nowhere") == "a process that has left no note"
    os.close(master)
    os.close(slave)
