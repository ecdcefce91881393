"""A device on a line in virtual time that the host talks to while it executes."""

from __future__ import annotations

import ctypes as ct
import threading
from typing import Any

from tests.support.line import Wire, WiredServer

_WAITING_S = 50e-6
"""Time between two looks of a device that waits."""
_LONG_WAITING_S = 2e-3
"""The same when it has looked in vain for a while, to end long waits soon."""
_WHILE = 200
_READINGS = 4
"""A device that waits reads its clock less often between two looks."""


class ListeningServer(WiredServer):
    """A wired device in a thread of its own, which takes turns with the host's.

    A run is one call of the server. When the device looks at its line during a run, the host gets
    its turn once there is something for it, or its own time is over. Operators take no ticks, but
    ``operator_s`` on the line: what comes meanwhile and does not fit into the ring is lost.
    Close it when done.
    """

    def __init__(
        self, library: ct.CDLL, wire: Wire, *, operator_s: float = 50e-6, **memory: int
    ) -> None:
        self._operator_s = operator_s
        self._limit = 0.0
        self._executing = self._closed = False
        self._readings = self._in_vain = 0
        self._error: BaseException | None = None
        self._turn, self._host_turn = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._host_turn.acquire()
        super().__init__(library, wire, **memory)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End its thread; a run that goes on ends first, without the host."""
        self._closed = True
        self._turn.release()
        self._thread.join()

    def work_until(self, limit: float) -> None:
        """Let it work until then, or until the host has something to read."""
        self._limit = limit
        self._turn.release()
        self._host_turn.acquire()
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        self._turn.acquire()
        while not self._closed:
            try:
                super().work_until(self._limit)
            except BaseException as error:
                self._error = error  # raised in the host's thread
            if not self._closed:
                self._host_turn.release()
                self._turn.acquire()

    def _quiet(self, context: int | None, on: bool) -> None:
        super()._quiet(context, on)
        self._executing = on

    def _ticks(self, context: int | None) -> int:
        self._readings += 1
        return super()._ticks(context)

    def _read(self, context: int | None, out: Any, size: int) -> int:
        if self._executing:
            self._look()
        return super()._read(context, out, size)

    def _look(self) -> None:
        waits = self._readings < _READINGS
        self._readings = 0
        if not waits:
            self.now += self._operator_s
        self.arrive()
        self._in_vain = 0 if self._received else self._in_vain + 1
        if waits and not self._received:
            step = _LONG_WAITING_S if self._in_vain > _WHILE else _WAITING_S
            # Not past what may change the other end's mind; nobody takes it when closed.
            arrives = self.arriving[0][0] if self.arriving else float("inf")
            ready = float("inf") if self._closed else self._ready()
            self.now = max(self.now, min(self.now + step, arrives, ready))
        self._hand_over(self.now)
        if not self._closed and (self.now >= self._limit or self._ready() <= self.now):
            self._host_turn.release()
            self._turn.acquire()
