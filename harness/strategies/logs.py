"""Any device log."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.strategies.device_log import DeviceLog
from harness.strategies.traces import INT32, UINT32


@st.composite
def device_logs(draw: st.DrawFn, *, max_records: int = 12, losses: bool = True) -> DeviceLog:
    """Logs as a device may send them, with delegates, wide chains and allocations; any readings.

    Args:
        draw: Given by Hypothesis.
        max_records: Most records, without those that only extend the next.
        losses: They may say that events were dropped.
    """
    log = DeviceLog()
    short = st.one_of(st.none(), st.binary(max_size=12))
    for _ in range(draw(st.integers(0, max_records))):
        kind = draw(st.sampled_from(["profile", "wide", "block", "allocator", "allocation"]))
        if kind in ("profile", "wide") and draw(st.booleans()):
            metadata = draw(st.one_of(st.none(), st.binary(max_size=40)))
            log.delegate(draw(short), draw(INT32), metadata)
        match kind:
            case "profile":
                chain = draw(st.integers(-1, 3))
                log.profile(draw(short), draw(UINT32), draw(UINT32), chain=chain)
            case "wide":
                log.profile(draw(short), 0, 1, chain=draw(INT32), instruction=draw(UINT32))
            case "block":
                log.block(draw(st.binary(max_size=8)), draw(INT32))
            case "allocator":
                log.allocator(draw(short))
            case "allocation" if log.allocators:
                log.allocation(
                    draw(st.integers(1, log.allocators)),
                    draw(INT32),
                    tick=draw(UINT32),
                    offset=draw(UINT32),
                    failed=draw(st.booleans()),
                )
    log.dropped_events = draw(UINT32) if losses else 0
    return log
