"""Builds traces by hand, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.records.trace import (
    HOST_NANOSECONDS,
    NO_NAME,
    Block,
    ClockDomain,
    DebugValue,
    HardwareCounter,
    Kind,
    Trace,
)


@dataclass(frozen=True)
class EventSpec:
    """An event, in the order of a log.

    Attributes:
        name: Its name, or None.
        start: Raw start tick.
        end: Raw end tick.
        chain: Chain index.
        instruction: Instruction id.
        delegate: Delegate debug id, a number or a string, or None.
        metadata: Metadata of a delegate, or None.
        value: A logged value: makes it a debug event, which has no time.
        allocated: Bytes allocated from allocator 1: makes it an allocation.
        counts: What each counter of the trace counted; empty for an event without counts.
    """

    name: str | None = None
    start: int = 0
    end: int = 0
    chain: int = 0
    instruction: int = 0
    delegate: int | str | None = None
    metadata: bytes | None = None
    value: DebugValue | None = None
    allocated: int | None = None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunSpec:
    """A block of events.

    Attributes:
        events: In log order.
        name: Name of the block.
        bundled: Index of the bundled input that ran, -1 without one.
        allocators: Names of its allocators, numbered from 1.
    """

    events: Sequence[EventSpec]
    name: str = "Execute"
    bundled: int = -1
    allocators: tuple[str, ...] = ()


def trace_of(
    *runs: RunSpec, clock: ClockDomain = HOST_NANOSECONDS, counters: Sequence[HardwareCounter] = ()
) -> Trace:
    """Return the trace of the runs, with all events on one clock, and these hardware counters.

    Examples:
        >>> trace = trace_of(RunSpec([EventSpec("Method::execute", 0, 100)]))
        >>> len(trace), trace.names
        (1, ('Method::execute',))
    """
    events = [event for run in runs for event in run.events]
    texts = [event.name for event in events] + [event.delegate for event in events]
    names = [*dict.fromkeys(text for text in texts if isinstance(text, str))]
    metadata = b"".join(event.metadata or b"" for event in events)
    blocks, first = [], 0
    for run in runs:
        blocks.append(Block(run.name, first, len(run.events), run.bundled, run.allocators))
        first += len(run.events)
    trace = Trace.unset(
        len(events),
        names=names,
        blocks=blocks,
        clocks=[clock],
        counters=counters,
        metadata_bytes=metadata,
        debug_values=[event.value for event in events if event.value is not None],
    )
    offset = logged = 0
    for row, event in enumerate(events):
        fill: dict[str, Any] = {
            "name": NO_NAME if event.name is None else names.index(event.name),
            "chain": event.chain,
            "instruction": event.instruction,
        }
        if event.value is not None:
            fill |= {"kind": Kind.DEBUG, "debug": logged}
            logged += 1
        elif event.allocated is not None:
            fill = {"kind": Kind.ALLOCATION, "allocator": 1, "size": event.allocated}
        else:
            fill |= {"clock": 0, "start": event.start, "end": event.end}
        if isinstance(event.delegate, str):
            fill["delegate_str"] = names.index(event.delegate)
        elif event.delegate is not None:
            fill["delegate_int"] = event.delegate
        if event.counts:
            fill["counts"] = event.counts
        for column, value in fill.items():
            getattr(trace, column)[row] = value
        if event.metadata is not None:
            trace.metadata[row] = offset, len(event.metadata)
            offset += len(event.metadata)
    return replace(trace).sealed()
