"""A matrix of models by boards: in each cell how its runs ended, and the numbers of the latest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report.summaries import STATES, RunState, RunSummary, word_of


@dataclass(frozen=True, slots=True)
class MatrixLink:
    """A run in a cell.

    Attributes:
        state: How it ended.
        text: What the link says.
        href: Where it leads; empty for nowhere.
        about: Which run it is, and why it did not pass.
    """

    state: RunState
    text: str
    href: str
    about: str


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The runs of a model on a type of board.

    Attributes:
        counts: How many ended in each state.
        latest: The latest run with numbers; None without one.
        links: Runs to look at, the most urgent first.
        regressions: What comparisons with other runs found worse.
    """

    counts: Mapping[RunState, int]
    latest: RunSummary | None = None
    links: tuple[MatrixLink, ...] = ()
    regressions: tuple[str, ...] = ()

    @property
    def state(self) -> RunState:
        """The most urgent state of its runs."""
        return next((state for state in STATES if self.counts.get(state)), "not run")

    @property
    def text(self) -> str:
        """How its runs ended, in a few words."""
        total = sum(self.counts.values())
        passed = self.counts.get("pass", 0)
        if total == 1:
            return word_of(self.state)
        parts = [f"{passed:,} of {total:,} passed"] if passed else []
        parts += [
            f"{count:,} {word_of(state) if count == 1 else STATES[state]}"
            for state, count in self.counts.items()
            if count and state != "pass"
        ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Models by boards.

    Attributes:
        boards: Names of boards, which head the columns.
        rows: Names of models, and a cell for each board; None where nothing was to run.
    """

    boards: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell | None, ...]], ...]


def matrix_of(cells: Mapping[tuple[str, str], MatrixCell]) -> Matrix:
    """Arrange cells by model and board."""
    boards = sorted({board for _, board in cells})
    models = sorted({model for model, _ in cells})
    rows = [(model, tuple(cells.get((model, board)) for board in boards)) for model in models]
    return Matrix(tuple(boards), tuple(rows))


def latest_with_numbers(runs: Sequence[RunSummary]) -> RunSummary | None:
    """Return the last of ``runs``, oldest first, whose execution was timed."""
    return next((run for run in reversed(runs) if run.execution is not None), None)
