"""One request and its answer: sequence numbers, deadlines, repetition, and what came instead."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeVar

from harness.errors import DeviceRefusedError, InfrastructureError, LinkError, RestartedError
from harness.link.answers import DeviceOutcome
from harness.link.frames import (
    CorruptFrame,
    CorruptReason,
    Frame,
    FrameDecoder,
    Skipped,
    Text,
    encode,
    is_text,
)
from harness.link.messages import MalformedBodyError, parse_refusal
from harness.link.reopen import ReopeningTransport
from harness.link.statistics import LinkStatistics
from harness.link.transports import RatedTransport, Transport
from harness.link.wire import MIN_MTU, RESPONSE, Op, Status

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

Progress = Callable[[int, int], None]
"""Called with (done, total)."""


class FrameDamage(Enum):
    """What is heard of a frame that did not arrive whole; which one it was is not known."""

    HERE = auto()
    """The device's, on its way to us."""
    THERE = auto()
    """Ours: the device says so."""


class Exchange:
    """Requests and answers over a transport. All times are seconds.

    Attributes:
        deadline_s: How long an answer is waited for before its request is repeated.
        retries: How often a request is repeated.
        board: Name of the target in messages.
        statistics: What has been carried and lost.
        first_baud: Bits per second that the connection began with; 0 when it has no rate.
        greeted: The device has answered HELLO; when it says that it starts now, that is a failure.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        deadline_s: float,
        retries: int,
        console: Callable[[bytes], None] | None = None,
        check_alive: Callable[[], None] | None = None,
        board: str = "target",
        first_sequence: int = 1,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.deadline_s = deadline_s
        self.retries = retries
        self.board = board
        self.statistics = LinkStatistics()
        self.greeted = False
        self.clock_ns = clock_ns
        self._transport = transport
        self._rated = transport if isinstance(transport, RatedTransport) else None
        self._reopening = transport if isinstance(transport, ReopeningTransport) else None
        self.first_baud = self._rated.baud if self._rated is not None else 0
        self._console = console
        self._check_alive = check_alive
        self._sequence = first_sequence % 0x10000
        self._mtu = MIN_MTU
        self._decoder = FrameDecoder(MIN_MTU)
        self._skipping_text = False
        """What was longer than a frame was text, and so is what follows."""
        self._heard: deque[Frame | FrameDamage] = deque()

    @property
    def mtu(self) -> int:
        """Longest payload of a frame to send, bytes."""
        return self._mtu

    @mtu.setter
    def mtu(self, mtu: int) -> None:
        self._mtu = mtu
        # Never less than before: frames of the earlier size may still be on the way.
        self._decoder.mtu = max(mtu, self._decoder.mtu)

    def now(self) -> float:
        """Return the monotonic time, seconds."""
        return self.clock_ns() * 1e-9

    @property
    def baud(self) -> int:
        """Bits per second; 0 when the connection has no rate."""
        return self._rated.baud if self._rated is not None else 0

    def set_baud(self, baud: int) -> None:
        """Change our end's rate.

        Raises:
            InfrastructureError: The port does not take it, or the connection has none.
        """
        if self._rated is None:
            raise InfrastructureError(f"{self.board}: the connection has no rate to be changed")
        self._rated.set_baud(baud)

    def use_first_baud(self) -> bool:
        """Return to the rate the connection began with, which a device has that starts.

        Returns:
            Whether it had another one.
        """
        raised = self.baud != self.first_baud
        if raised:
            self.set_baud(self.first_baud)
        return raised

    def fall_back(self) -> None:
        """Nobody is heard: return to where a device goes that hears nobody, either."""
        self.statistics.rate_fallbacks += self.use_first_baud()

    def next_sequence(self) -> int:
        """Return a fresh sequence number; 0 is for what the device sends unasked."""
        self._sequence = self._sequence % 0xFFFF + 1
        return self._sequence

    def send(self, op: Op, sequence: int, body: bytes) -> None:
        """Send one frame.

        Raises:
            LinkError: It could not be sent in time.
            TargetError: That is because the target is dead.
        """
        data = encode(op, sequence, body)
        self.statistics.frames_sent += 1
        self.statistics.bytes_sent += len(data)
        try:
            # As long as an answer may take in all: a busy host is no reason to give up earlier.
            self._transport.write(data, self.deadline_s * (self.retries + 1))
        except LinkError:
            self.check_alive()
            raise

    def receive(self, until: float) -> Frame | None:
        """Return the next good frame, or None when none has come by the time ``until``.

        Raises:
            LinkError: The stream ended.
            RestartedError: The device says that it has started again.
            TargetError: The stream ended because the target is dead.
        """
        while isinstance(heard := self.listen(until), FrameDamage):
            pass
        return heard

    def listen(self, until: float) -> Frame | FrameDamage | None:
        """Return the next good frame or sign of damage, or None when ``until`` has come.

        Raises:
            LinkError: The stream ended.
            RestartedError: The device says that it has started again.
            TargetError: The stream ended because the target is dead.
        """
        while (heard := self._next(until)) is not None:
            if isinstance(heard, FrameDamage) or heard.type != Op.NOTE_STARTED:
                break
            if self.greeted:
                raise self.restarted()
        return heard

    def _next(self, until: float) -> Frame | FrameDamage | None:
        while not self._heard:
            # Nothing is read past the time, so that a device that never stops talking cannot
            # hold up whoever waits for something else.
            wait = until - self.now()
            if wait <= 0:
                return None
            try:
                data = self._transport.read(wait)
            except LinkError:
                self.check_alive()
                raise
            self._take(data)
        return self._heard.popleft()

    def request(
        self, op: Op, body: bytes, parse: Callable[[bytes], _T], *, patient: bool = False
    ) -> _T:
        """Send a request until it is answered.

        Args:
            op: Type of the request.
            body: Its body.
            parse: Reads the body of an answer whose status is OK.
            patient: Wait longer each time: for work that takes the device time, and must not
                be asked for again and again.

        Raises:
            DeviceRefusedError: The device answered with an error.
            LinkError: No usable answer in time.
            TargetError: The target died meanwhile.
        """
        sequence = self.next_sequence()
        began = self.now()
        for attempt in range(self.retries + 1):
            if attempt:
                self.statistics.retries += 1
                self.check_alive()
                if attempt > 1:
                    self.fall_back()
                _log.info("%s: no answer to %s, asking again", self.board, op.name)
            wait = self.deadline_s * (2**attempt if patient else 1)
            answer = self.attempt(op, sequence, body, parse, self.now() + wait, self.retries)
            if answer is not None:
                return answer[0]
        waited = self.now() - began
        raise self.failure(
            f"no answer to {op.name} in {waited:.3g} s, asked {self.retries + 1} times"
        )

    def attempt(
        self,
        op: Op,
        sequence: int,
        body: bytes,
        parse: Callable[[bytes], _T],
        until: float,
        repeats: int = 0,
    ) -> tuple[_T] | None:
        """Send a request; return its answer in a tuple, or None when none is usable.

        Args:
            op: Type of the request.
            sequence: Its sequence number.
            body: Its body.
            parse: Reads the body of an answer whose status is OK.
            until: When to stop waiting.
            repeats: How often it is sent again at once when a frame was damaged, for it or its
                answer was on the way.

        Raises:
            DeviceRefusedError: The device answered with an error.
            LinkError: The stream ended.
            TargetError: It did because the target is dead.
        """
        self.send(op, sequence, body)
        while (frame := self.listen(until)) is not None:
            if isinstance(frame, FrameDamage):
                if repeats:
                    repeats -= 1
                    self.statistics.retries += 1
                    self.send(op, sequence, body)
                continue
            if frame.type != op | RESPONSE or frame.sequence != sequence:
                self.statistics.stale_answers += 1
                continue
            try:
                return (self.read_answer(op, frame, parse),)
            except MalformedBodyError:
                return None
        return None

    def read_answer(self, op: Op, frame: Frame, parse: Callable[[bytes], _T]) -> _T:
        """Read an answer.

        Raises:
            DeviceRefusedError: Its status is not OK.
            MalformedBodyError: It does not parse; this has been counted.
        """
        if frame.body[:1] == bytes((Status.OK,)):
            return self.read_body(frame, parse)
        raise refusal_error(self.board, op, self.read_body(frame, parse_refusal))

    def read_body(self, frame: Frame, parse: Callable[[bytes], _T]) -> _T:
        """Read a body that has no status in front.

        Raises:
            MalformedBodyError: It does not parse; this has been counted.
        """
        try:
            return parse(frame.body)
        except MalformedBodyError:
            self.statistics.corrupt[CorruptReason.BODY] += 1
            raise

    def check_alive(self) -> None:
        """Let the target speak before the link is blamed.

        Raises:
            TargetError: The target is dead.
        """
        if self._check_alive is not None:
            self._check_alive()

    def restarted(self) -> RestartedError:
        """Return the error of a device that does not know us any more."""
        return RestartedError(
            f"{self.board}: the board restarted by itself",
            hint="its console text may say why: a fault, a watchdog, the supply",
        )

    def failure(self, message: str, *, hint: str = "") -> LinkError:
        """Return the error of giving up on the link.

        Raises:
            TargetError: The target is dead, so it is not the link.
        """
        self.check_alive()
        return LinkError(f"{self.board}: {message}{self._instead()}", hint=hint)

    def _instead(self) -> str:
        """What the line carried other than answers: it tells a dead line from a noisy one."""
        seen = self.statistics
        if not seen.bytes_received:
            return "; nothing at all was received"
        if corrupt := seen.corrupt.total():
            return f"; {corrupt} corrupt and {seen.frames_received} good frames were received"
        if not seen.frames_received:
            return f"; {seen.bytes_received} bytes were received, but no frame"
        return ""

    def _take(self, data: bytes) -> None:
        self.statistics.bytes_received += len(data)
        if self._reopening is not None:
            self.statistics.reopened = self._reopening.reopened
        for item in self._decoder.feed(data):
            match item:
                case Frame():
                    self.statistics.frames_received += 1
                    if item.type == Op.NOTE_DAMAGED:
                        self.statistics.damage_notes += 1
                        self._heard.append(FrameDamage.THERE)
                    else:
                        self._heard.append(item)
                case CorruptFrame():
                    self._skipping_text = is_text(item.encoded)
                    if self._skipping_text:
                        self._show(item.encoded)
                        # A first byte alone may also be all that is left of a frame.
                        if len(item.encoded) > 1:
                            continue
                    self.statistics.corrupt[item.reason] += 1
                    self._heard.append(FrameDamage.HERE)
                    _log.debug("%s: corrupt frame (%s)", self.board, item.reason)
                case Skipped() if not self._skipping_text:
                    self.statistics.skipped_bytes += len(item.data)
                case Text() | Skipped():
                    self._show(item.data)

    def _show(self, text: bytes) -> None:
        self.statistics.text_bytes += len(text)
        if self._console is not None:
            self._console(text)


_DEFAULT_MESSAGES: Final[dict[int, str]] = {
    Status.BAD_REQUEST: "malformed request",
    Status.UNKNOWN_OP: "no such request",
    Status.WRONG_STATE: "not possible in its present state",
    Status.TOO_LARGE: "it does not fit",
    Status.GAP: "bytes are missing",
    Status.DIGEST_MISMATCH: "the bytes received are not the bytes announced",
    Status.BAD_PROGRAM: "the program is not valid",
    Status.UNSUPPORTED_OPERATOR: "no kernel for an operator of the program",
    Status.UNSUPPORTED_FEATURE: "the program needs a feature that is missing",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.KERNEL_FAILED: "a kernel failed",
    Status.BAD_INPUT: "an input is missing or of the wrong size",
    Status.BAD_REGION: "no such region",
    Status.BAD_VERSION: "no common link version",
    Status.NO_METHOD: "the program has no such method",
}


_DETAILS: Final[dict[int, str]] = {
    Status.UNKNOWN_OP: "request type {}",
    Status.TOO_LARGE: "capacity {} bytes",
    Status.GAP: "expected offset {}",
    Status.BAD_PROGRAM: "byte {} of the file",
    Status.UNSUPPORTED_OPERATOR: "instruction {}",
    Status.UNSUPPORTED_FEATURE: "at {}",
    Status.OUT_OF_MEMORY: "{} bytes needed",
    Status.KERNEL_FAILED: "instruction {}",
    Status.BAD_INPUT: "{} bytes expected",
    Status.BAD_VERSION: "it speaks version {}",
}


_HINTS: Final[dict[int, str]] = {
    Status.UNSUPPORTED_OPERATOR: "add a kernel to the firmware, or export a model without it",
    Status.OUT_OF_MEMORY: "give the board a larger arena, or use a smaller model",
    Status.TOO_LARGE: "use a smaller model, or a board with more memory",
    Status.BAD_VERSION: "build and flash firmware of this version of the harness",
}


def refusal_error(
    board: str, op: Op, outcome: DeviceOutcome, circumstance: str = ""
) -> DeviceRefusedError:
    """Return the error for a request, or a run, that ended with a status other than OK."""
    words = outcome.message or _DEFAULT_MESSAGES.get(outcome.status, f"status {outcome.status}")
    detail = _DETAILS.get(outcome.status)
    place = f" ({detail.format(outcome.detail)})" if detail else ""
    return DeviceRefusedError(
        f"{board}: the device refused {op.name}: {words}{place}{circumstance}",
        status=outcome.status,
        detail=outcome.detail,
        hint=_HINTS.get(outcome.status, ""),
    )
