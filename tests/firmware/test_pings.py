"""Readings of the device's clock around a run: raw, complete, and on either side of it."""

from __future__ import annotations

import ctypes as ct

import pytest

from harness import ClockDomain, Region, Session, durations, read_log
from harness.runs.device import record_pings
from tests.support.line import Line, Wire, WiredServer
from tests.support.tiny_model import relu_model

PINGS = 5

HZ = 1_000_000
CLOCK = ClockDomain("test", None, 32)


class Ticking(WiredServer):
    """A device whose counter has so many bits and runs at ``HZ``."""

    def __init__(self, library: ct.CDLL, bits: int, wire: Wire) -> None:
        self.modulus = 1 << bits
        super().__init__(library, wire)
        self._target.clock_bits = bits
        self._target.clock_hz_numerator = HZ

    def at(self, now: float) -> int:
        """What the counter reads at a time."""
        return int((now - self._zero) * HZ) % self.modulus

    def _ticks(self, _context: int | None) -> int:
        self.now += 1e-6  # so that what is executed takes time
        return self.at(self.now)


def greeted(library: ct.CDLL, bits: int, wire: Wire) -> tuple[Ticking, Line, Session]:
    device = Ticking(library, bits, wire)
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=1)
    session.hello(5)
    return device, line, session


@pytest.mark.parametrize("damaged", [0.0, 0.2])
def test_pings_stand_before_and_after_the_run_and_bracket_the_reading(
    etstub: ct.CDLL, damaged: float
) -> None:
    device, line, session = greeted(etstub, 32, Wire(damaged=damaged, seed=3))
    session.load_model(relu_model([4]))
    session.set_input(0, bytes(16))
    zero = device._zero
    before = record_pings(session, CLOCK, emulated=True)
    began = line.clock()
    session.run(50, timeout_s=60)
    ended = line.clock()
    after = record_pings(session, CLOCK, emulated=True)
    assert 2 <= len(before) <= PINGS
    assert 2 <= len(after) <= PINGS
    everything = [*before, *after]
    times = [t for ping in everything for t in (ping.host_before_ns, ping.host_after_ns)]
    assert times == sorted(times)
    assert before[-1].host_after_ns <= began <= ended <= after[0].host_before_ns
    # RUN restarts the clock once.
    assert {ping.epoch + 1 for ping in before} == {ping.epoch for ping in after}
    for ping, start in [(p, zero) for p in before] + [(p, device._zero) for p in after]:
        assert ping.host_before_ns < (start + ping.ticks / HZ) * 1e9 < ping.host_after_ns
    trace = read_log(session.read(Region.TRACE), [CLOCK])
    assert 0 < int(trace.end.max()) < after[0].ticks
    assert int(durations(trace).max()) < after[0].ticks


@pytest.mark.parametrize("bits", [24, 32])
def test_a_counter_that_has_wrapped_is_kept_as_it_was_read(etstub: ct.CDLL, bits: int) -> None:
    device, line, session = greeted(etstub, bits, Wire())
    first = session.ping()
    line.clock.now += 3 * device.modulus / HZ
    line.clock.now -= (first.ticks - 100) / HZ
    [again, *_] = record_pings(session, CLOCK, emulated=True)
    assert again.epoch == first.epoch, "a wrap is no restart"
    assert again.ticks < device.modulus, "and is not undone"
    within = (device.at(again.host_before_ns * 1e-9), device.at(again.host_after_ns * 1e-9))
    assert within[0] <= again.ticks <= within[1]
