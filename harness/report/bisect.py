"""A bisection on the terminal: each run as it ends, and the answer with what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.bisect.answer import BisectDocument
from harness.bisect.search import VERDICT, BisectSearch, NextRun
from harness.bisect.state import BisectState, CommitRun
from harness.formatting import DisplayUnit, metric_unit
from harness.report.terminal import show_line, show_table
from harness.report.text import brief, counted

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_SUBJECT = 60
_MOST_SUSPECTS = 20
"""Suspects that the answer lists by default (-v lists all)."""


def show_start(console: Console, search: BisectSearch) -> None:
    """Print what is searched."""
    request = search.request
    show_line(
        console,
        f"Searching {counted(len(request.commits) - 1, 'commit')} after {request.good.short} up to "
        f"{request.bad.short} for a change of {request.metric}.",
    )


def show_run(console: Console, search: BisectSearch, step: NextRun, run: CommitRun) -> None:
    """Print one run, and what is known after it."""
    line = f"{len(search.state.runs):4}  {step.role:<7}  {step.commit.short}  {_result(run)}"
    if run.outcome == "measured" and step.role == "suspect":
        left = len(search.suspects().commits)
        bad = search.badness(step.commit)
        line += f"  {_odds(bad)}, {counted(left, 'suspect')} left"
    show_line(console, line)


def print_bisection(console: Console, document: BisectDocument, *, detailed: bool = False) -> None:
    """Print the answer of a bisection, or how far it is."""
    if document.commits:
        _print_commits(console, document)
    _print_answer(console, document, detailed=detailed)


def starting(state: BisectState, step: NextRun) -> str:
    """Return what is shown while a commit runs."""
    return f"run {len(state.runs) + 1}: {step.role} {step.commit.short}"


def _print_commits(console: Console, document: BisectDocument) -> None:
    unit = _unit(document)
    rows = [
        (
            str(commit.place),
            commit.sha[:10],
            commit.verdict,
            str(commit.runs),
            "-" if commit.value is None else unit.text(commit.value),
            _change_text(commit.change, commit.bound, document),
            brief(commit.reason or commit.subject, _LONGEST_SUBJECT),
        )
        for commit in document.commits
    ]
    value = "failed" if document.metric == VERDICT else f"{document.metric} [{unit.name}]"
    headers = ("place", "commit", "verdict", "runs", value, "change", "subject")
    show_table(console, headers, rows, numbers=(0, 3, 4, 5))


def _print_answer(console: Console, document: BisectDocument, *, detailed: bool) -> None:
    suspects = document.suspects
    if document.answer == "found":
        (first,) = suspects
        show_line(console, f"FOUND: {first.sha} is the first bad commit", style="bold green")
        show_line(console, f"  {brief(first.subject)}")
    elif document.answer == "suspects":
        text = f"NOT CERTAIN: the first bad commit is one of {len(suspects)}"
        show_line(console, text, style="bold yellow")
    else:
        show_line(console, f"SEARCHING: {counted(len(suspects), 'suspect')} left", style="bold")
    if document.answer == "suspects":
        shown = suspects if detailed else suspects[:_MOST_SUSPECTS]
        reasons = {commit.sha: commit for commit in document.commits}
        for commit in shown:
            known = reasons.get(commit.sha)
            why = f" ({known.verdict})" if known is not None else " (not run)"
            show_line(console, f"  {commit.short}{why}  {brief(commit.subject, _LONGEST_SUBJECT)}")
        if len(shown) < len(suspects):
            show_line(console, f"  {len(suspects) - len(shown)} more; -v lists all")
    if document.answer != "searching":
        _print_change(console, document)
    _print_basis(console, document)


def _print_change(console: Console, document: BisectDocument) -> None:
    before, after = document.before, document.after
    if before is None or after is None or before.value is None or after.value is None:
        return
    unit = _unit(document)
    change = _change_text(document.change, document.bound, document)
    show_line(
        console,
        f"  before {unit.text(before.value)}, after {unit.text(after.value)} {unit.name}: {change}",
    )


def _print_basis(console: Console, document: BisectDocument) -> None:
    facts = [counted(document.runs, "run"), f"{document.seconds:,.0f} s"]
    if document.threshold is not None and document.metric != VERDICT:
        facts.append(f"bad from {document.threshold:+.2%}")
    if document.noise is not None:
        noise = f"noise of one run {document.noise:.2%}" if document.noise else "no noise"
        facts.append(noise)
    if document.answer != "searching" and document.noise != 0:
        facts.append(f"certainty {min(document.probability, 0.9999):.2%}")
    if document.infrastructure:
        failed = counted(document.infrastructure, "run")
        facts.append(f"{failed} failed by the infrastructure")
    show_line(console, "  " + ", ".join(facts))


def _change_text(change: float | None, bound: float | None, document: BisectDocument) -> str:
    if change is None:
        return "-"
    if document.metric == VERDICT:
        return f"{change:+.0%}"
    if bound == 0:
        return f"{change:+.2%}"
    return f"{change:+.2%}" if bound is None else f"{change:+.2%} ± {bound:.2%}"


def _unit(document: BisectDocument) -> DisplayUnit:
    values = [commit.value for commit in document.commits if commit.value is not None]
    if document.unit:
        return metric_unit(document.unit, values)
    return DisplayUnit("of the runs", 1, 2)


def _result(run: CommitRun) -> str:
    if run.outcome != "measured":
        return f"{run.outcome}: {brief(run.reason)}"
    if not run.unit:
        return "failed" if run.value else "passed"
    unit = metric_unit(run.unit, [run.value])
    return f"{unit.text(run.value)} {unit.name}"


def _odds(bad: float | None) -> str:
    if bad is None:
        return "unknown"
    side, sure = ("bad", bad) if bad >= 0.5 else ("good", 1 - bad)
    return f"{side} ({min(sure, 0.999):.1%})"
