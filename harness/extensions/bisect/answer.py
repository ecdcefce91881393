"""The answer of a bisection, with what it rests on, and what is known before its end."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from harness.extensions.bisect.search import VERDICT, BisectSearch, NextRun, Suspects
from harness.extensions.bisect.state import BisectState, Commit, CommitRun, ValueUnit
from harness.formatting import DisplayUnit, metric_unit
from harness.plugins import EXPLANATIONS, load_plugin
from harness.records.explanation import Explanation
from harness.report.terminal import show_line, show_table
from harness.report.words import brief, counted

if TYPE_CHECKING:
    from rich.console import Console

Verdict = Literal["good", "bad", "uncertain", "skipped"]

_CLEAR = 0.99
"""Probability from which a commit is called good or bad."""


class MeasuredCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that was run.

    Attributes:
        sha: Its hash.
        subject: First line of its message.
        place: How many commits it is after the good one.
        verdict: Which side it is on, or that it could not be measured.
        probability: Probability that it is bad; null if it was skipped.
        runs: Number of its runs that measured a value.
        value: Median of these; null if there are none.
        change: Difference from the good commit, as a share, without the drift of the machine.
        bound: Half the width of the 95 % confidence interval of ``change``; 0 for exact values,
            null if it is unknown.
        reason: Why it was skipped.
    """

    sha: str
    subject: str
    place: int
    verdict: Verdict
    probability: float | None
    runs: int
    value: float | None
    change: float | None
    bound: float | None
    reason: str = ""


class BisectDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a bisection.

    Attributes:
        answer: ``found``: one commit; ``suspects``: several, of which runs cannot tell which;
            ``searching``: it is not finished.
        suspects: The commits one of which is the first bad one, oldest first.
        probability: Probability that it is one of them.
        metric: What was measured.
        unit: Unit of the values.
        threshold: Change from which a commit is bad, as a share of the good value; null while it
            is unknown.
        noise: Standard deviation of one run, as a share; null while it is unknown, 0 if every run
            of a commit is the same.
        before: The last good commit before the suspects that was measured.
        after: The first bad one, or the first after the suspects that was measured.
        change: Difference between these, as a share of ``before``.
        bound: Half the width of its 95 % confidence interval; null if it is unknown.
        commits: Every commit that was run, oldest first.
        count: Number of commits after the good one, up to the bad one.
        runs: Number of runs, with those that failed.
        infrastructure: How many of them failed by the host, the line or a tool.
        seconds: Time of all runs.
        why: What changed in the program of the first bad commit, and what that costs; absent if
            its program did not change, or is unknown.
    """

    answer: Literal["found", "suspects", "searching"]
    suspects: tuple[Commit, ...]
    probability: float
    metric: str
    unit: ValueUnit
    threshold: float | None
    noise: float | None
    before: MeasuredCommit | None
    after: MeasuredCommit | None
    change: float | None
    bound: float | None
    commits: tuple[MeasuredCommit, ...]
    count: int
    runs: int
    infrastructure: int
    seconds: float
    why: Explanation | msgspec.UnsetType = msgspec.UNSET
    schema: Literal[1] = 1


def describe_bisection(state: BisectState) -> BisectDocument:
    """Describe what the runs of a bisection say."""
    search = BisectSearch(state)
    known = search.is_compared
    decision = search.decide()
    found = search.suspects() if known else Suspects(state.request.commits[1:], 1.0)
    commits = tuple(_measured(search, known=known))
    places = [state.request.commits.index(commit) for commit in found.commits]
    before = next((c for c in reversed(commits) if c.runs and c.place < places[0]), None)
    after = next((c for c in commits if c.runs and c.place >= places[-1]), None)
    change, bound = _change(before, after) if known else (None, None)
    answer: Literal["found", "suspects", "searching"] = "searching"
    if known and not isinstance(decision, NextRun):
        answer = "found" if len(found.commits) == 1 else "suspects"
    return BisectDocument(
        answer=answer,
        suspects=found.commits,
        probability=found.probability,
        metric=state.request.metric,
        unit=max((run.unit for run in state.runs), default=""),
        threshold=search.evidence.threshold if known else None,
        noise=search.evidence.noise if known else None,
        before=before,
        after=after,
        change=change,
        bound=bound,
        commits=commits,
        count=len(state.request.commits) - 1,
        runs=len(state.runs),
        infrastructure=sum(run.outcome == "infrastructure" for run in state.runs),
        seconds=round(sum(run.seconds for run in state.runs), 3),
    )


def _measured(search: BisectSearch, *, known: bool) -> Iterator[MeasuredCommit]:
    """Yield every commit that was run, oldest first."""
    of_commit: dict[str, list[str]] = {}
    for run in search.state.runs:
        of_commit.setdefault(run.commit, []).append(run.reason)
    last = len(search.request.commits) - 1
    for place, commit in enumerate(search.request.commits):
        if commit.sha not in of_commit:
            continue
        skipped = commit.sha in search.skipped
        value, change, bound = search.evidence.level(commit.sha) or (None, None, inf)
        bad = search.badness(commit) if known or place in (0, last) else None
        yield MeasuredCommit(
            sha=commit.sha,
            subject=commit.subject,
            place=place,
            verdict="skipped" if skipped else _verdict(bad),
            probability=bad,
            runs=search.runs_of(commit),
            value=value,
            change=change if known else None,
            bound=bound if known and isfinite(bound) else None,
            reason=of_commit[commit.sha][-1] if skipped else "",
        )


def _verdict(bad: float | None) -> Verdict:
    if bad is None or 1 - _CLEAR < bad < _CLEAR:
        return "uncertain"
    return "bad" if bad >= _CLEAR else "good"


def _change(
    before: MeasuredCommit | None, after: MeasuredCommit | None
) -> tuple[float | None, float | None]:
    """Return the difference of two commits as a share of the first, and its bound."""
    if before is None or after is None or before.change is None or after.change is None:
        return None, None
    change = (after.change - before.change) / (1 + before.change or 1.0)
    if before.bound is None or after.bound is None:
        return change, None
    own = (1 + change) * before.bound
    return change, (own**2 + after.bound**2) ** 0.5 / (1 + before.change or 1.0)


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
    unit = _display_unit(document)
    rows = [
        (
            str(commit.place),
            commit.sha[:10],
            commit.verdict,
            str(commit.runs),
            "-" if commit.value is None else unit.text(commit.value),
            _difference_text(commit.change, commit.bound, document),
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
        plugin: Any = load_plugin(EXPLANATIONS, "compare")
        for line in plugin.text_of(document.why) if plugin and document.why else ():
            show_line(console, f"    {line}")
    _print_basis(console, document)


def _print_change(console: Console, document: BisectDocument) -> None:
    before, after = document.before, document.after
    if before is None or after is None or before.value is None or after.value is None:
        return
    unit = _display_unit(document)
    change = _difference_text(document.change, document.bound, document)
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


def _difference_text(change: float | None, bound: float | None, document: BisectDocument) -> str:
    if change is None:
        return "-"
    if document.metric == VERDICT:
        return f"{change:+.0%}"
    if bound == 0:
        return f"{change:+.2%}"
    return f"{change:+.2%}" if bound is None else f"{change:+.2%} ± {bound:.2%}"


def _display_unit(document: BisectDocument) -> DisplayUnit:
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
