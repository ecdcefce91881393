"""A clock that keeps its declared rate is never called wrong, however late the host is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ClockDomain, Ping
from harness.analyze.alignment import ENOUGH_PPM, rate_evidence
from tests.support.clocks import TrueClock
from tests.support.examples import examples

RATES = st.sampled_from([Fraction(10**9), Fraction(125 * 10**6), Fraction(32_768, 3)])


@st.composite
def clocks(draw: st.DrawFn) -> ClockDomain:
    """A declared clock, of any width, direction and tolerance."""
    return ClockDomain(
        "c",
        draw(RATES),
        draw(st.sampled_from([16, 24, 32, 64])),
        down=draw(st.booleans()),
        tolerance_ppm=draw(st.sampled_from([None, 0.0, 50.0, 20_000.0])),
    )


def read(
    domain: ClockDomain, share: Fraction, waits: list[tuple[int, int, int]], phase: int
) -> list[Ping]:
    """Readings of a clock at a share of its declared rate.

    ``waits`` are nanoseconds before each request, until its reading and until its response.
    """
    assert domain.hz is not None
    rate = domain.hz * share / 10**9
    clock = TrueClock(domain, [(Fraction(0), rate)], Fraction(phase))
    pings, now = [], Fraction(0)
    for pause, there, back in waits:
        before = now + pause
        now = before + there + back
        pings.append(clock.ping(before, before + there, now))
    return pings


# From a quick link to a host that is busy for seconds.
DELAYS = st.one_of(st.integers(0, 10**5), st.integers(0, 10**8), st.integers(0, 10**10))
WAITS = st.lists(st.tuples(DELAYS, DELAYS, DELAYS), min_size=0, max_size=12)


@given(clocks(), WAITS, st.integers(0, 2**32), st.fractions(-1, 1, max_denominator=50))
@settings(max_examples=examples(400), deadline=None)
def test_a_right_clock_is_never_contradicted(
    domain: ClockDomain, waits: list[tuple[int, int, int]], phase: int, off: Fraction
) -> None:
    tolerance = 10_000.0 if domain.tolerance_ppm is None else domain.tolerance_ppm
    share = 1 + off * Fraction(tolerance) / 10**6
    evidence = rate_evidence(read(domain, share, waits, phase), domain)
    assert evidence.agrees is not False, evidence.reason
    if evidence.ppm is not None:
        assert evidence.ppm[0] - 0.1 <= float(off) * tolerance <= evidence.ppm[1] + 0.1
    if evidence.agrees is None:
        assert evidence.reason.startswith("no evidence: ")


@given(
    clocks().filter(lambda clock: clock.tolerance_ppm != 20_000.0),
    st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(9, 10), Fraction(11, 10), 10, 1000]),
    st.lists(
        st.tuples(st.integers(10**5, 10**6), st.integers(0, 100), st.integers(0, 100)),
        min_size=30,
        max_size=40,
    ),
    st.integers(0, 2**32),
)
@settings(max_examples=examples(200), deadline=None)
def test_a_wrong_clock_with_narrow_readings_is_contradicted(
    domain: ClockDomain, share: Fraction, waits: list[tuple[int, int, int]], phase: int
) -> None:
    domain = replace(domain, hz=Fraction(125 * 10**6), bits=max(domain.bits, 24))
    evidence = rate_evidence(read(domain, Fraction(share), waits, phase), domain)
    assert evidence.agrees is False
    if evidence.ppm is not None:
        low, high = evidence.ppm
        assert low - 1 <= float(share - 1) * 1e6 <= high + 1


def test_what_proves_nothing_is_called_no_evidence() -> None:
    clock = ClockDomain("c", Fraction(10**9), 32)
    pings = read(clock, Fraction(1), [(0, 10**5, 10**5)] * 3, 0)
    assert "was not read" in rate_evidence([], clock).reason
    assert "was read once" in rate_evidence(pings[:1], clock).reason
    assert "simulator" in rate_evidence(pings, clock, emulated=True).reason
    assert "not declared" in rate_evidence(pings, replace(clock, hz=None)).reason
    found = rate_evidence(pings, clock)
    assert found.agrees is None
    assert found.reason.startswith("no evidence: 3 readings only show that it is -")
    assert found.ppm is not None
    assert found.ppm[1] - found.ppm[0] > ENOUGH_PPM


def test_a_device_that_restarts_its_clock_does_not_contradict_it() -> None:
    clock = ClockDomain("c", Fraction(10**9), 32, tolerance_ppm=0.0)
    once = read(clock, Fraction(1), [(10**7, 10, 10)] * 3, 0)
    later = [replace(ping, epoch=1, ticks=ping.ticks + 7) for ping in once]
    assert rate_evidence([*once, *later], clock).agrees
