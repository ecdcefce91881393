"""The Inspector keeps every event of any trace, once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import DebugValue, Kind, read_ed00, write_ed00
from harness.inspector import Inspector, TimeScale
from harness.inspector.event import STATISTICS, PerfData, statistics
from tests.support.examples import examples
from tests.support.traces import EventSpec, RunSpec, trace_of

FEW = st.integers(-1, 2)
IDENTITIES = {
    "name": st.sampled_from([None, "", "a", "b", "OPERATOR_CALL"]),
    "chain": FEW,
    "instruction": st.integers(0, 2),
    "delegate": st.none() | st.integers(0, 1) | st.sampled_from(["", "1", "x"]),
}
PROFILES = st.builds(
    EventSpec,
    **IDENTITIES,
    start=st.integers(0, 2**40),
    end=st.integers(0, 2**40),
    metadata=st.none() | st.binary(max_size=2),
)
VALUES = st.builds(
    EventSpec,
    **IDENTITIES,
    value=st.builds(DebugValue, st.integers(0, 9), st.just(1), st.none() | st.booleans()),
)
ALLOCATIONS = st.builds(EventSpec, allocated=st.integers(0, 99))
RUNS = st.builds(
    RunSpec,
    st.lists(PROFILES | VALUES | ALLOCATIONS, max_size=12),
    name=st.sampled_from(["Default", "Execute"]),
    bundled=FEW,
    allocators=st.just(("heap",)),
)


@settings(max_examples=examples(60))
@given(runs=st.lists(RUNS, max_size=5))
def test_every_event_is_in_exactly_one_place(runs: list[RunSpec]) -> None:
    data = write_ed00(trace_of(*runs))
    trace = read_ed00(data)
    inspector = Inspector(etdump_data=data, target_time_scale=TimeScale.NS)
    rows = Counter(
        row for block in inspector.event_blocks for event in block.events for row in event.rows
    )
    assert rows == Counter(np.flatnonzero(trace.kind == Kind.PROFILE).tolist())
    numbers = Counter(number for block in inspector.event_blocks for number in block.runs)
    assert numbers == Counter(n for n, block in enumerate(trace.blocks) if block.count)
    for block in inspector.event_blocks:
        for event in block.events:
            assert (event.perf_data is not None) == bool(event.rows)
            assert len(event.debug_data_per_run) in (0, len(block.runs))
            for row in event.rows:
                assert trace.chain[row] == event.chain_index
                assert trace.instruction[row] == event._instruction_id
        returned = [
            row
            for number in block.runs
            for row in range(
                trace.blocks[number].first, trace.blocks[number].first + trace.blocks[number].count
            )
            if trace.debug[row] >= 0 and trace.debug_values[trace.debug[row]].output
        ]
        assert block.run_outputs is not None
        assert sum(map(len, block.run_outputs)) == len(returned)


@settings(max_examples=examples(40))
@given(runs=st.lists(RUNS, min_size=1, max_size=3), times=st.integers(2, 3))
def test_the_same_runs_again_are_more_repeats_of_the_same_events(
    runs: list[RunSpec], times: int
) -> None:
    once = Inspector(etdump_data=write_ed00(trace_of(*runs)))
    again = Inspector(etdump_data=write_ed00(trace_of(*runs * times)))
    assert len(again.event_blocks) == len(once.event_blocks)
    for few, many in zip(once.event_blocks, again.event_blocks, strict=True):
        assert len(many.runs) == times * len(few.runs)
        assert [event.name for event in many.events] == [event.name for event in few.events]
        for one, more in zip(few.events, many.events, strict=True):
            if one.perf_data is not None:
                assert more.perf_data is not None
                assert more.perf_data.raw == one.perf_data.raw * times


@settings(max_examples=examples(60))
@given(runs=st.lists(RUNS, max_size=4), read=st.sets(st.integers(0, 8)))
def test_a_table_is_the_same_whichever_events_were_read_before(
    runs: list[RunSpec], read: set[int]
) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    data = write_ed00(trace_of(*runs))
    untouched, some, all_read = (Inspector(etdump_data=data) for _ in range(3))
    for block in some.event_blocks:
        _ = [block.events[number : number + 1] for number in read]
    for block in all_read.event_blocks:
        block.events = [*block.events]
    expected = all_read.to_dataframe(include_delegate_debug_data=True)
    for inspector in (untouched, some):
        frame = inspector.to_dataframe(include_delegate_debug_data=True)
        pandas.testing.assert_frame_equal(frame, expected, check_exact=True)


DURATIONS = st.lists(st.floats(-1e3, 1e9), max_size=30)


@given(st.lists(DURATIONS, max_size=5) | st.builds(lambda same: [same] * 3, DURATIONS))
def test_statistics_of_a_table_are_those_of_its_events(events: list[list[float]]) -> None:
    bounds = np.cumsum([0, *map(len, events)])
    found = statistics(np.array([time for raw in events for time in raw]), bounds)
    for raw, row in zip(events, found.tolist(), strict=True):
        perf = PerfData(raw)
        expected = [getattr(perf, name) if raw else np.nan for name in STATISTICS]
        np.testing.assert_array_equal(row, expected)
