"""The call tree as people and programs get it."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console

from harness import ClockDomain, Subject, Trace, merged_tree, read_log
from harness.report.traces import print_tree
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.logs import CompactLog, profile_trace

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)
NPU = ClockDomain("npu", None, 32)


def log(*, tick: int = 1) -> CompactLog:
    """Loading, and two runs of a kernel and a delegate whose job has two equal layers."""
    written = CompactLog().block("Default").profile("Method::init", 0, 5 // tick, chain=-1)
    for begin in (100, 200):
        at = [(begin + offset) // tick for offset in (0, 10, 12, 18, 20, 30, 60, 90)]
        written.block("Execute").allocator("heap")
        written.profile("native_call_add", at[2], at[3]).profile("OPERATOR_CALL", at[1], at[4])
        for start in (7000, 7010):
            written.delegate("layer").profile(None, start, start + 10, instruction=1, clock=1)
        written.delegate("job").profile(None, 7000, 7025, instruction=1, clock=1)
        written.profile("DELEGATE_CALL", at[5], at[6], instruction=1)
        written.profile("Method::execute", at[0], at[7], chain=-1)
    return written


def trace(*, tick: int = 1) -> Trace:
    return read_log(log(tick=tick).image(), [CPU, NPU])


def printed(subject: Trace, *, detailed: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_tree(console, subject, detailed=detailed)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_repeats_under_the_same_ancestors_are_one_node() -> None:
    nodes = merged_tree(Subject(trace()).tree)
    assert [(n.block, n.depth, n.name or n.delegate_str, n.count) for n in nodes] == [
        ("Default", 0, "Method::init", 1),
        ("Execute", 0, "Method::execute", 2),
        ("Execute", 1, "OPERATOR_CALL", 2),
        ("Execute", 2, "native_call_add", 2),
        ("Execute", 1, "DELEGATE_CALL", 2),
        ("Execute", 2, "job", 2),
        ("Execute", 3, "layer", 4),
    ]
    assert [node.parent for node in nodes] == [-1, -1, 1, 2, 1, 4, 5]
    assert [node.total_ticks for node in nodes] == [5, 180, 20, 12, 60, 50, 40]
    assert [node.own_ticks for node in nodes] == [5, 100, 8, 12, 60, 10, 40]
    assert nodes[1].total_ns == 180e3
    assert nodes[5].total_ns is None


def test_the_tree_is_printed_in_the_order_in_which_things_happened() -> None:
    lines = printed(trace()).splitlines()
    begin = lines.index("Call tree of Execute")
    assert "self [us]" in lines[begin + 1]
    rows = [line.split() for line in lines[begin + 2 : begin + 7]]
    # The scope around the kernel took 8 us itself, which are of the execution then.
    assert rows[0] == ["Method::execute", "180", "108", "100.0", "2"]
    assert lines[begin + 3].startswith("  add #0 ")
    assert rows[2] == ["DELEGATE_CALL", "#1", "60.0", "60.0", "33.3", "2"]
    assert rows[3] == ["[job]", "#1", "50", "ticks", "10", "ticks", "?", "2"]
    assert lines[begin + 6].startswith("      [layer]")
    assert "OPERATOR_CALL" in printed(trace(), detailed=True)
    assert lines[-1] == "losses: none; the log is complete"


def test_what_is_ambiguous_is_counted_and_listed_on_request() -> None:
    subject = trace(tick=1000)
    assert "ambiguous: 4 events may belong elsewhere; -v lists them" in printed(subject)
    text = printed(subject, detailed=True)
    assert "-v lists them" not in text
    listed = [line.split() for line in text.splitlines() if "(row" in line]
    assert listed[0] == ["2", "OPERATOR_CALL", "0", "Method::execute", "(row", "7)"]


def test_the_command_prints_the_tree_as_text_and_json(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    path = tmp_path / "trace.etlog"
    path.write_bytes(log().image())
    assert "Call tree of Execute" in etharness("decode", path, "--tree").out
    found = document("decode", etharness("decode", path, "--tree", "--json").out)
    assert [node["depth"] for node in found["tree"]] == [0, 0, 1, 2, 1, 2, 3]
    assert document("decode", etharness("decode", path, "--json").out)["tree"] is None


def test_a_trace_without_events_has_no_tree() -> None:
    assert merged_tree(Subject(Trace.unset(0)).tree) == []
    assert printed(Trace.unset(0)) == "losses: none; the log is complete\n"


@pytest.mark.parametrize("detailed", [False, True])
def test_events_without_names_are_shown(detailed: bool) -> None:
    written = CompactLog().block("Execute").delegate(None, 7).profile(None, 1, 2, chain=-1, clock=1)
    written.profile(None, 10, 20, chain=-1)
    text = printed(read_log(written.image(), [CPU, NPU]), detailed=detailed)
    assert "(no name)" in text
    assert "[7]" in text
    assert ("delegate event 7" in text) is detailed


def test_events_that_end_before_they_start_are_counted() -> None:
    subject = profile_trace([12, 15, 10], [22, 14, 30], CPU, ["a", "b", "c"])
    assert "backward: 1 events end before they start" in printed(subject)


def test_a_very_deep_tree_takes_no_more_room_than_a_flat_one() -> None:
    depth = 3000
    starts, ends = list(reversed(range(depth))), list(range(depth, 2 * depth))
    subject = profile_trace(starts, ends, CPU, ["a"] * depth)
    assert [node.depth for node in merged_tree(Subject(subject).tree)] == list(range(depth))
    lines = printed(subject).splitlines()
    assert max(map(len, lines)) < 200
    assert any(line.strip().startswith("(2999) a") for line in lines)


def test_allocations_that_are_ambiguous_are_listed_as_such() -> None:
    written = CompactLog().block("Execute").allocator("heap").allocation(1, 8, tick=10)
    written.profile("a", 10, 20, chain=-1)
    lines = printed(read_log(written.image(), [CPU]), detailed=True).splitlines()
    row = next(line.split() for line in lines if "allocation" in line)
    assert row == ["0", "allocation", "10", "a", "(row", "1)"]
