"""A port that vanishes in the middle of a transfer, and comes back or does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import (
    InfrastructureError,
    LinkError,
    PartialReadError,
    Region,
    Session,
    TransportClosedError,
)
from harness.testing import RESPONSE, Op, ReopeningTransport, Transport
from harness.testing.fault_filter import FaultFilter, Faults
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    trace_of,
)

MODEL = MODEL_MAGIC + bytes(range(256)) * 256
TRACE = 60_000
AWAY_S = 3.0


class Unplugged:
    """A device whose line is cut after so many bytes, and away for some time.

    Attributes:
        cuts: How often it is still cut.
    """

    def __init__(self, after: int, *, cuts: int = 1) -> None:
        self.clock = VirtualClock()
        self.device = SimulatedBoard(
            self.clock, Behaviour(mtu=512, bytes_per_s=92_160.0, latency_s=0.002, trace_size=TRACE)
        )
        self.after, self.cuts = after, cuts
        self._back_at = 0.0

    def open(self) -> Transport:
        if self.clock.now < self._back_at:
            raise InfrastructureError("no such port")
        if not self.cuts:
            return self.device
        self.cuts -= 1
        self._back_at = float("inf")
        return _Noting(FaultFilter(self.device, Faults(0, cut_after=self.after)), self._vanish)

    def _vanish(self) -> None:
        # What was on its way is gone.
        self.device.read(0.05)
        self._back_at = self.clock.now + AWAY_S

    def session(self, deadline_s: float = 10.0) -> tuple[Session, ReopeningTransport]:
        def sleep(time: float) -> None:
            self.clock.wait_until(self.clock.now + time)

        line = ReopeningTransport(self.open, deadline_s, now=lambda: self.clock.now, sleep=sleep)
        return Session(line, clock_ns=self.clock, seed=1), line


class _Noting:
    def __init__(self, inner: FaultFilter, vanished: Callable[[], None]) -> None:
        self._inner, self._vanished = inner, vanished

    def read(self, timeout: float) -> bytes:
        try:
            return self._inner.read(timeout)
        except TransportClosedError:
            self._vanished()
            raise

    def write(self, data: bytes, timeout: float) -> None:
        try:
            self._inner.write(data, timeout)
        except TransportClosedError:
            self._vanished()
            raise

    def close(self) -> None: ...


@pytest.mark.parametrize("after", [0, 10, 500, 9_000, 40_000, 70_000, 90_000, 120_000])
def test_a_session_goes_on_where_it_was(after: int) -> None:
    place = Unplugged(after)
    session, line = place.session()
    session.hello(20)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    assert session.read(Region.TRACE) == trace_of(MODEL, 1, TRACE)
    assert line.reopened == 1
    writes = sum(type_ == Op.WRITE for type_, _ in place.device.seen)
    pieces = -(-len(MODEL) // (512 - 16))
    assert writes <= pieces + 32, "only what was under way is sent again"
    assert [type_ for type_, _ in place.device.seen].count(Op.OPEN) <= 2


def test_it_may_vanish_again_and_again() -> None:
    place = Unplugged(30_000, cuts=4)
    session, line = place.session()
    session.hello(20)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    assert session.read(Region.TRACE) == trace_of(MODEL, 1, TRACE)
    assert line.reopened == 4
    assert session.statistics.reopened == 4


def test_what_does_not_come_back_in_time_is_infrastructure() -> None:
    place = Unplugged(9_000)
    session, _ = place.session(deadline_s=2.0)
    session.hello(20)
    with pytest.raises(TransportClosedError, match="did not come back within 2 s") as caught:
        session.load_model(MODEL)
    assert caught.value.exit_code == 75
    assert "/dev/serial/by-id" in caught.value.hint


def test_what_was_read_before_is_kept() -> None:
    place = Unplugged(100_000)
    session, _ = place.session(deadline_s=2.0)
    session.hello(20)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    with pytest.raises(PartialReadError, match="of 60000 bytes are complete") as caught:
        session.read(Region.TRACE)
    assert isinstance(caught.value, LinkError)
    assert 10_000 < len(caught.value.data) < TRACE
    assert trace_of(MODEL, 1, TRACE).startswith(caught.value.data)


def test_a_port_that_is_not_there_at_first_is_not_waited_for() -> None:
    def absent() -> Transport:
        raise InfrastructureError("no such port")

    with pytest.raises(InfrastructureError, match="no such port"):
        ReopeningTransport(absent, 10)


def test_the_device_answers_after_the_port_is_back() -> None:
    place = Unplugged(30)
    session, _ = place.session()
    session.hello(20)
    assert session.ping().ticks > 0
    assert (Op.HELLO | RESPONSE) not in [type_ for type_, _ in place.device.seen]
