"""What a page shows of one run, section by section."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.analyze.merged_tree import merged_tree
from harness.analyze.postmortem import PostmortemDocument
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.records.result import Failure
from harness.records.trace import EXECUTION
from harness.records.verdict import Check, Verdict
from harness.report.html import facts
from harness.report.html.formatting import Limits, brief, most, number, one_time
from harness.report.html.history import HistoryView, history_view
from harness.report.html.icicle import Icicle, icicles
from harness.report.html.memory import MemoryView, memory_view
from harness.report.html.operators import Operators, operators
from harness.runs.judged_run import JudgedRun

_LONGEST_REASON = 1_000
"""Characters of a reason or a message that are shown."""

_LONGEST_LINE = 500
"""Characters of a line of the console that are shown."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check.

    Attributes:
        outcome: ``pass``, ``fail``, or the severity of one that does not hold but is no failure.
    """

    outcome: str
    code: str
    rule: str
    subject: str
    measured: str
    limit: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class RunView:
    """One run on a page.

    Attributes:
        anchor: Begins the ids of everything that belongs to it.
        title: Model and board, or where it was found.
        label: The same, unlike that of any other run on the page.
        found: Where it was found.
        board: Name of the board, empty when unknown.
        unit: Which board of its type.
        model: Name of the model, empty when unknown.
        outcome: ``pass``, ``fail`` for a failed check, ``error`` when the run did not end.
        exit_code: What the command line returned for it.
        kind: Class of the failure, empty without one.
        headline: The verdict in a sentence.
        failure: Why it did not end.
        why: Checks that do not hold, failures first.
        more_why: How many are left out.
        untold: Why nobody can tell what happened within what; empty when it can be told.
        figures: The few numbers that are asked for first.
        checks: Every check, those that do not hold first.
        more_checks: How many are left out.
    """

    anchor: str
    title: str
    label: str
    found: str
    board: str
    unit: str
    model: str
    outcome: str
    exit_code: int
    kind: str
    headline: str
    failure: Failure | None
    why: tuple[CheckRow, ...]
    more_why: int
    untold: str
    figures: list[facts.Fact]
    history: HistoryView | None
    operators: Operators | None
    icicles: list[Icicle]
    memory: MemoryView | None
    link: list[facts.Fact]
    clocks: list[facts.ClockFacts]
    losses: list[facts.Loss]
    checks: tuple[CheckRow, ...]
    more_checks: int
    outputs: list[facts.OutputRow]
    console: str
    more_console: int
    postmortem: PostmortemDocument | None
    provenance: list[facts.Fact]


def run_view(run: JudgedRun, index: int, limits: Limits) -> RunView:
    """Describe a run, the ``index``-th of its page."""
    subject = run.subject
    untold = _untold(subject)
    nested = None if untold else subject
    result, verdict, failure = run.result, run.verdict, run.failure
    failures, warnings = verdict.failures, verdict.warnings
    outcome = "error" if failure else "pass" if verdict.passed else "fail"
    held = tuple(check for check in verdict.checks if check.passed)
    ordered = (*failures, *warnings, *held)
    wrong = (*failures, *warnings)
    board = brief(subject.board if subject else "") or (brief(result.board) if result else "")
    model = brief(subject.model) if subject else ""
    title = f"{model} on {board}" if model and board else board or brief(run.title)
    shown, left_out = _tail(run.console, limits.lines)
    return RunView(
        anchor=f"run-{index + 1}",
        title=title,
        label=f"run {index + 1}, {title}",
        found=brief(run.title),
        board=board,
        unit=brief(result.unit) if result else "",
        model=model,
        outcome=outcome,
        exit_code=_exit_code(run, outcome),
        kind=failure.kind if failure else "",
        headline=_headline(failure, verdict),
        failure=failure,
        why=tuple(map(_check, wrong[: limits.rows])),
        more_why=most(len(wrong), limits.rows),
        untold=untold,
        figures=_figures(subject, nested, run),
        history=history_view(run, limits),
        operators=operators(subject, limits) if subject else None,
        icicles=icicles(merged_tree(nested.tree), limits) if nested else [],
        memory=memory_view(nested, limits) if nested else None,
        link=facts.link(result),
        clocks=facts.clocks(subject),
        losses=facts.losses(subject, result),
        checks=tuple(map(_check, ordered[: limits.checks])),
        more_checks=most(len(ordered), limits.checks),
        outputs=facts.outputs(subject, result)[: limits.rows],
        console=shown,
        more_console=left_out,
        postmortem=run.postmortem,
        provenance=facts.provenance(run),
    )


def _exit_code(run: JudgedRun, outcome: str) -> int:
    if run.result is not None and run.failure is not None:
        return run.result.exit_code
    return 0 if outcome == "pass" else 1


def _headline(failure: Failure | None, verdict: Verdict) -> str:
    if failure is not None:
        return f"The run did not end: {brief(failure.message, _LONGEST_REASON)}"
    severities = Counter(check.severity for check in verdict.warnings)
    more = "".join(
        f", {count:,} {severity}{'s' if count > 1 else ''}"
        for severity, count in sorted(severities.items(), reverse=True)
    )
    checks = len(verdict.checks)
    if verdict.failures:
        return f"{len(verdict.failures):,} of {checks:,} checks do not hold{more}"
    if not checks:
        return "Nothing was checked"
    held = f"{checks - len(verdict.warnings):,} of" if verdict.warnings else "All"
    return f"{held} {checks:,} checks hold{more}"


def _check(check: Check) -> CheckRow:
    unit = f" {check.unit}" if check.unit else ""
    return CheckRow(
        outcome="pass" if check.passed else "fail" if check.failed else check.severity,
        code=check.code,
        rule=brief(check.rule),
        subject=brief(check.subject),
        measured="" if check.measured is None else number(check.measured) + unit,
        limit="" if check.limit is None else number(check.limit) + unit,
        reason=brief(check.reason, _LONGEST_REASON),
        source=brief(check.source),
    )


def _untold(subject: Subject | None) -> str:
    """Why there is no call tree, on which memory over time rests."""
    try:
        if subject is not None:
            _ = subject.tree
    except FormatError as error:
        return brief(error.message, _LONGEST_REASON)
    return ""


def _figures(subject: Subject | None, nested: Subject | None, run: JudgedRun) -> list[facts.Fact]:
    found: list[facts.Fact] = []
    if subject is not None:
        executed = [op for op in subject.operators if op.name == EXECUTION]
        for op in executed[:1]:
            if op.times is not None:
                text = one_time(None if op.ns is None else op.times.p50, op.times.p50)
                found.append(("median execution", text))
        if nested is not None and nested.memory.allocators:
            found.append(("peak memory", f"{nested.memory.peak:,} bytes"))
        found.append(("events", f"{len(subject.trace):,}"))
    if run.result is not None:
        done = f"{run.result.runs_completed:,} of {run.result.runs_requested:,}"
        found.append(("executions", done))
    lost = [item for item in facts.losses(subject, run.result) if not item.asked_for]
    found.append(("losses", f"{sum(item.count for item in lost):,}"))
    return found


def _tail(text: str, lines: int) -> tuple[str, int]:
    """The last lines of a console, and how many stand before them."""
    found = text.splitlines()
    kept = [brief(line, _LONGEST_LINE) for line in found[-lines:]]
    return "\n".join(kept), len(found) - len(kept)
