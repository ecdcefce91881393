"""CANCEL, and what else a device answers between executions, whatever arrives when."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Losses, Region, read_log
from harness.testing import RESPONSE, Frame, Op, State, Status, encode_frame, messages, wire
from tests.support.c_server import TICK, CServer
from tests.support.examples import examples
from tests.support.prepared_server import prepare

RUN = 7
COUNT = 6
TICKS = 60
"""Readings of the clock in fewer executions than COUNT."""
CANCEL = encode_frame(Op.CANCEL, 99, messages.CancelBody(RUN).encode())


def at_tick(number: int, action: Callable[[], None]) -> Callable[[], None]:
    """A hook that acts when the clock is read for that time."""
    left = [number]

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            action()

    return tick


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    server = CServer(etstub)
    prepare(server)
    return server


def run_with(server: CServer, data: bytes, tick: int = 5) -> list[Frame]:
    """Run, with bytes that arrive when the clock is read for that time."""
    server.on_tick = at_tick(tick, lambda: server.feed(data))
    return server.run(RUN, COUNT)


def the(frames: list[Frame], type_: int) -> Frame:
    [frame] = [frame for frame in frames if frame.type == type_]
    return frame


def test_a_cancelled_run_leaves_a_whole_log_of_what_ran(server: CServer) -> None:
    frames = run_with(server, CANCEL)
    assert the(frames, Op.CANCEL | RESPONSE).body == bytes([Status.OK])
    done = messages.RunEnd.parse(the(frames, Op.NOTE_DONE).body)
    assert (done.run_id, done.outcome.status, done.outcome.detail) == (RUN, Status.CANCELLED, COUNT)
    assert 0 < done.completed < COUNT
    status = server.status()
    assert (status.state, status.completed) == (State.DONE, done.completed)
    trace = read_log(server.fetch(Region.TRACE))
    assert [block.name for block in trace.blocks] == ["Default", *["Execute"] * done.completed]
    assert trace.losses == Losses()
    assert server.refusal(Op.STAT, messages.StatBody(Region.OUTPUT, 0).encode()).status == (
        Status.WRONG_STATE
    )
    server.on_tick = lambda: None
    assert len(server.run(RUN + 1, 2)) == 4


def test_a_cancel_that_came_with_its_run_begins_no_execution(server: CServer) -> None:
    server.feed(encode_frame(Op.RUN, 1, messages.RunBody(RUN, COUNT).encode()) + CANCEL)
    done = messages.RunEnd.parse(the(server.settle(), Op.NOTE_DONE).body)
    assert (done.completed, done.outcome.status) == (0, Status.CANCELLED)


def test_a_cancel_of_another_run_is_refused_and_ends_nothing(server: CServer) -> None:
    frames = run_with(server, encode_frame(Op.CANCEL, 99, messages.CancelBody(RUN - 1).encode()))
    refusal = messages.DeviceOutcome.parse(the(frames, Op.CANCEL | RESPONSE).body)
    assert (refusal.status, refusal.detail) == (Status.WRONG_STATE, RUN)
    assert messages.RunEnd.parse(the(frames, Op.NOTE_DONE).body).completed == COUNT


def test_a_late_cancel_is_answered_and_changes_nothing(server: CServer) -> None:
    server.run(RUN, COUNT)
    assert server.ask(Op.CANCEL, messages.CancelBody(RUN).encode()) == bytes([Status.OK])
    assert server.status().outcome.status == Status.OK
    assert len(server.run(RUN + 1, 2)) == 4


@pytest.mark.parametrize(
    ("op", "body"),
    [
        (Op.HELLO, messages.HelloBody(8).encode()),
        (Op.OPEN, messages.OpenBody(Region.MODEL, 0, 8).encode()),
        (Op.STAT, messages.StatBody(Region.TRACE, 0).encode()),
        (Op.BAUD, messages.BaudBody(921_600).encode()),
        (Op.RESET, b"\0"),
    ],
)
def test_a_request_that_has_to_wait_is_told_how_far_the_run_is(
    server: CServer, op: Op, body: bytes
) -> None:
    before = server.status()
    frames = run_with(server, encode_frame(op, 99, body))
    busy = messages.RunInProgress.parse(the(frames, op | RESPONSE).body)
    assert (busy.run_id, busy.count) == (RUN, COUNT)
    assert 0 < busy.completed < COUNT
    # The clock has a tick per millisecond.
    assert busy.elapsed_ms >= busy.completed * TICK
    assert messages.RunEnd.parse(the(frames, Op.NOTE_DONE).body).completed == COUNT
    assert server.status().session == before.session
    assert server.baud == 115_200


def test_hello_of_another_version_is_refused_during_a_run_as_ever(server: CServer) -> None:
    frames = run_with(server, encode_frame(Op.HELLO, 99, bytes((9, 255, 0, 0)) + bytes(4)))
    refusal = messages.DeviceOutcome.parse(the(frames, Op.HELLO | RESPONSE).body)
    assert refusal.status == Status.BAD_VERSION


def test_status_and_ping_are_answered_during_a_run(server: CServer) -> None:
    frames = run_with(server, encode_frame(Op.STATUS, 98, b"") + encode_frame(Op.PING, 99, b""))
    status = messages.DeviceStatus.parse(the(frames, Op.STATUS | RESPONSE).body)
    assert (status.state, status.run_id) == (State.RUNNING, RUN)
    assert messages.DeviceClock.parse(the(frames, Op.PING | RESPONSE).body).epoch == server.restarts


def test_noise_holds_up_a_run_for_a_moment_only(server: CServer) -> None:
    frames = run_with(server, b"\0\1")
    assert messages.RunEnd.parse(the(frames, Op.NOTE_DONE).body).outcome.status == Status.OK
    busy_ms = messages.DeviceClock.parse(server.ask(Op.PING)).ticks
    server.on_tick = lambda: None
    server.run(RUN + 1, COUNT)
    assert (
        wire.LISTEN_MS
        <= busy_ms - messages.DeviceClock.parse(server.ask(Op.PING)).ticks
        <= 2 * wire.LISTEN_MS
    )


def test_the_watchdog_is_fed_while_the_device_listens(etstub: ct.CDLL) -> None:
    server = CServer(etstub, watchdog=True)
    prepare(server)
    server.run(RUN - 1, COUNT)
    usual, server.fed = server.fed, 0
    run_with(server, b"\0\1")
    assert server.fed >= usual + wire.LISTEN_MS / TICK - 2


@settings(max_examples=examples(150))
@given(
    tick=st.integers(1, TICKS),
    noise=st.binary(max_size=6).map(lambda noise: noise.replace(b"\1", b"\2")),
    kept=st.integers(0, len(CANCEL)),
    again=st.integers(1, wire.LISTEN_MS // TICK - 2),
    stream=st.booleans(),
)
def test_a_cancel_at_any_moment_ends_the_run(
    etstub: ct.CDLL, tick: int, noise: bytes, kept: int, again: int, stream: bool
) -> None:
    """Of the first one a UART may have kept only some bytes; the host repeats it soon."""
    server = CServer(etstub, trace=2048)
    prepare(server)
    readings = 0

    def arrive() -> None:
        nonlocal readings
        readings += 1
        if readings == tick:
            server.feed(noise + CANCEL[:kept])
        if readings == tick + again:
            server.feed(CANCEL)

    server.on_tick = arrive
    frames = server.run(RUN, 1000, stream=stream)
    done = messages.RunEnd.parse(the(frames, Op.NOTE_DONE).body)
    assert (done.run_id, done.outcome.status) == (RUN, Status.CANCELLED)
    assert done.completed < 1000
    assert [f.type for f in frames].count(Op.NOTE_PROGRESS) == done.completed
    if not stream:
        trace = read_log(server.fetch(Region.TRACE))
        assert [block.name for block in trace.blocks] == ["Default", *["Execute"] * done.completed]
    server.on_tick = lambda: None
    assert server.ask(Op.HELLO, messages.HelloBody(2).encode())[0] == Status.OK
    frames = server.run(RUN + 1, 2)
    assert messages.RunEnd.parse(frames[-1].body).outcome.status == Status.OK
