"""A log that is sent while the run goes on: whole, or the run fails."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import pytest

from harness import (
    STREAMING,
    Region,
    RunOptions,
    RunOutcome,
    Session,
    Trace,
    read_log,
    without_repeated,
)
from harness.link.transfers import LogChunks
from harness.testing import Frame, FrameDecoder, Op, Status, messages
from tests.support.c_server import MTU, CServer
from tests.support.line import Line, Wire
from tests.support.listening import ListeningServer
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
            chunks.add(messages.LogPart.parse(frame.body))
    return chunks


def without_sending(trace: Trace) -> list[tuple[str | None, int, int]]:
    """Names, chains and instructions of the events, those of sending left out."""
    columns = zip(map(trace.text, trace.name), trace.chain, trace.instruction, strict=True)
    return [(n, int(c), int(i)) for n, c, i in columns if n not in STREAMING]


def rows_of(trace: Trace, name: str) -> list[int]:
    return [row for row in range(len(trace)) if trace.text(int(trace.name[row])) == name]


def test_a_run_of_twenty_buffers_arrives_whole(etstub: ct.CDLL) -> None:
    server = prepared(etstub, BUFFER)
    chunks = chunks_of(server.run(1, EXECUTIONS, stream=True))
    last = server.fetch(Region.TRACE)
    image = b"".join(without_repeated(chunks.whole(), last)) + last
    assert len(image) > 20 * BUFFER
    trace = read_log(image)
    assert not trace.losses.any
    large = prepared(etstub, 1 << 20)
    large.run(1, EXECUTIONS)
    assert without_sending(trace) == without_sending(read_log(large.fetch(Region.TRACE)))


def test_the_time_of_sending_is_an_event_of_its_own(etstub: ct.CDLL) -> None:
    server = prepared(etstub, BUFFER)
    chunks = chunks_of(server.run(1, EXECUTIONS, stream=True)).whole()
    last = server.fetch(Region.TRACE)
    trace = read_log(b"".join(without_repeated(chunks, last)) + last)
    sending = rows_of(trace, SENDING)
    assert len(sending) >= len(chunks)
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
    last = server.fetch(Region.TRACE)
    trace = read_log(b"".join(without_repeated(chunks, last)) + last)
    large = prepared(etstub, 1 << 20)
    large.run(1, 20)
    whole = read_log(large.fetch(Region.TRACE))
    missing = len(whole) - len(without_sending(trace))
    assert trace.losses.events + trace.losses.blocks >= missing > 0


class Chatty(ListeningServer):
    """A device whose program prints between the frames that the server sends.

    Attributes:
        said: What it has printed.
        images: The chunks it has sent, by number.
    """

    def __init__(self, library: ct.CDLL, wire: Wire, texts: Sequence[bytes] = (b"",)) -> None:
        self.said = b""
        self.images = LogChunks()
        self._texts = cycle(texts)
        super().__init__(library, wire, trace=BUFFER)

    def put(self, sent: bytes) -> None:
        for item in FrameDecoder(MTU).feed(sent):
            if isinstance(item, Frame) and item.type == Op.NOTE_LOG:
                self.images.add(messages.LogPart.parse(item.body))
        text = next(self._texts)
        self.said += text
        super().put(text + sent)


def streamed(
    device: ListeningServer, damaged: float, console: bytearray
) -> tuple[RunOutcome, bytes]:
    """What came of the log while a run went on, on a line that damages frames, and its end."""
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=1, console=console.extend)
    session.hello(10)
    session.load_model(relu_model([4]))
    session.set_input(0, INPUT)
    device.wire = replace(device.wire, damaged=damaged)
    outcome = session.run(EXECUTIONS, RunOptions(stream=True), timeout_s=60)
    device.wire = replace(device.wire, damaged=0)
    last = session.read(Region.TRACE)
    session.ping()  # everything sent before the answer has been heard then
    device.close()
    kept = without_repeated(outcome.chunks, last)
    return replace(outcome, chunks=tuple(kept)), last


@pytest.mark.parametrize("seed", range(6))
def test_what_a_bad_line_damages_of_it_is_sent_again(etstub: ct.CDLL, seed: int) -> None:
    device = Chatty(etstub, Wire(921_600, seed=seed))
    outcome, last = streamed(device, 0.03, bytearray())
    trace = read_log(b"".join(outcome.chunks) + last)
    assert outcome.completed == EXECUTIONS
    assert device.damaged > 0
    assert not trace.losses.any
    large = prepared(etstub, 1 << 20)
    large.run(1, EXECUTIONS)
    assert without_sending(trace) == without_sending(read_log(large.fetch(Region.TRACE)))


TEXTS = (
    b"temperature 21\r\n",
    b"",
    b"\x01",
    b"\x01\x01 soh\n",
    "µs \x01".encode(),
    b"\x01 long" * 400,
)


def test_what_a_program_prints_while_its_log_is_streamed(etstub: ct.CDLL) -> None:
    device, console = Chatty(etstub, Wire(921_600), TEXTS), bytearray()
    outcome, last = streamed(device, 0.0, console)
    assert console == device.said
    assert console.count(b"soh") > 20
    assert outcome.chunks == tuple(without_repeated(device.images.whole(), last))
    assert not read_log(b"".join(outcome.chunks) + last).losses.any
