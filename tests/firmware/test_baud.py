"""Changing the rate of the line: whatever is lost on the way, both ends meet again."""

from __future__ import annotations

import ctypes as ct

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from harness.errors import LinkError
from harness.link import messages
from harness.link.session import Session
from harness.link.wire import BAUD_TRIAL_MS, Op, Status
from tests.support.c_server import BAUDS, CServer
from tests.support.line import Line, Wire, WiredServer

FIRST, FASTER, FASTEST = BAUDS


def greeted(library: ct.CDLL) -> tuple[WiredServer, Line, Session]:
    device = WiredServer(library, Wire())
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=1)
    session.hello(5)
    return device, line, session


def test_hello_lists_the_rates(etstub: ct.CDLL) -> None:
    _, _, session = greeted(etstub)
    assert session.target is not None
    assert session.target.bauds == BAUDS


def test_both_ends_move_to_the_best_rate_there_is(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    assert session.raise_baud([12_000_000, FASTEST, FASTER]) == FASTEST
    assert device.baud == line.baud == FASTEST
    line.clock.now += 100
    session.ping()
    assert device.baud == FASTEST, "silence is no reason to leave"
    assert session.statistics.rate_fallbacks == 0


def test_a_rate_the_device_has_not_is_refused(etstub: ct.CDLL) -> None:
    server = CServer(etstub)
    refusal = server.refusal(Op.BAUD, messages.baud_request(9600))
    assert (refusal.status, refusal.detail) == (Status.UNSUPPORTED_FEATURE, 9600)
    assert server.baud == FIRST


def test_a_device_that_hears_nobody_goes_back(etstub: ct.CDLL) -> None:
    device, line, _ = greeted(etstub)
    device.request(Op.BAUD, messages.baud_request(FASTER))
    began = device.now
    while device.baud == FASTER:
        assert device.poll() or device.baud == FIRST
    assert device.now - began <= BAUD_TRIAL_MS / 1000 + 0.1
    assert line.baud == FIRST


def test_a_rate_that_the_line_does_not_carry_is_left_again(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    noise = device._noise
    device._write = lambda data, size: device.put(  # type: ignore[method-assign]
        ct.string_at(data, size) if device.baud != FASTEST else noise(bytes(size))
    )
    device._port.write = type(device._port.write)(device._write)
    assert session.raise_baud([FASTEST, FASTER]) == FASTER
    assert device.baud == line.baud == FASTER
    assert session.statistics.rate_fallbacks == 1


def test_a_host_that_dies_at_a_high_rate_leaves_no_deaf_board(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTEST])
    line.set_baud(FIRST)
    began = line.clock.now
    Session(line, clock_ns=line.clock, seed=2).hello(10)
    assert line.clock.now - began < 3
    assert device.baud == FIRST


def test_a_board_that_restarts_at_a_high_rate_is_found_again(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTEST])
    device._library.et_server_init(ct.byref(device._state), ct.byref(device._config))
    device.baud = FIRST
    session.target = None
    assert session.status().session == 0
    assert line.baud == FIRST


class BothEnds(RuleBasedStateMachine):
    """A host that asks for rates, dies and begins anew, on a line that loses any frame."""

    library: ct.CDLL

    def __init__(self) -> None:
        super().__init__()
        self.device = WiredServer(self.library, Wire())
        self.line = Line(self.device)
        self.seed = 0
        self.begin()

    def begin(self) -> None:
        self.seed += 1
        self.session = Session(self.line, clock_ns=self.line.clock, seed=self.seed)
        self.session.hello(10)

    @rule(
        to=st.lists(st.booleans(), max_size=12),
        back=st.lists(st.booleans(), max_size=12),
        wanted=st.lists(st.sampled_from(BAUDS), min_size=1, max_size=3),
    )
    def ask(self, to: list[bool], back: list[bool], wanted: list[int]) -> None:
        self.device.losing_to, self.device.losing_from = iter(to), iter(back)
        try:
            baud = self.session.raise_baud(wanted)
        except LinkError:
            pass
        else:
            assert baud == self.line.baud == self.device.baud
        self.device.losing_to, self.device.losing_from = iter(()), iter(())

    @rule()
    def talk(self) -> None:
        self.session.ping()
        assert self.line.baud == self.device.baud

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.line.clock.now += seconds

    @rule()
    def die_and_begin_anew(self) -> None:
        self.line.set_baud(FIRST)
        self.begin()
        assert self.line.baud == self.device.baud == FIRST


def test_no_loss_of_frames_leaves_them_deaf(etstub: ct.CDLL) -> None:
    BothEnds.library = etstub
    machine = type("Both", (BothEnds,), {})
    machine.TestCase.settings = settings(  # type: ignore[attr-defined]
        max_examples=60,
        stateful_step_count=10,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase("runTest").runTest()  # type: ignore[attr-defined]
