"""A nightly run for reports: planned steps, all attempts, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from harness.errors import Owner
from harness.records.explanation import Explanation

EXIT_CODES: Final = {
    Owner.PRODUCT: 1,
    Owner.TEST: 2,
    Owner.BOARD: 4,
    Owner.FLASH: 74,
    Owner.LINK: 76,
    Owner.HOST: 71,
}
"""Exit codes of a nightly run, by the owner of its worst failure; the worst first."""


StepState = Literal[
    "failed", "regression", "set-up", "infrastructure", "not run", "quarantined", "pass"
]
"""How a run ended, the most urgent first. ``failed``: the model or the firmware. ``regression``: it
passed, but a comparison found it worse. ``set-up``: the request, such as a file that does not
exist. ``infrastructure``: a board, its line or this host, which says nothing about the model; also
a planned run that was not made because of it. ``not run``: not made, and no failure.
``quarantined``: a known failure that does not count."""

STATES_OF_COUNTS: Final[dict[str, StepState]] = {
    "pass": "pass",
    "regression": "regression",
    str(Owner.PRODUCT): "failed",
    str(Owner.TEST): "set-up",
    str(Owner.BOARD): "infrastructure",
    str(Owner.FLASH): "infrastructure",
    str(Owner.LINK): "infrastructure",
    str(Owner.HOST): "infrastructure",
    "quarantined": "quarantined",
    "not run": "not run",
}
"""The keys of ``NightVerdict.counts``, and the states that they are of."""

_FAILURES: Final = ("failed", "regression", "set-up", "infrastructure")
"""States that fail a nightly run."""


class ModelAndUnit(msgspec.Struct, frozen=True):
    """A model that was planned for a unit, by their names; with the type of the board."""

    unit: str
    board: str
    model: str


class NightlyStep(ModelAndUnit, frozen=True):
    """One planned run.

    Attributes:
        unit: Id of the unit.
        board: Its board type.
        model: Name of the model.
        variant: Label of the variant.
        repeat: Number of the repetition, from 1.
    """

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
        outcome: ``not run`` if no attempt was completed; ``regression`` if it passed, but a
            comparison found it worse.
        owner: Owner of the last failure, or of the reason why it was not run; null for a pass, and
            for a step that is still to come.
        why: The reason, in a sentence.
        quarantine: The quarantine entry that excuses its failure; "" for none.
        attempts: All attempts, oldest first.
        noted: It was not run, and does not count (``not_run = "note"``).
    """

    step: NightlyStep
    outcome: Literal["pass", "regression", "fail", "not run"]
    owner: Owner | None = None
    why: str = ""
    quarantine: str = ""
    attempts: tuple[Attempt, ...] = ()
    noted: bool = False

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """Attempts that failed."""
        return tuple(attempt for attempt in self.attempts if attempt.outcome == "fail")

    @property
    def flaky(self) -> bool:
        """Whether it passed only after a failed attempt."""
        return self.outcome in ("pass", "regression") and bool(self.failures)

    @property
    def pending(self) -> bool:
        """Whether it is still to come."""
        return self.outcome == "not run" and self.owner is None

    @property
    def counted_as(self) -> str:
        """The key of ``NightVerdict.counts`` that counts it."""
        if self.outcome in ("pass", "regression"):
            return self.outcome
        if self.quarantine:
            return "quarantined"
        if self.pending or self.noted:
            return "not run"
        return str(self.owner or Owner.HOST)

    @property
    def state(self) -> StepState:
        """How it ended."""
        return STATES_OF_COUNTS[self.counted_as]

    @property
    def counts(self) -> bool:
        """Whether it counts as a failure of the nightly run."""
        return self.state in _FAILURES

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
        regressions: Number of steps that passed, but that a comparison found worse.
        failed: Number of failed steps by owner, with those that were not run because of it.
        quarantined: Number of failures excused by the quarantine.
        not_run: Number of steps that were not run, for any reason.
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
    regressions: int = 0
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
        metric_kind: Its kind, as in ``Metric``; ``phase`` for a time that is no operator's.
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
    metric_kind: str = ""


class ArmComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of a variant with the first one of the nightly run, or with earlier ones.

    Attributes:
        board: Board type.
        model: Name of the model.
        before: Label of arm A: the first variant, or the baseline.
        after: Label of arm B.
        passed: No metric is slower or larger.
        summary: Summary, in a sentence.
        commits: The worst change is in a commit after the first one, up to the second one; "" if
            unknown.
        units: Units they were measured on; empty if there was nothing to compare.
        counts: Number of metrics by judgement.
        changed: Changed metrics to show, the worst first.
        program: What changed in it, and what that cost; null if it is the same or unknown.
    """

    board: str
    model: str
    before: str
    after: str
    passed: bool
    summary: str
    commits: tuple[str, str] = ("", "")
    units: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    changed: tuple[Changed, ...] = ()
    program: Explanation | None = None


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


class NightCause(msgspec.Struct, frozen=True, kw_only=True):
    """Planned runs that ended alike, and did not simply pass; or another failure of the night.

    Attributes:
        state: How they ended.
        owner: Owner of the failure; null without one.
        why: The reason, in a sentence.
        sentence: What failed and why, in a sentence, as all reports say it.
        command: What to type to go on; "" for nothing.
        hint: What to try, as the failure says; "" for nothing.
        runs: Number of planned runs; 0 for a failure of the nightly run itself.
        not_made: Number of those that were not made.
        attempts: Number of attempts at them that ended.
        units: Ids of their units.
        models: Names of their models.
    """

    state: StepState
    owner: Owner | None
    why: str
    sentence: str = ""
    command: str = ""
    hint: str = ""
    runs: int = 0
    not_made: int = 0
    attempts: int = 0
    units: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether it fails the nightly run."""
        return self.state in _FAILURES


class NightPair(ModelAndUnit, frozen=True, kw_only=True):
    """The planned runs of a model on a unit.

    Attributes:
        unit: Id of the unit.
        board: Its board type.
        model: Name of the model.
        counts: Their number by outcome, as in ``NightVerdict``, without zeros.
        made: Number of those that were made.
        why: Why the worst one did not pass.
    """

    counts: dict[str, int]
    made: int
    why: str = ""

    @property
    def state(self) -> StepState:
        """The most urgent state of its runs."""
        counts = state_counts(self.counts)
        return next((state for state, count in counts.items() if count), "not run")

    @property
    def runs(self) -> int:
        """Number of its planned runs."""
        return sum(self.counts.values())


class NightVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a nightly run; what the terminal, reports, sites and the history show.

    Attributes:
        name: ``name`` of the plan.
        night: Name of the nightly run, and the label of its results.
        tool_version: Version of this package.
        directory: Its folder.
        started_utc: Start, ISO 8601.
        ended_utc: End, likewise; "" while it runs.
        exit_code: Exit code, of the worst cause.
        passed: Whether it passed.
        headline: The verdict in a sentence; "" while it runs.
        steps: Number of planned runs.
        counts: Number of planned runs by outcome; each run is counted once: ``pass``,
            ``regression`` (passed, but worse in a comparison), the owner of its failure (also if it
            was not made because of it), ``quarantined``, ``not run`` (not made, and no failure).
        flaky: Number of runs that passed only after a failed attempt.
        causes: Why runs did not pass, and other failures; the worst first.
        pairs: The planned runs of each model on each unit.
    """

    name: str
    night: str
    tool_version: str
    directory: str
    started_utc: str
    ended_utc: str
    exit_code: int
    passed: bool
    headline: str = ""
    steps: int
    counts: dict[str, int]
    flaky: int = 0
    causes: tuple[NightCause, ...] = ()
    pairs: tuple[NightPair, ...] = ()


class NightDocument(NightVerdict, frozen=True, kw_only=True):
    """A nightly run, as printed by ``etharness nightly --json`` and stored in ``night.json``.

    ``attempts`` is the number of completed attempts, ``interrupted`` of those ended early.
    """

    attempts: int
    interrupted: int
    outcomes: tuple[StepOutcome, ...]
    units: tuple[UnitOutcome, ...]
    arms: tuple[ArmComparison, ...] = ()
    quarantine: tuple[QuarantineStatus, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()
    schema: Literal[1] = 1

    @property
    def verdict(self) -> NightVerdict:
        """Its verdict alone."""
        fields = NightVerdict.__struct_fields__
        return NightVerdict(**{name: getattr(self, name) for name in fields})


def state_counts(counts: Mapping[str, int]) -> dict[StepState, int]:
    """Return numbers of runs by state, the most urgent first, for those of ``NightVerdict``."""
    found: dict[StepState, int] = dict.fromkeys(get_args(StepState), 0)
    for name, count in counts.items():
        if name in STATES_OF_COUNTS:
            found[STATES_OF_COUNTS[name]] += count
    return found


def alike(outcomes: Iterable[StepOutcome]) -> dict[tuple[StepState, str, str], list[StepOutcome]]:
    """Return outcomes other than passes by state, owner and reason, the worst first.

    Runs that a unit failed before it was given up have the reason of those that it did not make.
    """
    outcomes = [*outcomes]
    gone = [o for o in outcomes if o.outcome == "not run" and o.state == "infrastructure"]
    lost = {outcome.step.unit: outcome for outcome in gone}
    found: dict[tuple[StepState, str, str], list[StepOutcome]] = {}
    for outcome in outcomes:
        if (state := outcome.state) != "pass":
            known = f"; known as: {outcome.quarantine}" if outcome.quarantine else ""
            last = lost.get(outcome.step.unit, outcome) if state == "infrastructure" else outcome
            key = state, str(last.owner or ""), f"{last.why}{known}"
            found.setdefault(key, []).append(outcome)
    return dict(sorted(found.items(), key=lambda item: urgency(item[0][0], item[0][1])))


def urgency(state: StepState, owner: str) -> tuple[bool, int, int]:
    """Return a key that sorts failures: those that count, by owner, then by state."""
    rank = {str(owner): place for place, owner in enumerate(EXIT_CODES)}
    states = get_args(StepState)
    return state not in _FAILURES, rank.get(owner, len(rank)), states.index(state)


def worst_first(outcomes: Sequence[StepOutcome]) -> list[StepOutcome]:
    """Return the runs that were made and failed, sorted by owner, the worst first."""
    failed = [outcome for outcome in outcomes if outcome.counts and outcome.outcome != "not run"]
    return sorted(failed, key=lambda o: urgency(o.state, str(o.owner or "")))


class StepUnderWay(msgspec.Struct, frozen=True):
    """An attempt at a step that has begun and not ended."""

    step: NightlyStep
    attempt: int
    since_utc: str


class NightSoFar(msgspec.Struct, frozen=True):
    """A nightly run while it runs, and its end, for the process that updates its site.

    Attributes:
        document: Its outcomes and verdict, as far as they are.
        under_way: What its units run.
        changed_utc: When this was written.
        interrupted: It ended before all steps had, and can be resumed.
        directories: Run directories to add to the history first.
    """

    document: NightDocument
    under_way: list[StepUnderWay]
    changed_utc: str
    interrupted: bool
    directories: tuple[str, ...] = ()
