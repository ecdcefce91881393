"""Builders of logs and traces that tests share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness import Block, ClockDomain, Trace
from harness.strategies import DeviceLog as CompactLog

__all__ = ["CompactLog", "profile_trace"]


def profile_trace(
    starts: Sequence[int],
    ends: Sequence[int],
    clock: ClockDomain,
    names: Sequence[str] = (),
) -> Trace:
    """One block "Execute" of profile events with the given raw ticks."""
    trace = Trace.unset(
        len(starts),
        names=list(dict.fromkeys(names)),
        blocks=[Block("Execute", 0, len(starts))],
        clocks=[clock],
    )
    trace.clock[:] = 0
    trace.start[:] = np.array(starts, np.uint64)
    trace.end[:] = np.array(ends, np.uint64)
    for row, name in enumerate(names):
        trace.name[row] = trace.names.index(name)
    return trace.sealed()
