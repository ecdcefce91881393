"""Tables, JSON and Parquet: whatever a trace holds is in them, and comes back."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import FormatError, Trace, export_trace, read_json, read_log
from harness.extensions.exports.parquet import read_parquet
from harness.strategies import EventSpec, RunSpec, device_logs, trace_of, traces
from tests.property.test_etdump_roundtrip import full_log, full_trace
from tests.support.documents import document
from tests.support.examples import examples

any_trace = st.one_of(traces(counters=3), device_logs().map(lambda log: read_log(log.image())))
FULL = [full_trace(), read_log(full_log().image())]


COLUMNS = (
    *("block", "block_name", "bundled_input_index", "tracer", "record", "kind", "name"),
    *("chain", "instruction", "delegate_int", "delegate_str", "clock", "clock_name"),
    *("start", "end", "ticks", "ns", "metadata", "allocator", "allocator_name", "size"),
    *("offset", "failed", "value", "level"),
)
"""What every table has of an event, before the counts of hardware counters."""


def named(*names: str) -> Trace:
    """A trace with an event of each of these names."""
    return trace_of(RunSpec([EventSpec(name, 0, 1) for name in names]))


def escaped(trace: Trace) -> list[str]:
    """The names of the events as they are in tables."""
    return [event["name"] for event in json.loads(export_trace(trace, "json").data)["events"]]


@given(st.one_of(st.binary(min_size=1), st.text(min_size=1).map(str.encode)))
def test_every_name_is_text_and_comes_back(raw: bytes) -> None:
    trace = named(raw.decode("utf-8", "surrogateescape"))
    [text] = escaped(trace)
    assert text.encode().decode() == text
    assert not set(text) & {"\n", "\t", "\r", "\0"}
    assert read_json(export_trace(trace, "json").data) == trace


@pytest.mark.attack(
    "Texts", "names that look like escaped ones", "unchanged after an export and an import"
)
def test_a_name_that_looks_escaped_is_not_mistaken_for_another() -> None:
    names = [r"\xff", b"\xff".decode("utf-8", "surrogateescape"), r"\\xff", "\\", r"\\"]
    assert len(set(escaped(named(*names)))) == len(names)
    assert escaped(named("aten::add.out é")) == ["aten::add.out é"]


@given(any_trace)
@settings(max_examples=examples(40))
def test_json_is_the_whole_trace(trace: Trace) -> None:
    data = export_trace(trace, "json").data
    document("events", data.decode())
    assert read_json(data) == trace


@pytest.mark.parametrize("trace", FULL)
def test_parquet_is_the_whole_trace(trace: Trace) -> None:
    pytest.importorskip("pyarrow")
    assert read_parquet(export_trace(trace, "parquet").data) == trace


@given(any_trace)
@settings(max_examples=15)
def test_any_trace_survives_parquet(trace: Trace) -> None:
    pytest.importorskip("pyarrow")
    assert read_parquet(export_trace(trace, "parquet").data) == trace


@given(any_trace, st.sampled_from([("csv", ","), ("tsv", "\t")]))
@settings(max_examples=examples(40))
def test_a_delimited_table_has_every_cell(trace: Trace, format_: tuple[str, str]) -> None:
    name, delimiter = format_
    text = export_trace(trace, name).data.decode()
    assert text.count("\n") == len(trace) + 1  # no name breaks a line
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    whole = json.loads(export_trace(trace, "json").data)
    counters, documents = (
        [item["name"] for item in whole["header"].get("counters", [])],
        whole["events"],
    )
    assert len(counters) == len(trace.counters)
    counts = tuple(f"count_{name}" for name in counters)
    assert tuple(rows[0][: len(COLUMNS) + len(counts)]) == COLUMNS + counts
    assert len(rows) - 1 == len(documents) == len(trace)
    for cells, event in zip(rows[1:], documents, strict=True):
        recorded = event.get("counts", {})
        for column, counter in enumerate(counters, start=len(COLUMNS)):
            assert cells[column] == str(recorded.get(counter, ""))
        for column, cell in zip(COLUMNS, cells, strict=False):
            expected = event[column]
            if column == "metadata" and expected is not None:
                expected = f"hex:{expected}"
            if isinstance(expected, str):  # an apostrophe marks what a spreadsheet would execute
                cell = cell.removeprefix("'") if cell.startswith("'") else cell
            if column == "value" and expected is not None:
                assert json.loads(cell) == expected
            elif isinstance(expected, bool):
                assert cell == str(expected).lower()
            else:
                assert cell == ("" if expected is None else str(expected))


@pytest.mark.attack("Files", "any damage of a trace in JSON", "a trace, or exit code 2")
def test_no_damage_to_json_leads_to_anything_but_a_trace_or_a_format_error() -> None:
    data = export_trace(full_trace(), "json").data
    refused = 0
    for place in range(0, len(data), 9):
        damaged = data[:place] + b"7" + data[place + 1 :]
        try:
            read_json(damaged)
        except FormatError:
            refused += 1
    assert refused > len(data) // 90
    with pytest.raises(FormatError):
        read_json(data[:-5])


def test_other_parquet_files_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(FormatError, match="not a Parquet file"):
        read_parquet(export_trace(full_trace(), "parquet").data[:-5])
    table = pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
    for other, what in (
        (pa.table({"x": [1]}), "lacks"),
        (table, "lacks the header"),
        (table.replace_schema_metadata({b"etdump_harness.header": b"{}"}), "not a trace"),
    ):
        out = io.BytesIO()
        pytest.importorskip("pyarrow.parquet").write_table(other, out)
        with pytest.raises(FormatError, match=what):
            read_parquet(out.getvalue())
