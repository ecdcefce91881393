"""What became of a night: every fault that was injected, every attempt, every result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness import Attempt, NightDocument, Result, StepOutcome, open_store
from harness.extensions.lab.nightly.journal import JOURNAL, Ended, Started, read_journal
from harness.runs.directory import RESULT, RunDirectory
from tests.support.rack.faults import Kind, Lasts
from tests.support.rack.rack import Injected, Session

PASS = "pass"
CUT_OFF = "cut off"
"""What an attempt ends with that was under way when the night was killed."""
NOT_MET = "not met"
"""Nothing more was run on the unit."""


@dataclass
class Row:
    """What became of the faults of one kind.

    Attributes:
        kind: Which.
        injected: How often it began.
        landed: How the attempt that met it ended: with ``pass`` or an owner, and how often.
        retried: Further attempts at the same steps.
        passed: Steps that passed in the end.
    """

    kind: Kind
    injected: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    passed: int = 0

    @property
    def expected(self) -> str:
        return str(self.kind.effect.owner or PASS)

    @property
    def elsewhere(self) -> dict[str, int]:
        """Where it landed otherwise."""
        known = (self.expected, CUT_OFF, NOT_MET)
        return {owner: count for owner, count in self.landed.items() if owner not in known}


@dataclass(frozen=True, slots=True)
class Books:
    """What is lost or there twice, each of which should be empty.

    Attributes:
        missing: Planned steps without an outcome, or with several.
        open_: Attempts that were begun and did not end, or ended several times.
        unaccounted: Run directories that no attempt knows.
        not_stored: Results that are not in the store.
        twice: Results that are told by several attempts.
        strangers: Results in the store that no attempt knows.
        unexplained: Attempts that failed for no reason that was injected.
    """

    missing: list[str]
    open_: list[str]
    unaccounted: list[str]
    not_stored: list[str]
    twice: list[str]
    strangers: list[str]
    unexplained: list[str]

    @property
    def lost(self) -> list[str]:
        return [*self.missing, *self.open_, *self.unaccounted, *self.not_stored]

    @property
    def duplicated(self) -> list[str]:
        return [*self.twice, *self.strangers]


class Account:
    """A night that is over, held against what was done to it."""

    def __init__(
        self,
        folder: Path,
        store: Path | str,
        planned: int,
        injected: Sequence[Injected],
        sessions: Sequence[Session],
        taken: Sequence[str] = (),
    ) -> None:
        """Read it.

        Args:
            folder: The folder of the night.
            store: Its history.
            planned: How many steps there were to be.
            injected: The faults that began.
            sessions: All sessions with a model that units had.
            taken: Units that somebody else held all night.
        """
        self.folder, self.planned, self.taken = folder, planned, taken
        self.document = msgspec.json.decode(
            (folder / "night.json").read_bytes(), type=NightDocument
        )
        self.records, _ = read_journal(folder / JOURNAL)
        self.injected, self.sessions = injected, sessions
        self.store = str(store)
        self.of: dict[Path, tuple[StepOutcome, Attempt]] = {}
        self.of_unit: dict[str, list[tuple[StepOutcome, Attempt]]] = defaultdict(list)
        outcomes = {outcome.step: outcome for outcome in self.document.outcomes}
        for record in self.records:
            if isinstance(record, Ended):
                pair = (outcomes[record.step], record.attempt)
                self.of[(folder / record.attempt.directory).resolve()] = pair
                self.of_unit[record.step.unit].append(pair)

    def rows(self) -> list[Row]:
        """What became of the faults, kind by kind."""
        rows = {kind: Row(kind) for kind in Kind}
        for fault in self.injected:
            row = rows[fault.kind]
            row.injected += 1
            met = self._met(fault)
            if met is None:
                row.landed[self._after(fault)] += 1
                continue
            outcome, attempt = met
            row.landed[_landed(attempt)] += 1
            row.retried += sum(other.number > attempt.number for other in outcome.attempts)
            row.passed += outcome.outcome == "pass"
        return [row for row in rows.values() if row.injected]

    def books(self) -> Books:
        """What is lost, there twice, or failed for no reason."""
        results = self._results()
        ids = Counter(attempt.result for _, attempt in self.of.values() if attempt.result)
        with open_store(self.store) as store:
            stored = Counter(entry.provenance.id for entry in store.results())
        # `history add` of a folder takes these, too: as runs that were cut off.
        cut_off = {
            results[place].id
            for place, (_, attempt) in self.of.items()
            if attempt.outcome == "interrupted" and place in results
        }
        told = {str(outcome.step) for outcome in self.document.outcomes}
        missing = [f"{len(told)} of {self.planned} steps"] if len(told) != self.planned else []
        return Books(
            missing=missing,
            open_=sorted(self._unbalanced()),
            unaccounted=[str(place) for place in results if place not in self.of],
            not_stored=[own_id for own_id in ids if own_id not in stored],
            twice=[own_id for each in (ids, stored) for own_id, count in each.items() if count > 1],
            strangers=[own_id for own_id in stored if own_id not in ids and own_id not in cut_off],
            unexplained=sorted(self._unexplained()),
        )

    def _results(self) -> Mapping[Path, Result]:
        """Finished results by their run directories."""
        found = {}
        for file in self.folder.rglob(RESULT):
            result = RunDirectory(file.parent).read_result()
            found[file.parent.resolve()] = result
        return found

    def _unbalanced(self) -> Iterator[str]:
        begun = Counter(
            (record.step, record.number) for record in self.records if isinstance(record, Started)
        )
        ended = Counter(
            (record.step, record.attempt.number)
            for record in self.records
            if isinstance(record, Ended)
        )
        for (step, number), count in (begun | ended).items():
            if (begun[step, number], ended[step, number]) != (1, 1):
                yield f"{step}-{number}: {count} times"

    def _met(self, fault: Injected) -> tuple[StepOutcome, Attempt] | None:
        """The attempt that met a fault; of one that stays, the first that was not cut off."""
        met = self._first_met(fault)
        if met is not None and _stays(fault.kind):
            pairs = self.of_unit[fault.unit]
            later = pairs[pairs.index(met) :]
            return next((pair for pair in later if pair[1].outcome != "interrupted"), None)
        return met

    def _first_met(self, fault: Injected) -> tuple[StepOutcome, Attempt] | None:
        """The attempt where a fault began, or the first one after that."""
        if fault.directory is not None:
            return self.of.get(fault.directory.resolve())
        attempts = self.of_unit[fault.unit]
        if not fault.session:
            return attempts[0] if attempts else None
        (before,) = (s for s in self.sessions if (s.unit, s.number) == (fault.unit, fault.session))
        if before.directory is None:
            return None
        last = self.of.get(before.directory.resolve())
        place = next((n for n, pair in enumerate(attempts) if pair == last), len(attempts))
        return attempts[place + 1] if place + 1 < len(attempts) else None

    def _after(self, fault: Injected) -> str:
        """Where a fault landed that no attempt met: whose it was that the unit did no more."""
        (unit,) = (unit for unit in self.document.units if unit.unit == fault.unit)
        return str(unit.owner) if unit.not_run and unit.owner else NOT_MET

    def _unexplained(self) -> Iterator[str]:
        """Failures of attempts and units that no fault is behind."""
        of_unit: dict[str, list[Injected]] = defaultdict(list)
        for fault in self.injected:
            of_unit[fault.unit].append(fault)
        for unit, pairs in self.of_unit.items():
            met = {id(pair[1]): f.kind for f in of_unit[unit] if (pair := self._met(f))}
            for_good = False
            for outcome, attempt in pairs:
                kind = met.get(id(attempt))
                for_good = for_good or (kind is not None and _stays(kind))
                if attempt.outcome == "fail" and kind is None and not for_good:
                    yield f"{outcome.step}-{attempt.number}: {attempt.owner}: {attempt.message}"
        for told in self.document.units:
            explained = told.unit in self.taken or any(_stays(f.kind) for f in of_unit[told.unit])
            if told.not_run and not explained:
                yield f"{told.unit}: {told.not_run} not run: {told.why}"


def _landed(attempt: Attempt) -> str:
    if attempt.outcome == "interrupted":
        return CUT_OFF
    return str(attempt.owner or PASS)


def _stays(kind: Kind) -> bool:
    """Whether a fault goes on after the attempt that met it, whatever is done."""
    return kind.effect.lasts is Lasts.NIGHT
