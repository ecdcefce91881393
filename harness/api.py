"""Run: a run of a model, live or loaded from disk, and what can be asked of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, Unpack
from weakref import finalize
from zipfile import is_zipfile

from harness.analyze.call_tree import MergedNode, merged_tree
from harness.analyze.compare import Comparison, compare
from harness.analyze.memory import AllocatorTotals, Memory
from harness.analyze.statistics import Executions, OperatorTimes, Statistic
from harness.check.budget import Budget
from harness.check.subject import Subject
from harness.config.board import Board
from harness.config.project import find_project
from harness.errors import ChecksFailedError, HarnessError, UsageError
from harness.files import absolute, write_atomic
from harness.formatting import printable
from harness.records.result import Failure, recorded_settings
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.report.description import failure_text
from harness.runs.evaluation import find_run, with_verdict
from harness.runs.history import HistoryRef, add_reported, history_of, with_judgements
from harness.runs.request import read_options, request_of
from harness.runs.run import run_model
from harness.runs.run_keywords import LoadKeywords, PathLike, RunKeywords
from harness.runs.source import EvaluatedRun, differing_outlines

if TYPE_CHECKING:
    import numpy as np

EXECUTE: Final = "Execute"
"""Name of the block of an execution."""

_MOST_NAMES: Final = 12
"""Names that a message lists."""


def find_operators(run: str, subject: Subject, pattern: str, block: str) -> list[OperatorTimes]:
    """Return all operators that match, in the order in which they were first seen.

    Args:
        run: The run, for messages.
        subject: Its trace.
        pattern: ``fnmatch`` pattern for the name of the event, case-sensitive.
        block: The same for the name of its block.

    Raises:
        UsageError: None matches.
    """
    known = subject.operators
    in_block = [operator for operator in known if fnmatchcase(operator.block, block)]
    operators = [operator for operator in in_block if fnmatchcase(operator.name, pattern)]
    if not operators:
        names = _names(operator.name for operator in in_block)
        blocks = _names(operator.block for operator in known)
        raise UsageError(
            f"no event of {run} matches {pattern!r} in block {block!r}",
            hint=f"there are {names}" if in_block else f"its blocks are {blocks}",
        )
    return [OperatorTimes(operator) for operator in operators]


def find_operator(
    run: str, subject: Subject, pattern: str, block: str, instruction: int | None
) -> OperatorTimes:
    """Return the one operator that matches, and has this instruction id unless it is None.

    Raises:
        UsageError: None matches, or several.
    """
    matching = [
        operator
        for operator in find_operators(run, subject, pattern, block)
        if instruction in (None, operator.instruction)
    ]
    if len(matching) != 1:
        listed = ", ".join(map(repr, matching[:_MOST_NAMES]))
        raise UsageError(
            f"{len(matching)} events of {run} match {pattern!r}, not one",
            hint=f"name one by its instruction, or ask for slowest(): {listed}",
        )
    return matching[0]


def find_allocator(run: str, subject: Subject, name: str) -> AllocatorTotals:
    """Return the totals of the allocator of this name.

    Raises:
        UsageError: There is none.
    """
    for totals in subject.allocators:
        if totals.label == name:
            return totals
    names = _names(totals.label for totals in subject.allocators)
    raise UsageError(f"{run} has no allocator {name!r}", hint=f"there are {names}")


def _names(names: Iterable[str]) -> str:
    distinct = [*dict.fromkeys(printable(name) for name in names)]
    more = len(distinct) - _MOST_NAMES
    return ", ".join(distinct[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


_log = logging.getLogger(__name__)


class RunContext:
    """Where a run is used: how it finds files, and what happens when a verdict is a failure."""

    def find_file(self, path: PathLike) -> Path:
        """Return the absolute path of a file that the caller named."""
        return absolute(path)

    def verdict_failed(self, error: Callable[[], ChecksFailedError], *, checked: bool) -> None:
        """Take note of a failed verdict; ``checked``: ``Run.check`` asked for it."""


class Run:
    """A run of a model on a board, or a trace alone; made by ``run`` and ``load``.

    It is the same whether it has just ended or was loaded from disk. Checks are evaluated when the
    verdict is first asked for.

    Attributes:
        path: Where it is kept: the run directory, trace file or bundle.
        directory: The run directory; None for a trace alone. Of a bundle it is a temporary copy.
        result: Content of ``result.json``; None for a trace alone.

    Examples:
        >>> import harness
        >>> run = harness.run("kws_int8", board="native", runs=3)
        >>> run
        <kws_int8.pte on native>
        >>> run.raise_for_verdict().passed
        True
        >>> run.operator("Method::execute").count
        3
    """

    def __init__(
        self,
        found: EvaluatedRun,
        *,
        budget: Path | Budget | None = None,
        against: HistoryRef | None = None,
        context: RunContext | None = None,
    ) -> None:
        """Wrap a run; use ``run`` or ``load`` to make one.

        Args:
            found: What ran and what it left.
            budget: The budget of ``verdict``, instead of the recorded one.
            against: The history of ``verdict``.
            context: Where it is used; None for a plain program.
        """
        self._found, self._budget, self._against = found, budget, against
        self._context = context or RunContext()
        self.path = found.directory or absolute(found.title)
        self.directory, self.result = found.directory, found.result

    @classmethod
    def execute(
        cls,
        model: PathLike,
        board: PathLike | Board | None = None,
        **options: Unpack[RunKeywords],
    ) -> Run:
        """Run a model on a board; see ``harness.run``."""
        request = request_of(model, board, options)
        progress = options.get("progress") or (lambda *_: None)
        ended: list[EvaluatedRun] = []
        try:
            run_model(request, progress, ended.append)
        except BaseException as error:
            if ended:
                error.add_note(f"the run is kept in {request.output}")
                with suppress(HarnessError):  # of two failures the first one counts
                    add_reported(request.history, ended[0])
            raise
        add_reported(request.history, ended[0])
        return cls(ended[0], against=request.against)

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        budget: PathLike | Budget | None = None,
        **options: Unpack[LoadKeywords],
    ) -> Run:
        """Load a run; see ``harness.load``."""
        file = absolute(path)
        rules = budget if isinstance(budget, Budget | None) else absolute(budget)
        if file.is_file() and is_zipfile(file):
            if options:
                raise UsageError(
                    f"{file} is a bundle, which is read with the options it records",
                    hint=f"leave out {', '.join(options)}",
                )
            return cls._of_bundle(file, rules)
        fallback = find_project().budget if rules is None else None
        return cls(find_run(file, read_options(options), fallback), budget=rules)

    @classmethod
    def _of_bundle(cls, bundle: Path, budget: Path | Budget | None) -> Run:
        from harness.report.formats import bundles

        scratch = Path(mkdtemp(prefix="etharness-bundle-"))
        try:
            evaluated = bundles(bundle).load(bundle, scratch)
        except BaseException:
            rmtree(scratch, ignore_errors=True)
            raise
        run = cls(evaluated, budget=budget)
        run.path = bundle
        finalize(run, rmtree, scratch, ignore_errors=True)  # the files live as long as the run
        return run

    def __repr__(self) -> str:
        what = f"{self.model or 'nothing'} on {self.unit}" if self.result else self.path.name
        return f"<{what}>"

    @property
    def subject(self) -> Subject:
        """The trace and what is known beside it, as checks see it.

        Raises:
            HarnessError: The run left no trace: the failure for which it ended.
        """
        if self._found.subject is None:
            where = "; each run in test_sets has one" if self._found.test_sets else ""
            raise self._found.error or UsageError(f"{self.path} holds no trace{where}")
        return self._found.subject

    @property
    def trace(self) -> Trace:
        """Everything that was logged, on its time scales."""
        return self.subject.trace

    @property
    def board(self) -> str:
        """Name of the board type; "" if unknown."""
        return self.result.board if self.result is not None else self.subject.board

    @property
    def unit(self) -> str:
        """Name of the unit; "" if unknown."""
        return self.result.unit if self.result is not None else ""

    @property
    def model(self) -> str:
        """Name of the model file; "" if unknown."""
        known = self.result and self.result.model
        return Path(known.file).name if known else ""

    @property
    def failure(self) -> Failure | None:
        """Why the run did not end; None if it ended."""
        return self._found.failure

    @property
    def outputs(self) -> list[np.ndarray]:
        """Outputs of the last execution, one array per output."""
        import numpy as np

        known = self.result and self.result.model
        if not known or not self.directory:
            return []
        return [np.load(self.directory / tensor.file) for tensor in known.outputs]

    @property
    def test_sets(self) -> list[Run]:
        """The runs of a bundled program's test sets, each with its own trace; else empty."""
        return [Run(each, context=self._context) for each in self._evaluate()[0].test_sets]

    @property
    def verdict(self) -> Verdict:
        """The verdict by the recorded budget and history of the run."""
        run, against = self._evaluate()
        if not run.verdict:
            self._context.verdict_failed(lambda: self._failed(run, against), checked=False)
        return run.verdict

    @property
    def passed(self) -> bool:
        """Whether the run ended and no check failed."""
        return self.failure is None and self._found.traced and bool(self.verdict)

    def check(
        self,
        budget: PathLike | Budget | None = None,
        *,
        history: str | None = None,
        baseline: str | None = None,
        record: bool = False,
    ) -> Verdict:
        """Evaluate the checks and return the verdict. In a test, a failed verdict fails the test.

        Args:
            budget: A budget or its file; None for the recorded one.
            history: Earlier results to compare with: SQLite file or postgresql:// URL.
            baseline: Which of them: ``last:20``, ``name:NAME`` or ``commit:PREFIX``.
            record: Record comparison and verdict in the run directory and the history, as
                ``etharness check`` does; otherwise nothing is written, as others may use them.

        Raises:
            ChecksFailedError: In a test, if a check failed.
            UsageError: The budget file is wrong, or there is no such history.
            NotComparableError: The baseline matches no result.
            InfrastructureError: The history does not answer.
            HarnessError: The run left no trace: the failure for which it ended.
        """
        __tracebackhide__ = True
        rules = budget if isinstance(budget, Budget | None) else self._context.find_file(budget)
        run, against = self._evaluate(rules, history, baseline, record=record)
        if not run.verdict:
            self._context.verdict_failed(lambda: self._failed(run, against), checked=True)
        return run.verdict

    def raise_for_verdict(self) -> Run:
        """Return the run itself if it passed.

        Raises:
            ChecksFailedError: A check failed; the message says which and why.
            HarnessError: The run did not end: the failure for which it ended.
        """
        if self._found.error is not None:
            raise self._found.error
        run, against = self._evaluate()
        if not run.verdict:
            raise self._failed(run, against)
        return self

    def operators(self, pattern: str = "*", *, block: str = EXECUTE) -> list[OperatorTimes]:
        """Return all operators whose name matches, in the order in which they were first seen.

        Args:
            pattern: ``fnmatch`` pattern for the name of the event, case-sensitive.
            block: The same for the name of its block.

        Raises:
            UsageError: None matches; the hint lists what there is.
        """
        return find_operators(repr(self), self.subject, pattern, block)

    def operator(
        self, pattern: str, *, block: str = EXECUTE, instruction: int | None = None
    ) -> OperatorTimes:
        """Return the one operator that matches.

        Args:
            pattern: As for ``operators``.
            block: Likewise.
            instruction: Its instruction id, where several operators have the same name.

        Raises:
            UsageError: None matches, or several; the hint lists them.
        """
        return find_operator(repr(self), self.subject, pattern, block, instruction)

    def slowest(
        self, pattern: str = "native_call_*", *, block: str = EXECUTE, statistic: str = "p50"
    ) -> OperatorTimes:
        """Return the slowest of the operators that match.

        Args:
            pattern: As for ``operators``.
            block: Likewise.
            statistic: The statistic to compare.

        Raises:
            UsageError: None matches.
        """
        operators = self.operators(pattern, block=block)
        return max(operators, key=lambda operator: float(getattr(operator, statistic)))

    def allocators(self) -> list[AllocatorTotals]:
        """Return the totals of every allocator, in the order in which they were first seen."""
        return self.subject.allocators

    def allocator(self, name: str) -> AllocatorTotals:
        """Return the totals of one allocator.

        Raises:
            UsageError: There is none of this name; the hint lists the others.
        """
        return find_allocator(repr(self), self.subject, name)

    def tree(self) -> list[MergedNode]:
        """Return the call tree; repeats of an event under the same ancestors are one node.

        Nodes are in depth-first order; ``parent`` is the index of the node around one, or -1.
        """
        return merged_tree(self.subject.tree)

    def memory(self) -> Memory:
        """Return every allocator over time: peaks, what was live then, fragmentation."""
        return self.subject.memory

    def compare(
        self,
        other: Run | PathLike,
        *,
        statistic: Statistic = "p50",
        executions: Executions = "all",
    ) -> Comparison:
        """Compare this run with a baseline, operator by operator.

        Args:
            other: The baseline: a run, or a path that ``load`` takes.
            statistic: The statistic of an operator's times to compare.
            executions: ``all``, only the ``cold`` first execution, or the ``warm`` ones after it.

        Returns:
            The changes, the largest regression first, and the ``settings`` in which both differ.
        """
        baseline = other if isinstance(other, Run) else Run.load(other)
        old, new = recorded_settings(baseline.result), recorded_settings(self.result)
        comparison = compare(
            baseline.trace,
            self.trace,
            statistic,
            executions,
            settings=(old, new),
            outlines=differing_outlines(baseline.result, self.result),
        )
        return with_judgements(
            comparison, (baseline.subject, baseline.result), (self.subject, self.result)
        )

    def report(self, path: PathLike) -> Path:
        """Write a report and return its path.

        Args:
            path: The file; the suffix selects the format: ``.html``, ``.json``, ``.md``,
                ``.sarif``, ``.xml`` (JUnit), ``.zip`` (bundle), or one of an installed plugin.

        Raises:
            UsageError: There is no such format, or the file cannot be written.
        """
        from harness.report.formats import write_report

        file = absolute(path)
        write_report(file, [self._evaluate()[0]])
        return file

    def export(
        self,
        path: PathLike,
        format: str,  # noqa: A002  the name that the command line has for it
        *,
        flavour: str | None = None,
        model: PathLike | None = None,
        etrecord: PathLike | None = None,
        method: str | None = None,
    ) -> tuple[str, ...]:
        """Write the trace in another tool's format; an existing file is replaced.

        Args:
            path: The file.
            format: Name of the format, such as ``perfetto`` (docs/exports.md), or of a plugin.
            flavour: A variant of the format.
            model: The ``.pte`` file that was executed: adds operands and names of delegates.
            etrecord: The ETRecord of the model: adds module paths.
            method: Its method; None for the one that fits the trace.

        Returns:
            What of the trace is not in the file, or not as it was; a line each.

        Raises:
            UsageError: There is no such format, or the file cannot be written.
            NotComparableError: The trace is not of this model.
        """
        from harness.decode.dumps import Dump
        from harness.runs.source import Source, export_source

        file = absolute(path)
        try:
            exported = export_source(
                Source((Dump(self.trace),), self.result),
                format,
                flavour,
                directory=self._found.directory,
                model=None if model is None else find_project().find_model(Path(model)),
                etrecord=None if etrecord is None else absolute(etrecord),
                method=method,
            )
            write_atomic(file, exported.data)
        except OSError as error:
            raise UsageError(f"cannot export to {file}: {error.strerror}") from error
        return exported.notes

    @cached_property
    def _own(self) -> EvaluatedRun:
        """The run with the verdict of its own budget."""
        if self._found.verdict.checks:
            return self._found
        return with_verdict(self._found)

    def _evaluate(
        self,
        budget: Path | Budget | None = None,
        history: str | None = None,
        baseline: str | None = None,
        record: bool = False,
    ) -> tuple[EvaluatedRun, HistoryRef | None]:
        rules = self._budget if budget is None else budget
        against = self._against
        if history is not None or baseline is not None:
            url = history or (against.url if against is not None else None)
            against = history_of(url, baseline)
        if rules is None and against == self._against:
            return self._own, against
        if against is not None and self._found.subject is None and self._found.error is not None:
            raise self._found.error
        return with_verdict(self._found, rules, against, record=record), against

    def _failed(self, run: EvaluatedRun, against: HistoryRef | None) -> ChecksFailedError:
        return ChecksFailedError(failure_text(run, against), verdict=run.verdict)


def run(
    model: PathLike,
    board: PathLike | Board | None = None,
    **options: Unpack[RunKeywords],
) -> Run:
    """Run a model on a board, pull its trace and check it, like ``etharness run``.

    The rest comes from the environment, then from ``[tool.etharness]`` in ``pyproject.toml``.

    Args:
        model: The ``.pte`` file, or the name of a packaged model such as ``kws_int8``.
        board: Board name, board file, or a loaded ``Board``.
        **options: ``runs``, ``unit``, ``port``, ``output``, ``budget``, ``history``, ``baseline``,
            ``flash``, ``progress``, ``elf`` and the others of
            ``harness.RunKeywords``.

    Returns:
        The finished run, whether or not its checks passed.

    Raises:
        UsageError: The request is wrong; nothing was started.
        TargetError: The board misbehaved: crash, hang, unsupported model.
        InfrastructureError: The link, a tool or the host failed; a retry is safe.

    Examples:
        >>> import harness
        >>> run = harness.run("kws_int8", board="native", runs=3)
        >>> run.result.runs_completed
        3
    """
    return Run.execute(model, board, **options)


def load(
    path: PathLike, *, budget: PathLike | Budget | None = None, **options: Unpack[LoadKeywords]
) -> Run:
    """Load a run from disk.

    Args:
        path: A run directory, device log, ETDump (``.etdp``), console capture, or bundle
            (``.zip``).
        budget: A budget or its file; None for the one that the run was evaluated with.
        **options: What the file does not say: see ``harness.LoadKeywords``.

    Returns:
        The run. A trace alone has no ``result``; a failed run has a ``failure``.

    Raises:
        UsageError: There is nothing at the path.
        DamagedError: A file of a run directory is not as the run left it.
        FormatError: The file is not valid; the message says where.

    Examples:
        >>> import harness
        >>> live = harness.run("kws_int8", board="native", output="out/kws")
        >>> harness.load("out/kws").trace == live.trace
        True
    """
    return Run.load(path, budget=budget, **options)
