"""Phases of a run on the timeline: loading, and each execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.export.event_times import Ints
from harness.records.trace import EXECUTION, LOADING, Kind, Trace


@dataclass(frozen=True, slots=True)
class RunPhase:
    """Loading or an execution, in nanoseconds on the timeline.

    Attributes:
        name: ``loading``, or ``execution`` and its number, from 1.
        tracer: Number of its tracer.
        start: Start.
        end: End; not before ``start``, nor after the start of the tracer's next phase.
    """

    name: str
    tracer: int
    start: int
    end: int

    @property
    def track(self) -> str:
        """Name of the track with the phases of its tracer."""
        return f"executions of tracer {self.tracer}" if self.tracer else "executions"


def find_phases(
    trace: Trace, rows: Ints, block: Ints, start: Ints, end: Ints
) -> tuple[RunPhase, ...]:
    """Return the phases of each tracer, in order of time.

    An execution is a scope of ExecuTorch's name. A block without that scope, for example because
    the log was full, is an execution if it has an event of an instruction.

    Args:
        trace: The trace.
        rows: Rows of the tracers' own slices, without those of delegates, shape (n,).
        block: Block of each row.
        start: Its start in nanoseconds.
        end: Its end.
    """
    tracers = trace.tracer[rows]
    found: list[RunPhase] = []
    for tracer in np.unique(tracers).tolist():
        mine = tracers == tracer
        spans = sorted(_spans(trace, rows[mine], block[mine], start[mine], end[mine]))
        number = 0
        for index, (begin, stop, executed) in enumerate(spans):
            number += executed
            name = f"execution {number}" if executed else "loading"
            following = spans[index + 1][0] if index + 1 < len(spans) else stop
            found.append(RunPhase(name, tracer, begin, min(stop, following)))
    return tuple(found)


def _spans(
    trace: Trace, rows: Ints, block: Ints, start: Ints, end: Ints
) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each phase of a tracer, and whether it is an execution."""
    profiled = trace.kind[rows] == Kind.PROFILE
    scopes = profiled & _named(trace, rows, EXECUTION)
    yield from (
        (begin, stop, True)
        for begin, stop in zip(start[scopes].tolist(), end[scopes].tolist(), strict=True)
    )
    loading = profiled & _named(trace, rows, *LOADING)
    without = (trace.chain[rows] != -1) & ~np.isin(block, block[scopes])
    for group, executed in ((loading, False), (without, True)):
        blocks, of = np.unique(block[group], return_inverse=True)
        first = np.full(len(blocks), np.iinfo(np.int64).max)
        last = np.zeros(len(blocks), np.int64)
        np.minimum.at(first, of, start[group])
        np.maximum.at(last, of, end[group])
        yield from (
            (begin, stop, executed)
            for begin, stop in zip(first.tolist(), last.tolist(), strict=True)
        )


def _named(trace: Trace, rows: Ints, *names: str) -> np.ndarray:
    numbers = [number for number, name in enumerate(trace.names) if name in names]
    return np.isin(trace.name[rows], numbers)
