"""Reported: a judged run, as every kind of report gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.check.checks import Verdict
from harness.check.history.comparison import HistoryComparison
from harness.check.history.samples import History
from harness.check.subject import Subject
from harness.report.postmortem import PostmortemDocument
from harness.result import Failure, Result


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """A run, or a trace alone, with its verdict.

    A run that failed is reported, too: ``failure`` says why, and without a trace there is neither a
    subject nor any check.

    Attributes:
        title: The path where it was found, for people.
        subject: What was judged; None for a run that left no trace.
        verdict: What the checks said; no checks without a subject.
        result: The result of the run; None for a trace alone.
        history: What it was held against, if anything.
        comparison: What came of that, number by number.
        console: The end of the text that the board printed.
        postmortem: What the board was doing when it crashed in the run.
        budget: The budget file that it was held against; "" for none.
        directory: The run directory; None for a trace alone.
    """

    title: str
    subject: Subject | None
    verdict: Verdict
    result: Result | None = None
    history: History | None = None
    comparison: HistoryComparison | None = None
    console: str = ""
    postmortem: PostmortemDocument | None = None
    budget: str = ""
    directory: Path | None = None

    @property
    def failure(self) -> Failure | None:
        """Why the run did not end; None when it did."""
        return None if self.result is None else self.result.failure

    @property
    def passed(self) -> bool:
        """The run ended, and no check failed that is an error."""
        return self.failure is None and self.verdict.passed


def all_passed(runs: Sequence[Reported]) -> bool:
    """Whether every run did."""
    return all(run.passed for run in runs)
