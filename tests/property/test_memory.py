"""Memory over time agrees with a simple allocator that was watched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness import Block, ClockDomain, Kind, Subject, Trace


@given(st.data())
def test_live_bytes_and_pieces_are_those_of_the_allocator(data: st.DataObject) -> None:
    """First fit in 16-byte steps; frees name their offset or not, or free everything at once."""
    live: dict[int, tuple[int, int]] = {}  # offset to size and row
    events: list[tuple[int, int, bool]] = []
    held, at_peak, peak = [0], {}, 0
    sizes = set()
    for row in range(data.draw(st.integers(0, 30))):
        action = data.draw(st.sampled_from(["take", "take", "free", "all", "fail"]))
        if action == "free" and live:
            offset = data.draw(st.sampled_from(sorted(live)))
            size, _ = live.pop(offset)
            # Without an offset a free means the latest of its size; no two sizes are the same.
            events.append((-size, data.draw(st.sampled_from([offset, -1])), False))
        elif action == "all" and live:
            events.append((-sum(size for size, _ in live.values()), 0, False))
            live.clear()
        elif action == "fail":
            events.append((10**6, -1, True))
        else:
            size = data.draw(st.integers(1, 400).filter(lambda size: size not in sizes))
            sizes.add(size)
            offset = 0
            while any(offset < o + s and o < offset + size for o, (s, _) in live.items()):
                offset += 16
            live[offset] = (size, row)
            events.append((size, offset, False))
        held.append(sum(size for size, _ in live.values()))
        if held[-1] > peak:
            peak, at_peak = held[-1], dict(live)

    count = len(events)
    blocks = [Block("", 0, count, allocators=("heap",))]
    trace = Trace.unset(count, blocks=blocks, clocks=[ClockDomain("c", None)])
    trace.kind[:], trace.allocator[:] = Kind.ALLOCATION, 1
    for row, (size, offset, failed) in enumerate(events):
        trace.size[row], trace.offset[row], trace.failed[row] = size, offset, failed
    (heap,) = Subject(trace.sealed()).memory.allocators
    assert heap.live.tolist() == held[1:]
    assert heap.peak == peak == Subject(trace).allocators[0].peak_bytes
    assert {p.offset: (p.size, p.row) for p in heap.peak_pieces} == at_peak
    assert heap.unmatched == heap.overlapping == ()
    assert len(heap.failures) == sum(failed for *_, failed in events)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 20)),
        min_size=1,
        max_size=12,
        unique_by=lambda span: span[0],
    )
)
def test_gaps_are_the_bytes_that_no_span_covers(spans: list[tuple[int, int]]) -> None:
    end = max((offset + size for offset, size in spans), default=0)
    text = "".join(
        "." if not any(o <= byte < o + s for o, s in spans) else "x" for byte in range(end)
    )
    runs = [len(run) for run in text.split("x") if run]
    trace = Trace.unset(
        len(spans),
        blocks=[Block("", 0, len(spans), allocators=("heap",))],
        clocks=[ClockDomain("c", None)],
    )
    trace.kind[:], trace.allocator[:] = Kind.ALLOCATION, 1
    trace.offset[:], trace.size[:] = zip(*spans, strict=True)
    (heap,) = Subject(trace.sealed()).memory.allocators
    found = heap.peak_gaps
    assert (found.bytes, found.largest, found.count) == (sum(runs), max(runs, default=0), len(runs))
