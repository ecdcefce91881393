"""The times of operators by name: Google Benchmark's JSON and OpenMetrics text.

Both formats hold one series per name, so operators get unique names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from math import sqrt
from typing import Any, Final, Literal

import msgspec

from harness.analyze.memory import allocator_totals
from harness.analyze.statistics import Operator, Summary, operator_statistics
from harness.errors import UsageError
from harness.export.formats import Exported, ExportFormat, Request
from harness.export.timeline import process_name
from harness.export.values import escaped
from harness.formatting import short_operator_name
from harness.records.trace import OPERATOR_CALL, Trace

MEDIAN: Final = "median"
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""Suffix of the metric's name, labels and value."""

_SECOND: Final = 1e9
_QUANTILES: Final = {"0.0": "min", "0.1": "p10", "0.5": "p50", "0.9": "p90", "1.0": "max"}

NamedOperator = tuple[str, Operator, Summary]
"""Short name with the instruction, such as ``conv2d #5``, unique in its block; the operator, or a
scope such as ``Method::execute``; its durations in nanoseconds."""


def operator_times(trace: Trace) -> tuple[list[NamedOperator], tuple[str, ...]]:
    """Return the operators with a known duration, and a line for each kind of events without.

    The scopes around operators (``OPERATOR_CALL``) are left out: they would list every operator
    twice.

    Raises:
        UsageError: No operator has a known duration.
    """
    everything = operator_statistics(trace)
    operators = [item for item in everything if item.name != OPERATOR_CALL]
    known = [(item, item.ns) for item in operators if item.ns is not None]
    if operators and not known:
        raise UsageError(
            "no event has a duration in nanoseconds: the rate of its clock is unknown",
            hint="give the rate with --clock-hz",
        )
    names = unique_titles((item.block, _title(item)) for item, _ in known)
    found = [(name, item, ns) for name, (item, ns) in zip(names, known, strict=True)]
    left_out = {
        "scopes around operators": len(everything) - len(operators),
        "operators of unknown duration": len(operators) - len(known),
        "events of unknown duration": sum(item.unknown for item, _ in known),
    }
    return found, tuple(f"{count} {what}" for what, count in left_out.items() if count)


def _title(item: Operator) -> str:
    """Return the short name of an operator, and where it is: instruction, chain, delegate."""
    name = escaped(short_operator_name(item.name))
    if item.delegate_str is not None:
        name = f"{name} [{escaped(item.delegate_str)}]".strip()
    elif item.delegate_int != -1:
        name = f"{name} [{item.delegate_int}]".strip()
    if item.chain == -1:
        return name or "unnamed"
    place = f"#{item.instruction}" + (f" of chain {item.chain}" if item.chain else "")
    return f"{name or 'unnamed'} {place}"


def unique_titles(keys: Iterable[tuple[str, str]]) -> list[str]:
    """Return titles by block and title; equal ones of a block are numbered from the second on."""
    given = [*keys]
    taken, seen = {*given}, set[tuple[str, str]]()
    titles = []
    for key in given:
        block, title = key
        number, found = 2, key
        while key in seen and found in taken:
            found = (block, f"{title} ({number})")
            number += 1
        seen.add(key)
        taken.add(found)
        titles.append(found[1])
    return titles


def write_google_benchmark(trace: Trace, request: Request) -> Exported:
    """Return Google Benchmark's JSON, with notes on data of the trace that it lacks.

    Readers such as github-action-benchmark and Bencher take every entry for a time of its own. So
    the default flavour has one entry per operator, its median; ``aggregates`` has mean, median and
    standard deviation, as the library writes them for repetitions.

    Raises:
        UsageError: No operator has a known duration.
    """
    operators, notes = operator_times(trace)
    document = {
        "context": {
            "executable": process_name(request.identity),
            "library_build_type": "release",
            "json_schema_version": 1,
            "caches": [],  # Bencher refuses a context without
            **{name: escaped(text) for name, text in request.identity.texts().items() if text},
        },
        "benchmarks": [
            entry
            for family, operator in enumerate(operators)
            for entry in _entries(operator, family, request.flavour)
        ],
    }
    lacking = (
        "cpu_time is real_time: the target has one clock",
        "without single repetitions, memory and hardware counters",
    )
    return Exported(msgspec.json.encode(document), (*notes, *lacking))


def _entries(named: NamedOperator, family: int, flavour: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of an operator; equal names in two blocks differ by the block."""
    title, operator, ns = named
    name = f"{escaped(operator.block)}/{title}"
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
            "iterations": ns.count,
            "real_time": ns.p50,
            "cpu_time": ns.p50,
        }
        return
    times = {"mean": ns.avg, "median": ns.p50, "stddev": _sample_deviation(ns)}
    for aggregate, time in times.items():
        yield {
            "name": f"{name}_{aggregate}",
            **common,
            "run_type": "aggregate",
            "repetitions": ns.count,
            "aggregate_name": aggregate,
            "aggregate_unit": "time",
            "iterations": ns.count,
            "real_time": time,
            "cpu_time": time,
        }


def _sample_deviation(summary: Summary) -> float:
    """Return the standard deviation of a sample, which the library computes; 0 for one repeat."""
    if summary.count < 2:
        return 0.0
    return summary.std * sqrt(summary.count / (summary.count - 1))


def write_openmetrics(trace: Trace, request: Request) -> Exported:
    """Return OpenMetrics text, with notes on data of the trace that it lacks.

    Times are in seconds and memory in bytes, the format's base units. Metrics have no timestamps:
    the collector says when it read them.

    Raises:
        UsageError: No operator has a known duration.
    """
    operators, notes = operator_times(trace)
    # Board and model tell series apart; the rest of the identity changes with every run.
    run = {name: escaped(text) for name, text in request.identity.texts().items() if text}
    about = {name: run.get(name, "") for name in ("board", "model")}
    allocators = [*_memory(trace, about)]
    lines = [
        *_family(
            "etdump_run", "info", "", "The run of these metrics.", [("_info", run or about, 1)]
        ),
        *_family(
            "etdump_operator_duration_seconds",
            "summary",
            "seconds",
            "Durations of an operator or scope over all executions.",
            _durations(operators, about),
        ),
        *_family(
            "etdump_operator_hardware_events",
            "summary",
            "",
            "What a hardware counter counted in an operator or scope.",
            _counts(operators, about),
        ),
        *_family(
            "etdump_allocator_peak_bytes",
            "gauge",
            "bytes",
            "Largest number of live bytes of an allocator.",
            (("", labels, value) for labels, value, _ in allocators),
        ),
        *_family(
            "etdump_allocator_failures",
            "gauge",
            "",
            "Allocations that failed.",
            (("", labels, failed) for labels, _, failed in allocators),
        ),
        *_family(
            "etdump_lost",
            "gauge",
            "",
            "What the target could not log.",
            (("", {**about, "what": what}, n) for what, n in asdict(trace.losses).items()),
        ),
        "# EOF\n",
    ]
    lacking = "without single executions and the starts of events"
    return Exported("\n".join(lines).encode(), (*notes, lacking))


def _family(
    name: str,
    kind: Literal["gauge", "info", "summary"],
    unit: str,
    about: str,
    samples: Iterable[Sample],
) -> Iterator[str]:
    """Yield the lines of a metric family, whose name ends with its unit; none without samples."""
    head = [f"# TYPE {name} {kind}", f"# HELP {name} {about}"]
    if unit:
        head.insert(1, f"# UNIT {name} {unit}")
    for suffix, labels, value in samples:
        yield from head
        head = []
        shown = ",".join(f'{label}="{_value(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{shown}}} {value!r}"


def _durations(operators: Iterable[NamedOperator], about: Labels) -> Iterator[Sample]:
    for title, operator, ns in operators:
        yield from _summary(ns, {**about, **_labels(title, operator)}, _SECOND)


def _counts(operators: Iterable[NamedOperator], about: Labels) -> Iterator[Sample]:
    for title, operator, _ in operators:
        for counter, summary in operator.counters.items():
            labels = {**about, **_labels(title, operator), "counter": escaped(counter)}
            yield from _summary(summary, labels, 1)


def _summary(summary: Summary, labels: Labels, scale: float) -> Iterator[Sample]:
    for quantile, name in _QUANTILES.items():
        yield "", {**labels, "quantile": quantile}, getattr(summary, name) / scale
    yield "_count", labels, summary.count
    yield "_sum", labels, summary.total / scale


def _labels(title: str, operator: Operator) -> Labels:
    return {
        "block": escaped(operator.block),
        "operator": title,
        "event": escaped(operator.name),
        "instruction": "" if operator.chain == -1 else str(operator.instruction),
    }


def _memory(trace: Trace, about: Labels) -> Iterator[tuple[Labels, int, int]]:
    """Yield labels, largest live bytes and number of failures of each allocator."""
    found = allocator_totals(trace)
    titles = unique_titles(("", escaped(totals.label)) for totals in found)
    for title, totals in zip(titles, found, strict=True):
        yield {**about, "allocator": title}, totals.peak_bytes, totals.failures


def _value(text: str) -> str:
    """Return the value of a label, without control characters, as between quotation marks."""
    return text.replace("\\", r"\\").replace('"', r"\"")


GOOGLE_BENCHMARK: Final = ExportFormat(
    "Times of operators as benchmarks, JSON; flavour aggregates: mean, median and stddev.",
    write_google_benchmark,
    (MEDIAN, "aggregates"),
)
OPENMETRICS: Final = ExportFormat(
    "Durations, memory and losses as metrics: Prometheus.", write_openmetrics
)
