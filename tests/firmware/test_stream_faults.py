"""Streamed logs over lines with faults: whole and equal to the undisturbed log, or exit code 75.

``ETHARNESS_STREAM_SESSIONS`` sets the number of sessions of the study, and
``ETHARNESS_STREAM_SEED`` the seed of its first one. Without them 1,000 sessions are tried;
`make measure` runs 10,000.
"""

from __future__ import annotations

import ctypes as ct
import os
import random
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, cycle, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    STREAMING,
    DebugLevel,
    InfrastructureError,
    LinkError,
    Region,
    RunOptions,
    Session,
    TensorValue,
    Trace,
    durations,
    read_log,
    without_repeated,
)
from harness.decode.device_log import join_debug_buffers, split_chunk
from harness.runs.device import read_debug_buffer
from harness.testing import Frame, Op, Status, encode_frame, messages
from harness.testing import wire as link_wire
from harness.testing.fault_filter import FaultFilter, Faults
from tests.support.bad_lines import bad_lines
from tests.support.c_server import CServer
from tests.support.examples import examples
from tests.support.line import Line, Wire
from tests.support.listening import ListeningServer
from tests.support.tiny_model import relu_model

WAITING = "Link::wait"

SESSIONS = int(os.environ.get("ETHARNESS_STREAM_SESSIONS", "1000"))
FIRST_SEED = int(os.environ.get("ETHARNESS_STREAM_SEED", "0"))
PARTS = 4
"""Tests that share the sessions, so that they may run side by side."""
EXECUTIONS = 60
INPUT = struct.pack("<4f", -1, 2, 3.5, -4)
OUTPUT = struct.pack("<4f", 0, 2, 3.5, 0)
RATES = (1e-4, 3e-4, 1e-3, 2e-3)
HOPELESS = 0.03
"""Share of damaged bytes of a line on which hardly a frame gets through."""
LONGEST_S = 600
"""No session takes longer on the host's clock, whatever the line does."""

Event = tuple[str | None, int, int]


@dataclass(frozen=True)
class Circumstances:
    """What a session is under.

    Attributes:
        wire: The line.
        faults: What it does to the bytes.
        operator_s: Time per operator, in which the device does not listen.
        trace: Bytes of the device's log buffer.
        values: Whether outputs are logged, too.
        while_running: The faults begin with the run.
    """

    wire: Wire
    faults: Faults
    operator_s: float
    trace: int
    values: bool = False
    while_running: bool = False


@dataclass(frozen=True)
class Log:
    """A log that has arrived: its events without those of sending, and the values it has."""

    trace: Trace
    events: list[Event]
    values: list[bytes]


def log_of(images: list[bytes], buffers: list[bytes]) -> Log:
    trace, buffer = read_log(b"".join(images)), join_debug_buffers(buffers)
    columns = zip(map(trace.text, trace.name), trace.chain, trace.instruction, strict=True)
    events = [(n, int(c), int(i)) for n, c, i in columns if n not in STREAMING]
    values = []
    for logged in trace.debug_values:
        assert isinstance(logged.value, TensorValue)
        values.append(buffer[logged.value.offset : logged.value.offset + len(OUTPUT)])
    return Log(trace, events, values)


def options_of(under: Circumstances) -> RunOptions:
    level = DebugLevel.PROGRAM_OUTPUTS if under.values else DebugLevel.NO_LOGGING
    return RunOptions(stream=True, debug_level=level)


def streamed(device: ListeningServer, under: Circumstances) -> Log:
    """The log of a whole session under faults."""
    line = Line(device)
    proxy = FaultFilter(line, Faults(0) if under.while_running else under.faults)
    session = Session(proxy, clock_ns=line.clock, seed=1)
    try:
        session.hello(10)
        session.load_model(relu_model([4]))
        session.set_input(0, INPUT)
        proxy.faults = under.faults
        outcome = session.run(EXECUTIONS, options_of(under), timeout_s=30)
        last = session.read(Region.TRACE)
        debug = read_debug_buffer(session)
    finally:
        assert line.clock.now < LONGEST_S
    pieces = [split_chunk(chunk) for chunk in without_repeated(outcome.chunks, last)]
    return log_of([*(image for image, _ in pieces), last], [*(part for _, part in pieces), debug])


@cache
def undisturbed(library: ct.CDLL, *, values: bool) -> Log:
    """The log of the same run that is not streamed, from a device with room for all of it."""
    device = CServer(library, trace=1 << 20, debug=1 << 16)
    assert device.upload(Region.MODEL, 0, relu_model([4]))[0] == Status.OK
    assert device.upload(Region.INPUT, 0, INPUT) == b"\0"
    device.run(1, EXECUTIONS, debug_level=DebugLevel(values))
    buffer = device.fetch(Region.TRACE, 1) if values else b""
    log = log_of([device.fetch(Region.TRACE)], [buffer])
    assert log.values == [OUTPUT] * (EXECUTIONS if values else 0)
    return log


def check_whole(library: ct.CDLL, log: Log, *, values: bool = False) -> None:
    whole = undisturbed(library, values=values)
    assert not log.trace.losses.any
    assert log.events == whole.events
    assert log.values == whole.values
    assert [block.name for block in log.trace.blocks] == [b.name for b in whole.trace.blocks]


def check_times(log: Log) -> None:
    """Where only the line takes time, no scope of an instruction contains any."""
    assert not durations(log.trace)[log.trace.chain >= 0].any()


def session_under(library: ct.CDLL, under: Circumstances) -> str:
    """Check one session; return how it ended: whole, or with which exit code."""
    device = ListeningServer(
        library, under.wire, operator_s=under.operator_s, trace=under.trace, debug=512
    )
    try:
        log = streamed(device, under)
    except InfrastructureError as error:
        return f"{type(error).__name__}, exit {error.exit_code}"
    finally:
        device.close()
    check_whole(library, log, values=under.values)
    check_times(log)
    return "whole"


def circumstances(seed: int) -> Circumstances:
    """What the session of a seed is under."""
    draw = random.Random(seed)
    hopeless = draw.random() < 0.02
    rate = HOPELESS if hopeless else draw.choice(RATES)
    kinds = ("flip", "drop", "duplicate", "insert", "delay")
    shares = [draw.random() for _ in kinds]
    rates = {kind: rate * share / sum(shares) for kind, share in zip(kinds, shares, strict=True)}
    wire = Wire(
        draw.choice([115_200, 921_600]),
        latency_s=draw.choice([0.001, 0.016]),
        ring=draw.choice([32, 64, 256]),
    )
    return Circumstances(
        wire,
        Faults(seed, **rates),
        operator_s=draw.choice([20e-6, 500e-6, 5e-3]),
        trace=draw.choice([1024, 1536, 2048]),
        values=draw.random() < 0.2,
        while_running=hopeless,
    )


@pytest.mark.timeout(900 + SESSIONS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.long
def test_sessions_under_faults_are_whole_or_blame_the_line(etstub: ct.CDLL, part: int) -> None:
    ends: Counter[str] = Counter()
    seeds = range(FIRST_SEED + part, FIRST_SEED + SESSIONS, PARTS)
    for seed in seeds:
        try:
            ends[session_under(etstub, circumstances(seed))] += 1
        except BaseException as error:
            error.add_note(f"ETHARNESS_STREAM_SESSIONS=1 ETHARNESS_STREAM_SEED={seed} repeats it")
            raise
    print(f"{len(seeds)} sessions, {seeds}: {dict(ends)}")
    assert all(end == "whole" or end.endswith("exit 75") for end in ends)
    if len(seeds) >= 200:
        assert 0.9 < ends["whole"] / len(seeds) < 1, "few lines are hopeless, but some are"


faults = bad_lines(1e-4, 1e-3, 3e-3, 1e-2)
wires = st.builds(
    Wire,
    baud=st.sampled_from([115_200, 921_600]),
    latency_s=st.sampled_from([0.0, 0.001, 0.016]),
    ring=st.sampled_from([32, 256]),
)


@given(
    st.builds(
        Circumstances,
        wires,
        faults,
        operator_s=st.sampled_from([1e-6, 1e-4, 1e-2]),
        trace=st.integers(768, 4096),
        values=st.booleans(),
        while_running=st.booleans(),
    )
)
@settings(max_examples=examples(30), deadline=None)
def test_any_line_brings_a_whole_log_or_is_blamed(etstub: ct.CDLL, under: Circumstances) -> None:
    end = session_under(etstub, under)
    assert end == "whole" or end.endswith("exit 75")


class MisledServer(CServer):
    """A device that hears answers which make no sense before each right one."""

    nonsense: Iterator[messages.LogAck] = iter(())

    def _answer_log(self, frame: Frame) -> None:
        if frame.type in (Op.NOTE_LOG, Op.NOTE_LOG_WAIT):
            for ack in self.nonsense:
                self.feed(encode_frame(Op.LOG_ACK, 0, ack.encode()))
                break
        super()._answer_log(frame)


words = st.integers(0, 3) | st.integers(0, 2**32 - 1) | st.integers(0, 2000)


@given(st.lists(st.builds(messages.LogAck, words, words, words, words), min_size=1))
@settings(max_examples=examples(30), deadline=None)
def test_answers_that_make_no_sense_lose_nothing(
    etstub: ct.CDLL, answers: list[messages.LogAck]
) -> None:
    device = MisledServer(etstub, trace=1024)
    assert device.upload(Region.MODEL, 0, relu_model([4]))[0] == Status.OK
    assert device.upload(Region.INPUT, 0, INPUT) == b"\0"
    # An acknowledgement that is true of some chunk is no nonsense.
    device.nonsense = (replace(a, length=max(a.length, 1)) for a in cycle(answers))
    device.run(1, EXECUTIONS, stream=True)
    last = device.fetch(Region.TRACE)
    check_whole(etstub, log_of([*without_repeated(device.chunks.whole(), last), last], []))


def deaf_after(frames: int, *, ever: bool) -> Iterator[bool]:
    """Which frames of the host are lost: all or a dozen, after some at the start of a run."""
    lost = repeat(True) if ever else repeat(True, 12)
    return chain(repeat(False, frames), lost)


@pytest.fixture
def prepared_session(etstub: ct.CDLL) -> Iterator[tuple[ListeningServer, Session]]:
    device = ListeningServer(etstub, Wire(115_200), trace=1024)
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=1)
    session.hello(10)
    session.load_model(relu_model([4]))
    session.set_input(0, INPUT)
    yield device, session
    device.close()


STARTING = 2
"""Frames with which a host starts a run, at most."""


def test_a_host_that_is_not_heard_for_a_while_loses_nothing(
    etstub: ct.CDLL, prepared_session: tuple[ListeningServer, Session]
) -> None:
    device, session = prepared_session
    device.losing_to = deaf_after(STARTING + 2, ever=False)
    outcome = session.run(EXECUTIONS, RunOptions(stream=True), timeout_s=30)
    last = session.read(Region.TRACE)
    log = log_of([*without_repeated(outcome.chunks, last), last], [])
    check_whole(etstub, log)
    check_times(log)
    waits = durations(log.trace)[log.trace.name == log.trace.names.index(WAITING)]
    assert waits.max() > link_wire.STREAM_ASK_MS, "ticks of 1 ms"
    assert waits.max() < link_wire.STREAM_WAIT_MS


def test_a_host_that_is_never_heard_is_blamed(
    prepared_session: tuple[ListeningServer, Session],
) -> None:
    device, session = prepared_session
    device.losing_to = deaf_after(STARTING, ever=True)
    with pytest.raises(LinkError, match="the streamed log is incomplete") as caught:
        session.run(EXECUTIONS, RunOptions(stream=True), timeout_s=30)
    assert caught.value.exit_code == 75
    device.losing_to = iter(())
    status = session.status()
    assert status.completed == EXECUTIONS, "the run goes on"
    assert status.outcome.status == Status.LOG_UNDELIVERED
    log = log_of([session.read(Region.TRACE)], [])
    assert log.trace.losses.events > 0
    waits = durations(log.trace)[log.trace.name == log.trace.names.index(WAITING)]
    assert link_wire.STREAM_WAIT_MS <= waits.max() < 1.1 * link_wire.STREAM_WAIT_MS
    # The next run is not concerned.
    session.run(2, RunOptions(stream=True), timeout_s=30)
    assert not log_of([session.read(Region.TRACE)], []).trace.losses.any
