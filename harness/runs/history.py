"""The history of a run: results added to a store, the baseline that it is compared with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from harness.analyze.compare import Comparison
from harness.check.evaluate import evaluate
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history
from harness.check.history.samples import (
    DEFAULT_BASELINE,
    Added,
    BaselineRef,
    History,
    HistoryLimits,
    Provenance,
    occasion_of,
    origin_of,
    parse_baseline,
    with_results,
)
from harness.check.subject import Subject
from harness.config.project import default_history
from harness.errors import (
    FormatError,
    HarnessError,
    InfrastructureError,
    NotComparableError,
    UsageError,
)
from harness.files import display_path
from harness.history import open_store
from harness.history.entries import measured_of, provenance_of
from harness.printing import counted
from harness.records.measurement import describe_difference, settings_key
from harness.records.result import Result, VerdictRecord, microseconds
from harness.records.store_address import StoreAddress, address_of
from harness.records.trace import is_wrapper
from harness.records.verdict import Judgement
from harness.runs.directory import AGAIN, RESULT, TEST_SETS, RunDirectory, later_verdict
from harness.runs.source import EvaluatedRun, load_source, on_scales, subject_of, verdict_record

if TYPE_CHECKING:
    from harness.history.store import Store


HISTORY_OPEN_S: Final = 30.0
"""Longest wait for a locked history."""


def run_directories(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every run directory at or below ``paths`` once, sorted by name.

    Runs that looked again at a suspect change are left out: they are evidence for the verdict of
    another. A path without run directories is yielded itself, so that adding it reports an error.
    """
    seen: set[Path] = set()
    for path in paths:
        directories = sorted(file.parent for file in path.rglob(RESULT)) if path.is_dir() else []
        directories = [folder for folder in directories if not _looked_again(folder, path)]
        # Of a bundled program the test sets are added, each with its own trace.
        directories = [
            folder for folder in directories if not any((folder / TEST_SETS).glob(f"*/{RESULT}"))
        ]
        for directory in directories or [path]:
            if (resolved := directory.resolve()) not in seen:
                seen.add(resolved)
                yield directory


def _looked_again(folder: Path, path: Path) -> bool:
    """Return whether a folder has a run that looked again for the verdict of one below ``path``."""
    return any(
        above.name == AGAIN and (above.parent / RESULT).is_file()
        for above in folder.parents
        if above != path and above.is_relative_to(path)
    )


def add_results(url: StoreAddress, directories: Sequence[Path]) -> list[str]:
    """Add run directories to the history; return a note for each that it refuses.

    Raises:
        HarnessError: The history cannot be opened or written.
    """
    refused = []
    with open_store(url, deadline_s=HISTORY_OPEN_S) as store:
        for directory in run_directories(directories):
            added = add_directory(store, directory)
            if added.state == "refused":
                refused.append(f"{directory} was not added to the history: {added.reason}")
    return refused


def add_directory(store: Store, path: Path) -> Added:
    """Add the result of a run directory, with its trace if it has one and its latest verdict.

    Of a result that the store has already, a verdict that was given later is recorded.

    Raises:
        UsageError: The store is not writable.
        InfrastructureError: The store failed.
    """
    run = RunDirectory(path)
    try:
        result = run.read_result()
        microseconds(result.started_utc)  # raises if the time is invalid
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", "", str(error))
    if result.role is not msgspec.UNSET:
        reason = "it is evidence for the verdict of another run, and no result of its own"
        return Added(display_path(path), "refused", result.id, reason)
    try:
        verdict = later_verdict(run)
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", result.id, str(error))
    if store.has(result.id, finished=not result.unfinished):  # without reading the trace again
        changed = verdict is not None and store.record_verdict(result.id, verdict)
        return Added(display_path(path), "updated" if changed else "there", result.id)
    try:
        subject, note = read_subject(run, result)
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", result.id, str(error))
    try:
        added = store.add(result, subject, _checked(result, subject, verdict))
    except FormatError as error:
        return Added(display_path(path), "refused", result.id, error.message)
    return Added(
        display_path(path), "added" if added else "there", result.id, note if added else ""
    )


def _checked(
    result: Result, subject: Subject | None, verdict: VerdictRecord | None
) -> VerdictRecord | None:
    """Return the verdict to record; without digests, with the invariants that fail now.

    Nothing else shows that the trace is still the one that the recorded verdict is of.
    """
    verdict = verdict or result.verdict
    if result.files is not None or subject is None or verdict is None:
        return verdict
    known = {check.code for check in verdict.checks if not check.passed}
    failed = [one for one in evaluate(subject).checks if one.failed and one.code not in known]
    if not failed:
        return verdict
    return msgspec.structs.replace(verdict, passed=False, checks=(*verdict.checks, *failed))


def add_reported(url: StoreAddress | None, run: EvaluatedRun) -> None:
    """Add a run that has just ended to the store at ``url``; None for no store.

    Raises:
        HarnessError: Adding failed; the hint says how to add it later.
    """
    if url is None or run.result is None:
        return
    try:
        with open_store(url) as store:
            for each in run.parts:
                if each.result is not None:
                    store.add(each.result, each.subject)
                for repeat in each.repeats[: each.asked_repeats]:
                    if repeat.result is not None:
                        store.add(repeat.result, repeat.subject, verdict_record(repeat))
    except HarnessError as error:
        kept = f"; the run is saved in {run.directory}" if run.directory else ""
        later = f"; then `etharness history add {run.directory}`" if run.directory else ""
        kind = InfrastructureError if isinstance(error, InfrastructureError) else UsageError
        raise kind(
            f"cannot add the result to the history: {error.message}{kept}",
            hint=f"{error.hint}{later}",
        ) from error


def read_subject(run: RunDirectory, result: Result) -> tuple[Subject | None, str]:
    """Return the subject of a run, None without a readable trace, and a note about its trace.

    Raises:
        DamagedError: A file is damaged.
        FormatError: The trace cannot be read, although the run did not fail.
    """
    if run.trace_file is None:
        run.load_result()
        return None, "the run has no trace"
    try:
        source = load_source(run.path, salvage=True).require_sound()
    except FormatError as error:
        if result.failure is None:
            raise
        return None, f"cannot read its trace: {error.message}"
    source = on_scales(source, {})
    places = counted(len(source.damage), "place")
    damage = f"its trace is damaged in {places}" if source.damage else ""
    return subject_of(source.trace, result), damage


def with_judgements(
    comparison: Comparison,
    before: tuple[Subject, Result | None],
    after: tuple[Subject, Result | None],
) -> Comparison:
    """Return a comparison of two runs with the judgement of each operator's change.

    Only of runs that a history compares: of one model and method on one type of board, with the
    same measurement settings, and of all their executions. It judges the statistics that a history
    compares, whichever one is shown.

    Args:
        comparison: Their differences.
        before: The first run.
        after: The second run.
    """
    old, new = before[1], after[1]
    if old is None or new is None or comparison.executions != "all" or not _alike(old, new):
        return comparison
    limits = DEFAULT_LIMITS
    history = with_results(History(baseline=(0,)), [measured_of(old, before[0], limits)])
    measured = measured_of(new, after[0], limits)
    try:
        compared = compare_with_history(history, [measured], limits)
    except UsageError:  # SciPy is not installed
        return comparison
    judged: dict[tuple[object, ...], Judgement] = {}
    for number in compared.numbers:
        of = number.metric
        if of.kind == "operator":
            place = (of.block, of.name, of.chain, of.instruction)
            judged[*place, of.delegate_int, of.delegate_str] = number.judgement
    operators = tuple(
        msgspec.structs.replace(change, judgement=judged.get(change.signature, ""))
        for change in comparison.operators
    )
    return replace(comparison, operators=operators)


def _alike(old: Result, new: Result) -> bool:
    """Return whether a history compares the results of both runs."""
    first, second = provenance_of(old), provenance_of(new)
    return (first.board, first.model, first.method, settings_key(first.settings)) == (
        *(second.board, second.model, second.method),
        settings_key(second.settings),
    )


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HistoryRef:
    """A history and a baseline in it.

    Attributes:
        url: URL or path of the history, as for ``open_store``.
        baseline: The results to compare with.
        required: The baseline was asked for, and is no default.
    """

    url: StoreAddress
    baseline: BaselineRef = DEFAULT_BASELINE
    required: bool = False

    def fetch(
        self, tested: Provenance, limits: HistoryLimits, also: Collection[str] = ()
    ) -> History:
        """Read the results to compare ``tested`` with.

        They are of the same board, model and method, on any unit, measured with the same settings,
        and known when the occasion of ``tested`` had ended. A ``last:N`` baseline leaves out
        results of the same unit, commit and session, and may be empty.

        Args:
            tested: Provenance of the result to evaluate.
            limits: Limits that select the statistics to compare.
            also: Ids of further results to leave out.

        Raises:
            NotComparableError: The baseline matches no result, or only results with other
                measurement settings.
            UsageError: There is no such store, or the baseline matches several commits.
            InfrastructureError: The store does not answer.
        """
        baseline = self.baseline
        with self.open() as store:
            try:
                fetched = store.history(
                    tested.board,
                    tested.model,
                    tested.method,
                    statistics=limits.statistics,
                    baseline=baseline,
                    without=(tested.id, *also),
                    settings=settings_key(tested.settings),
                    tested=tested,
                )
            except NotComparableError as error:
                others = self._with_other_settings(store, tested, also)
                if baseline.how == "last":
                    # The first night of a series; a note tells of other series.
                    return History(
                        description=baseline.description,
                        rolling=True,
                        notes=tuple(
                            _other_settings("earlier results were", other, tested)
                            for other in others[-1:]
                        ),
                        required=self.required,
                    )
                if others:
                    raise NotComparableError(
                        _other_settings(f"baseline {baseline} was", others[-1], tested),
                        hint="run again with the settings of the baseline, or measure a baseline "
                        "with these",
                    ) from error
                raise
        # An operator-call scope repeats the time of the operator inside it.
        series = tuple(one for one in fetched.series if not is_wrapper(one.metric.name))
        history = msgspec.structs.replace(fetched, series=series, required=self.required)
        return _without_own(history, tested) if baseline.how == "last" else history

    def _with_other_settings(
        self, store: Store, tested: Provenance, also: Collection[str]
    ) -> tuple[Provenance, ...]:
        """Return the results that would be the baseline if settings did not matter."""
        try:
            history = store.history(
                tested.board,
                tested.model,
                tested.method,
                baseline=self.baseline,
                without=(tested.id, *also),
                tested=tested,
                window=0,
                pattern="",  # no numbers
            )
        except HarnessError:
            return ()
        return tuple(history.results[number] for number in history.baseline)

    def record(self, own_id: str, verdict: VerdictRecord) -> None:
        """Record the verdict of a check against the newest results, if the store has the result.

        Without it a result that failed would become part of that baseline. Verdicts against a
        baseline that somebody chose say nothing of that, and `etharness history add` records them.
        A store that cannot be written is left as it is.
        """
        if self.baseline.how != "last":
            return
        try:
            with self.open() as store:
                store.record_verdict(own_id, verdict)
        except HarnessError as error:
            _log.warning("the verdict was not recorded in the history: %s", error.message)

    def check(self) -> None:
        """Check that the store can be opened, before a run that needs it later.

        Raises:
            UsageError: There is no such store.
            InfrastructureError: The store does not answer.
        """
        self.open().close()

    def open(self) -> Store:
        """Open the store; create it only for a baseline that may be empty."""
        # The first run has no baseline yet, and may create the history.
        return open_store(self.url, create=self.baseline.how == "last")


def history_of(
    url: str | StoreAddress | None, baseline: BaselineRef | str | None
) -> HistoryRef | None:
    """Return the history and baseline to compare with.

    None if neither is given; if only one is, the other has its default.

    Raises:
        UsageError: The text of ``baseline`` is invalid.
    """
    if url is None and baseline is None:
        return None
    if isinstance(baseline, str):
        baseline = parse_baseline(baseline) if baseline else None
    return HistoryRef(
        address_of(url) if url else default_history(),
        baseline or DEFAULT_BASELINE,
        required=baseline is not None,
    )


def _other_settings(subject: str, other: Provenance, tested: Provenance) -> str:
    """Describe in which settings an earlier result differs from the result to evaluate."""
    old, new = describe_difference(other.settings, tested.settings)
    return f"not comparable: {subject} measured with {old}, this run with {new}"


def _without_own(history: History, tested: Provenance) -> History:
    def own(index: int) -> bool:
        result = history.results[index]
        return (result.unit, origin_of(result), occasion_of(result)) == (
            *(tested.unit, origin_of(tested), occasion_of(tested)),
        )

    baseline = tuple(index for index in history.baseline if not own(index))
    return msgspec.structs.replace(history, baseline=baseline)


def with_trends(run: EvaluatedRun, history: HistoryRef) -> EvaluatedRun:
    """Add earlier results for reports to draw, which leave the verdict as it is.

    A history that does not answer, or has no such baseline, leaves the run without them.
    """
    if run.test_sets:
        return replace(run, test_sets=tuple(with_trends(one, history) for one in run.test_sets))
    if run.subject is None or run.result is None or run.history is not None:
        return run
    try:
        trends = history.fetch(provenance_of(run.result), HistoryLimits())
    except (UsageError, NotComparableError, InfrastructureError):
        return run
    return replace(run, history=trends)
