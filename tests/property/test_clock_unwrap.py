"""Unwrapping gives back the timeline that was wrapped."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ClockDomain, durations, read_log
from harness.analyze.ticks import nanoseconds_per_tick, to_nanoseconds, unwrap
from harness.records.trace import concatenate
from harness.strategies import DrawnTimeline, timelines
from tests.support.examples import examples
from tests.support.logs import CompactLog


@given(timelines())
@settings(max_examples=examples(400), deadline=None)
def test_any_timeline_comes_back_up_to_its_origin(timed: DrawnTimeline) -> None:
    trace = timed.trace()
    lengths = [end - start for start, end in zip(timed.starts, timed.ends, strict=True)]
    assert durations(trace).tolist() == lengths

    timeline = unwrap(trace, timed.jitter)
    zero = min(timed.starts)
    assert timeline.start.tolist() == [instant - zero for instant in timed.starts]
    assert timeline.end.tolist() == [instant - zero for instant in timed.ends]
    assert timeline.origins == (timed.reading(zero),)
    assert timeline.backward_steps == timeline.reversed_events == (0,)


@given(timelines(), st.sets(st.integers(1, 11)), st.booleans())
@settings(max_examples=examples(80), deadline=None)
def test_a_log_that_was_pulled_in_parts_has_the_timeline_of_the_whole(
    timed: DrawnTimeline, cuts: set[int], again: bool
) -> None:
    """Pulls of what was logged since the last one, put together, are the log."""
    count = len(timed.ends)
    bounds = sorted({0, count} | {cut for cut in cuts if cut < count})
    parts = [timed.trace(first, last) for first, last in pairwise(bounds)]
    whole = concatenate(parts)
    if again:  # also of parts that were put together before
        whole = concatenate([concatenate(parts[:1]), *parts[1:]])
    assert len(whole.blocks) == len(bounds) - 1
    timeline = unwrap(whole, timed.jitter)
    zero = min(timed.starts)
    assert timeline.start.tolist() == [instant - zero for instant in timed.starts]
    assert timeline.end.tolist() == [instant - zero for instant in timed.ends]


@given(timelines(), st.integers(0, 2**64 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_where_the_counter_begins_does_not_matter(timed: DrawnTimeline, shift: int) -> None:
    def at(offset: int) -> tuple[list[int], list[int], list[int]]:
        trace = timed.trace(shift=offset)
        timeline = unwrap(trace, timed.jitter)
        return timeline.start.tolist(), timeline.end.tolist(), durations(trace).tolist()

    assert at(shift) == at(0)


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20),
    st.fractions(min_value=Fraction(1, 10), max_value=10**10, max_denominator=10**6),
)
@settings(max_examples=examples(300), deadline=None)
def test_conversion_is_within_one_ulp_of_the_exact_value(ticks: list[int], hz: Fraction) -> None:
    clock = ClockDomain("c", hz)
    for tick, converted in zip(
        ticks, to_nanoseconds(np.array(ticks, np.uint64), clock).tolist(), strict=True
    ):
        exact = tick * nanoseconds_per_tick(clock)
        assert abs(Fraction(converted) - exact) <= Fraction(np.spacing(float(exact)))


@given(
    first=st.integers(0, 2**32 - 1),
    lead=st.integers(-(2**31) + 1, 2**31 - 1),
    steps=st.lists(st.integers(0, 2**31), min_size=1, max_size=8),
)
def test_tracers_on_one_clock_are_placed_on_one_timeline(
    first: int, lead: int, steps: list[int]
) -> None:
    images = []
    for number, begin in enumerate((first, first + lead)):
        log, at = CompactLog(), begin
        log.tracer = number
        for step in steps:
            log.profile("a", at, at)
            at += step
        images.append(log.image())
    trace = read_log(b"".join(images), [ClockDomain("clock", None, 32)])
    timeline = unwrap(trace)
    alone = np.cumsum([0, *steps[:-1]])
    count = len(steps)
    assert np.array_equal(timeline.end[:count] - timeline.end[0], alone)
    assert np.array_equal(timeline.end[count:] - timeline.end[0], alone + lead)
    assert timeline.backward_steps == (0,)
