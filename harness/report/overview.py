"""Several runs: a line for each, what changed, what failed and why, and a matrix of boards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.check.history.comparison import Compared, percentage
from harness.check.history.samples import Metric
from harness.formatting import commit_text, operator_title, printable
from harness.records.trace import EXECUTION
from harness.report import words
from harness.report.changes import (
    ChangeTable,
    TrackedNumber,
    compared_word,
    execution_time,
    peak_memory,
)
from harness.report.description import RunDescription, describe
from harness.report.operators import share_text
from harness.report.terminal import show_line, show_table
from harness.runs.source import EvaluatedRun

if TYPE_CHECKING:
    from rich.console import Console

_COMMIT = 8
"""Characters of a commit."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a line.

    Attributes:
        name: Model and board, or where it was found.
        apart: What tells it from other runs of the same name; empty if nothing has to.
        state: How it ended.
        why: Why it did not pass.
        board: Name of the board type; empty when unknown.
        model: Name of the model; empty when unknown.
        kernels: Whose kernels ran; empty when unknown.
        execution: Its median execution; None if none was timed.
        memory: Its peak memory; None without allocators.
        slowest: Its slowest operator; empty without operators.
        slowest_share: The part of the wall time that it took, as text.
    """

    name: str
    apart: str
    state: words.RunState
    why: str
    board: str
    model: str
    kernels: str
    execution: TrackedNumber | None
    memory: TrackedNumber | None
    slowest: str
    slowest_share: str

    @property
    def label(self) -> str:
        """Its name, and what tells it apart."""
        return f"{self.name}, {self.apart}" if self.apart else self.name


def name_of(run: RunDescription) -> str:
    """Return model and board of a run, or where it was found."""
    named = f"{_model(run)} on {run.board}" if run.model and run.board else run.board
    return words.brief(named or run.title)


def _model(run: RunDescription) -> str:
    """Return the name of a model, which its file has with a suffix, and maybe its test set."""
    file, comma, test_set = run.model.partition(", ")
    return f"{file.removesuffix('.pte')}{comma}{test_set}"


def summarize(runs: Sequence[RunDescription]) -> tuple[RunSummary, ...]:
    """Summarize runs, told apart from each other."""
    apart = told_apart(runs)
    return tuple(_summary(run, text) for run, text in zip(runs, apart, strict=True))


def told_apart(runs: Sequence[RunDescription]) -> list[str]:
    """Return what tells each run from others of the same name; empty for a name of its own.

    Of method, unit, kernels, commit, time and directory it is as many as it takes, and only those
    that differ.
    """
    names: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        names.setdefault(name_of(run), []).append(place)
    found = [""] * len(runs)
    for places in names.values():
        if len(places) > 1:
            for place, text in zip(places, _differences([runs[n] for n in places]), strict=True):
                found[place] = text
    return found


def _differences(runs: Sequence[RunDescription]) -> list[str]:
    chosen: list[list[str]] = [[] for _ in runs]
    for fact in _FACTS:
        texts = [fact(run) for run in runs]
        if len(set(texts)) > 1:
            for parts, text in zip(chosen, texts, strict=True):
                parts.append(text)
        if len({tuple(parts) for parts in chosen}) == len(runs):
            break
    return [", ".join(filter(None, parts)) for parts in chosen]


def _method(run: RunDescription) -> str:
    result = run.run.result
    return f"method {words.brief(result.model.method)}" if result and result.model else ""


def _unit_text(run: RunDescription) -> str:
    return f"unit {words.brief(run.unit)}" if run.unit else ""


def _commit(run: RunDescription) -> str:
    result = run.run.result
    if result is None or not result.commit:
        return ""
    return f"commit {words.brief(commit_text(result.commit, _COMMIT))}"


def _started_text(run: RunDescription) -> str:
    result = run.run.result
    if result is None:
        return ""
    return words.brief(
        result.started_utc.removesuffix("+00:00").partition(".")[0].replace("T", " ")
    )


_FACTS: Final[tuple[Callable[[RunDescription], str], ...]] = (
    _method,
    _unit_text,
    lambda run: words.brief(run.kernels),
    _commit,
    _started_text,
    lambda run: words.brief(run.title),
)
"""What may tell runs of one model and board apart, in the order of showing it."""


def _summary(run: RunDescription, apart: str) -> RunSummary:
    failed = run.verdict.outcome != "pass"
    slowest = run.operators.operators[0] if run.operators and run.operators.operators else None
    subject, peak = run.run.subject, 0
    if subject is not None and not run.untold and subject.memory.allocators:
        peak = subject.memory.peak
    return RunSummary(
        name=name_of(run),
        apart=apart,
        state="regression"
        if run.regression
        else words.state_of(run.exit_code)
        if failed
        else "pass",
        why=run.verdict.why if failed else "",
        board=run.board,
        model=_model(run),
        kernels=run.kernels,
        execution=execution_time(run.run),
        memory=peak_memory(run.run, peak) if peak else None,
        slowest=operator_title(slowest.name, slowest.instruction) if slowest else "",
        slowest_share=f"{share_text(slowest.share)} %"
        if slowest and slowest.share is not None
        else "",
    )


def delta_table(run: RunDescription, summary: RunSummary) -> words.ReportTable:
    """Return execution time and peak memory, changed or not, then other changed numbers."""
    rows = []
    for number in (summary.execution, summary.memory):
        if number is not None:
            word = number.change_text.split(" %, ")[-1] if number.change_text else "no baseline"
            if run.changes is None and number.before:
                word += " (not compared with history)"
            level = number.before or "-"
            rows.append(
                _delta(number.name, number.text, level, number.change, number.compared, word)
            )
    for row in run.changes.changed if run.changes is not None else ():
        metric, before = row.metric, row.baseline.value if row.baseline is not None else None
        if metric.kind == "operator" and metric.name == EXECUTION and metric.statistic == "p50":
            continue  # it has a row above
        title = words.metric_title(metric)
        if run.changes is not None and run.changes.several_units:
            title += f" on {printable(row.board_unit)}"
        values = _value(metric, row.current), _value(metric, before)
        rows.append(_delta(title, *values, row.relative, row, compared_word(row)))
    headers = ("number", "now", "before", "change", "noise", "detectable", "verdict")
    return words.ReportTable("", headers, rows, range(1, 6))


def _delta(
    title: str, now: str, before: str, change: float | None, number: Compared | None, verdict: str
) -> tuple[str, ...]:
    noise = None if number is None else number.noise
    detectable = None if number is None else number.detectable
    return (
        *(title, now, before),
        "-" if change is None else f"{100 * change:+.2f} %" if change else "0 %",
        "-" if noise is None else percentage(noise) if noise else "none",
        "-" if detectable is None else percentage(detectable),
        verdict,
    )


def compared_text(changes: ChangeTable) -> str:
    """Return how many numbers became what, such as ``1 slower, 14 no detectable change``."""
    counts = Counter(map(compared_word, (*changes.changed, *changes.others)))
    parts = [f"{count:,} {word}" for word, count in counts.items()]
    return f"{words.counted(sum(counts.values()), 'number')} compared: {', '.join(parts)}"


def _value(metric: Metric, value: float | None) -> str:
    if value is None:
        return "-"
    if metric.unit == "bytes":
        return words.short_size(value)
    if metric.unit in ("ns", "ticks"):
        return words.short_time(value if metric.unit == "ns" else None, value)
    return f"{words.three_digits(value)} {printable(metric.unit)}".strip()


@dataclass(frozen=True, slots=True)
class Overview:
    """Several runs.

    Attributes:
        passed: How many passed.
        headline: PASS or FAIL, and how many passed.
        counts: How many ended in each state, the most urgent first; they sum to all.
        order: Places of the runs, the most urgent first.
        summaries: Each run in a line, in the order of the runs.
    """

    passed: int
    headline: str
    counts: Mapping[words.RunState, int]
    order: tuple[int, ...]
    summaries: tuple[RunSummary, ...]


def describe_overview(runs: Sequence[RunDescription]) -> Overview:
    """Describe several runs."""
    summaries = summarize(runs)
    counts = words.counts_of_states(run.state for run in summaries)
    order = sorted(range(len(runs)), key=lambda n: words.URGENCY.index(summaries[n].state))
    passed = counts["pass"]
    return Overview(
        passed=passed,
        headline=f"{words.verdict_word(passed == len(runs))}: {passed:,} of {len(runs):,} "
        "runs passed",
        counts=counts,
        order=tuple(order),
        summaries=summaries,
    )


def print_overview(console: Console, runs: Sequence[EvaluatedRun]) -> None:
    """Print how every run ended, those that did not pass last, and how many passed."""
    described = [describe(run) for run in runs]
    found = describe_overview(described)
    states = [run.state for run in found.summaries]
    order = sorted(range(len(runs)), key=lambda n: -words.URGENCY.index(states[n]))
    # The reason before the kernels, which are the first to go on a narrow terminal.
    headers = ("run", "board", "model", "verdict", "why", "kernels")
    table = [
        (
            *(run.title, run.board, run.model, words.OUTCOME_WORDS[run.verdict.outcome]),
            *(run.verdict.why, run.kernels),
        )
        for run in (described[n] for n in order)
    ]
    show_table(console, headers, table, title="Runs")
    style = "bold green" if found.passed == len(runs) else "bold red"
    show_line(console, found.headline, style=style)
