"""A program that is the target, or emulates it: its output, its end, and that it does end."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Final, Self

from harness.capped import CappedBuffer
from harness.errors import InfrastructureError, TargetError
from harness.link.transports import SerialTransport, SocketTransport
from harness.target.process_group import Drain, bound_to_us, ended_with

_TERMINATE_S: Final = 1.0
_DYING_S: Final = 1.0
"""Time between the end of a program's streams and its own."""
_POLL_S: Final = 0.005
_TAIL_BYTES: Final = 2000
_TAIL_LINES: Final = 10
_OUTPUT_BYTES: Final = 1 << 20


class ChildProcess:
    """A running program.

    Its output is drained while it runs: a pipe that nobody reads would stop it when full. The last
    of it is kept.

    Attributes:
        name: What messages call it.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Start it; the thread that does must outlive it, or it ends with the thread.

        Args:
            name: What messages call it.
            command: The program and its arguments.

        Raises:
            InfrastructureError: It cannot be started.
        """
        if shutil.which(command[0]) is None:
            raise InfrastructureError(f"cannot start {name}: {command[0]} is not a program")
        self.name = name
        self._stdout = CappedBuffer(0, _OUTPUT_BYTES)
        self._stderr = CappedBuffer(0, _TAIL_BYTES)
        try:
            self._process = subprocess.Popen(
                bound_to_us(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise InfrastructureError(f"cannot start {name}: {error}") from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._drain = Drain(
            [
                (self._process.stdout, self._stdout.extend),
                (self._process.stderr, self._stderr.extend),
            ]
        )
        # Also when nobody calls close, at the latest when the interpreter exits.
        self._end = weakref.finalize(self, _end, self._process, self._drain)

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
        self._catch_up()
        return self._stdout.kept

    def tail(self) -> str:
        """Return the last lines it has written to standard error, empty when none."""
        self._catch_up()
        text = self._stderr.kept.decode("utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

    def describe_end(self, wait_s: float = 0.0) -> str | None:
        """Say how it ended and what it said last, or return None while it runs.

        Args:
            wait_s: Time to give it, seconds: a line goes dead a little before its program does.
        """
        code = self.finish(wait_s)
        if code is None:
            return None
        tail = self.tail()
        return f"{self.name} {ended_with(code)}" + (f"; its last words:\n{tail}" if tail else "")

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

    def _catch_up(self) -> None:
        if self._end.alive:
            self._drain.catch_up()


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


def _end(process: subprocess.Popen[bytes], drain: Drain) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    drain.end()
