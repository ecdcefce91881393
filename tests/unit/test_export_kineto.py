"""Kineto's JSON: exact times, flows and counters."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from harness import Trace, draw, export_trace, read_program
from tests.conftest import MODELS
from tests.support.exports import delegated_trace

Event = dict[str, Any]


def exact(text: str) -> int | Fraction:
    return Fraction(text)


def events(trace: Trace) -> Callable[..., list[Event]]:
    document = json.loads(export_trace(trace, "kineto").data, parse_float=exact)
    assert document["baseTimeNanoseconds"] == 0

    def chosen(**wanted: str) -> list[Event]:
        return [
            event
            for event in document["traceEvents"]
            if all(event.get(key) == value for key, value in wanted.items())
        ]

    return chosen


def test_every_slice_is_an_event_exact_to_the_nanosecond() -> None:
    trace = delegated_trace()
    drawing = draw(trace)
    slices = [event for event in events(trace)(ph="X") if "Ev Idx" in event["args"]]
    assert [event["name"] for event in slices] == [title.text for title in drawing.titles]
    assert [event["args"]["kind"] for event in slices] == [title.kind for title in drawing.titles]
    exact = [event["args"].get("name", event["name"]) for event in slices]
    assert exact.count("native_call_sigmoid.out") == 3
    assert [event["ts"] * 1000 for event in slices] == drawing.start.tolist()
    assert [event["dur"] * 1000 for event in slices] == (drawing.end - drawing.start).tolist()
    # Also as the doubles that JSON's usual readers make of them.
    assert [round(float(event["ts"]) * 1000) for event in slices] == drawing.start.tolist()
    assert [event["args"]["Ev Idx"] for event in slices] == drawing.row.tolist()


def test_threads_are_named_and_flows_lead_into_them() -> None:
    chosen = events(delegated_trace())
    names = {event["tid"]: event["args"]["name"] for event in chosen(name="thread_name")}
    assert names.pop(max(names)) == "executions"
    assert names == {1: "operators", 2: "operators in delegate #0", 3: "losses", 4: "losses"}
    starts, ends = chosen(ph="s"), chosen(ph="f")
    assert [flow["id"] for flow in starts] == [flow["id"] for flow in ends] == list(range(1, 7))
    assert {flow["tid"] for flow in starts} == {1}
    assert {flow["tid"] for flow in ends} == {2}
    jobs = [event["ts"] for event in chosen(ph="X") if event["tid"] == 2]
    assert [flow["ts"] for flow in ends] == jobs


def test_memory_and_losses_are_drawn() -> None:
    chosen = events(delegated_trace())
    temporary = [event["args"]["bytes"] for event in chosen(ph="C", name="temporary \\\\ 1")]
    assert temporary == [384, 0] * 3
    assert [event["name"] for event in chosen(cat="loss")] == [
        "2 runs lost",
        "3 events lost, somewhere here",
    ]


def test_with_the_model_operators_have_their_shapes() -> None:
    trace = delegated_trace()
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    document = json.loads(export_trace(trace, "kineto", method=method).data)
    shaped = [event for event in document["traceEvents"] if "Input Dims" in event.get("args", {})]
    assert {event["name"] for event in shaped} == {"SimulatedNpu #0", "sigmoid #1"}
    sigmoid = next(event["args"] for event in shaped if event["name"] == "sigmoid #1")
    assert sigmoid["operator"] == "aten::sigmoid.out"
    assert sigmoid["Input Dims"] == [[1, 48]]
    assert sigmoid["Input type"] == ["float"]
    assert sigmoid["inputs"] == sigmoid["outputs"] == "float32[1, 48]"
    delegate = next(event for event in document["traceEvents"] if event.get("tid") == 2)
    assert delegate["args"]["name"] == "operators in SimulatedNpu #0"
