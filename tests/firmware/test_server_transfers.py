"""The C server: what is uploaded to its regions and read from them, in pieces of any order."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Region
from harness.testing import Op, State, Status, encode_frame, messages
from tests.support.c_server import MTU, CServer, join
from tests.support.prepared_server import INPUTS, MODEL, OUTPUTS, digest_of, prepare
from tests.support.programs import ProgramBuilder
from tests.support.tiny_model import relu_model


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    return CServer(etstub)


@pytest.mark.parametrize(
    ("model", "status"),
    [
        (b"no model", Status.BAD_PROGRAM),
        (b"", Status.BAD_PROGRAM),
        (MODEL[:-8], Status.BAD_PROGRAM),
        (relu_model([4], operator="aten::unknown"), Status.UNSUPPORTED_OPERATOR),
        (relu_model([1 << 14]), Status.OUT_OF_MEMORY),
        (relu_model([1] * 9), Status.UNSUPPORTED_FEATURE),
        (relu_model([1], copies=256), Status.UNSUPPORTED_FEATURE),
        (relu_model([1], copies=MTU // 12), Status.UNSUPPORTED_FEATURE),
        (relu_model([700, 700]), Status.TOO_LARGE),
    ],
)
def test_a_model_that_cannot_run_is_refused_when_committed(
    server: CServer, model: bytes, status: Status
) -> None:
    first = server.upload(Region.MODEL, 0, model)
    assert first[0] == status
    request = messages.CommitBody(Region.MODEL, 0, digest_of(model)).encode()
    assert server.ask(Op.COMMIT, request) == first
    assert server.status().state == State.IDLE
    prepare(server)
    server.run(1)
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


def test_a_wrong_digest_leaves_the_region_open_for_the_right_bytes(server: CServer) -> None:
    damaged = b"X" + MODEL[1:]
    server.ask(Op.OPEN, messages.OpenBody(Region.MODEL, 0, len(MODEL)).encode())
    for at in range(0, len(MODEL), 400):
        piece = damaged[at : at + 400]
        server.ask(Op.WRITE, messages.WriteBody(Region.MODEL, 0, at, piece).encode())
    commit = messages.CommitBody(Region.MODEL, 0, digest_of(MODEL)).encode()
    assert server.refusal(Op.COMMIT, commit).status == Status.DIGEST_MISMATCH
    server.ask(Op.WRITE, messages.WriteBody(Region.MODEL, 0, 0, MODEL[:1]).encode())
    assert server.ask(Op.COMMIT, commit)[0] == Status.OK


def test_what_is_in_use_already_is_committed_without_uploading(server: CServer) -> None:
    prepare(server)
    server.run(1)
    commit = messages.CommitBody(Region.MODEL, 0, digest_of(MODEL)).encode()
    info = messages.ModelInfo.parse(server.ask(Op.COMMIT, commit))
    assert [tensor.sizes for tensor in info.inputs] == [(4,), (3,)]
    other = messages.CommitBody(Region.MODEL, 0, digest_of(b"other")).encode()
    assert server.refusal(Op.COMMIT, other).status == Status.DIGEST_MISMATCH
    assert server.status().state == State.DONE
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


def test_a_commit_names_the_method(server: CServer) -> None:
    prepare(server)
    digest = digest_of(MODEL)
    described = server.ask(Op.COMMIT, messages.CommitBody(Region.MODEL, 0, digest).encode())
    named = messages.CommitBody(Region.MODEL, 0, digest, "forward").encode()
    assert server.ask(Op.COMMIT, named) == described
    refused = server.refusal(Op.COMMIT, named[:-1])
    assert (refused.status, refused.detail) == (Status.NO_METHOD, 1)
    assert refused.message == "forwar: method not found; available: forward"
    assert server.status().state == State.IDLE
    assert server.ask(Op.COMMIT, named)[0] == Status.WRONG_STATE

    prepare(server)
    refused = server.refusal(Op.COMMIT, named + bytes(48))
    assert (refused.status, refused.detail) == (Status.TOO_LARGE, 47)
    of_input = messages.CommitBody(Region.INPUT, 0, bytes(32), "forward").encode()
    assert server.refusal(Op.COMMIT, of_input).status == Status.BAD_REQUEST


@pytest.mark.attack(
    "Link and servers", "writes with holes and beyond the end of a region", "refused by the device"
)
def test_writes_with_holes_and_beyond_the_end_are_refused(server: CServer) -> None:
    region = (Region.MODEL, 0)

    def write(region: Region, index: int, offset: int, data: bytes) -> bytes:
        return messages.WriteBody(region, index, offset, data).encode()

    assert server.refusal(Op.WRITE, write(*region, 0, b"x")).status == Status.WRONG_STATE
    too_large = server.refusal(Op.OPEN, messages.OpenBody(*region, 4097).encode())
    assert (too_large.status, too_large.detail) == (Status.TOO_LARGE, 4096)
    server.ask(Op.OPEN, messages.OpenBody(*region, 100).encode())
    assert (
        messages.WriteAnswer.parse(server.ask(Op.WRITE, write(*region, 0, bytes(40)))).arrived == 40
    )
    for start in (42, 52, 62, 72):
        assert (
            messages.WriteAnswer.parse(
                server.ask(Op.WRITE, write(*region, start, b"x" * 5))
            ).arrived
            == 40
        )
    gap = server.refusal(Op.WRITE, write(*region, 82, b"x"))
    assert (gap.status, gap.detail) == (Status.GAP, 40)
    assert messages.WriteAnswer.parse(server.ask(Op.WRITE, write(*region, 40, b"xx"))).arrived == 47
    assert (
        messages.WriteAnswer.parse(server.ask(Op.WRITE, write(*region, 10, bytes(10)))).arrived
        == 47
    )
    for offset, size in [(40, 61), (0, 101), (2**32 - 1, 1)]:
        outcome = server.refusal(Op.WRITE, write(*region, offset, bytes(size)))
        assert outcome.status == Status.BAD_REGION
    commit = messages.CommitBody(*region, bytes(32)).encode()
    assert server.refusal(Op.COMMIT, commit).detail == 47
    assert (
        messages.WriteAnswer.parse(server.ask(Op.WRITE, write(*region, 40, bytes(60)))).arrived
        == 100
    )


def test_late_writes_do_not_change_what_is_in_use(server: CServer) -> None:
    parts = [(Region.MODEL, 0, MODEL), *((Region.INPUT, i, INPUTS[i]) for i in range(2))]
    for region, index, data in parts:
        server.upload(region, index, data)
        late = messages.WriteBody(region, index, 0, b"\xff" * 8).encode()
        assert server.refusal(Op.WRITE, late).status == Status.WRONG_STATE
    server.run(1)
    assert [server.fetch(Region.OUTPUT, index) for index in range(2)] == OUTPUTS


def test_inputs_have_the_size_of_their_tensors(server: CServer) -> None:
    def opening(region: Region, index: int, size: int) -> bytes:
        return messages.OpenBody(region, index, size).encode()

    assert server.refusal(Op.OPEN, opening(Region.INPUT, 0, 16)).status == Status.WRONG_STATE
    server.upload(Region.MODEL, 0, MODEL)
    assert server.refusal(Op.OPEN, opening(Region.INPUT, 2, 16)).status == Status.BAD_REGION
    assert server.refusal(Op.OPEN, opening(Region.INPUT, 0, 17)).detail == 16
    short = messages.DeviceOutcome.parse(server.upload(Region.INPUT, 0, bytes(12)))
    assert (short.status, short.detail) == (Status.BAD_INPUT, 16)
    commit = messages.CommitBody(Region.INPUT, 1, digest_of(INPUTS[1])).encode()
    assert server.refusal(Op.COMMIT, commit).status == Status.WRONG_STATE


def shaped_model() -> bytes:
    """Applies relu to at most 4x2 numbers."""
    program = ProgramBuilder([0, 64])
    x, y = (program.tensor((4, 2), memory=(1, at), dynamism=1) for at in (0, 32))
    program.call("aten::relu", x, y)
    return program.finish([x], [y])


def shaped_input(server: CServer, *sizes: int) -> bytes:
    data = np.arange(-2, np.prod(sizes) - 2, dtype=np.float32).tobytes()
    opened = server.ask(Op.OPEN, messages.OpenBody(Region.INPUT, 0, len(data), sizes).encode())
    assert opened == b"\0"
    server.ask(Op.WRITE, messages.WriteBody(Region.INPUT, 0, 0, data).encode())
    server.ask(Op.COMMIT, messages.CommitBody(Region.INPUT, 0, digest_of(data)).encode())
    return data


def test_an_input_of_dynamic_shape_says_its_sizes(server: CServer) -> None:
    model = shaped_model()
    described = messages.ModelInfo.parse(server.upload(Region.MODEL, 0, model))
    assert [(t.sizes, t.nbytes, t.dynamic) for t in described.inputs + described.outputs] == [
        ((4, 2), 32, True)
    ] * 2
    for run_id, sizes in enumerate([(3, 2), (1, 1), (4, 2), (0, 2)], start=1):
        shaped_input(server, *sizes)
        server.run(run_id, count=2)
        info = server.stat(Region.OUTPUT)
        assert (info.sizes, info.size) == (sizes, 4 * sizes[0] * sizes[1])
        expected = np.maximum(np.arange(-2, np.prod(sizes) - 2), 0)
        found = np.frombuffer(server.fetch(Region.OUTPUT) if info.size else b"", np.float32)
        np.testing.assert_array_equal(found, expected)
    # What the model is does not depend on what has run.
    commit = messages.CommitBody(Region.MODEL, 0, digest_of(model)).encode()
    assert messages.ModelInfo.parse(server.ask(Op.COMMIT, commit)) == described
    # Without sizes an input has the largest.
    server.upload(Region.INPUT, 0, bytes(32))
    server.run(9)
    assert server.stat(Region.OUTPUT).sizes == (4, 2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((5, 1), "sizes exceed the bounds of the shape"),
        ((-1, 2), "sizes exceed the bounds of the shape"),
        ((4, 2, 1), "wrong number of sizes"),
        ((4,), "wrong number of sizes"),
    ],
)
def test_sizes_that_an_input_cannot_have_are_refused(
    server: CServer, sizes: tuple[int, ...], message: str
) -> None:
    server.upload(Region.MODEL, 0, shaped_model())
    body = messages.OpenBody(Region.INPUT, 0, 16, sizes).encode()
    outcome = server.refusal(Op.OPEN, body)
    assert (outcome.status, outcome.detail, outcome.message) == (Status.BAD_INPUT, 32, message)
    assert server.refusal(Op.OPEN, body[:-1]).status == Status.BAD_REQUEST


def test_an_input_of_dynamic_shape_has_the_bytes_of_its_sizes(server: CServer) -> None:
    server.upload(Region.MODEL, 0, shaped_model())
    server.ask(Op.OPEN, messages.OpenBody(Region.INPUT, 0, 20, [2, 2]).encode())
    server.ask(Op.WRITE, messages.WriteBody(Region.INPUT, 0, 0, bytes(20)).encode())
    commit = messages.CommitBody(Region.INPUT, 0, digest_of(bytes(20))).encode()
    outcome = server.refusal(Op.COMMIT, commit)
    assert (outcome.status, outcome.detail) == (Status.BAD_INPUT, 16)


def test_a_static_input_takes_no_sizes(server: CServer) -> None:
    server.upload(Region.MODEL, 0, MODEL)
    outcome = server.refusal(Op.OPEN, messages.OpenBody(Region.INPUT, 0, 16, [4]).encode())
    assert outcome.status == Status.BAD_INPUT


def test_a_model_that_makes_an_input_something_else_is_refused(server: CServer) -> None:
    program = ProgramBuilder([0, 64])
    x, y = (program.tensor((4,), memory=(1, at)) for at in (0, 32))
    fixed = program.constant(np.zeros(4, np.float32))
    program.call("aten::relu", x, y)
    program.call("executorch_prim::et_view", fixed, program.integers(4), x, overload="default")
    server.upload(Region.MODEL, 0, program.finish([x], [y]))
    server.upload(Region.INPUT, 0, bytes(16))
    server.run(1, count=2)
    status = server.status()
    assert (status.completed, status.outcome.status) == (1, Status.BAD_INPUT)
    assert status.outcome.message == "the model changed the shape of an input"


def test_an_input_opened_again_must_be_committed_again(server: CServer) -> None:
    prepare(server)
    server.ask(Op.OPEN, messages.OpenBody(Region.INPUT, 0, 16).encode())
    assert server.refusal(Op.RUN, messages.RunBody(1, 1).encode()).status == Status.BAD_INPUT


@pytest.mark.parametrize(
    ("op", "region", "status"),
    [
        (Op.OPEN, Region.OUTPUT, Status.BAD_REGION),
        (Op.OPEN, 0, Status.BAD_REGION),
        (Op.COMMIT, Region.TRACE, Status.BAD_REGION),
        (Op.STAT, Region.MODEL, Status.BAD_REGION),
        (Op.STAT, Region.TRACE, Status.WRONG_STATE),
        (Op.STAT, Region.OUTPUT, Status.WRONG_STATE),
        (Op.READ, Region.INPUT, Status.BAD_REGION),
    ],
)
def test_regions_have_directions_and_times(
    server: CServer, op: Op, region: int, status: Status
) -> None:
    rest = {Op.OPEN: 4, Op.COMMIT: 32, Op.STAT: 0, Op.READ: 8}[op]
    body = bytes((region, 0, 0, 0)) + b"\1" * rest
    assert server.refusal(op, body).status == status


def traced(server: CServer) -> bytes:
    """Make a run with a trace of several frames and return the log."""
    prepare(server)
    server.run(1, 20)
    image = server.fetch(Region.TRACE)
    assert len(image) > 3 * MTU
    return image


def read(offset: int, length: int) -> bytes:
    return messages.ReadBody(Region.TRACE, 0, offset, length).encode()


def test_reads_are_windows_that_extend_each_other(server: CServer) -> None:
    image = traced(server)
    window = 700
    for number, at in enumerate(range(0, len(image), window)):
        length = min(window, len(image) - at)
        server.feed(encode_frame(Op.READ, 100 + number, read(at, length)))
        for _ in range(2):
            server.poll()
    frames = server.settle()
    assert join(frames, len(image)) == image
    sequences = [frame.sequence for frame in frames]
    assert sequences == sorted(sequences)
    full = [len(frame.body) for frame in frames[:-1]]
    assert max(full) == MTU - 8


def test_other_reads_wait_their_turn_and_push_out_the_first(server: CServer) -> None:
    image = traced(server)
    pieces = [(40, 60), (0, 10), (900, 50), (300, 600), (950, 1)]
    request = b"".join(
        encode_frame(Op.READ, 100 + n, read(*piece)) for n, piece in enumerate(pieces)
    )
    assert len(request) <= 128, "one look at the line"
    server.feed(request)
    parts = [messages.RegionPart.parse(frame.body) for frame in server.settle()]
    assert [part.offset for part in parts] == [0, 900, 300, 796, 950]
    for part in parts:
        assert part.data == image[part.offset : part.offset + len(part.data)]


@settings(deadline=None)
@given(pieces=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), max_size=30))
def test_writes_may_come_in_any_order(etstub: ct.CDLL, pieces: list[tuple[int, int]]) -> None:
    """Against a model that remembers every byte: whatever was not refused has arrived."""
    server = CServer(etstub)
    server.ask(Op.OPEN, messages.OpenBody(Region.MODEL, 0, 120).encode())
    arrived = bytearray(120)
    for start, length in pieces:
        answer = server.ask(
            Op.WRITE, messages.WriteBody(Region.MODEL, 0, start, bytes(length)).encode()
        )
        if start + length > 120:
            assert answer[0] == Status.BAD_REGION
            continue
        if answer[0] == Status.OK:
            arrived[start : start + length] = b"\1" * length
        prefix = (arrived + b"\0").index(0)
        if answer[0] == Status.OK:
            assert messages.WriteAnswer.parse(answer).arrived == prefix
        else:
            outcome = messages.DeviceOutcome.parse(answer)
            assert (outcome.status, outcome.detail) == (Status.GAP, prefix)
            assert start > prefix


def test_a_host_is_told_of_damage_once_it_has_said_hello(server: CServer) -> None:
    damaged = encode_frame(Op.PING, 7, b"")[:-3] + b"\x77\0"
    server.feed(damaged)
    assert server.settle() == []
    server.ask(Op.HELLO, messages.HelloBody(1).encode())
    server.feed(damaged * 2)
    frames = server.settle()
    assert [(frame.type, frame.sequence) for frame in frames] == [(Op.NOTE_DAMAGED, 0)] * 2
    assert frames[-1].body == (3).to_bytes(4, "little")


def test_requests_are_answered_in_the_midst_of_a_download(server: CServer) -> None:
    image = traced(server)
    server.feed(encode_frame(Op.READ, 100, read(0, len(image))))
    server.poll()
    server.poll()
    server.feed(encode_frame(Op.PING, 101, b""))
    server.poll()
    assert [frame.sequence for frame in server.answers] == [100, 101]
    assert len(server.settle()) > 3


def test_a_read_of_nothing_stops_and_says_so(server: CServer) -> None:
    image = traced(server)
    server.feed(encode_frame(Op.READ, 100, read(0, len(image))))
    server.feed(encode_frame(Op.READ, 101, read(0, 0)))
    (frame,) = server.settle()
    assert (frame.sequence, messages.RegionPart.parse(frame.body).data) == (101, b"")


@pytest.mark.parametrize("length", [1 << 20, 2**32 - 1])
@pytest.mark.parametrize("times", [1, 2])
def test_size_digest_and_data_are_asked_for_in_one_frame(
    server: CServer, length: int, times: int
) -> None:
    """A READ from the start is cut to the size; a repeated one begins again instead of doubling."""
    image = traced(server)
    parts = [
        (Op.STATUS, b""),
        (Op.STAT, messages.StatBody(Region.TRACE, 0).encode()),
        (Op.READ, read(0, length)),
    ]
    frames = server.request(Op.BATCH, messages.BatchBody.of(parts).encode(), times=times)
    for answer in frames[:times]:
        status, stat, nothing = messages.BatchAnswer.parse(answer.body).bodies
        assert messages.DeviceStatus.parse(status).state == State.DONE
        assert messages.RegionInfo.parse(stat).size == len(image)
        assert nothing == b""
    assert join(frames[times:], len(image)) == image


def test_a_batch_ends_with_the_first_part_that_fails(server: CServer) -> None:
    parts = [
        (Op.STATUS, b""),
        (Op.STAT, messages.StatBody(Region.TRACE, 0).encode()),
        (Op.STATUS, b""),
    ]
    status, failed = messages.BatchAnswer.parse(
        server.ask(Op.BATCH, messages.BatchBody.of(parts).encode())
    ).bodies
    assert messages.DeviceStatus.parse(status).state == State.IDLE
    assert messages.DeviceOutcome.parse(failed).status == Status.WRONG_STATE


@pytest.mark.parametrize("op", [Op.HELLO, Op.RUN, Op.BATCH, Op.RESET, 0x7F])
def test_not_everything_goes_into_a_batch(server: CServer, op: int) -> None:
    answer = server.ask(Op.BATCH, messages.BatchBody.of([(op, bytes(8))]).encode())
    [failed] = messages.BatchAnswer.parse(answer).bodies
    assert messages.DeviceOutcome.parse(failed).status == Status.UNKNOWN_OP


@pytest.mark.parametrize(
    "body", [b"", b"\3", b"\3\0\1\0", b"\3\0\0\0\3", b"\3\0\xff\xff" + bytes(99)]
)
def test_a_malformed_batch_is_refused_as_a_whole(server: CServer, body: bytes) -> None:
    assert server.refusal(Op.BATCH, body).status == Status.BAD_REQUEST


@pytest.mark.attack("Link and servers", "reads beyond the end of a region", "refused by the device")
@pytest.mark.parametrize(("offset", "more"), [(1, 0), (2**32 - 1, 0), (1, 2**31)])
def test_reads_beyond_the_end_are_refused(server: CServer, offset: int, more: int) -> None:
    size = len(traced(server))
    outcome = server.refusal(Op.READ, read(offset, size + more))
    assert (outcome.status, outcome.detail) == (Status.BAD_REGION, size)
    missing = messages.StatBody(Region.OUTPUT, 2).encode()
    assert server.refusal(Op.STAT, missing).status == Status.BAD_REGION
