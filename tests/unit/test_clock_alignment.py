"""Few pings, restarts, drift: what an alignment knows and what it says it does not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness import Break, ClockDomain, Ping, Steadiness, align
from tests.support.clocks import TrueClock

MHZ = Fraction(10**6)
CLOCK = ClockDomain("systick", MHZ, 32)
WITHIN_100_PPM = Steadiness(Fraction(100))


def pings(*readings: tuple[int, int, int], epoch: int = 0) -> list[Ping]:
    """From (before, after, ticks), times in microseconds."""
    return [Ping(before * 1000, after * 1000, epoch, ticks) for before, after, ticks in readings]


def test_no_ping_tells_nothing() -> None:
    alignment = align([], CLOCK)
    assert alignment.epochs == ()
    assert alignment.rate_ppm() is None
    instants = alignment.instants(np.arange(3))
    assert not instants.known.any()
    assert instants.half_width is None


def test_one_ping_tells_nothing_unless_the_rate_is_known() -> None:
    one = pings((100, 200, 7))
    [epoch] = align(one, CLOCK).epochs
    assert epoch.unbounded == "a single reading does not determine the rate"
    assert not epoch.instants(np.arange(3)).known.any()
    instants = align(one, CLOCK, WITHIN_100_PPM).instants(np.array([-10_000_000, 0, 10_000_000]))
    assert instants.known.all()
    # At the reading the bracket and a tick on either side, far from it 100 ppm of 10 s more.
    assert (instants.high - instants.low)[1] == pytest.approx(102_000, abs=3)
    assert (instants.high - instants.low)[[0, 2]] == pytest.approx([2_102_000] * 2, abs=500)


def test_two_pings_bound_what_is_between_them_by_their_brackets() -> None:
    alignment = align(pings((0, 10, 0), (1000, 1010, 1000)), CLOCK)
    instants = alignment.instants(np.array([0, 500, 1000, 2000]))
    widths = (instants.high - instants.low).tolist()
    # At a reading its bracket, with a tick of doubt at either end; beyond both it opens.
    assert widths[:3] == pytest.approx([12_000] * 3, abs=30)
    assert widths[3] > 3 * widths[2] - 10_000
    low, high = alignment.rate_ppm() or (0, 0)
    assert low < 0 < high


def test_a_declared_rate_narrows_the_strip_by_choice() -> None:
    two = pings((0, 10, 0), (1000, 1010, 1000))
    far = np.array([10_000_000])
    free, bound = (
        align(two, CLOCK, s).instants(far).half_width for s in (Steadiness(), WITHIN_100_PPM)
    )
    assert free is not None
    assert bound is not None
    assert bound < 1_010_000 < free


def test_a_restart_that_the_device_reports_begins_an_epoch() -> None:
    readings = pings((0, 1, 50), (10, 11, 60), epoch=3) + pings((20, 21, 0), (30, 31, 10), epoch=4)
    alignment = align(readings, CLOCK)
    assert [epoch.device_epoch for epoch in alignment.epochs] == [3, 4]
    assert [epoch.stretch.begins for epoch in alignment.epochs] == [Break.FIRST, Break.RESTARTED]
    assert [epoch.stretch.first for epoch in alignment.epochs] == [0, 2]
    early, late = (alignment.instants(np.array([0]), epoch).mid[0] for epoch in (0, 1))
    assert (early, late) == (pytest.approx(500, abs=1000), pytest.approx(20_500, abs=1000))


def test_a_clock_that_slept_begins_an_epoch() -> None:
    """Five readings 1 ms apart, then a millisecond that the counter did not count, then five."""
    awake = [(1000 * k, 1000 * k + 20, 1000 * k + 10) for k in range(5)]
    later = [(1000 * k, 1000 * k + 20, 1000 * k - 990) for k in range(5, 10)]
    alignment = align(pings(*awake, *later), CLOCK)
    assert [epoch.stretch.first for epoch in alignment.epochs] == [0, 5]
    assert alignment.epochs[1].stretch.begins == Break.NO_LINE


def test_a_counter_of_unknown_rate_is_followed_only_if_it_is_wide() -> None:
    readings = pings((0, 1, 0), (10, 11, 1000), (20, 21, 2000))
    narrow, wide = (align(readings, ClockDomain("c", None, bits)) for bits in (32, 64))
    assert [epoch.stretch.begins for epoch in narrow.epochs] == [
        Break.FIRST,
        *[Break.AMBIGUOUS] * 2,
    ]
    assert len(wide.epochs) == 1
    assert wide.rate_ppm() is None
    early, late = wide.instants(np.array([0, 1000])).mid
    assert late - early == pytest.approx(10_000, rel=0.2)
    backwards = align(pings((0, 1, 1000), (10, 11, 0)), ClockDomain("c", None, 64))
    assert backwards.epochs[1].stretch.begins == Break.CONTRADICTION


def test_a_silence_of_several_wraps_is_settled_by_a_stated_tolerance() -> None:
    clock = ClockDomain("narrow", MHZ, 16)
    passed = 100 * 2**16 + 5
    readings = pings((0, 2, 1), (passed, passed + 2, 6))
    assert align(readings, clock).epochs[1].stretch.begins == Break.AMBIGUOUS
    [epoch] = align(readings, clock, WITHIN_100_PPM).epochs
    assert epoch.stretch.ticks == ((0, 0), (passed, passed))


def test_a_rate_that_changes_needs_slack_or_an_epoch() -> None:
    """20 ppm in the middle of 30 s, on a link of 40 us: no line fits, but a tolerant one does."""
    now, ticks, readings = 0, 0.0, []
    for k in range(61):
        readings.append((now, now + 40, int(ticks + 20)))
        now += 500_000
        ticks += 500_000 * (1 + (20e-6 if k >= 30 else 0))
    assert len(align(pings(*readings), CLOCK).epochs) == 2
    wandering = align(pings(*readings), CLOCK, Steadiness(None, Fraction(20)))
    assert len(wandering.epochs) == 1
    half = wandering.instants(np.arange(0, 30_000_000, 1000)).half_width
    assert half is not None
    # Slack of 20 ppm * 30 s / 8 = 75 us on each side of the strip, and again of what comes out.
    assert 75_000 < half < 200_000
    windows = align(pings(*readings), CLOCK, Steadiness(None, Fraction(20), Fraction(4)))
    narrower = windows.instants(np.arange(0, 30_000_000, 1000)).half_width
    assert narrower is not None
    assert narrower < half / 2


@pytest.mark.parametrize(
    ("steadiness", "complaint"),
    [
        ({"tolerance_ppm": Fraction(-1)}, "a tolerance of -1 ppm"),
        ({"wander_ppm": Fraction(10**6)}, r"a wander of 1e\+06 ppm"),
        ({"window_s": Fraction(0)}, "a window of 0 s"),
    ],
)
def test_what_cannot_be_is_refused(steadiness: dict[str, Fraction], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Steadiness(**steadiness)


def test_a_long_history_is_solved_from_its_hull() -> None:
    """Ten thousand readings, exact to the nanosecond: the strip is as narrow as its best pings."""
    readings = [
        Ping(k * 10**6 - k % 97 - 3, k * 10**6 + k % 89 + 3, 0, k * 1000 + 5) for k in range(10_000)
    ]
    alignment = align(readings, CLOCK)
    assert len(alignment.epochs) == 1
    [piece] = alignment.epochs[0].pieces
    assert piece.strip.slopes[0] <= 1000 <= piece.strip.slopes[1]
    assert float(piece.strip.slopes[1] - piece.strip.slopes[0]) < 1e-3


def test_a_reading_of_the_host_stays_the_same_until_its_next_nanosecond() -> None:
    """A tick that began at 0.9 ns was read when the host still said 0, before and after."""
    clock = TrueClock(
        ClockDomain("ghz", Fraction(10**9), 64), [(Fraction(0), Fraction(1))], Fraction(-9, 10)
    )
    at = [Fraction(9, 10), Fraction(10_009, 10)]
    alignment = align([clock.ping(instant, instant, instant) for instant in at], clock.domain)
    [piece] = alignment.epochs[0].pieces
    for tick, instant in zip((0, 1000), at, strict=True):
        assert piece.strip.low(tick) <= instant < instant + 1 <= piece.strip.high(tick + 1)


def test_beyond_the_readings_bounds_open_as_the_rate_may_wander() -> None:
    """1,000 ppm slower from the last reading on: 10 s later that is 10 ms."""
    wander = Fraction(1000)
    rates = [(Fraction(0), Fraction(1, 1000)), (Fraction(10**9), Fraction(1, 1001))]
    clock = TrueClock(CLOCK, rates)
    alignment = align(
        [clock.ping(Fraction(t), Fraction(t), Fraction(t)) for t in (0, 10**9)],
        CLOCK,
        Steadiness(None, wander),
    )
    later = 11_000_000
    truth = clock.instant(Fraction(later))
    instants = alignment.instants(np.array([later]))
    assert int(instants.low[0]) <= truth <= int(instants.high[0])
    assert abs(int(instants.mid[0]) - truth) > 9_000_000
