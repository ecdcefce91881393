"""The C server: every request of docs/protocol.md, repeated, out of order, damaged and made up."""

from __future__ import annotations

import ctypes as ct
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ClockDomain, Losses, Region, read_log
from harness.testing import RESPONSE, Op, Reset, State, Status, encode_frame, messages, wire
from harness.testing import device_log_format as log_format
from tests.conftest import ROOT
from tests.support.c_server import MTU, TICK, CServer, MoreTracers
from tests.support.examples import examples
from tests.support.prepared_server import INPUTS, MODEL, OUTPUTS, digest_of, prepare
from tests.support.tiny_model import relu_model
from tests.support.tracer import CTracer


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    return CServer(etstub)


def test_hello_names_the_target(server: CServer) -> None:
    info = messages.TargetInfo.parse(server.ask(Op.HELLO, messages.HelloBody(77).encode()))
    assert (info.link_version, info.mtu) == (wire.VERSION, MTU)
    assert (info.board, info.cpu, info.build_id) == ("test board", "host", "build")
    assert (info.runtime, info.kernels) == ("bundled C runtime", "bundled C kernels")
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
    assert (outcome.status, outcome.detail) == (Status.BAD_VERSION, wire.VERSION)
    assert server.status().session == 0


def test_hello_to_a_later_host_agrees_on_our_version(server: CServer) -> None:
    assert server.ask(Op.HELLO, struct.pack("<BBHI", 1, 200, 0, 5))[:2] == bytes((0, wire.VERSION))


def test_ping_reads_the_clock(server: CServer) -> None:
    first, second = (messages.DeviceClock.parse(server.ask(Op.PING)) for _ in range(2))
    assert first.epoch == second.epoch == 0
    assert second.ticks - first.ticks == TICK


def test_a_run_leaves_outputs_and_a_trace(server: CServer) -> None:
    prepare(server)
    before = messages.DeviceClock.parse(server.ask(Op.PING))
    frames = server.run(9, 3)
    assert [frame.type for frame in frames] == [Op.RUN | RESPONSE] + 3 * [Op.NOTE_PROGRESS] + [
        Op.NOTE_DONE
    ]
    assert [messages.RunNote.parse(frame.body).completed for frame in frames[1:4]] == [1, 2, 3]
    done = messages.RunEnd.parse(frames[-1].body)
    assert (done.run_id, done.completed, done.outcome.status) == (9, 3, Status.OK)
    assert [server.fetch(Region.OUTPUT, index) for index in range(2)] == OUTPUTS
    trace = read_log(server.fetch(Region.TRACE))
    assert [block.name for block in trace.blocks] == ["Default", "Execute", "Execute", "Execute"]
    assert trace.losses == Losses()
    status = server.status()
    assert (status.state, status.run_id, status.completed) == (State.DONE, 9, 3)
    after = messages.DeviceClock.parse(server.ask(Op.PING))
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
        server.request(Op.HELLO, messages.HelloBody(4).encode(), times=times)
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
    server.ask(Op.HELLO, messages.HelloBody(1).encode())
    assert len(server.run(1)) == 3
    server.ask(Op.HELLO, messages.HelloBody(1).encode())
    assert len(server.run(1)) == 1
    server.ask(Op.HELLO, messages.HelloBody(2).encode())
    assert server.status().state == State.DONE
    assert len(server.run(1)) == 3


def test_a_run_that_fails_tells_why_and_leaves_the_board_usable(server: CServer) -> None:
    prepare(server, relu_model([4], [5]), INPUTS[:1])
    frames = server.run(5, 2)
    done = messages.RunEnd.parse(frames[-1].body)
    assert (done.completed, done.outcome.status) == (0, Status.KERNEL_FAILED)
    status = server.status()
    assert (status.state, status.outcome) == (State.DONE, done.outcome)
    assert [block.name for block in read_log(server.fetch(Region.TRACE)).blocks] == [
        "Default",
        "Execute",
    ]
    outcome = server.refusal(Op.STAT, messages.StatBody(Region.OUTPUT, 0).encode())
    assert outcome.status == Status.WRONG_STATE
    (repeated,) = server.run(5, 2)
    assert messages.DeviceOutcome.parse(repeated.body) == done.outcome
    prepare(server)
    server.run(6)
    assert server.fetch(Region.OUTPUT, 0) == OUTPUTS[0]


@pytest.mark.parametrize("stream", [False, True])
def test_the_logs_of_other_tracers_follow_the_servers_own(etstub: ct.CDLL, stream: bool) -> None:
    """Of each run anew, in pieces of any size, and as one trace that says where each one was."""
    others = [CTracer(etstub, 512), CTracer(etstub, 0), CTracer(etstub, 512)]
    asked: list[str] = []

    def begin(own: int) -> None:
        asked.append("begin")
        etstub.etd_log_clock(ct.c_void_p(own), 0, 0, ct.c_uint64(0))
        for number, other in enumerate(others, 1):
            other.restart()
            other.call("set_tracer_number", number)
            other.call("log_clock", 2000 * number, 5, ct.c_uint64(100))
            other.call("create_event_block", b"Work")

    def end(_own: int) -> None:
        asked.append("end")
        for other in others:
            other.call("end_profiling", other.start(b"work", 0, 1))

    more = MoreTracers.of([other.address for other in others], 4096, begin, end)
    server = CServer(etstub, more=more)
    prepare(server)
    hello = server.ask(Op.HELLO, messages.HelloBody(1).encode())
    assert messages.TargetInfo.parse(hello).trace_capacity == server.log.size + 4096
    for run_id in (1, 2):
        server.run(run_id, 2, stream=stream)
        trace = read_log(server.fetch(Region.TRACE), [ClockDomain("test clock", Fraction(1000))])
        assert asked == ["begin", "end"] * run_id
        work = trace.tracer != 0
        assert trace.tracer[work].tolist() == [1, 3]  # there is no room in the second one
        assert np.count_nonzero(~work) > 2
        assert [trace.clocks[number].hz for number in trace.clock[work].tolist()] == [2000, 6000]
        assert {clock.tracer for clock in trace.tracer_clocks} == {0, 1, 3}
        assert trace.losses.events == 1


def test_what_a_run_needs(server: CServer) -> None:
    run = messages.RunBody(1, 1).encode()
    assert server.refusal(Op.RUN, run).status == Status.WRONG_STATE
    server.upload(Region.MODEL, 0, MODEL)
    server.upload(Region.INPUT, 0, INPUTS[0])
    assert server.refusal(Op.RUN, messages.RunBody(1, 0).encode()).status == Status.BAD_REQUEST
    outcome = server.refusal(Op.RUN, run)
    assert (outcome.status, outcome.detail) == (Status.BAD_INPUT, len(INPUTS[1]))
    assert server.restarts == 0
    server.upload(Region.INPUT, 1, INPUTS[1])
    assert len(server.run(1)) == 3


def test_the_trace_limit_is_kept_and_the_loss_counted(server: CServer) -> None:
    prepare(server)
    server.run(1, 20, trace_limit=256)
    image = server.fetch(Region.TRACE)
    assert log_format.HEADER_SIZE < len(image) <= log_format.HEADER_SIZE + 256
    assert read_log(image).losses.events > 0
    server.run(2, 1, trace_limit=1 << 30)
    assert read_log(server.fetch(Region.TRACE)).losses == Losses()


def test_reset_forgets_or_reboots(server: CServer) -> None:
    prepare(server)
    server.ask(Op.HELLO, messages.HelloBody(8).encode())
    server.run(1)
    messages.Answer.parse(server.ask(Op.RESET, messages.ResetBody(Reset.SESSION).encode()))
    status = server.status()
    assert (status.state, status.session) == (State.IDLE, 8)
    assert server.refusal(Op.STAT, messages.StatBody(Region.TRACE, 0).encode())
    assert server.refusal(Op.RESET, b"\7").status == Status.BAD_REQUEST
    assert server.reboots == 0
    messages.Answer.parse(server.ask(Op.RESET, messages.ResetBody(Reset.REBOOT).encode()))
    assert server.reboots == 1


@pytest.mark.parametrize("op", [op for op in Op if op < Op.NOTE_PROGRESS])
def test_bodies_of_a_wrong_size_are_refused(server: CServer, op: Op) -> None:
    sizes = {Op.HELLO: 8, Op.RESET: 1, Op.OPEN: 8, Op.WRITE: 8, Op.COMMIT: 36, Op.RUN: 16}
    sizes |= {Op.STAT: 4, Op.READ: 12, Op.PING: 0, Op.STATUS: 0, Op.BAUD: 4, Op.CANCEL: 4}
    sizes |= {Op.BATCH: 4, Op.COUNTERS: 1}
    longer = op in (Op.OPEN, Op.WRITE, Op.COMMIT)
    wrong = {sizes[op] - 1, 0 if longer else sizes[op] + 1}
    for size in wrong - {-1}:
        outcome = server.refusal(op, bytes(size))
        assert (outcome.status, outcome.detail) == (Status.BAD_REQUEST, sizes[op])


@pytest.mark.parametrize("op", [0, 8, 0x40, 0x41, 0x7F])
def test_unknown_requests_are_named(server: CServer, op: int) -> None:
    outcome = server.refusal(op, b"whatever")
    assert (outcome.status, outcome.detail) == (Status.UNKNOWN_OP, op)


def test_an_echoing_line_starts_no_conversation_with_itself(server: CServer) -> None:
    (answer,) = server.request(Op.PING)
    server.feed(encode_frame(answer.type, answer.sequence, answer.body))
    assert server.settle() == []


NOISE = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.integers(0, 255), st.binary(max_size=60)).map(
            lambda frame: encode_frame(frame[0], 500, frame[1])
        ),
        st.tuples(st.sampled_from(Op), st.binary(max_size=40)).map(
            lambda frame: encode_frame(frame[0], 500, frame[1])
        ),
        st.integers(MTU, 3 * MTU).map(lambda size: b"\1" + b"x" * size + b"\0"),
    ),
    max_size=20,
)


@given(noise=NOISE)
@settings(max_examples=examples(100), deadline=None)
def test_noise_does_not_keep_a_host_from_working(etstub: ct.CDLL, noise: list[bytes]) -> None:
    server = CServer(etstub)
    for piece in noise:
        server.feed(piece)
        server.settle()
    server.feed(b"\0")
    server.settle()
    server.ask(Op.HELLO, messages.HelloBody(1).encode())
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
@settings(max_examples=examples(150), deadline=None)
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
    path = ROOT / "firmware_stub/fuzz/tiny_relu.pte"
    assert path.read_bytes() == MODEL
