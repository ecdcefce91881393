"""The verdict on a run, made of nothing but what its run directory holds and the rules given.

``run``, ``check``, ``report`` and a replay judge by this one function, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec

from harness.analyze.postmortem import PostmortemDocument
from harness.check.budget import Budget, load_budget
from harness.check.evaluate import NO_LIMITS, evaluate
from harness.check.history.samples import History
from harness.check.subject import Subject, model_name
from harness.check.suggest import Wishes, suggest
from harness.decode.dumps import Dump
from harness.errors import FormatError, UsageError
from harness.files import read_tail, shown
from harness.formatting import with_printable_text
from harness.history.entries import provenance_of
from harness.records.result import Result, VerdictRecord
from harness.records.timestamps import moment
from harness.records.trace import Trace
from harness.records.verdict import Check, Verdict
from harness.runs.baseline import HistoryRef, compare_with, keep_history, kept_history
from harness.runs.directory import CONSOLE, POSTMORTEM, RunDirectory
from harness.runs.judged_run import NOTHING_GIVEN, JudgedRun, ReadOptions
from harness.runs.model_metadata import know
from harness.runs.source import Source
from harness.runs.tensors import compared_outputs

_CONSOLE_END: Final = 4096
"""Bytes of the console's end that reports show."""


def judged(
    title: str,
    trace: Trace,
    result: Result | None = None,
    budget: Path | Budget | None = None,
    directory: Path | None = None,
    given: ReadOptions = NOTHING_GIVEN,
    history: History | HistoryRef | None = None,
    dumps: tuple[int, ...] = (),
) -> JudgedRun:
    """Hold a trace against every rule there is for it.

    Args:
        title: Where it is from, for people.
        trace: What was logged, on its time scales.
        result: The result of its run, if that is known.
        budget: A budget or its file; without one, only what always holds is checked.
        directory: The run directory, if there is one.
        given: What the trace was read with, and an ETRecord.
        history: Earlier results, or where they are; by default those that the run directory was
            judged by before, if it was. What is fetched is kept there.
        dumps: Rows at which further dumps begin, where it is made of several.

    Raises:
        UsageError: The budget file is wrong, or there is no such ETRecord or history, or no result
            to hold against one.
        NotComparableError: The ETRecord is of another model, or the baseline means no result.
        InfrastructureError: The history does not answer.
    """
    subject = replace(subject_of(trace, result, given, directory), dumps=dumps)
    facts = JudgedRun(title, subject, Verdict(()), result, directory=directory, given=given)
    return judge(facts, budget, history)


def judge(
    run: JudgedRun,
    budget: Path | Budget | None = None,
    history: History | HistoryRef | None = None,
) -> JudgedRun:
    """Evaluate the checks of a run, whether or not that was done before.

    Args:
        run: The run; without a trace it is returned as it is.
        budget: A budget or its file; without one, only what always holds is checked.
        history: As for ``judged``.

    Raises:
        HarnessError: As ``judged``.
    """
    subject, result, directory = run.subject, run.result, run.directory
    if subject is None:
        return run
    rules, file = budget, ""
    if isinstance(rules, Path):
        file = str(rules)
        rules = load_budget(rules, subject.board, subject.model, subject.unit)
    if history is None and directory is not None:
        history = kept_history(directory)
    comparison = None
    if history is not None:
        if result is None:
            raise UsageError(
                f"{run.title} has no result to hold against a history",
                hint="give a run directory, which says of what commit, model and board it is",
            )
        if isinstance(history, HistoryRef):
            history = history.fetch(provenance_of(result), (rules or NO_LIMITS).history)
            if directory is not None:
                keep_history(directory, history)
        comparison = compare_with(history, subject, result, rules)
    verdict = evaluate(subject, rules, comparison)
    return replace(
        run,
        verdict=Verdict(tuple(map(with_printable_text, verdict.checks))),
        history=history,
        comparison=comparison,
        budget=file,
    )


def judged_path(
    path: Path,
    load: Callable[[Path], Source],
    budget: Path | Budget | None = None,
    given: ReadOptions = NOTHING_GIVEN,
    history: History | HistoryRef | None = None,
    fallback: Path | None = None,
) -> JudgedRun:
    """Judge what is at ``path``, by the budget that it was judged by before unless one is given.

    Args:
        path: A run directory, also of a run that failed, or a file with traces.
        load: Reads the traces behind a path.
        budget: A budget or its file.
        given: What the traces are read with, and an ETRecord.
        history: As for ``judged``.
        fallback: Budget file for a trace without a result.

    Raises:
        UsageError: There is nothing at the path, or the budget file is wrong.
        DamagedError: A file of a run is not as its result records it, salvaged or not.
        FormatError: What is there is not what it should be, and no failed run left it so.
    """
    run = find_run(path, load, given, fallback)
    if budget is None and run.budget:
        budget = Path(run.budget)
    return judge(run, budget, history)


def find_run(
    path: Path,
    load: Callable[[Path], Source],
    given: ReadOptions = NOTHING_GIVEN,
    fallback: Path | None = None,
) -> JudgedRun:
    """Read what is at ``path``, without evaluating any check.

    Args:
        path: A run directory, also of a run that failed, or a file with traces.
        load: Reads the traces behind a path.
        given: What the traces are read with, and an ETRecord.
        fallback: Budget file for a trace without a result.

    Returns:
        The run without checks; its ``budget`` is the file that it was judged by before.

    Raises:
        HarnessError: As ``judged_path``, but for budgets.
    """
    run = RunDirectory(path)
    directory = path if run.is_one else None
    result = run.read_result() if directory else None
    if result is not None and result.failure is not None:
        unread = JudgedRun(shown(path), None, Verdict(()), result, directory=directory, given=given)
        if run.trace_file is None:
            run.load_result()
            return with_evidence(unread)
        try:
            source = load(path).require_sound()
        except FormatError:  # the log may be what the run failed for
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
        JudgedRun(
            shown(path),
            subject,
            Verdict(()),
            known,
            budget=budget,
            directory=directory,
            given=given,
        )
    )


def with_evidence(run: JudgedRun) -> JudgedRun:
    """Add what else a finished run left in its directory: the console's end, a postmortem."""
    if run.directory is None:
        return run
    console, crash = run.directory / CONSOLE, run.directory / POSTMORTEM
    printed = read_tail(console, _CONSOLE_END) if console.is_file() else b""
    document = None
    if crash.is_file():
        try:
            document = msgspec.json.decode(crash.read_bytes(), type=PostmortemDocument)
        except msgspec.DecodeError as error:
            raise FormatError(f"{crash}: not a postmortem of this version: {error}") from error
    text = printed.decode(errors="backslashreplace")
    return replace(run, console=text, postmortem=document)


def recorded(run: JudgedRun) -> VerdictRecord:
    """What a result keeps of a verdict."""
    verdict = run.verdict
    return VerdictRecord(passed=verdict.passed, budget=run.budget, checks=verdict.checks)


def subject_of(
    trace: Trace,
    result: Result | None = None,
    given: ReadOptions = NOTHING_GIVEN,
    directory: Path | None = None,
) -> Subject:
    """Join a trace with what its run's result and directory say, and what was given beside it.

    Raises:
        UsageError: There is no such ETRecord.
        NotComparableError: The ETRecord is of another model.
    """
    symbols = None
    if given.etrecord is not None:
        symbols = know(Source((Dump(trace),), result), etrecord=given.etrecord).symbols
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
        arena_capacity=target.arena_capacity if target else None,
        arena_used=model.planned_bytes + model.method_bytes if model else None,
        probe=probe,
        qualities=result.clock_quality,
        planned=model.planned if model else {},
        image={"text": image.text, "data": image.data, "bss": image.bss} if image else {},
        outputs=compared_outputs(result, directory),
        runs_requested=result.runs_requested,
        runs_completed=result.runs_completed,
        backends={(call.chain, call.instruction): call.backend for call in model.delegates}
        if model
        else {},
        day=given.day or moment(result.started_utc).date(),
        symbols=symbols,
    )


def write_suggestion(
    file: Path, paths: Sequence[Path], load: Callable[[Path], Source], wishes: Wishes
) -> list[Check]:
    """Write a budget from what was measured, and hold the same runs against it.

    Args:
        file: The budget file to write; one that is there is left alone.
        paths: Run directories or traces.
        load: Reads the traces behind a path.
        wishes: What it is to be like.

    Returns:
        The checks of its limits.

    Raises:
        UsageError: There is such a file, it cannot be written, or a path holds no execution.
        DamagedError: A file of a run is not as its result records it.
    """
    if file.exists():
        raise UsageError(f"{file} is there already", hint="name another file with --suggest")
    sources = [load(path).require_sound() for path in paths]
    subjects = [subject_of(source.trace, source.result) for source in sources]
    for path, subject in zip(paths, subjects, strict=True):
        if not any(run.executes for run in subject.runs):
            raise UsageError(
                f"{path} holds no execution, so there is nothing to suggest limits from",
                hint="`etharness decode` shows what it holds",
            )
    try:
        file.write_text(suggest(subjects, wishes), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the budget {file}: {error.strerror}") from error
    checks: list[Check] = []
    for subject in subjects:
        budget = load_budget(file, subject.board, subject.model, subject.unit)
        checks += [item for item in evaluate(subject, budget).checks if item.source]
    return checks
