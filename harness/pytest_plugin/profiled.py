"""A finished run, as tests ask and judge it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.analyze.allocators import AllocatorTotals
from harness.analyze.statistics import Operator, Summary
from harness.check.budget import load_budget
from harness.check.evaluate import NO_LIMITS
from harness.check.history.samples import History
from harness.check.subject import Subject
from harness.errors import UsageError
from harness.formatting import printable
from harness.history.entries import provenance_of
from harness.pytest_plugin.cases import Case, CaseUnit, budget_of, find_file, with_files
from harness.pytest_plugin.durations import Duration
from harness.pytest_plugin.kept import fail, use
from harness.pytest_plugin.messages import ChecksFailedError, failure_text
from harness.pytest_plugin.running import Runs, history_of
from harness.records.result import Result
from harness.records.trace import Trace
from harness.records.verdict import Check, Verdict
from harness.runs.baseline import HistoryRef
from harness.runs.evaluation import judged
from harness.runs.judged_run import JudgedRun

if TYPE_CHECKING:
    import numpy as np

EXECUTE: Final = "Execute"
"""Name of the block of an execution."""

_MOST_NAMES: Final = 12
"""Names that a message lists."""


class _Time:
    """A statistic of an operator's times, as a duration."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, times: OperatorTimes, _owner: type) -> Duration:
        return Duration(getattr(times.in_time, self._name))


class OperatorTimes:
    """What the repeats of one operator took; durations in nanoseconds.

    Attributes:
        name: The event's name.
        block: Its block's.
        instruction: Its instruction id.
        count: How often it ran.
        operator: All that is known of it.
    """

    total, avg, p10, p50, p90, min, max, std = (_Time() for _ in range(8))

    def __init__(self, operator: Operator) -> None:
        """Wrap an operator's statistics."""
        self.operator = operator
        self.name, self.block = operator.name, operator.block
        self.instruction, self.count = operator.instruction, len(operator.rows)

    @property
    def ticks(self) -> Summary:
        """The same statistics in ticks of its own clock.

        Raises:
            UsageError: All its events end before they start.
        """
        if self.operator.ticks is None:
            raise UsageError(
                f"what {self.name} took is unknown: all its events end before they start",
                hint="see what check I03 says of the clock",
            )
        return self.operator.ticks

    @property
    def in_time(self) -> Summary:
        """Statistics in nanoseconds.

        Raises:
            UsageError: The rate of its clock is unknown.
        """
        _ = self.ticks
        if self.operator.ns is None:
            raise UsageError(
                f"the rate of clock {self.operator.clock.name!r} is unknown, so {self.name} has no "
                "times",
                hint="ask for ticks: .ticks.p50",
            )
        return self.operator.ns

    def __repr__(self) -> str:
        shown = "unknown"
        if self.operator.ticks is not None:
            shown = f"{self.ticks.p50:g} ticks" if self.operator.ns is None else f"{self.p50}"
        return f"<{printable(self.name)}, instruction {self.instruction}: p50 {shown}>"


class RunVerdict:
    """What the checks said of a run; true when it passed.

    Attributes:
        checks: All of them.
        failures: Those for which it is a failure.
        warnings: Those that do not hold, but for which it is none.
    """

    def __init__(self, verdict: Verdict, text: Callable[[], str]) -> None:
        """Wrap a verdict; ``text`` says what fails."""
        self.checks: tuple[Check, ...] = verdict.checks
        self.failures, self.warnings = verdict.failures, verdict.warnings
        self._text = text

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        if self:
            return f"<PASS: {len(self.checks)} checks>"
        from harness.report.description import describe_verdict

        return f"<{describe_verdict(Verdict(tuple(self.checks))).line}>"


class ProfiledRun:
    """A finished run of a model on a board.

    Attributes:
        unit: What it ran on.
        directory: Its run directory.
        result: What ``result.json`` says.
        subject: The trace and what is known beside it, as checks see it.
    """

    def __init__(
        self,
        run: JudgedRun,
        unit: CaseUnit,
        node: pytest.Item,
        budget: Path | None = None,
        against: HistoryRef | None = None,
    ) -> None:
        """Wrap a judged run for one test, with its budget and history unless they are None."""
        if run.result is None or run.subject is None or run.directory is None:
            raise UsageError(f"{run.title} holds no finished run")
        self._run, self._node, self._budget, self._against = run, node, budget, against
        self.unit, self.directory = unit, run.directory
        self.result: Result = run.result
        self.subject: Subject = run.subject

    def __repr__(self) -> str:
        model = self.result.model
        what = Path(model.file).name if model is not None else "nothing"
        return f"<{what} on {self.unit.name}>"

    @property
    def trace(self) -> Trace:
        """Everything that was logged, on its time scales."""
        return self.subject.trace

    @property
    def outputs(self) -> list[np.ndarray]:
        """What came out of the last execution, an array per output."""
        import numpy as np

        files = self.result.model.outputs if self.result.model is not None else ()
        return [np.load(self.directory / tensor.file) for tensor in files]

    @property
    def verdict(self) -> RunVerdict:
        """What the checks said of it by the budget of the test, or else of the board.

        With ``--etharness-history``, they also hold it against earlier results.
        """
        return self._judged()

    def check(
        self,
        budget: str | os.PathLike[str] | None = None,
        *,
        history: str | None = None,
        baseline: str | None = None,
    ) -> RunVerdict:
        """Fail the test unless every check holds.

        Args:
            budget: A budget file, found beside the test's or from the root of the project; None for
                that of the marker, the command line or the board.
            history: Earlier results that it is held against: an SQLite file or postgresql:// URL;
                None for that of the command line.
            baseline: Which of them: ``last:20``, ``name:NAME`` or ``commit:PREFIX``; None for what
                the command line says, or the last twenty.

        Returns:
            The verdict, with what are no failures but warnings.

        Raises:
            ChecksFailedError: Some do not hold; the message says which and why, and where the
                run is kept.
            UsageError: The budget file is wrong, or there is no such history.
            NotComparableError: The baseline means no result.
            InfrastructureError: The history does not answer.
        """
        __tracebackhide__ = True
        verdict = self._judged(budget, history, baseline)
        if not verdict:
            raise ChecksFailedError(str(verdict))
        return verdict

    def operators(self, pattern: str = "*", *, block: str = EXECUTE) -> list[OperatorTimes]:
        """All operators whose name matches, first seen first.

        Args:
            pattern: ``fnmatch`` pattern on the event's name, case-sensitive.
            block: The same on the name of its block.

        Raises:
            UsageError: None does; the hint lists what there is.
        """
        known = self.subject.operators
        there = [operator for operator in known if fnmatchcase(operator.block, block)]
        found = [operator for operator in there if fnmatchcase(operator.name, pattern)]
        if not found:
            names = _names(operator.name for operator in there)
            blocks = _names(operator.block for operator in known)
            raise UsageError(
                f"no event of {self!r} matches {pattern!r} in block {block!r}",
                hint=f"there are {names}" if there else f"its blocks are {blocks}",
            )
        return [OperatorTimes(operator) for operator in found]

    def operator(
        self, pattern: str, *, block: str = EXECUTE, instruction: int | None = None
    ) -> OperatorTimes:
        """The one operator that matches.

        Args:
            pattern: As for ``operators``.
            block: Likewise.
            instruction: Its instruction id, where several have one name.

        Raises:
            UsageError: None does, or several; the hint lists them.
        """
        found = [
            operator
            for operator in self.operators(pattern, block=block)
            if instruction in (None, operator.instruction)
        ]
        if len(found) != 1:
            listed = ", ".join(map(repr, found[:_MOST_NAMES]))
            raise UsageError(
                f"{len(found)} events of {self!r} match {pattern!r}, not one",
                hint=f"name one by its instruction, or ask for slowest(): {listed}",
            )
        return found[0]

    def slowest(
        self, pattern: str = "native_call_*", *, block: str = EXECUTE, statistic: str = "p50"
    ) -> OperatorTimes:
        """The operator that takes longest of those that match.

        Args:
            pattern: As for ``operators``.
            block: Likewise.
            statistic: By which of an operator's statistics.

        Raises:
            UsageError: None matches.
        """
        found = self.operators(pattern, block=block)
        return max(found, key=lambda operator: float(getattr(operator, statistic)))

    def allocator(self, name: str) -> AllocatorTotals:
        """What an allocator held.

        Raises:
            UsageError: There is none of that name; the hint lists those that are.
        """
        for totals in self.subject.allocators:
            if totals.label == name:
                return totals
        names = _names(totals.label for totals in self.subject.allocators)
        raise UsageError(f"{self!r} has no allocator {name!r}", hint=f"there are {names}")

    def _judged(
        self,
        budget: str | os.PathLike[str] | None = None,
        history: str | None = None,
        baseline: str | None = None,
    ) -> RunVerdict:
        file = self._budget if budget is None else find_file(budget, self._node)
        against = self._against
        if history is not None or baseline is not None:
            url = history or (against.url if against is not None else None)
            against = history_of(url, baseline)
        run = self._run
        if file is not None or against != self._against:
            file = file or (Path(run.budget) if run.budget else None)
            earlier = None if against is None else self._earlier(against, file)
            run = judged(
                *(run.title, self.trace, self.result, file, self.directory), history=earlier
            )
        verdict = RunVerdict(run.verdict, lambda: failure_text(run, self.unit, against))
        if not verdict:
            fail(self._node, str(verdict))
        return verdict

    def _earlier(self, against: HistoryRef, budget: Path | None) -> History:
        """Fetch results; they are not kept in the directory, which other workers may use, too."""
        subject = self.subject
        rules = NO_LIMITS
        if budget is not None:
            rules = load_budget(budget, subject.board, subject.model, subject.unit)
        return against.fetch(provenance_of(self.result), rules.history)


def profile(
    node: pytest.Item,
    runs: Runs,
    case: Case,
    model: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> ProfiledRun:
    """Run a model on the unit of a case, unless that has been done.

    Args:
        node: The test.
        runs: Where runs are.
        case: The test's.
        model: The model; None for that of the case.
        options: Of the run, before those of the case.

    Raises:
        HarnessError: There is no model, or the run failed.
    """
    file = case.model if model is None else find_file(model, node)
    if file is None:
        raise UsageError(
            "the test names no model", hint='mark it: @pytest.mark.etharness(model="model.pte")'
        )
    options = {**case.options, **with_files(options, node)}
    directory = runs.directory_of(case.unit, file, options)
    use(node, directory)
    found = runs.get(case.unit, file, options)
    run = ProfiledRun(found, case.unit, node, budget_of(case.budget, node), runs.against)
    model_ = run.result.model
    target = run.result.target
    node.user_properties += [
        ("etharness_version", run.result.tool_version),
        ("etharness_model", file.name),
        ("etharness_model_sha256", model_.sha256 if model_ else ""),
        ("etharness_build_id", target.build_id if target else ""),
    ]
    return run


def _names(names: Any) -> str:
    distinct = [*dict.fromkeys(printable(name) for name in names)]
    more = len(distinct) - _MOST_NAMES
    return ", ".join(distinct[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
