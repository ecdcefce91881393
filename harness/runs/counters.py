"""Hardware counters of a run: their selection on the device."""

from __future__ import annotations

from collections.abc import Sequence

from harness.link.session import Session
from harness.link.values import TargetInfo
from harness.records.result import CounterRecord
from harness.records.trace import Trace


def select_counters(session: Session, info: TargetInfo, names: Sequence[str]) -> tuple[int, ...]:
    """Return the device's numbers of counters.

    Raises:
        UsageError: The device does not have one of them, or they do not count at once.
        LinkError: No response in time.
        TargetError: The device restarted or died.
    """
    if not names:
        return ()  # a device is not asked for what no run needs
    offered = session.counters()
    offered.check(names, info.board)
    offered.check_at_once(names, info.board)
    return offered.numbers(names)


def counter_records(trace: Trace) -> tuple[CounterRecord, ...]:
    """Return the counters of a trace as the result has them."""
    return tuple(
        CounterRecord(each.name, each.bits, each.overhead, each.parent_overhead)
        for each in trace.counters
    )
