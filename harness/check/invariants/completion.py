"""Checks that all requested executions completed (I12), and that one was measured (I13)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyze.blocks import executions
from harness.check.subject import Subject
from harness.records.verdict import Check, check


def completion_checks(subject: Subject) -> Iterator[Check]:
    """Compare completed with requested executions, if both numbers are known."""
    requested, completed = subject.runs_requested, subject.runs_completed
    if requested is None or completed is None:
        return
    yield check(
        "I12",
        rule="all requested executions completed",
        subject="executions",
        measured=float(completed),
        unit="executions",
        # 0 of 0 fails: a board may not have executed anything when its log was pulled.
        passed=completed >= max(requested, 1),
        reason=f"{completed} of {requested} executions completed",
    )


def measured_checks(subject: Subject) -> Iterator[Check]:
    """Fail a trace without an execution, where all other checks would pass vacuously.

    Yields nothing for other traces.
    """
    executed, _ = executions(subject.trace)
    if not executed.any():
        count = len(subject.trace)
        content = f"{count:,} events, but no execution of a method" if count else "no events"
        yield _unmeasured("trace", f"nothing was measured: the trace has {content}")


def nothing_checked() -> Check:
    """Return the failed check for a budget that turns all other checks off."""
    return _unmeasured("checks", "nothing was checked: the budget turns every check off")


def _unmeasured(subject: str, reason: str) -> Check:
    return check(
        "I13",
        rule="an execution was measured",
        subject=subject,
        measured=0.0,
        passed=False,
        reason=reason,
    )
