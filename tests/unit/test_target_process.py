"""Programs as targets: their output, their end, and what is said of it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from harness import TargetError, UsageError
from harness.target.start import ProcessTarget


def python(code: str) -> ProcessTarget:
    return ProcessTarget("the program", [sys.executable, "-c", code])


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_output_is_there_while_it_runs() -> None:
    child = python("import time; print('link: x', flush=True); time.sleep(60)")
    assert child.wait_for(lambda: b"link: x\n" in child.output(), 10)
    child.check_alive()
    child.close()
    assert gone(child.pid)
    assert child.output() == b"link: x\n"


def test_output_nobody_reads_does_not_stop_it() -> None:
    child = python("print('x' * 3_000_000); import sys; sys.exit(3)")
    assert child.describe_end(10) == "the program exited with status 3"
    assert len(child.output()) == 1 << 20
    child.close()


def test_the_end_is_described_with_the_last_words() -> None:
    child = python("import sys; sys.stderr.write('\\n'.join(map(str, range(50)))); sys.exit(7)")
    child.finish(10)
    with pytest.raises(TargetError) as caught:
        child.check_alive()
    first, *words = caught.value.message.splitlines()
    assert first == "the program exited with status 7; its last output:"
    assert words == [str(number) for number in range(40, 50)]
    child.close()


def test_a_signal_is_named() -> None:
    child = python("import os; os.abort()")
    assert child.describe_end(10) == "the program was killed by SIGABRT"
    child.close()


def test_waiting_stops_when_it_ends() -> None:
    child = python("pass")
    assert not child.wait_for(lambda: False, 1000)  # longer than a test may take
    child.close()


@pytest.mark.attack("Host and signals", "a simulator that ignores SIGTERM", "killed")
@pytest.mark.slow
def test_one_that_ignores_sigterm_is_killed() -> None:
    child = python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(60)"
    )
    assert child.wait_for(lambda: b"ready" in child.output(), 10)
    child.close()
    assert gone(child.pid)


def test_a_stopped_one_is_killed() -> None:
    child = python("import time; time.sleep(60)")
    os.kill(child.pid, signal.SIGSTOP)
    child.close()
    assert gone(child.pid)


@pytest.mark.slow
def test_one_that_is_forgotten_ends_too() -> None:
    child = python("import time; time.sleep(60)")
    pid = child.pid
    del child
    gc.collect()
    assert gone(pid)


@pytest.mark.attack(
    "Host and signals", "kill -9 of a command with a simulator", "the simulator ends"
)
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.slow
def test_one_whose_parent_is_killed_ends_too() -> None:
    parent = python(
        "import os, signal, sys\n"
        "from harness.target.start import ProcessTarget\n"
        "child = ProcessTarget('it', [sys.executable, '-c', "
        "'import time; print(1, flush=True); time.sleep(60)'])\n"
        "assert child.wait_for(lambda: child.output() != b'', 10)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert parent.describe_end(20) == "the program was killed by SIGKILL"
    pid = int(parent.output())
    deadline = time.monotonic() + 300
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(pid)
    parent.close()


def test_one_that_cannot_be_started() -> None:
    with pytest.raises(UsageError, match="program /nowhere/program not found"):
        ProcessTarget("the program", ["/nowhere/program"])
