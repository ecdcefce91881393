"""Children of a night: ended at their deadlines with all that they started, whatever they do."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.extensions.lab.nightly.commands import Children
from harness.extensions.lab.nightly.worker import Ending

PYTHON = [sys.executable, "-c"]


def run(tmp_path: Path, script: str, deadline_s: float = 60.0) -> Ending:
    return Children().run([*PYTHON, script], deadline_s, log=tmp_path / "a" / "log")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("print('hello')", 0, "exit 0"),
        ("import sys; sys.exit(76)", 76, "exit 76"),
        ("import os; os.kill(os.getpid(), 11)", -11, "signal 11"),
    ],
)
def test_it_says_how_a_child_ended(tmp_path: Path, script: str, code: int, text: str) -> None:
    ending = run(tmp_path, script)
    assert (ending.code, ending.text, ending.expired) == (code, text, False)


def test_it_keeps_what_a_child_wrote(tmp_path: Path) -> None:
    ending = run(tmp_path, "import sys; print('x' * 9000); print('end \\xff', file=sys.stderr)")
    assert ending.output.endswith("end \xff") or "end" in ending.output
    assert len(ending.output) <= 4100
    assert (tmp_path / "a" / "log").stat().st_size > 9000


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(1000)
"""


@pytest.mark.slow
def test_a_child_that_is_stuck_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.extensions.lab.nightly.commands._ASK_S", 0.1)
    pids = tmp_path / "pids"
    command = [*PYTHON, STUBBORN, str(pids)]
    children = Children()
    ended: list[Ending] = []
    thread = threading.Thread(
        target=lambda: ended.append(children.run(command, 5.0, log=tmp_path / "log"))
    )
    thread.start()
    while not (pids.exists() and pids.read_text().count(" ")):
        time.sleep(0.01)
    found = [int(pid) for pid in pids.read_text().split()]
    assert all(map(alive, found))
    thread.join()
    assert ended[0].expired
    assert ended[0].text == "deadline"
    deadline = time.monotonic() + 600
    while any(map(alive, found)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_children_end_with_the_night_and_none_begins_then(tmp_path: Path) -> None:
    children = Children()
    ended: list[Ending] = []
    ready = tmp_path / "ready"
    script = f"open({str(ready)!r}, 'w').close(); import time; time.sleep(1000)"

    def work(name: str) -> None:
        ended.append(children.run([*PYTHON, script], 600.0, log=tmp_path / name))

    thread = threading.Thread(target=work, args=("one",))
    thread.start()
    while not ready.exists():
        time.sleep(0.01)
    children.stop()
    thread.join()
    assert (ended[0].stopped, ended[0].expired, ended[0].text) == (True, False, "stopped")
    work("two")
    assert ended[1].stopped
    assert children.stopped
    began = time.monotonic()
    children.sleep(100)
    assert time.monotonic() - began < 50


def test_what_cannot_be_started_is_an_error_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Children().run([*PYTHON, ""], 1.0, log=tmp_path / "file" / "log")


def test_variables_are_passed_on(tmp_path: Path) -> None:
    script = "import os; print(os.environ['NIGHT'], os.getsid(0) == os.getpid())"
    children = Children()
    place = tmp_path / "out"
    command = [*PYTHON, script]
    children.run(command, 60.0, log=tmp_path / "log", output=place, environment={"NIGHT": "12"})
    assert place.read_text().split() == ["12", "True"]
    assert "NIGHT" not in os.environ
