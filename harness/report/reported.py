"""Reported: a judged run, as every kind of report gets it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.check.checks import Verdict
from harness.check.history.comparison import HistoryComparison
from harness.check.history.samples import History
from harness.check.subject import Subject
from harness.report.postmortem import PostmortemDocument
from harness.result import Result


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """A run, or a trace alone, with its verdict.

    Attributes:
        title: The path where it was found, for people.
        subject: What was judged.
        verdict: What the checks said.
        result: The result of the run; None for a trace alone.
        history: What it was held against, if anything.
        comparison: What came of that, number by number.
        console: The end of the text that the board printed.
        postmortem: What the board was doing when it crashed in the run.
    """

    title: str
    subject: Subject
    verdict: Verdict
    result: Result | None = None
    history: History | None = None
    comparison: HistoryComparison | None = None
    console: str = ""
    postmortem: PostmortemDocument | None = None
