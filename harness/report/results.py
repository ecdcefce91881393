"""Judged runs as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.check.checks import Check
from harness.report.reported import Reported, all_passed
from harness.report.text import printable
from harness.result import Result, encode


class ReportedDocument(msgspec.Struct, frozen=True):
    """A judged run, or a trace alone.

    ``passed`` is false for a run that failed, too; why is in its ``result``, which is null for a
    trace alone. ``events`` is null for a run that left no trace. ``checks`` are all that were made
    now; those of the result were made when it ran.
    """

    title: str
    passed: bool
    events: int | None
    checks: tuple[Check, ...]
    result: Result | None


class ReportDocument(msgspec.Struct, frozen=True):
    """What ``etharness report --json`` prints, and ``--report FILE.json`` writes."""

    passed: bool
    runs: list[ReportedDocument]


def report_document(runs: Sequence[Reported]) -> bytes:
    """Return the JSON of ``runs``."""
    documents = [
        ReportedDocument(
            title=printable(run.title),
            passed=run.passed,
            events=None if run.subject is None else len(run.subject.trace),
            checks=run.verdict.checks,
            result=run.result,
        )
        for run in runs
    ]
    return encode(ReportDocument(all_passed(runs), documents))
