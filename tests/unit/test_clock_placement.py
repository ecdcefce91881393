"""Traces among pings: runs, restarts, several tracers, and what does not fit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness import ClockDomain, FormatError, Ping, Steadiness, align, read_log
from harness.analyze.placement import place
from tests.support.logs import CompactLog, profile_trace

NOT_PLACED = -1

CLOCK = ClockDomain("systick", Fraction(10**6), 32)
US = 1000


def ping(tick: int, *, epoch: int = 1, at: int | None = None) -> Ping:
    """A reading in a bracket of 2 us at that time, in microseconds: by default when it was due."""
    host = (tick if at is None else at) * US
    return Ping(host - US, host + US, epoch, tick % 2**32)


def test_a_run_is_placed_after_the_restart_that_it_made() -> None:
    """As a run leaves it: pings of an earlier epoch, the restart, then pings after it."""
    pings = [ping(10**6, epoch=0, at=5), ping(0, at=100), ping(5000, at=5100)]
    alignment = align(pings, CLOCK)
    placement = place(profile_trace([10, 500], [400, 600], CLOCK), alignment, [0, 0, 2])
    assert placement.epoch.tolist() == [1, 1]
    assert placement.start.tolist() == [10, 500]
    assert (placement.checked, placement.silences) == (2, ())
    started, _ = placement.instants(alignment)
    assert (started.low <= (100 + np.array([10, 500])) * US).all()
    assert (started.high >= (100 + np.array([10, 500])) * US).all()


def test_without_the_restart_a_run_is_placed_before_what_was_read_after_it() -> None:
    alignment = align([ping(10**6, epoch=0, at=5), ping(5000, at=5100)], CLOCK)
    placement = place(profile_trace([10], [400], CLOCK), alignment, [0, 1])
    assert (placement.epoch.tolist(), placement.end.tolist()) == ([1], [400 - 5000])
    assert (placement.placed, placement.checked) == (1, 0)


def test_events_between_contradicting_readings_are_not_placed() -> None:
    asleep = [ping(0), ping(1000), ping(2000, at=90_000_000), ping(3000, at=90_001_000)]
    alignment = align(asleep, CLOCK)
    assert len(alignment.epochs) == 2
    placement = place(profile_trace([1500, 2500], [1600, 2600], CLOCK), alignment, [0, 0, 1, 2])
    assert placement.epoch.tolist() == [NOT_PLACED, 1]
    started, _ = placement.instants(alignment)
    assert started.known.tolist() == [False, True]


def test_nothing_is_known_without_pings() -> None:
    placement = place(profile_trace([1], [2], CLOCK), align([], CLOCK), [])
    assert placement.epoch.tolist() == [NOT_PLACED]
    assert placement.placed == 0


def test_a_silence_is_counted_and_left_open_between_its_events() -> None:
    """Five wraps between two readings, two events: nobody knows between which they passed."""
    narrow = ClockDomain("narrow", Fraction(10**6), 16)
    wrap, late = narrow.modulus, 5 * narrow.modulus + 700
    readings = [Ping(-US, US, 1, 0), Ping(late * US - US, late * US + US, 1, late % wrap)]
    alignment = align(readings, narrow, Steadiness(Fraction(50)))
    trace = profile_trace([100, 300, 10], [200, 400, 20], narrow)
    placement = place(trace, alignment, [0, 2])
    assert placement.silences == (5,)
    assert placement.late.tolist() == [5, 5, 0]
    assert placement.end.tolist() == [200, 400, late + wrap - 680]
    assert placement.checked == 2
    started, _ = placement.instants(alignment)
    assert started.half_width is not None
    assert started.half_width == pytest.approx(5 * wrap * US / 2, rel=1e-3)


def test_more_time_in_the_log_than_around_it_is_an_error() -> None:
    alignment = align([ping(0), ping(1000)], CLOCK)
    with pytest.raises(FormatError, match="'systick': the log covers more time"):
        place(profile_trace([0], [500_000], CLOCK), alignment, [0, 1])


def test_readings_amid_several_tracers_are_refused() -> None:
    images = []
    for number in range(2):
        log = CompactLog()
        log.tracer = number
        images.append(log.profile("a", 100, 200).image())
    trace = read_log(b"".join(images), [CLOCK])
    alignment = align([ping(0), ping(1000)], CLOCK)
    assert place(trace, alignment, [0, 2]).end.tolist() == [200, 200]
    with pytest.raises(ValueError, match="several tracers"):
        place(trace, alignment, [0, 1])
