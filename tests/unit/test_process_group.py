"""Programs that are run for us: gone with all they started, and read whatever they write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import FlashError, FlashStep, PowerError
from harness.extensions.lab.nightly.commands import Children
from harness.extensions.lab.power import run
from harness.files import CappedBuffer
from harness.flash.execute import Log, run_steps
from harness.target.process_group import ProcessGroup, run_program, session_members
from tests.support.processes import READY_S, time_out_once_ready, wait_until

pytestmark = pytest.mark.slow

PYTHON = [sys.executable, "-c"]


def living(mark: str) -> list[int]:
    """Processes that have this word in their command, zombies aside, which hold nothing."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if mark.encode() in words and not dead:
            found.append(int(folder.name))
    return found


SLOW_TO_GO = """
import mmap, os, sys, time
file = open(sys.argv[1], "r+b")
file.truncate(64 << 20)
flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
kept = [mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) for _ in range(100)]
os.rename(sys.argv[1], sys.argv[1] + ".mapped")
time.sleep(1000)
"""
"""A process that the kernel needs some 50 ms to take apart, without much memory of its own."""


def starter(place: Path) -> list[str]:
    """A program that starts two others and waits for them, whose ids are in ``place/pids``.

    It creates ``place/ready`` when they run.
    """
    names = [place / "one", place / "two"]
    for name in names:
        name.write_bytes(b"")
    (place / "script").write_text(SLOW_TO_GO)
    each = [f"{sys.executable} {place}/script {name} & echo $! >> {place}/pids" for name in names]
    ready = " && ".join(f"[ -e {name}.mapped ]" for name in names)
    wait = f"until {ready}; do sleep 0.05; done; echo all; touch {place}/ready; wait"
    return ["sh", "-c", "; ".join(each) + f"; {wait}"]


def left_of(place: Path) -> list[str]:
    """States of those that live still, looked up as fast as can be: they are about to end."""
    states = []
    for pid in (place / "pids").read_text().split():
        with contextlib.suppress(OSError):
            states.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return [state for state in states if state not in "ZX"]


@pytest.fixture
def mark() -> str:
    return f"1{os.getpid()}.{time.monotonic_ns() % 10**6:06}"


def test_when_a_tool_is_ended_all_it_started_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_out_once_ready(monkeypatch, tmp_path / "ready")
    log = Log(tmp_path / "flash.log")
    with pytest.raises(FlashError, match=r'timed out after 0\.2 s in the stage "write"'):
        run_steps("it", [FlashStep("write", tuple(starter(tmp_path)))], log, 0.2, tmp_path, {})
    assert left_of(tmp_path) == []


def test_when_a_power_program_is_ended_all_it_started_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_out_once_ready(monkeypatch, tmp_path / "ready")
    with pytest.raises(PowerError, match=r"timed out after 0\.2 s: all"):
        run(starter(tmp_path), 0.2)
    assert left_of(tmp_path) == []


def test_when_a_child_of_a_night_is_ended_all_it_started_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_out_once_ready(monkeypatch, tmp_path / "ready")
    ending = Children().run(starter(tmp_path), 0.2, log=tmp_path / "log")
    assert ending.expired
    assert left_of(tmp_path) == []


def test_what_a_program_leaves_behind_is_ended_with_it(mark: str) -> None:
    done = run_program(["sh", "-c", f"sleep {mark} & echo done"], 20)
    assert (done.code, done.stdout) == (0, b"done\n")
    assert living(mark) == []


@pytest.mark.attack(
    "Host and signals", "a tool whose child leaves the process group", "ended with the tool"
)
def test_a_child_in_a_group_of_its_own_is_ended_too(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `timeout` puts itself and what it runs into one."""
    ready = tmp_path / "ready"
    time_out_once_ready(monkeypatch, ready)
    done = run_program(["timeout", "1000", "sh", "-c", f"touch {ready}; sleep {mark}; :"], 0.2)
    assert done.code is None
    ready.unlink()
    inner = (
        "import os, sys, time; os.setpgid(0, 0); print(1, flush=True); "
        "open(sys.argv[2], 'w').close(); time.sleep(1000)"
    )
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    done = run_program([*PYTHON, script, inner, mark, str(ready)], 0.2)
    assert (done.code, done.stdout, done.remaining) == (None, b"1\n", "")
    assert living(mark) == []


def test_one_that_leaves_its_session_holds_up_nobody(mark: str, tmp_path: Path) -> None:
    """It keeps the pipe open; what it wrote until then is there."""
    ready = tmp_path / "ready"
    daemon = f"setsid sh -c 'touch {ready}; exec sleep {mark}'"
    script = f"echo before; {daemon} & until [ -e {ready} ]; do sleep 0.01; done"
    done = run_program(["sh", "-c", script], READY_S)
    try:
        assert (done.code, done.stdout, done.remaining) == (0, b"before\n", "")
    finally:
        wait_until(lambda: bool(living(mark)))
        [daemon] = living(mark)
        os.kill(daemon, signal.SIGKILL)


def test_what_cannot_be_ended_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not ours to kill, or that waits for a disk: here nothing is killed at all."""
    monkeypatch.setattr("harness.target.process_group._GONE_S", 0.2)
    monkeypatch.setattr("harness.target.process_group.os.killpg", lambda *_: None)
    output = CappedBuffer()
    group = ProcessGroup(["sleep", "100"], stdout=output.extend)
    try:
        assert not group.wait(0.1)
        assert group.end() is None
        assert group.leftover == (
            f"still alive 0.2 s after SIGKILL: process {group.pid} (sleep, state S)"
        )
    finally:
        os.kill(group.pid, signal.SIGKILL)
        os.waitpid(group.pid, 0)


def test_a_zombie_counts_as_gone() -> None:
    """Whoever has to reap it may never do so, as the first process of many a container."""
    parent = (
        "import os, subprocess, sys, time; child = subprocess.Popen(['true']);"
        "os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT);"
        "print(child.pid, flush=True); time.sleep(100)"
    )
    output = CappedBuffer()
    group = ProcessGroup([*PYTHON, parent], stdout=output.extend)
    wait_until(lambda: b"\n" in bytes(output))
    members = {each.pid: each for each in session_members(group.pid) or ()}
    assert members[group.pid].is_living
    assert not members[int(bytes(output))].is_living
    assert group.end() == -signal.SIGKILL
    assert group.remaining == ()


def test_a_process_whose_first_thread_has_ended_lives() -> None:
    first = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(100,)).start();"
        "print(1, flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    output = CappedBuffer()
    group = ProcessGroup([*PYTHON, first], stdout=output.extend)
    wait_until(lambda: any(each.state == "Z" for each in session_members(group.pid) or ()))
    [seen] = session_members(group.pid) or ()
    assert seen.is_living
    assert group.end() == -signal.SIGKILL


def test_without_proc_the_group_is_asked_for(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.target.process_group.session_members", lambda _: None)
    monkeypatch.delattr(os, "pidfd_open")
    done = run_program(["sh", "-c", f"sleep {mark} & sleep 100"], 0.5)
    assert (done.code, done.remaining) == (None, "")
    wait_until(lambda: not living(mark))  # it may be a zombie there, of whoever has to reap it
    assert run_program(["sh", "-c", "exit 7"], 20).code == 7


def test_output_without_end_is_read_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_out_once_ready(monkeypatch, tmp_path / "ready")
    script = f"echo first; yes | head -c 9000000; touch {tmp_path}/ready; yes 2>/dev/null"
    done = run_program(["sh", "-c", script], 0.2)
    assert done.code is None
    assert done.stdout.startswith(b"first\ny\n")
    assert done.stdout.endswith(b"y\n")
    assert b" bytes left out]" in done.stdout
    assert len(done.stdout) < 2 << 20


def test_both_outputs_are_apart_and_whole() -> None:
    script = "import sys; sys.stderr.write('e' * 300_000); sys.stdout.write('o' * 300_000)"
    done = run_program([*PYTHON, script], 30)
    assert (done.code, done.stdout, done.stderr) == (0, b"o" * 300_000, b"e" * 300_000)


def test_what_cannot_be_started_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["/nowhere/program"], 1)
    assert subprocess.run(["true"], check=False).returncode == 0  # nothing was left behind
