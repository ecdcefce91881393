"""Store: all results that were kept, and what is asked of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection, func, select

from harness.analyze.compare import EXECUTIONS, Executions
from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef
from harness.check.history.measure import TIME_STATISTICS
from harness.check.history.samples import History
from harness.check.history.stored import NamedBaseline, StoredResult, StoreInfo, Tested
from harness.check.subject import Subject
from harness.errors import UsageError
from harness.export.chunked_writer import write_pieces
from harness.history import baselines, exporting, reading, writing
from harness.history.database import Database, parse_url
from harness.history.entries import Selection, entry_of
from harness.history.interning import Interned
from harness.history.migrating import bring_up_to_date, version_of
from harness.history.tables import BASELINE, METRIC, NAME, NUMBER, RESULT, TIME
from harness.records.result import Result, VerdictRecord

WINDOW = 200
"""Results of which a history tells, unless said otherwise."""


class Store:
    """A store of results. Use as a context manager; ``open_store`` opens one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._interned = Interned()

    @classmethod
    def open(cls, url: str, *, create: bool = True, deadline_s: float = 30.0) -> Store:
        """Open a store; see ``harness.history.open_store``."""
        database = Database(parse_url(url), deadline_s, create=create)
        try:
            bring_up_to_date(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

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
    def place(self) -> str:
        """Where it is, for people."""
        return self._database.place

    @property
    def retries(self) -> int:
        """How often a transaction had to be begun again because another writer was in the way."""
        return self._database.retries

    def add(
        self, result: Result, subject: Subject | None = None, verdict: VerdictRecord | None = None
    ) -> bool:
        """Keep a result, whole or not at all; in place of what was kept of its run before its end.

        Args:
            result: The run.
            subject: Its trace and what is known beside it; None when it has none.
            verdict: What the checks said; by default that of the result.

        Returns:
            False when it is there already; nothing is changed then.

        Raises:
            FormatError: The id or the time of the result is none.
            UsageError: The store may not be written.
            InfrastructureError: It could not be written now.
        """
        if self.has(result.id, over=not result.unfinished):  # without keeping other writers waiting
            return False
        entry, kept = entry_of(result, subject, verdict)
        learnt = self._database.write(
            lambda connection: writing.add(connection, entry, kept, self._interned)
        )
        if learnt is not None:
            self._interned.update(learnt)
        return learnt is not None

    def has(self, own_id: str, *, over: bool = False) -> bool:
        """Whether a result of this id is there; ``over``: and its run had ended."""
        found = self._database.read(lambda connection: reading.find(connection, own_id))
        return found is not None and (found.over or not over)

    def results(self, selection: Selection = Selection()) -> list[StoredResult]:  # noqa: B008 - frozen
        """Return the results that are meant, oldest first."""
        return self._database.read(
            lambda connection: reading.entries(connection, reading.chosen(connection, selection))
        )

    def tested(self) -> list[Tested]:
        """Return every board, model and method of which there are results, sorted."""
        return self._database.read(reading.tested)

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
    ) -> History:
        """Return earlier results of one model and method on one type of board.

        Args:
            board: Board type.
            model: Name of the model's file.
            method: Method that ran.
            unit: Only of this board of its type.
            statistics: Which of ``TIME_STATISTICS`` stand for operators' times.
            executions: Of which executions.
            baseline: Which results a new one is held against; None for none.
            without: Ids of results that are left out, such as the one that is judged.
            window: How many results, the newest, tell about noise and trends beside the baseline.
            before: Only results that began earlier than this, ISO 8601.
            unsound: With results that failed, were cut off or lost events.
            pattern: Only numbers whose name matches, as with ``fnmatch``.

        Raises:
            NotComparableError: The baseline means no result.
            UsageError: The baseline may mean several commits, or a statistic is unknown.
        """
        _know("executions", executions, EXECUTIONS)
        for statistic in statistics:
            _know("statistic", statistic, TIME_STATISTICS)
        sound = None if unsound else True
        scope = Selection(board, unit, model, method, before=before, sound=sound)
        excluded = frozenset(without)

        def read(connection: Connection) -> History:
            held = []
            if baseline is not None:
                held = baselines.resolve(connection, baseline, scope, excluded)
            shown = baselines.newest(connection, scope, excluded, window)
            rows = {row.id: row for row in (*shown, *held)}
            ordered = sorted(rows.values(), key=lambda row: (row.started_us, row.own_id))
            of_baseline = {row.id for row in held}
            return History(
                results=tuple(reading.provenances(connection, ordered)),
                series=reading.series(connection, ordered, statistics, executions, pattern),
                baseline=tuple(place for place, row in enumerate(ordered) if row.id in of_baseline),
                description=baseline.description if baseline is not None else "",
            )

        return self._database.read(read)

    def set_baseline(self, name: str, ids: Sequence[str]) -> None:
        """Give results a name, instead of those that had it.

        Raises:
            UsageError: One of them is not there, or none is given.
        """
        learnt = self._database.write(
            lambda connection: baselines.name_results(connection, name, ids, self._interned)
        )
        self._interned.update(learnt)

    def baselines(self) -> list[NamedBaseline]:
        """Return the baselines that have names."""
        return self._database.read(baselines.named)

    def baseline_results(self, name: str) -> list[str] | None:
        """Return the ids of a named baseline's results, sorted; None when there is none."""
        found = self._database.read(lambda connection: baselines.members(connection, name))
        return None if found is None else sorted(found)

    def remove_baseline(self, name: str) -> bool:
        """Forget a name, but not its results; returns whether it was there."""
        return self._database.write(lambda connection: baselines.forget_name(connection, name))

    def remove(self, selection: Selection, *, also_named: bool = False) -> int:
        """Remove results.

        Args:
            selection: Which.
            also_named: Those of named baselines, too, which stay otherwise.

        Returns:
            How many were removed.
        """

        def act(connection: Connection) -> int:
            going = [row.id for row in reading.chosen(connection, selection)]
            if not also_named:
                going = baselines.unnamed(connection, going)
            return baselines.remove(connection, going)

        return self._database.write(act)

    def prune(
        self,
        keep: int,
        selection: Selection = Selection(),  # noqa: B008 - frozen
        *,
        dry_run: bool = False,
    ) -> int:
        """Remove all but the newest ``keep`` results of each board, unit, model and method.

        What named baselines have stays. Only results that are meant are looked at.

        Args:
            keep: How many of each stay.
            selection: What is meant.
            dry_run: Remove nothing.

        Returns:
            How many were removed, or would be.
        """

        def act(connection: Connection) -> int:
            rows = reading.chosen(connection, selection)
            going = baselines.unnamed(connection, baselines.superfluous(rows, keep))
            return len(going) if dry_run else baselines.remove(connection, going)

        return self._database.read(act) if dry_run else self._database.write(act)

    def export(self, file: Path, selection: Selection = Selection()) -> int:  # noqa: B008 - frozen
        """Write all numbers of the results that are meant as a table (``docs/history.md``).

        Args:
            file: Where to, .csv, .tsv, .json or .parquet; it is replaced if it is there.
            selection: Which results.

        Returns:
            How many rows it has.

        Raises:
            UsageError: The file cannot be written, or its suffix says no format.
        """
        return self._database.read(
            lambda connection: write_pieces(
                file, exporting.pieces(connection, selection), exporting.TYPES
            )
        )

    def info(self) -> StoreInfo:
        """Return what the store is and how much it holds."""
        tables = {
            "results": RESULT,
            "operator times": TIME,
            "numbers": NUMBER,
            "metrics": METRIC,
            "names": NAME,
            "baselines": BASELINE,
        }

        def read(connection: Connection) -> StoreInfo:
            rows = {
                what: int(connection.scalar(select(func.count()).select_from(table)) or 0)
                for what, table in tables.items()
            }
            return StoreInfo(self.place, version_of(connection) or "", rows)

        return self._database.read(read)


def _know(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"{what} {given!r} is not known", hint=f"one of {', '.join(known)}")
