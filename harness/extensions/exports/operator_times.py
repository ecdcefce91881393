"""The times of operators by name, which are unique: Google Benchmark's JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from harness.analyze.statistics import Operator, Summary, operator_statistics
from harness.errors import UsageError
from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.event_times import context_notes
from harness.extensions.exports.timeline import process_name
from harness.formatting import escaped, short_operator_name
from harness.records.trace import Trace, is_wrapper

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
    operators = [item for item in everything if not is_wrapper(item.name)]
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
    notes = (f"{count} {what}" for what, count in left_out.items() if count)
    return found, (*notes, *context_notes(trace))


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

    Readers such as github-action-benchmark and Bencher take every entry for a time of its own, so
    an operator has one entry: its median. Equal names in two blocks differ by the block.

    Raises:
        UsageError: No operator has a known duration.
    """
    operators, notes = operator_times(trace)
    entries = []
    for family, (title, operator, ns) in enumerate(operators):
        name = f"{escaped(operator.block)}/{title}"
        entries.append(
            {
                "name": name,
                "family_index": family,
                "per_family_instance_index": 0,
                "run_name": name,
                "threads": 1,
                "time_unit": "ns",
                "run_type": "iteration",
                "repetitions": 1,
                "repetition_index": 0,
                "iterations": ns.count,
                "real_time": ns.p50,
                "cpu_time": ns.p50,
            }
        )
    document = {
        "context": {
            "executable": process_name(request.identity),
            "library_build_type": "release",
            "json_schema_version": 1,
            "caches": [],  # Bencher refuses a context without
            **{name: escaped(text) for name, text in request.identity.texts().items() if text},
        },
        "benchmarks": entries,
    }
    lacking = (
        "cpu_time is real_time: the target has one clock",
        "without single repetitions, memory and hardware counters",
    )
    return Exported(msgspec.json.encode(document), (*notes, *lacking))


GOOGLE_BENCHMARK: Final = ExportFormat(
    "Times of operators as benchmarks, JSON.", write_google_benchmark
)
