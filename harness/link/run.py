"""Runs the model and waits for completion; progress notifications may be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.errors import LinkError, TargetError, TransportClosedError
from harness.link import messages, wire
from harness.link.exchange import Exchange, FrameDamage, Progress, refusal_error
from harness.link.frames import Frame
from harness.link.transfers import LogChunks
from harness.printing import counted

_CANCEL_INTERVAL_S: Final = 0.1
"""Interval of CANCELs. A UART without a FIFO receives none during an execution; the device then
listens for `LISTEN_MS`, which is longer."""


def read_note(exchange: Exchange, frame: Frame, run_id: int) -> messages.RunNote | None:
    """Return a progress or completion note of a run; count any other frame as stale."""
    try:
        if frame.type == wire.Op.NOTE_PROGRESS:
            note = exchange.read_body(frame.body, messages.RunNote.parse)
        elif frame.type == wire.Op.NOTE_DONE:
            note = exchange.read_body(frame.body, messages.RunEnd.parse)
        else:
            note = None
    except messages.MalformedBodyError:
        return None
    if note is None or note.run_id != run_id:
        exchange.statistics.stale_answers += 1
        return None
    return note


def wait_for_end(
    exchange: Exchange,
    run_id: int,
    read: Callable[[Frame], messages.RunNote | None],
    *,
    timeout_s: float,
    silence_s: float,
    cancel: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> messages.RunEnd | None:
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
    asked: dict[int, wire.Op] = {}
    interval_s = _CANCEL_INTERVAL_S if cancel else exchange.deadline_s
    began = exchange.now()
    until, silent_at = began + timeout_s, began + silence_s
    ask_at = began if cancel else began + interval_s
    completed = -1
    while (now := exchange.now()) < min(until, silent_at):
        if now >= ask_at:
            sequence, op = _ask(exchange, run_id, cancel=cancel)
            asked[sequence] = op
            ask_at = now + interval_s
        heard = exchange.listen(min(until, silent_at, ask_at))
        if heard is FrameDamage.OUTGOING:
            ask_at = exchange.now()
        if not isinstance(heard, Frame):
            continue
        answered = asked.get(heard.sequence)
        if answered is None or heard.type != answered | wire.RESPONSE:
            note = read(heard)
        elif answered == wire.Op.STATUS:
            note = _read_state(exchange, heard, run_id)
        else:
            # The end follows at once; ask for it only if it is lost.
            cancel = cancel and not _is_accepted(exchange, heard)
            continue
        if note is not None and note.completed > completed:
            completed, silent_at = note.completed, exchange.now() + silence_s
            progress(completed)
        if isinstance(note, messages.RunEnd):
            return note
        if note is not None and not cancel:
            ask_at = exchange.now() + interval_s
    return None


def _ask(exchange: Exchange, run_id: int, *, cancel: bool) -> tuple[int, wire.Op]:
    """Ask for the end or the state of a run; return number and type of the request."""
    exchange.check_alive()
    sequence = exchange.next_sequence()
    op, body = (
        (wire.Op.CANCEL, messages.CancelBody(run_id).encode()) if cancel else (wire.Op.STATUS, b"")
    )
    exchange.send(op, sequence, body)
    return sequence, op


def _is_accepted(exchange: Exchange, frame: Frame) -> bool:
    """Return whether the answer to CANCEL is good."""
    try:
        exchange.read_answer(wire.Op.CANCEL, frame.body, messages.Answer.parse)
    except messages.MalformedBodyError:
        return False
    return True


def _read_state(exchange: Exchange, frame: Frame, run_id: int) -> messages.RunNote | None:
    """Return the answer to STATUS as a note of the run; None if it is damaged."""
    try:
        status = exchange.read_answer(wire.Op.STATUS, frame.body, messages.DeviceStatus.parse)
    except messages.MalformedBodyError:
        return None
    if status.state == wire.State.RUNNING and status.run_id == run_id:
        return messages.RunNote(status.run_id, status.completed)
    return messages.RunEnd(status.run_id, status.completed, status.outcome)


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
        status: Callable[[], messages.DeviceStatus],
        run_id: int,
        count: int,
        *,
        options: messages.RunOptions,
        chunks: LogChunks,
        timeout_s: float,
        progress: Progress | None,
    ) -> None:
        self._exchange = exchange
        self._status = status
        self._run_id, self._count = run_id, count
        self._body = messages.RunBody(run_id, count, options).encode()
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
        self._execution_began = 0.0
        self._log_bytes = 0
        """Bytes of the streamed log that had arrived when the present execution began."""
        self._repeats_itself = False
        """The device has sent something since the last news, but nothing new."""

    def execute(self) -> RunOutcome:
        """Run the model and wait for completion.

        Raises:
            DeviceRefusedError: The device refused, or a kernel failed.
            LinkError: The request was not answered.
            TargetError: The device hangs, died or restarted.
        """
        self._renew()
        self._send()
        while True:
            heard = self._exchange.listen(min(self._poll_at, self._give_up_at))
            if isinstance(heard, FrameDamage):
                self._on_damage(heard)
                continue
            note = self._on_timeout() if heard is None else self._read(heard)
            if isinstance(note, messages.RunEnd):
                return self._finish(note)

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
        if note is None:
            return None
        if note.outcome.status == wire.Status.CANCELLED:
            return self._outcome(note)
        return self._finish(note)

    def _send(self) -> None:
        if not self._attempts:
            self._sent_ns = self._running_ns = self._exchange.clock_ns()
        self._attempts += 1
        self._poll_at = self._exchange.now() + self._exchange.deadline_s
        self._exchange.send(wire.Op.RUN, self._sequence, self._body)

    def _read(self, frame: Frame) -> messages.RunNote | None:
        exchange = self._exchange
        try:
            if frame.type == wire.Op.RUN | wire.RESPONSE and frame.sequence == self._sequence:
                exchange.read_answer(wire.Op.RUN, frame.body, messages.Answer.parse)
                self._accept()
                return None
            if frame.type == wire.Op.NOTE_LOG:
                self._take_log(exchange.read_body(frame.body, messages.LogPart.parse))
                return None
            if frame.type == wire.Op.NOTE_LOG_WAIT:
                self._take_log(exchange.read_body(frame.body, messages.LogWait.parse))
                return None
        except messages.MalformedBodyError:
            return None
        note = read_note(exchange, frame, self._run_id)
        if note is None:
            return None
        self._accept(running=True)
        self._advance(note.completed)
        if not isinstance(note, messages.RunEnd):
            self._answer_log(self._chunks.unfinished())
        return note

    def _take_log(self, note: messages.LogWait) -> None:
        """Take a part of the log, or the question of a device that waits for an answer."""
        if note.run_id != self._run_id:
            self._exchange.statistics.stale_answers += 1
            return
        self._accept(running=True)
        chunks = self._chunks
        received = chunks.received
        ack = chunks.add(note) if isinstance(note, messages.LogPart) else chunks.wanted(note)
        self._answer_log(ack)
        if chunks.received > received:
            self._renew(log=True)
        else:
            self._repeats_itself = True

    def _answer_log(self, ack: messages.LogAck | None) -> None:
        if ack is None:
            return
        self._exchange.statistics.holes += ack.length > 0
        self._exchange.send(wire.Op.LOG_ACK, 0, ack.encode())

    def _accept(self, *, running: bool = False) -> None:
        """Note that RUN has arrived. It is answered before the first execution."""
        if running and self._running_ns == self._sent_ns:
            self._running_ns = self._exchange.clock_ns()
        if self._accepted:
            return
        self._accepted = True
        self._renew()
        if self._attempts > 1:
            # The answer to the first RUN was lost, and notes may have been, too.
            self._poll_at = self._exchange.now() + self._exchange.deadline_s

    def _renew(self, *, log: bool = False) -> None:
        """Renew the deadline: an execution has begun, or new bytes of its log have arrived.

        Nothing else renews it: a device that repeats a note or waits for ever has no news. Bytes
        of a log renew it within the longest time that they may take.
        """
        now = self._exchange.now()
        if not log:
            self._execution_began, self._log_bytes = now, self._chunks.received
        log_s = self._exchange.longest_s(self._chunks.received - self._log_bytes) if log else 0.0
        ends_at = self._execution_began + self._timeout_s + log_s
        self._give_up_at = self._poll_at = min(now + self._timeout_s, ends_at)
        self._repeats_itself = False

    def _advance(self, completed: int) -> None:
        """Take the number of completed executions; more than were asked for is no news."""
        if not self._completed < completed <= self._count:
            self._repeats_itself = True
            return
        self._completed = completed
        self._renew()
        if self._completed == self._count:
            self._poll_at = self._exchange.now() + self._exchange.deadline_s
        if self._progress is not None:
            self._progress(self._completed, self._count)

    def _on_damage(self, damage: FrameDamage) -> None:
        """Poll at once: the damaged frame was most likely the one expected next."""
        if damage is FrameDamage.OUTGOING and not self._accepted:
            # The device receives, so it is not running.
            self._poll_at = self._exchange.now()
        elif damage is FrameDamage.INCOMING and self._completed >= self._count:
            self._poll_at = self._exchange.now()

    def _on_timeout(self) -> messages.RunNote | None:
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

    def _on_status(self, status: messages.DeviceStatus, final: bool) -> messages.RunNote | None:
        if status.run_id != self._run_id:
            raise self._exchange.failure(f"RUN was lost, sent {counted(self._attempts, 'time')}")
        if status.state == wire.State.RUNNING:
            before = self._completed
            self._advance(status.completed)
            if self._completed > before:
                return None
            if final:
                raise self._hang_error("and it reports that it is still running")
            self._poll_at = self._give_up_at
            return None
        self._accept(running=True)
        return messages.RunEnd(status.run_id, status.completed, status.outcome)

    def _finish(self, note: messages.RunEnd) -> RunOutcome:
        outcome = note.outcome
        if outcome.status == wire.Status.LOG_UNDELIVERED:
            raise LinkError(
                f"{self._exchange.board}: the streamed log is incomplete: the device waited "
                f"{wire.STREAM_WAIT_MS / 1000:g} s for the host to receive more of it",
                hint="check the cable, or use a lower --baud",
            )
        if outcome.status != wire.Status.OK:
            raise refusal_error(
                self._exchange.board,
                wire.Op.RUN,
                outcome,
                f" after {note.completed} of {self._count} executions" if note.completed else "",
            )
        if note.completed != self._count:
            raise TargetError(
                f"{self._exchange.board}: the device reports {note.completed} of "
                f"{counted(self._count, 'requested execution')}"
            )
        return self._outcome(note)

    def _outcome(self, note: messages.RunNote) -> RunOutcome:
        restarted = self._sent_ns, self._running_ns
        return RunOutcome(self._run_id, note.completed, self._chunks.whole(), restarted)

    def _no_answer_error(self, loss: float) -> TargetError | LinkError:
        """Return the error for a device that went silent: the link's or the target's."""
        exchange = self._exchange
        if not self._accepted:
            times = counted(self._attempts, "time")
            return LinkError(f"{exchange.board}: no answer to RUN, sent {times}")
        if loss > _NOISY:
            return LinkError(
                f"{exchange.board}: no answer during a run; the line lost {loss:.0%} of its frames",
                hint="check the cable, or use a lower --baud",
            )
        if self._repeats_itself:
            return LinkError(
                f"{exchange.board}: no answer to STATUS during a run, although the device sends",
                hint="check the cable, in particular the line to the board",
            )
        return self._hang_error("and does not answer STATUS")

    def _hang_error(self, how: str) -> TargetError:
        return TargetError(
            f"{self._exchange.board}: the device hangs: execution {self._completed + 1} of "
            f"{self._count} did not end within {self._give_up_at - self._execution_began:.4g} s, "
            f"{how}",
            hint="if the model takes that long, raise deadlines.execute_s in the board file",
        )
