"""Programs whose timeout begins when they are ready, however long a busy machine takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.target.process_group import ProcessGroup

READY_S = 200.0
"""Longest wait for a program to be ready; pytest ends the test soon after."""


def wait_until(event: Callable[[], bool]) -> None:
    """Wait for an event of another process."""
    until = time.monotonic() + READY_S
    while not event():
        assert time.monotonic() < until
        time.sleep(0.01)


def time_out_once_ready(monkeypatch: pytest.MonkeyPatch, ready: Path) -> None:
    """Have the timeout of every program begin when it has created the file ``ready``.

    Killed processes may also take longer to go than on an idle machine.
    """
    wait = ProcessGroup.wait

    def wait_when_ready(group: ProcessGroup, timeout_s: float) -> bool:
        wait_until(lambda: ready.exists() or wait(group, 0))
        return wait(group, timeout_s)

    monkeypatch.setattr(ProcessGroup, "wait", wait_when_ready)
    monkeypatch.setattr("harness.target.process_group._GONE_S", READY_S)
