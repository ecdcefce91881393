"""A log that is sent while the run goes on: whole, or with its losses counted."""

from __future__ import annotations

import ctypes as ct
from dataclasses import replace

import pytest

from harness.etdump.compact import read_log
from harness.link import messages
from harness.link.chunks import LogChunks
from harness.link.frames import Frame
from harness.link.options import RunOptions
from harness.link.session import Session
from harness.link.wire import Op, Region, Status
from harness.trace import Trace
from tests.support.c_server import CServer
from tests.support.line import Line, Wire, WiredServer
from tests.support.tiny_model import relu_model

SENDING = "Link::stream"
BUFFER = 2048
INPUT = bytes(16)
EXECUTIONS = 1000


def prepared(library: ct.CDLL, trace: int) -> CServer:
    server = CServer(library, trace=trace)
    assert server.upload(Region.MODEL, 0, relu_model([4]))[0] == Status.OK
    assert server.upload(Region.INPUT, 0, INPUT) == b"\0"
    return server


def chunks_of(frames: list[Frame]) -> LogChunks:
    chunks = LogChunks()
    for frame in frames:
        if frame.type == Op.NOTE_LOG:
            chunks.add(messages.parse_log(frame.body))
    return chunks


def without_sending(trace: Trace) -> list[tuple[str | None, int, int]]:
    """Names, chains and instructions of the events, those of sending left out."""
    columns = zip(map(trace.text, trace.name), trace.chain, trace.instruction, strict=True)
    return [(n, int(c), int(i)) for n, c, i in columns if n != SENDING]


def test_a_run_of_twenty_buffers_arrives_whole(etstub: ct.CDLL) -> None:
    server = prepared(etstub, BUFFER)
    chunks = chunks_of(server.run(1, EXECUTIONS, stream=True))
    image = b"".join(chunks.whole()) + server.fetch(Region.TRACE)
    assert len(image) > 20 * BUFFER
    assert chunks.broken() == 0
    trace = read_log(image)
    assert not trace.losses.any
    large = prepared(etstub, 1 << 20)
    large.run(1, EXECUTIONS)
    assert without_sending(trace) == without_sending(read_log(large.fetch(Region.TRACE)))


def test_the_time_of_sending_is_an_event_of_its_own(etstub: ct.CDLL) -> None:
    server = prepared(etstub, BUFFER)
    chunks = chunks_of(server.run(1, EXECUTIONS, stream=True)).whole()
    trace = read_log(b"".join(chunks) + server.fetch(Region.TRACE))
    sending = [row for row in range(len(trace)) if trace.text(int(trace.name[row])) == SENDING]
    assert len(sending) == len(chunks)
    assert {int(trace.chain[row]) for row in sending} == {-1}
    blocks = {block.name for block in trace.blocks}
    assert blocks == {"Default", "Execute"}


def test_without_the_flag_nothing_is_streamed_and_the_log_fills(etstub: ct.CDLL) -> None:
    server = prepared(etstub, BUFFER)
    frames = server.run(1, EXECUTIONS)
    assert chunks_of(frames).whole() == ()
    assert read_log(server.fetch(Region.TRACE)).losses.events > 0


def test_one_execution_that_is_too_long_is_counted(etstub: ct.CDLL) -> None:
    """Names alone nearly fill so small a log; what then does not fit is counted."""
    server = prepared(etstub, 320)
    chunks = chunks_of(server.run(1, 20, stream=True)).whole()
    trace = read_log(b"".join(chunks) + server.fetch(Region.TRACE))
    large = prepared(etstub, 1 << 20)
    large.run(1, 20)
    whole = read_log(large.fetch(Region.TRACE))
    missing = len(whole) - len(without_sending(trace))
    assert trace.losses.events + trace.losses.blocks >= missing > 0


@pytest.mark.parametrize("seed", range(6))
def test_what_a_bad_line_loses_of_it_is_counted_exactly(etstub: ct.CDLL, seed: int) -> None:
    wire = Wire(921_600, seed=seed)
    device = WiredServer(etstub, wire, trace=BUFFER)
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=seed)
    session.hello(10)
    session.load_model(relu_model([4]))
    session.set_input(0, INPUT)
    device.wire = replace(wire, damaged=0.03)
    outcome = session.run(EXECUTIONS, RunOptions(stream=True), timeout_s=60)
    trace = read_log(b"".join(outcome.chunks) + session.read(Region.TRACE))
    assert outcome.completed == EXECUTIONS
    assert trace.losses.chunks > 0
    assert trace.losses.chunks >= outcome.broken_chunks
    large = prepared(etstub, 1 << 20)
    large.run(1, EXECUTIONS)
    whole = read_log(large.fetch(Region.TRACE))
    blocks = trace.losses.records - (len(whole) - len(without_sending(trace)))
    sending = trace.losses.chunks
    assert trace.losses.events == 0
    assert 0 <= blocks - sending <= len(whole.blocks), "the rest of what is lost are blocks"
