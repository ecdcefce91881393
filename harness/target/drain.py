"""Drains the output of running programs, so that they never block on a full pipe."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final, Protocol

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
                    self._read(file)
                elif os.read(self._wake_read, 64) and not asked:
                    asked = time.monotonic()
            # All output is read, or a writer never stops.
            if asked and (not ready or time.monotonic() > asked + _DRAIN_S / 2):
                asked = 0.0
                self._caught_up.set()
                if self._ending:
                    return
        self._caught_up.set()

    def _read(self, file: int) -> None:
        data = _read_some(file)
        if data:
            self._sinks[file](data)
        else:
            self._selector.unregister(file)
            del self._sinks[file]


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
