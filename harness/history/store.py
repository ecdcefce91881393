"""Store: the recorded results, with queries over them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Row, func, select

from harness.analyze.statistics import EXECUTIONS, Executions
from harness.check.history.measure import TIME_STATISTICS
from harness.check.history.samples import (
    DEFAULT_BASELINE,
    BaselineRef,
    Decision,
    History,
    NamedBaseline,
    Provenance,
    StoredResult,
    StoreInfo,
    occasion_of,
)
from harness.check.subject import Subject
from harness.errors import NotComparableError, UsageError
from harness.history import results, triage
from harness.history.database import Database, parse_url
from harness.history.entries import Selection, entry_of, with_verdict
from harness.history.tables import (
    BASELINE,
    DECISION,
    METRIC,
    NAME,
    NIGHT,
    NUMBER,
    PROGRAM,
    RESULT,
    TIME,
    Interned,
    ensure_schema,
    version_of,
)
from harness.records.measurement import (
    UNRECORDED,
    MeasurementSettings,
    describe_settings,
    settings_key,
)
from harness.records.nightly import NightVerdict
from harness.records.result import Result, VerdictRecord
from harness.records.store_address import StoreAddress

WINDOW = 200
"""Default number of results in a history."""


class Store:
    """A store of results. Use as a context manager; ``open_store`` opens one."""

    def __init__(
        self, address: StoreAddress, *, create: bool = True, deadline_s: float = 30.0
    ) -> None:
        """Open a store; see ``harness.history.open_store``."""
        self.database = Database(parse_url(address), deadline_s, create=create)
        self._interned = Interned()
        try:
            ensure_schema(self.database)
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def location(self) -> str:
        """The path or URL without a password, for messages."""
        return self.database.location

    @property
    def retries(self) -> int:
        """Number of transactions begun again: another writer, or a lost connection."""
        return self.database.retries

    def add(
        self, result: Result, subject: Subject | None = None, verdict: VerdictRecord | None = None
    ) -> bool:
        """Add a result in one transaction; replace one that was added before its run ended.

        Args:
            result: The result of the run.
            subject: Its trace with model, outputs and sizes; None for a run without a trace.
            verdict: The verdict to record; by default the result's own.

        Returns:
            False if the store has the result already; then nothing is changed.

        Raises:
            FormatError: The result's id or time is invalid.
            UsageError: The store is not writable.
            InfrastructureError: The store is locked, full or unreachable.
        """
        if self.has(result.id, finished=not result.unfinished):  # takes no write lock
            return False
        entry, kept = entry_of(result, subject, verdict)
        return self._interned.write(
            self.database,
            lambda connection, numbers: results.add(connection, entry, kept, numbers),
        )

    def has(self, own_id: str, *, finished: bool = False) -> bool:
        """Whether the store has a result of this id; ``finished``: of a run that had ended."""
        found = self.database.read(lambda connection: results.find(connection, own_id))
        return found is not None and (found.finished or not finished)

    def results(self, selection: Selection = Selection()) -> list[StoredResult]:  # noqa: B008 - frozen
        """Return the selected results, oldest first."""
        return self.database.read(
            lambda connection: results.entries(
                connection, results.select_rows(connection, selection)
            )
        )

    def tested(self) -> list[tuple[str, str, str]]:
        """Return every combination of board, model and method with results, sorted."""
        return self.database.read(results.tested)

    def known_model(self, name: str | None) -> str | None:
        """Return the file name of a model that may be given without its suffix.

        A name that no result has is returned as it is.
        """
        models = {model for _, model, _ in self.tested()} if name is not None else set()
        return f"{name}.pte" if name not in models and f"{name}.pte" in models else name

    def only_tested(
        self, board: str | None, model: str | None, method: str | None
    ) -> tuple[str, str, str]:
        """Return the only tested board, model and method that match; None matches any.

        Raises:
            NotComparableError: No result matches.
            UsageError: Results of several combinations match.
        """
        wanted = (board, self.known_model(model), method)
        found = [
            item
            for item in self.tested()
            if all(want in (None, has) for want, has in zip(wanted, item, strict=True))
        ]
        if not found:
            names = " ".join(name for name in wanted if name)
            raise NotComparableError(
                f"the history has no result{f' of {names}' if names else ''}",
                hint="`etharness history list` lists the results",
            )
        if len(found) > 1:
            some = "; ".join(f"{model} {method} on {board}" for board, model, method in found[:5])
            raise UsageError(
                f"the history has results of {len(found)} combinations: {some}",
                hint="select one with --board, --model and --method",
            )
        return found[0]

    def history(
        self,
        board: str,
        model: str,
        method: str,
        *,
        unit: str | None = None,
        statistics: Sequence[str] = ("p50",),
        executions: Executions = "all",
        baseline: BaselineRef | None = DEFAULT_BASELINE,
        without: Collection[str] = (),
        window: int = WINDOW,
        before: str | None = None,
        unsound: bool = False,
        pattern: str | None = None,
        settings: str | None = None,
        tested: Provenance | None = None,
    ) -> History:
        """Return earlier results of one model and method on one type of board.

        Args:
            board: Board type.
            model: File name of the model.
            method: Method that ran.
            unit: Only results of this unit.
            statistics: The statistics of operator times to return, of ``TIME_STATISTICS``.
            executions: The executions that the statistics cover.
            baseline: The results to compare with; None for no baseline.
            without: Ids of results to leave out, such as the one to evaluate.
            window: Number of the newest results to return beside the baseline, for noise and trend.
            before: Only results that began earlier than this, ISO 8601.
            unsound: Include results that are not complete.
            pattern: Only metrics with matching names, as with ``fnmatch``.
            settings: Only results with these measurement settings, by their key.
            tested: The result to evaluate. What began after its occasion is left out, as it was
                not known then; decisions that count for the result are followed.

        Raises:
            NotComparableError: The baseline matches no result.
            UsageError: The baseline matches several commits, or a statistic is unknown.
        """
        _check_choice("executions", executions, EXECUTIONS)
        for statistic in statistics:
            _check_choice("statistic", statistic, TIME_STATISTICS)
        scope = Selection(
            *(board, unit, model, method),
            before=before,
            complete=None if unsound else True,
            settings=settings,
        )
        excluded = frozenset(without)

        def read(connection: Connection) -> History:
            known = scope if tested is None else results.known_then(connection, scope, tested)
            in_baseline = []
            if baseline is not None:
                # A name or a commit is a choice of its own, whenever its results were made.
                of_baseline = known if baseline.how == "last" else scope
                in_baseline = triage.resolve(connection, baseline, of_baseline, excluded)
            in_window = triage.newest(connection, known, excluded, window)
            decided = triage.decisions(connection, known)
            at_levels: list[Row[Any]] = []
            notes: tuple[str, ...] = ()
            if tested is not None:
                at_levels = triage.results_at_levels(connection, known, decided, excluded)
            elif settings is not None:
                notes = _others(results.settings_used(connection, replace(scope, settings=None)))
            rows = {row.id: row for row in (*in_window, *at_levels, *in_baseline)}
            ordered = sorted(rows.values(), key=lambda row: (row.started_us, row.own_id))
            numbers = {row.id for row in in_baseline}
            of_rows = results.provenances(connection, ordered)
            return History(
                results=tuple(of_rows),
                series=results.series(connection, ordered, statistics, executions, pattern),
                baseline=tuple(index for index, row in enumerate(ordered) if row.id in numbers),
                description=baseline.description if baseline is not None else "",
                failed=_failed(ordered, of_rows),
                rolling=baseline is not None and baseline.how == "last",
                decisions=tuple(decided),
                notes=notes,
                outlines=results.outlines(connection, ordered),
            )

        return self.database.read(read)

    def set_baseline(self, name: str, ids: Sequence[str]) -> None:
        """Define a named baseline; replace an earlier one of this name.

        Raises:
            UsageError: The store has no result of one of these ids, or ``ids`` is empty.
        """
        self._interned.write(
            self.database,
            lambda connection, numbers: triage.name_results(connection, name, ids, numbers),
        )

    def settings_like(self, board: str, model: str, method: str, pattern: str | None) -> str:
        """Return the key of the measurement settings that results have.

        Args:
            board: Board type.
            model: File name of the model.
            method: Method that ran.
            pattern: ``fnmatch`` pattern for the text of the settings, such as ``*--stream*``; None
                for those of the newest result.

        Raises:
            NotComparableError: No result has such settings.
            UsageError: Results have several such settings.
        """
        scope = Selection(board, model=model, method=method)
        used = self.database.read(lambda connection: results.settings_used(connection, scope))
        if pattern is None:
            return settings_key(used[-1]) if used else UNRECORDED
        texts = {describe_settings(settings): settings for settings in used}
        found = [text for text in texts if text == pattern or fnmatchcase(text, pattern)]
        known = f"known settings: {'; '.join(texts)}"
        if not found:
            raise NotComparableError(f"no result was measured with {pattern!r}", hint=known)
        if len(found) > 1:
            raise UsageError(f"{pattern!r} matches {len(found)} settings", hint=known)
        return settings_key(texts[found[0]])

    def record_decisions(
        self, board: str, model: str, method: str, settings: str, made: Sequence[Decision]
    ) -> None:
        """Record decisions about changes of series of a board, model, method and settings.

        Earlier decisions about the same series stay recorded, but no longer count.
        """
        scope = Selection(board, model=model, method=method, settings=settings)
        self._interned.write(
            self.database,
            lambda connection, numbers: triage.add_decisions(connection, scope, made, numbers),
        )

    def decisions(self, selection: Selection = Selection()) -> list[Decision]:  # noqa: B008 - frozen
        """Return the decisions about series, in the order in which they were made.

        Args:
            selection: Board, unit, model, method and settings of the series.
        """
        return self.database.read(lambda connection: triage.decisions(connection, selection))

    def record_verdict(self, own_id: str, verdict: VerdictRecord) -> bool:
        """Record a verdict that was given after a result was added.

        Returns:
            Whether it differs from the recorded one; False if there is no such result.

        Raises:
            UsageError: The store is not writable.
            InfrastructureError: The store is locked, full or unreachable.
        """
        found = self.results(Selection(ids=[own_id]))
        if not found or (changed := with_verdict(found[0], verdict)) == found[0]:
            return False
        self._interned.write(
            self.database,
            lambda connection, numbers: results.replace_verdict(connection, changed, numbers),
        )
        return True

    def record_night(self, verdict: NightVerdict) -> None:
        """Record the verdict of a nightly run, or replace the recorded one.

        Raises:
            UsageError: The store is not writable.
            InfrastructureError: The store is locked, full or unreachable.
        """
        self.database.write(lambda connection: results.record_nights(connection, [verdict]))

    def nights(self) -> list[NightVerdict]:
        """Return the verdicts of nightly runs, oldest first.

        Raises:
            FormatError: A verdict is damaged.
        """
        return self.database.read(results.recorded_nights)

    def baselines(self) -> list[NamedBaseline]:
        """Return the named baselines."""
        return self.database.read(triage.named)

    def baseline_results(self, name: str) -> list[str] | None:
        """Return the result ids of a named baseline, sorted; None for an unknown name."""
        found = self.database.read(lambda connection: triage.members(connection, name))
        return None if found is None else sorted(found)

    def remove_baseline(self, name: str) -> bool:
        """Remove a named baseline, but not its results; return whether it existed."""
        return self.database.write(lambda connection: triage.remove_name(connection, name))

    def remove(self, selection: Selection, *, also_named: bool = False) -> int:
        """Remove results.

        Args:
            selection: The results to remove.
            also_named: Also remove results of named baselines.

        Returns:
            The number of removed results.
        """

        def act(connection: Connection) -> int:
            numbers = [row.id for row in results.select_rows(connection, selection)]
            if not also_named:
                numbers = triage.unnamed(connection, numbers)
            return results.remove(connection, numbers)

        return self.database.write(act)

    def prune(
        self,
        keep: int,
        selection: Selection = Selection(),  # noqa: B008 - frozen
        *,
        dry_run: bool = False,
    ) -> int:
        """Remove all but the newest ``keep`` results of each board, unit, model and method.

        Results of named baselines stay, and so do results outside the selection.

        Args:
            keep: Number of results to keep of each.
            selection: The results to consider.
            dry_run: Remove nothing.

        Returns:
            The number of results removed, or to be removed with ``dry_run``.
        """

        def act(connection: Connection) -> int:
            rows = results.select_rows(connection, selection)
            numbers = triage.unnamed(connection, triage.all_but_newest(rows, keep))
            if dry_run:
                return len(numbers)
            removed = results.remove(connection, numbers)
            results.forget_old(connection)
            return removed

        return self.database.read(act) if dry_run else self.database.write(act)

    def info(self) -> StoreInfo:
        """Return location, version and row counts of the store."""
        tables = {
            "results": RESULT,
            "operator times": TIME,
            "numbers": NUMBER,
            "metrics": METRIC,
            "names": NAME,
            "baselines": BASELINE,
            "decisions": DECISION,
            "nights": NIGHT,
            "programs": PROGRAM,
        }

        def read(connection: Connection) -> StoreInfo:
            rows = {
                kind: int(connection.scalar(select(func.count()).select_from(table)) or 0)
                for kind, table in tables.items()
            }
            return StoreInfo(self.location, version_of(connection) or "", rows)

        return self.database.read(read)


def _others(used: Sequence[MeasurementSettings | None]) -> tuple[str, ...]:
    """Return a note if results have several measurement settings."""
    texts = "; ".join(map(describe_settings, used))
    return (f"results have {len(used)} measurement settings: {texts}",) if len(used) > 1 else ()


def _check_choice(what: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise UsageError(f"unknown {what} {given!r}", hint=f"choose from {', '.join(choices)}")


def _failed(rows: Sequence[Row[Any]], of: Sequence[Provenance]) -> tuple[int, ...]:
    """Return the indices of the results, oldest first, whose verdict failed.

    A suspect night did not if the next one of its unit is sound: what was suspect is gone, so it is
    what the board, or a build, does by itself.
    """
    nights: dict[str, dict[str, bool]] = {}
    for row, result in zip(rows, of, strict=True):
        of_unit = nights.setdefault(result.unit, {})
        night = occasion_of(result)
        of_unit[night] = row.sound and of_unit.get(night, True)
    gone = {
        (unit, night)
        for unit, of_unit in nights.items()
        for night, sound in zip(of_unit, [*of_unit.values()][1:], strict=False)
        if sound
    }
    return tuple(
        index
        for index, (row, result) in enumerate(zip(rows, of, strict=True))
        if not row.sound
        and (
            row.exit_code != NotComparableError.exit_code
            or (result.unit, occasion_of(result)) not in gone
        )
    )
