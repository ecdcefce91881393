"""Durations across a wrap, and ticks as time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness.analyze.ticks import (
    default_jitter,
    durations,
    exact_nanoseconds,
    to_nanoseconds,
    unwrap,
    without_wraps,
)
from harness.errors import FormatError
from harness.records.clock_domain import HOST_NANOSECONDS, ClockDomain
from harness.records.trace import NO_CLOCK, Block, Kind, Trace
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
    trace = Trace.unset(
        3, blocks=[Block("", 0, 3)], clocks=[UP32, ClockDomain("npu", None, 16, down=True)]
    )
    trace.clock[:] = 0, 1, NO_CLOCK
    trace.kind[2] = Kind.DEBUG
    trace.start[:], trace.end[:] = 10, 4
    assert durations(trace).tolist() == [2**32 - 6, 6, 0]
    timeline = unwrap(trace)
    assert timeline.start.tolist()[1:] == [0, -1]
    assert timeline.end.tolist()[1:] == [6, -1]


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
    assert [default_jitter(ClockDomain("c", None, bits)) for bits in (8, 24, 32)] == [0, 256, 65536]
    with pytest.raises(ValueError, match="not below one wrap"):
        unwrap(profile_trace([0], [0], UP32), jitter=2**32)


def test_a_span_that_cannot_be_is_refused() -> None:
    clock = ClockDomain("c", None, 63)
    ends = [0, 2**61, 2**62, 3 * 2**61, 0] * 3
    with pytest.raises(FormatError, match=r"more than 2\*\*62"):
        unwrap(profile_trace(ends, ends, clock))


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
        (2**63, Fraction(240_000_000), float(Fraction(2**63 * 25, 6))),
        (7, Fraction(32_768), 213_623.046875),
        (12_345, Fraction(48_000_000, 1001), float(Fraction(12_345 * 1001 * 10**9, 48_000_000))),
    ],
)
def test_nanoseconds_are_rounded_once(ticks: int, hz: Fraction, nanoseconds: float) -> None:
    clock = ClockDomain("c", hz)
    (result,) = to_nanoseconds(np.array([ticks], np.uint64), clock).tolist()
    assert result == pytest.approx(nanoseconds, rel=2.3e-16)
    assert float(exact_nanoseconds(ticks, clock)) == nanoseconds


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
    assert (plain.end - plain.start).tolist() == durations(trace).tolist() == [5, 0]
    assert plain.start.tolist() == trace.start.tolist()
    assert durations(plain).tolist() == [5, 0]
