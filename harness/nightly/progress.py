"""Progress: the state of a nightly run, derived from its journal alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from harness.errors import Owner
from harness.nightly.journal import Ended, Finished, OfUnit, Record, Started, Stored
from harness.nightly.plan import Retry
from harness.records.nightly import Attempt, NightlyStep, UnitEvent


class Progress:
    """The state of a nightly run.

    Attributes:
        attempts: Attempts that ended, by step, oldest first.
        under_way: Attempts with a recorded start but no recorded end, by step.
        events: Events by unit.
        finished: Whether the nightly run is finished.
        stored: Whether its results are in the history.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.attempts: dict[NightlyStep, list[Attempt]] = defaultdict(list)
        self.under_way: dict[NightlyStep, Started] = {}
        self.events: dict[str, list[UnitEvent]] = defaultdict(list)
        self.finished = self.stored = False
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Update the state by a record."""
        match record:
            case Started(step=step):
                self.under_way[step] = record
            case Ended(step=step, attempt=attempt):
                self.under_way.pop(step, None)
                self.attempts[step].append(attempt)
            case OfUnit(event=event):
                self.events[event.unit].append(event)
            case Finished():
                self.finished = True
            case Stored():
                self.stored = True
            case _:
                pass

    def next_number(self, step: NightlyStep) -> int:
        """Return the number of the next attempt at a step."""
        return len(self.attempts[step]) + (step in self.under_way) + 1

    def is_done(self, step: NightlyStep, retry: Retry) -> bool:
        """Whether a step needs no further attempt."""
        ended = ended_of(self.attempts.get(step, ()))
        if not ended:
            return False
        return ended[-1].outcome == "pass" or not may_retry(ended, retry)


def ended_of(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that were not interrupted."""
    return [attempt for attempt in attempts if attempt.outcome != "interrupted"]


def may_retry(attempts: Sequence[Attempt], retry: Retry) -> bool:
    """Whether the last failure of a step may be retried, given all failures of its owner."""
    owner = attempts[-1].owner or Owner.HOST
    failed = sum(attempt.owner is owner for attempt in attempts)
    return failed <= retry.times(owner)
