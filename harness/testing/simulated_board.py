"""SimulatedBoard: a board in Python that answers docs/protocol.md, in virtual time, on a slow line.

It packs and unpacks bodies by hand, so that a mistake in the host's messages shows.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from dataclasses import dataclass, field

from harness.errors import TransportClosedError
from harness.link.frames import CorruptFrame, Frame, FrameDecoder, encode_frame
from harness.link.transfers import MissingRanges
from harness.link.wire import LISTEN_MS, MIN_MTU, READ_QUEUE, RESPONSE, Op, Region, State, Status

_SHORTEST_WAIT = 1e-9
"""Seconds: what the clock can tell apart. Waits of less, left over by rounding, would add up to it
only after millions of them."""


class VirtualClock:
    """A monotonic clock that tests move. Callable like ``time.monotonic_ns``.

    Attributes:
        now: Seconds.

    Examples:
        >>> from harness.testing import VirtualClock
        >>> clock = VirtualClock()
        >>> clock.wait_until(1.5)
        >>> clock()
        1500000000
    """

    def __init__(self) -> None:
        """Start at 0."""
        self.now = 0.0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return round(self.now * 1e9)

    def after(self, timeout: float) -> float:
        """Return when a wait of ``timeout`` seconds that begins now is over."""
        return self.now + max(timeout, _SHORTEST_WAIT)

    def wait_until(self, time: float) -> None:
        """Let time pass until ``time``, seconds."""
        self.now = max(self.now, time)


MODEL_MAGIC = b"FAKE"
"""How a model of this board begins; the rest may be any bytes."""


def output_of(data: bytes) -> bytes:
    """Return what the model computes from its input."""
    return bytes(byte ^ 0x5A for byte in data)


def trace_of(model: bytes, count: int, size: int) -> bytes:
    """Return the log of ``count`` executions of ``model``: bytes that depend on both."""
    blocks = -(-size // 32)
    seed = hashlib.sha256(model + struct.pack("<I", count)).digest()
    return b"".join(
        hashlib.sha256(seed + bytes((i & 255, i >> 8))).digest() for i in range(blocks)
    )[:size]


@dataclass
class Behaviour:
    """How a simulated board is made, and how it misbehaves. Times are seconds.

    Attributes:
        mtu: Longest frame that it takes, bytes.
        boot_s: Time from a reset until it listens.
        execute_s: Time per execution.
        latency_s: Delay of the line in each direction.
        bytes_per_s: Rate of the line.
        input_size: Bytes of the model's one input, and of its output.
        trace_size: Bytes of the log of a run.
        model_capacity: Bytes of the largest model.
        deaf_while_sending: It loses what arrives while it sends.
        deaf_while_executing: It loses what arrives during an execution, as a UART without a FIFO
            does; after such an execution it listens for a while.
        in_order_only: It takes the parts of an upload in order only.
        hang_in_execution: The execution, from 1, in which it hangs.
        restart_in_execution: The execution, from 1, in which it restarts.
        run_outcome: Status, detail and message with which a run ends.
        silent: Requests that it never answers.
        malformed: Requests whose responses are malformed.
        text_after_execution: Console text after each execution.
    """

    mtu: int = 512
    boot_s: float = 0.0
    execute_s: float = 0.01
    latency_s: float = 0.0
    bytes_per_s: float = float("inf")
    input_size: int = 1960
    trace_size: int = 20_000
    model_capacity: int = 1 << 20
    deaf_while_sending: bool = False
    deaf_while_executing: bool = False
    in_order_only: bool = False
    hang_in_execution: int | None = None
    restart_in_execution: int | None = None
    run_outcome: tuple[int, int, bytes] = (Status.OK, 0, b"")
    silent: set[int] = field(default_factory=set)
    malformed: set[int] = field(default_factory=set)
    text_after_execution: bytes = b""


_DURING_RUN = (Op.HELLO, Op.PING, Op.STATUS, Op.RUN, Op.CANCEL)
"""Requests that are answered between executions; all others are answered BUSY."""


class SimulatedBoard:
    """A board and the transport to it in one; a ``Session`` talks to it without any hardware.

    Attributes:
        behaviour: How it misbehaves; may be changed at any time.
        seen: (type, sequence) of every good request, in order; of a BATCH also of its parts.

    Examples:
        >>> from harness.link.session import Session
        >>> from harness.testing import MODEL_MAGIC, SimulatedBoard, VirtualClock
        >>> clock = VirtualClock()
        >>> session = Session(SimulatedBoard(clock), clock_ns=clock)
        >>> session.hello(5).board
        'fake'
        >>> session.load_model(MODEL_MAGIC + b"any bytes").inputs[0].nbytes
        1960
    """

    def __init__(self, clock: VirtualClock, behaviour: Behaviour | None = None) -> None:
        """Start it; time passes only on ``clock``."""
        self.behaviour = behaviour or Behaviour()
        self.clock = clock
        self.seen: list[tuple[int, int]] = []
        self.closed = False
        self._inbox: deque[tuple[float, bytes]] = deque()
        self._outbox: deque[tuple[float, bytes]] = deque()
        self._host_line_free = 0.0
        self._line_free = 0.0
        self._now = self.behaviour.boot_s
        self._booted = self._now
        self._restart()

    # --- the transport --------------------------------------------------------------------

    def read(self, timeout: float) -> bytes:
        """Return what has arrived, or ``b""`` after ``timeout`` seconds of virtual time."""
        if self.closed:
            raise TransportClosedError("the simulated board was closed")
        limit = self.clock.after(timeout)
        while self._next_event() <= min(limit, self._outbox[0][0] if self._outbox else limit):
            self._step()
        if not self._outbox or self._outbox[0][0] > limit:
            self.clock.wait_until(limit)
            return b""
        self.clock.wait_until(self._outbox[0][0])
        arrived = []
        while self._outbox and self._outbox[0][0] <= self.clock.now:
            arrived.append(self._outbox.popleft()[1])
        return b"".join(arrived)

    def write(self, data: bytes, timeout: float) -> None:  # noqa: ARG002  it never blocks
        """Send ``data`` to the board."""
        if self.closed:
            raise TransportClosedError("the simulated board was closed")
        self._host_line_free = max(self._host_line_free, self.clock.now)
        self._host_line_free += len(data) / self.behaviour.bytes_per_s
        self._inbox.append((self._host_line_free + self.behaviour.latency_s, bytes(data)))

    def close(self) -> None:
        """Close the transport."""
        self.closed = True

    # --- the device -----------------------------------------------------------------------

    def _restart(self) -> None:
        self.state, self.session, self.epoch = State.IDLE, 0, 0
        self.overruns = 0
        self.model, self.run_id, self.completed = b"", 0, 0
        self.outcome: tuple[int, int, bytes] = (Status.OK, 0, b"")
        self.inputs: dict[int, bytes] = {}
        self.output, self.trace = b"", b""
        self._upload: tuple[int, int] | None = None
        self._received, self._missing = bytearray(), MissingRanges(0)
        self._streams: deque[list[int]] = deque()
        self._good = self._corrupt = 0
        self._execution_end: float | None = None
        self._listens_until: float | None = None
        self._count, self._run_began = 0, 0.0
        self._cancelled = False
        self._decoder = FrameDecoder(self.behaviour.mtu)
        self._hung = False
        self._collected: bytes | None = None
        """The response to the present part of a BATCH."""

    def _next_event(self) -> float:
        if self._hung:
            return float("inf")
        if self._execution_end is not None:
            return self._execution_end
        heard = max(self._inbox[0][0], self._now) if self._inbox else float("inf")
        if self._listens_until is not None:
            return min(heard, self._listens_until)
        sent = max(self._line_free, self._now) if self._streams else float("inf")
        return min(heard, sent)

    def _step(self) -> None:
        time = self._next_event()
        if self._execution_end is not None:
            self._now = time
            self._end_execution()
            return
        heard = max(self._inbox[0][0], self._now) if self._inbox else float("inf")
        self._now = time
        if self._listens_until is not None:
            self._listens_until = None
            if heard <= time:
                self._hear()
            self._continue_run()
        elif heard > time:
            self._send_part()
        else:
            self._hear()

    def _hear(self) -> None:
        arrived, data = self._inbox.popleft()
        if arrived < self._booted:
            return
        if self.behaviour.deaf_while_sending and self._line_free > arrived:
            return
        for item in self._decoder.feed(data):
            if isinstance(item, Frame):
                self._good += 1
                self._handle(item)
            elif isinstance(item, CorruptFrame):
                self._corrupt += 1
                if self.session:
                    self._send(Op.NOTE_DAMAGED, 0, struct.pack("<I", self._corrupt))

    def say(self, text: bytes) -> None:
        """Send console text."""
        self._line_free = max(self._line_free, self._now) + len(text) / self.behaviour.bytes_per_s
        self._outbox.append((self._line_free + self.behaviour.latency_s, text))

    def _send(self, type_: int, sequence: int, body: bytes) -> None:
        if type_ & ~RESPONSE in self.behaviour.malformed:
            body = body[:1] + b"\x01" * 4
        if self._collected is not None:
            self._collected = body
            return
        self.say(encode_frame(type_, sequence, body))

    def _send_part(self) -> None:
        region, index, offset, end, sequence = self._streams[0]
        part = self._readable(region, index)[offset : min(end, offset + self.behaviour.mtu - 16)]
        self._send(
            Op.READ | RESPONSE,
            sequence,
            struct.pack("<BBBxI", Status.OK, region, index, offset) + part,
        )
        self._streams[0][2] += len(part)
        if offset + len(part) >= end:
            self._streams.popleft()

    def _readable(self, region: int, _index: int) -> bytes:
        return self.output if region == Region.OUTPUT else self.trace

    def _handle(self, frame: Frame) -> None:
        self.seen.append((frame.type, frame.sequence))
        if frame.type == Op.BATCH:
            self._batch(frame)
        elif frame.type not in self.behaviour.silent:
            self._serve(frame)

    def _batch(self, frame: Frame) -> None:
        """Serve the parts, up to the first that fails; collect their responses."""
        responses, rest = b"", frame.body
        while rest:
            op, size = struct.unpack_from("<BxH", rest)
            part, rest = Frame(op, frame.sequence, rest[4 : 4 + size]), rest[4 + size :]
            if op in self.behaviour.silent:
                return
            self.seen.append((op, frame.sequence))
            self._collected = b""
            self._serve(part)
            body, self._collected = self._collected, None
            responses += struct.pack("<BxH", op, len(body)) + body
            if body and body[0] != Status.OK:
                break
        self._answer(frame, bytes(3) + responses)

    def _serve(self, frame: Frame) -> None:
        answer = {
            Op.HELLO: self._hello,
            Op.PING: self._ping,
            Op.STATUS: self._status,
            Op.RESET: self._reset,
            Op.OPEN: self._open,
            Op.WRITE: self._write,
            Op.COMMIT: self._commit,
            Op.RUN: self._run,
            Op.CANCEL: self._cancel,
            Op.STAT: self._stat,
            Op.READ: self._read,
        }.get(Op(frame.type))
        if self.state == State.RUNNING and frame.type not in _DURING_RUN:
            answer = self._busy
        if answer is None:
            self._refuse(frame, Status.UNKNOWN_OP, frame.type)
        else:
            answer(frame)

    def _answer(self, frame: Frame, body: bytes = b"") -> None:
        self._send(frame.type | RESPONSE, frame.sequence, bytes((Status.OK,)) + body)

    def _refuse(self, frame: Frame, status: int, detail: int = 0, message: bytes = b"") -> None:
        body = struct.pack("<BxxxI", status, detail) + message
        self._send(frame.type | RESPONSE, frame.sequence, body)

    def _busy(self, frame: Frame) -> None:
        elapsed_ms = int((self._now - self._run_began) * 1000)
        numbers = (self.run_id, self.completed, self._count, elapsed_ms)
        body = struct.pack("<BxxxIIII", Status.BUSY, *numbers)
        self._send(frame.type | RESPONSE, frame.sequence, body)

    def _hello(self, frame: Frame) -> None:
        if self.state == State.RUNNING:
            self._busy(frame)
            return
        lowest, highest, self.session = struct.unpack("<BBxxI", frame.body)
        if not lowest <= 1 <= highest:
            self._refuse(frame, Status.BAD_VERSION, 1)
            return

        def tag(number: int, value: bytes) -> bytes:
            return bytes((number, len(value))) + value

        tags = (
            tag(1, b"fake")
            + tag(2, b"python")
            + tag(3, b"0123456789ab")
            + tag(200, b"a tag from the future")
            + tag(4, struct.pack("<BBxxII", 32, 0, 25_000_000, 1) + b"systick")
            + tag(4, struct.pack("<BBxxII", 24, 1, 32_768, 3) + b"rtc")
            + b"".join(
                tag(number, struct.pack("<I", value))
                for number, value in ((5, self.behaviour.model_capacity), (6, 65536), (7, 4096))
            )
            + tag(8, struct.pack("<I", max(32768, self.behaviour.trace_size)))
            + tag(9, struct.pack("<II", 640, 64))
            + tag(10, struct.pack("<I", 9))
            + tag(17, struct.pack("<BI", self.state, self.run_id))
        )
        self._answer(frame, struct.pack("<BH", 1, self.behaviour.mtu) + tags)
        assert len(self._outbox[-1][1]) <= MIN_MTU + 3

    def _ping(self, frame: Frame) -> None:
        self._answer(frame, struct.pack("<xxxIQ", self.epoch, round(self._now * 25e6)))

    def _status(self, frame: Frame) -> None:
        status, detail, message = self.outcome
        body = struct.pack(
            "<BxxIIIIIIBxxxI",
            self.state,
            self.session,
            self.run_id,
            self.completed,
            self._good,
            self._corrupt,
            self.overruns,
            status,
            detail,
        )
        self._answer(frame, body + message)

    def _reset(self, frame: Frame) -> None:
        self._answer(frame)
        session = self.session
        self._restart()
        if frame.body == b"\x01":
            self._now += self.behaviour.boot_s
            self._booted = self._now
        else:
            self.session = session

    def _open(self, frame: Frame) -> None:
        region, index, size = struct.unpack("<BBxxI", frame.body)
        capacity = self.behaviour.model_capacity if region == Region.MODEL else 4096
        if size > capacity:
            self._refuse(frame, Status.TOO_LARGE, capacity, b"too large")
            return
        self._upload, self._received = (region, index), bytearray(size)
        self._missing = MissingRanges(size)
        self._answer(frame)

    def _write(self, frame: Frame) -> None:
        region, index, offset = struct.unpack_from("<BBxxI", frame.body)
        if self._upload != (region, index):
            self._refuse(frame, Status.WRONG_STATE)
        elif offset > self._next() and self.behaviour.in_order_only:
            self._refuse(frame, Status.GAP, self._next())
        else:
            end = offset + len(frame.body) - 8
            self._received[offset:end] = frame.body[8:]
            self._missing.remove(offset, end)
            self._answer(frame, struct.pack("<xxxI", self._next()))

    def _next(self) -> int:
        return self._missing.first()[0] if self._missing.count else len(self._received)

    def _commit(self, frame: Frame) -> None:
        region, index = struct.unpack_from("<BBxx", frame.body)
        if region == Region.MODEL and self._upload != (region, index) and self.model:
            if hashlib.sha256(self.model).digest() == frame.body[4:36]:
                self._describe_model(frame)
            else:
                self._refuse(frame, Status.DIGEST_MISMATCH)
            return
        if self._upload != (region, index):
            self._refuse(frame, Status.WRONG_STATE)
            return
        if self._missing.count:
            self._refuse(frame, Status.GAP, self._next())
            return
        data = bytes(self._received)
        if hashlib.sha256(data).digest() != frame.body[4:36]:
            self._refuse(frame, Status.DIGEST_MISMATCH)
        elif region == Region.MODEL:
            self._take_model(frame, data)
        elif index != 0 or len(data) != self.behaviour.input_size:
            self._refuse(frame, Status.BAD_INPUT, self.behaviour.input_size)
        else:
            self.inputs[index] = data
            self._answer(frame)

    def _take_model(self, frame: Frame, data: bytes) -> None:
        if not data.startswith(MODEL_MAGIC):
            self._refuse(frame, Status.BAD_PROGRAM, 4, b"no program identifier")
            return
        self.model, self.state, self._upload = data, State.READY, None
        self._describe_model(frame)

    def _describe_model(self, frame: Frame) -> None:
        size = self.behaviour.input_size
        tensor = struct.pack("<BBxxIiiBB", 6, 2, size, 1, size // 4, 0, 1)
        self._answer(frame, struct.pack("<BBxII", 1, 1, 1000, 200) + tensor + tensor)

    def _run(self, frame: Frame) -> None:
        run_id, count, _limit = struct.unpack("<IIIxxxx", frame.body)
        if run_id == self.run_id:
            self._answer(frame)
            return
        if not self.model:
            self._refuse(frame, Status.WRONG_STATE, 0, b"no model")
            return
        self._answer(frame)
        self.run_id, self.completed, self.epoch = run_id, 0, self.epoch + 1
        self._streams.clear()
        self.state, self.outcome = State.RUNNING, (Status.OK, 0, b"")
        self._count, self._run_began, self._cancelled = count, self._now, False
        self._continue_run()

    def _cancel(self, frame: Frame) -> None:
        (run_id,) = struct.unpack("<I", frame.body)
        if run_id != self.run_id:
            self._refuse(frame, Status.WRONG_STATE, self.run_id)
            return
        self._cancelled = True
        self._answer(frame)

    def _continue_run(self) -> None:
        """Begin the next execution, or end the run."""
        number = self.completed + 1
        if self._cancelled and number <= self._count:
            self._end_run((Status.CANCELLED, self._count, b"cancelled"))
        elif number > self._count:
            self._end_run(self.behaviour.run_outcome)
        elif number == self.behaviour.hang_in_execution:
            self._hung = True
        elif number == self.behaviour.restart_in_execution:
            self._restart()
            self.say(b"boot\n")
        else:
            self._execution_end = self._now + self.behaviour.execute_s

    def _end_execution(self) -> None:
        self._execution_end = None
        if self.behaviour.run_outcome[0] != Status.OK:
            self._end_run(self.behaviour.run_outcome)
            return
        self.completed += 1
        self._send(Op.NOTE_PROGRESS, 0, struct.pack("<II", self.run_id, self.completed))
        if self.behaviour.text_after_execution:
            self.say(self.behaviour.text_after_execution)
        lost = False
        while self._inbox and self._inbox[0][0] <= self._now:
            if self.behaviour.deaf_while_executing:
                self._inbox.popleft()
                lost = True
            else:
                self._hear()
        if lost:
            self._listens_until = self._now + LISTEN_MS / 1000
        else:
            self._continue_run()

    def _end_run(self, outcome: tuple[int, int, bytes]) -> None:
        self.outcome, self.state = outcome, State.DONE
        status, detail, message = outcome
        self.output = output_of(self.inputs.get(0, b""))
        self.trace = trace_of(self.model, self.completed, self.behaviour.trace_size)
        body = struct.pack("<IIBxxxI", self.run_id, self.completed, status, detail) + message
        self._send(Op.NOTE_DONE, 0, body)

    def _stat(self, frame: Frame) -> None:
        region, index = struct.unpack("<BBxx", frame.body)
        if self.state != State.DONE or index != 0:
            self._refuse(frame, Status.BAD_REGION)
            return
        data = self._readable(region, index)
        digest = hashlib.sha256(data).digest()
        self._answer(frame, struct.pack("<xxxI", len(data)) + digest)

    def _read(self, frame: Frame) -> None:
        region, index, offset, length = struct.unpack("<BBxxII", frame.body)
        size = len(self._readable(region, index))
        if offset == 0 < size:
            length = min(length, size)
        end = offset + length
        if end > size or self.state != State.DONE:
            self._refuse(frame, Status.BAD_REGION)
        elif not length:
            self._streams.clear()
            body = struct.pack("<BBBxI", Status.OK, region, index, offset)
            self._send(Op.READ | RESPONSE, frame.sequence, body)
        else:
            self._enqueue([region, index, offset, end, frame.sequence])

    def _enqueue(self, wanted: list[int]) -> None:
        region, index, offset, end, sequence = wanted

        def covered(queued: list[int]) -> bool:
            return queued[:2] == [region, index] and offset <= queued[2] and queued[3] <= end

        self._streams = deque(queued for queued in self._streams if not covered(queued))
        last = self._streams[-1] if self._streams else None
        if last is not None and [*last[:2], last[3]] == [region, index, offset]:
            last[3:] = [end, sequence]
            return
        if len(self._streams) == READ_QUEUE:
            self._streams.popleft()
        self._streams.append(wanted)
