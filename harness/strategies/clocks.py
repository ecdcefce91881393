"""Clocks, and traces whose counters wrap, beside the truth that they wrap."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from hypothesis import strategies as st

from harness.analyze.unwrap import default_jitter
from harness.records.clock_domain import ClockDomain
from harness.records.trace import Block, Trace

_LONGEST: Final = 2**55
"""Ticks of a step at most, so that a timeline stays far below what 64 bits hold."""


def clock_domains(
    *, min_bits: int = 8, max_bits: int = 64, rated: bool | None = None
) -> st.SearchStrategy[ClockDomain]:
    """Counters of any width and direction.

    Args:
        min_bits: Least width, 8 or more.
        max_bits: Largest width, 64 or less.
        rated: Their rate is known, or not; None for either.
    """
    rates = st.fractions(Fraction(1, 10), 10**10, max_denominator=10**6)
    known = {True: rates, False: st.none(), None: st.one_of(st.none(), rates)}[rated]
    widths = st.integers(min_bits, max_bits)
    return st.builds(ClockDomain, st.just("clock"), known, widths, st.booleans())


@dataclass(frozen=True)
class DrawnTimeline:
    """When each event began and ended, in log order, and the counter that read it.

    Attributes:
        clock: The counter.
        jitter: How far an event may end before the one logged before it, ticks.
        starts: Ticks since some instant, of any size.
        ends: Likewise.
    """

    clock: ClockDomain
    jitter: int
    starts: list[int]
    ends: list[int]

    def reading(self, instant: int) -> int:
        """What the counter says at an instant."""
        return (-instant if self.clock.down else instant) % self.clock.modulus

    def trace(self, first: int = 0, last: int | None = None, *, shift: int = 0) -> Trace:
        """The events from ``first`` to before ``last`` as they are logged, in one block.

        Args:
            first: Index of the first event.
            last: Index behind the last.
            shift: Ticks that the counter is ahead.
        """
        columns = [
            np.array([self.reading(instant + shift) for instant in instants[first:last]], np.uint64)
            for instants in (self.starts, self.ends)
        ]
        count = len(columns[0])
        trace = Trace.unset(count, blocks=[Block("Execute", 0, count)], clocks=[self.clock])
        trace.clock[:] = 0
        trace.start[:], trace.end[:] = columns
        return trace.sealed()


@st.composite
def timelines(
    draw: st.DrawFn, *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> DrawnTimeline:
    """Timelines that can be told from the readings of a counter that wraps: no gap hides a wrap.

    Args:
        draw: Given by Hypothesis.
        clocks: Counters to read them by; any of 8 to 64 bits by default.
        max_events: Most events; there is at least one.
    """
    clock = draw(clock_domains(rated=False) if clocks is None else clocks)
    limit = default_jitter(clock)
    jitter = draw(st.sampled_from([0, limit])) if clock.bits < 56 else limit
    longest = min(clock.modulus - 1 - jitter, _LONGEST)
    now = draw(st.integers(0, 2**60))
    starts, ends = [], []
    for _ in range(draw(st.integers(1, max_events))):
        now += draw(st.one_of(st.integers(0, longest), st.just(longest), st.just(0)))
        ends.append(now)
        starts.append(now - draw(st.one_of(st.integers(0, longest), st.just(longest))))
    return DrawnTimeline(clock, jitter, starts, ends)


def wrapped_traces(
    *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> st.SearchStrategy[Trace]:
    """Traces whose counters may wrap within and between events; ``timelines`` tell the truth, too.

    Args:
        clocks: As for ``timelines``.
        max_events: Likewise.
    """
    return timelines(clocks=clocks, max_events=max_events).map(DrawnTimeline.trace)
