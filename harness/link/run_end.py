"""Waits for the end of a run, or brings it about; the run may be that of an earlier session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.link.exchange import Exchange, FrameDamage
from harness.link.frames import Frame
from harness.link.messages import (
    MalformedBodyError,
    cancel_request,
    parse_done,
    parse_empty,
    parse_progress,
    parse_status,
)
from harness.link.values import RunNote
from harness.link.wire import RESPONSE, Op, State

_CANCEL_INTERVAL_S: Final = 0.1
"""Interval of CANCELs. A UART without a FIFO receives none during an execution; the device then
listens for `LISTEN_MS`, which is longer."""


def read_note(exchange: Exchange, frame: Frame, run_id: int) -> RunNote | None:
    """Return a progress or completion note of a run; count any other frame as stale."""
    try:
        if frame.type == Op.NOTE_PROGRESS:
            note = exchange.read_body(frame.body, parse_progress)
        elif frame.type == Op.NOTE_DONE:
            note = exchange.read_body(frame.body, parse_done)
        else:
            note = None
    except MalformedBodyError:
        return None
    if note is None or note.run_id != run_id:
        exchange.statistics.stale_answers += 1
        return None
    return note


def wait_for_end(
    exchange: Exchange,
    run_id: int,
    read: Callable[[Frame], RunNote | None],
    *,
    timeout_s: float,
    silence_s: float,
    cancel: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> RunNote | None:
    """Wait until a run has ended.

    The device's notes tell; it is asked for its state only if it is silent.

    Args:
        exchange: The link.
        run_id: Number of the run.
        read: Reads a frame that is not an answer to a request of this function; returns a note of
            the run.
        timeout_s: Longest wait, seconds.
        silence_s: Longest wait for a sign of the run, seconds.
        cancel: Ask the device to end the run.
        progress: Called with the number of completed executions.

    Returns:
        How it ended; None if that is not known in time.

    Raises:
        DeviceRefusedError: The device does not know the run, or cannot cancel it.
        LinkError: The stream ended.
        TargetError: The device died or restarted.
    """
    watch = _RunWatch(exchange, run_id, read, cancel=cancel, progress=progress)
    return watch.wait(exchange.now() + timeout_s, silence_s)


class _RunWatch:
    """Hears the notes of a run, and asks for its state."""

    def __init__(
        self,
        exchange: Exchange,
        run_id: int,
        read: Callable[[Frame], RunNote | None],
        *,
        cancel: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._exchange = exchange
        self._run_id = run_id
        self._read = read
        self._cancel = cancel
        self._progress = progress
        self._asked: dict[int, Op] = {}
        self._interval_s = _CANCEL_INTERVAL_S if cancel else exchange.deadline_s
        self._ask_at = exchange.now() + (0.0 if cancel else self._interval_s)

    def wait(self, until: float, silence_s: float) -> RunNote | None:
        exchange = self._exchange
        completed, silent_at = -1, exchange.now() + silence_s
        while (now := exchange.now()) < min(until, silent_at):
            if now >= self._ask_at:
                exchange.check_alive()
                self._ask()
            heard = exchange.listen(min(until, silent_at, self._ask_at))
            if heard is FrameDamage.OUTGOING:
                self._ask_at = exchange.now()
            note = self._note(heard) if isinstance(heard, Frame) else None
            if note is None:
                continue
            if note.completed > completed:
                completed, silent_at = note.completed, exchange.now() + silence_s
                self._progress(completed)
            if note.outcome is not None:
                return note
            if not self._cancel:
                self._ask_at = exchange.now() + self._interval_s
        return None

    def _ask(self) -> None:
        exchange = self._exchange
        sequence = exchange.next_sequence()
        op, body = Op.STATUS, b""
        if self._cancel:
            op, body = Op.CANCEL, cancel_request(self._run_id)
        self._asked[sequence] = op
        self._ask_at = exchange.now() + self._interval_s
        exchange.send(op, sequence, body)

    def _note(self, frame: Frame) -> RunNote | None:
        op = self._asked.get(frame.sequence)
        if op is None or frame.type != op | RESPONSE:
            return self._read(frame)
        try:
            if op == Op.CANCEL:
                self._exchange.read_answer(op, frame.body, parse_empty)
                # The end follows at once; ask for it only if it is lost.
                self._cancel = False
                return None
            status = self._exchange.read_answer(op, frame.body, parse_status)
        except MalformedBodyError:
            return None
        over = status.state != State.RUNNING or status.run_id != self._run_id
        return RunNote(status.run_id, status.completed, status.outcome if over else None)
