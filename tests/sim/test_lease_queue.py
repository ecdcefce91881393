"""Processes that stand in line for one unit: their order, what is said of it, and who loses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CommandResult
from tests.support.documents import document

Etharness = Callable[..., CommandResult]
HERE = os.uname().nodename
UNITS = """\
schema = 1
[[unit]]
id = "nucleo-7"
board = "native"
port = "socket://bench:4001"
"""
WAITER = """
import logging, sys
from harness.config.unit import find_unit
from harness.extensions.lab.holding import hold

logging.basicConfig(stream=sys.stdout, format="%(message)s")
with hold(find_unit("nucleo-7"), reason=sys.argv[1], timeout_s=120) as lease:
    lease.expect(300)
    print("held", flush=True)
    sys.stdin.readline()
"""


class Waiting:
    """A process that waits for the unit, and holds it until it is told to go on."""

    def __init__(self, reason: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITER, reason],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def said(self, beginning: str) -> str:
        """The next line that begins so; others in between are passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line
        raise AssertionError(f"it ended without saying {beginning!r}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    (tmp_path / "units.toml").write_text(UNITS)
    monkeypatch.setenv("ETHARNESS_UNITS", str(tmp_path / "units.toml"))
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("ETHARNESS_OWNER", "ada")
    monkeypatch.delenv("ETHARNESS_LEASE", raising=False)
    with ExitStack() as stack:
        yield stack


@pytest.mark.long
def test_a_line_of_processes(
    lab: ExitStack, etharness: Etharness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def status(count: int) -> dict[str, Any]:
        """The unit, once so many wait for it."""
        while True:
            [unit] = document("lab-status", etharness("lab", "status", "--json").out)
            if len(unit["waiting"]) == count:
                return dict(unit)
            time.sleep(0.05)

    def waiting(reason: str, place: str) -> Waiting:
        waiter = Waiting(reason)
        lab.callback(waiter.end)
        said = waiter.said(
            f"{place} in line for unit 'nucleo-7'; held by nightly a (ada on {HERE})"
        )
        assert "until ~" in said
        assert said.endswith("; waiting up to 120 s\n")
        return waiter

    assert "free" in etharness("lab", "status").out
    night = Waiting("nightly a")
    lab.callback(night.end)
    night.said("held")
    killed = waiting("nightly b", "first")
    person = waiting("soldering", "second")
    stopped = waiting("a walk", "third")
    last = waiting("nightly c", "fourth")
    unit = status(4)
    assert [each["reason"] for each in unit["waiting"]] == [
        *("nightly b", "soldering"),
        *("a walk", "nightly c"),
    ]
    assert [each["place"] for each in unit["waiting"]] == [1, 2, 3, 4]
    [holder] = unit["holders"]
    assert (holder["reason"], holder["pid"]) == ("nightly a", night.process.pid)
    assert holder["expected_utc"] > holder["since_utc"]
    shown = etharness("lab", "status").out
    assert shown.index("(nightly a)") < shown.index("(soldering)") < shown.index("(nightly c)")
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    code, _, err = etharness("lab", "lease", "nucleo-7", "--for=1h", "--wait=1s")
    assert code == 75  # its place is behind those who came first
    assert "fifth in line" in err

    killed.process.send_signal(signal.SIGKILL)
    stopped.process.send_signal(signal.SIGSTOP)
    night.go_on()
    person.said("held")
    status(2)
    person.go_on()
    last.said("held")  # the stopped one did not take its turn
    assert not status(0)["waiting"]
    stopped.process.send_signal(signal.SIGCONT)
    assert status(1)["waiting"][0]["reason"] == "a walk"  # it stands in line again
    last.go_on()
    stopped.said("held")
    assert sorted(tmp_path.glob("locks/queue.*")) == []
