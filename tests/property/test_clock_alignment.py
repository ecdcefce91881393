"""Whatever the link does to pings, the bounds of an alignment hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Alignment, Break, ClockDomain, Ping, Steadiness, align
from harness.analyze.alignment import solve
from tests.support.clocks import TrueClock
from tests.support.examples import examples

MHZ = Fraction(10**6)
small = st.integers(-30, 30)
Point = tuple[int, int]


@st.composite
def gaps(draw: st.DrawFn) -> tuple[list[Point], list[Point], tuple[Fraction, Fraction]]:
    """Gaps that a line passes through, or that nearly line up."""
    slope = draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1), Fraction(7, 3)]))
    below, above = [], []
    for x in draw(st.lists(small, min_size=1, max_size=5)):
        middle = floor(slope * x) + draw(st.integers(-2, 2))
        below.append((x + draw(st.integers(0, 1)), middle - draw(st.integers(0, 6))))
        above.append((x, middle + draw(st.integers(0, 6))))
    low, span = draw(st.sampled_from([Fraction(0), Fraction(1, 3)])), draw(st.integers(0, 3))
    return below, above, (low, low + span)


def corners(
    below: list[Point], above: list[Point], slopes: tuple[Fraction, Fraction]
) -> list[tuple[Fraction, Fraction]]:
    """(slope, intercept) of every line that two limits meet in and that breaks none."""
    pairs = [p for p in combinations([*below, *above], 2) if p[0][0] != p[1][0]]
    candidates = [Fraction(q[1] - p[1], q[0] - p[0]) for p, q in pairs] + list(slopes)
    lines = {(slope, y - slope * x) for slope in candidates for x, y in [*below, *above]}
    return [
        (slope, intercept)
        for slope, intercept in lines
        if slopes[0] <= slope <= slopes[1]
        and all(intercept + slope * x >= y for x, y in below)
        and all(intercept + slope * x <= y for x, y in above)
    ]


@given(gaps())
@settings(max_examples=examples(300), deadline=None)
def test_a_strip_is_all_lines_that_fit_and_no_other(
    given_: tuple[list[Point], list[Point], tuple[Fraction, Fraction]],
) -> None:
    strip, lines = solve(*given_), corners(*given_)
    assert (strip is None) == (not lines)
    if strip is None:
        return
    assert strip.slopes == (min(s for s, _ in lines), max(s for s, _ in lines))
    places = np.arange(-60, 61)
    for x, low, high in zip(
        places.tolist(), strip.lows(places).tolist(), strip.highs(places).tolist(), strict=True
    ):
        lowest, highest = (f(i + s * x for s, i in lines) for f in (min, max))
        assert (strip.low(x), strip.high(x)) == (lowest, highest)
        assert low <= lowest < low + 3
        assert high >= highest > high - 3


@dataclass(frozen=True)
class Case:
    """A clock, pings of it at true instants, and what is said of its rate."""

    clock: TrueClock
    reads: list[Fraction]
    pings: list[Ping]
    steadiness: Steadiness


def declared(draw: st.DrawFn) -> ClockDomain:
    hz = draw(st.sampled_from([Fraction(32_768), MHZ, 25 * MHZ, Fraction(48_000_000, 1001)]))
    bits = draw(st.sampled_from([16, 24, 31, 32, 48, 64]))
    return ClockDomain("device", hz, bits, draw(st.booleans()))


def thousandths(most: int | Fraction) -> st.SearchStrategy[Fraction]:
    return st.integers(0, floor(most * 1000)).map(lambda number: Fraction(number, 1000))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Pings over any link of a clock whose rate is within the tolerance, and wanders as stated."""
    domain = declared(draw)
    assert domain.hz is not None
    tolerance = draw(st.sampled_from([Fraction(20), Fraction(100), Fraction(10_000)]))
    wander = draw(st.sampled_from([Fraction(0), Fraction(5), Fraction(200)]))
    wander = min(wander, tolerance / 2)
    # The rate may be twice the declared one: for a gap g and delays d, one more wrap fits the
    # elapsed time if wrap <= g + 8 d, and the number of wraps is ambiguous.
    wrap = Fraction(domain.modulus) * 10**9 / domain.hz
    longest = min(wrap / 3, Fraction(10**10))
    delay = st.one_of(thousandths(min(wrap / 16, Fraction(10**6))), thousandths(1))
    begin = now = draw(thousandths(2**50))
    reads, brackets = [], []
    for gap, there, back in draw(
        st.lists(st.tuples(thousandths(longest), delay, delay), min_size=1, max_size=7)
    ):
        before, read, now = now + gap, now + gap + there, now + gap + there + back
        reads.append(read)
        brackets.append((before, read, now))
    base = domain.hz / 10**9 * (1 + (tolerance - wander) / 10**6 * draw(st.integers(-1, 1)))
    rates = [(begin, base)]
    changes = st.lists(st.tuples(thousandths(1), st.integers(-1, 1)), max_size=3)
    for part, change in draw(changes) if wander else ():
        # Half of the wander up or down, and a little less: it is relative to the smallest.
        at, off = begin + part * (now - begin), change * wander / (2 * 10**6 + wander)
        rates.append((at, base * (1 + off)))
    clock = TrueClock(domain, sorted(rates), draw(thousandths(2**60)))
    pings = [clock.ping(*bracket) for bracket in brackets]
    window = draw(st.sampled_from([None, Fraction(1), Fraction(7)]))
    told = draw(st.booleans())
    return Case(clock, reads, pings, Steadiness(tolerance if told else None, wander, window))


def covers(case: Case, alignment: Alignment, instants: list[Fraction]) -> None:
    """Bounds of what is read at these instants hold, whatever is claimed."""
    [epoch] = alignment.epochs
    ticks = [floor(case.clock.ticks(instant)) for instant in instants]
    offset = floor(case.clock.ticks(case.reads[0]))
    placed = alignment.instants(np.array([tick - offset for tick in ticks], np.int64))
    for number, tick in enumerate(ticks):
        if placed.known[number]:
            began, ended = (
                case.clock.instant(Fraction(tick)),
                case.clock.instant(Fraction(tick + 1)),
            )
            assert int(placed.low[number]) <= began < ended <= int(placed.high[number])
            assert abs(int(placed.mid[number]) - instants[number]) <= (placed.half_width or 0)
        else:
            assert epoch.unbounded


@given(cases(), st.lists(thousandths(1), max_size=5))
@settings(max_examples=examples(250), deadline=None)
def test_bounds_cover_the_truth_on_any_link(case: Case, within: list[Fraction]) -> None:
    alignment = align(case.pings, case.clock.domain, case.steadiness)
    assert len(alignment.epochs) == 1, alignment.epochs
    first, last = case.reads[0], case.reads[-1]
    inside = [first + part * (last - first) for part in within]
    # After the last reading the rate stays as it is; before the first one it was the base.
    behind = [last + part * (last - first) for part in within]
    covers(case, alignment, [first, last, *inside, *behind])


@given(cases(), st.integers(-(2**50), 2**50), st.integers(0, 2**64))
@settings(max_examples=examples(100), deadline=None)
def test_where_either_clock_begins_does_not_matter(case: Case, later: int, ahead: int) -> None:
    def placed(alignment: Alignment) -> list[list[int]]:
        epoch = alignment.epochs[0]
        ticks = np.array([t for t, _ in epoch.stretch.ticks], np.int64)
        instants = epoch.instants(ticks)
        return [instants.low.tolist(), instants.high.tolist()] if epoch.pieces else []

    domain = case.clock.domain
    moved = [
        Ping(
            ping.host_before_ns + later,
            ping.host_after_ns + later,
            ping.epoch + 3,
            (ping.ticks + ahead) % domain.modulus,
        )
        for ping in case.pings
    ]
    here, there = (align(pings, domain, case.steadiness) for pings in (case.pings, moved))
    assert len(here.epochs) == len(there.epochs)
    assert here.epochs[0].slopes == there.epochs[0].slopes
    for mine, theirs in zip(placed(here), placed(there), strict=True):
        # Floats are rounded outward, by one at most, at either place.
        assert np.abs(np.array(mine) + later - np.array(theirs)).max() <= 1


@given(cases(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_epochs_begin_where_the_counter_was_reset(case: Case, data: st.DataObject) -> None:
    """A reset by so much that no rate within the tolerance explains it."""
    domain, count = case.clock.domain, len(case.pings)
    assert domain.hz is not None
    numbers = data.draw(st.sets(st.integers(1, max(count - 1, 1)), max_size=count - 1))
    steady = Steadiness(Fraction(10_000), case.steadiness.wander_ppm)
    pings, moved = [], 0
    for number, ping in enumerate(case.pings):
        if number in numbers:
            before = case.pings[number - 1]
            width = ping.host_after_ns - before.host_before_ns + 2
            # Brackets, slack and twice the tolerance of what passed, and to spare.
            doubt = floor((width * Fraction(1, 40) + 5 * 10**6) * domain.hz / 10**9) + 4
            if 2 * doubt + 2 > domain.modulus:
                numbers = numbers - {number}  # nothing it could read would be impossible
            else:
                moved += data.draw(st.integers(doubt, domain.modulus - doubt))
        ticks = (ping.ticks + moved) % domain.modulus
        pings.append(Ping(ping.host_before_ns, ping.host_after_ns, ping.epoch, ticks))
    alignment = align(pings, domain, steady)
    assert [epoch.stretch.first for epoch in alignment.epochs] == [0, *sorted(numbers)]
    reasons = {epoch.stretch.begins for epoch in alignment.epochs[1:]}
    assert reasons <= {Break.CONTRADICTION, Break.NO_LINE}


@given(
    st.integers(8, 40), st.integers(1, 1000), st.integers(0, 2**40), st.booleans(), st.booleans()
)
@settings(max_examples=examples(150), deadline=None)
def test_a_silence_is_settled_or_ambiguous_and_never_guessed(
    bits: int, milliwraps: int, start: int, down: bool, told: bool
) -> None:
    """Two exact readings, some wraps apart: either the right number comes out, or none."""
    domain = ClockDomain("device", MHZ, bits, down)
    clock = TrueClock(domain, [(Fraction(0), Fraction(1, 1000))])
    silence = Fraction(domain.modulus * milliwraps)  # of 1000 ns per tick: in thousandths of a wrap
    first, second = Fraction(start), start + silence
    pings = [clock.ping(at, at, at) for at in (first, second)]
    alignment = align(pings, domain, Steadiness(Fraction(1000) if told else None))
    passed = floor(clock.ticks(second)) - floor(clock.ticks(first))
    if len(alignment.epochs) == 1:
        (begin, _), (end, _) = alignment.epochs[0].stretch.ticks
        assert end - begin == passed
    else:
        assert alignment.epochs[1].stretch.begins == Break.AMBIGUOUS
    # Twice the declared rate makes it one wrap more from half a wrap on, a thousandth never here.
    settled = told or milliwraps <= 490 - 10 * 2 ** max(12 - bits, 0)
    if settled and (bits > 12 or not told):
        assert len(alignment.epochs) == 1
