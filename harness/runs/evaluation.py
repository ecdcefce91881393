"""Evaluates a run: its verdict depends only on the run directory, the budget and the history.

``run``, ``check``, ``report`` and ``replay`` share this evaluation, so their verdicts agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from harness.analyze.postmortem import PostmortemDocument
from harness.check.budget import Budget, load_budget
from harness.check.evaluate import DEFAULT_BUDGET, evaluate
from harness.check.history.compare import compare_with_history
from harness.check.history.comparison import HistoryComparison
from harness.check.history.measure import durations_of, numbers_of, ticks_of
from harness.check.history.samples import History, Measured
from harness.check.subject import Subject, model_name
from harness.decode.dumps import Dump
from harness.errors import (
    DamagedError,
    FormatError,
    HarnessError,
    InfrastructureError,
    NotComparableError,
    TargetError,
    UsageError,
)
from harness.files import MOST_DOCUMENT, display_path, read_limited, read_tail
from harness.formatting import with_printable_text
from harness.history.entries import provenance_of
from harness.records.contradictions import changed_outputs
from harness.records.decode_json import decode_json
from harness.records.result import RESTORE, Failure, Result, VerdictRecord, moment
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.runs.baseline import HistoryRef
from harness.runs.directory import (
    CONSOLE,
    POSTMORTEM,
    RESULT,
    RunDirectory,
    load_history,
    save_history,
    save_verdict,
)
from harness.runs.source import (
    DEFAULT_OPTIONS,
    ReadOptions,
    Source,
    compared_outputs,
    load_metadata,
    load_with_options,
)
from harness.runs.test_sets import combined_verdict

_CONSOLE_END: Final = 4096
"""Bytes of console output that reports show, from the end."""


_OWNERS: Final = {
    error.exit_code: error
    for error in (UsageError, NotComparableError, TargetError, InfrastructureError)
}


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedRun:
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
        test_sets: The runs of the test sets of a bundled program, which itself has no subject.
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
    test_sets: tuple[EvaluatedRun, ...] = ()

    @property
    def parts(self) -> tuple[EvaluatedRun, ...]:
        """The runs with traces: those of the test sets, or else this run itself."""
        return self.test_sets or (self,)

    @property
    def traced(self) -> bool:
        """Whether it has a trace, or test sets with traces."""
        return self.subject is not None or bool(self.test_sets)

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


def all_passed(runs: Sequence[EvaluatedRun]) -> bool:
    """Whether every run passed."""
    return all(run.passed for run in runs)


class BundleVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


def evaluate_run(
    title: str,
    trace: Trace,
    result: Result | None = None,
    budget: Path | Budget | None = None,
    directory: Path | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    history: History | HistoryRef | None = None,
    dumps: tuple[int, ...] = (),
) -> EvaluatedRun:
    """Evaluate a trace by the invariants, the budget and the history.

    Args:
        title: Path of the run or trace, for people.
        trace: The trace, on its time scales.
        result: The result of its run; None for a trace alone.
        budget: A budget or its file; without one, only invariants are checked.
        directory: The run directory; None for a trace alone.
        given: The options that the trace was read with.
        history: A history, or a reference to fetch one and save it in the run directory; by
            default the history saved there before.
        dumps: Rows at which further dumps begin, for a trace made of several.

    Raises:
        UsageError: The budget file is invalid, the ETRecord or history does not exist, or there is
            no result to compare with a history.
        NotComparableError: The ETRecord is of another model, or the baseline matches no result.
        InfrastructureError: The history does not answer.
    """
    subject = replace(subject_of(trace, result, given, directory), dumps=dumps)
    facts = EvaluatedRun(title, subject, Verdict(()), result, directory=directory, given=given)
    return with_verdict(facts, budget, history)


def with_verdict(
    run: EvaluatedRun,
    budget: Path | Budget | None = None,
    history: History | HistoryRef | None = None,
    *,
    record: bool = True,
) -> EvaluatedRun:
    """Evaluate the checks of a run, whether or not that was done before.

    Args:
        run: The run; without a trace it is returned as it is.
        budget: A budget or its file; without one, only what always holds is checked.
        history: As for ``evaluate_run``.
        record: Save a fetched history and the verdict in the run directory, and record the verdict
            in the history.

    Raises:
        HarnessError: As ``evaluate_run``.
    """
    if run.test_sets:
        evaluate_one = partial(with_verdict, budget=budget, history=history, record=record)
        runs = tuple(map(evaluate_one, run.test_sets))
        return replace(run, verdict=_combined(runs), budget=runs[0].budget, test_sets=runs)
    if run.subject is None:
        return run
    return _with_own_verdict(run, run.subject, budget, history, record=record)


def with_trends(run: EvaluatedRun, history: HistoryRef) -> EvaluatedRun:
    """Add earlier results for reports to draw, which leave the verdict as it is.

    A history that does not answer, or has no such baseline, leaves the run without them.
    """
    if run.test_sets:
        return replace(run, test_sets=tuple(with_trends(one, history) for one in run.test_sets))
    if run.subject is None or run.result is None or run.history is not None:
        return run
    try:
        found = history.fetch(provenance_of(run.result), DEFAULT_BUDGET.history)
    except (UsageError, NotComparableError, InfrastructureError):
        return run
    return replace(run, history=found)


def _with_own_verdict(
    run: EvaluatedRun,
    subject: Subject,
    budget: Path | Budget | None,
    history: History | HistoryRef | None,
    *,
    record: bool,
) -> EvaluatedRun:
    """Evaluate the checks of a run with a trace."""
    result, directory = run.result, run.directory
    rules, file = budget, ""
    if isinstance(rules, Path):
        file = str(rules)
        rules = load_budget(rules, subject.board, subject.model, subject.unit)
    if history is None and directory is not None:
        history = load_history(directory)
    comparison, source = None, history if record else None
    if history is not None:
        if result is None:
            raise UsageError(
                f"{run.title} has no result to compare with a history",
                hint="give a run directory: it records commit, model and board",
            )
        if isinstance(history, HistoryRef):
            history = history.fetch(provenance_of(result), (rules or DEFAULT_BUDGET).history)
            if directory is not None and record:
                save_history(directory, history)
        comparison = compare_with(history, subject, result, rules)
    verdict = evaluate(subject, rules, comparison)
    if result is not None and directory is not None and (doubt := changed_outputs(result, verdict)):
        raise DamagedError(f"{directory / RESULT}: damaged: {doubt}", hint=RESTORE)
    evaluated = replace(
        run,
        verdict=Verdict(tuple(map(with_printable_text, verdict.checks))),
        history=history,
        comparison=comparison,
        budget=file,
    )
    if isinstance(source, HistoryRef) and result is not None and result.files is not None:
        # A check after the run. The run itself records its verdict with its result.
        if directory is not None:
            save_verdict(directory, verdict_record(evaluated))
        source.record(result.id, verdict_record(evaluated))
    return evaluated


def evaluate_test_sets(
    title: str, result: Result, test_sets: Sequence[EvaluatedRun], directory: Path
) -> EvaluatedRun:
    """Return the run of a bundled program, with the checks of all its evaluated test sets."""
    return EvaluatedRun(
        title,
        None,
        _combined(test_sets),
        result,
        budget=test_sets[0].budget,
        directory=directory,
        test_sets=tuple(test_sets),
    )


def _combined(test_sets: Sequence[EvaluatedRun]) -> Verdict:
    """Return the verdict of evaluated test sets."""
    return combined_verdict(
        (each.result.model.method, each.result.test_set, each.verdict)
        for each in test_sets
        if each.result and each.result.model and each.result.test_set is not None
    )


def compare_with(
    history: History, subject: Subject, result: Result, budget: Budget | None
) -> HistoryComparison:
    """Compare a run with its history.

    Raises:
        UsageError: SciPy or ruptures is not installed.
    """
    limits = (budget or DEFAULT_BUDGET).history
    measured = Measured(provenance_of(result), numbers_of(subject, limits), ticks_of(subject))
    return compare_with_history(history, [measured], limits, durations_of(subject))


def evaluate_path(
    path: Path,
    budget: Path | Budget | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    history: History | HistoryRef | None = None,
    fallback: Path | None = None,
    load: Callable[[Path], Source] | None = None,
) -> EvaluatedRun:
    """Evaluate a run directory or a file with traces.

    Args:
        path: A run directory, also of a failed run, or a file with traces.
        budget: A budget or its file; None for the budget of the recorded verdict.
        given: The options that the traces are read with.
        history: As for ``evaluate_run``.
        fallback: Budget file for a trace without a result.
        load: Reads the traces of a path; None for ``load_with_options``.

    Raises:
        UsageError: The path does not exist, or the budget file is invalid.
        DamagedError: A file of a run is damaged, salvaged or not.
        FormatError: The trace is invalid, and not because its run failed.
    """
    run = find_run(path, given, fallback, load)
    if budget is None and run.budget:
        budget = Path(run.budget)
    return with_verdict(run, budget, history)


def find_run(
    path: Path,
    given: ReadOptions = DEFAULT_OPTIONS,
    fallback: Path | None = None,
    load: Callable[[Path], Source] | None = None,
) -> EvaluatedRun:
    """Read what is at ``path``, without evaluating any check.

    Args:
        path: A run directory, also of a failed run, or a file with traces.
        given: The options that the traces are read with.
        fallback: Budget file for a trace without a result.
        load: Reads the traces of a path; None for ``load_with_options``.

    Returns:
        The run without checks; its ``budget`` is the file of the recorded verdict.

    Raises:
        HarnessError: As ``evaluate_path``, but for budgets.
    """
    load = load or partial(load_with_options, given=given)
    run = RunDirectory(path)
    directory = path if run.is_one else None
    result = run.read_result() if directory else None
    if result is not None and result.test_sets:
        return _find_test_sets(run, result, given)
    if result is not None and result.failure is not None:
        unread = EvaluatedRun(
            display_path(path), None, Verdict(()), result, directory=directory, given=given
        )
        if run.trace_file is None:
            run.load_result()
            return with_evidence(unread)
        try:
            source = load(path).require_sound()
        except FormatError:  # an invalid log may be why the run failed
            return with_evidence(unread)
    else:
        source = load(path).require_sound()
    known = source.result
    budget = str(fallback or "") if known is None else ""
    if known is not None and known.verdict is not None:
        budget = known.verdict.budget
    subject = subject_of(source.trace, known, given, directory)
    subject = replace(subject, dumps=source.later_dumps)
    return with_evidence(
        EvaluatedRun(
            display_path(path),
            subject,
            Verdict(()),
            known,
            budget=budget,
            directory=directory,
            given=given,
        )
    )


def _find_test_sets(run: RunDirectory, result: Result, given: ReadOptions) -> EvaluatedRun:
    """Read the run of a bundled program with those of its test sets."""
    runs = []
    for record in result.test_sets:
        found = find_run(run.path / record.directory, given)
        if found.result is None or found.result.id != record.id:
            raise DamagedError(
                f"{found.title}: damaged: not the run that {run.path / RESULT} records",
                hint=RESTORE,
            )
        runs.append(found)
    whole = EvaluatedRun(
        display_path(run.path),
        None,
        Verdict(()),
        result,
        budget=result.verdict.budget if result.verdict is not None else "",
        directory=run.path,
        given=given,
        test_sets=tuple(runs),
    )
    return with_evidence(whole)


def with_evidence(run: EvaluatedRun) -> EvaluatedRun:
    """Add the end of the console output and the postmortem from the run directory."""
    if run.directory is None:
        return run
    console, crash = run.directory / CONSOLE, run.directory / POSTMORTEM
    printed = read_tail(console, _CONSOLE_END) if console.is_file() else b""
    document = None
    if crash.is_file():
        try:
            document = decode_json(read_limited(crash, MOST_DOCUMENT), type_=PostmortemDocument)
        except msgspec.DecodeError as error:
            raise FormatError(f"{crash}: invalid postmortem document: {error}") from error
    text = printed.decode(errors="backslashreplace")
    return replace(run, console=text, postmortem=document)


def verdict_record(run: EvaluatedRun) -> VerdictRecord:
    """Return the verdict as a result records it."""
    verdict = run.verdict
    return VerdictRecord(passed=verdict.passed, budget=run.budget, checks=verdict.checks)


def subject_of(
    trace: Trace,
    result: Result | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    directory: Path | None = None,
) -> Subject:
    """Return the subject of an evaluation: a trace with the facts of its result and directory.

    Raises:
        UsageError: The ETRecord does not exist.
        NotComparableError: The ETRecord is of another model.
    """
    symbols = None
    if given.etrecord is not None:
        symbols = load_metadata(Source((Dump(trace),), result), etrecord=given.etrecord).symbols
    if result is None:
        return Subject(
            trace,
            board=given.board,
            model=model_name(given.model),
            symbols=symbols,
            day=given.day or date.today(),
        )
    target, model, summary, image = result.target, result.model, result.trace, result.image
    probe = None
    if target and target.probe_pairs:
        probe = Fraction(target.probe_ticks, target.probe_pairs)
    return Subject(
        trace,
        board=result.board,
        unit=result.unit,
        model=model_name(model.file) if model else "",
        log_bytes=summary.log_bytes if summary else None,
        trace_capacity=target.trace_capacity if target else None,
        arena_capacity=(target.arena_capacity or None) if target else None,
        arena_used=model.arena_bytes if model else None,
        probe=probe,
        qualities=result.clock_quality,
        emulated_time=result.emulated_time,
        core=result.core,
        energy=result.energy,
        planned=model.planned if model else {},
        image={"text": image.text, "data": image.data, "bss": image.bss} if image else {},
        outputs=compared_outputs(result, directory),
        runs_requested=result.runs_requested,
        runs_completed=result.runs_completed,
        chains=model.chains if model else None,
        backends={(call.chain, call.instruction): call.backend for call in model.delegates}
        if model
        else {},
        day=given.day or moment(result.started_utc).date(),
        symbols=symbols,
    )
