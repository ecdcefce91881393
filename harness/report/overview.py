"""Several runs: a row each, how many passed, and failures by board and owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.report.description import RunDescription, describe
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
}
"""What exit codes mean."""

_VERDICTS: Final = {"pass": "pass", "fail": "FAIL", "error": "ERROR"}


@dataclass(frozen=True, slots=True)
class OverviewGroup:
    """Runs that failed alike.

    Attributes:
        exit_code: Their exit code.
        owner: What it means.
        kind: Class of the failure, or the codes of the failed checks.
        runs: Places of the runs.
    """

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
        order: Places of the runs, those that did not pass first.
        rows: Cells of each run, in the order of the runs.
        boards: Names of boards.
        models: Names of models, each with the places of its runs on each board.
        groups: What failed, the largest group first.
    """

    passed: int
    headline: str
    order: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]
    boards: tuple[str, ...]
    models: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    groups: tuple[OverviewGroup, ...]


def describe_overview(runs: Sequence[RunDescription]) -> Overview:
    """Describe several runs."""
    boards = sorted({run.board for run in runs})
    cells: dict[tuple[str, str], list[int]] = {}
    failed: dict[tuple[int, str], list[int]] = {}
    for place, run in enumerate(runs):
        cells.setdefault((run.model, run.board), []).append(place)
        if run.verdict.outcome != "pass":
            codes = ", ".join(dict.fromkeys(check.code for check in run.verdict.failed))
            kind = run.failure.kind if run.failure is not None else codes
            failed.setdefault((run.exit_code, kind), []).append(place)
    groups = [
        OverviewGroup(code, OWNERS.get(code, "unknown"), kind, tuple(same))
        for (code, kind), same in failed.items()
    ]
    passed = sum(run.verdict.outcome == "pass" for run in runs)
    result = "PASS" if passed == len(runs) else "FAIL"
    return Overview(
        passed=passed,
        headline=f"{result}: {passed:,} of {len(runs):,} runs passed",
        order=tuple(sorted(range(len(runs)), key=lambda n: runs[n].verdict.outcome == "pass")),
        rows=tuple(
            (
                *(run.title, run.board, run.model, run.kernels),
                *(_VERDICTS[run.verdict.outcome], run.verdict.why),
            )
            for run in runs
        ),
        boards=tuple(boards),
        models=tuple(
            (model, tuple(tuple(cells.get((model, board), ())) for board in boards))
            for model in sorted({run.model for run in runs})
        ),
        groups=tuple(sorted(groups, key=lambda g: (-len(g.runs), g.exit_code, g.kind))),
    )


def print_overview(console: Console, runs: Sequence[EvaluatedRun]) -> None:
    """Print how every run ended, those that did not pass last, and how many passed."""
    found = describe_overview([describe(run) for run in runs])
    ordered = sorted(found.rows, key=lambda row: row[4] != "pass")
    # The reason before the kernels, which are the first to go on a narrow terminal.
    table = [[row[n] for n in (0, 1, 2, 4, 5, 3)] for row in (HEADERS, *ordered)]
    show_table(console, table[0], table[1:], title="Runs")
    style = "bold green" if found.passed == len(runs) else "bold red"
    show_line(console, found.headline, style=style)
