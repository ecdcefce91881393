"""Strategies for clocks, and for traces with wrapping counters and their true times."""

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
"""Largest step in ticks, so that timelines stay far below 64 bits."""


def clock_domains(
    *, min_bits: int = 8, max_bits: int = 64, rated: bool | None = None
) -> st.SearchStrategy[ClockDomain]:
    """Strategy for counters of any width and direction.

    Args:
        min_bits: Smallest width, 8 or more.
        max_bits: Largest width, 64 or less.
        rated: Whether the rate is known; None for either.
    """
    rates = st.fractions(Fraction(1, 10), 10**10, max_denominator=10**6)
    known = {True: rates, False: st.none(), None: st.one_of(st.none(), rates)}[rated]
    widths = st.integers(min_bits, max_bits)
    return st.builds(ClockDomain, st.just("clock"), known, widths, st.booleans())


@dataclass(frozen=True)
class DrawnTimeline:
    """True start and end of each event in log order, and the counter that reads them.

    Attributes:
        clock: The counter.
        jitter: Largest backward step between ends of consecutive events, in ticks.
        starts: Ticks since an arbitrary instant, without wraps.
        ends: Likewise.
    """

    clock: ClockDomain
    jitter: int
    starts: list[int]
    ends: list[int]

    def reading(self, instant: int) -> int:
        """Return the counter's reading at an instant."""
        return (-instant if self.clock.down else instant) % self.clock.modulus

    def trace(self, first: int = 0, last: int | None = None, *, shift: int = 0) -> Trace:
        """Return the events ``first`` to ``last`` (exclusive) as logged, in one block.

        Args:
            first: Index of the first event.
            last: Index after the last event.
            shift: Offset of the counter in ticks.
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
    """Strategy for timelines that wrapped readings determine: no gap is longer than a wrap.

    Args:
        draw: Given by Hypothesis.
        clocks: Counters that read them; any width from 8 to 64 bits by default.
        max_events: Largest number of events; the smallest is 1.
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
    """Strategy for traces with wraps in and between events; ``timelines`` also has true times.

    Args:
        clocks: As for ``timelines``.
        max_events: Likewise.
    """
    return timelines(clocks=clocks, max_events=max_events).map(DrawnTimeline.trace)
