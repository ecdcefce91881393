"""Times of operators as benchmarks for other tools, with one series per operator."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    OPERATOR_CALL,
    ClockDomain,
    Trace,
    UsageError,
    export_trace,
    operator_statistics,
    read_ed00,
    read_log,
)
from harness.strategies import device_logs, traces
from tests.conftest import FIXTURES
from tests.support.examples import examples
from tests.support.exports import CPU, NPU, delegated_trace
from tests.support.logs import CompactLog

RECORDED = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
any_trace = st.one_of(
    traces(counters=2),
    device_logs().map(lambda log: read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)])),
)


def attempt(trace: Trace) -> str | None:
    """Export; None if no event has a known duration."""
    try:
        return export_trace(trace, "google-benchmark").data.decode()
    except UsageError:
        return None


def benchmarks(text: str) -> list[dict[str, Any]]:
    """Return the entries, with what github-action-benchmark and Bencher read of them."""
    document = json.loads(text)
    assert document["context"]["caches"] == []
    for entry in document["benchmarks"]:
        assert entry["name"]
        assert entry["time_unit"] == "ns"
        assert entry["threads"] == 1
        for number in (entry["real_time"], entry["cpu_time"], entry["iterations"]):
            assert 0 <= number < math.inf
    found: list[dict[str, Any]] = document["benchmarks"]
    return found


@given(any_trace)
@settings(max_examples=examples(25))
def test_every_operator_is_one_benchmark(trace: Trace) -> None:
    text = attempt(trace)
    if text is None:
        return
    timed = [
        item.ns.p50
        for item in operator_statistics(trace)
        if item.ns is not None and item.name != OPERATOR_CALL
    ]
    entries = benchmarks(text)
    assert [entry["real_time"] for entry in entries] == timed
    assert len({entry["name"] for entry in entries}) == len(entries)


def test_a_benchmark_is_called_by_block_operator_and_instruction() -> None:
    named = {entry["name"]: entry for entry in benchmarks(attempt(RECORDED) or "")}
    assert {"Execute/Method::execute", "Execute/softmax #30"} <= named.keys()
    assert named["Execute/Method::execute"]["iterations"] == 3
    assert named["Execute/Method::execute"]["run_type"] == "iteration"


def hostile() -> Trace:
    """Names that meet when they are shortened, and those that would end a label or a line."""
    log = CompactLog().block('quo"te\n')
    names = ["native_call_a.out", "native_call_a.x", "a #0", "a #0 (2)", 'x"} 1\n# EOF', "\\", ""]
    for number, name in enumerate(names):
        log.profile(name, 10 * number, 10 * number + 5, instruction=0)
    return read_log(log.image(), [CPU])


def test_names_that_meet_are_numbered() -> None:
    entries = benchmarks(attempt(hostile()) or "")
    assert len({entry["name"] for entry in entries}) == len(entries) == 7


def test_without_a_rate_there_are_no_times() -> None:
    trace = read_log(CompactLog().block("Execute").profile("a", 1, 2).image())
    with pytest.raises(UsageError, match="no event has a duration in nanoseconds") as caught:
        export_trace(trace, "google-benchmark")
    assert caught.value.hint == "give the rate with --clock-hz"
    exported = export_trace(delegated_trace(), "google-benchmark")
    assert any("scopes around operators" in note for note in exported.notes)


def test_operators_on_a_clock_of_unknown_rate_are_counted() -> None:
    log = CompactLog().block("Execute").profile("a", 1, 2)
    log.delegate("b", -1).profile(None, 5, 9, clock=1)
    trace = read_log(log.image(), [CPU, ClockDomain("npu", None, NPU.bits)])
    assert "1 operators of unknown duration" in export_trace(trace, "google-benchmark").notes
