"""Child processes of a night, each in a process group of its own, with a deadline.

A child that is stuck or crashes harms nobody: its group is ended at the deadline. When this process
is killed, the kernel ends its children (``setpriv --pdeathsig``).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ASK_S: Final = 5.0
"""Time that a child has to end by itself once it is asked to."""
_KILLED_S: Final = 5.0
"""Time until a killed child is gone; one that the kernel cannot end is left to it."""
_LOOK_S: Final = 0.5
"""How often it is asked whether the night is to stop."""
_TAIL_BYTES: Final = 4000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended.

    Attributes:
        code: Its exit status, negative for the signal that ended it; None if it could not be
            started, or would not end.
        expired: It was ended at its deadline.
        stopped: It was ended with the night.
        seconds: How long it ran.
        said: The end of what it wrote.
    """

    code: int | None
    expired: bool
    stopped: bool
    seconds: float
    said: str

    @property
    def text(self) -> str:
        """It in a word or two."""
        if self.stopped:
            return "stopped"
        if self.expired:
            return "deadline"
        if self.code is None:
            return "not started"
        return f"exit {self.code}" if self.code >= 0 else f"signal {-self.code}"


class Children:
    """Starts children, and ends all that are there."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()

    @property
    def stopped(self) -> bool:
        """Whether there are to be no more."""
        return self._stop.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, unless the night is stopped."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        """Have all end, and start no more."""
        self._stop.set()
        with self._lock:
            for child in self._running:
                _signal(child, signal.SIGTERM)

    def run(
        self,
        command: Sequence[str],
        deadline_s: float,
        *,
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ending:
        """Run a program to its end or its deadline.

        Args:
            command: The program and its arguments.
            deadline_s: Longest time, seconds.
            log: File for all that it writes.
            output: File for what it writes to standard output, if that is to be apart.
            environment: Variables besides ours.

        Raises:
            OSError: It cannot be started, or the file not be made.
        """
        began = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            errors = files.enter_context(log.open("wb"))
            written = errors if output is None else files.enter_context(output.open("wb"))
            with self._lock:
                if self._stop.is_set():
                    return Ending(None, False, True, 0.0, "")
                child = subprocess.Popen(
                    _bound_to_us(command),
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=errors,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
                self._running.add(child)
            try:
                expired = self._wait(child, deadline_s)
            finally:
                with self._lock:
                    self._running.discard(child)
        seconds = time.monotonic() - began
        stopped = self._stop.is_set() and child.returncode != 0
        return Ending(child.returncode, expired, stopped, seconds, _tail(log))

    def _wait(self, child: subprocess.Popen[bytes], deadline_s: float) -> bool:
        """Wait for the end of a child, and end its group; whether its time was over."""
        deadline = time.monotonic() + deadline_s
        pidfd = os.pidfd_open(child.pid)
        try:
            gone = False
            while not (gone or self._stop.is_set()) and (left := deadline - time.monotonic()) > 0:
                gone = _ended(pidfd, min(left, _LOOK_S))
            expired = not (gone or self._stop.is_set())
            if not gone:
                _signal(child, signal.SIGTERM)
                _ended(pidfd, _ASK_S)
            # Before it is waited for, so that its group is still its own.
            _signal(child, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_KILLED_S)
        finally:
            os.close(pidfd)
        return expired


def _ended(pidfd: int, timeout_s: float) -> bool:
    """Whether a process ends in time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _bound_to_us(command: Sequence[str]) -> list[str]:
    """Have the kernel kill the program when we are killed and cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv else list(command)


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="backslashreplace").strip()
