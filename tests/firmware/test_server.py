"""The C server: every request of docs/protocol.md, repeated, out of order, damaged and made up."""

from __future__ import annotations

import ctypes as ct
import struct
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.etdump.compact import read_log
from harness.etdump.log_format import HEADER_SIZE
from harness.link import messages
from harness.link.frames import encode
from harness.link.wire import RESPONSE, VERSION, Op, Region, Reset, State, Status
from harness.resources import data_directory
from harness.trace import Losses
from tests.support.c_server import MTU, TICK, CServer, join
from tests.support.programs import ProgramBuilder
from tests.support.tiny_model import relu_model

SIZES = [4, 3]
MODEL = relu_model(SIZES)
INPUTS = [struct.pack("<4f", -1, 2, -3, 4), struct.pack("<3f", 5, -6, 7)]
OUTPUTS = [struct.pack("<4f", 0, 2, 0, 4), struct.pack("<3f", 5, 0, 7)]


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    return CServer(etstub)


def prepare(server: CServer, model: bytes = MODEL, inputs: list[bytes] | None = None) -> None:
    assert server.upload(Region.MODEL, 0, model)[0] == Status.OK
    for index, data in enumerate(INPUTS if inputs is None else inputs):
        assert server.upload(Region.INPUT, index, data) == b"\0"


def digest_of(data: bytes) -> bytes:
    return sha256(data).digest()


def test_hello_names_the_target(server: CServer) -> None:
    info = messages.parse_hello(server.ask(Op.HELLO, messages.hello_request(77)))
    assert (info.version, info.mtu) == (VERSION, MTU)
    assert (info.board, info.cpu, info.build_id) == ("test board", "host", "build")
    assert [(clock.name, clock.hz, clock.bits, clock.down) for clock in info.clocks] == [
        ("test clock", 1000, 32, False),
        ("npu", Fraction(1_000_000, 3), 24, True),
    ]
    assert (info.model_capacity, info.arena_capacity) == (4096, 16384)
    assert (info.input_capacity, info.trace_capacity) == (4096, 8192)
    assert (info.probe_ticks, info.probe_pairs) == ((2 * 64 + 1) * TICK, 64)
    assert info.operators > 0
    assert server.status().session == 77


@pytest.mark.parametrize(("lowest", "highest"), [(0, 0), (2, 9), (3, 0)])
def test_hello_without_a_common_version_is_refused(
    server: CServer, lowest: int, highest: int
) -> None:
    outcome = server.refusal(Op.HELLO, struct.pack("<BBHI", lowest, highest, 0, 5))
    assert (outcome.status, outcome.detail) == (Status.BAD_VERSION, VERSION)
    assert server.status().session == 0


def test_hello_to_a_later_host_agrees_on_our_version(server: CServer) -> None:
    assert server.ask(Op.HELLO, struct.pack("<BBHI", 1, 200, 0, 5))[:2] == bytes((0, VERSION))


def test_ping_reads_the_clock(server: CServer) -> None:
    first, second = (messages.parse_ping(server.ask(Op.PING)) for _ in range(2))
    assert first.epoch == second.epoch == 0
    assert second.ticks - first.ticks == TICK


def test_a_run_leaves_outputs_and_a_trace(server: CServer) -> None:
    prepare(server)
    before = messages.parse_ping(server.ask(Op.PING))
    frames = server.run(9, 3)
    assert [frame.type for frame in frames] == [Op.RUN | RESPONSE] + 3 * [Op.NOTE_PROGRESS] + [
        Op.NOTE_DONE
    ]
    assert [messages.parse_progress(frame.body).completed for frame in frames[1:4]] == [1, 2, 3]
    done = messages.parse_done(frames[-1].body)
    assert (done.run_id, done.completed, done.outcome.status) == (9, 3, Status.OK)
    assert [server.fetch(Region.OUTPUT, index) for index in range(2)] == OUTPUTS
    trace = read_log(server.fetch(Region.TRACE))
    assert [block.name for block in trace.blocks] == ["Default", "Execute", "Execute", "Execute"]
    assert trace.losses == Losses()
    status = server.status()
    assert (status.state, status.run_id, status.completed) == (State.DONE, 9, 3)
    after = messages.parse_ping(server.ask(Op.PING))
    assert (before.epoch, after.epoch, server.restarts) == (0, 1, 1)


def test_the_port_is_quiet_from_the_answer_to_the_last_execution(server: CServer) -> None:
    assert server.calls == ["loud"], "a port begins quiet"
    prepare(server)
    server.calls.clear()
    server.run(1, 2)
    answer, progress, done = ["write"], ["write"] * 2, ["write"]
    assert server.calls == [*answer, "quiet", "restart", *progress, "loud", *done]


def test_lost_bytes_are_told(server: CServer) -> None:
    assert server.status().overruns == 0
    server.overruns = 3
    assert server.status().overruns == 3


def test_runs_on_a_deterministic_clock_have_equal_traces(server: CServer) -> None:
    prepare(server)
    traces = []
    for run_id in range(2):
        server.run(run_id, 2)
        traces.append(server.fetch(Region.TRACE))
    assert traces[0] == traces[1]


def test_a_session_of_repeated_requests_gives_the_same(etstub: ct.CDLL) -> None:
    once, thrice = CServer(etstub), CServer(etstub)
    for server, times in [(once, 1), (thrice, 3)]:
        server.request(Op.HELLO, messages.hello_request(4), times=times)
        assert server.upload(Region.MODEL, 0, MODEL, times=times)[0] == Status.OK
        for index, data in enumerate(INPUTS):
            server.upload(Region.INPUT, index, data, times=times)
        frames = server.run(1, 2, times=times)
        assert [frame.type for frame in frames].count(Op.NOTE_DONE) == 1
        assert [frame.type for frame in frames].count(Op.RUN | RESPONSE) == times
        assert server.restarts == 1
    assert once.fetch(Region.TRACE) == thrice.fetch(Region.TRACE)
    assert once.fetch(Region.OUTPUT, 1) == thrice.fetch(Region.OUTPUT, 1)


def test_a_new_session_may_count_its_runs_anew(server: CServer) -> None:
    prepare(server)
    server.ask(Op.HELLO, messages.hello_request(1))
    assert len(server.run(1)) == 3
    server.ask(Op.HELLO, messages.hello_request(1))
    assert len(server.run(1)) == 1
    server.ask(Op.HELLO, messages.hello_request(2))
    assert server.status().state == State.DONE
    assert len(server.run(1)) == 3


def test_a_run_that_fails_tells_why_and_leaves_the_board_usable(server: CServer) -> None:
    prepare(server, relu_model([4], [5]), INPUTS[:1])
    frames = server.run(5, 2)
    done = messages.parse_done(frames[-1].body)
    assert (done.completed, done.outcome.status) == (0, Status.KERNEL_FAILED)
    status = server.status()
    assert (status.state, status.outcome) == (State.DONE, done.outcome)
    assert [block.name for block in read_log(server.fetch(Region.TRACE)).blocks] == [
        "Default",
        "Execute",
    ]
    outcome = server.refusal(Op.STAT, messages.stat_request(Region.OUTPUT, 0))
    assert outcome.status == Status.WRONG_STATE
    (repeated,) = server.run(5, 2)
    assert messages.parse_refusal(repeated.body) == done.outcome
    prepare(server)
    server.run(6)
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


def test_what_a_run_needs(server: CServer) -> None:
    run = messages.run_request(1, 1)
    assert server.refusal(Op.RUN, run).status == Status.WRONG_STATE
    server.upload(Region.MODEL, 0, MODEL)
    server.upload(Region.INPUT, 0, INPUTS[0])
    assert server.refusal(Op.RUN, messages.run_request(1, 0)).status == Status.BAD_REQUEST
    outcome = server.refusal(Op.RUN, run)
    assert (outcome.status, outcome.detail) == (Status.BAD_INPUT, len(INPUTS[1]))
    assert server.restarts == 0
    server.upload(Region.INPUT, 1, INPUTS[1])
    assert len(server.run(1)) == 3


def test_the_trace_limit_is_kept_and_the_loss_counted(server: CServer) -> None:
    prepare(server)
    server.run(1, 20, trace_limit=256)
    image = server.fetch(Region.TRACE)
    assert HEADER_SIZE < len(image) <= HEADER_SIZE + 256
    assert read_log(image).losses.events > 0
    server.run(2, 1, trace_limit=1 << 30)
    assert read_log(server.fetch(Region.TRACE)).losses == Losses()


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
    request = messages.commit_request(Region.MODEL, 0, digest_of(model))
    assert server.ask(Op.COMMIT, request) == first
    assert server.status().state == State.IDLE
    prepare(server)
    server.run(1)
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


def test_a_wrong_digest_leaves_the_region_open_for_the_right_bytes(server: CServer) -> None:
    damaged = b"X" + MODEL[1:]
    server.ask(Op.OPEN, messages.open_request(Region.MODEL, 0, len(MODEL)))
    for at in range(0, len(MODEL), 400):
        piece = damaged[at : at + 400]
        server.ask(Op.WRITE, messages.write_request(Region.MODEL, 0, at, piece))
    commit = messages.commit_request(Region.MODEL, 0, digest_of(MODEL))
    assert server.refusal(Op.COMMIT, commit).status == Status.DIGEST_MISMATCH
    server.ask(Op.WRITE, messages.write_request(Region.MODEL, 0, 0, MODEL[:1]))
    assert server.ask(Op.COMMIT, commit)[0] == Status.OK


def test_what_is_in_use_already_is_committed_without_uploading(server: CServer) -> None:
    prepare(server)
    server.run(1)
    commit = messages.commit_request(Region.MODEL, 0, digest_of(MODEL))
    info = messages.parse_model(server.ask(Op.COMMIT, commit))
    assert [tensor.sizes for tensor in info.inputs] == [(4,), (3,)]
    other = messages.commit_request(Region.MODEL, 0, digest_of(b"other"))
    assert server.refusal(Op.COMMIT, other).status == Status.DIGEST_MISMATCH
    assert server.status().state == State.DONE
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


def test_a_commit_names_the_method(server: CServer) -> None:
    prepare(server)
    digest = digest_of(MODEL)
    described = server.ask(Op.COMMIT, messages.commit_request(Region.MODEL, 0, digest))
    named = messages.commit_request(Region.MODEL, 0, digest, "forward")
    assert server.ask(Op.COMMIT, named) == described
    refused = server.refusal(Op.COMMIT, named[:-1])
    assert (refused.status, refused.detail) == (Status.NO_METHOD, 1)
    assert refused.message == "forwar: no such method; there are forward"
    assert server.status().state == State.IDLE
    assert server.ask(Op.COMMIT, named)[0] == Status.WRONG_STATE

    prepare(server)
    refused = server.refusal(Op.COMMIT, named + bytes(48))
    assert (refused.status, refused.detail) == (Status.TOO_LARGE, 47)
    of_input = messages.commit_request(Region.INPUT, 0, bytes(32), "forward")
    assert server.refusal(Op.COMMIT, of_input).status == Status.BAD_REQUEST


def test_writes_with_holes_and_beyond_the_end_are_refused(server: CServer) -> None:
    region = (Region.MODEL, 0)
    write = messages.write_request
    assert server.refusal(Op.WRITE, write(*region, 0, b"x")).status == Status.WRONG_STATE
    too_large = server.refusal(Op.OPEN, messages.open_request(*region, 4097))
    assert (too_large.status, too_large.detail) == (Status.TOO_LARGE, 4096)
    server.ask(Op.OPEN, messages.open_request(*region, 100))
    assert messages.parse_write(server.ask(Op.WRITE, write(*region, 0, bytes(40)))) == 40
    for start in (42, 52, 62, 72):
        assert messages.parse_write(server.ask(Op.WRITE, write(*region, start, b"x" * 5))) == 40
    gap = server.refusal(Op.WRITE, write(*region, 82, b"x"))
    assert (gap.status, gap.detail) == (Status.GAP, 40)
    assert messages.parse_write(server.ask(Op.WRITE, write(*region, 40, b"xx"))) == 47
    assert messages.parse_write(server.ask(Op.WRITE, write(*region, 10, bytes(10)))) == 47
    for offset, size in [(40, 61), (0, 101), (2**32 - 1, 1)]:
        outcome = server.refusal(Op.WRITE, write(*region, offset, bytes(size)))
        assert outcome.status == Status.BAD_REGION
    commit = messages.commit_request(*region, bytes(32))
    assert server.refusal(Op.COMMIT, commit).detail == 47
    assert messages.parse_write(server.ask(Op.WRITE, write(*region, 40, bytes(60)))) == 100


def test_late_writes_do_not_change_what_is_in_use(server: CServer) -> None:
    parts = [(Region.MODEL, 0, MODEL), *((Region.INPUT, i, INPUTS[i]) for i in range(2))]
    for region, index, data in parts:
        server.upload(region, index, data)
        late = messages.write_request(region, index, 0, b"\xff" * 8)
        assert server.refusal(Op.WRITE, late).status == Status.WRONG_STATE
    server.run(1)
    assert [server.fetch(Region.OUTPUT, index) for index in range(2)] == OUTPUTS


def test_inputs_have_the_size_of_their_tensors(server: CServer) -> None:
    opening = messages.open_request
    assert server.refusal(Op.OPEN, opening(Region.INPUT, 0, 16)).status == Status.WRONG_STATE
    server.upload(Region.MODEL, 0, MODEL)
    assert server.refusal(Op.OPEN, opening(Region.INPUT, 2, 16)).status == Status.BAD_REGION
    assert server.refusal(Op.OPEN, opening(Region.INPUT, 0, 17)).detail == 16
    short = messages.parse_refusal(server.upload(Region.INPUT, 0, bytes(12)))
    assert (short.status, short.detail) == (Status.BAD_INPUT, 16)
    commit = messages.commit_request(Region.INPUT, 1, digest_of(INPUTS[1]))
    assert server.refusal(Op.COMMIT, commit).status == Status.WRONG_STATE


def shaped_model() -> bytes:
    """Applies relu to at most 4x2 numbers."""
    program = ProgramBuilder([0, 64])
    x, y = (program.tensor((4, 2), memory=(1, at), dynamism=1) for at in (0, 32))
    program.call("aten::relu", x, y)
    return program.finish([x], [y])


def shaped_input(server: CServer, *sizes: int) -> bytes:
    data = np.arange(-2, np.prod(sizes) - 2, dtype=np.float32).tobytes()
    opened = server.ask(Op.OPEN, messages.open_request(Region.INPUT, 0, len(data), sizes))
    assert opened == b"\0"
    server.ask(Op.WRITE, messages.write_request(Region.INPUT, 0, 0, data))
    server.ask(Op.COMMIT, messages.commit_request(Region.INPUT, 0, digest_of(data)))
    return data


def test_an_input_of_dynamic_shape_says_its_sizes(server: CServer) -> None:
    model = shaped_model()
    described = messages.parse_model(server.upload(Region.MODEL, 0, model))
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
    commit = messages.commit_request(Region.MODEL, 0, digest_of(model))
    assert messages.parse_model(server.ask(Op.COMMIT, commit)) == described
    # Without sizes an input has the largest.
    server.upload(Region.INPUT, 0, bytes(32))
    server.run(9)
    assert server.stat(Region.OUTPUT).sizes == (4, 2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((5, 1), "beyond the bounds of its shape"),
        ((-1, 2), "beyond the bounds of its shape"),
        ((4, 2, 1), "not as many sizes as dimensions"),
        ((4,), "not as many sizes as dimensions"),
    ],
)
def test_sizes_that_an_input_cannot_have_are_refused(
    server: CServer, sizes: tuple[int, ...], message: str
) -> None:
    server.upload(Region.MODEL, 0, shaped_model())
    body = messages.open_request(Region.INPUT, 0, 16, sizes)
    outcome = server.refusal(Op.OPEN, body)
    assert (outcome.status, outcome.detail, outcome.message) == (Status.BAD_INPUT, 32, message)
    assert server.refusal(Op.OPEN, body[:-1]).status == Status.BAD_REQUEST


def test_an_input_of_dynamic_shape_has_the_bytes_of_its_sizes(server: CServer) -> None:
    server.upload(Region.MODEL, 0, shaped_model())
    server.ask(Op.OPEN, messages.open_request(Region.INPUT, 0, 20, [2, 2]))
    server.ask(Op.WRITE, messages.write_request(Region.INPUT, 0, 0, bytes(20)))
    commit = messages.commit_request(Region.INPUT, 0, digest_of(bytes(20)))
    outcome = server.refusal(Op.COMMIT, commit)
    assert (outcome.status, outcome.detail) == (Status.BAD_INPUT, 16)


def test_a_static_input_takes_no_sizes(server: CServer) -> None:
    server.upload(Region.MODEL, 0, MODEL)
    outcome = server.refusal(Op.OPEN, messages.open_request(Region.INPUT, 0, 16, [4]))
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
    assert status.outcome.message == "the model has changed an input"


def test_an_input_opened_again_must_be_committed_again(server: CServer) -> None:
    prepare(server)
    server.ask(Op.OPEN, messages.open_request(Region.INPUT, 0, 16))
    assert server.refusal(Op.RUN, messages.run_request(1, 1)).status == Status.BAD_INPUT


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
    return messages.read_request(Region.TRACE, 0, offset, length)


def test_reads_are_windows_that_extend_each_other(server: CServer) -> None:
    image = traced(server)
    window = 700
    for number, at in enumerate(range(0, len(image), window)):
        length = min(window, len(image) - at)
        server.feed(encode(Op.READ, 100 + number, read(at, length)))
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
    request = b"".join(encode(Op.READ, 100 + n, read(*piece)) for n, piece in enumerate(pieces))
    assert len(request) <= 128, "one look at the line"
    server.feed(request)
    parts = [messages.parse_read(frame.body) for frame in server.settle()]
    assert [part.offset for part in parts] == [0, 900, 300, 796, 950]
    for part in parts:
        assert part.data == image[part.offset : part.offset + len(part.data)]


@settings(deadline=None)
@given(pieces=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), max_size=30))
def test_writes_may_come_in_any_order(etstub: ct.CDLL, pieces: list[tuple[int, int]]) -> None:
    """Against a model that remembers every byte: whatever was not refused has arrived."""
    server = CServer(etstub)
    server.ask(Op.OPEN, messages.open_request(Region.MODEL, 0, 120))
    arrived = bytearray(120)
    for start, length in pieces:
        answer = server.ask(Op.WRITE, messages.write_request(Region.MODEL, 0, start, bytes(length)))
        if start + length > 120:
            assert answer[0] == Status.BAD_REGION
            continue
        if answer[0] == Status.OK:
            arrived[start : start + length] = b"\1" * length
        prefix = (arrived + b"\0").index(0)
        if answer[0] == Status.OK:
            assert messages.parse_write(answer) == prefix
        else:
            outcome = messages.parse_refusal(answer)
            assert (outcome.status, outcome.detail) == (Status.GAP, prefix)
            assert start > prefix


def test_a_host_is_told_of_damage_once_it_has_said_hello(server: CServer) -> None:
    damaged = encode(Op.PING, 7, b"")[:-3] + b"\x77\0"
    server.feed(damaged)
    assert server.settle() == []
    server.ask(Op.HELLO, messages.hello_request(1))
    server.feed(damaged * 2)
    frames = server.settle()
    assert [(frame.type, frame.sequence) for frame in frames] == [(Op.NOTE_DAMAGED, 0)] * 2
    assert frames[-1].body == (3).to_bytes(4, "little")


def test_requests_are_answered_in_the_midst_of_a_download(server: CServer) -> None:
    image = traced(server)
    server.feed(encode(Op.READ, 100, read(0, len(image))))
    server.poll()
    server.poll()
    server.feed(encode(Op.PING, 101, b""))
    server.poll()
    assert [frame.sequence for frame in server.answers] == [100, 101]
    assert len(server.settle()) > 3


def test_a_read_of_nothing_stops_and_says_so(server: CServer) -> None:
    image = traced(server)
    server.feed(encode(Op.READ, 100, read(0, len(image))))
    server.feed(encode(Op.READ, 101, read(0, 0)))
    (frame,) = server.settle()
    assert (frame.sequence, messages.parse_read(frame.body).data) == (101, b"")


@pytest.mark.parametrize(("offset", "more"), [(0, 1), (1, 0), (2**32 - 1, 0), (0, 2**31)])
def test_reads_beyond_the_end_are_refused(server: CServer, offset: int, more: int) -> None:
    size = len(traced(server))
    outcome = server.refusal(Op.READ, read(offset, size + more))
    assert (outcome.status, outcome.detail) == (Status.BAD_REGION, size)
    missing = messages.stat_request(Region.OUTPUT, 2)
    assert server.refusal(Op.STAT, missing).status == Status.BAD_REGION


def test_reset_forgets_or_reboots(server: CServer) -> None:
    prepare(server)
    server.ask(Op.HELLO, messages.hello_request(8))
    server.run(1)
    messages.parse_empty(server.ask(Op.RESET, messages.reset_request(Reset.SESSION)))
    status = server.status()
    assert (status.state, status.session) == (State.IDLE, 8)
    assert server.refusal(Op.STAT, messages.stat_request(Region.TRACE, 0))
    assert server.refusal(Op.RESET, b"\7").status == Status.BAD_REQUEST
    assert server.reboots == 0
    messages.parse_empty(server.ask(Op.RESET, messages.reset_request(Reset.REBOOT)))
    assert server.reboots == 1


@pytest.mark.parametrize("op", [op for op in Op if op < Op.NOTE_PROGRESS])
def test_bodies_of_a_wrong_size_are_refused(server: CServer, op: Op) -> None:
    sizes = {Op.HELLO: 8, Op.RESET: 1, Op.OPEN: 8, Op.WRITE: 8, Op.COMMIT: 36, Op.RUN: 16}
    sizes |= {Op.STAT: 4, Op.READ: 12, Op.PING: 0, Op.STATUS: 0, Op.BAUD: 4}
    longer = op in (Op.OPEN, Op.WRITE, Op.COMMIT)
    wrong = {sizes[op] - 1, 0 if longer else sizes[op] + 1}
    for size in wrong - {-1}:
        outcome = server.refusal(op, bytes(size))
        assert (outcome.status, outcome.detail) == (Status.BAD_REQUEST, sizes[op])


@pytest.mark.parametrize("op", [0, 6, 0x40, 0x41, 0x7F])
def test_unknown_requests_are_named(server: CServer, op: int) -> None:
    outcome = server.refusal(op, b"whatever")
    assert (outcome.status, outcome.detail) == (Status.UNKNOWN_OP, op)


def test_an_echoing_line_starts_no_conversation_with_itself(server: CServer) -> None:
    (answer,) = server.request(Op.PING)
    server.feed(encode(answer.type, answer.sequence, answer.body))
    assert server.settle() == []


NOISE = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.integers(0, 255), st.binary(max_size=60)).map(
            lambda frame: encode(frame[0], 500, frame[1])
        ),
        st.tuples(st.sampled_from(Op), st.binary(max_size=40)).map(
            lambda frame: encode(frame[0], 500, frame[1])
        ),
        st.integers(MTU, 3 * MTU).map(lambda size: b"\1" + b"x" * size + b"\0"),
    ),
    max_size=20,
)


@given(noise=NOISE)
@settings(max_examples=100, deadline=None)
def test_noise_does_not_keep_a_host_from_working(etstub: ct.CDLL, noise: list[bytes]) -> None:
    server = CServer(etstub)
    for piece in noise:
        server.feed(piece)
        server.settle()
    server.feed(b"\0")
    server.settle()
    server.ask(Op.HELLO, messages.hello_request(1))
    prepare(server)
    server.run(0x600D)
    assert [server.fetch(Region.OUTPUT, index) for index in range(2)] == OUTPUTS


REGION_BODY = st.tuples(
    st.integers(0, 5), st.integers(0, 3), st.integers(0, 700), st.integers(0, 700)
).map(lambda fields: struct.pack("<BBHII", fields[0], fields[1], 0, fields[2], fields[3]))
REQUEST = st.one_of(
    st.tuples(st.sampled_from([Op.READ, Op.WRITE]), REGION_BODY),
    st.tuples(st.just(Op.OPEN), REGION_BODY.map(lambda body: body[:8])),
    st.tuples(st.just(Op.STAT), REGION_BODY.map(lambda body: body[:4])),
    st.tuples(
        st.just(Op.COMMIT),
        st.sampled_from([MODEL, *INPUTS]).map(lambda data: bytes((1, 0, 0, 0)) + digest_of(data)),
    ),
    st.tuples(
        st.just(Op.RUN),
        st.integers(0, 3).map(lambda n: struct.pack("<IIIxxxB", n, n, 64 * n, n & 1)),
    ),
    st.tuples(st.sampled_from([Op.PING, Op.STATUS]), st.just(b"")),
    st.tuples(st.integers(0, 127), st.binary(max_size=20)),
)


@given(requests=st.lists(REQUEST, max_size=30), prepared=st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_request_is_answered_once(
    etstub: ct.CDLL, requests: list[tuple[int, bytes]], prepared: bool
) -> None:
    server = CServer(etstub)
    if prepared:
        prepare(server)
    for op, body in requests:
        frames = [frame for frame in server.request(op, body) if frame.sequence]
        assert {frame.type for frame in frames} == {op | RESPONSE}
        if op == Op.READ and frames[0].body[0] == Status.OK:
            wanted = struct.unpack("<I", body[8:12])[0]
            assert sum(len(frame.body) - 8 for frame in frames) == wanted
        else:
            assert len(frames) == 1


def test_the_fuzzers_model_is_the_one_built_here() -> None:
    path = Path(data_directory("firmware_stub")) / "fuzz" / "tiny_relu.pte"
    assert path.read_bytes() == MODEL
