"""What a RUN may choose: which values and events are logged."""

from __future__ import annotations

import ctypes as ct
import struct

import numpy as np
import pytest

from harness import (
    DebugLevel,
    Kind,
    Losses,
    ProfilingLevel,
    Region,
    RunOptions,
    Trace,
    durations,
    read_log,
)
from harness.extensions.energy.event_energy import logged_edges
from harness.testing import Op, Status, messages
from tests.support.c_server import CServer
from tests.support.tiny_model import relu_model
from tests.support.values import logged_tensors

INPUT = struct.pack("<4f", -1, 2, -3, 4)
OUTPUT = struct.pack("<4f", 0, 2, 0, 4)
DEBUG = 256


def prepared(library: ct.CDLL, debug: int = DEBUG) -> CServer:
    server = CServer(library, debug=debug)
    server.upload(Region.MODEL, 0, relu_model([4]))
    server.upload(Region.INPUT, 0, INPUT)
    return server


def values(trace: Trace, debug_buffer: bytes) -> list[tuple[int, bool, bytes]]:
    logged = logged_tensors(trace, debug_buffer)
    return [(value.chain, value.output, value.array.tobytes()) for value in logged]


def test_hello_tells_how_much_room_there_is_for_tensors(etstub: ct.CDLL) -> None:
    info = messages.TargetInfo.parse(prepared(etstub).ask(Op.HELLO, messages.HelloBody(1).encode()))
    assert info.debug_capacity == DEBUG


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (DebugLevel.PROGRAM_OUTPUTS, [(-1, True, OUTPUT)]),
        (DebugLevel.INTERMEDIATE_OUTPUTS, [(0, False, OUTPUT), (-1, True, OUTPUT)]),
    ],
)
def test_a_run_logs_the_values_it_was_asked_for(
    etstub: ct.CDLL, level: DebugLevel, expected: list[tuple[int, bool, bytes]]
) -> None:
    server = prepared(etstub)
    server.run(1, 2, debug_level=level)
    trace = read_log(server.fetch(Region.TRACE))
    assert values(trace, server.fetch(Region.TRACE, 1)) == expected * 2
    assert not trace.losses.any


def test_usually_no_values_are_logged(etstub: ct.CDLL) -> None:
    server = prepared(etstub)
    server.run(1)
    assert not np.any(read_log(server.fetch(Region.TRACE)).kind == Kind.DEBUG)
    stat = messages.StatBody(Region.TRACE, 1).encode()
    assert server.refusal(Op.STAT, stat).status == Status.BAD_REGION


def test_more_tensors_than_there_is_room_for_are_counted(etstub: ct.CDLL) -> None:
    server = prepared(etstub, debug=2 * len(INPUT))
    server.run(1, 5, debug_level=DebugLevel.PROGRAM_OUTPUTS)
    trace = read_log(server.fetch(Region.TRACE))
    assert len(trace.debug_values) == 5
    assert [value.lost for value in trace.debug_values] == [False] * 2 + [True] * 3
    assert trace.losses == Losses(values=3)


def test_a_method_can_be_profiled_alone(etstub: ct.CDLL) -> None:
    server = prepared(etstub)
    server.run(1, 2, profiling_level=ProfilingLevel.METHOD_ONLY)
    trace = read_log(server.fetch(Region.TRACE))
    profiled = trace.name[trace.kind == Kind.PROFILE]
    names = [trace.text(int(name)) for name in profiled]
    assert names[-2:] == ["Method::execute"] * 2
    assert not {"OPERATOR_CALL", "native_call_relu.out"} & set(names)


@pytest.mark.parametrize("index", [0, 2**31 - 1])
def test_the_test_set_of_a_bundled_program_is_in_every_block(etstub: ct.CDLL, index: int) -> None:
    server = prepared(etstub)
    server.run(1, 2, bundled_input=index)
    blocks = read_log(server.fetch(Region.TRACE)).blocks
    assert {block.bundled_input_index for block in blocks} == {index}
    server.run(2)
    blocks = read_log(server.fetch(Region.TRACE)).blocks
    assert {block.bundled_input_index for block in blocks} == {-1}


@pytest.mark.parametrize("more", [b"\0", bytes(3)])
def test_half_a_test_set_is_refused(etstub: ct.CDLL, more: bytes) -> None:
    server = prepared(etstub)
    refusal = server.refusal(Op.RUN, messages.RunBody(1, 1).encode() + more)
    assert (refusal.status, refusal.message) == (Status.BAD_REQUEST, "wrong body size")
    assert server.restarts == 0


@pytest.mark.parametrize(
    ("place", "what"),
    [(12, "debug level"), (13, "profiling level"), (14, "policy"), (15, "flags")],
)
def test_an_option_that_the_device_does_not_know_is_named(
    etstub: ct.CDLL, place: int, what: str
) -> None:
    server = prepared(etstub)
    body = bytearray(messages.RunBody(1, 1).encode())
    body[place] = 0x80
    refusal = server.refusal(Op.RUN, bytes(body))
    assert (refusal.status, refusal.detail) == (Status.BAD_REQUEST, 0x80)
    assert what in refusal.message
    assert server.restarts == 0


def test_a_port_that_cannot_crash_refuses_to(etstub: ct.CDLL) -> None:
    server = prepared(etstub)
    refusal = server.refusal(Op.RUN, messages.RunBody(1, 2, RunOptions(crash=True)).encode())
    assert (refusal.status, refusal.message) == (Status.BAD_REQUEST, "unsupported flags")
    assert server.restarts == 0


CONTINUE = 4
KEEP_STATE = 8


@pytest.mark.parametrize("resumed", [CONTINUE, CONTINUE | KEEP_STATE])
def test_a_run_goes_on_with_clock_and_log(etstub: ct.CDLL, resumed: int) -> None:
    """Without the state the method is loaded again, which the log has already."""
    server = prepared(etstub)
    server.run(1, 2, debug_level=DebugLevel.PROGRAM_OUTPUTS)
    images = [server.fetch(Region.TRACE)]
    epoch = messages.DeviceClock.parse(server.ask(Op.PING)).epoch
    for number in range(2, 4):
        server.run(number, resumed=resumed)
        images.append(server.fetch(Region.TRACE))
    assert messages.DeviceClock.parse(server.ask(Op.PING)).epoch == epoch
    assert server.fetch(Region.OUTPUT) == OUTPUT
    trace = read_log(b"".join(images))
    assert [block.name for block in trace.blocks] == ["Default", *["Execute"] * 4]
    assert not trace.losses.any
    assert np.all(np.diff(trace.start[trace.named("Method::execute")].astype(np.int64)) > 0)
    assert len(trace.debug_values) == 4  # the options are those of the first run


def test_a_run_that_is_not_the_first_goes_on_after_a_smaller_log(etstub: ct.CDLL) -> None:
    """What the first run lost stays counted, and the rest has room again."""
    server = prepared(etstub)
    server.run(1, 100, trace_limit=1000)
    first = server.fetch(Region.TRACE)
    assert read_log(first).losses.events > 0
    server.run(2, resumed=CONTINUE | KEEP_STATE)
    trace = read_log(first + server.fetch(Region.TRACE))
    assert trace.losses.events == read_log(first).losses.events
    assert trace.blocks[-1].name == "Execute"


def test_only_a_completed_run_is_continued(etstub: ct.CDLL) -> None:
    server = prepared(etstub)

    def refused(resumed: int) -> tuple[Status, str]:
        body = messages.RunBody(9, 1, RunOptions(resumed=resumed)).encode()
        refusal = server.refusal(Op.RUN, body)
        return refusal.status, refusal.message

    nothing = (Status.WRONG_STATE, "no completed run to continue")
    assert refused(CONTINUE) == nothing
    server.run(1)
    assert refused(KEEP_STATE) == (Status.BAD_REQUEST, "unsupported flags")
    server.upload(Region.MODEL, 0, relu_model([5]))
    assert refused(CONTINUE) == nothing
    assert server.restarts == 1


def test_a_watchdog_is_fed_between_instructions_and_executions(etstub: ct.CDLL) -> None:
    server = CServer(etstub, watchdog=True)
    assert server.upload(Region.MODEL, 0, relu_model([4]))[0] == Status.OK
    assert server.upload(Region.INPUT, 0, bytes(16)) == b"\0"
    server.run(1, 3)
    trace = read_log(server.fetch(Region.TRACE))
    names = [trace.text(int(name)) for name in trace.name[trace.kind == Kind.PROFILE]]
    assert server.fed == names.count("OPERATOR_CALL") + 3 == 6


def test_the_marker_pin_is_high_while_a_method_executes(etstub: ct.CDLL) -> None:
    def log_of(*, marker: bool) -> tuple[CServer, Trace]:
        server = CServer(etstub, marker=marker)
        assert server.upload(Region.MODEL, 0, relu_model([4]))[0] == Status.OK
        assert server.upload(Region.INPUT, 0, bytes(16)) == b"\0"
        server.run(1, 3)
        return server, read_log(server.fetch(Region.TRACE))

    server, trace = log_of(marker=True)
    bounds = logged_edges(trace)
    assert [high for high, _ in server.edges] == [True, False] * 3
    assert [edge.rises for edge in bounds] == [True, False] * 3
    for (_, ticks), edge in zip(server.edges, bounds, strict=True):
        assert edge.readings[0] <= ticks < edge.readings[1]
    _, without = log_of(marker=False)
    assert durations(without).tolist() == durations(trace).tolist()
