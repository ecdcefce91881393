"""Google Benchmark's JSON: the times of operators and executions as benchmarks.

Readers such as github-action-benchmark and Bencher take every entry for a time of its own. So the
default flavour has one entry per operator, its median; ``aggregates`` has mean, median and standard
deviation, as the library writes them for repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any, Final

import msgspec

from harness.analyze.statistics import Summary
from harness.export.timeline import process_name
from harness.export.values import escaped
from harness.extensions.exports.operator_times import NamedOperator, operator_times
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

MEDIAN: Final = "median"


def write_google_benchmark(
    trace: Trace, flavour: str = MEDIAN, identity: RunIdentity = NO_RUN
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Args:
        trace: The trace.
        flavour: ``median``, one entry per operator, or ``aggregates``, three per operator.
        identity: The run of the trace; it is in the context.

    Raises:
        UsageError: No operator has a known duration.
    """
    operators, notes = operator_times(trace)
    document = {
        "context": {
            "executable": process_name(identity),
            "library_build_type": "release",
            "json_schema_version": 1,
            "caches": [],  # Bencher refuses a context without
            **{name: escaped(text) for name, text in identity.texts().items() if text},
        },
        "benchmarks": [
            entry
            for family, item in enumerate(operators)
            for entry in _entries(item, family, flavour)
        ],
    }
    return msgspec.json.encode(document), (
        *notes,
        "cpu_time is real_time: the target has one clock",
        "without single repetitions, memory and hardware counters",
    )


def _entries(item: NamedOperator, family: int, flavour: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of an operator; equal names in two blocks differ by the block."""
    name = f"{escaped(item.operator.block)}/{item.title}"
    common = {
        "family_index": family,
        "per_family_instance_index": 0,
        "run_name": name,
        "threads": 1,
        "time_unit": "ns",
    }
    if flavour == MEDIAN:
        yield {
            "name": name,
            **common,
            "run_type": "iteration",
            "repetitions": 1,
            "repetition_index": 0,
            "iterations": item.ns.count,
            "real_time": item.ns.p50,
            "cpu_time": item.ns.p50,
        }
        return
    times = {"mean": item.ns.avg, "median": item.ns.p50, "stddev": _sample_deviation(item.ns)}
    for aggregate, time in times.items():
        yield {
            "name": f"{name}_{aggregate}",
            **common,
            "run_type": "aggregate",
            "repetitions": item.ns.count,
            "aggregate_name": aggregate,
            "aggregate_unit": "time",
            "iterations": item.ns.count,
            "real_time": time,
            "cpu_time": time,
        }


def _sample_deviation(summary: Summary) -> float:
    """Return the standard deviation of a sample, which the library computes; 0 for one repeat."""
    if summary.count < 2:
        return 0.0
    return summary.std * sqrt(summary.count / (summary.count - 1))
