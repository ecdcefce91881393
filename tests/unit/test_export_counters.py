"""Hardware counters in exports: a column, arguments of slices, and running totals."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from harness import (
    EXECUTION,
    NO_COUNT,
    ClockDomain,
    HardwareCounter,
    Kind,
    Trace,
    draw,
    export_trace,
)
from harness.strategies import EventSpec, Execution, RunSpec, executions, trace_of

CPU = ClockDomain("cpu", Fraction(10**8), 32)
COUNTERS = (HardwareCounter("cycles"), HardwareCounter("load_stall", 8))


def counted() -> Trace:
    """Two executions of two kernels; the first counter recorded nothing of one of them."""
    runs = [
        RunSpec(
            [
                EventSpec("conv", at + 10, at + 110, instruction=0, counts=(100, 20)),
                EventSpec("relu", at + 120, at + 150, instruction=1, counts=(NO_COUNT, 0)),
                EventSpec(EXECUTION, at, at + 160, chain=-1, counts=(160, 21)),
            ]
        )
        for at in (0, 1000)
    ]
    return trace_of(*runs, counters=COUNTERS)


def totals(trace: Trace) -> list[tuple[str, list[int], list[int]]]:
    return [(item.name, item.time.tolist(), item.value.tolist()) for item in draw(trace).counters]


def test_a_total_rises_during_the_innermost_events_that_have_a_count() -> None:
    assert totals(counted()) == [
        ("cycles", [10, 110, 1010, 1110], [0, 100, 100, 200]),
        (
            "load_stall",
            [10, 110, 120, 150, 1010, 1110, 1120, 1150],
            [0, 20, 20, 20, 20, 40, 40, 40],
        ),
    ]


@given(executions(delegates=True, counters=COUNTERS, clock=CPU))
def test_every_total_ends_at_the_sum_of_the_innermost_events(execution: Execution) -> None:
    trace = execution.trace
    kernels = [number for number, name in enumerate(trace.names) if name in execution.operators]
    rows = np.flatnonzero((trace.kind == Kind.PROFILE) & np.isin(trace.name, kernels))
    found = draw(trace).counters
    assert [item.name for item in found] == [counter.name for counter in COUNTERS]
    for item, expected in zip(found, trace.counts[rows].sum(axis=0).tolist(), strict=True):
        assert item.value[-1] == expected
        assert (np.diff(item.value) >= 0).all()
        assert (np.diff(item.time) >= 0).all()


def test_a_csv_has_a_column_of_each_counter() -> None:
    rows = list(csv.DictReader(io.StringIO(export_trace(counted(), "csv").data.decode())))
    assert [row["count_cycles"] for row in rows[:3]] == ["100", "", "160"]
    assert [row["count_load_stall"] for row in rows[:3]] == ["20", "0", "21"]


def test_json_has_the_counts_of_each_event_and_the_width_of_each_counter() -> None:
    document = json.loads(export_trace(counted(), "json").data)
    assert document["header"]["counters"][1] == {"name": "load_stall", "bits": 8}
    assert [event["counts"] for event in document["events"][:2]] == [
        {"cycles": 100, "load_stall": 20},
        {"load_stall": 0},
    ]


def test_kineto_has_arguments_and_counter_events() -> None:
    events = json.loads(export_trace(counted(), "kineto").data)["traceEvents"]
    relu = next(event for event in events if event["name"].startswith("relu"))
    assert relu["args"]["count_load_stall"] == 0
    assert "count_cycles" not in relu["args"]
    cycles = [event["args"] for event in events if event["ph"] == "C" and event["name"] == "cycles"]
    assert cycles == [{"count": value} for value in (0, 100, 100, 200)]


def test_perfetto_has_a_counter_track_without_the_unit_of_bytes() -> None:
    pytest.importorskip("google.protobuf")
    from harness.extensions.exports.perfetto import MESSAGES, messages

    found: Any = messages("test_counters", MESSAGES)["Trace"]()
    found.ParseFromString(export_trace(counted(), "perfetto").data)
    tracks = {
        packet.track_descriptor.name: packet.track_descriptor
        for packet in found.packet
        if packet.track_descriptor.HasField("counter")
    }
    assert {name: track.counter.unit for name, track in tracks.items()} == {
        "cycles": 2,
        "load_stall": 2,
    }
    values = [
        packet.track_event.counter_value
        for packet in found.packet
        if packet.track_event.track_uuid == tracks["cycles"].uuid
    ]
    assert values == [0, 100, 100, 200]


def test_without_counters_there_is_no_trace_of_them() -> None:
    plain = trace_of(RunSpec([EventSpec("conv", 10, 20)]))
    for name in ("csv", "json", "kineto"):
        text = export_trace(plain, name).data.decode()
        assert not [word for word in ("counters", "counts", "count_") if word in text]
