"""Child processes of a nightly run, each in a process group of its own, with a deadline.

A child that hangs is killed with its group at the deadline. When this process is killed, the kernel
kills its children (``setpriv --pdeathsig``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.capped import CappedFile
from harness.errors import HostError
from harness.files import read_tail
from harness.target.process_group import ProcessGroup, with_death_signal

_ASK_S: Final = 20.0
"""Time between SIGTERM and SIGKILL: a run is ended on its board first, and its trace is read."""
_LOOK_S: Final = 0.5
"""Interval at which a wait checks whether the nightly run is stopped."""
_TAIL_BYTES: Final = 4000
FILES_PER_UNIT: Final = 16
"""Most open files of this process for a unit: pipes and logs of its child, locks of its lease."""
_OTHER_FILES: Final = 64
_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_TRIM_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a child process.

    Attributes:
        code: Exit status, negative for the signal that killed it; None if it could not be started
            or killed.
        expired: Whether it was ended at its deadline.
        stopped: Whether it was ended because the nightly run stopped.
        seconds: How long it ran.
        output: The last part of its output.
    """

    code: int | None
    expired: bool
    stopped: bool
    seconds: float
    output: str

    @property
    def text(self) -> str:
        """A short description, such as ``exit 2``."""
        if self.stopped:
            return "stopped"
        if self.expired:
            return "deadline"
        if self.code is None:
            return "not started"
        return f"exit {self.code}" if self.code >= 0 else f"signal {-self.code}"


def allow_open_files(units: int) -> None:
    """Raise this process's limit of open files, if need be, to what a night of units needs.

    Raises:
        HostError: The host does not allow that many.
    """
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    wanted = _OTHER_FILES + FILES_PER_UNIT * units
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise HostError(
            f"{units} units need {wanted} open files; this host allows {hard} per process",
            hint="raise the limit: `ulimit -Hn`, or LimitNOFILE= of systemd",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def return_memory() -> None:
    """Have glibc give freed memory to all threads and back to the system; others do as they do.

    By default each thread has an arena of its own, and none reuses what is free in another's: the
    process of a long night grew by megabytes which nothing held.
    """
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


class Children:
    """Starts child processes, and ends all of them on ``stop``."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._running: set[ProcessGroup] = set()

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stop.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the nightly run is stopped."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        """Send SIGTERM to all children, and start no more."""
        self._stop.set()
        with self._lock:
            for child in self._running:
                child.signal(signal.SIGTERM)

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
            deadline_s: Timeout, seconds.
            log: File for the head and tail of its output.
            output: File for its standard output; None to write it to ``log``.
            environment: Variables to add to this process's environment.

        Raises:
            OSError: The program cannot be started, or a file cannot be created.
        """
        began = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            errors = files.enter_context(CappedFile(log))
            written = errors if output is None else files.enter_context(CappedFile(output))
            with self._lock:
                if self._stop.is_set():
                    return Ending(None, False, True, 0.0, "")
                child = ProcessGroup(
                    with_death_signal(command, "KILL"),
                    stdout=written.write,
                    stderr=None if written is errors else errors.write,
                    env={**os.environ, **(environment or {})},
                )
                self._running.add(child)
            try:
                expired = self._wait(child, deadline_s)
            finally:
                with self._lock:
                    self._running.discard(child)
                child.end()
            if child.leftover:
                errors.write(f"{child.leftover}\n".encode())
        seconds = time.monotonic() - began
        stopped = self._stop.is_set() and child.returncode != 0
        tail = read_tail(log, _TAIL_BYTES).decode(errors="backslashreplace").strip()
        return Ending(child.returncode, expired, stopped, seconds, tail)

    def _wait(self, child: ProcessGroup, deadline_s: float) -> bool:
        """Wait for the end of a child, or send SIGTERM; return whether it timed out."""
        deadline = time.monotonic() + deadline_s
        gone = False
        while not (gone or self._stop.is_set()) and (left := deadline - time.monotonic()) > 0:
            gone = child.wait(min(left, _LOOK_S))
        expired = not (gone or self._stop.is_set())
        if not gone:
            child.signal(signal.SIGTERM)
            child.wait(_ASK_S)
        return expired
