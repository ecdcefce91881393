"""Unwrapping gives back the timeline that was wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from random import Random

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


RATES = st.integers(100_000, 1_000_000_000)
WRAP = 2**32
STEADY = 2**31  # a step that is no wrap and no step back, whatever the jitter


@dataclass(frozen=True)
class Core:
    """A tracer: when its events began and ended, and when it read both counters, in its own ticks.

    ``records`` has start and end of each event, and a single instant for a pair of readings.
    ``zero_ns`` is when its counter was zero, after clock 0 was.
    """

    number: int
    hz: int
    zero_ns: int
    first: int
    records: tuple[tuple[int, ...], ...]

    def instant(self, tick: int) -> Fraction:
        """Seconds since clock 0 was zero."""
        return Fraction(self.zero_ns, 10**9) + Fraction(tick, self.hz)

    def images(self, reference_hz: int, cuts: list[int]) -> list[bytes]:
        """Its log, in one chunk for each range between ``cuts``."""
        count = len(self.records)
        bounds = sorted({0, count} | {cut % count for cut in cuts})
        pairs: list[tuple[int, int]] = []
        images = []
        for chunk, (begin, end) in enumerate(pairwise(bounds)):
            log = CompactLog()
            log.tracer, log.chunk, log.first_record = self.number, chunk, begin
            rate = self.hz if self.number else 0
            for own, reference in pairs:
                log.clock(rate, own, reference, carried=True)
            log.name("a")
            for start, *ends in self.records[begin:end]:
                if ends:
                    log.profile("a", start, *ends)
                else:
                    pairs.append((start, int(self.instant(start) * reference_hz)))
                    log.clock(rate, *pairs[-1])
            images.append(log.image())
        return images


@st.composite
def cores(draw: st.DrawFn, number: int, hz: int) -> Core:
    tick = first = draw(st.integers(0, 2 * WRAP))
    records: list[tuple[int, ...]] = []
    for kind in draw(st.lists(st.sampled_from(["event", "pair"]), min_size=2, max_size=8)):
        tick += draw(st.integers(0, STEADY))
        if kind == "event":
            start, tick = tick, tick + draw(st.integers(0, STEADY // 2))
            records.append((start, tick))
        else:
            records.append((tick,))
    # One event at least, and pairs before and after all.
    records = [(first,), *records, (tick, tick + 1), (tick + 1,)]
    return Core(number, hz, draw(st.integers(0, 10**11)) if number else 0, first, tuple(records))


@st.composite
def racks(draw: st.DrawFn) -> list[Core]:
    return [draw(cores(number, draw(RATES))) for number in range(draw(st.integers(2, 3)))]


@given(racks(), st.lists(st.integers(0, 30), max_size=3), st.integers(0, 10**6))
@settings(max_examples=examples(300), deadline=None)
def test_tracers_with_counters_of_their_own_are_where_they_were(
    rack: list[Core], cuts: list[int], seed: int
) -> None:
    """Whatever the rates, the zeros, the wraps, the chunks and their order."""
    reference = rack[0].hz
    clock = ClockDomain("clock", Fraction(reference), 64)
    images = [image for core in rack for image in core.images(reference, cuts)]
    Random(seed).shuffle(images)
    trace = read_log(b"".join(images), [clock])
    whole = [image for core in rack for image in core.images(reference, [])]
    assert trace == read_log(b"".join(whole), [clock])

    timeline = unwrap(trace)
    assert timeline.unplaced == ()
    assert len(timeline.placed) == len(rack)
    for core in rack:
        rows = np.flatnonzero(trace.tracer == core.number)
        [number] = set(trace.clock[rows].tolist())
        zero = timeline.begins[number]
        assert zero is not None
        hz = trace.clocks[number].hz
        assert hz == core.hz
        events = [record for record in core.records if len(record) == 2]
        coarse = 3 + 3 * Fraction(core.hz, reference)  # each counter shows whole ticks
        for row, (start, end) in zip(rows.tolist(), events, strict=True):
            for tick, column in ((start, timeline.start), (end, timeline.end)):
                assert abs(zero + int(column[row]) - core.instant(tick) * core.hz) <= coarse


@given(racks(), st.integers(1, 40))
@settings(max_examples=examples(100), deadline=None)
def test_a_tracer_that_says_nothing_is_not_placed(rack: list[Core], late_s: int) -> None:
    """Nor is one whose second pair of readings was taken at another time than it says."""
    reference = rack[0].hz
    clock = ClockDomain("clock", Fraction(reference), 64)
    first, second = rack[:2]
    silent = CompactLog()
    silent.tracer = 1
    silent.profile("a", 5, 6)
    [image] = first.images(reference, [])
    timeline = unwrap(read_log(image + silent.image(), [clock]))
    assert len(timeline.unplaced) == 1
    assert timeline.unplaced[0].startswith("tracer 1: no CLOCK record")

    wrong = CompactLog()
    wrong.tracer = 1
    began = int(second.instant(0) * reference)
    wrong.clock(second.hz, 0, began).profile("a", 5, 6)
    wrong.clock(second.hz, 6, began + late_s * reference + 2)
    timeline = unwrap(read_log(image + wrong.image(), [clock]))
    assert len(timeline.unplaced) == 1
    assert timeline.unplaced[0].startswith("tracer 1: ")


@given(
    st.fractions(Fraction(-9, 1000), Fraction(9, 1000), max_denominator=10**6),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=6),
    st.lists(st.integers(1, 10**9 - 1), max_size=3, unique=True),
)
def test_between_two_pairs_a_wrong_rate_is_corrected(
    error: Fraction, instants: list[int], between: list[int]
) -> None:
    """An event beside a pair is where the pair says, and all others lie on the line between."""
    first, second = CompactLog(), CompactLog()
    first.clock(0, 0, 0).profile("a", 0, 0).clock(0, 1, 1)
    second.tracer = 1
    pairs = {0, 10**9, *between}
    for tick, event in sorted([(at, 1) for at in instants] + [(at, 2 * (at > 0)) for at in pairs]):
        if event == 1:
            second.profile("a", tick, tick)
        else:
            second.clock(10**8, tick, int(tick * (1 + error)))
    trace = read_log(first.image() + second.image(), [ClockDomain("clock", Fraction(10**8), 32)])
    timeline = unwrap(trace)
    assert timeline.unplaced == ()
    zero = timeline.begins[1]
    assert zero is not None
    for tick, end in zip(sorted(instants), timeline.end[1:].tolist(), strict=True):
        assert abs(zero + end - tick * (1 + error)) <= 2
