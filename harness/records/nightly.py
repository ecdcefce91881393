"""A nightly run for reports: planned steps, all attempts, and their outcomes."""

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
"""Exit codes of a nightly run, by the owner of its worst failure; the worst first."""


class NightlyStep(msgspec.Struct, frozen=True):
    """One planned run.

    Attributes:
        unit: Id of the unit.
        board: Its board type.
        model: Name of the model.
        variant: Label of the variant.
        repeat: Number of the repetition, from 1.
    """

    unit: str
    board: str
    model: str
    variant: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.unit}/{self.model}/{self.variant}/{self.repeat}"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a step.

    Attributes:
        number: Its number, from 1.
        directory: Its run directory, in the directory of the nightly run.
        started_utc: Start, ISO 8601.
        duration_s: Duration, seconds.
        outcome: ``interrupted`` if the nightly run was ended, which does not count as a failure.
        owner: Owner of the failure, after probing the board; null for a pass.
        ended: How the process ended: ``exit 4``, ``signal 9``, ``deadline``.
        kind: Class of the failure, or codes of the failed checks.
        message: What failed.
        hint: What to try.
        evidence: Probes of the board after the failure, with their results, in order.
        result: Id of its result; "" without a result.
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
    """An event of a unit.

    Attributes:
        unit: Id of the unit.
        utc: Time, ISO 8601.
        what: Kind of event.
        owner: Owner of the failure; null if it is not a failure.
        message: Details.
    """

    unit: str
    utc: str
    what: Literal[
        "leased",
        "not leased",
        "given up",
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
    """The outcome of a step.

    Attributes:
        step: The step.
        outcome: ``not run`` if no attempt was completed.
        owner: Owner of the last failure, or of the reason why it was not run.
        why: The reason, in a sentence.
        quarantine: The quarantine entry that excuses its failure; "" for none.
        attempts: All attempts, oldest first.
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
        """Whether it passed only after a failed attempt."""
        return self.outcome == "pass" and bool(self.failures)

    @property
    def counts(self) -> bool:
        """Whether it counts as a failure of the nightly run."""
        return self.outcome == "fail" and not self.quarantine

    @property
    def told(self) -> str:
        """The outcome in words, including failed attempts before a pass."""
        if self.flaky:
            last = self.failures[-1]
            number = len(self.failures) + 1
            return f"passed on attempt {number} after {last.owner or 'a failure'}"
        if self.outcome == "pass":
            return "passed"
        return self.why


class UnitOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a unit.

    Attributes:
        unit: Its id.
        board: Its board type.
        state: ``well`` if it completed all of its steps; otherwise the reason why not.
        owner: Owner of the problem; null without one.
        why: The reason, in a sentence.
        passed: Number of passed steps, including flaky ones.
        flaky: Number of steps that passed only after a failed attempt.
        failed: Number of failed steps, by owner.
        quarantined: Number of failures excused by the quarantine.
        not_run: Number of steps that were not run.
        power_cycles: Number of power cycles.
        events: Its events.
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
    """A metric that differs between two arms.

    Attributes:
        unit: Id of the unit.
        what: Name of the operator or allocator, or of a metric of the whole result.
        statistic: The statistic; "" for a size.
        judgement: The judgement, as in ``HistoryComparison``.
        before: Baseline level in ``counted_in``; null if unknown.
        after: Candidate level, likewise.
        relative: Relative change to the baseline; null if undefined.
        counted_in: ``ns``, ``ticks``, ``bytes``, ``count`` or ``nJ``.
        reason: Reason of the judgement.
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
    """Comparison of a variant with the first one of the nightly run, or with earlier ones.

    Attributes:
        board: Board type.
        model: Name of the model.
        before: Label of arm A: the first variant, or the baseline.
        after: Label of arm B.
        passed: No metric is slower or larger.
        summary: Summary, in a sentence.
        units: Units they were measured on; empty if there was nothing to compare.
        counts: Number of metrics by judgement.
        changed: Changed metrics to show, the worst first.
    """

    board: str
    model: str
    before: str
    after: str
    passed: bool
    summary: str
    units: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    changed: tuple[Changed, ...] = ()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of the nightly run itself, outside of its steps and units."""

    owner: Owner
    message: str
    hint: str = ""


class QuarantineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a quarantine entry.

    Attributes:
        line: Its line in the quarantine file.
        about: The steps that it excuses.
        owner: The person responsible for it.
        reason: Why failures are excused.
        issue: Link to the issue.
        expires: The last day on which it applies.
        state: ``applies``; ``ready`` to be removed after enough passes; ``proved``: likewise, and
            failures count again; ``expired``: failures count again.
        passes: Consecutive passes of its steps.
        wanted: Number of consecutive passes required.
        excused: Failures of this nightly run that it excused.
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
    """A nightly run, as printed by ``etharness nightly --json`` and stored in ``night.json``.

    ``attempts`` is the number of completed attempts, ``interrupted`` of those ended early.
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
    arms: tuple[ArmComparison, ...] = ()
    quarantine: tuple[QuarantineStatus, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()
    schema: Literal[1] = 1


def worst_first(outcomes: Sequence[StepOutcome]) -> list[StepOutcome]:
    """Return the failures that count, sorted by owner, the worst first."""
    rank = {owner: place for place, owner in enumerate(EXIT_CODES)}
    failed = [outcome for outcome in outcomes if outcome.counts]
    return sorted(failed, key=lambda o: rank[o.owner] if o.owner else len(rank))
