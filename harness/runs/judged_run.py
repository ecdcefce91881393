"""An evaluated run: result, measurements, verdict and evidence, the input of every report."""

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
    """Options for reading and evaluating a trace, in addition to its run directory.

    Attributes:
        clock: Clock of a file that does not record one.
        salvage: Read the intact part of a damaged file.
        debug_buffer: File with the bytes of logged tensors.
        time_scales: Time scales of delegate events, by pattern.
        etrecord: The ETRecord of the model.
        day: Date for waivers that expire; None for the date of the run, or today.
        board: Board type for the rules, for a trace without a result.
        model: Model for the rules, for a trace without a result.
        clock_bits: Width of the counter of clock 0; None for that of the file.
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


DEFAULT_OPTIONS: Final = ReadOptions()

_OWNERS: Final = {
    error.exit_code: error
    for error in (UsageError, NotComparableError, TargetError, InfrastructureError)
}


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """A run, or a trace alone, with its verdict.

    A failed run has a ``failure``; without a trace it has no subject and no checks.

    Attributes:
        title: Its path, for people.
        subject: The evaluated trace; None for a run without a trace.
        verdict: The verdict; it has no checks without a subject.
        result: The result of the run; None for a trace alone.
        history: The history that it was compared with; None without one.
        comparison: The comparison with the history, metric by metric.
        console: The end of the board's console output.
        postmortem: The postmortem of a crash during the run.
        budget: The budget file; "" for none.
        directory: The run directory; None for a trace alone.
        given: The options that it was read and evaluated with.
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
    given: ReadOptions = DEFAULT_OPTIONS

    @property
    def failure(self) -> Failure | None:
        """The failure of the run; None if it completed."""
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
        """Whether the run completed and no check of severity error failed."""
        return self.failure is None and self.verdict.passed

    @property
    def exit_code(self) -> int:
        """Exit code of the run if it failed, else of its verdict."""
        if self.result is not None and self.failure is not None:
            return self.result.exit_code
        return self.verdict.exit_code


def all_passed(runs: Sequence[JudgedRun]) -> bool:
    """Whether every run passed."""
    return all(run.passed for run in runs)


class RunJudgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document of ``etharness replay --json``, and ``verdict.json`` of a bundle.

    Attributes:
        exit_code: Exit code of the run, or of its check.
        failure: Class of the run's failure; "" if it completed.
        verdict: The verdict; null for a run without a trace. Its budget is a file of the bundle.
        postmortem: The postmortem of a crash, without source locations, because these depend on
            the installed toolchain.
    """

    exit_code: int
    failure: str
    verdict: VerdictRecord | None
    postmortem: PostmortemDocument | None
