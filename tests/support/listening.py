"""A device on a line in virtual time that the host talks to while it executes."""

from __future__ import annotations

import ctypes as ct
import threading
from typing import Any

from tests.support.line import Wire, WiredServer

_OPERATOR_S = 50e-6
"""Time that passes when the device looks at its line and nothing has come."""
_LONG_S = 2e-3
"""The same when it has looked in vain for a while: then it waits."""
_WHILE = 200


class ListeningServer(WiredServer):
    """A wired device in a thread of its own, which takes turns with the host's.

    A run is one call of the server. When the device looks at its line during a run, the host gets
    its turn once there is something for it, or its own time is over. Close it when done.

    Attributes:
        looks: How often it has looked at its line during runs.
    """

    def __init__(self, library: ct.CDLL, wire: Wire, **memory: int) -> None:
        self.looks = 0
        self._limit = 0.0
        self._executing = self._closed = False
        self._vain = 0
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
        while True:
            self._turn.acquire()
            if self._closed:
                return
            try:
                super().work_until(self._limit)
            except BaseException as error:
                self._error = error
            if not self._closed:
                self._host_turn.release()

    def _quiet(self, context: int | None, on: bool) -> None:
        super()._quiet(context, on)
        self._executing = on

    def _read(self, context: int | None, out: Any, size: int) -> int:
        if self._executing:
            self._look()
        return super()._read(context, out, size)

    def _look(self) -> None:
        self.looks += 1
        self.arrive()
        if self._received:
            self._vain = 0
            return
        self._vain += 1
        self.now += _LONG_S if self._vain > _WHILE else _OPERATOR_S
        self._hand_over(self.now)
        if not self._closed and (self.now >= self._limit or self._ready() <= self.now):
            self._host_turn.release()
            self._turn.acquire()
