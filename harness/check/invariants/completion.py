"""Whether all the runs that were asked for ended (I12), and whether anything was measured (I13)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyze.blocks import executions
from harness.check.subject import Subject
from harness.records.verdict import Check, check


def completion_checks(subject: Subject) -> Iterator[Check]:
    """Compare the executions that ended with those that were asked for, where both are known."""
    requested, completed = subject.runs_requested, subject.runs_completed
    if requested is None or completed is None:
        return
    yield check(
        "I12",
        rule="every run that was asked for ends",
        subject="runs",
        measured=float(completed),
        unit="runs",
        # None of none is no success: a board whose log is pulled may not have run anything.
        passed=completed >= max(requested, 1),
        reason=f"{completed} of {requested} runs ended",
    )


def measured_checks(subject: Subject) -> Iterator[Check]:
    """Fail a trace without an execution: there all other checks hold, having nothing to judge.

    Nothing is yielded for any other trace: what was measured is then in the other checks.
    """
    executed, _ = executions(subject.trace)
    if not executed.any():
        count = len(subject.trace)
        held = f"{count:,} events, but no execution of a method" if count else "no events"
        yield _nothing("trace", f"nothing was measured: the trace holds {held}")


def nothing_checked() -> Check:
    """The check that fails when a budget turned all others off."""
    return _nothing("checks", "nothing was checked: the budget turns every check off")


def _nothing(subject: str, reason: str) -> Check:
    return check(
        "I13",
        rule="a verdict rests on an execution that was measured",
        subject=subject,
        measured=0.0,
        passed=False,
        reason=reason,
    )
