"""One board, one user at a time: who holds it is said, and no death leaves it held."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import serial
from msgspec.structs import replace

import harness
from harness import (
    BusyError,
    Deadlines,
    InfrastructureError,
    PortError,
    SerialTarget,
    Unit,
    UsageError,
    UsbPort,
    open_port,
    start_target,
)
from harness.extensions.lab.holding import heartbeats, hold, lease, open_registry, release
from harness.extensions.lab.leases import is_alive, own_start, process_start
from harness.target.selection import Flock, lock_directory, lock_keys_of, port_key, unit_key
from tests.support.leases import FREE, another_process, hold_port, holder
from tests.support.sysfs import FakeHost

PORT = "/dev/serial/by-id/usb-nowhere"
UNIT = Unit("rack-1", "native")
HERE = os.uname().nodename


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("ETHARNESS_OWNER", "ada")
    monkeypatch.delenv("ETHARNESS_LEASE", raising=False)


def test_a_held_board_says_by_whom(caplog: pytest.LogCaptureFixture) -> None:
    with (
        another_process(PORT, ETHARNESS_OWNER="bob") as process,
        pytest.raises(BusyError) as caught,
        hold_port(PORT, 0.3),
    ):
        pytest.fail("two processes hold one unit")
    said = caught.value.message
    assert said.startswith(
        f"{PORT} was not free within 0.3 s: already in use by bob on {HERE} since 20"
    )
    assert said.endswith(f" (a test), process {process.pid} (-c)")
    assert caught.value.exit_code == 75
    assert "`etharness lab release --force UNIT`" in caught.value.hint
    assert f"first in line for {PORT}; held by a test (bob on {HERE}); waiting up to 0.3 s" in (
        caplog.text
    )


@pytest.mark.attack("Leases", "kill -9 of the holder of a board", "the board is free at once")
def test_a_board_is_let_go_when_its_holder_is_killed() -> None:
    with another_process(PORT) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert holder(PORT) == FREE  # although its note is there still
        assert list(lock_directory().glob("*.json"))
        with hold_port(PORT, 5):
            assert f"process {os.getpid()} " in holder(PORT)
    assert holder(PORT) == FREE
    assert not list(lock_directory().glob("*.json"))


def test_who_waits_gets_it() -> None:
    with another_process(PORT) as process:
        assert process.stdin is not None
        threading.Timer(0.3, process.stdin.close).start()
        with hold_port(PORT, 30):
            assert process.wait(300) == 0


def test_one_thread_may_ask_again_another_may_not() -> None:
    refused = []

    def other() -> None:
        try:
            with hold_port(PORT, 0.1):
                pass
        except BusyError as error:
            refused.append(error)

    with hold_port(PORT, 1):
        with hold_port(PORT, 0):
            assert holder(PORT).count(", lent to ") == 1
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert holder(PORT) == FREE


def test_children_act_under_a_lease_and_theirs_too() -> None:
    with hold_port(PORT, 1), another_process(PORT, PORT) as process:
        assert holder(PORT).count(", lent to ") == 2
        # Each lends it to one at a time.
        with pytest.raises(BusyError, match=f"process {process.pid} "), hold_port(PORT, 0.1):
            pass
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(300) == 0
    assert "ETHARNESS_LEASE" not in os.environ


def test_what_was_lent_is_kept_by_a_child_that_outlives_its_parent() -> None:
    with another_process(PORT, PORT) as process:
        process.kill()
        process.wait()
        with pytest.raises(BusyError, match="a test"), hold_port(PORT, 0.2):
            pass
        assert process.stdin is not None
        process.stdin.close()  # of the grandchild, which ends with it
        with hold_port(PORT, 10):
            pass


def test_one_token_is_good_for_one_board() -> None:
    with (
        hold_port(PORT, 1) as lease,
        hold_port("socket://rack:1", 1),
        pytest.raises(AssertionError),
        another_process("socket://rack:1", WAIT="0.1", ETHARNESS_LEASE=lease.token),
    ):
        pass


def test_a_fork_does_not_end_what_its_parent_holds() -> None:
    with hold_port(PORT, 1) as lease:
        if (child := os.fork()) == 0:
            lease.release()
            os._exit(0)
        os.waitpid(child, 0)
        lease.check()
        assert f"process {os.getpid()} " in holder(PORT)


def test_all_names_of_a_line_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    host = FakeHost(tmp_path)
    device = host.plug("ttyACM0", link="usb-ST")
    other = host.plug("ttyACM1", interface=4)
    with hold(Unit("a", "native", port=UsbPort(0x0483, 0x374E, "0024", 2)), reason="night"):
        for name in (device, str(host.by_id / "usb-ST")):
            assert f"(night), process {os.getpid()}" in holder(name)
        host.unplug("ttyACM0")
        assert "(night)" in holder(host.plug("ttyACM9"))  # the same socket: the same board
        assert holder(other) == FREE
    with hold_port("socket://Bench:4001", 1):
        assert holder("rfc2217://bench:4001") != FREE
        assert holder("socket://bench:4002") == FREE
    with hold_port("socket://localhost:4001", 1):
        assert holder("socket://127.0.0.1:4001") != FREE


def test_a_port_is_opened_once() -> None:
    """What pyserial does by itself, either way round, and what a lease adds to it."""
    master, slave = os.openpty()
    path = os.ttyname(slave)
    ours = open_port(path, 9600)
    with pytest.raises(PortError, match="cannot open"):
        open_port(path, 9600)
    stranger = serial.Serial(path, 9600)  # its locks are advisory: this succeeds
    stranger.close()
    ours.close()
    board = replace(
        harness.Board.load("native"), target=SerialTarget(), deadlines=Deadlines(unit_s=0.2)
    )
    with start_target(board, None, port=path) as target:
        assert f"process {os.getpid()} " in holder(path)
        target.close()
        assert holder(path) == FREE
        target.close()
    with another_process(path), pytest.raises(BusyError, match="already in use by ada"):
        start_target(board, None, port=path)
    with pytest.raises(InfrastructureError, match="cannot open the serial port"):
        start_target(board, None, port="/dev/nowhere")
    assert holder("/dev/nowhere") == FREE
    os.close(master)
    os.close(slave)


def test_a_person_leases_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    [note] = lease([UNIT], 7200, reason="soldering")
    with hold(UNIT, timeout_s=0):  # the same user, here
        pass
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    with pytest.raises(BusyError) as caught, hold(UNIT, timeout_s=0):
        pass
    until = "by ada on .* since .* until .* \\(soldering\\)$"
    assert caught.match(f"unit 'rack-1' is already in use {until}")
    with pytest.raises(BusyError, match=until):
        lease([UNIT], 60)
    with pytest.raises(BusyError, match="cannot be released: already in use by ada") as refused:
        release([UNIT])
    assert "--force" in refused.value.hint
    monkeypatch.setenv("ETHARNESS_LEASE", note.token)
    with hold(UNIT, timeout_s=0):  # another user, who was told the token
        pass
    monkeypatch.delenv("ETHARNESS_LEASE")
    [released] = release([UNIT], force=True)
    assert (released.unit, len(released.ended)) == ("rack-1", 1)
    assert released.ended[0].startswith("ada on ")
    with hold(UNIT, timeout_s=0):
        pass
    assert release([UNIT])[0].ended == []


def test_a_lease_that_a_person_takes_during_an_attempt_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person holds a board without a lock, so the attempt that gets the lock looks again."""
    acquire = Flock.acquire

    def just_after_bob(lock: Flock) -> bool:
        with monkeypatch.context() as bobs:
            bobs.setattr(Flock, "acquire", acquire)
            bobs.setenv("ETHARNESS_OWNER", "bob")
            lease([UNIT], 3600)
        return acquire(lock)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Flock, "acquire", just_after_bob)
        with pytest.raises(BusyError, match="already in use by bob"), hold(UNIT, timeout_s=0):
            pass


def test_a_process_of_another_host_holds_a_board_without_a_lock_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts share the records of leases, but the kernel's locks end at each host."""
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "elsewhere")
        with hold(UNIT, timeout_s=0):
            shutil.copytree(lock_directory(), tmp_path / "shared")
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "shared"))
    with monkeypatch.context() as soon:
        soon.setattr("harness.extensions.lab.leases.STALE_S", 1e6)
        [elsewhere] = open_registry().holders(unit_key(UNIT.id))
        assert elsewhere.text.startswith("ada on elsewhere since ")
        with pytest.raises(BusyError, match="cannot be released: already in use by ada on elsewh"):
            release([UNIT])
    monkeypatch.setattr("harness.extensions.lab.leases.STALE_S", 0)
    assert open_registry().holders(unit_key(UNIT.id)) == [], "it writes no heartbeats"


def test_several_units_are_leased_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Unit("rack-2", "native", port="socket://bench:1")
    with another_process("socket://bench:1"), pytest.raises(BusyError, match="unit 'rack-2'"):
        lease([UNIT, other], 60)
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    with hold(UNIT, timeout_s=0):
        pass
    with pytest.raises(UsageError, match="leased through labgrid, not by this host"):
        lease([Unit("far", "native", lease="labgrid")], 60)


def test_a_lease_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    lease([UNIT], 0.2)
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    with hold(UNIT, timeout_s=10) as ours:
        ours.check()


def test_a_process_is_told_that_its_lease_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with hold(UNIT, timeout_s=1) as ours:
        with pytest.raises(BusyError, match="cannot be released: already in use by ada"):
            release([UNIT])
        monkeypatch.setenv("ETHARNESS_OWNER", "bob")
        [released] = release([UNIT], force=True)
        assert f"process {os.getpid()} " in released.ended[0]
        with pytest.raises(BusyError, match=f"is lost: it was taken by bob on {HERE}"):
            ours.check()
        # It has the board until it has noticed, and lends it to nobody any more.
        with pytest.raises(BusyError, match="already in use by ada"), hold(UNIT, timeout_s=0):
            pass
    with hold(UNIT, timeout_s=0) as theirs:
        theirs.check()


def test_a_lease_whose_files_were_removed_is_lost() -> None:
    with hold(UNIT, timeout_s=1) as ours:
        for file in lock_directory().glob("*.lock"):
            file.unlink()
        with pytest.raises(BusyError, match=r".*lock was removed"):
            ours.check()
        ours.heartbeat()


def test_a_session_ends_when_its_board_is_taken() -> None:
    master, slave = os.openpty()
    path = os.ttyname(slave)
    board = replace(harness.Board.load("native"), target=SerialTarget())
    with start_target(board, None, port=path) as target:
        target.check_alive()
        open_registry().release(port_key(path), force=True)
        with pytest.raises(BusyError, match="it was taken by ada"):
            target.check_alive()
        assert target.transport.read(0) == b""  # it is not asked at every byte,
        for lease in list(heartbeats.leases):
            lease.heartbeat()
        with pytest.raises(BusyError, match="it was taken by ada"):
            target.transport.read(0)  # but after the next heartbeat
        with pytest.raises(BusyError, match="it was taken by ada"):
            target.transport.write(b"x", 1)
    os.close(master)
    os.close(slave)


@pytest.mark.attack("Leases", "a full disk while a board is leased", "the lease is kept")
def test_heartbeats_are_counted_and_a_full_disk_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise InfrastructureError("no space left")

    with hold(UNIT, timeout_s=1) as ours:
        ours.heartbeat()
        [leased] = open_registry().holders(unit_key(UNIT.id))
        assert leased.record is not None
        assert leased.record.beats == 1
        with monkeypatch.context() as patched:
            patched.setattr("harness.extensions.lab.leases.write_record", full)
            ours.heartbeat()
        assert "no space left" in caplog.text
        ours.check()


@pytest.mark.attack("Leases", "damaged lease files", "never two holders")
@pytest.mark.parametrize("garbage", [b"", b"[1, 2", b"\xff\x00", b"{}", b"[" * 100_000])
@pytest.mark.slow
def test_what_cannot_be_read_is_never_two_holders(garbage: bytes) -> None:
    """The kernel says whether a process is there; of a person nothing else could."""
    key = unit_key(UNIT.id)
    with another_process("socket://bench:1"):
        [note] = lock_directory().glob("port*.0.json")
        note.write_bytes(garbage)
        with (
            pytest.raises(BusyError, match="a process without a lease record"),
            hold_port("socket://bench:1", 0),
        ):
            pass
    lease([UNIT], 3600)
    (lock_directory() / f"{key.stem}.person.json").write_bytes(garbage)
    with (
        pytest.raises(BusyError, match=r"cannot be read: .*\.person\.json"),
        hold(UNIT, timeout_s=0),
    ):
        pass
    with pytest.raises(BusyError, match=r"cannot be released: .*\.person\.json"):
        release([UNIT])
    release([UNIT], force=True)
    with hold(UNIT, timeout_s=0):
        pass


def test_a_directory_that_cannot_be_used_is_infrastructure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "file/locks"))
    with pytest.raises(InfrastructureError) as caught, hold(UNIT, timeout_s=0):
        pass
    assert "ETHARNESS_LOCK_DIR" in caught.value.hint


def test_files_are_as_shared_as_their_directory(tmp_path: Path) -> None:
    shared = lock_directory()
    shared.mkdir(mode=0o770)
    shared.chmod(0o770)
    with hold(UNIT, timeout_s=1):
        assert {file.stat().st_mode & 0o777 for file in shared.iterdir()} == {0o660}


@pytest.mark.attack("Leases", "a reused process id", "not mistaken for the holder")
def test_a_process_is_told_from_a_later_one_of_the_same_id() -> None:
    host = HERE
    assert is_alive(host, os.getpid(), own_start())
    assert is_alive(host, os.getpid(), own_start() - 1) is False
    assert is_alive("elsewhere", os.getpid(), own_start()) is None
    process = subprocess.Popen([sys.executable, "-c", ""])
    while process_start(process.pid) is not None:  # a zombie is none
        time.sleep(0.01)
    process.wait()
    assert process_start(process.pid) is None


def test_a_unit_that_is_not_plugged_in_is_held_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    host = FakeHost(tmp_path)
    unit = Unit("a", "native", port=UsbPort(0x0483, 0x374E))
    assert lock_keys_of(unit) == [unit_key("a")]
    device = host.plug("ttyACM0")
    assert lock_keys_of(unit) == [unit_key("a"), port_key(device)]
