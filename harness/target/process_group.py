"""Programs that end with all that they have started, and whose output is drained while they run.

A program gets a session of its own. What it starts stays in that session, also in a process group
of its own, as `timeout` and shells make them, unless it asks for another one (a daemon does).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from harness.capped import CappedBuffer

_log = logging.getLogger(__name__)

Sink = Callable[[bytes], object]
"""Takes what a program has written; called from another thread."""

_GONE_S: Final = 5.0
"""Time until what was killed is gone; longer only takes what the kernel cannot end now."""
_DRAIN_S: Final = 1.0
"""Time to read what has been written when a program has ended; it takes next to none."""
_POLL_S: Final = 0.002
_LONGEST_POLL_S: Final = 0.05
_READ_SIZE: Final = 1 << 18
_STAT_FIELDS: Final = 18
_DEAD: Final = ("Z", "X", "x")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a session, as ``/proc`` shows it."""

    pid: int
    name: str
    state: str
    group: int
    session: int
    threads: int

    @property
    def is_living(self) -> bool:
        """Whether anything of it runs: a zombie holds nothing, whoever has yet to reap it.

        The first thread of a process may be a zombie while others run.
        """
        return self.state not in _DEAD or self.threads > 1

    def __str__(self) -> str:
        """It as a message names it."""
        return f"process {self.pid} ({self.name}, state {self.state})"


class Drain:
    """Reads pipes in a thread until they end, so that whoever writes into them never waits."""

    def __init__(self, pipes: Sequence[tuple[IO[bytes], Sink]]) -> None:
        self._sinks = {pipe.fileno(): sink for pipe, sink in pipes}
        self._pipes = [pipe for pipe, _ in pipes]
        self._wake_read, self._wake = os.pipe()
        self._poll = select.poll()
        for file in (*self._sinks, self._wake_read):
            os.set_blocking(file, False)
            self._poll.register(file, select.POLLIN)
        self._ending = False
        self._caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Wait until all that has been written by now is read."""
        self._caught_up.clear()
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._wake, b"?")
        if self._thread.is_alive():
            self._caught_up.wait(_DRAIN_S)

    def end(self) -> None:
        """Read what is there still, and no more: whoever escaped may keep a pipe open for ever."""
        self._ending = True
        self.catch_up()
        self._thread.join(_DRAIN_S)
        if self._thread.is_alive():
            return  # a sink hangs, as on a disk that is gone: what it reads from stays its own
        for file in (self._wake, self._wake_read):
            with contextlib.suppress(OSError):
                os.close(file)
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []
        self._wake = self._wake_read = -1

    def _run(self) -> None:
        asked = 0.0
        while self._sinks:
            ready = [file for file, _ in self._poll.poll(0 if asked else None)]
            for file in ready:
                if file in self._sinks:
                    self._read(file)
                elif os.read(self._wake_read, 64) and not asked:
                    asked = time.monotonic()
            # Nothing more is there; or somebody writes without end.
            if asked and (not ready or time.monotonic() > asked + _DRAIN_S / 2):
                asked = 0.0
                self._caught_up.set()
                if self._ending:
                    return
        self._caught_up.set()

    def _read(self, file: int) -> None:
        try:
            data = os.read(file, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._sinks[file](data)
        else:
            self._poll.unregister(file)
            del self._sinks[file]


class ProcessGroup:
    """A running program in a session of its own.

    Attributes:
        pid: Its process id, which is also that of its session and group.
        returncode: Its exit status, negative for a signal's; None until `end` has seen it.
        remaining: What was still there when `end` gave up.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: Sink,
        stderr: Sink | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            command: The program and its arguments.
            stdout: Takes what it writes to standard output.
            stderr: Takes what it writes to standard error; None for ``stdout``.
            cwd: Where it runs; None for here.
            env: Its environment; None for ours.

        Raises:
            OSError: It cannot be started.
        """
        self.remaining: tuple[Process, ...] = ()
        # Not a context manager: its end is ours to wait for, with a deadline.
        self._process: subprocess.Popen[Any] = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if stderr is None else subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        self.pid = self._process.pid
        pipes = [(self._process.stdout, stdout), (self._process.stderr, stderr)]
        self._drain = Drain([(pipe, sink) for pipe, sink in pipes if pipe and sink])
        self._ended = False

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal's; None before its end was seen by `end`."""
        return self._process.returncode

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the program itself; whether it has ended."""
        if self._process.returncode is not None:
            return True
        try:
            # It is not reaped: until then nobody else gets the number of its group.
            file = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or one that is old
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, timeout_s))
            return self._process.returncode is not None
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            return bool(poll.poll(max(0.0, timeout_s) * 1000))
        finally:
            os.close(file)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def catch_up(self) -> None:
        """Wait until the sinks have all that was written by now."""
        if not self._ended:
            self._drain.catch_up()

    def end(self) -> int | None:
        """Kill what is left of it and all it started, and wait until nothing of that is left.

        Returns:
            Its exit status; None if the kernel cannot end it. What is left then, ``remaining``
            says, and the log.
        """
        if self._ended:
            return self._process.returncode
        deadline = time.monotonic() + _GONE_S
        pause = _POLL_S
        while True:
            self.signal(signal.SIGKILL)
            left = self._left()
            if not left or time.monotonic() >= deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL_S)
        self._ended = True
        self.remaining = tuple(left)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(_POLL_S, deadline - time.monotonic()))
        self._drain.end()
        if left:
            _log.warning("%s", self.complaint)
        return self._process.returncode

    @property
    def complaint(self) -> str:
        """What remains of it although it was killed; "" for nothing."""
        left = ", ".join(map(str, self.remaining))
        return f"still there {_GONE_S:g} s after being killed: {left}" if left else ""

    def _left(self) -> list[Process]:
        """What still lives of it; what is in another group of its session is killed at once."""
        found = session_members(self.pid)
        if found is None:  # there is no /proc: a group of zombies looks like one that lives
            if not self.wait(0):
                return [Process(self.pid, "unknown", "?", self.pid, self.pid, 1)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0)
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return []
            return [Process(self.pid, "its group", "?", self.pid, self.pid, 1)]
        living = [process for process in found if process.is_living]
        for process in living:
            if process.group != self.pid:
                _kill(process)
        return living


def session_members(session: int) -> list[Process] | None:
    """Processes of a session, or of the group of that number; None where there is no ``/proc``."""
    if _read_stat(os.getpid()) is None:
        return None
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208  paths of all processes would be made for it
        process = _read_stat(int(name)) if name.isdigit() else None
        if process is not None and session in (process.session, process.group):
            found.append(process)
    return found


def _read_stat(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is a name, which may hold anything; the rest are numbers.
    front, _, rest = stat.rpartition(b")")
    fields = rest.decode().split()
    if len(fields) < _STAT_FIELDS:
        return None
    name = front.partition(b"(")[2].decode(errors="backslashreplace")
    numbers = (int(fields[at]) for at in (2, 3, 17))
    return Process(pid, name, fields[0], *numbers)


def _kill(process: Process) -> None:
    """Kill that very process, not one that has got its number since."""
    with contextlib.suppress(AttributeError, OSError):
        file = os.pidfd_open(process.pid)
        try:
            again = _read_stat(process.pid)
            if again is not None and again.session == process.session:
                signal.pidfd_send_signal(file, signal.SIGKILL)
        finally:
            os.close(file)


def bound_to_us(command: Sequence[str], number: str = "TERM") -> list[str]:
    """Have the kernel end the program by a signal when we are killed and cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", number, "--", *command] if setpriv else list(command)


def ended_with(code: int) -> str:
    """How a program ended, by its exit status, for a message."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended that was run to its end.

    Attributes:
        code: Its exit status, negative for a signal's; None if it was ended at its deadline.
        stdout: What it wrote to standard output; with head and tail only where it had no end.
        stderr: What it wrote to standard error, likewise.
        remaining: What is left of it although it was killed, in words; "" for nothing.
    """

    code: int | None
    stdout: bytes
    stderr: bytes
    remaining: str = ""

    @property
    def output(self) -> str:
        """All that it wrote as text, errors last."""
        return (self.stdout + self.stderr).decode("utf-8", "backslashreplace")

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        if self.code is None:
            return "had not ended after its deadline"
        return ended_with(self.code)

    @property
    def remains(self) -> str:
        """The end of a message: what is left of it, if anything is."""
        return f"; {self.remaining}" if self.remaining else ""


def run_program(
    command: Sequence[str],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> ProgramEnd:
    """Run a program to its end, or end it and all it started at a deadline.

    Args:
        command: The program and its arguments.
        timeout_s: How long it may take, seconds.
        cwd: Where it runs; None for here.
        env: Its environment; None for ours.

    Raises:
        OSError: It cannot be started.
    """
    stdout, stderr = CappedBuffer(), CappedBuffer()
    group = ProcessGroup(command, stdout=stdout.extend, stderr=stderr.extend, cwd=cwd, env=env)
    try:
        in_time = group.wait(timeout_s)
    finally:
        code = group.end()
    return ProgramEnd(code if in_time else None, bytes(stdout), bytes(stderr), group.complaint)
