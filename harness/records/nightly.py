"""A night as reports get it: what was planned, every attempt at it, and what came of it all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from harness.errors import Owner

EXIT_CODES: Final = {
    Owner.PRODUCT: 1,
    Owner.TEST: 2,
    Owner.BOARD: 4,
    Owner.FLASH: 74,
    Owner.LINK: 76,
    Owner.HOST: 71,
}
"""What a night ends with, by the owner of its worst failure; the worst first."""


class NightlyStep(msgspec.Struct, frozen=True):
    """What is to be done once.

    Attributes:
        unit: On which unit.
        board: Its type.
        model: Name of the model.
        variant: Label of the variant.
        repeat: Which time it is, from 1.
    """

    unit: str
    board: str
    model: str
    variant: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.unit}/{self.model}/{self.variant}/{self.repeat}"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a step was tried.

    Attributes:
        number: Which one, from 1.
        directory: Its run directory, in the folder of the night.
        started_utc: When it began, ISO 8601.
        duration_s: How long it took.
        outcome: ``interrupted`` when somebody ended the night, which is nobody's failure.
        owner: Who has to look at it, considering what the board said afterwards; null for a pass.
        ended: How the process ended: ``exit 4``, ``signal 9``, ``deadline``.
        kind: Class of the failure, or codes of the checks that failed.
        message: What happened.
        hint: What to try.
        evidence: What was asked afterwards, and the answers, in order.
        result: Id of its result; "" if it left none.
    """

    number: int
    directory: str
    started_utc: str
    duration_s: float = 0.0
    outcome: Literal["pass", "fail", "interrupted"]
    owner: Owner | None = None
    ended: str = ""
    kind: str = ""
    message: str = ""
    hint: str = ""
    evidence: tuple[str, ...] = ()
    result: str = ""


class UnitEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a unit.

    Attributes:
        unit: Which one.
        utc: When.
        what: In a word or two.
        owner: Who has to look at it; null if nobody has to.
        message: More of it.
    """

    unit: str
    utc: str
    what: Literal[
        "leased",
        "not leased",
        "well",
        "not well",
        "power cycled",
        "not power cycled",
        "benched",
        "out of time",
        "lost",
    ]
    owner: Owner | None = None
    message: str = ""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step.

    Attributes:
        step: The step.
        outcome: ``not run`` when no attempt came to an end.
        owner: Of the last attempt's failure, or of what kept it from being run.
        why: In a sentence.
        quarantine: The entry that keeps its failure from counting; "" for none.
        attempts: All of them, oldest first.
    """

    step: NightlyStep
    outcome: Literal["pass", "fail", "not run"]
    owner: Owner | None = None
    why: str = ""
    quarantine: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """Attempts that failed."""
        return tuple(attempt for attempt in self.attempts if attempt.outcome == "fail")

    @property
    def flaky(self) -> bool:
        """It passed, but not at once."""
        return self.outcome == "pass" and bool(self.failures)

    @property
    def counts(self) -> bool:
        """Whether it is a failure of the night."""
        return self.outcome == "fail" and not self.quarantine

    @property
    def told(self) -> str:
        """How it ended, in words: a pass after a failure says so."""
        if self.flaky:
            last = self.failures[-1]
            number = len(self.failures) + 1
            return f"passed on attempt {number} after {last.owner or 'a failure'}"
        if self.outcome == "pass":
            return "passed"
        return self.why


class UnitOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a unit.

    Attributes:
        unit: Its id.
        board: Its type.
        state: ``well`` if it did all that it was to do; else why it did not.
        owner: Who has to look at it; null if nobody has to.
        why: In a sentence.
        passed: Steps that passed, also those that did not at once.
        flaky: Those that did not at once.
        failed: Steps that failed, by owner.
        quarantined: Failures that do not count.
        not_run: Steps that were not run.
        power_cycles: How often its power was taken away and given back.
        events: All that happened to it.
    """

    unit: str
    board: str
    state: Literal["well", "not leased", "benched", "out of time", "lost", "interrupted"]
    owner: Owner | None = None
    why: str = ""
    passed: int = 0
    flaky: int = 0
    failed: dict[Owner, int] = {}
    quarantined: int = 0
    not_run: int = 0
    power_cycles: int = 0
    events: tuple[UnitEvent, ...] = ()


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A number that is not the same on both sides.

    Attributes:
        unit: On which unit.
        what: Name of the operator or allocator, or what it is of the whole result.
        statistic: Which statistic; "" for a size.
        judgement: What became of it, as in ``HistoryComparison``.
        before: Its level before, in ``counted_in``; null where there is none.
        after: Its level now, likewise.
        relative: The change as a share of the level before; null where that cannot be said.
        counted_in: ``ns``, ``ticks`` or ``bytes``.
        reason: Why it was judged so.
    """

    unit: str
    what: str
    statistic: str
    judgement: str
    before: float | None
    after: float | None
    relative: float | None
    counted_in: str
    reason: str


class ArmComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A variant held against the first one within the night, or against earlier nights.

    Attributes:
        board: Type of board.
        model: Name of the model.
        before: Label of the first variant, or the baseline.
        after: Label of the other.
        passed: Nothing is slower or larger.
        said: In a sentence.
        units: Boards they were measured on; empty where there was nothing to compare.
        counts: How many numbers became what.
        changed: Numbers that are not the same, the worst first, as many as are shown.
    """

    board: str
    model: str
    before: str
    after: str
    passed: bool
    said: str
    units: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    changed: tuple[Changed, ...] = ()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that kept the night from ending well, besides its steps and units."""

    owner: Owner
    message: str
    hint: str = ""


class QuarantineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an entry of the quarantine stands.

    Attributes:
        line: Its line in its file.
        about: What it is about.
        owner: Who looks after it.
        reason: Why failures do not count.
        issue: Where it is worked on.
        expires: The last day on which they do not.
        state: ``applies``; ``ready`` to be removed, as it has passed often enough; ``proved``: the
            same, and it counts again; ``expired``: it counts again.
        passes: How often in a row what it is about has passed.
        wanted: After how many that is often enough.
        excused: Failures of tonight that it kept from counting.
    """

    line: int
    about: str
    owner: str
    reason: str
    issue: str
    expires: str
    state: Literal["applies", "ready", "proved", "expired"]
    passes: int
    wanted: int
    excused: int


class NightDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What ``etharness nightly --json`` prints, and ``night.json`` holds.

    ``attempts`` counts all that came to an end; ``interrupted`` those that somebody ended.
    """

    name: str
    night: str
    tool_version: str
    directory: str
    started_utc: str
    ended_utc: str
    exit_code: int
    passed: bool
    steps: int
    attempts: int
    interrupted: int
    counts: dict[str, int]
    outcomes: tuple[StepOutcome, ...]
    units: tuple[UnitOutcome, ...]
    sides: tuple[ArmComparison, ...] = ()
    quarantine: tuple[QuarantineStatus, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()
    schema: Literal[1] = 1


def worst_first(outcomes: Sequence[StepOutcome]) -> list[StepOutcome]:
    """Failures that count, by their owners."""
    rank = {owner: place for place, owner in enumerate(EXIT_CODES)}
    failed = [outcome for outcome in outcomes if outcome.counts]
    return sorted(failed, key=lambda o: rank[o.owner] if o.owner else len(rank))
