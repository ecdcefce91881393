"""What ExecuTorch recorded is the same on any counter that is wide enough, wherever that wraps."""

from __future__ import annotations

import csv
import io
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import (
    Trace,
    draw,
    durations,
    export_trace,
    format_names,
    operator_statistics,
    read_ed00,
    unknown_durations,
    with_width,
)
from harness.analyze.ticks import suspected_widths
from harness.export.formats import find_format
from harness.report.traces import trace_document
from tests.support.examples import examples
from tests.support.exports import check_nesting
from tests.support.wrapping import narrowed, on_a_wide_counter

WIDE = on_a_wide_counter()
READINGS = sorted({*WIDE.start.tolist(), *WIDE.end.tolist()})

ALL = [
    (name, flavour)
    for name, format_ in ((name, find_format(name)) for name in format_names())
    if name != "netron"  # needs the model
    for flavour in format_.flavours or (None,)
]
RAW = ("start", "end", "start_ticks", "end_ticks", "clock_name", "clock", "bits")
"""What an export says of raw readings, and of the counter."""


@st.composite
def counters(draw_: st.DrawFn, widths: tuple[int, ...] = (*range(25, 49), 32)) -> tuple[int, int]:
    """A width that holds the longest silence of the recording, and ticks by which to shift it.

    Mostly so that the counter wraps at, or just before or behind, some reading of the recording.
    """
    bits = draw_(st.sampled_from(widths))
    near = st.sampled_from(READINGS).flatmap(
        lambda reading: st.integers(-2, 2).map(lambda step: (step - reading) % 2**bits)
    )
    return bits, draw_(near | st.integers(0, 2**bits - 1))


def without_readings(document: Any) -> Any:
    """A document without what is said of raw readings."""
    if isinstance(document, dict):
        return {k: without_readings(v) for k, v in document.items() if k not in RAW}
    if isinstance(document, list):
        return [without_readings(item) for item in document]
    return document


def spelt(trace: Trace, name: str, flavour: str | None) -> Any:
    """What an export says, but for raw readings."""
    data = export_trace(trace, name, flavour).data
    if name in ("csv", "tsv"):
        text = io.StringIO(data.decode())
        rows = csv.DictReader(text, delimiter="," if name == "csv" else "\t")
        return [without_readings(row) for row in rows]
    if name == "ed00":
        # What is for the Inspector needs no width: ends are starts and durations.
        bits = 64 if flavour == "inspector" else trace.clocks[0].bits
        return durations(with_width(read_ed00(data), bits)).tolist()
    if name == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        return without_readings(parquet.read_table(io.BytesIO(data)).to_pylist())
    if name == "perfetto":
        from harness.extensions.exports.perfetto import MESSAGES, messages

        packets = messages("wrapping", MESSAGES)["Trace"].FromString(data).packet
        return [
            (
                *(packet.timestamp, packet.track_event.type, packet.track_event.track_uuid),
                *(packet.track_event.name_iid, tuple(packet.track_event.flow_ids)),
            )
            for packet in packets
        ]
    if name in ("chakra", "folded"):
        return data
    return without_readings(json.loads(data))


@cache
def expected(name: str, flavour: str | None) -> Any:
    return spelt(WIDE, name, flavour)


@cache
def decoded() -> Any:
    return without_readings(json.loads(trace_document(WIDE, tree=True)))


@pytest.fixture(autouse=True)
def _protobuf() -> None:
    pytest.importorskip("google.protobuf")


@given(counters(), st.booleans())
@example((32, 0), True)
@settings(max_examples=examples(60))
def test_decode_and_every_export_are_those_of_a_wide_counter(
    counter: tuple[int, int], adding: bool
) -> None:
    bits, offset = counter
    trace = with_width(read_ed00(narrowed(WIDE, bits, offset, adding=adding)), bits)
    found = without_readings(json.loads(trace_document(trace, tree=True)))
    for clock in (*found["clocks"], *decoded()["clocks"]):
        clock.pop("jitter", None)
    assert found == decoded()
    assert suspected_widths(trace) == []
    for name, flavour in ALL:
        assert spelt(trace, name, flavour) == expected(name, flavour), (name, flavour)


@given(counters(), st.booleans())
@settings(max_examples=examples(60))
def test_without_its_width_nothing_is_negative_and_nothing_unknown_is_a_number(
    counter: tuple[int, int], adding: bool
) -> None:
    bits, offset = counter
    trace = read_ed00(narrowed(WIDE, bits, offset, adding=adding))
    drawing = draw(trace, wrappers=True)
    check_nesting(drawing)
    assert drawing.start.min() == 0
    assert (drawing.end >= drawing.start).all()
    assert (drawing.own >= 0).all()
    for name, flavour in ALL:
        assert_no_negative_time(export_trace(trace, name, flavour).data, name)
    unknown = unknown_durations(trace)
    assert (unknown == (trace.end < trace.start)).all()
    for operator in operator_statistics(trace):
        assert operator.unknown == np.count_nonzero(unknown[operator.rows])
        assert operator.ticks is None or operator.ticks.count + operator.unknown == len(
            operator.rows
        )
        # Nothing in the recording takes longer, though silences do.
        assert operator.ticks is None or operator.ticks.max <= 400_000
    json.loads(trace_document(trace, tree=True))


def assert_no_negative_time(data: bytes, name: str) -> None:
    if name == "kineto":
        events = json.loads(data)["traceEvents"]
        assert min(event["ts"] for event in events) == 0
        assert all(event.get("dur", 0) >= 0 for event in events)
    if name == "json":
        for event in json.loads(data)["events"]:
            assert (event["ticks"] is None) == (event["ns"] is None)
            assert event["ticks"] is None or event["end"] - event["start"] == event["ticks"]


@given(counters(widths=(32, 48)), st.booleans())
@settings(max_examples=examples(60))
def test_a_wrap_that_shows_is_suspected(counter: tuple[int, int], adding: bool) -> None:
    bits, offset = counter
    trace = read_ed00(narrowed(WIDE, bits, offset, adding=adding))
    own = ~trace.delegated
    wrapped = math.ceil((int(WIDE.start[own].min()) + offset + 1) / 2**bits) < math.ceil(
        (int(WIDE.end[own].max()) + offset + 1) / 2**bits
    )
    found = suspected_widths(trace)
    assert [(item.bits, item.delegates) for item in found] == [(bits, False)] * wrapped
