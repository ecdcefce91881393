"""Hardware counters in reports: cycles per instruction, stalls as a share, and nothing without."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from rich.console import Console

from harness import (
    EXECUTION,
    NO_COUNT,
    EmptyEvents,
    FormatError,
    HardwareCounter,
    Kind,
    TargetRecord,
    Trace,
    TraceSummary,
    render_report,
)
from harness.report.description import describe
from harness.report.run import print_run
from harness.report.traces import print_tree, trace_document
from harness.strategies import traces
from tests.support.documents import document
from tests.support.pages import Page
from tests.support.reported import FINISHED, SMALL, held, reported
from tests.support.traces import EventSpec, RunSpec, trace_of

NAMES = ("cycles", "instret", "load_stall")


def counted(name: str = "conv", *, missing: bool = False) -> Trace:
    """Two executions of two kernels, on a core that waits for its memory."""
    relu = (NO_COUNT,) * 3 if missing else (120, 100, 6)
    runs = [
        RunSpec(
            [
                EventSpec(name, 0, 400, instruction=0, counts=(400, 200, extra)),
                EventSpec("relu", 400, 520, instruction=1, counts=relu),
                EventSpec(EXECUTION, 0, 560, chain=-1, counts=(560, 320, 120)),
            ]
        )
        for extra in (100, 108)
    ]
    return trace_of(*runs, counters=[HardwareCounter(counter) for counter in NAMES])


def printed(trace: Trace) -> str:
    out = io.StringIO()
    print_run(Console(file=out, width=200), describe(reported(held(), trace=trace)))
    return out.getvalue()


def test_a_table_has_the_median_counts_and_what_they_say_together() -> None:
    table = describe(reported(held(), trace=counted())).counters
    assert table is not None
    assert table.headers == (*NAMES, "cycles/instr", "load_stall [%]")
    conv, relu = ([cell.text for cell in cells] for _, cells in table.operators)
    assert conv == ["400", "200", "104", "2.00", "26.0"]
    assert relu == ["120", "100", "6", "1.20", "5.0"]
    assert [cell.heat for cell in table.operators[0][1]] == [4, 4, 4, 4, 4]
    assert [cell.heat for cell in table.operators[1][1]] == [1, 2, 0, 2, 1]
    assert [row.name for row, _ in table.scopes] == [EXECUTION]


def test_a_missing_count_is_unknown_and_told() -> None:
    table = describe(reported(held(), trace=counted(missing=True))).counters
    assert table is not None
    assert [row.name for row, _ in table.operators] == ["conv"]
    assert table.notes[0] == "cycles: 2 events without a count, left out of all numbers"


def test_the_cost_of_reading_the_counters_is_told() -> None:
    counters = (HardwareCounter("cycles", 32, 545, 2000), HardwareCounter("load_stall", 32, 0, 0))
    summary = TraceSummary(*(1, 1, 1, "", *[0] * 14), counters=counters)
    run = reported(held(), trace=counted(), result=replace(FINISHED, trace=summary))
    table = describe(run).counters
    assert table is not None
    assert table.notes == (
        "every count contains what an empty event counts: 545 cycles",
        "each event adds to the event around it: 2,000 cycles",
    )


def test_the_cost_of_an_event_that_reads_the_counters_is_told() -> None:
    trace = dataclasses.replace(counted(), empty_events=(EmptyEvents(9, 180), EmptyEvents(9, 184)))
    table = describe(reported(held(), trace=trace)).counters
    assert table is not None
    assert table.notes == ("with these counters, an empty event costs 20.4 ticks",)
    target = TargetRecord(*("board", "cpu", "id", 1, 256, (), 0, 0, 0, 0, 0, 35, 8, 1))
    summary = TraceSummary(*(1, 1, 1, "", *[0] * 14), probe_ticks=184, probe_pairs=9)
    run = reported(held(), result=replace(FINISHED, target=target, trace=summary))
    [clock] = [fact for fact in describe(run).facts if fact.label == "clock"]
    assert clock.text.endswith("an empty event costs 4.4 ticks, 20.4 with the counters")


def test_counts_left_out_of_the_ed00_copy_are_among_the_losses() -> None:
    summary = TraceSummary(*(1, 1, 1, "", *[0] * 14), etdp_left_out_counts=7)
    run = reported(held(), trace=counted(), result=replace(FINISHED, trace=summary))
    losses = {loss.what: loss for loss in describe(run).losses}
    loss = losses["counts of hardware counters left out of the ED00 copy"]
    assert (loss.count, loss.unit, loss.kind) == (7, "events", "harmless")
    assert (
        "counts of hardware counters left out of the ED00 copy"
        in render_report("report.md", [run]).decode()
    )


def test_the_terminal_and_markdown_show_the_same_numbers() -> None:
    run = reported(held(), trace=counted())
    text = printed(counted())
    assert "Hardware counters (median)" in text
    after = text.partition("Hardware counters (median)")[2]
    line = next(line for line in after.splitlines() if line.startswith("conv"))
    assert line.split() == ["conv", "0", "400", "200", "104", "2.00", "26.0"]
    assert (
        "| conv | 0 | 400 | 200 | 104 | 2.00 | 26.0 |" in render_report("report.md", [run]).decode()
    )


def test_the_page_has_a_section_with_heat_and_its_style() -> None:
    page = render_report("report.html", [reported(held(), trace=counted())])
    found = Page(page)
    found.assert_sound()
    section = found.section("-counters")
    assert "cycles/instr" in section
    assert "560 cycles (40 by itself), 320 instret (20 by itself)" in found.section("-tree")
    assert "26.0" in section
    assert any(cell.get("class") == "n heat4" for cell in found.all("td"))
    assert ".heat4 {" in page.decode()


@pytest.mark.attack(
    "Texts", "markup and newlines in counter names of a device", "every report shows them as text"
)
def test_names_of_a_device_cannot_break_a_report() -> None:
    trace = trace_of(
        RunSpec([EventSpec("conv", 0, 9, counts=(7,))]),
        counters=[HardwareCounter("\x1b[31m<b>\udcff_stall")],
    )
    run = reported(held(), trace=trace)
    Page(render_report("report.html", [run])).assert_sound()
    assert "\x1b" not in printed(trace)
    assert (
        "\\x1b[31m<b>\\xff_stall"
        in json.loads(render_report("report.json", [run]))["runs"][0]["operators"][0]["counters"]
    )


def test_json_has_the_statistics_of_each_counter(tmp_path: Path) -> None:
    data = render_report("report.json", [reported(held(), trace=counted())])
    report = document("report", data.decode())
    conv = report["runs"][0]["operators"][0]
    assert conv["counters"]["load_stall"]["p50"] == 104
    assert conv["counters"]["cycles"]["count"] == 2


def test_the_tree_has_totals_and_own_parts() -> None:
    out = io.StringIO()
    print_tree(Console(file=out, width=200), counted())
    (root,) = (line for line in out.getvalue().splitlines() if line.startswith(EXECUTION))
    assert root.split()[-6:] == ["1,120", "80", "640", "40", "240", "20"]


@given(traces(counters=3, kinds=(Kind.PROFILE,), max_blocks=2))
@settings(max_examples=10)
def test_any_counts_of_any_counter_can_be_reported(trace: Trace) -> None:
    run = reported(held(), trace=trace)
    printed(trace)
    render_report("report.md", [run])
    Page(render_report("report.html", [run])).assert_sound()
    assert json.loads(render_report("report.json", [run]))["runs"]
    try:
        document = json.loads(trace_document(trace, tree=True))
    except FormatError:  # no call tree: its events span more than 2**62 ticks
        return
    counted = any(op["counters"] for op in document["operators"] if "counters" in op)
    assert counted == bool((trace.counts != NO_COUNT).any())


def test_a_run_without_counters_has_none_of_it() -> None:
    run = reported(held(), trace=SMALL)
    assert describe(run).counters is None
    page = render_report("report.html", [run]).decode()
    assert "counters" not in page
    assert "heat" not in page
    assert "ounters" not in render_report("report.md", [run]).decode()
    assert "ounters" not in printed(SMALL)
    assert "counters" not in render_report("report.json", [run]).decode()
