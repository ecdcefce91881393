"""Durations across a wrap, and ticks as time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness import (
    HOST_NANOSECONDS,
    NO_CLOCK,
    Block,
    ClockDomain,
    FormatError,
    Kind,
    Trace,
    durations,
    event_nanoseconds,
    unknown_durations,
)
from harness.analyze.ticks import (
    default_jitter,
    nanoseconds_per_tick,
    signed_steps,
    to_nanoseconds,
    unwrap,
    without_wraps,
)
from tests.support.logs import profile_trace

UP32 = ClockDomain("up", None, 32)


@pytest.mark.parametrize(
    ("start", "end", "ticks"),
    [(0xFFFFFFFF, 0, 1), (0xFFFFFFF0, 0x10, 32), (5, 5, 0), (0, 0xFFFFFFFF, 0xFFFFFFFF)],
)
def test_a_duration_across_the_wrap_is_not_a_tick_short(start: int, end: int, ticks: int) -> None:
    assert durations(profile_trace([start], [end], UP32)).tolist() == [ticks]


@pytest.mark.attack("Clocks and logs", "counters of 8 to 64 bits that wrap", "durations are exact")
@pytest.mark.parametrize("bits", [8, 16, 24, 31, 32, 48, 56, 63, 64])
@pytest.mark.parametrize("down", [False, True])
def test_one_tick_across_the_wrap_at_any_width(bits: int, down: bool) -> None:
    last, first = 2**bits - 1, 0
    start, end = (first, last) if down else (last, first)
    clock = ClockDomain("c", None, bits, down)
    trace = profile_trace([start], [end], clock)
    assert durations(trace).tolist() == [1]
    timeline = unwrap(trace)
    assert (timeline.start.tolist(), timeline.end.tolist()) == ([0], [1])
    assert timeline.origins == (start,)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("bits", [24, 32, 48])
def test_a_monotonic_counter_never_steps_back(bits: int, down: bool) -> None:
    """An event that ends a tick before it starts, and one that ends a tick before the one above."""
    readings = [10, 9, 8] if not down else [8, 9, 10]
    loose = ClockDomain("c", None, bits, down)
    strict = ClockDomain("c", None, bits, down, monotonic=True)
    starts, ends = [readings[0], readings[2]], [readings[1], readings[2]]
    wrap = 2**bits
    stepping = unwrap(profile_trace(starts, ends, loose))
    assert (stepping.end - stepping.start).tolist() == [-1, 0]
    assert np.diff(stepping.end).tolist() == [-1]
    forward = unwrap(profile_trace(starts, ends, strict))
    assert (forward.end - forward.start).tolist() == [wrap - 1, 0]
    assert np.diff(forward.end).tolist() == [wrap - 1]
    assert (forward.backward_steps, forward.reversed_events) == ((0,), (0,))


def test_each_event_is_measured_on_its_own_clock() -> None:
    npu = ClockDomain("npu", Fraction(250_000_000), 16, down=True)
    trace = Trace.unset(
        4, blocks=[Block("", 0, 4)], clocks=[UP32, ClockDomain("unused", None), npu]
    )
    trace.clock[:] = 0, 2, NO_CLOCK, 2
    trace.kind[2] = Kind.DEBUG
    trace.start[:], trace.end[:] = 10, 4
    ticks = durations(trace)
    assert ticks.tolist() == [2**32 - 6, 6, 0, 6]
    assert event_nanoseconds(trace, ticks).tolist() == [
        pytest.approx(np.nan, nan_ok=True),
        *(24.0, 0.0, 24.0),
    ]
    timeline = unwrap(trace)
    assert timeline.start.tolist() == [6, 0, -1, 0]
    assert timeline.end.tolist() == [0, 6, -1, 6]
    assert timeline.origins == (4, None, 10)
    assert timeline.reversed_events == (1, 0, 0)
    assert timeline.backward_steps == (0, 0, 0)


@pytest.mark.parametrize(("bits", "wraps"), [(8, True), (55, True), (56, False), (64, False)])
def test_an_event_on_a_counter_too_wide_to_wrap_is_reversed_from_half_its_range_on(
    bits: int, wraps: bool
) -> None:
    """It is the same events that the timeline counts as reversed, unless they are too long."""
    half = 2 ** (bits - 1)
    trace = Trace.unset(5, blocks=[Block("", 0, 5)], clocks=[ClockDomain("wide", None, bits), UP32])
    trace.clock[:] = 0, 0, 0, 1, NO_CLOCK
    trace.start[:] = 0, 0, half, 9, 9
    trace.end[:] = half - 1, half, 0, 0, 0
    # On a narrow counter the third may contain the others: it ends a wrap after the first began.
    assert unknown_durations(trace).tolist() == [False, not wraps, True, False, False]
    if bits <= 56:
        timeline = unwrap(trace)
        assert timeline.reversed_events == (0 if wraps else 2, 1)


def test_the_timeline_goes_on_across_wraps_and_blocks() -> None:
    ends = [0xFFFFFF00, 0x100, 0xF0000000, 0x7FFFFFFF]
    timeline = unwrap(profile_trace(ends, ends, UP32))
    assert timeline.end.tolist() == [0, 0x200, 0xF0000100, 0x1800000FF]
    assert timeline.backward_steps == (0,)


def test_an_outer_scope_starts_before_the_inner_ones_that_were_logged_first() -> None:
    timeline = unwrap(profile_trace([110, 150, 100], [120, 160, 170], UP32))
    assert timeline.start.tolist() == [10, 50, 0]
    assert timeline.end.tolist() == [20, 60, 70]
    assert timeline.origins == (100,)


@pytest.mark.attack(
    "Clocks and logs", "a counter that steps back", "counted; not mistaken for a wrap"
)
def test_a_small_step_back_is_counted_and_no_wrap() -> None:
    timeline = unwrap(profile_trace([10, 9], [10, 9], UP32))
    assert timeline.end.tolist() == [1, 0]
    assert timeline.backward_steps == (1,)
    strict = unwrap(profile_trace([10, 9], [10, 9], UP32), jitter=0)
    assert strict.end.tolist() == [0, 2**32 - 1]


def test_a_64_bit_step_back_is_one() -> None:
    trace = profile_trace([2**40, 100], [2**40, 90], HOST_NANOSECONDS)
    timeline = unwrap(trace)
    assert timeline.end.tolist() == [2**40 - 90, 0]
    assert timeline.start.tolist() == [2**40 - 90, 10]
    assert timeline.backward_steps == (1,)
    assert timeline.reversed_events == (1,)


def test_jitter_is_stated_per_width() -> None:
    widths = (8, 24, 32, 55, 56, 64)
    jitters = [default_jitter(ClockDomain("c", None, bits)) for bits in widths]
    assert jitters == [0, 2**8, 2**16, 2**39, 2**55, 2**63]
    with pytest.raises(ValueError, match="not below one wrap"):
        unwrap(profile_trace([0], [0], UP32), jitter=2**32)


def test_a_span_that_cannot_be_is_refused() -> None:
    clock = ClockDomain("c", None, 63)
    ends = [0, 2**61, 2**62, 3 * 2**61, 0] * 3
    with pytest.raises(FormatError, match=r"more than 2\*\*62") as caught:
        unwrap(profile_trace(ends, ends, clock))
    assert caught.value.field == "start or end"


WIDE = ClockDomain("wide", None)
FAR = 2**62


def test_a_step_of_2_to_the_62_ticks_is_exact_and_a_longer_one_is_refused() -> None:
    ticks = [0, FAR, FAR - 1, 2**64 - FAR, 2**64 - FAR + 1, 2**64 - 1]
    steps = signed_steps(WIDE, np.array(ticks, np.uint64), jitter=2**63)
    assert steps.tolist() == [0, FAR, FAR - 1, -FAR, 1 - FAR, -1]
    for too_long in (FAR + 1, 2**63, 2**64 - FAR - 1):
        with pytest.raises(FormatError, match=r"more than 2\*\*62"):
            signed_steps(WIDE, np.array([too_long], np.uint64), jitter=2**63)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([0, FAR], [0, FAR]),
        ([0], [FAR]),
        ([FAR, 0, FAR, 0], [FAR, 0, FAR, 0]),  # back and forth, but not further
    ],
)
def test_a_timeline_of_2_to_the_62_ticks_is_exact(starts: list[int], ends: list[int]) -> None:
    timeline = unwrap(profile_trace(starts, ends, WIDE))
    assert (timeline.start.tolist(), timeline.end.tolist()) == (starts, ends)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([0, FAR // 2, FAR + 1], [0, FAR // 2, FAR + 1]),
        ([FAR + 1, FAR // 2, 0], [FAR + 1, FAR // 2, 0]),
        ([0, 0], [1, FAR + 1]),
        ([0, FAR + 1], [0, FAR]),  # the last event is reversed
        # Their sum is 0 modulo 2**64.
        ([0, FAR, 2 * FAR, 3 * FAR, 0], [0, FAR, 2 * FAR, 3 * FAR, 0]),
    ],
)
def test_a_timeline_that_is_longer_is_refused(starts: list[int], ends: list[int]) -> None:
    with pytest.raises(FormatError, match=r"more than 2\*\*62"):
        unwrap(profile_trace(starts, ends, WIDE))


def of_tracers(tracers: list[int], readings: list[int], clock: ClockDomain) -> Trace:
    trace = Trace.unset(len(readings), blocks=[Block("", 0, len(readings))], clocks=[clock])
    trace.clock[:], trace.tracer[:] = 0, tracers
    trace.start[:] = trace.end[:] = np.array(readings, np.uint64)
    return trace


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize(
    ("bits", "begin", "lead"),
    [
        (32, 2**31 - 1, 2**31 - 1),
        (32, 2**31, -(2**31)),
        (32, 2**31 + 1, -(2**31) + 1),
        (64, 2**61, 2**61),
        (64, 2**64 - 3, -3),
    ],
)
def test_a_second_tracer_begins_within_half_a_wrap_of_the_first(
    bits: int, begin: int, lead: int, monotonic: bool
) -> None:
    """However far behind the end of the first one that is."""
    clock = ClockDomain("c", None, bits, monotonic=monotonic)
    readings = [0, 2**30, 2**31, begin, (begin + 5) % 2**bits]
    timeline = unwrap(of_tracers([0, 0, 0, 1, 1], readings, clock))
    ends = np.array([0, 2**30, 2**31, lead, lead + 5]) - min(lead, 0)
    assert timeline.end.tolist() == timeline.start.tolist() == ends.tolist()
    assert timeline.backward_steps == (0,)


def test_another_tracer_is_no_step_back_whatever_the_jitter() -> None:
    timeline = unwrap(of_tracers([0, 1, 2], [0, 5, 3], UP32), jitter=2**32 - 1)
    assert timeline.end.tolist() == [0, 5, 3]
    assert timeline.backward_steps == (0,)


@pytest.mark.parametrize(
    ("tracers", "readings"),
    [
        ([0, 1], [0, FAR + 1]),
        ([0, 1], [2**63, 5]),
        ([0, 0, 1], [0, 2, 2**64 - FAR + 1]),
        ([0, 0, 1, 1], [0, FAR, 2**64 - FAR, 2**64 - FAR - 1]),
        ([0, 0, 1, 1], [0, FAR, FAR, 2 * FAR]),
    ],
)
def test_tracers_too_far_apart_are_refused(tracers: list[int], readings: list[int]) -> None:
    with pytest.raises(FormatError, match=r"more than 2\*\*62"):
        unwrap(of_tracers(tracers, readings, WIDE))


def test_an_empty_trace_has_an_empty_timeline() -> None:
    timeline = unwrap(profile_trace([], [], UP32))
    assert len(timeline.start) == 0
    assert timeline.origins == (None,)


@pytest.mark.parametrize(
    ("ticks", "hz", "nanoseconds"),
    [
        (3, Fraction(25_000_000), 120.0),
        (1, Fraction(240_000_000), 25 / 6),
        (2**53 + 1, Fraction(10**9), float(2**53 + 1)),
        (2**63 + 2**62, Fraction(500_000_000), float(3 * 2**63)),
        (2**63, Fraction(500_000_000), float(2**64)),
        (2**63, Fraction(240_000_000), float(Fraction(2**63 * 25, 6))),
        (7, Fraction(32_768), 213_623.046875),
        (12_345, Fraction(48_000_000, 1001), float(Fraction(12_345 * 1001 * 10**9, 48_000_000))),
    ],
)
def test_nanoseconds_are_rounded_once(ticks: int, hz: Fraction, nanoseconds: float) -> None:
    clock = ClockDomain("c", hz)
    (result,) = to_nanoseconds(np.array([ticks], np.uint64), clock).tolist()
    assert result == pytest.approx(nanoseconds, rel=2.3e-16)
    assert float(ticks * nanoseconds_per_tick(clock)) == nanoseconds


@pytest.mark.parametrize(
    ("ticks", "length"),
    [
        (2**53 // 25, Fraction(25, 6)),
        # Rounding the whole part and the rest by themselves would give the float below.
        (2**53, Fraction(1, 978_374_352_247)),
        (1, Fraction(2**53, 978_374_352_247)),
    ],
)
def test_nanoseconds_are_the_nearest_float_up_to_2_to_the_53(ticks: int, length: Fraction) -> None:
    clock = ClockDomain("c", 10**9 / length)
    assert to_nanoseconds(np.array([ticks], np.uint64), clock).tolist() == [float(ticks * length)]


@pytest.mark.parametrize(
    ("ticks", "mhz", "nanoseconds"),
    [
        (3 * (2**52 - 1), 3000, 2**52 - 1),
        (3 * (7 * 10**14 + 1), 600, 5 * (7 * 10**14 + 1)),
    ],
)
def test_whole_nanoseconds_stay_whole_beyond_it(ticks: int, mhz: int, nanoseconds: int) -> None:
    """Ticks times p are no float64 here: a third more or less would be half a nanosecond."""
    clock = ClockDomain("c", Fraction(mhz * 10**6))
    assert to_nanoseconds(np.array([ticks], np.uint64), clock).tolist() == [nanoseconds]


def test_ticks_of_any_shape_and_size_are_converted() -> None:
    clock = ClockDomain("c", Fraction(240_000_000))
    ticks = np.array([[2**64 - 1, 0], [6, 2**63 + 6]], np.uint64)
    expected = [[float(Fraction(25 * tick, 6)) for tick in row] for row in ticks.tolist()]
    assert to_nanoseconds(ticks, clock).tolist() == expected
    assert to_nanoseconds(ticks[:0], clock).shape == (0, 2)


def test_no_ticks_are_no_time_at_any_rate() -> None:
    """Also at one whose ticks, in nanoseconds, are a fraction of more than 64 bits."""
    clock = ClockDomain("c", Fraction(327_681, 10**12))
    assert to_nanoseconds(np.zeros(2, np.uint64), clock).tolist() == [0.0, 0.0]


def test_a_clock_without_a_rate_gives_no_time() -> None:
    with pytest.raises(ValueError, match="no known rate"):
        to_nanoseconds(np.zeros(1, np.uint64), UP32)


@pytest.mark.parametrize("bits", [8, 24, 32, 63, 64])
@pytest.mark.parametrize("down", [False, True])
def test_ends_without_wraps_are_a_subtraction_away(bits: int, down: bool) -> None:
    last = 2**bits - 1
    start, end = (2, last - 2) if down else (last - 2, 2)
    trace = profile_trace([start, 7], [end, 7], ClockDomain("c", None, bits, down))
    plain = without_wraps(trace)
    assert plain.clocks == (ClockDomain("c", None, 64),)
    assert (plain.end - plain.start).tolist() == durations(trace).tolist() == [5, 0]
    assert plain.start.tolist() == trace.start.tolist()
    assert durations(plain).tolist() == [5, 0]
