"""Whatever a device sends, however slowly, the host ends within a bound that can be computed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from harness import LinkError, Region, RunOptions, Session, TargetError
from harness.testing import (
    MODEL_MAGIC,
    RESPONSE,
    Behaviour,
    Frame,
    FrameDecoder,
    Op,
    SimulatedBoard,
    State,
    Status,
    VirtualClock,
    encode_frame,
)
from tests.support.examples import examples

MTU, DEADLINE_S, RETRIES, EXECUTE_S, COUNT = 256, 0.5, 1, 2.0, 4
REQUEST_S = DEADLINE_S * (RETRIES + 1)
BACKOFF_S = DEADLINE_S * (2 ** (RETRIES + 1) - 1)
TRACE_SIZE = 3000
MODEL = MODEL_MAGIC + bytes(2500)


def longest_s(size: int) -> float:
    """Return the longest time of a transfer, as if each frame needed all its attempts."""
    return (ceil(size / MTU) + 1) * REQUEST_S


@dataclass
class Hostile:
    """A simulated board, which sends more than it should and loses frames of some types.

    Attributes:
        inner: The board.
        script: What it sends besides: seconds to wait, and the name of a frame; over and over.
        loses: Types of frames from the board that are lost.
        log_bytes: Bytes of a streamed log that it has sent.
    """

    inner: SimulatedBoard
    script: list[tuple[float, str]]
    loses: frozenset[int]
    log_bytes: int = 0
    is_hostile: bool = False
    _due: float = 0.0
    _place: int = 0
    _counter: int = 0
    _last: dict[int, Frame] = field(default_factory=dict)
    _decoder: FrameDecoder = field(default_factory=lambda: FrameDecoder(0xFFFF))
    _sent: FrameDecoder = field(default_factory=lambda: FrameDecoder(0xFFFF))

    def begin(self) -> None:
        self.is_hostile, self._due = True, self.inner.clock.now + self.script[0][0]

    def read(self, timeout: float) -> bytes:
        clock = self.inner.clock
        assert clock.now < 3600, "waits without end"
        if not self.is_hostile:
            return self.inner.read(timeout)
        wait = self._due - clock.now
        if wait > timeout:
            return self._sieve(self.inner.read(timeout))
        if wait > 0 and (data := self._sieve(self.inner.read(wait))):
            return data
        clock.wait_until(self._due)
        data = FRAMES[self.script[self._place][1]](self)
        self._place = (self._place + 1) % len(self.script)
        self._due = clock.now + self.script[self._place][0]
        return data

    def write(self, data: bytes, timeout: float) -> None:
        for item in self._sent.feed(data):
            if isinstance(item, Frame):
                self._last[item.type] = item
        self.inner.write(data, timeout)

    def close(self) -> None: ...

    def _sieve(self, data: bytes) -> bytes:
        found = [item for item in self._decoder.feed(data) if isinstance(item, Frame)]
        kept = [frame for frame in found if frame.type not in self.loses]
        return b"".join(encode_frame(frame.type, frame.sequence, frame.body) for frame in kept)

    def count(self) -> int:
        self._counter += 1
        return self._counter

    def answer(self, op: Op, body: bytes) -> bytes:
        """Answer the last request of a type; nothing if there was none."""
        asked = self._last.get(op)
        return encode_frame(op | RESPONSE, asked.sequence, body) if asked else b""

    def log(self, chunk: int, size: int, offset: int) -> bytes:
        self.log_bytes += 1
        return note(Op.NOTE_LOG, chunk, size, offset, data=b"x")

    def status(self) -> bytes:
        numbers = (State.RUNNING, self.inner.session, 1, self.count(), 0, 0, 0, 0, 0)
        return self.answer(Op.STATUS, struct.pack("<xBxxIIIIIIBxxxI", *numbers))

    def part(self) -> bytes:
        offset = self.count() % TRACE_SIZE
        head = struct.pack("<BBBxI", Status.OK, Region.TRACE, 0, offset)
        return self.answer(Op.READ, head + b"x")


def note(op: Op, *numbers: int, data: bytes = b"") -> bytes:
    """Return a note of run 1."""
    return encode_frame(op, 0, struct.pack(f"<{1 + len(numbers)}I", 1, *numbers) + data)


FRAMES: dict[str, Callable[[Hostile], bytes]] = {
    "the same count": lambda _: note(Op.NOTE_PROGRESS, 1),
    "the next count": lambda device: note(Op.NOTE_PROGRESS, device.count()),
    "a count beyond the end": lambda device: note(Op.NOTE_PROGRESS, COUNT + device.count()),
    "a wait for the log": lambda _: note(Op.NOTE_LOG_WAIT, 0, 100),
    "a wait for the next log": lambda device: note(Op.NOTE_LOG_WAIT, device.count(), 0),
    "the same byte of the log": lambda device: device.log(0, 100, 0),
    "the next byte of the log": lambda device: device.log(1, 1000, device.count() % 1000),
    "a report of damage": lambda device: encode_frame(
        Op.NOTE_DAMAGED, 0, struct.pack("<I", device.count())
    ),
    "a damaged frame": lambda _: b"\x00\x01\x03\x07\x00",
    "text": lambda _: b"still alive\r\n",
    "that it runs": Hostile.status,
    "a byte of a region": Hostile.part,
    "that a byte was accepted": lambda device: device.answer(
        Op.WRITE, struct.pack("<xxxxI", device.count())
    ),
}
scripts = st.lists(
    st.tuples(st.sampled_from([0.01, 0.1, 0.3, 0.45, 0.9, 1.9]), st.sampled_from(sorted(FRAMES))),
    min_size=1,
    max_size=4,
)
hangs = st.sampled_from([None, 1, 3])
losses = st.frozensets(
    st.sampled_from(
        [
            Op.NOTE_PROGRESS,
            Op.NOTE_DONE,
            Op.STATUS | RESPONSE,
            Op.RUN | RESPONSE,
            Op.READ | RESPONSE,
            Op.WRITE | RESPONSE,
            Op.CANCEL | RESPONSE,
        ]
    )
)


class Bench:
    def __init__(self, script: list[tuple[float, str]], loses: frozenset[int]) -> None:
        self.clock = VirtualClock()
        board = SimulatedBoard(self.clock, Behaviour(mtu=MTU, trace_size=TRACE_SIZE))
        self.device = Hostile(board, script, loses)
        self.session = Session(
            *(self.device,), clock_ns=self.clock, seed=1, deadline_s=DEADLINE_S, retries=RETRIES
        )
        self.session.hello(5)

    def check(self, action: Callable[[], object], bound: Callable[[], float]) -> None:
        self.device.begin()
        began = self.clock.now
        with suppress(LinkError, TargetError):
            action()
            event("ends well")
        took = self.clock.now - began
        assert took <= bound() + 0.01, f"{took} s, the bound is {bound()} s"


def run_bound_s(log_bytes: int) -> float:
    """Acceptance and each execution may take their time, and so may the log; STATUS is asked."""
    log_s = longest_s(log_bytes) + (COUNT + 2) * REQUEST_S
    return (COUNT + 2) * EXECUTE_S + log_s + 4 * REQUEST_S


@settings(max_examples=examples(200), deadline=None)
@given(scripts, losses, hangs)
def test_a_run_ends_in_time(
    script: list[tuple[float, str]], loses: frozenset[int], hang: int | None
) -> None:
    bench = Bench(script, loses)
    bench.device.inner.behaviour.hang_in_execution = hang
    bench.session.load_model(MODEL)
    bench.check(
        lambda: bench.session.run(COUNT, RunOptions(stream=True), timeout_s=EXECUTE_S),
        lambda: run_bound_s(bench.device.log_bytes),
    )


@settings(max_examples=examples(100), deadline=None)
@given(scripts, losses)
def test_a_cancelled_run_ends_in_time(
    script: list[tuple[float, str]], loses: frozenset[int]
) -> None:
    bench = Bench(script, loses)
    bench.session.load_model(MODEL)
    bench.device.inner.behaviour.hang_in_execution = 2
    with pytest.raises(TargetError, match="hangs"):
        bench.session.run(COUNT, timeout_s=EXECUTE_S)
    bench.check(lambda: bench.session.cancel(3.0), lambda: 3.0)


@settings(max_examples=examples(200), deadline=None)
@given(scripts, losses)
def test_a_download_ends_in_time(script: list[tuple[float, str]], loses: frozenset[int]) -> None:
    bench = Bench(script, loses)
    bench.session.load_model(MODEL)
    bench.session.run(COUNT, timeout_s=EXECUTE_S)
    bench.check(
        lambda: bench.session.read(Region.TRACE),
        lambda: 3 * (BACKOFF_S + longest_s(TRACE_SIZE)),
    )


@settings(max_examples=examples(200), deadline=None)
@given(scripts, losses)
def test_an_upload_ends_in_time(script: list[tuple[float, str]], loses: frozenset[int]) -> None:
    bench = Bench(script, loses)
    bench.check(
        lambda: bench.session.load_model(MODEL),
        lambda: REQUEST_S + (RETRIES + 1) * (3 * BACKOFF_S + longest_s(len(MODEL))),
    )


@settings(max_examples=examples(100), deadline=None)
@given(scripts, losses)
def test_a_greeting_ends_in_time(script: list[tuple[float, str]], loses: frozenset[int]) -> None:
    bench = Bench(script, loses)
    bench.check(lambda: bench.session.hello(3.0), lambda: 3.0)
