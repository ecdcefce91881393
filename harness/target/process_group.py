"""Runs programs in their own session: ends them with all their children, and drains their output.

Children stay in the program's session, even in process groups of their own as created by `timeout`
and shells, unless they call setsid() as daemons do.

Windows has no sessions of this kind. There, a program is ended with the tree of its children, which
`taskkill` finds by their parents: a child whose parent has ended before is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from harness.files import CappedBuffer
from harness.interrupts import deferred, signal_name

Sink = Callable[[bytes], object]
"""Called with a program's output, from another thread."""

_DRAIN_S: Final = 1.0
"""Longest wait for the rest of the output of an ended program; normally much less."""
_QUIET_S: Final = 0.05
"""Time without output after which a `ThreadedDrain` counts as caught up."""
_READ_SIZE: Final = 1 << 18


class Drain(Protocol):
    """Reads pipes until they end."""

    def catch_up(self) -> None:
        """Wait until all output written so far has been read."""
        ...

    def end(self) -> None:
        """Read the remaining output and stop: an escaped child may keep a pipe open forever."""
        ...


def start_drain(pipes: Sequence[tuple[IO[bytes], Sink]]) -> Drain:
    """Start to read pipes, each into its sink."""
    # Windows can wait for sockets only; it has no poll().
    return SelectingDrain(pipes) if hasattr(select, "poll") else ThreadedDrain(pipes)


class SelectingDrain:
    """Reads all pipes in one thread, which another pipe wakes."""

    def __init__(self, pipes: Sequence[tuple[IO[bytes], Sink]]) -> None:
        self._sinks = {pipe.fileno(): sink for pipe, sink in pipes}
        self._pipes = [pipe for pipe, _ in pipes]
        self._wake_read, self._wake = os.pipe()
        self._selector = selectors.DefaultSelector()
        for file in (*self._sinks, self._wake_read):
            self._selector.register(file, selectors.EVENT_READ)
        self._ending = False
        self._caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Wait until all output written so far has been read."""
        self._caught_up.clear()
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._wake, b"?")
        if self._thread.is_alive():
            self._caught_up.wait(_DRAIN_S)

    def end(self) -> None:
        """Read the remaining output and stop: an escaped child may keep a pipe open forever."""
        self._ending = True
        self.catch_up()
        self._thread.join(_DRAIN_S)
        if self._thread.is_alive():
            return  # a sink blocks, as on a lost disk; the thread still owns its pipes
        self._selector.close()
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
            ready = [key.fd for key, _ in self._selector.select(0 if asked else None)]
            for file in ready:
                if file in self._sinks:
                    if data := _read_some(file):
                        self._sinks[file](data)
                    else:
                        self._selector.unregister(file)
                        del self._sinks[file]
                elif os.read(self._wake_read, 64) and not asked:
                    asked = time.monotonic()
            # All output is read, or a writer never stops.
            if asked and (not ready or time.monotonic() > asked + _DRAIN_S / 2):
                asked = 0.0
                self._caught_up.set()
                if self._ending:
                    return
        self._caught_up.set()


class ThreadedDrain:
    """Reads each pipe in a thread of its own, where pipes cannot be waited for.

    How much has been written is unknown then: it has caught up when no output came for a moment.
    """

    def __init__(self, pipes: Sequence[tuple[IO[bytes], Sink]]) -> None:
        self._last = time.monotonic()
        self._threads = []
        for pipe, sink in pipes:
            thread = threading.Thread(
                target=self._run, args=(pipe, sink), name="drain", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def catch_up(self) -> None:
        """Wait until no output has come for a moment."""
        began = time.monotonic()
        while any(thread.is_alive() for thread in self._threads):
            now = time.monotonic()
            if now - max(began, self._last) >= _QUIET_S or now - began >= _DRAIN_S:
                return
            time.sleep(_QUIET_S / 10)

    def end(self) -> None:
        """Read the remaining output; a thread whose pipe a child keeps open is left behind."""
        deadline = time.monotonic() + _DRAIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, pipe: IO[bytes], sink: Sink) -> None:
        with pipe:
            while data := _read_some(pipe.fileno()):
                sink(data)
                self._last = time.monotonic()


def _read_some(file: int) -> bytes:
    """Read what a pipe has; b"" at its end."""
    try:
        return os.read(file, _READ_SIZE)
    except OSError:
        return b""


_log = logging.getLogger(__name__)

_GONE_S: Final = 5.0
"""Longest wait for killed processes; only processes blocked in the kernel take longer."""
_POLL_S: Final = 0.002
_LONGEST_POLL_S: Final = 0.05
_STAT_FIELDS: Final = 20
_DEAD: Final = ("Z", "X", "x")
_SIGKILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Windows has no SIGKILL."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a session, as ``/proc`` shows it."""

    pid: int
    name: str
    state: str
    group: int
    session: int
    threads: int
    started: int = 0
    """Kernel ticks since boot; tells it from a later process with the same id."""

    @property
    def is_living(self) -> bool:
        """Whether any thread of it runs. A zombie holds no resources.

        The first thread of a process may be a zombie while others run.
        """
        return self.state not in _DEAD or self.threads > 1

    def __str__(self) -> str:
        """Process id, name and state, for messages."""
        return f"process {self.pid} ({self.name}, state {self.state})"


class ProcessGroup:
    """A running program in a session of its own.

    Attributes:
        pid: Its process id, which is also the id of its session and group.
        returncode: Its exit status (negative: signal); None before `end`.
        remaining: Processes that were still alive when `end` gave up.
        leftover: These in words; "" if there are none.
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
            stdout: Called with its standard output.
            stderr: Called with its standard error; None for ``stdout``.
            cwd: Its working directory; None for ours.
            env: Its environment; None for ours.

        Raises:
            OSError: It cannot be started.
        """
        self.remaining: tuple[Process, ...] = ()
        self.leftover = ""
        self._ended = False
        started = False
        try:
            # An interrupt in here would leave a process that nobody knows.
            with deferred():
                # Not as a context manager, which would wait for its end without a timeout.
                self._process: subprocess.Popen[Any] = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if stderr is None else subprocess.PIPE,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,  # has no effect on Windows
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
                self.pid = self._process.pid
                pipes = [(self._process.stdout, stdout), (self._process.stderr, stderr)]
                self._drain = start_drain([(pipe, sink) for pipe, sink in pipes if pipe and sink])
                started = True
        except KeyboardInterrupt:
            if started:
                self.end()
            raise

    @property
    def returncode(self) -> int | None:
        """Its exit status (negative: signal); None before `end`."""
        return self._process.returncode

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the program itself; return whether it has ended."""
        if self._process.returncode is not None:
            return True
        try:
            # poll() does not reap it, so no other process can get its group id meanwhile.
            file = _pidfd_open(self.pid)
        except OSError:  # not Linux, or an old kernel
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, timeout_s))
            return self._process.returncode is not None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(file, selectors.EVENT_READ)
                return bool(selector.select(max(0.0, timeout_s)))
        finally:
            os.close(file)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group; on Windows a Ctrl-Break, whatever the signal."""
        if self._ended:
            return
        if killpg := _killpg():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                killpg(self.pid, number)
            return
        with contextlib.suppress(OSError):
            self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", number))

    def catch_up(self) -> None:
        """Wait until the sinks have all output written so far."""
        if not self._ended:
            self._drain.catch_up()

    def end(self) -> int | None:
        """Kill the program and all its children, and wait until they are gone.

        Returns:
            Its exit status; None if the kernel cannot end it. Surviving processes are logged and
            stored in ``remaining``.
        """
        # Another Ctrl-C waits: what still runs would write on, and its lock would be free.
        with deferred():
            if self._ended:
                return self._process.returncode
            deadline = time.monotonic() + _GONE_S
            pause = _POLL_S
            while True:
                self._kill()
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
                names = ", ".join(map(str, left))
                self.leftover = f"still alive {_GONE_S:g} s after SIGKILL: {names}"
                _log.warning("%s", self.leftover)
            return self._process.returncode

    def _kill(self) -> None:
        """Kill its group; on Windows the tree of its children."""
        if _killpg():
            self.signal(_SIGKILL)
            return
        # By process id, so only while it runs: another process may have the id of an ended one.
        if self._process.poll() is None and (taskkill := shutil.which("taskkill")):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                command = [taskkill, "/PID", str(self.pid), "/T", "/F"]
                subprocess.run(command, capture_output=True, timeout=_GONE_S, check=False)
        with contextlib.suppress(OSError):
            self._process.kill()

    def _left(self) -> list[Process]:
        """Return its living processes; kill those in other process groups of its session."""
        members = session_members(self.pid)
        if members is None:  # no /proc: a group of zombies looks like a living one
            if not self.wait(0):
                return [Process(self.pid, "unknown", "?", self.pid, self.pid, 1)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0)
            killpg = _killpg()
            if killpg is None:
                return []
            try:
                killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return []
            return [Process(self.pid, "its group", "?", self.pid, self.pid, 1)]
        living = [process for process in members if process.is_living]
        for process in living:
            if process.group != self.pid:
                _kill(process)
        return living


def session_members(session: int) -> list[Process] | None:
    """Return the processes of a session, or of the group with that id; None without ``/proc``."""
    if read_process(os.getpid()) is None:
        return None
    members = []
    for name in os.listdir("/proc"):  # noqa: PTH208  iterdir() would create a Path per process
        process = read_process(int(name)) if name.isdigit() else None
        if process is not None and session in (process.session, process.group):
            members.append(process)
    return members


def read_process(pid: int) -> Process | None:
    """Return a process of this host; None if it does not exist, or without ``/proc``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program name, which may contain spaces and parentheses.
    front, _, rest = stat.rpartition(b")")
    fields = rest.decode().split()
    if len(fields) < _STAT_FIELDS:
        return None
    name = front.partition(b"(")[2].decode(errors="backslashreplace")
    numbers = (int(fields[at]) for at in (2, 3, 17, 19))
    return Process(pid, name, fields[0], *numbers)


def _kill(process: Process) -> None:
    """Kill a process, but not a later one with the same id."""
    with contextlib.suppress(OSError):
        file = _pidfd_open(process.pid)
        try:
            again = read_process(process.pid)
            if again is not None and again.session == process.session:
                send: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
                if send is not None:
                    send(file, _SIGKILL)
        finally:
            os.close(file)


def _killpg() -> Callable[[int, int], None] | None:
    """Return the function that signals a process group; None on Windows."""
    return getattr(os, "killpg", None)


def _pidfd_open(pid: int) -> int:
    """Return a descriptor of a process.

    Raises:
        OSError: It does not exist, or this system has no such descriptors.
    """
    open_: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if open_ is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return open_(pid)


def with_death_signal(command: Sequence[str], number: str = "TERM") -> list[str]:
    """Return a command that the kernel ends by a signal when this process is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", number, "--", *command] if setpriv else list(command)


def exit_text(code: int) -> str:
    """Return how a program ended, from its exit status, for messages."""
    return f"exited with status {code}" if code >= 0 else f"was killed by {signal_name(-code)}"


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """Exit status and output of a program.

    Attributes:
        code: Its exit status (negative: signal); None if it timed out.
        stdout: Its standard output; only head and tail if it was too long.
        stderr: Its standard error, likewise.
        remaining: Processes that survived SIGKILL, in words; "" if there are none.
    """

    code: int | None
    stdout: bytes
    stderr: bytes
    remaining: str = ""

    @property
    def output(self) -> str:
        """Standard output followed by standard error, as text."""
        return (self.stdout + self.stderr).decode("utf-8", "backslashreplace")

    @property
    def how(self) -> str:
        """How it ended, for messages."""
        if self.code is None:
            return "timed out"
        return exit_text(self.code)

    @property
    def remains(self) -> str:
        """End of a message: processes that survived SIGKILL, or ""."""
        return f"; {self.remaining}" if self.remaining else ""


def run_program(
    command: Sequence[str],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> ProgramEnd:
    """Run a program to its end; kill it with all its children after a timeout.

    Args:
        command: The program and its arguments.
        timeout_s: Timeout, seconds.
        cwd: Its working directory; None for ours.
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
    return ProgramEnd(code if in_time else None, bytes(stdout), bytes(stderr), group.leftover)
