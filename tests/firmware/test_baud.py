"""Changing the rate of the line: whatever is lost on the way, both ends meet again."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from harness import LinkError, Session
from harness.testing import Op, Reset, Status, messages, wire
from tests.support.c_server import BAUDS, CServer
from tests.support.line import Line, Wire, WiredServer
from tests.support.tiny_model import relu_model

FIRST, FASTER, FASTEST = BAUDS
MODEL = relu_model([4])


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


def test_the_line_is_left_as_it_was_found(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTER])
    assert session.restore_baud() == FIRST
    assert device.baud == line.baud == FIRST
    assert session.statistics.rate_fallbacks == 0


def test_a_rate_the_device_has_not_is_refused(etstub: ct.CDLL) -> None:
    server = CServer(etstub)
    refusal = server.refusal(Op.BAUD, messages.BaudBody(9600).encode())
    assert (refusal.status, refusal.detail) == (Status.UNSUPPORTED_FEATURE, 9600)
    assert server.baud == FIRST


def test_a_device_that_hears_nobody_goes_back(etstub: ct.CDLL) -> None:
    device, line, _ = greeted(etstub)
    device.request(Op.BAUD, messages.BaudBody(FASTER).encode())
    began = device.now
    while device.baud == FASTER:
        assert device.poll() or device.baud == FIRST
    assert device.now - began <= wire.BAUD_TRIAL_MS / 1000 + 0.1
    assert line.baud == FIRST


def test_a_rate_that_the_line_does_not_carry_is_left_again(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    noise = device._noise
    device._write = lambda _context, data, size: device.put(  # type: ignore[method-assign]
        ct.string_at(data, size) if device.baud != FASTEST else noise(bytes(size))
    )
    device._port.write = type(device._port.write)(device._write)
    assert session.raise_baud([FASTEST, FASTER]) == FASTER
    assert device.baud == line.baud == FASTER
    assert session.statistics.rate_fallbacks == 1


@pytest.mark.attack(
    "Link and servers",
    "a host that dies after the baud rate has changed",
    "the board returns to its default rate",
)
def test_a_host_that_dies_at_a_high_rate_leaves_no_deaf_board(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTEST])
    line.set_baud(FIRST)
    began = line.clock.now
    Session(line, clock_ns=line.clock, seed=2).hello(10)
    assert line.clock.now - began < 3
    assert device.baud == FIRST


def restart(device: WiredServer) -> None:
    device.start()
    device.baud = FIRST


def test_a_board_that_restarts_at_a_high_rate_is_found_again(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTEST])
    restart(device)
    session.target = None
    assert session.status().session == 0
    assert line.baud == FIRST


def test_a_board_that_was_told_to_restart_is_greeted_at_the_first_rate(etstub: ct.CDLL) -> None:
    device, line, session = greeted(etstub)
    session.raise_baud([FASTEST])
    session.reset(Reset.REBOOT)
    assert device.reboots == 1
    restart(device)
    session.hello(1)
    assert line.baud == FIRST
    assert session.statistics.rate_fallbacks == 0, "nobody was deaf"


@pytest.mark.parametrize(("hz", "bits"), [(250, 32), (16_000_000, 24), (4_000_000_000, 32)])
def test_the_trial_lasts_as_long_on_every_clock(etstub: ct.CDLL, hz: int, bits: int) -> None:
    server = CServer(etstub)
    server._target.clock_hz_numerator, server._target.clock_bits = hz, bits
    passed, step = 0, hz // 100

    def tick() -> None:
        nonlocal passed
        passed += step
        server._now = passed % (1 << bits)

    server.on_tick = tick
    server.request(Op.BAUD, messages.BaudBody(FASTER).encode())
    assert server.baud == FIRST, "it was not idle before"
    # One reading to decode BAUD, one to begin the trial.
    assert (passed - 2 * step) / hz == pytest.approx(wire.BAUD_TRIAL_MS / 1000, rel=0.02)


SOMETIMES = st.lists(st.booleans(), max_size=12)


class BothEnds(RuleBasedStateMachine):
    """A host that asks for rates, dies and begins anew, a device that restarts, and a line between
    them that loses any frame."""

    library: ct.CDLL

    def __init__(self) -> None:
        super().__init__()
        self.device = WiredServer(self.library, Wire())
        self.line = Line(self.device)
        self.seed = 0
        self.begin()

    def begin(self, deadline_s: float = 2.0) -> None:
        self.seed += 1
        self.session = Session(
            self.line, clock_ns=self.line.clock, seed=self.seed, deadline_s=deadline_s
        )
        self.session.hello(10)
        self.unsure = False

    @contextmanager
    def losing(self, to: list[bool], back: list[bool]) -> Iterator[None]:
        """Lose these of the next frames; giving up over it is allowed."""
        self.device.losing_to, self.device.losing_from = iter(to), iter(back)
        try:
            yield
        except LinkError:
            self.unsure = True
        self.device.losing_to, self.device.losing_from = iter(()), iter(())

    @rule(
        to=SOMETIMES,
        back=SOMETIMES,
        wanted=st.lists(st.sampled_from(BAUDS), min_size=1, max_size=3),
    )
    def ask(self, to: list[bool], back: list[bool], wanted: list[int]) -> None:
        with self.losing(to, back):
            baud = self.session.raise_baud(wanted)
            assert baud == self.line.baud
            # Nothing is asked when the line is believed to be there already.
            assert baud == self.device.baud or self.unsure

    @rule(to=SOMETIMES, back=SOMETIMES)
    def talk_into_losses(self, to: list[bool], back: list[bool]) -> None:
        with self.losing(to, back):
            self.session.ping()
            assert self.line.baud == self.device.baud

    @rule()
    def talk(self) -> None:
        self.session.ping()
        assert self.line.baud == self.device.baud
        self.unsure = False

    @rule()
    def bring_up_a_model(self) -> None:
        assert self.session.load_model(MODEL)
        assert self.line.baud == self.device.baud

    @rule()
    def restart(self) -> None:
        restart(self.device)
        self.unsure = True

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.line.clock.now += seconds

    @rule(deadline_s=st.sampled_from([0.5, 2.0]))
    def die_and_begin_anew(self, deadline_s: float) -> None:
        self.line.set_baud(FIRST)
        self.begin(deadline_s)
        assert self.line.baud == self.device.baud == FIRST


@pytest.mark.attack(
    "Link and servers",
    "lost frames while the baud rate changes",
    "host and board find a common rate",
)
def test_no_loss_of_frames_leaves_them_deaf(etstub: ct.CDLL) -> None:
    BothEnds.library = etstub
    machine = type("Both", (BothEnds,), {})
    machine.TestCase.settings = settings(  # type: ignore[attr-defined]
        max_examples=100,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase("runTest").runTest()  # type: ignore[attr-defined]
