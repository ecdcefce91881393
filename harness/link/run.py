"""Runs the model on the device and waits for the end, whatever of the notes arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.errors import LinkError, TargetError, TransportClosedError
from harness.link.answers import DeviceOutcome, DeviceStatus, LogPart, RunNote
from harness.link.exchange import Exchange, FrameDamage, Progress, refusal_error
from harness.link.frames import Frame
from harness.link.messages import (
    MalformedBodyError,
    parse_done,
    parse_empty,
    parse_log,
    parse_progress,
    run_request,
)
from harness.link.options import RunOptions
from harness.link.transfer import LogChunks
from harness.link.wire import RESPONSE, Op, State, Status

_NOISY: Final = 0.25
"""Share of lost frames above which silence is blamed on the line and not on the device."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A run that ended well.

    Attributes:
        run_id: Its number.
        completed: How many executions it made.
        chunks: Chunks of its log that came while it went on, each an image and the debug buffer
            that goes with it; the last one is still on the device.
        broken_chunks: Chunks of which only parts arrived.
        restarted_ns: The host's monotonic clock before the request was first sent, and after the
            device had said that it runs: in between it restarted its clock.
    """

    run_id: int
    completed: int
    chunks: tuple[bytes, ...] = ()
    broken_chunks: int = 0
    restarted_ns: tuple[int, int] = (0, 0)


class DeviceRun:
    """One RUN, from the request to its end.

    The device does not listen while it executes, and a byte sent to it may disturb what it
    measures. So it is left alone until a deadline passes, and only then asked for STATUS.
    """

    def __init__(
        self,
        exchange: Exchange,
        status: Callable[[], DeviceStatus],
        run_id: int,
        count: int,
        *,
        options: RunOptions,
        chunks: LogChunks,
        timeout_s: float,
        progress: Progress | None,
    ) -> None:
        self._exchange = exchange
        self._status = status
        self._run_id, self._count = run_id, count
        self._body = run_request(run_id, count, options)
        self._chunks = chunks
        self._timeout_s = timeout_s
        self._progress = progress
        self._sequence = exchange.next_sequence()
        self._asked = 0
        self._sent_ns = self._running_ns = 0
        self._accepted = False
        self._completed = 0
        self._ask_at = 0.0
        self._give_up_at = 0.0

    def execute(self) -> RunOutcome:
        """Run, and wait for the end.

        Raises:
            DeviceRefusedError: The device refused, or a kernel failed on the way.
            LinkError: The request did not get through.
            TargetError: The device hangs, died or restarted.
        """
        self._give_up_at = self._exchange.now() + self._timeout_s
        self._send()
        while True:
            heard = self._exchange.listen(min(self._ask_at, self._give_up_at))
            if isinstance(heard, FrameDamage):
                self._hurry(heard)
                continue
            note = self._silence() if heard is None else self._read(heard)
            if note is not None and note.outcome is not None:
                return self._finish(note, note.outcome)

    def _send(self) -> None:
        if not self._asked:
            self._sent_ns = self._running_ns = self._exchange.clock_ns()
        self._asked += 1
        self._ask_at = self._exchange.now() + self._exchange.deadline_s
        self._exchange.send(Op.RUN, self._sequence, self._body)

    def _read(self, frame: Frame) -> RunNote | None:
        exchange = self._exchange
        try:
            if frame.type == Op.RUN | RESPONSE and frame.sequence == self._sequence:
                exchange.read_answer(Op.RUN, frame, parse_empty)
                self._accept()
                return None
            if frame.type == Op.NOTE_LOG:
                self._keep(exchange.read_body(frame, parse_log))
                return None
            if frame.type == Op.NOTE_PROGRESS:
                note = exchange.read_body(frame, parse_progress)
            elif frame.type == Op.NOTE_DONE:
                note = exchange.read_body(frame, parse_done)
            else:
                note = None
        except MalformedBodyError:
            return None
        if note is None or note.run_id != self._run_id:
            exchange.statistics.stale_answers += 1
            return None
        self._accept()
        self._runs()
        self._advance(note.completed)
        return note

    def _keep(self, part: LogPart) -> None:
        if part.run_id != self._run_id:
            self._exchange.statistics.stale_answers += 1
            return
        self._accept()
        self._runs()
        self._chunks.add(part)
        self._give_up_at = self._ask_at = self._exchange.now() + self._timeout_s

    def _runs(self) -> None:
        """It has begun. That the request was accepted does not say so: that is before."""
        if self._running_ns == self._sent_ns:
            self._running_ns = self._exchange.clock_ns()

    def _accept(self) -> None:
        if self._accepted:
            return
        self._accepted = True
        now = self._exchange.now()
        self._give_up_at = now + self._timeout_s
        # A device hears a repeated RUN only when it is not running: it may have ended already.
        repeated = self._asked > 1
        self._ask_at = now + self._exchange.deadline_s if repeated else self._give_up_at

    def _advance(self, completed: int) -> None:
        news = completed > self._completed
        self._completed = max(self._completed, completed)
        now = self._exchange.now()
        self._give_up_at = self._ask_at = now + self._timeout_s
        if self._completed >= self._count:
            self._ask_at = now + self._exchange.deadline_s
        if news and self._progress is not None:
            self._progress(self._completed, self._count)

    def _hurry(self, damage: FrameDamage) -> None:
        """Do not wait for what was most likely the damaged frame."""
        if damage is FrameDamage.THERE and not self._accepted:
            # It listens, so it does not run.
            self._ask_at = self._exchange.now()
        elif damage is FrameDamage.HERE and self._completed >= self._count:
            self._ask_at = self._exchange.now()

    def _silence(self) -> RunNote | None:
        """Nothing came for long enough: ask again, or ask how it stands."""
        self._exchange.check_alive()
        now = self._exchange.now()
        final = now >= self._give_up_at
        if not self._accepted and not final:
            if self._asked <= self._exchange.retries:
                self._exchange.statistics.retries += 1
                self._send()
            else:
                self._ask_at = self._give_up_at
            return None
        loss = self._exchange.statistics.loss  # before the questions that may go unanswered
        try:
            status = self._status()
        except TransportClosedError:
            raise
        except LinkError as error:
            if final:
                raise self._unanswered(loss) from error
            self._ask_at = self._give_up_at
            return None
        return self._judge(status, final)

    def _judge(self, status: DeviceStatus, final: bool) -> RunNote | None:
        if status.run_id != self._run_id:
            raise self._exchange.failure(f"RUN did not arrive, sent {self._asked} times")
        if status.state == State.RUNNING:
            if final:
                raise self._hang("and it says it is still running")
            self._ask_at = self._give_up_at
            return None
        self._runs()
        return RunNote(status.run_id, status.completed, status.outcome)

    def _finish(self, note: RunNote, outcome: DeviceOutcome) -> RunOutcome:
        if outcome.status != Status.OK:
            raise refusal_error(
                self._exchange.board,
                Op.RUN,
                outcome,
                f" after {note.completed} of {self._count} executions" if note.completed else "",
            )
        if note.completed != self._count:
            raise TargetError(
                f"{self._exchange.board}: {self._count} executions were asked for, but the device "
                f"says it made {note.completed}"
            )
        chunks = self._chunks
        restarted = self._sent_ns, self._running_ns
        return RunOutcome(self._run_id, note.completed, chunks.whole(), chunks.broken(), restarted)

    def _unanswered(self, loss: float) -> TargetError | LinkError:
        """Who is to blame for a device that went silent in a run."""
        exchange = self._exchange
        if not self._accepted:
            return LinkError(f"{exchange.board}: no answer to RUN, sent {self._asked} times")
        if loss > _NOISY:
            return LinkError(
                f"{exchange.board}: silent in a run, on a line that lost {loss:.0%} of its frames"
            )
        return self._hang("and does not answer STATUS")

    def _hang(self, how: str) -> TargetError:
        return TargetError(
            f"{self._exchange.board}: the device hangs: execution {self._completed + 1} of "
            f"{self._count} did not end within {self._timeout_s:g} s, {how}",
            hint="if the model is that slow, raise deadlines.execute_s in the board file",
        )
