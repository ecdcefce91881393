"""What the PyTorch profiler collected, as columns: the reference for call trees and tensor ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.analyze.begin_order import NO_THREAD, BeginOrdered


@dataclass
class Profiled:
    """A profile: its events in the order of their starts, and its parents.

    Attributes:
        events: Those of torch's event tree.
        parent: Index of each one's parent, -1 for none.
        columns: The same events as torch gives them to its own algorithm.
    """

    events: list[Any]
    parent: np.ndarray
    columns: BeginOrdered


def walk(events: list[Any]) -> Iterator[Any]:
    """Every event of a tree, in the order in which their starts stand in it."""
    for event in events:
        yield event
        yield from walk(event.children)


def in_order_of_ends(events: list[Any]) -> Iterator[Any]:
    """Every event of a tree as ExecuTorch would log it."""
    for event in events:
        yield from in_order_of_ends(event.children)
        yield event


def profiled(profile: Any) -> Profiled:
    """Read what ``torch.profiler.profile`` collected."""
    results = profile.profiler.kineto_results
    forward = {
        event.correlation_id(): (event.fwd_thread_id(), event.end_thread_id())
        for event in results.events()
        if event.correlation_id()
    }
    events = list(walk(results.experimental_event_tree()))
    events.sort(key=lambda event: event.start_time_ns)
    number = {event.id: index for index, event in enumerate(events)}
    threads = [forward.get(event.correlation_id, (NO_THREAD, event.start_tid)) for event in events]
    return Profiled(
        events,
        np.array([number[event.parent.id] if event.parent else -1 for event in events]),
        BeginOrdered(
            start=np.array([event.start_time_ns for event in events]),
            end=np.array([event.end_time_ns for event in events]),
            thread=np.array([event.start_tid for event in events], np.int64),
            forward_thread=np.array([forward for forward, _ in threads], np.int64),
            end_thread=np.array([end for _, end in threads], np.int64),
        ),
    )
