"""Copies a history to another database: results, named baselines and decisions.

Results go over in batches, each in a transaction of its own, so an interrupted copy can be started
again: it skips what the target has. Results that others add to either history meanwhile do no harm.
At the end all values of the results are compared. This is stricter than a comparison of digests,
and needs the same queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from harness.analyze.statistics import Executions, Summary
from harness.check.history.checks import subject_of_metric
from harness.check.history.measure import HistoryNumbers
from harness.check.history.samples import CopyOutcome, Decision, Metric, NamedBaseline, StoredResult
from harness.errors import NotWritableError, UsageError
from harness.history import results, triage
from harness.history.database import Database
from harness.history.entries import Selection
from harness.history.store import Store
from harness.history.tables import BITS, NAME, RESULT, Interned
from harness.records.result import UNFINISHED

_NAMED: Final = 5
"""Results that a message names."""


class _Stored(NamedTuple):
    """A result with all its numbers."""

    entry: StoredResult
    kept: HistoryNumbers


def copy_history(
    source: Store,
    target: Store,
    *,
    replace_verdicts: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    batch: int = 50,
) -> CopyOutcome:
    """Copy results, named baselines and decisions to another store, then compare the results.

    What the target has already is skipped, so an interrupted copy can be started again.

    Args:
        source: The store to copy.
        target: The store to copy to; it keeps what only it has.
        replace_verdicts: Replace verdicts of the target that differ from the source's.
        progress: Called with a stage, the number of results done, and their total number.
        batch: Results per transaction: few enough that other writers of the target do not wait
            long. As many are in memory at a time.

    Raises:
        UsageError: A result, a baseline or a decision differs, both stores are the same, or the
            target is not writable.
        InfrastructureError: A store is locked, full or unreachable.
    """
    copier = _HistoryCopier(source.database, target.database, batch)
    return copier.copy(progress, replace_verdicts=replace_verdicts)


class _HistoryCopier:
    """Copies the history in one database to another one. Both have tables of this version."""

    def __init__(self, source: Database, target: Database, batch: int) -> None:
        self._source = source
        self._target = target
        self._batch = batch
        self._interned = Interned()

    def copy(
        self, progress: Callable[[str, int, int], None], *, replace_verdicts: bool
    ) -> CopyOutcome:
        """Copy what the target does not have, then compare."""
        if self._source.same_as(self._target):
            raise UsageError(
                f"{self._source.location} and {self._target.location} are the same history",
                hint="copy to another file or database",
            )
        if self._target.read_only:
            raise NotWritableError(
                f"{self._target.location} is not writable", hint="copy to another file or database"
            )
        ids = self._source.read(_ids)
        copied = 0
        for some in self._batches("copying", ids, progress):
            copied += self._copy_results(some)
        named = sum(map(self._copy_baseline, self._source.read(triage.named)))
        decided = self._copy_decisions()
        copied_nights = self._copy_nights()
        compared, replaced = 0, 0
        wrong: list[str] = []
        for some in self._batches("checking", ids, progress):
            here = self._source.read(partial(_read, ids=some))
            compared += len(here)
            replaced += self._replace_verdicts(here) if replace_verdicts else 0
            wrong += self._differing(here)
        if wrong:
            raise self._difference(wrong)
        return CopyOutcome(
            results=compared,
            copied=copied,
            verdicts=replaced,
            baselines=named,
            decisions=decided,
            nights=copied_nights,
        )

    def _batches(
        self, stage: str, ids: Sequence[str], progress: Callable[[str, int, int], None]
    ) -> Iterator[Sequence[str]]:
        for start in range(0, len(ids), self._batch):
            progress(stage, start, len(ids))
            yield ids[start : start + self._batch]
        progress(stage, len(ids), len(ids))

    def _copy_results(self, ids: Sequence[str]) -> int:
        """Copy those of a batch of results that the target does not have; return their number."""
        there = self._target.read(lambda connection: _finished(connection, ids))
        missing = [own_id for own_id in ids if own_id not in there]
        if not missing:
            return 0
        return self._add([*self._source.read(partial(_read, ids=missing)).values()])

    def _add(self, items: Sequence[_Stored]) -> int:
        """Add results to the target in one transaction; return how many it did not have."""

        def act(connection: Connection, numbers: Interned) -> int:
            return sum(results.add(connection, item.entry, item.kept, numbers) for item in items)

        return self._interned.write(self._target, act)

    def _copy_baseline(self, baseline: NamedBaseline) -> bool:
        """Copy a named baseline unless the target has it, or a newer one of its name."""
        name = baseline.name
        ids = self._source.read(lambda connection: triage.members(connection, name))
        if ids is None:  # removed meanwhile
            return False
        for start in range(0, len(ids), self._batch):  # results may have been added meanwhile
            self._copy_results(ids[start : start + self._batch])

        def act(connection: Connection, interned: Interned) -> bool:
            there = {item.name: item for item in triage.named(connection)}.get(name)
            if there is not None:
                if set(triage.members(connection, name) or ()) == set(ids):
                    return False
                if there.set_utc > baseline.set_utc:
                    return False
                if there.set_utc == baseline.set_utc:
                    raise UsageError(
                        f"baseline {name!r} has other results in {self._target.location} than in "
                        f"{self._source.location}, and both were set at {there.set_utc}",
                        hint="remove it from one of them: `etharness history baseline remove`",
                    )
            numbers = [row.id for row in results.select_rows(connection, Selection(ids=ids))]
            if len(numbers) < len(ids):
                raise UsageError(
                    f"results of baseline {name!r} were removed from {self._target.location} while "
                    "it was copied",
                    hint="run the same command again",
                )
            triage.define(connection, name, baseline.set_utc, numbers, interned)
            return True

        return self._interned.write(self._target, act)

    def _copy_decisions(self) -> int:
        """Append decisions that the target does not have, in their order; return their number."""
        made = self._source.read(triage.scoped_decisions)

        def act(connection: Connection, numbers: Interned) -> int:
            new = self._new_decisions(made, triage.scoped_decisions(connection))
            for scope, some in groupby(new, key=itemgetter(0)):
                decided = [decision for _, decision in some]
                triage.add_decisions(connection, scope, decided, numbers)
            return len(new)

        return self._interned.write(self._target, act) if made else 0

    def _copy_nights(self) -> int:
        """Copy verdicts of nightly runs that the target does not have; return their number."""
        verdicts = self._source.read(results.recorded_nights)

        def act(connection: Connection) -> int:
            there = {verdict.night for verdict in results.recorded_nights(connection)}
            new = [verdict for verdict in verdicts if verdict.night not in there]
            results.record_nights(connection, new)
            return len(new)

        return self._target.write(act) if verdicts else 0

    def _new_decisions(
        self,
        made: Sequence[tuple[Selection, Decision]],
        there: Sequence[tuple[Selection, Decision]],
    ) -> list[tuple[Selection, Decision]]:
        """Return the decisions of ``made`` that continue those that are there.

        Raises:
            UsageError: Both have decisions about a series that the other one does not have. The
                newest one counts, so appending would choose between them.
        """
        have: dict[object, list[Decision]] = defaultdict(list)
        for scope, decision in there:
            have[_series(scope, decision)].append(decision)
        seen: dict[object, int] = defaultdict(int)
        new = []
        for scope, decision in made:
            series = _series(scope, decision)
            known = have[series]
            position = seen[series]
            seen[series] += 1
            if position >= len(known):
                new.append((scope, decision))
            elif known[position] != decision:
                subject = f"{subject_of_metric(decision.metric)} on {decision.unit}"
                raise UsageError(
                    f"{self._source.location} and {self._target.location} have different decisions "
                    f"about {subject}: {decision.describe()}; {known[position].describe()}",
                    hint="copy to a new history, and decide about this series there",
                )
        return new

    def _replace_verdicts(self, here: dict[str, _Stored]) -> int:
        """Replace verdicts of the target where nothing else differs; return their number."""
        there = self._target.read(partial(_read, ids=[*here]))
        changed = [
            item.entry
            for own_id, item in here.items()
            if own_id in there
            and there[own_id] != item
            and _without_verdict(there[own_id]) == _without_verdict(item)
        ]

        def act(connection: Connection, numbers: Interned) -> None:
            for entry in changed:
                results.replace_verdict(connection, entry, numbers)

        if changed:
            self._interned.write(self._target, act)
        return len(changed)

    def _differing(self, here: dict[str, _Stored]) -> list[str]:
        """Return the ids of the results that the target lacks, or has with other values."""
        there = self._target.read(partial(_read, ids=[*here]))
        wrong = [own_id for own_id, item in here.items() if not _agrees(item, there.get(own_id))]
        if not wrong:
            return []
        # A writer may have changed the source since: a run that was copied unfinished has ended.
        self._copy_results(wrong)
        here = self._source.read(partial(_read, ids=wrong))
        there = self._target.read(partial(_read, ids=wrong))
        return [own_id for own_id, item in here.items() if not _agrees(item, there.get(own_id))]

    def _difference(self, wrong: Sequence[str]) -> UsageError:
        names = ", ".join(wrong[:_NAMED])
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        return UsageError(
            f"{self._target.location} differs from {self._source.location} in {len(wrong)} "
            f"results: {names}{more}",
            hint="if only verdicts changed since an earlier copy, add --replace-verdicts; "
            "otherwise copy to a new history",
        )


def _agrees(item: _Stored, there: _Stored | None) -> bool:
    """Whether the target has a result as it is, or as it became when its run ended."""
    if there is None:
        return False
    ended = item.entry.failure == UNFINISHED and there.entry.failure != UNFINISHED
    return ended or there == item


def _without_verdict(item: _Stored) -> object:
    entry = item.entry
    return (
        *(entry.provenance, entry.duration_s, entry.exit_code, entry.failure),
        *(entry.failure_message, entry.runs_requested, entry.runs_completed),
        *(entry.link, entry.clocks, entry.losses, entry.indistinct, item.kept),
    )


def _series(scope: Selection, decision: Decision) -> object:
    return scope.board, scope.model, scope.method, scope.settings, decision.unit, decision.metric


def _ids(connection: Connection) -> list[str]:
    """Return the ids of all results, oldest first."""
    return [*connection.scalars(select(RESULT.c.own_id).order_by(RESULT.c.started_us, RESULT.c.id))]


def _finished(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Return those of these ids that the store has, of runs that had ended."""
    query = (
        select(RESULT.c.own_id)
        .join(NAME, NAME.c.id == RESULT.c.failure_id)
        .where(RESULT.c.own_id.in_(ids), NAME.c.text != UNFINISHED)
    )
    return {*connection.scalars(query)}


def _read(connection: Connection, ids: Sequence[str]) -> dict[str, _Stored]:
    """Return those of these results that the store has, by id, with all their numbers."""
    rows = results.select_rows(connection, Selection(ids=ids))
    times: dict[int, dict[Metric, dict[Executions, Summary]]] = {row.id: {} for row in rows}
    numbers: dict[int, dict[Metric, float]] = {row.id: {} for row in rows}
    of_times, of_numbers, metrics = results.measured_rows(connection, times)
    for row in of_times:
        columns = row._mapping  # `count` is a method of the row itself
        summary = Summary(*(columns[name] for name in Summary.__struct_fields__))
        covered = {executions: summary for executions, bit in BITS.items() if row.executions & bit}
        times[row.result_id].setdefault(metrics[row.metric_id], {}).update(covered)
    for row in of_numbers:
        numbers[row.result_id][metrics[row.metric_id]] = row.value
    return {
        row.own_id: _Stored(entry, HistoryNumbers(times[row.id], numbers[row.id]))
        for row, entry in zip(rows, results.entries(connection, rows), strict=True)
    }
