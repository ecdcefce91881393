"""A session that is interrupted ends its run, and a later session learns of a run that goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import DeviceRefusedError, Region, RunInProgressError, RunOutcome, Session
from harness.testing import Op, State, Status
from harness.testing.fault_filter import FaultFilter, Faults
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    trace_of,
)
from tests.support.bad_lines import bad_lines
from tests.support.examples import examples

MODEL = MODEL_MAGIC + b"model"
COUNT = 1000
LONGEST_S = 5.0


class Interrupted:
    """A board, and a session with it whose run is interrupted at some time."""

    def __init__(
        self, interrupt_s: float = 0.35, faults: Faults | None = None, **behaviour: object
    ):
        self.clock = VirtualClock()
        self.device = SimulatedBoard(
            self.clock,
            Behaviour(execute_s=0.1, **behaviour),  # type: ignore[arg-type]
        )
        self.line = FaultFilter(self.device, faults or Faults(seed=1))
        self.session = self.new_session()
        self.session.hello(5)
        self.session.load_model(MODEL)
        interrupt_at = self.clock.now + interrupt_s
        with pytest.raises(KeyboardInterrupt):
            self.session.run(COUNT, timeout_s=20, progress=self.interrupt(interrupt_at))

    def interrupt(self, at: float) -> Callable[[int, int], None]:
        """A progress callback that interrupts, once."""
        left = [KeyboardInterrupt]

        def progress(_done: int, _total: int) -> None:
            if left and self.clock.now >= at:
                raise left.pop()

        return progress

    def new_session(self) -> Session:
        return Session(self.line, clock_ns=self.clock, seed=round(self.clock.now * 1e6) + 1)

    def found_running(self) -> RunInProgressError:
        with pytest.raises(RunInProgressError) as caught:
            self.new_session().hello(5)
        return caught.value


def test_an_interrupted_run_is_ended_after_its_execution() -> None:
    bench = Interrupted()
    assert bench.session.is_running
    began = bench.clock.now
    outcome = bench.session.cancel(LONGEST_S)
    assert outcome is not None
    assert bench.clock.now - began < 0.3
    assert outcome.completed == bench.device.completed < COUNT
    assert bench.device.state is State.DONE
    assert bench.session.read(Region.TRACE) == trace_of(MODEL, outcome.completed, 20_000)
    assert bench.session.run(2, timeout_s=5).completed == 2
    assert not bench.session.is_running


def test_nothing_is_cancelled_without_a_run() -> None:
    clock = VirtualClock()
    session = Session(SimulatedBoard(clock), clock_ns=clock)
    session.hello(5)
    assert not session.is_running
    assert session.cancel(LONGEST_S) is None
    assert clock.now < 1


def test_an_uart_without_a_fifo_hears_the_second_cancel() -> None:
    bench = Interrupted(deaf_while_executing=True)
    began = bench.clock.now
    assert bench.session.cancel(LONGEST_S) is not None
    assert bench.clock.now - began < 1


def test_a_board_that_hangs_does_not_hold_up_the_interrupt() -> None:
    bench = Interrupted(hang_in_execution=5)
    began = bench.clock.now
    assert bench.session.cancel(LONGEST_S) is None
    assert bench.clock.now - began == pytest.approx(LONGEST_S, abs=0.2)


def test_firmware_that_cannot_cancel_says_so() -> None:
    bench = Interrupted()
    bench.device.run_id += 1  # refuses the number, as it would the request
    with pytest.raises(DeviceRefusedError):
        bench.session.cancel(LONGEST_S)


def test_a_later_session_learns_at_once_of_the_run() -> None:
    bench = Interrupted()
    began = bench.clock.now
    error = bench.found_running()
    assert bench.clock.now - began < 0.3
    assert error.exit_code == 75
    assert (error.run_id, error.count) == (bench.device.run_id, COUNT)
    assert 0 < error.completed < COUNT
    assert f"run 1: {error.completed} of 1000 executions after 0." in error.message
    assert "`etharness pull --wait`" in error.hint


def test_a_later_session_joins_a_run() -> None:
    bench = Interrupted()
    error = bench.found_running()
    session, seen = bench.new_session(), []
    session.join(
        error, timeout_s=1e9, silence_s=20, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (COUNT, COUNT)
    assert seen == sorted(seen)
    session.hello(5)
    assert session.status().outcome.status == Status.OK
    assert [op for op, _ in bench.device.seen].count(Op.STATUS) <= 5, "notes tell enough"


def test_joining_ends_at_its_time() -> None:
    bench = Interrupted()
    error = bench.found_running()
    began = bench.clock.now
    with pytest.raises(RunInProgressError):
        bench.new_session().join(error, timeout_s=2, silence_s=20)
    assert bench.clock.now - began == pytest.approx(2, abs=0.2)


def test_joining_a_board_that_fell_silent_ends() -> None:
    bench = Interrupted(hang_in_execution=8)
    error = bench.found_running()
    began = bench.clock.now
    with pytest.raises(RunInProgressError):
        bench.new_session().join(error, timeout_s=1e9, silence_s=3)
    assert bench.clock.now - began < 5


def test_a_later_session_ends_a_run() -> None:
    bench = Interrupted()
    session = bench.new_session()
    session.join(bench.found_running(), timeout_s=5, silence_s=5, cancel=True)
    session.hello(5)
    assert session.status().outcome.status == Status.CANCELLED


@settings(max_examples=examples(150))
@given(
    bad_lines(1e-4, 1e-3, 3e-3, cut=False),
    st.floats(0, 3),
    st.booleans(),
    st.sampled_from([0.0, 0.016]),
)
def test_on_a_bad_line_a_cancel_ends_in_time_and_the_next_session_works(
    faults: Faults, interrupt_s: float, deaf: bool, latency_s: float
) -> None:
    seeded = Faults(seed=faults.seed)
    bench = Interrupted(interrupt_s, seeded, deaf_while_executing=deaf, latency_s=latency_s)
    bench.line.faults = faults
    began = bench.clock.now
    outcome: RunOutcome | None = bench.session.cancel(LONGEST_S)
    assert bench.clock.now - began <= LONGEST_S + 0.5
    assert outcome is not None, "fifty CANCELs cannot all be lost"
    assert outcome.completed == bench.device.completed
    bench.line.faults = Faults(seed=1)
    session = bench.new_session()
    session.hello(5)
    assert session.status().state is State.DONE
    assert session.run(1, timeout_s=5).completed == 1
