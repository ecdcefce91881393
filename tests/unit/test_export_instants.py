"""Marks, counters, tasks and interrupts in Perfetto's and Chrome's formats, and user scopes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import export_trace
from tests.support.exports import preempted_trace

SPANS = [
    ("interrupt 15", 220, 230),
    ("task inference", 300, 900),
    ("task logger", 210, 220),
    ("task logger", 230, 290),
]
"""Who had the core, in microseconds from the first event."""


def test_chrome_has_instants_counters_threads_and_user_scopes() -> None:
    events = json.loads(export_trace(preempted_trace(), "kineto").data)["traceEvents"]
    marks = [(event["name"], event["ts"]) for event in events if event["ph"] == "i"]
    assert marks == [("frame", 0)]
    counts = [
        (event["name"], event["ts"], event["args"]["value"])
        for event in events
        if event["ph"] == "C"
    ]
    assert counts == [("queue", 50, 3), ("queue", 750, -1), ("volts", 60, 1.25)]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [
        (event["name"], event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "context"
    ]
    assert sorted(spans) == SPANS
    assert all(
        names[event["tid"]] == event["name"] for event in events if event.get("cat") == "context"
    )
    kinds = {event["name"]: event["cat"] for event in events if event["ph"] == "X"}
    assert (kinds["filter"], kinds["a #0"]) == ("user_annotation", "cpu_op")


def test_perfetto_has_instants_counters_and_tracks() -> None:
    pytest.importorskip("google.protobuf")
    from harness.extensions.exports.perfetto import MESSAGES, messages

    found = messages("test.perfetto", MESSAGES)["Trace"]()
    found.ParseFromString(export_trace(preempted_trace(), "perfetto").data)
    tracks: dict[int, str] = {}
    texts: dict[int, str] = {}
    open_: dict[int, tuple[str, int]] = {}
    spans: list[tuple[str, int, int]] = []
    values: dict[str, list[float]] = {}
    for packet in found.packet:
        texts |= {item.iid: item.name for item in packet.interned_data.event_names}
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        if not packet.HasField("track_event"):
            continue
        event: Any = packet.track_event
        track = tracks[event.track_uuid]
        match event.type:
            case 1:
                open_[event.track_uuid] = texts[event.name_iid], packet.timestamp
            case 2 if track.startswith(("task", "interrupt")):
                name, start = open_[event.track_uuid]
                spans.append((name, start // 1000, packet.timestamp // 1000))
            case 3 if track == "marks":
                assert (texts[event.name_iid], packet.timestamp) == ("frame", 0)
            case 4:
                wide = event.HasField("double_counter_value")
                value = event.double_counter_value if wide else event.counter_value
                values.setdefault(track, []).append(value)
    assert sorted(spans) == SPANS
    assert values == {"queue": [3, -1], "volts": [1.25]}


@pytest.mark.parametrize("name", ["folded", "google-benchmark", "speedscope"])
def test_other_formats_have_the_events_alone(name: str) -> None:
    text = export_trace(preempted_trace(), name).data.decode()
    assert "native_call_a" in text or "a #0" in text
    assert "logger" not in text
