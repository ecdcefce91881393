"""Evaluates a run: its verdict depends only on the run directory, the budget and the history.

``run``, ``check``, ``report`` and ``replay`` share this evaluation, so their verdicts agree.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Final

import msgspec
import numpy as np

from harness.check.budget import Budget, BudgetSource
from harness.check.evaluate import DEFAULT_BUDGET, evaluate
from harness.check.history.compare import compare_with_history
from harness.check.history.measure import durations_of
from harness.check.history.samples import History, Provenance, with_further_runs
from harness.check.subject import Subject
from harness.errors import DamagedError, FormatError, UsageError
from harness.files import (
    MOST_DOCUMENT,
    absolute,
    data_directory,
    decode_json,
    display_path,
    read_limited,
    read_tail,
)
from harness.formatting import with_printable_text
from harness.history.entries import measured_of, provenance_of
from harness.records.result import RESTORE, Result, VerdictRecord, changed_outputs
from harness.records.trace import Trace
from harness.records.verdict import Check, Verdict
from harness.runs.directory import (
    CONSOLE,
    POSTMORTEM,
    RESULT,
    USED_BUDGET,
    PostmortemDocument,
    RunDirectory,
    is_of_a_run,
    load_history,
    save_history,
    save_verdict,
)
from harness.runs.history import HistoryRef
from harness.runs.source import (
    DEFAULT_OPTIONS,
    EvaluatedRun,
    ReadOptions,
    subject_of,
    test_set_name,
    verdict_record,
)

_log = logging.getLogger(__name__)

_PACKAGED: Final = ("boards", "budgets")
"""Folders of the packaged budgets, in a checkout and in an installed package."""


def pack_budget(sources: Sequence[BudgetSource], folder: str) -> tuple[str, dict[str, bytes]]:
    """Return the files of a budget, with the paths between them kept.

    Args:
        sources: The file and those that it extends, as ``read_files`` returns them.
        folder: Folder for the copies, such as ``used_budget``.

    Returns:
        The name of the copy of the file, and the content of every file by its name.
    """
    files = [(absolute(file.document.path), file.document.text) for file in sources]
    above = Path(os.path.commonpath([file.parent for file, _ in files]))
    names = {file: f"{folder}/{file.relative_to(above).as_posix()}" for file, _ in files}
    contents = {names[file]: text.encode() for file, text in files}
    return names[files[-1][0]], contents


def save_budget(run: RunDirectory, sources: Sequence[BudgetSource]) -> str:
    """Copy a budget and what it extends into a run directory; return the name of its copy."""
    if not sources:
        return ""
    name, files = pack_budget(sources, USED_BUDGET)
    for file, content in files.items():
        (run.path / file).parent.mkdir(parents=True, exist_ok=True)
        run.write(file, content)
    return name


def find_used_budget(directory: Path | None, budget: str, copy: str) -> Path | None:
    """Return the file of the budget that judged a run; None if it had none.

    Args:
        directory: The run directory; None for a trace alone.
        budget: Path of the budget at that time; "" for none.
        copy: Name of its copy in the run directory; "" in results of older versions.

    Raises:
        DamagedError: The copy is missing, or is not a file of the run.
        UsageError: There is no copy, and the file is gone.
    """
    if copy and directory is not None:
        if not is_of_a_run(copy) or not (directory / copy).is_file():
            raise DamagedError(
                f"{directory / RESULT}: damaged: its budget {copy!r} is not a file of the run",
                hint=RESTORE,
            )
        return directory / copy
    file = Path(budget)
    if not budget or file.is_file():
        return file if budget else None
    packaged = data_directory(_PACKAGED[0]) / _PACKAGED[1] / PurePath(budget).name
    if PurePath(budget).parts[-3:-1] == _PACKAGED and packaged.is_file():
        _log.warning("%s is gone: the packaged budget of this version is used", budget)
        return packaged
    raise UsageError(
        f"{directory}: the budget of its verdict is gone: {budget}",
        hint="copy it there again, or give it with --budget FILE",
    )


def used_budget(run: RunDirectory, verdict: VerdictRecord | None) -> Path | None:
    """Return the file of the budget of a recorded verdict, as ``find_used_budget``."""
    if verdict is None:
        return None
    return find_used_budget(run.path, verdict.budget, verdict.budget_copy)


def load_rules(budget: Path | Budget | None, subject: Subject) -> Budget | None:
    """Return a budget, read for a subject if it is a file."""
    if isinstance(budget, Path):
        return Budget.load(budget, subject.board, subject.model, subject.unit)
    return budget


_NO_TENSORS: Final[Mapping[str, np.ndarray]] = {}

_CONSOLE_END: Final = 4096
"""Bytes of console output that reports show, from the end."""


def evaluate_run(
    title: str,
    trace: Trace,
    result: Result | None = None,
    budget: Path | Budget | None = None,
    directory: Path | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    history: History | HistoryRef | None = None,
    dumps: tuple[int, ...] = (),
    tensors: Mapping[str, np.ndarray] = _NO_TENSORS,
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
        tensors: Tensors of the run directory by name; others are read.

    Raises:
        UsageError: The budget file is invalid, the ETRecord or history does not exist, or there is
            no result to compare with a history.
        NotComparableError: The ETRecord is of another model, or the baseline matches no result.
        InfrastructureError: The history does not answer.
    """
    subject = replace(subject_of(trace, result, given, directory, tensors), dumps=dumps)
    facts = EvaluatedRun(title, subject, Verdict(()), result, directory=directory, given=given)
    # The run itself records its verdict with its result.
    return _with_own_verdict(facts, subject, budget, history, record=True, ended=False)


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
        budget: A budget or its file; None for the one that the run has. Without either, only what
            always holds is checked.
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


def _with_own_verdict(
    run: EvaluatedRun,
    subject: Subject,
    budget: Path | Budget | None,
    history: History | HistoryRef | None,
    *,
    record: bool,
    ended: bool = True,
) -> EvaluatedRun:
    """Evaluate the checks of a run with a trace; record the verdict of a check after its end."""
    result, directory = run.result, run.directory
    if budget is not None:
        file = str(budget) if isinstance(budget, Path) else ""
        run = replace(run, budget=file, budget_copy="")
    rules = load_rules(budget or budget_file(run), subject)
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
            history = _fetched(history, provenance_of(result), rules, directory, record=record)
        limits = (rules or DEFAULT_BUDGET).history
        measured = measured_of(result, subject, limits)
        comparison = compare_with_history(history, [measured], limits, durations_of(subject))
    verdict = evaluate(subject, rules, comparison)
    verdict = Verdict((*verdict.checks, *_failed_in_repeats(run, budget)))
    if result is not None and directory is not None and (doubt := changed_outputs(result, verdict)):
        raise DamagedError(f"{directory / RESULT}: damaged: {doubt}", hint=RESTORE)
    evaluated = replace(
        run,
        verdict=Verdict(tuple(map(with_printable_text, verdict.checks))),
        history=history,
        comparison=comparison,
    )
    if isinstance(source, HistoryRef) and result is not None and ended:
        if directory is not None:
            save_verdict(directory, verdict_record(evaluated))
        source.record(result.id, verdict_record(evaluated))
    return evaluated


def _fetched(
    reference: HistoryRef,
    tested: Provenance,
    rules: Budget | None,
    directory: Path | None,
    *,
    record: bool,
) -> History:
    """Fetch a history, with the further runs that the run directory knows, and save it there."""
    history = reference.fetch(tested, (rules or DEFAULT_BUDGET).history)
    if directory is None:
        return history
    saved = load_history(directory)
    if saved is not None:
        history = with_further_runs(history, saved, tested)
    if record:
        save_history(directory, history)
    return history


def _failed_in_repeats(run: EvaluatedRun, budget: Path | Budget | None) -> Iterator[Check]:
    """Yield the checks that failed in further runs of the measurement; their subjects name the run.

    Only the run itself has read the traces of these. Later the recorded verdict has their checks,
    which say nothing of another budget.
    """
    recorded = run.result.verdict if run.result is not None else None
    copied = isinstance(budget, Path) and run.directory in budget.parents
    if recorded is not None and not run.repeats:
        for check in recorded.checks:
            same_rules = budget is None or copied or not check.code.startswith("B")
            if same_rules and _OF_REPEAT.match(check.subject):
                yield check
    for number, repeat in enumerate(run.repeats, 2):
        if repeat.result is not None and repeat.result.role == "baseline":
            continue
        for check in repeat.verdict.checks:
            if check.failed and check.severity == "error" and not check.code.startswith("H"):
                yield msgspec.structs.replace(check, subject=f"run {number}: {check.subject}")


_OF_REPEAT: Final = re.compile(r"run \d+: ")
"""Begin of the subject of a check that failed in a further run."""


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
    """Return the verdict of evaluated test sets: all checks, with the test set in their subject."""
    checks = []
    for each in test_sets:
        if each.result and each.result.model and each.result.test_set is not None:
            name = test_set_name(each.result.model.method, each.result.test_set)
            checks += [
                msgspec.structs.replace(check, subject=f"{name}: {check.subject}")
                for check in each.verdict.checks
            ]
    return Verdict(tuple(checks))


def evaluate_path(
    path: Path,
    budget: Path | Budget | None = None,
    given: ReadOptions = DEFAULT_OPTIONS,
    history: History | HistoryRef | None = None,
    fallback: Path | None = None,
    *,
    warn: bool = False,
) -> EvaluatedRun:
    """Evaluate a run directory or a file with traces.

    Args:
        path: A run directory, also of a failed run, or a file with traces.
        budget: A budget or its file; None for the budget of the recorded verdict.
        given: The options that the traces are read with.
        history: As for ``evaluate_run``.
        fallback: Budget file for a trace without a result.
        warn: Log a warning for each counter that looks narrower than recorded.

    Raises:
        UsageError: The path does not exist, or the budget file is invalid.
        DamagedError: A file of a run is damaged, salvaged or not.
        FormatError: The trace is invalid, and not because its run failed.
    """
    return with_verdict(find_run(path, given, fallback, warn=warn), budget, history)


def budget_file(run: EvaluatedRun) -> Path | None:
    """Return the file of the budget of a run; None for none.

    Raises:
        DamagedError: Its copy is missing from the run directory.
        UsageError: There is no copy, and the file is gone.
    """
    if run.test_sets:
        return budget_file(run.test_sets[0])
    return find_used_budget(run.directory, run.budget, run.budget_copy)


def find_run(
    path: Path,
    given: ReadOptions = DEFAULT_OPTIONS,
    fallback: Path | None = None,
    *,
    warn: bool = False,
) -> EvaluatedRun:
    """Read what is at ``path``, without evaluating any check.

    Args:
        path: A run directory, also of a failed run, or a file with traces.
        given: The options that the traces are read with.
        fallback: Budget file for a trace without a result.
        warn: Log a warning for each counter that looks narrower than recorded.

    Returns:
        The run without checks; its ``budget`` is the file of the recorded verdict.

    Raises:
        HarnessError: As ``evaluate_path``, but for budgets.
    """
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
            source = given.load(path, run, warn=warn).require_sound()
        except FormatError:  # an invalid log may be why the run failed
            return with_evidence(unread)
    else:
        source = given.load(path, run, warn=warn).require_sound()
    known = source.result
    budget, copy = str(fallback or "") if known is None else "", ""
    if known is not None and known.verdict is not None:
        budget, copy = known.verdict.budget, known.verdict.budget_copy
        if directory is None and copy:
            budget, copy = str(path.parent / copy), ""
    subject = subject_of(source.trace, known, given, directory)
    subject = replace(subject, dumps=source.later_dumps)
    return with_evidence(
        EvaluatedRun(
            display_path(path),
            subject,
            Verdict(()),
            known,
            budget=budget,
            budget_copy=copy,
            directory=directory,
            given=given,
        )
    )


def _find_test_sets(run: RunDirectory, result: Result, given: ReadOptions) -> EvaluatedRun:
    """Read the run of a bundled program with those of its test sets."""
    runs = []
    for record in result.test_sets:
        test_set = find_run(run.path / record.directory, given)
        if test_set.result is None or test_set.result.id != record.id:
            raise DamagedError(
                f"{test_set.title}: damaged: not the run that {run.path / RESULT} records",
                hint=RESTORE,
            )
        runs.append(test_set)
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
