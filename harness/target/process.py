"""A program that is the target, or emulates it: its output, its end, and that it does end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Final, Self

from harness.errors import InfrastructureError, TargetError
from harness.link.streams import SerialTransport, SocketTransport

_TERMINATE_S: Final = 1.0
_DYING_S: Final = 1.0
"""Time between the end of a program's streams and its own."""
_POLL_S: Final = 0.005
_TAIL_BYTES: Final = 2000
_TAIL_LINES: Final = 10
_OUTPUT_BYTES: Final = 1 << 20


class ChildProcess:
    """A running program.

    Its output goes to temporary files: a pipe that nobody reads would stop it when full.

    Attributes:
        name: What messages call it.
    """

    def __init__(self, name: str, command: Sequence[str], *, alone: bool = False) -> None:
        """Start it; the thread that does must outlive it, or it ends with the thread.

        Args:
            name: What messages call it.
            command: The program and its arguments.
            alone: In a process group of its own, so that what it has started ends with it.

        Raises:
            InfrastructureError: It cannot be started.
        """
        if shutil.which(command[0]) is None:
            raise InfrastructureError(f"cannot start {name}: {command[0]} is not a program")
        self.name = name
        with contextlib.ExitStack() as files:
            self._stdout = files.enter_context(tempfile.TemporaryFile())
            self._stderr = files.enter_context(tempfile.TemporaryFile())
            try:
                self._process = subprocess.Popen(
                    bound_to_us(command),
                    stdin=subprocess.DEVNULL,
                    stdout=self._stdout,
                    stderr=self._stderr,
                    start_new_session=alone,
                )
            except OSError as error:
                raise InfrastructureError(f"cannot start {name}: {error}") from error
            files = files.pop_all()
        # Also when nobody calls close, at the latest when the interpreter exits.
        self._end = weakref.finalize(self, _end, self._process, files, alone)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_for(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``ready`` says so; False when the program ended or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self._process.poll() is not None or time.monotonic() >= deadline:
                return ready()
            time.sleep(_POLL_S)
        return True

    def finish(self, timeout_s: float) -> int | None:
        """Wait for its end; its exit status, negative for a signal's, or None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode

    def output(self) -> bytes:
        """Return what it has written to standard output, the last MiB of it."""
        return _last_bytes(self._stdout, _OUTPUT_BYTES)

    def tail(self) -> str:
        """Return the last lines it has written to standard error, empty when none."""
        text = _last_bytes(self._stderr, _TAIL_BYTES).decode("utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

    def describe_end(self, wait_s: float = 0.0) -> str | None:
        """Say how it ended and what it said last, or return None while it runs.

        Args:
            wait_s: Time to give it, seconds: a line goes dead a little before its program does.
        """
        code = self.finish(wait_s)
        if code is None:
            return None
        ending = (
            f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with status {code}"
        )
        tail = self.tail()
        return f"{self.name} {ending}" + (f"; its last words:\n{tail}" if tail else "")

    def check_alive(self, wait_s: float = 0.0) -> None:
        """Do nothing while it runs; ``wait_s`` as in `describe_end`.

        Raises:
            TargetError: It has ended.
        """
        if (end := self.describe_end(wait_s)) is not None:
            raise TargetError(end)

    def close(self) -> None:
        """End it: ask, and kill when it does not go."""
        self._end()


class ProcessTarget:
    """A target that is a program of this host.

    Attributes:
        transport: The byte stream to it.
        description: What and where it is, for people.
        pid: Its process id.
    """

    def __init__(
        self, child: ChildProcess, transport: SocketTransport | SerialTransport, description: str
    ) -> None:
        self.transport = transport
        self.description = description
        self.pid = child.pid
        self._child = child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """Do nothing while it runs.

        Raises:
            TargetError: It has ended; the message says how, and what it said last.
        """
        self._child.check_alive(_DYING_S if self.transport.ended else 0.0)

    def console_tail(self) -> str:
        """Return the last lines it has written to standard error."""
        return self._child.tail()

    def close(self) -> None:
        """End it and release the stream; further calls do nothing."""
        self.transport.close()
        self._child.close()


def bound_to_us(command: Sequence[str]) -> list[str]:
    """Have the kernel end the program when we are killed and cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--", *command] if setpriv else list(command)


def _end(process: subprocess.Popen[bytes], files: contextlib.ExitStack, alone: bool) -> None:
    if alone:
        # The group outlives its first process, as long as there is any other.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    elif process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    files.close()


def _last_bytes(file: IO[bytes], count: int) -> bytes:
    if file.closed:
        return b""
    # Not by seeking: the program writes at the offset that the file shares with it.
    descriptor = file.fileno()
    return os.pread(descriptor, count, max(0, os.fstat(descriptor).st_size - count))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
