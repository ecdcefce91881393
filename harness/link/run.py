"""Runs the model and waits for completion; progress notifications may be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.errors import LinkError, TargetError, TransportClosedError
from harness.link.exchange import Exchange, FrameDamage, Progress
from harness.link.frames import Frame
from harness.link.log_chunks import LogChunks
from harness.link.messages import (
    MalformedBodyError,
    log_ack,
    parse_empty,
    parse_log,
    parse_log_wait,
    run_request,
)
from harness.link.run_end import read_note, wait_for_end
from harness.link.status_errors import refusal_error
from harness.link.values import (
    DeviceOutcome,
    DeviceStatus,
    LogAck,
    LogPart,
    LogWait,
    RunNote,
    RunOptions,
)
from harness.link.wire import RESPONSE, STREAM_WAIT_MS, Op, State, Status

_NOISY: Final = 0.25
"""Share of lost frames above which silence is attributed to the line, not to the device."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A run that has ended: all of it was executed, or it was cancelled.

    Attributes:
        run_id: Its number.
        completed: Number of executions.
        chunks: Chunks of its log received during the run, each an image followed by its debug
            buffer; the last chunk is still on the device.
        restarted_ns: The host's monotonic clock before RUN was first sent, and after the first
            sign that the device was running. The device restarted its clock in between.
    """

    run_id: int
    completed: int
    chunks: tuple[bytes, ...] = ()
    restarted_ns: tuple[int, int] = (0, 0)


class DeviceRun:
    """One RUN, from the request to its end.

    The device receives only between executions, and incoming bytes delay the next one. So the host
    sends STATUS only after a timeout. What it sends about a streamed log may get lost; the device
    asks for it when it listens.
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
        self._attempts = 0
        self._sent_ns = self._running_ns = 0
        self._accepted = False
        self._completed = 0
        self._poll_at = 0.0
        self._give_up_at = 0.0

    def execute(self) -> RunOutcome:
        """Run the model and wait for completion.

        Raises:
            DeviceRefusedError: The device refused, or a kernel failed.
            LinkError: The request was not answered.
            TargetError: The device hangs, died or restarted.
        """
        self._give_up_at = self._exchange.now() + self._timeout_s
        self._send()
        while True:
            heard = self._exchange.listen(min(self._poll_at, self._give_up_at))
            if isinstance(heard, FrameDamage):
                self._on_damage(heard)
                continue
            note = self._on_timeout() if heard is None else self._read(heard)
            if note is not None and note.outcome is not None:
                return self._finish(note, note.outcome)

    @property
    def is_requested(self) -> bool:
        """Whether RUN has been sent."""
        return self._attempts > 0

    def cancel(self, timeout_s: float) -> RunOutcome | None:
        """End the run after its current execution; None if its end was not confirmed in time.

        Raises:
            DeviceRefusedError: The run has failed.
            LinkError: The stream ended.
            TargetError: The device died or restarted.
        """
        note = wait_for_end(
            self._exchange,
            self._run_id,
            self._read,
            timeout_s=timeout_s,
            silence_s=timeout_s,
            cancel=True,
        )
        if note is None or note.outcome is None:
            return None
        if note.outcome.status == Status.CANCELLED:
            return self._outcome(note)
        return self._finish(note, note.outcome)

    def _send(self) -> None:
        if not self._attempts:
            self._sent_ns = self._running_ns = self._exchange.clock_ns()
        self._attempts += 1
        self._poll_at = self._exchange.now() + self._exchange.deadline_s
        self._exchange.send(Op.RUN, self._sequence, self._body)

    def _read(self, frame: Frame) -> RunNote | None:
        exchange = self._exchange
        try:
            if frame.type == Op.RUN | RESPONSE and frame.sequence == self._sequence:
                exchange.read_answer(Op.RUN, frame.body, parse_empty)
                self._accept()
                return None
            if frame.type == Op.NOTE_LOG:
                self._take_log(exchange.read_body(frame.body, parse_log))
                return None
            if frame.type == Op.NOTE_LOG_WAIT:
                self._take_log(exchange.read_body(frame.body, parse_log_wait))
                return None
        except MalformedBodyError:
            return None
        note = read_note(exchange, frame, self._run_id)
        if note is None:
            return None
        self._accept()
        self._mark_running()
        self._advance(note.completed)
        if note.outcome is None:
            self._answer_log(self._chunks.unfinished())
        return note

    def _take_log(self, note: LogPart | LogWait) -> None:
        """Take a part of the log, or the question of a device that waits for an answer."""
        if note.run_id != self._run_id:
            self._exchange.statistics.stale_answers += 1
            return
        self._accept()
        self._mark_running()
        chunks = self._chunks
        ack = chunks.wanted(note) if isinstance(note, LogWait) else chunks.add(note)
        self._answer_log(ack)
        self._give_up_at = self._poll_at = self._exchange.now() + self._timeout_s

    def _answer_log(self, ack: LogAck | None) -> None:
        if ack is None:
            return
        self._exchange.statistics.holes += ack.length > 0
        self._exchange.send(Op.LOG_ACK, 0, log_ack(self._run_id, ack))

    def _mark_running(self) -> None:
        """Record when the run was first known to be executing. RUN is answered before that."""
        if self._running_ns == self._sent_ns:
            self._running_ns = self._exchange.clock_ns()

    def _accept(self) -> None:
        if self._accepted:
            return
        self._accepted = True
        now = self._exchange.now()
        self._give_up_at = now + self._timeout_s
        # The answer to the first RUN was lost, and notes may have been, too.
        repeated = self._attempts > 1
        self._poll_at = now + self._exchange.deadline_s if repeated else self._give_up_at

    def _advance(self, completed: int) -> None:
        news = completed > self._completed
        self._completed = max(self._completed, completed)
        now = self._exchange.now()
        self._give_up_at = self._poll_at = now + self._timeout_s
        if self._completed >= self._count:
            self._poll_at = now + self._exchange.deadline_s
        if news and self._progress is not None:
            self._progress(self._completed, self._count)

    def _on_damage(self, damage: FrameDamage) -> None:
        """Poll at once: the damaged frame was most likely the one expected next."""
        if damage is FrameDamage.OUTGOING and not self._accepted:
            # The device receives, so it is not running.
            self._poll_at = self._exchange.now()
        elif damage is FrameDamage.INCOMING and self._completed >= self._count:
            self._poll_at = self._exchange.now()

    def _on_timeout(self) -> RunNote | None:
        """Send RUN again, or poll STATUS."""
        self._exchange.check_alive()
        now = self._exchange.now()
        final = now >= self._give_up_at
        if not self._accepted and not final:
            if self._attempts <= self._exchange.retries:
                self._exchange.statistics.retries += 1
                self._send()
            else:
                self._poll_at = self._give_up_at
            return None
        loss = self._exchange.statistics.loss  # before STATUS, whose own retries would count
        try:
            status = self._status()
        except TransportClosedError:
            raise
        except LinkError as error:
            if final:
                raise self._no_answer_error(loss) from error
            self._poll_at = self._give_up_at
            return None
        return self._on_status(status, final)

    def _on_status(self, status: DeviceStatus, final: bool) -> RunNote | None:
        if status.run_id != self._run_id:
            raise self._exchange.failure(f"RUN did not arrive, sent {self._attempts} times")
        if status.state == State.RUNNING:
            if status.completed > self._completed:
                self._advance(status.completed)
                return None
            if final:
                raise self._hang_error("and it reports that it is still running")
            self._poll_at = self._give_up_at
            return None
        self._mark_running()
        return RunNote(status.run_id, status.completed, status.outcome)

    def _finish(self, note: RunNote, outcome: DeviceOutcome) -> RunOutcome:
        if outcome.status == Status.LOG_UNDELIVERED:
            raise LinkError(
                f"{self._exchange.board}: the streamed log is incomplete: the device waited "
                f"{STREAM_WAIT_MS / 1000:g} s for the host to receive more of it",
                hint="check the cable, or use a lower --baud",
            )
        if outcome.status != Status.OK:
            raise refusal_error(
                self._exchange.board,
                Op.RUN,
                outcome,
                f" after {note.completed} of {self._count} executions" if note.completed else "",
            )
        if note.completed != self._count:
            raise TargetError(
                f"{self._exchange.board}: the device reports {note.completed} executions, "
                f"{self._count} were requested"
            )
        return self._outcome(note)

    def _outcome(self, note: RunNote) -> RunOutcome:
        restarted = self._sent_ns, self._running_ns
        return RunOutcome(self._run_id, note.completed, self._chunks.whole(), restarted)

    def _no_answer_error(self, loss: float) -> TargetError | LinkError:
        """Return the error for a device that went silent: the link's or the target's."""
        exchange = self._exchange
        if not self._accepted:
            return LinkError(f"{exchange.board}: no answer to RUN, sent {self._attempts} times")
        if loss > _NOISY:
            return LinkError(
                f"{exchange.board}: no answer during a run; the line lost {loss:.0%} of its frames",
                hint="check the cable, or use a lower --baud",
            )
        return self._hang_error("and does not answer STATUS")

    def _hang_error(self, how: str) -> TargetError:
        return TargetError(
            f"{self._exchange.board}: the device hangs: execution {self._completed + 1} of "
            f"{self._count} did not end within {self._timeout_s:g} s, {how}",
            hint="if the model takes that long, raise deadlines.execute_s in the board file",
        )
