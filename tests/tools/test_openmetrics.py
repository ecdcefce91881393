"""Prometheus' own parser of OpenMetrics reads our metrics, and their numbers are ours."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client", reason="needs the tools that read exports")

from hypothesis import given, settings
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from harness import (
    OPERATOR_CALL,
    RunIdentity,
    Subject,
    Trace,
    UsageError,
    export_trace,
    operator_statistics,
    read_ed00,
)
from harness.strategies import traces
from tests.conftest import FIXTURES
from tests.support.examples import examples
from tests.support.exports import delegated_trace

pytestmark = pytest.mark.tools

IDENTITY = RunIdentity('a "board"', "m\\\n.pte", commit="c0ffee", emulated_time=True)


def families(trace: Trace) -> dict[str, Metric]:
    text = export_trace(trace, "openmetrics", identity=IDENTITY).data.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("name", ["kws_f32_executorch.etdp", None])
def test_what_prometheus_reads_is_what_we_measured(name: str | None) -> None:
    trace = read_ed00((FIXTURES / name).read_bytes()) if name else delegated_trace()
    found = families(trace)
    assert found["etdump_run"].samples[0].labels == {
        "board": 'a "board"',
        "model": r"m\\\x0a.pte",
        "commit": "c0ffee",
        "time": "emulated",
    }
    durations = found["etdump_operator_duration_seconds"]
    assert (durations.type, durations.unit) == ("summary", "seconds")
    operators = [
        item.ns
        for item in operator_statistics(trace)
        if item.name != OPERATOR_CALL and item.ns is not None
    ]
    medians = [s.value for s in durations.samples if s.labels.get("quantile") == "0.5"]
    counts = [s.value for s in durations.samples if s.name.endswith("_count")]
    assert medians == [summary.p50 / 1e9 for summary in operators]
    assert counts == [summary.count for summary in operators]
    totals = Subject(trace).allocators
    assert bool(totals) == ("etdump_allocator_peak_bytes" in found)
    if totals:
        peaks = found["etdump_allocator_peak_bytes"].samples
        assert [sample.value for sample in peaks] == [item.peak_bytes for item in totals]


@given(traces(counters=2))
@settings(max_examples=examples(30), deadline=None)
def test_prometheus_reads_the_metrics_of_any_trace(trace: Trace) -> None:
    try:
        found = families(trace)
    except UsageError:
        return
    assert found["etdump_lost"].samples
