"""Waiting for the end of a run when notes are lost, the device hangs, or the line is bad."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import LinkError, Session, TargetError
from harness.testing import RESPONSE, CorruptReason, Frame, FrameDecoder, Op, State, encode_frame
from harness.testing.simulated_board import MODEL_MAGIC, Behaviour, SimulatedBoard, VirtualClock

MODEL = MODEL_MAGIC + b"model"
Filter = Callable[[Frame], bool]


class Sieve:
    """A transport that loses whole frames from or to the device, as its filters say."""

    def __init__(self, inner: SimulatedBoard) -> None:
        self.lose_from: Filter = lambda frame: False
        self.lose_to: Filter = lambda frame: False
        self._inner = inner
        self._decoder = FrameDecoder(0xFFFF)

    def read(self, timeout: float) -> bytes:
        data = self._inner.read(timeout)
        frames = [item for item in self._decoder.feed(data) if isinstance(item, Frame)]
        return b"".join(
            encode_frame(f.type, f.sequence, f.body) for f in frames if not self.lose_from(f)
        )

    def write(self, data: bytes, timeout: float) -> None:
        (frame,) = FrameDecoder(0xFFFF).feed(data)
        assert isinstance(frame, Frame)
        if not self.lose_to(frame):
            self._inner.write(data, timeout)

    def close(self) -> None: ...


class Bench:
    def __init__(self, **behaviour: object) -> None:
        self.clock = VirtualClock()
        self.device = SimulatedBoard(self.clock, Behaviour(**behaviour))  # type: ignore[arg-type]
        self.line = Sieve(self.device)
        self.session = Session(self.line, clock_ns=self.clock, seed=1)
        self.session.hello(1)
        self.session.load_model(MODEL)

    def runs(self) -> int:
        """How often the device has started a run."""
        return self.device.epoch


def first(count: int, type_: int) -> Filter:
    """Lose the first ``count`` frames of a type."""
    left = [count]

    def lose(frame: Frame) -> bool:
        if frame.type != type_ or not left[0]:
            return False
        left[0] -= 1
        return True

    return lose


def test_a_lost_request_is_sent_again() -> None:
    bench = Bench()
    bench.line.lose_to = first(2, Op.RUN)
    assert bench.session.run(3, timeout_s=20).completed == 3
    assert bench.runs() == 1
    assert bench.session.statistics.retries == 2


def test_a_lost_answer_starts_nothing_twice() -> None:
    bench = Bench(execute_s=0.5)
    bench.line.lose_from = first(1, Op.RUN | RESPONSE)
    assert bench.session.run(10, timeout_s=20).completed == 10
    assert bench.runs() == 1


def test_a_lost_answer_and_lost_notes() -> None:
    bench = Bench(execute_s=0.1)
    bench.line.lose_from = lambda f: f.type in (Op.NOTE_DONE, Op.NOTE_PROGRESS) or lost_answer(f)
    lost_answer = first(1, Op.RUN | RESPONSE)
    assert bench.session.run(1, timeout_s=60).completed == 1
    assert bench.clock.now < 10, "a repeated RUN that is answered means that the run has ended"
    assert bench.runs() == 1


def test_a_lost_end_is_asked_for_soon_once_all_executions_are_done() -> None:
    bench = Bench()
    bench.line.lose_from = first(1, Op.NOTE_DONE)
    assert bench.session.run(3, timeout_s=60).completed == 3
    assert bench.clock.now < 3


def test_lost_notes_cost_the_deadline_and_nothing_else() -> None:
    bench = Bench()
    bench.line.lose_from = lambda frame: frame.type in (Op.NOTE_DONE, Op.NOTE_PROGRESS)
    assert bench.session.run(3, timeout_s=5).completed == 3
    assert 5 <= bench.clock.now < 6


def test_the_device_is_left_alone_while_it_executes() -> None:
    bench = Bench(execute_s=8.0)
    before = len(bench.device.seen)
    bench.session.run(3, timeout_s=10)
    asked = [Op(type_) for type_, _ in bench.device.seen[before:]]
    assert asked == [Op.RUN]


def test_an_answer_that_does_not_parse_is_made_up_for_by_the_notes() -> None:
    bench = Bench(malformed={Op.RUN})
    assert bench.session.run(2, timeout_s=5).completed == 2
    assert bench.session.statistics.corrupt[CorruptReason.BODY] == 1


def test_the_deadline_is_for_each_execution_not_for_all() -> None:
    bench = Bench(execute_s=4.0)
    assert bench.session.run(10, timeout_s=5).completed == 10


def test_a_hang_is_the_devices_fault() -> None:
    bench = Bench(hang_in_execution=2)
    with pytest.raises(TargetError) as caught:
        bench.session.run(3, timeout_s=30)
    assert caught.value.exit_code == 4
    assert "hangs: execution 2 of 3 did not end within 30 s" in caught.value.message
    assert bench.clock.now == pytest.approx(40, abs=0.5)


def test_a_request_that_never_arrives_is_the_lines_fault() -> None:
    bench = Bench()
    bench.line.lose_to = lambda frame: frame.type == Op.RUN
    with pytest.raises(LinkError, match="RUN was lost, sent 5 times"):
        bench.session.run(1, timeout_s=20)


def test_a_line_that_goes_silent_before_the_answer_is_the_lines_fault() -> None:
    bench = Bench()
    bench.line.lose_from = lambda frame: bench.runs() > 0
    with pytest.raises(LinkError, match="no answer to RUN, sent"):
        bench.session.run(1, timeout_s=5)


def test_silence_on_a_bad_line_is_the_lines_fault() -> None:
    bench = Bench()
    bench.session.statistics.retries += 1000
    bench.line.lose_from = lambda frame: frame.type != Op.RUN | RESPONSE and bench.runs() > 0
    with pytest.raises(LinkError, match="no answer during a run; the line lost"):
        bench.session.run(1, timeout_s=5)


def test_notes_that_do_not_parse_are_counted_and_made_up_for() -> None:
    bench = Bench(malformed={Op.NOTE_DONE})
    assert bench.session.run(2, timeout_s=5).completed == 2
    assert bench.session.statistics.corrupt[CorruptReason.BODY] == 1


def test_a_device_that_says_it_runs_and_never_ends() -> None:
    bench = Bench()
    bench.line.lose_from = lambda frame: frame.type in (Op.NOTE_DONE, Op.NOTE_PROGRESS)
    bench.device._end_run = lambda count: None  # type: ignore[method-assign]
    run = bench.device._run

    def start(frame: Frame) -> None:
        run(frame)
        bench.device.state = State.RUNNING

    bench.device._run = start  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="within 5 s, and it reports that it is still running"):
        bench.session.run(1, timeout_s=5)


def test_a_device_that_miscounts() -> None:
    bench = Bench()
    end_run = bench.device._end_run

    def miscount(count: int) -> None:
        bench.device.completed -= 1
        end_run(count)

    bench.device._end_run = miscount  # type: ignore[method-assign]
    with pytest.raises(TargetError, match=r"reports 2 of 3 requested executions"):
        bench.session.run(3, timeout_s=5)


def test_notes_of_another_run_are_counted_and_dropped() -> None:
    bench = Bench()
    bench.device.say(encode_frame(Op.NOTE_DONE, 0, bytes(20)))
    assert bench.session.run(2, timeout_s=5).completed == 2
    assert bench.session.statistics.stale_answers == 1
