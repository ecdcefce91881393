"""Evaluated runs for tests of reports."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from harness import (
    Check,
    Compared,
    EvaluatedRun,
    Failure,
    HistoryComparison,
    HistoryLimits,
    Interval,
    Metric,
    Result,
    Subject,
    Trace,
    Verdict,
)
from harness.records.verdict import check
from tests.support.traces import EventSpec, RunSpec, trace_of

FINISHED = Result(
    id="7d1f",
    unit="board",
    commit="abc",
    session="7d1f",
    tool_version="1",
    started_utc="2026-11-21T00:00:00+00:00",
    duration_s=1.5,
    board="native",
    port=None,
    runs_requested=2,
    runs_completed=2,
    seed=0,
    exit_code=0,
)

SMALL = trace_of(
    RunSpec([EventSpec("relu", 10, 20, instruction=1), EventSpec("Method::execute", 0, 30)])
)


def reported(
    *checks: Check,
    title: str = "out/run",
    trace: Trace | None = SMALL,
    result: Result | None = FINISHED,
    directory: Path | None = None,
) -> EvaluatedRun:
    """A run with these checks."""
    subject = None if trace is None else Subject(trace)
    return EvaluatedRun(title, subject, Verdict(checks), result, directory=directory)


def failed_run(
    message: str = "gone", *, kind: str = "LinkError", exit_code: int = 75
) -> EvaluatedRun:
    """A run that ended before it had a trace."""
    failure = Failure(kind, message, "try again")
    result = replace(FINISHED, exit_code=exit_code, failure=failure, runs_completed=0)
    return reported(trace=None, result=result, title="out/failed")


def held(code: str = "B05", subject: str = "log") -> Check:
    """A check that holds."""
    return check(code, rule="a rule", subject=subject, passed=True, reason="it is so")


def unmet(code: str = "B01", subject: str = "relu", reason: str = "it is not so") -> Check:
    """A check that does not."""
    return check(
        code,
        rule="a rule",
        subject=subject,
        measured=2.0,
        limit=1.0,
        unit="us",
        passed=False,
        reason=reason,
    )


def slower_by_3_percent(name: str) -> HistoryComparison:
    """A comparison with history in which an operator of this name became slower."""
    change = Compared(
        metric=Metric("operator", name, "p50", "ns", chain=0, instruction=3),
        board_unit="board",
        judgement="regression",
        baseline=Interval(1000.0, 990.0, 1010.0),
        current=1030.0,
        change=Interval(30.0, 20.0, 40.0),
        relative=0.03,
        q=0.001,
    )
    limits = HistoryLimits()
    return HistoryComparison(
        description="the last 20", limits=limits, commit="abc", units=("board",), numbers=(change,)
    )
