"""Child processes of a night, each in a process group of its own, with a deadline.

A child that is stuck or crashes harms nobody: its group is ended at the deadline. When this process
is killed, the kernel ends its children (``setpriv --pdeathsig``).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.capped import CappedFile
from harness.files import read_tail
from harness.target.process_group import ProcessGroup, with_death_signal

_ASK_S: Final = 5.0
"""Time that a child has to end by itself once it is asked to."""
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
        self._running: set[ProcessGroup] = set()

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
            deadline_s: Longest time, seconds.
            log: File for all that it writes, head and tail of it.
            output: File for what it writes to standard output, if that is to be apart.
            environment: Variables besides ours.

        Raises:
            OSError: It cannot be started, or the file not be made.
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
        return Ending(child.returncode, expired, stopped, seconds, _tail(log))

    def _wait(self, child: ProcessGroup, deadline_s: float) -> bool:
        """Wait for the end of a child, or ask it to end; whether its time was over."""
        deadline = time.monotonic() + deadline_s
        gone = False
        while not (gone or self._stop.is_set()) and (left := deadline - time.monotonic()) > 0:
            gone = child.wait(min(left, _LOOK_S))
        expired = not (gone or self._stop.is_set())
        if not gone:
            child.signal(signal.SIGTERM)
            child.wait(_ASK_S)
        return expired


def _tail(log: Path) -> str:
    return read_tail(log, _TAIL_BYTES).decode(errors="backslashreplace").strip()
