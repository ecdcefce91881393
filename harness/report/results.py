"""Judged runs as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from harness.check.history.comparison import HistoryComparison
from harness.formatting import printable
from harness.records.nightly import NightDocument
from harness.records.result import Result, encode
from harness.records.verdict import Check
from harness.runs.judged_run import JudgedRun, all_passed


class ReportedDocument(msgspec.Struct, frozen=True):
    """A judged run, or a trace alone.

    ``passed`` is false for a run that failed, too; why is in its ``result``, which is null for a
    trace alone. ``events`` is null for a run that left no trace. ``checks`` are all that were made
    now; those of the result were made when it ran. ``comparison`` is null where it was held against
    no history.
    """

    title: str
    passed: bool
    events: int | None
    checks: tuple[Check, ...]
    comparison: HistoryComparison | None
    result: Result | None


class ReportDocument(msgspec.Struct, frozen=True):
    """What ``etharness report --json`` prints, and ``--report FILE.json`` writes.

    ``night`` is the night that the runs are a part of; null if they are of none.
    """

    passed: bool
    runs: list[ReportedDocument]
    night: NightDocument | None = None


def report_document(runs: Sequence[JudgedRun], night: NightDocument | None = None) -> bytes:
    """Return the JSON of ``runs``, and of the night that they are of."""
    documents = [
        ReportedDocument(
            title=printable(run.title),
            passed=run.passed,
            events=None if run.subject is None else len(run.subject.trace),
            checks=run.verdict.checks,
            comparison=run.comparison and _with_printable_names(run.comparison),
            result=run.result,
        )
        for run in runs
    ]
    passed = all_passed(runs) if night is None else night.passed
    return encode(ReportDocument(passed, documents, night))


def _with_printable_names(comparison: HistoryComparison) -> HistoryComparison:
    """The same with names of operators and allocators that JSON can hold."""
    numbers = []
    for number in comparison.numbers:
        metric = number.metric
        delegate = metric.delegate_str and printable(metric.delegate_str)
        name, block = printable(metric.name), printable(metric.block)
        metric = replace(metric, name=name, block=block, delegate_str=delegate)
        numbers.append(replace(number, metric=metric, reason=printable(number.reason)))
    return replace(comparison, numbers=tuple(numbers))
