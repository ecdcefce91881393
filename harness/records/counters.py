"""Hardware counters of a run, as ``result.json`` has them."""

from __future__ import annotations

import msgspec


class CounterRecord(msgspec.Struct, frozen=True):
    """A hardware counter: its name and width, what an empty event counts, and what an empty event
    adds to the event around it.
    """

    name: str
    bits: int
    overhead: int
    parent_overhead: int


class CounterPassesRecord(msgspec.Struct, frozen=True):
    """Several runs that together read more hardware counters than the board counts at once.

    Attributes:
        counters: The counters of each run; times are those of the first one.
        common: What all runs counted: a counter, or ``ticks`` without one.
        event_difference: Largest difference of ``common`` between runs in an event, as a share.
        event_name: The name of this event.
        execution_difference: Largest such difference in an execution.
        unmatched_events: Events without counts, because not every run has them.
    """

    counters: tuple[tuple[str, ...], ...]
    common: str
    event_difference: float
    event_name: str
    execution_difference: float
    unmatched_events: int
