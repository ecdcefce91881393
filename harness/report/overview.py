"""Several runs: how many passed, what failed and why, a matrix of boards, and a line for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.report.description import RunDescription, describe
from harness.report.matrix import Matrix, MatrixCell, MatrixLink, latest_with_numbers, matrix_of
from harness.report.summaries import (
    STATES,
    URGENCY,
    RunState,
    RunSummary,
    counts_of_states,
    summarize,
    word_of,
)
from harness.report.terminal import show_line, show_table
from harness.runs.evaluation import EvaluatedRun

if TYPE_CHECKING:
    from rich.console import Console

HEADERS: Final = ("run", "board", "model", "kernels", "verdict", "why")
"""Headers of the cells of a row."""

OWNERS: Final = {
    0: "passed",
    1: "a check failed",
    2: "usage or configuration",
    3: "results are not comparable",
    4: "the target misbehaved",
    75: "infrastructure, safe to retry",
    130: "interrupted",
    143: "terminated",
}
"""What exit codes mean."""

_VERDICTS: Final = {"pass": "pass", "fail": "FAIL", "error": "ERROR"}


@dataclass(frozen=True, slots=True)
class OverviewGroup:
    """Runs that failed alike.

    Attributes:
        state: How they ended.
        exit_code: Their exit code.
        owner: What it means.
        kind: Class of the failure, or the codes of the failed checks.
        runs: Places of the runs.
    """

    state: RunState
    exit_code: int
    owner: str
    kind: str
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Several runs.

    Attributes:
        passed: How many passed.
        headline: PASS or FAIL, and how many passed.
        counts: How many ended in each state, the most urgent first; they sum to all.
        order: Places of the runs, the most urgent first.
        rows: Cells of each run, in the order of the runs.
        summaries: Each run in a line, in the order of the runs.
        groups: What failed, by state, the largest group of each first.
        matrix: Models by boards.
    """

    passed: int
    headline: str
    counts: Mapping[RunState, int]
    order: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]
    summaries: tuple[RunSummary, ...]
    groups: Mapping[RunState, tuple[OverviewGroup, ...]]
    matrix: Matrix


def describe_overview(runs: Sequence[RunDescription], anchors: Sequence[str] = ()) -> Overview:
    """Describe several runs; ``anchors`` are ids of their sections on a page that has them."""
    summaries = summarize(runs)
    counts = counts_of_states(run.state for run in summaries)
    order = sorted(range(len(runs)), key=lambda n: URGENCY.index(summaries[n].state))
    passed = counts["pass"]
    result = "PASS" if passed == len(runs) else "FAIL"
    return Overview(
        passed=passed,
        headline=f"{result}: {passed:,} of {len(runs):,} runs passed",
        counts=counts,
        order=tuple(order),
        rows=tuple(
            (
                *(run.title, run.board, run.model, run.kernels),
                *(_VERDICTS[run.verdict.outcome], run.verdict.why),
            )
            for run in runs
        ),
        summaries=summaries,
        groups=_groups(runs, summaries),
        matrix=_matrix(runs, summaries, order, anchors),
    )


def _groups(
    runs: Sequence[RunDescription], summaries: Sequence[RunSummary]
) -> dict[RunState, tuple[OverviewGroup, ...]]:
    """Put runs together that failed alike, so that one cause is one line."""
    failed: dict[tuple[RunState, int, str], list[int]] = {}
    for place, (run, summary) in enumerate(zip(runs, summaries, strict=True)):
        if summary.state != "pass":
            codes = ", ".join(dict.fromkeys(check.code for check in run.verdict.failed))
            kind = run.failure.kind if run.failure is not None else codes
            failed.setdefault((summary.state, run.exit_code, kind), []).append(place)
    found: dict[RunState, list[OverviewGroup]] = {state: [] for state in STATES}
    for (state, code, kind), same in failed.items():
        owner = OWNERS.get(code, "unknown")
        found[state].append(OverviewGroup(state, code, owner, kind, tuple(same)))
    return {
        state: tuple(sorted(groups, key=lambda g: (-len(g.runs), g.exit_code, g.kind)))
        for state, groups in found.items()
        if groups
    }


def _matrix(
    runs: Sequence[RunDescription],
    summaries: Sequence[RunSummary],
    order: Sequence[int],
    anchors: Sequence[str],
) -> Matrix:
    places: dict[tuple[str, str], list[int]] = {}
    for place in order:
        run = summaries[place]
        places.setdefault((run.model, run.board), []).append(place)
    cells = {}
    for key, chosen in places.items():
        newest = sorted(chosen, key=lambda n: _started(runs[n]), reverse=True)
        urgent = sorted(newest, key=lambda n: URGENCY.index(summaries[n].state))
        cells[key] = MatrixCell(
            counts=counts_of_states(summaries[n].state for n in chosen),
            latest=latest_with_numbers([summaries[n] for n in reversed(newest)]),
            links=tuple(link_to(summaries[n], f"#{anchors[n]}" if anchors else "") for n in urgent),
        )
    return matrix_of(cells)


def link_to(run: RunSummary, href: str) -> MatrixLink:
    """Return a link to a run."""
    text = word_of(run.state)
    return MatrixLink(run.state, text, href, f"{run.label}: {run.why}" if run.why else run.label)


def _started(run: RunDescription) -> str:
    return run.run.result.started_utc if run.run.result is not None else ""


def print_overview(console: Console, runs: Sequence[EvaluatedRun]) -> None:
    """Print how every run ended, those that did not pass last, and how many passed."""
    found = describe_overview([describe(run) for run in runs])
    states = [run.state for run in found.summaries]
    order = sorted(range(len(runs)), key=lambda n: -URGENCY.index(states[n]))
    # The reason before the kernels, which are the first to go on a narrow terminal.
    rows = (HEADERS, *(found.rows[n] for n in order))
    headers, *table = [[row[n] for n in (0, 1, 2, 4, 5, 3)] for row in rows]
    show_table(console, headers, table, title="Runs")
    style = "bold green" if found.passed == len(runs) else "bold red"
    show_line(console, found.headline, style=style)
