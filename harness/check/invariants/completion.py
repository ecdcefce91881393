"""Whether all the runs that were asked for ended (I12)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.check.checks import Check, check
from harness.check.subject import Subject


def completion_checks(subject: Subject) -> Iterator[Check]:
    """Compare the executions that ended with those that were asked for, where both are known."""
    requested, completed = subject.runs_requested, subject.runs_completed
    if requested is None or completed is None:
        return
    passed = completed >= requested
    yield check(
        "I12",
        rule="every run that was asked for ends",
        subject="runs",
        measured=float(completed),
        unit="runs",
        passed=passed,
        reason=f"{completed} of {requested} runs ended",
    )
