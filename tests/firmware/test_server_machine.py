"""The C server beside a model of it, request by request, in any order, with noise between them.

The model knows what a device must remember: session, regions and what has arrived of them, the
model in use, the run and its number. After every step the server's STATUS says what the model says.
"""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass, field
from hashlib import sha256

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from harness import Region, read_log
from harness.testing import (
    RESPONSE,
    CorruptFrame,
    Frame,
    FrameDecoder,
    Op,
    Reset,
    State,
    Status,
    encode_frame,
    messages,
)
from tests.support.c_server import BAUDS, MTU, CServer, join
from tests.support.examples import examples
from tests.support.prepared_server import INPUTS, MODEL, OUTPUTS

MODEL_CAPACITY = 4096
PIECES = 4
"""Behind holes, that a device remembers."""

SESSION = st.integers(0, 3)
INDEX = st.integers(0, 2)
PLACE = st.one_of(
    st.tuples(st.just(Region.MODEL), st.sampled_from([0, 0, 0, 1])),
    st.tuples(st.just(Region.INPUT), INDEX),
    st.tuples(st.sampled_from([Region.OUTPUT, Region.TRACE, Region.POSTMORTEM]), INDEX),
)
FRACTION = st.floats(0, 1)


class Watched(CServer):
    """Counts, as the host's decoder sees them, the frames on the line to the device."""

    def __init__(self, library: ct.CDLL) -> None:
        self.good = self.corrupt = 0
        self.rates: list[int] = []
        self._watching = FrameDecoder(MTU)
        super().__init__(library, model=MODEL_CAPACITY)

    def start(self) -> None:
        super().start()
        self.good = self.corrupt = 0
        self._watching = FrameDecoder(MTU)

    def feed(self, data: bytes) -> None:
        items = self._watching.feed(data)
        self.good += sum(isinstance(item, Frame) for item in items)
        self.corrupt += sum(isinstance(item, CorruptFrame) for item in items)
        super().feed(data)

    def _set_baud(self, _context: int | None, baud: int) -> None:
        super()._set_baud(_context, baud)
        self.rates.append(baud)


@dataclass
class Upload:
    """A region being written."""

    place: tuple[Region, int]
    size: int
    pieces: list[tuple[int, int]] = field(default_factory=list)

    @property
    def next(self) -> int:
        return self.pieces[0][1] if self.pieces and self.pieces[0][0] == 0 else 0

    def take(self, start: int, end: int) -> bool:
        """Join what has arrived with what overlaps or touches it; False with too many holes."""
        apart = [piece for piece in self.pieces if piece[1] < start or end < piece[0]]
        joined = [piece for piece in self.pieces if piece not in apart]
        merged = (
            min(start, *(p[0] for p in joined), start),
            max(end, *(p[1] for p in joined), end),
        )
        pieces = sorted([*apart, merged])
        if sum(piece[0] > 0 for piece in pieces) > PIECES:
            return False
        self.pieces = pieces
        return True


@dataclass
class Device:
    """What docs/protocol.md says of a device with room for one model of two inputs."""

    state: State = State.IDLE
    session: int = 0
    epoch: int = 0
    run: tuple[int, int] = (0, 0)
    repeatable: bool = False
    upload: Upload | None = None
    model: bytearray = field(default_factory=lambda: bytearray(MODEL_CAPACITY))
    model_size: int = 0
    inputs: list[bytearray] = field(default_factory=lambda: [bytearray(len(x)) for x in INPUTS])
    ready: list[bool] = field(default_factory=lambda: [False, False])
    outputs: list[bytes] = field(default_factory=list)

    def drop_model(self) -> None:
        self.state, self.upload, self.repeatable, self.model_size = State.IDLE, None, False, 0

    def find(self, place: tuple[Region, int]) -> Status:
        region, index = place
        if place == (Region.MODEL, 0):
            return Status.OK
        if region != Region.INPUT:
            return Status.BAD_REGION
        if self.state == State.IDLE:
            return Status.WRONG_STATE
        return Status.OK if index < len(self.inputs) else Status.BAD_REGION

    def memory(self, place: tuple[Region, int]) -> bytearray:
        return self.model if place[0] == Region.MODEL else self.inputs[place[1]]

    def open(self, place: tuple[Region, int], size: int) -> Status:
        if (status := self.find(place)) != Status.OK:
            return status
        if size > len(self.memory(place)):
            return Status.TOO_LARGE
        if place[0] == Region.MODEL:
            self.drop_model()
            self.model_size = size
        else:
            self.ready[place[1]] = False
        self.upload = Upload(place, size)
        return Status.OK

    def write(self, place: tuple[Region, int], offset: int, data: bytes) -> Status:
        upload = self.upload
        if upload is None or upload.place != place:
            return Status.WRONG_STATE
        if offset + len(data) > upload.size:
            return Status.BAD_REGION
        if not upload.take(offset, offset + len(data)):
            return Status.GAP
        self.memory(place)[offset : offset + len(data)] = data
        return Status.OK

    def commit(self, place: tuple[Region, int], digest: bytes) -> Status:
        if (status := self.find(place)) != Status.OK:
            return status
        upload = self.upload if self.upload and self.upload.place == place else None
        model = place[0] == Region.MODEL
        size = self.model_size if model else len(self.memory(place))
        if upload is not None and upload.size != size:
            return Status.BAD_INPUT
        if upload is not None and upload.next < upload.size:
            return Status.GAP
        if upload is None and (self.state == State.IDLE if model else not self.ready[place[1]]):
            return Status.WRONG_STATE
        stored = bytes(self.memory(place)[:size])
        if sha256(stored).digest() != digest:
            return Status.DIGEST_MISMATCH
        if model and stored != MODEL:
            return Status.BAD_PROGRAM
        if model and self.state == State.IDLE:
            self.state, self.ready = State.READY, [False, False]
        elif not model:
            self.ready[place[1]] = True
        if upload is not None:
            self.upload = None
        return Status.OK

    def start_run(self, number: int, count: int) -> tuple[Status, bool]:
        """Status, and whether it executes."""
        if self.repeatable and number == self.run[0]:
            return Status.OK, False
        if count == 0:
            return Status.BAD_REQUEST, False
        if self.state == State.IDLE:
            return Status.WRONG_STATE, False
        if not all(self.ready):
            return Status.BAD_INPUT, False
        self.state, self.run, self.repeatable = State.DONE, (number, count), True
        self.epoch += 1
        self.outputs = OUTPUTS
        return Status.OK, True

    def readable(self, place: tuple[Region, int]) -> Status:
        region, index = place
        if region not in (Region.OUTPUT, Region.TRACE):
            return Status.BAD_REGION
        if self.state != State.DONE:
            return Status.WRONG_STATE
        count = len(OUTPUTS) if region == Region.OUTPUT else 1
        return Status.OK if index < count else Status.BAD_REGION


class Conversation(RuleBasedStateMachine):
    """A host that does anything, and a line that adds noise."""

    library: ct.CDLL

    @initialize()
    def begin(self) -> None:
        self.server, self.device = Watched(self.library), Device()

    def answers(self, op: int, body: bytes, expected: Status) -> bytes:
        answer = self.server.ask(op, body)
        assert answer[0] == expected, messages.DeviceOutcome.parse(answer) if answer[0] else answer
        return answer

    @rule(session=SESSION)
    def hello(self, session: int) -> None:
        self.answers(Op.HELLO, messages.HelloBody(session).encode(), Status.OK)
        if session != self.device.session:
            self.device.repeatable = False
        self.device.session = session

    @rule(lowest=st.sampled_from([2, 255]))
    def hello_of_another_version(self, lowest: int) -> None:
        self.answers(Op.HELLO, bytes((lowest, 255, 0, 0)) + bytes(4), Status.BAD_VERSION)

    @rule(kind=st.sampled_from([Reset.SESSION, Reset.POSTMORTEM]))
    def reset(self, kind: Reset) -> None:
        self.answers(Op.RESET, messages.ResetBody(kind).encode(), Status.OK)
        if kind == Reset.SESSION:
            self.device.drop_model()

    @rule()
    def reboot(self) -> None:
        self.answers(Op.RESET, messages.ResetBody(Reset.REBOOT).encode(), Status.OK)
        assert self.server.reboots == 1
        self.server.reboots = 0
        self.server.start()
        self.device = Device(model=self.device.model, inputs=self.device.inputs)

    @rule(rate=st.sampled_from([*BAUDS, 9600, 0]))
    def change_the_rate_and_say_no_more(self, rate: int) -> None:
        offered = rate in BAUDS
        self.server.rates.clear()
        status = Status.OK if offered else Status.UNSUPPORTED_FEATURE
        self.answers(Op.BAUD, messages.BaudBody(rate).encode(), status)
        back = [BAUDS[0]] if rate != BAUDS[0] else []
        assert self.server.rates == ([rate, *back] if offered else [])

    @rule(place=PLACE, right=st.booleans(), other=st.integers(0, 5000))
    def open(self, place: tuple[Region, int], right: bool, other: int) -> None:
        size = other
        if right and place[0] in (Region.MODEL, Region.INPUT):
            size = len(self.content(place))
        request = messages.OpenBody(*place, size).encode()
        self.answers(Op.OPEN, request, self.device.open(place, size))

    def content(self, place: tuple[Region, int]) -> bytes:
        return MODEL if place[0] == Region.MODEL else INPUTS[place[1] % len(INPUTS)]

    @rule(place=PLACE, start=FRACTION, length=st.integers(1, 400), damaged=st.integers(0, 9))
    def write(self, place: tuple[Region, int], start: float, length: int, damaged: int) -> None:
        content = self.content(place)
        offset = int(start * len(content))
        data = content[offset : offset + length] or b"?"
        if damaged == 0:
            data = bytes(byte ^ 1 for byte in data)
        self.put(place, offset, data)

    def put(self, place: tuple[Region, int], offset: int, data: bytes) -> None:
        status = self.device.write(place, offset, data)
        answer = self.answers(Op.WRITE, messages.WriteBody(*place, offset, data).encode(), status)
        if status == Status.OK and self.device.upload is not None:
            assert messages.WriteAnswer.parse(answer).arrived == self.device.upload.next

    @rule(starts=st.lists(FRACTION, min_size=3, max_size=9), length=st.integers(1, 40))
    def write_pieces(self, starts: list[float], length: int) -> None:
        """What is open gets parts of its contents, with holes between them."""
        if self.device.upload is not None:
            place = self.device.upload.place
            content = self.content(place)
            for start in starts:
                offset = int(start * (len(content) - 1))
                self.put(place, offset, content[offset : offset + length])

    @rule()
    def write_all(self) -> None:
        """What is open gets its contents, in order."""
        if self.device.upload is not None:
            place = self.device.upload.place
            content = self.content(place)
            for at in range(0, len(content), 400):
                self.put(place, at, content[at : at + 400])

    @rule(place=PLACE, right=st.integers(0, 9))
    def commit(self, place: tuple[Region, int], right: int) -> None:
        digest = sha256(self.content(place)).digest() if right else bytes(32)
        expected = self.device.commit(place, digest)
        answer = self.server.ask(Op.COMMIT, messages.CommitBody(*place, digest).encode())
        assert answer[0] == expected

    @rule(number=st.integers(0, 3), count=st.sampled_from([0, 1, 1, 2, 3]))
    def run(self, number: int, count: int) -> None:
        status, executes = self.device.start_run(number, count)
        first, *notes = [f for f in self.server.run(number, count) if f.type != Op.NOTE_DAMAGED]
        assert (first.type, first.body[0]) == (Op.RUN | RESPONSE, status)
        expected = [Op.NOTE_PROGRESS] * count + [Op.NOTE_DONE] if executes else []
        assert [note.type for note in notes] == expected

    @rule(number=st.integers(0, 3))
    def cancel_a_run_that_is_over(self, number: int) -> None:
        status = Status.OK if number == self.device.run[0] else Status.WRONG_STATE
        self.answers(Op.CANCEL, messages.CancelBody(number).encode(), status)

    @rule(index=INDEX, right=st.integers(0, 9), copies=st.integers(1, 2))
    def write_an_input_in_one_frame(self, index: int, right: int, copies: int) -> None:
        """OPEN, WRITE and COMMIT in a BATCH; the answer ends with the first that fails."""
        place = (Region.INPUT, index)
        data = self.content(place)
        digest = sha256(data).digest() if right else bytes(32)
        parts = [
            (Op.OPEN, messages.OpenBody(*place, len(data)).encode()),
            (Op.WRITE, messages.WriteBody(*place, 0, data).encode()),
            (Op.COMMIT, messages.CommitBody(*place, digest).encode()),
        ]
        for answer in self.server.request(
            Op.BATCH, messages.BatchBody.of(parts).encode(), times=copies
        ):
            expected = [self.device.open(place, len(data))]
            if expected[-1] == Status.OK:
                expected.append(self.device.write(place, 0, data))
                expected.append(self.device.commit(place, digest))
            assert [part[0] for part in messages.BatchAnswer.parse(answer.body).bodies] == expected

    @rule()
    def bring_to_a_run(self) -> None:
        """The way that leads to a result, from wherever it is."""
        self.open((Region.MODEL, 0), True, 0)
        self.write_all()
        self.commit((Region.MODEL, 0), 1)
        for index in range(len(INPUTS)):
            self.open((Region.INPUT, index), True, 0)
            self.write_all()
            self.commit((Region.INPUT, index), 1)
        self.run((self.device.run[0] + 1) % 4, 2)
        assert self.device.state == State.DONE

    @rule(place=PLACE)
    def read(self, place: tuple[Region, int]) -> None:
        status = self.device.readable(place)
        stat = self.answers(Op.STAT, messages.StatBody(*place).encode(), status)
        if status != Status.OK:
            self.answers(Op.READ, messages.ReadBody(*place, 0, 1).encode(), status)
            return
        info = messages.RegionInfo.parse(stat)
        frames = self.server.request(Op.READ, messages.ReadBody(*place, 0, info.size).encode())
        data = join([frame for frame in frames if frame.sequence], info.size)
        assert sha256(data).digest() == info.digest
        if place[0] == Region.OUTPUT:
            assert data == self.device.outputs[place[1]]
        else:
            blocks = [block.name for block in read_log(data).blocks]
            assert blocks == ["Default", *["Execute"] * self.device.run[1]]
        self.answers(Op.READ, messages.ReadBody(*place, info.size, 1).encode(), Status.BAD_REGION)

    @rule(
        op=st.sampled_from([0, 0x0F, 0x13, 0x22, 0x3F, 0x40, 0x44, 0x7F]),
        body=st.binary(max_size=9),
    )
    def ask_for_nothing_known(self, op: int, body: bytes) -> None:
        self.answers(op, body, Status.UNKNOWN_OP)

    @rule(op=st.sampled_from([op for op in Op if op < Op.NOTE_PROGRESS]))
    def ask_with_a_wrong_body(self, op: Op) -> None:
        size = 2 if op not in (Op.PING, Op.STATUS) else 1
        self.answers(op, bytes(size), Status.BAD_REQUEST)

    @rule(op=st.integers(RESPONSE, 255), body=st.binary(max_size=20))
    def echo(self, op: int, body: bytes) -> None:
        assert [f for f in self.server.request(op, body) if f.type != Op.NOTE_DAMAGED] == []

    @rule(noise=st.one_of(st.binary(max_size=50), st.binary(max_size=20).map(b"\1".__add__)))
    def noise(self, noise: bytes) -> None:
        self.notes_of(noise)

    @rule(place=FRACTION, bit=st.integers(0, 7), copies=st.integers(1, 3))
    def damage_a_ping(self, place: float, bit: int, copies: int) -> None:
        data = bytearray(encode_frame(Op.PING, 9, b""))
        data[int(place * (len(data) - 1))] ^= 1 << bit
        self.notes_of(bytes(data) * copies)

    def notes_of(self, data: bytes) -> None:
        """One note per corrupt frame to a host that has said HELLO, and answers to what is good."""
        good, corrupt = self.server.good, self.server.corrupt
        self.server.feed(data)
        types = [frame.type for frame in self.server.settle()]
        damages = self.server.corrupt - corrupt if self.device.session else 0
        assert types.count(Op.NOTE_DAMAGED) == damages
        assert len(types) == damages + self.server.good - good

    @invariant()
    def status_says_what_the_model_says(self) -> None:
        if not hasattr(self, "server"):
            return
        clock = messages.DeviceClock.parse(self.answers(Op.PING, b"", Status.OK))
        status, device = self.server.status(), self.device
        assert (status.state, status.session) == (device.state, device.session)
        assert (status.run_id, status.completed) == device.run
        assert status.outcome.status == Status.OK
        assert (status.good_frames, status.corrupt_frames) == (
            self.server.good,
            self.server.corrupt,
        )
        assert (clock.epoch, self.server.baud) == (device.epoch, BAUDS[0])


def test_any_conversation(etstub: ct.CDLL) -> None:
    machine = type("Machine", (Conversation,), {"library": etstub})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(60), stateful_step_count=40)
    )
