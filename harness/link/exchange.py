"""Request/response exchange: sequence numbers, timeouts, retries, refusals, unexpected input."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import Any, Final, TypeVar, cast

from harness.errors import (
    DeviceRefusedError,
    HarnessError,
    InfrastructureError,
    LinkError,
    RestartedError,
    RunInProgressError,
)
from harness.link.frames import (
    CorruptFrame,
    CorruptReason,
    Frame,
    FrameDecoder,
    Skipped,
    Text,
    encode_frame,
    is_text,
)
from harness.link.messages import (
    BatchAnswer,
    BatchBody,
    DeviceOutcome,
    MalformedBodyError,
    RunInProgress,
)
from harness.link.transports import RatedTransport, ReopeningTransport, Transport
from harness.link.wire import MIN_MTU, RESPONSE, DetailKind, ExecutorchError, Op, Status
from harness.plugins import LINES, load_plugin, plugin_names
from harness.printing import counted

_DEFAULT_MESSAGES: Final[dict[int, str]] = {
    Status.BAD_REQUEST: "malformed request",
    Status.UNKNOWN_OP: "unknown request",
    Status.WRONG_STATE: "not possible in its present state",
    Status.TOO_LARGE: "too large",
    Status.GAP: "bytes are missing",
    Status.DIGEST_MISMATCH: "the digest does not match the bytes received",
    Status.BAD_PROGRAM: "invalid program",
    Status.UNSUPPORTED_OPERATOR: "missing kernel for an operator of the program",
    Status.UNSUPPORTED_FEATURE: "the program needs an unsupported feature",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.KERNEL_FAILED: "a kernel failed",
    Status.BAD_INPUT: "an input is missing or of the wrong size",
    Status.BAD_REGION: "no such region",
    Status.BAD_VERSION: "no common link version",
    Status.NO_METHOD: "the program has no such method",
    Status.CANCELLED: "the run was cancelled",
}
"""Messages for devices that send only a status."""


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
    Status.BAD_VERSION: "the device has version {}",
}
"""Meaning of the detail number, by status."""


_OTHER_VERSION: Final = "build and flash firmware of this version of the harness"


_HINTS: Final[dict[int, str]] = {
    Status.UNSUPPORTED_OPERATOR: "add a kernel to the firmware, or export a model without it",
    Status.OUT_OF_MEMORY: "give the board a larger arena, or use a smaller model",
    Status.TOO_LARGE: "use a smaller model, or a board with more memory",
    Status.BAD_VERSION: _OTHER_VERSION,
    Status.UNKNOWN_OP: _OTHER_VERSION,
}


def executorch_error_name(code: int) -> str:
    """Return an error code of ExecuTorch as ``ExecuTorch Error 0x14 OperatorMissing``."""
    try:
        name = ExecutorchError(code).name.title().replace("_", "")
    except ValueError:  # of a later version
        name = ""
    return f"ExecuTorch Error 0x{code:02x} {name}".rstrip()


def refusal_error(
    board: str, op: Op, outcome: DeviceOutcome, circumstance: str = ""
) -> DeviceRefusedError:
    """Return the error for a request or run that ended with a status other than OK.

    ``circumstance`` is appended to the message.
    """
    words = outcome.message or _DEFAULT_MESSAGES.get(outcome.status, f"status {outcome.status}")
    executorch = outcome.detail_kind == DetailKind.EXECUTORCH
    if executorch:
        explained = f" ({executorch_error_name(outcome.detail)})"
    else:
        detail = _DETAILS.get(outcome.status)
        explained = f" ({detail.format(outcome.detail)})" if detail else ""
    return DeviceRefusedError(
        f"{board}: the device refused {op.name}: {words}{explained}{circumstance}",
        status=outcome.status,
        detail=outcome.detail,
        executorch_error=outcome.detail if executorch else None,
        hint=_HINTS.get(outcome.status, ""),
    )


def busy_error(board: str, run: RunInProgress) -> RunInProgressError:
    """Return the error for a request that the device refused because of a run."""
    return RunInProgressError(
        f"{board}: the board is busy with run {run.run_id}: {run.completed} of {run.count} "
        f"executions after {run.elapsed_ms / 1000:.3g} s",
        run_id=run.run_id,
        completed=run.completed,
        count=run.count,
    )


_log = logging.getLogger(__name__)

_KEPT: Final = 16
"""Corrupt frames that are kept, to find out what a line does to bytes."""

_T = TypeVar("_T")


Progress = Callable[[int, int], None]
"""Called with (done, total)."""


@dataclass(slots=True)
class LinkStatistics:
    """Counters of one session. Every loss is counted.

    Attributes:
        frames_sent: Frames sent, including repetitions.
        frames_received: Frames that passed every check.
        bytes_sent: Bytes sent.
        bytes_received: Bytes received, including text and damaged frames.
        text_bytes: Bytes of console text received.
        skipped_bytes: Bytes skipped after over-long frames.
        retries: Requests sent again because no response came.
        stale_answers: Good frames that no request was waiting for.
        damage_notes: Frames sent that the device reported as corrupt.
        resent: Pieces of uploads that were presumably lost and sent again.
        holes: Pieces of downloads and streamed logs that were missing and requested again.
        rate_fallbacks: Times the line fell back to its first baud rate.
        digest_mismatches: Whole transfers repeated because of a wrong digest.
        reopened: Times the port disappeared and came back.
        overruns: UART overruns since the device started, as it last reported.
        read_bytes: Bytes of regions read completely.
        read_us: Time for ``read_bytes``, microseconds.
        model_bytes: Bytes of uploaded models; 0 if the device held the model already.
        corrupt: Frames rejected, by reason.
    """

    frames_sent: int = 0
    frames_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    text_bytes: int = 0
    skipped_bytes: int = 0
    retries: int = 0
    stale_answers: int = 0
    damage_notes: int = 0
    resent: int = 0
    holes: int = 0
    rate_fallbacks: int = 0
    digest_mismatches: int = 0
    reopened: int = 0
    overruns: int = 0
    read_bytes: int = 0
    read_us: int = 0
    model_bytes: int = 0
    corrupt: Counter[CorruptReason] = field(default_factory=Counter)

    @property
    def loss(self) -> float:
        """Known share of lost or damaged frames, in both directions together."""
        lost = self.retries + self.resent + self.holes + self.corrupt.total()
        return lost / max(1, lost + self.frames_received)

    def since(self, earlier: LinkStatistics) -> LinkStatistics:
        """Return the difference to an earlier copy."""
        names = [f.name for f in fields(self)]
        return LinkStatistics(**{n: getattr(self, n) - getattr(earlier, n) for n in names})

    def as_dict(self) -> dict[str, int]:
        """Return all counters by name; corrupt frames as ``corrupt_<reason>``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "corrupt"}
        return plain | {f"corrupt_{reason}": self.corrupt[reason] for reason in CorruptReason}


class FrameDamage(Enum):
    """A sign that some frame was damaged; which frame is unknown."""

    INCOMING = auto()
    """A frame from the device."""
    OUTGOING = auto()
    """A frame to the device, which reported it."""


class Exchange:
    """Request/response exchange over a transport. All times are seconds.

    Attributes:
        deadline_s: Wait for a response before the request is repeated.
        retries: Retry limit of a request.
        board: Name of the board in messages.
        statistics: Counters of the link.
        mtu: Longest payload of a frame to send, bytes; ``set_mtu`` changes it.
        first_baud: Baud rate at the start of the connection; 0 if the connection has no rate.
        greeted: The device has answered HELLO, so a later start of its firmware is an error.
        corrupt_frames: The last corrupt frames as received, without delimiters.
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
        self.corrupt_frames: deque[bytes] = deque(maxlen=_KEPT)
        self.clock_ns = clock_ns
        self._transport = transport
        self._rated = transport if isinstance(transport, RatedTransport) else None
        self._reopening = transport if isinstance(transport, ReopeningTransport) else None
        self.first_baud = self._rated.baud if self._rated is not None else 0
        self._console = console
        self._check_alive = check_alive
        self._sequence = first_sequence % 0x10000
        self.mtu = MIN_MTU
        self._decoder = FrameDecoder(MIN_MTU)
        self._skipping_text = False
        """The last over-long frame was text; skipped bytes after it are text, too."""
        self._received: deque[Frame | FrameDamage] = deque()

    def set_mtu(self, mtu: int) -> None:
        """Set the longest payload of a frame to send, bytes."""
        self.mtu = mtu
        # Never smaller: frames of the previous size may still be on the way.
        self._decoder.mtu = max(mtu, self._decoder.mtu)

    def now(self) -> float:
        """Return the monotonic time, seconds."""
        return self.clock_ns() * 1e-9

    @property
    def baud(self) -> int:
        """Baud rate; 0 if the connection has no rate."""
        return self._rated.baud if self._rated is not None else 0

    def set_baud(self, baud: int) -> None:
        """Set the baud rate of the host's end.

        Raises:
            InfrastructureError: The port does not support it, or the connection has no rate.
        """
        if self._rated is None:
            raise InfrastructureError(f"{self.board}: the connection has no baud rate to change")
        self._rated.set_baud(baud)

    def restore_first_baud(self) -> bool:
        """Return to the first rate, which a device has after every start.

        Returns:
            Whether the rate was another one before.
        """
        raised = self.baud != self.first_baud
        if raised:
            self.set_baud(self.first_baud)
        return raised

    def fall_back(self) -> None:
        """Return to the first rate, as a device does that receives no good frames."""
        self.statistics.rate_fallbacks += self.restore_first_baud()

    def longest_s(self, size: int) -> float:
        """Return the longest time in which ``size`` bytes arrive, seconds.

        It is the time if every frame needs all attempts of a request. A transfer that takes longer
        is given up, although bytes still drip in.
        """
        frames = -(-size // self.mtu)
        return (frames + 1) * (self.retries + 1) * self.deadline_s

    def next_sequence(self) -> int:
        """Return a new sequence number; 0 is reserved for the device's notifications."""
        self._sequence = self._sequence % 0xFFFF + 1
        return self._sequence

    def send(self, op: Op, sequence: int, body: bytes) -> None:
        """Send one frame.

        Raises:
            LinkError: The frame could not be sent in time.
            TargetError: The target is dead.
        """
        data = encode_frame(op, sequence, body)
        self.statistics.frames_sent += 1
        self.statistics.bytes_sent += len(data)
        try:
            # The timeout of the whole request: a busy host must not make a write fail earlier.
            self._transport.write(data, self.deadline_s * (self.retries + 1))
        except LinkError:
            self.check_alive()
            raise

    def listen(self, until: float) -> Frame | FrameDamage | None:
        """Return the next good frame or sign of damage, or None at the time ``until``.

        Raises:
            LinkError: The stream ended.
            RestartedError: The device reported that it started again.
            TargetError: The stream ended because the target is dead.
        """
        while True:
            while not self._received:
                # Do not read after `until`: a device that never stops sending must not block the
                # caller forever.
                wait = until - self.now()
                if wait <= 0:
                    return None
                try:
                    data = self._transport.read(wait)
                except LinkError:
                    self.check_alive()
                    raise
                self._decode(data)
            heard = self._received.popleft()
            if isinstance(heard, FrameDamage) or heard.type != Op.NOTE_STARTED:
                return heard
            if self.greeted:
                raise self.restarted()

    def request(
        self,
        op: Op,
        body: bytes,
        parse: Callable[[bytes], _T],
        *,
        backoff: bool = False,
        sequence: int | None = None,
    ) -> _T:
        """Send a request and return its response; repeat it up to ``retries`` times.

        Args:
            op: Type of the request.
            body: Its body.
            parse: Parses the body of a response with status OK.
            backoff: Double the timeout with each retry, for requests that keep the device busy.
            sequence: Its sequence number; None for a new one.

        Raises:
            DeviceRefusedError: The device answered with an error.
            LinkError: No usable response in time.
            TargetError: The target died meanwhile.
        """
        sequence = sequence or self.next_sequence()
        began = self.now()
        for attempt in range(self.retries + 1):
            if attempt:
                self.statistics.retries += 1
                self.check_alive()
                if attempt > 1:
                    self.fall_back()
                _log.info("%s: no answer to %s, retrying", self.board, op.name)
            wait = self.deadline_s * (2**attempt if backoff else 1)
            answer = self.attempt(op, sequence, body, parse, self.now() + wait, self.retries)
            if answer is not None:
                return answer[0]
        waited = self.now() - began
        raise self.failure(
            f"no answer to {op.name} in {waited:.3g} s, sent {counted(self.retries + 1, 'time')}"
        )

    def request_batch(
        self,
        parts: Sequence[tuple[Op, bytes, Callable[[bytes], Any] | None]],
        sequence: int | None = None,
    ) -> list[Any]:
        """Send several requests in one frame, and return their responses.

        Args:
            parts: Type and body of each request, and what parses its response with status OK; None
                if the response does not matter, also if it is an error.
            sequence: Sequence number of all of them; None for a new one.

        Raises:
            DeviceRefusedError: The device answered with an error; it ignored the later parts.
            LinkError: No usable response in time.
            TargetError: The target died meanwhile.
        """

        def parse_parts(body: bytes) -> list[Any]:
            answers = BatchAnswer.parse(body).bodies
            bodies = []
            for (op, _, parse), answer in zip(parts, answers, strict=False):
                bodies.append(self.read_answer(op, answer, parse) if parse is not None else None)
            if len(bodies) < len(parts):
                raise MalformedBodyError(f"{len(bodies)} responses to {len(parts)} requests")
            return bodies

        batch = BatchBody.of([(op, body) for op, body, _ in parts]).encode()
        return self.request(Op.BATCH, batch, parse_parts, backoff=True, sequence=sequence)

    def attempt(
        self,
        op: Op,
        sequence: int,
        body: bytes,
        parse: Callable[[bytes], _T],
        until: float,
        repeats: int = 0,
    ) -> tuple[_T] | None:
        """Send a request; return its response in a tuple, or None without a usable response.

        Args:
            op: Type of the request.
            sequence: Its sequence number.
            body: Its body.
            parse: Parses the body of a response with status OK.
            until: When to stop waiting.
            repeats: How often to send it again at once after a damaged frame, which was probably
                the request or its response.

        Raises:
            DeviceRefusedError: The device answered with an error.
            LinkError: The stream ended.
            TargetError: The stream ended because the target is dead.
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
                return (self.read_answer(op, frame.body, parse),)
            except MalformedBodyError:
                return None
        return None

    def read_answer(self, op: Op, body: bytes, parse: Callable[[bytes], _T]) -> _T:
        """Parse the body of a response.

        Raises:
            DeviceRefusedError: Its status is not OK.
            MalformedBodyError: The body does not parse; this has been counted.
            RunInProgressError: The device is running a model.
        """
        if body[:1] == bytes((Status.OK,)):
            return self.read_body(body, parse)
        if body[:1] == bytes((Status.BUSY,)):
            raise busy_error(self.board, self.read_body(body, RunInProgress.parse))
        raise refusal_error(self.board, op, self.read_body(body, DeviceOutcome.parse))

    def read_body(self, body: bytes, parse: Callable[[bytes], _T]) -> _T:
        """Parse a body without a status byte.

        Raises:
            MalformedBodyError: The body does not parse; this has been counted.
        """
        try:
            return parse(body)
        except MalformedBodyError:
            self.statistics.corrupt[CorruptReason.BODY] += 1
            raise

    def check_alive(self) -> None:
        """Check that the target still runs, before a failure is attributed to the link.

        Raises:
            TargetError: The target is dead.
        """
        if self._check_alive is not None:
            self._check_alive()

    def restarted(self) -> RestartedError:
        """Return the error for a device that has lost its session."""
        return RestartedError(
            f"{self.board}: the board restarted by itself",
            hint="look for a fault or watchdog message in its console text; check its supply",
        )

    def failure(self, message: str, *, hint: str = "") -> HarnessError:
        """Return the error for a failed link, with a summary of the bytes received.

        Raises:
            TargetError: The target is dead, so the link is not to blame.
        """
        self.check_alive()
        if self.corrupt_frames or self.statistics.damage_notes or not self.greeted:
            for name in plugin_names(LINES):
                find: Any = load_plugin(LINES, name)
                if (found := find(self)) is not None:
                    return cast(HarnessError, found)
        return LinkError(f"{self.board}: {message}{self._received_text()}", hint=hint)

    def _received_text(self) -> str:
        """Summarize the bytes received, which tells a dead line from a noisy one."""
        counts = self.statistics
        if not counts.bytes_received:
            return "; nothing was received"
        if corrupt := counts.corrupt.total():
            return f"; {corrupt} corrupt and {counts.frames_received} good frames were received"
        if not counts.frames_received:
            return f"; {counts.bytes_received} bytes were received, but no frames"
        return ""

    def _decode(self, data: bytes) -> None:
        self.statistics.bytes_received += len(data)
        if self._reopening is not None:
            self.statistics.reopened = self._reopening.reopened
        for item in self._decoder.feed(data):
            match item:
                case Frame():
                    self.statistics.frames_received += 1
                    if item.type == Op.NOTE_DAMAGED:
                        self.statistics.damage_notes += 1
                        self._received.append(FrameDamage.OUTGOING)
                    else:
                        self._received.append(item)
                case CorruptFrame():
                    self._skipping_text = is_text(item.encoded)
                    if self._skipping_text:
                        self._print_text(item.encoded)
                        # A lone SOH may also be the rest of a damaged frame, so count it as both.
                        if len(item.encoded) > 1:
                            continue
                    self.statistics.corrupt[item.reason] += 1
                    self.corrupt_frames.append(item.encoded)
                    self._received.append(FrameDamage.INCOMING)
                    _log.debug("%s: corrupt frame (%s)", self.board, item.reason)
                case Skipped() if not self._skipping_text:
                    self.statistics.skipped_bytes += len(item.data)
                case Text() | Skipped():
                    self._print_text(item.data)

    def _print_text(self, text: bytes) -> None:
        self.statistics.text_bytes += len(text)
        if self._console is not None:
            self._console(text)
