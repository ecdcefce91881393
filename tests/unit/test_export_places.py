"""Tables say where each event is on the common timeline, and in which module of the model."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings

from harness import (
    ClockDomain,
    EtrecordNode,
    EventSymbols,
    Module,
    Trace,
    UsageError,
    draw,
    export_trace,
    read_log,
)
from harness.strategies import traces
from tests.support.examples import examples
from tests.support.exports import delegated_trace
from tests.support.logs import CompactLog


def starts_of(trace: Trace) -> list[str]:
    text = export_trace(trace, "csv").data.decode()
    return [row["start_ns"] for row in csv.DictReader(io.StringIO(text, newline=""))]


def test_starts_go_on_where_counters_wrap_and_delegates_begin() -> None:
    trace = delegated_trace()
    drawing = draw(trace)
    found = starts_of(trace)
    assert [found[row] for row in drawing.row.tolist()] == [str(ns) for ns in drawing.start]
    [blocks] = [np.flatnonzero(trace.name == number) for number in names(trace, "Method::execute")]
    executed = [int(found[row]) for row in blocks.tolist()]
    assert np.diff(executed).tolist() == [2500 * 1000 // 80] * 2, "ticks of 80 MHz"


def names(trace: Trace, name: str) -> list[int]:
    return [number for number, text in enumerate(trace.names) if text == name]


@given(traces())
@settings(max_examples=examples(25))
def test_every_start_is_that_of_the_drawing_or_absent(trace: Trace) -> None:
    assume(len(trace))
    found = starts_of(trace)
    notes = [note for note in export_trace(trace, "csv").notes if note.startswith("no start_ns")]
    if notes:
        assert found == [""] * len(trace)
        with pytest.raises(UsageError) as caught:
            draw(trace)
        assert notes == [f"no start_ns: {caught.value}"]
        return
    drawing = draw(trace)
    assert [int(found[row]) for row in drawing.row.tolist()] == drawing.start.tolist()


def test_without_a_rate_there_is_no_start_and_a_note() -> None:
    clock = ClockDomain("cpu", None, 32)
    trace = read_log(CompactLog().block("Execute").profile("a", 1, 2).image(), [clock])
    assert starts_of(trace) == [""]
    [note] = export_trace(trace, "csv").notes
    assert note.startswith("no start_ns: clock 'cpu': the rate is unknown")


def symbols() -> list[EventSymbols | None]:
    model = Module("L__self__", "", "Net")
    layer = Module("L__self___layers_0", "layers.0", "torch.nn.modules.linear.Linear")
    node = EtrecordNode("linear", "aten.linear.default", 5, None, (model, layer))
    top = EtrecordNode("relu", "aten.relu.default", 6, None, (model,))
    return [EventSymbols(5, (node,)), EventSymbols((5, 6), (node, top)), None]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_modules_of_an_etrecord_are_columns(name: str) -> None:
    log = CompactLog().block("Execute")
    for number in range(3):
        log.profile(f"op{number}", number, number + 1, instruction=number)
    trace = read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)])
    given_ = symbols()
    data = export_trace(trace, name, symbols=given_).data
    if name == "csv":
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        paths = [(row["module"], row["module_type"]) for row in rows]
        unknown = ""
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(io.BytesIO(data)).to_pydict()
        paths = list(zip(table["module"], table["module_type"], strict=True))
        unknown = None
    linear = "torch.nn.modules.linear.Linear"
    assert paths == [("layers.0", linear), (unknown, "Net"), (unknown, unknown)]
    assert b"module_type" not in export_trace(trace, "csv").data
