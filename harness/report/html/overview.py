"""Several runs at a glance: models by boards, and what failed by its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.report.html.run import RunView

OWNERS: Final = {
    0: "passed",
    1: "a check failed",
    2: "usage or configuration",
    3: "results do not compare",
    4: "the target misbehaved",
    75: "infrastructure, safe to retry",
    130: "interrupted",
}
"""What exit codes mean."""


@dataclass(frozen=True, slots=True)
class OverviewGroup:
    """Runs that failed alike.

    Attributes:
        exit_code: Their exit code.
        owner: What it means.
        kind: Class of the failure, or the codes of the checks that failed first.
        runs: Which they are.
    """

    exit_code: int
    owner: str
    kind: str
    runs: tuple[RunView, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """All runs of a page.

    Attributes:
        boards: Names of boards: columns.
        models: Names of models: rows, each with the runs of each board.
        groups: What failed, the largest group first.
        passed: How many passed.
    """

    boards: tuple[str, ...]
    models: tuple[tuple[str, tuple[tuple[RunView, ...], ...]], ...]
    groups: tuple[OverviewGroup, ...]
    passed: int


def overview(runs: Sequence[RunView]) -> Overview:
    """Sort runs by board and model, and those that failed by how."""
    boards = sorted({run.board for run in runs})
    models = sorted({run.model for run in runs})
    cells: dict[tuple[str, str], list[RunView]] = {}
    failed: dict[tuple[int, str], list[RunView]] = {}
    for run in runs:
        cells.setdefault((run.model, run.board), []).append(run)
        if run.outcome != "pass":
            codes = dict.fromkeys(check.code for check in run.why if check.outcome == "fail")
            kind = run.kind or ", ".join(codes)
            failed.setdefault((run.exit_code, kind), []).append(run)
    groups = [
        OverviewGroup(code, OWNERS.get(code, "not known"), kind, tuple(same))
        for (code, kind), same in failed.items()
    ]
    groups.sort(key=lambda group: (-len(group.runs), group.exit_code, group.kind))
    return Overview(
        boards=tuple(boards),
        models=tuple(
            (model, tuple(tuple(cells.get((model, board), ())) for board in boards))
            for model in models
        ),
        groups=tuple(groups),
        passed=sum(run.outcome == "pass" for run in runs),
    )
