"""Statistics for other tools: benchmarks and metrics, with one series per operator."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    OPERATOR_CALL,
    ClockDomain,
    RunIdentity,
    Trace,
    UsageError,
    durations,
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


def attempt(trace: Trace, name: str, flavour: str | None = None) -> str | None:
    """Export; None if no event has a known duration."""
    try:
        return export_trace(trace, name, flavour).data.decode()
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
    text = attempt(trace, "google-benchmark")
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
    named = {
        entry["name"]: entry for entry in benchmarks(attempt(RECORDED, "google-benchmark") or "")
    }
    assert {"Execute/Method::execute", "Execute/softmax #30"} <= named.keys()
    assert named["Execute/Method::execute"]["iterations"] == 3
    assert named["Execute/Method::execute"]["run_type"] == "iteration"


def test_aggregates_are_mean_median_and_standard_deviation() -> None:
    entries = benchmarks(attempt(RECORDED, "google-benchmark", "aggregates") or "")
    operators = [item for item in operator_statistics(RECORDED) if item.name != OPERATOR_CALL]
    assert len(entries) == 3 * len(operators)
    for number, item in enumerate(operators):
        assert item.ns is not None
        times = {e["aggregate_name"]: e["real_time"] for e in entries[3 * number : 3 * number + 3]}
        ns = durations(RECORDED)[item.rows]  # ticks of this file are nanoseconds
        deviation = float(np.std(ns, ddof=1)) if len(ns) > 1 else 0.0
        assert times["stddev"] == pytest.approx(deviation)
        assert (times["mean"], times["median"]) == (item.ns.avg, item.ns.p50)


SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')


def samples(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield name, labels and value of each sample by the grammar of OpenMetrics."""
    *lines, end, empty = text.split("\n")
    assert (end, empty) == ("# EOF", "")
    family = ""
    for line in lines:
        if line.startswith("# TYPE "):
            family = line.split(" ")[2]
        elif line.startswith("# "):
            assert line.split(" ")[2] == family
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1].startswith(family)
            yield match[1], match[2], float(match[3])


@given(any_trace)
@settings(max_examples=examples(25))
def test_every_line_of_the_metrics_is_a_sample_of_its_family(trace: Trace) -> None:
    text = attempt(trace, "openmetrics")
    if text is not None:
        found = [*samples(text)]
        assert len({(name, labels) for name, labels, _ in found}) == len(found)
        assert all(math.isfinite(value) for _, _, value in found)


def test_times_are_seconds_and_memory_is_bytes() -> None:
    found = {
        (name, labels): value
        for name, labels, value in samples(attempt(RECORDED, "openmetrics") or "")
    }
    [total] = [
        value
        for (name, labels), value in found.items()
        if name == "etdump_operator_duration_seconds_sum" and 'operator="Method::execute"' in labels
    ]
    [execute] = [item for item in operator_statistics(RECORDED) if item.name == "Method::execute"]
    assert execute.ns is not None
    assert total == execute.ns.total / 1e9
    trace = delegated_trace()
    peaks = {
        labels: value
        for name, labels, value in samples(attempt(trace, "openmetrics") or "")
        if name == "etdump_allocator_peak_bytes"
    }
    assert peaks == {
        'board="",model="",allocator="method"': 640,
        'board="",model="",allocator="temporary \\\\\\\\ 1"': 384,
    }


def test_the_run_is_named_and_its_series_by_board_and_model() -> None:
    identity = RunIdentity('a "board"', "m\n.pte", "f\\1", commit="c0ffee")
    text = export_trace(RECORDED, "openmetrics", identity=identity).data.decode()
    [info] = [labels for name, labels, _ in samples(text) if name == "etdump_run_info"]
    about = r'board="a \"board\"",model="m\\x0a.pte"'
    assert info == about + r',firmware="f\\\\1",commit="c0ffee"'
    assert all(labels.startswith(about) for _, labels, _ in samples(text))


def hostile() -> Trace:
    """Names that meet when they are shortened, and those that would end a label or a line."""
    log = CompactLog().block('quo"te\n')
    names = ["native_call_a.out", "native_call_a.x", "a #0", "a #0 (2)", 'x"} 1\n# EOF', "\\", ""]
    for number, name in enumerate(names):
        log.profile(name, 10 * number, 10 * number + 5, instruction=0)
    return read_log(log.image(), [CPU])


def test_names_that_meet_are_numbered() -> None:
    entries = benchmarks(attempt(hostile(), "google-benchmark") or "")
    assert len({entry["name"] for entry in entries}) == len(entries) == 7
    found = [*samples(attempt(hostile(), "openmetrics") or "")]
    assert len({(name, labels) for name, labels, _ in found}) == len(found)


@pytest.mark.parametrize("name", ["google-benchmark", "openmetrics"])
def test_without_a_rate_there_are_no_times(name: str) -> None:
    trace = read_log(CompactLog().block("Execute").profile("a", 1, 2).image())
    with pytest.raises(UsageError, match="no event has a duration in nanoseconds") as caught:
        export_trace(trace, name)
    assert caught.value.hint == "give the rate with --clock-hz"
    exported = export_trace(delegated_trace(), name)
    assert any("scopes around operators" in note for note in exported.notes)


@pytest.mark.parametrize("name", ["google-benchmark", "openmetrics"])
def test_operators_on_a_clock_of_unknown_rate_are_counted(name: str) -> None:
    log = CompactLog().block("Execute").profile("a", 1, 2)
    log.delegate("b", -1).profile(None, 5, 9, clock=1)
    trace = read_log(log.image(), [CPU, ClockDomain("npu", None, NPU.bits)])
    assert "1 operators of unknown duration" in export_trace(trace, name).notes
