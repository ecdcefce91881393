"""A judged run: what ran, what was measured and what the checks said, as every report gets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from harness.analyze.postmortem import PostmortemDocument
from harness.check.history.comparison import HistoryComparison
from harness.check.history.samples import History
from harness.check.subject import Subject
from harness.errors import (
    HarnessError,
    InfrastructureError,
    NotComparableError,
    TargetError,
    UsageError,
)
from harness.records.clock_domain import ClockDomain
from harness.records.result import Failure, Result, VerdictRecord
from harness.records.verdict import Verdict


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a trace was read and judged with, besides what its run directory holds.

    Attributes:
        clock: What the ticks count, where the file does not say.
        salvage: What is intact of a damaged file was read.
        debug_buffer: Where the bytes of logged tensors are.
        time_scales: What the ticks of delegates' events mean, by patterns.
        etrecord: What the model's exporter knew.
        day: The day that waivers with an end are asked for; None for that of the run, or today.
        board: The board type whose rules count, for a trace without a result.
        model: The model whose rules count, likewise.
        clock_bits: Width of the counter of clock 0, if not what the file says.
    """

    clock: ClockDomain | None = None
    salvage: bool = False
    debug_buffer: Path | None = None
    time_scales: Mapping[str, str] = field(default_factory=dict)
    etrecord: Path | None = None
    day: date | None = None
    board: str = ""
    model: str = ""
    clock_bits: int | None = None


NOTHING_GIVEN: Final = ReadOptions()

_OWNERS: Final = {
    error.exit_code: error
    for error in (UsageError, NotComparableError, TargetError, InfrastructureError)
}


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
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
        given: What it was read and judged with.
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
    given: ReadOptions = NOTHING_GIVEN

    @property
    def failure(self) -> Failure | None:
        """Why the run did not end; None when it did."""
        return None if self.result is None else self.result.failure

    @property
    def error(self) -> HarnessError | None:
        """The recorded failure as an exception of its owner; None when the run ended."""
        if self.result is None or self.failure is None:
            return None
        kind = _OWNERS.get(self.result.exit_code, InfrastructureError)
        return kind(self.failure.message, hint=self.failure.hint)

    @property
    def passed(self) -> bool:
        """The run ended, and no check failed that is an error."""
        return self.failure is None and self.verdict.passed


def all_passed(runs: Sequence[JudgedRun]) -> bool:
    """Whether every run did."""
    return all(run.passed for run in runs)


class RunJudgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``etharness replay --json`` prints, and ``verdict.json`` in a bundle.

    Attributes:
        exit_code: Of the run, or of its check.
        failure: The kind of error for which the run did not end; "" when it did.
        verdict: What the checks said; null for a run that left no trace. The budget is a file of
            the bundle.
        postmortem: What the board was doing when it crashed; places in its firmware are left out,
            as they depend on the toolchain that looks them up.
    """

    exit_code: int
    failure: str
    verdict: VerdictRecord | None
    postmortem: PostmortemDocument | None
