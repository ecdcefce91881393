"""Events among pings come back exactly, or with the number of wraps that nothing settles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Alignment, ClockDomain, Ping, Steadiness, align
from harness.analyze.placement import Placement, place
from tests.support.clocks import TrueClock
from tests.support.examples import examples
from tests.support.logs import profile_trace

HZ = Fraction(10**6)
PER_NS = HZ / 10**9


@dataclass(frozen=True)
class Logged:
    """A true timeline of events in ticks, and pings among them."""

    clock: TrueClock
    starts: list[int]
    ends: list[int]
    pings: list[Ping]
    ping_ticks: list[int]
    before: list[int]

    def placed(self) -> tuple[Alignment, Placement]:
        domain = self.clock.domain
        trace = profile_trace(
            [self.clock.reading(tick) for tick in self.starts],
            [self.clock.reading(tick) for tick in self.ends],
            domain,
        )
        alignment = align(self.pings, domain, Steadiness(Fraction(0)))
        return alignment, place(trace, alignment, self.before, jitter=0)


@st.composite
def logs(draw: st.DrawFn) -> Logged:
    """Gaps of any length, the longest of many wraps; pings whose brackets are a few ticks wide."""
    domain = ClockDomain("device", HZ, draw(st.integers(8, 40)), draw(st.booleans()))
    wrap = domain.modulus
    clock = TrueClock(domain, [(Fraction(0), PER_NS)])
    gap = st.one_of(st.integers(0, wrap - 1), st.integers(0, 20 * wrap), st.just(wrap), st.just(0))
    length = st.integers(0, wrap - 1)
    steps = draw(st.lists(st.tuples(st.sampled_from("eep"), gap, length), max_size=10))
    now = draw(st.integers(0, 2**45))
    starts, ends, pings, ping_ticks, before = [], [], [], [], []
    for kind, passed, lasted in [("p", 0, 0), *steps, ("p", 5, 0)]:
        now += passed
        if kind == "e":
            starts.append(now - lasted)
            ends.append(now)
        else:
            read = Fraction(now) / PER_NS + 500
            pings.append(clock.ping(read - lasted % 30_000, read, read + lasted % 7000))
            ping_ticks.append(now)
            before.append(len(ends))
            now += 40  # the next begins later
    return Logged(clock, starts, ends, pings, ping_ticks, before)


@given(logs())
@settings(max_examples=examples(300), deadline=None)
def test_every_event_comes_back_or_is_reported_late(logged: Logged) -> None:
    alignment, placement = logged.placed()
    wrap = logged.clock.domain.modulus
    assert len(alignment.epochs) == 1
    assert placement.placed == placement.checked == len(logged.ends)
    zero = logged.ping_ticks[0]
    for number, (start, end) in enumerate(zip(logged.starts, logged.ends, strict=True)):
        late = int(placement.late[number])
        missing = end - zero - int(placement.end[number])
        assert missing % wrap == 0
        assert 0 <= missing // wrap <= late
        assert int(placement.end[number]) - int(placement.start[number]) == end - start
    # Silent wraps are reported, all of them and no other, segment by segment.
    for first, last in zip(logged.before, logged.before[1:], strict=False):
        if first == last:
            continue
        total = sum((b - a) // wrap for a, b in _pairs(logged, first, last))
        assert int(placement.late[first]) == total


def _pairs(logged: Logged, first: int, last: int) -> list[tuple[int, int]]:
    """Neighbouring instants from the ping before events ``first`` to ``last`` to the one behind."""
    begin = max(
        t for t, count in zip(logged.ping_ticks, logged.before, strict=True) if count <= first
    )
    behind = min(
        t for t, count in zip(logged.ping_ticks, logged.before, strict=True) if count >= last
    )
    chain = [begin, *logged.ends[first:last], behind]
    return list(pairwise(chain))


@given(logs())
@settings(max_examples=examples(150), deadline=None)
def test_events_are_where_the_host_was(logged: Logged) -> None:
    alignment, placement = logged.placed()
    started, ended = placement.instants(alignment)
    for instants, truth in ((started, logged.starts), (ended, logged.ends)):
        assert instants.known.all()
        for number, tick in enumerate(truth):
            began, over = (logged.clock.instant(Fraction(t)) for t in (tick, tick + 1))
            assert int(instants.low[number]) <= floor(began)
            assert over <= int(instants.high[number])
    assert np.all(started.low <= ended.high)
