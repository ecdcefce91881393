"""The verdict of a nightly run: made here from its journal, and shown everywhere.

Two things change how an outcome counts. The quarantine lists known failures that do not count, with
an owner and an expiry date: their steps run and are shown like all others, and an entry ends by
itself, on its expiry date or after enough passes in a row. A comparison of arms can make a pass a
regression: each variant is compared with the first one, and with a baseline. Both arms ran in the
same sessions, in turns, which separates a change from noise better than any number of nightly runs
does (``docs/verdicts.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from harness import __version__
from harness.check.budget import Budget
from harness.check.history.checks import history_checks
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history
from harness.check.history.comparison import OTHER_WORDS, HistoryComparison
from harness.check.history.samples import (
    History,
    HistoryLimits,
    Measured,
    Provenance,
    with_further_runs,
    with_results,
)
from harness.config.board import Positive, Strict
from harness.config.toml_file import Document, read_document
from harness.errors import HarnessError, Owner, UsageError
from harness.extensions.lab.nightly.journal import Account, ended_of
from harness.extensions.lab.nightly.plan import NightUnit
from harness.formatting import printable
from harness.history.entries import measured_of
from harness.records.nightly import (
    EXIT_CODES,
    STATES_OF_COUNTS,
    ArmComparison,
    Changed,
    NightCause,
    NightDocument,
    NightlyStep,
    NightPair,
    QuarantineStatus,
    StepOutcome,
    StepState,
    Trouble,
    UnitEvent,
    UnitOutcome,
    alike,
    urgency,
)
from harness.records.result import Result, VerdictRecord
from harness.records.trace import Losses
from harness.report.nightly import (
    bisect_command,
    command_words,
    compared_arm,
    growth_sentence,
    regression_sentence,
    worse_numbers,
)
from harness.report.words import counted
from harness.runs.baseline import kept_image, kept_model
from harness.runs.directory import RunDirectory, load_history, save_verdict
from harness.runs.evaluation import used_budget
from harness.runs.history import HistoryRef, read_subject
from harness.runs.repeats import unsure

_ENDS = ("not leased", "benched", "out of time", "lost")
"""Events that end the work of a unit early."""

_MOST_NAMED: Final = 3
"""Units or models that a headline names."""

_LONGEST_CAUSE: Final = 240
"""Characters of a cause in a headline."""


def night_verdict(
    units: Sequence[NightUnit],
    steps: Sequence[NightlyStep],
    account: Account,
    *,
    name: str,
    night: str,
    directory: str,
    units_file: Path | None = None,
    times: tuple[str, str],
    not_run_fails: bool = True,
    quarantine: Quarantine | None = None,
    arms: Sequence[ArmComparison] = (),
    troubles: Sequence[Trouble] = (),
    notes: Sequence[str] = (),
) -> NightDocument:
    """Return a nightly run with its verdict, as far as it is.

    Args:
        units: Its units.
        steps: Its planned runs.
        account: What its journal says.
        name: ``name`` of the plan.
        night: Its name.
        directory: Its folder.
        units_file: The lab's ``units.toml``, for commands; None for the default.
        times: When it began and ended, ISO 8601; the end is "" while it runs.
        not_run_fails: Whether runs that were not made fail it. They do in any case if no run was
            made: it tested no model.
        quarantine: Known failures, which do not count; None for none.
        arms: Comparisons of its variants.
        troubles: Failures of the nightly run itself.
        notes: Further remarks.
    """
    over = bool(times[1])
    outcomes = outcomes_of(steps, account, quarantine, over=over)
    status = quarantine.status(outcomes) if quarantine else ()
    nothing_ran = all(outcome.outcome == "not run" for outcome in outcomes)
    if over and not not_run_fails and not nothing_ran:
        outcomes = tuple(
            replace(o, noted=o.outcome == "not run" and o.owner is not Owner.TEST) for o in outcomes
        )
    outcomes = with_regressions(outcomes, arms)
    code = exit_code_of(outcomes, arms, troubles)
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    own = units_summary(units, outcomes, account)
    states = {unit.unit: unit.state for unit in own}
    interrupted = sum(attempt.outcome == "interrupted" for attempt in attempts)
    document = NightDocument(
        name=name,
        night=night,
        tool_version=__version__,
        directory=directory,
        started_utc=times[0],
        ended_utc=times[1],
        exit_code=code,
        passed=over and code == 0,
        steps=len(outcomes),
        counts=counts_of(outcomes),
        flaky=sum(outcome.flaky for outcome in outcomes),
        causes=tuple(_causes(outcomes, arms, troubles, directory, units_file, states)),
        pairs=tuple(_pairs(outcomes)),
        attempts=len(attempts) - interrupted,
        interrupted=interrupted,
        outcomes=outcomes,
        units=own,
        arms=tuple(arms),
        quarantine=status,
        troubles=tuple(troubles),
        notes=tuple(notes),
    )
    return replace(document, headline=_headline(document)) if over else document


def outcomes_of(
    steps: Iterable[NightlyStep],
    account: Account,
    quarantine: Quarantine | None = None,
    *,
    over: bool = True,
) -> tuple[StepOutcome, ...]:
    """Return the outcome of every step; ``over``: those that were not reached never will be."""
    found = []
    for step in steps:
        outcome = _outcome(step, account)
        if quarantine and outcome.outcome == "fail":
            outcome = replace(outcome, quarantine=quarantine.entry_for(outcome))
        found.append(outcome)
    if not over:
        return tuple(found)
    # An attempt that was cut off says why its unit went no further.
    last = {o.step.unit: o.attempts[-1].message for o in found if o.pending and o.attempts}
    return tuple(
        replace(o, owner=Owner.HOST, why=last.get(o.step.unit) or o.why) if o.pending else o
        for o in found
    )


def with_regressions(
    outcomes: Sequence[StepOutcome], arms: Sequence[ArmComparison]
) -> tuple[StepOutcome, ...]:
    """Return outcomes in which the runs of an arm that a comparison failed did not simply pass."""
    worse: dict[tuple[str, str, str], list[str]] = {}
    for arm in arms:
        if not arm.passed:
            worse.setdefault((arm.board, arm.model, arm.after), []).append(regression_sentence(arm))
    found = []
    for outcome in outcomes:
        step = outcome.step
        reasons = worse.get((step.board, step.model, step.variant))
        if reasons and outcome.outcome == "pass":
            outcome = replace(
                outcome, outcome="regression", owner=Owner.PRODUCT, why="; ".join(reasons)
            )
        found.append(outcome)
    return tuple(found)


def units_summary(
    units: Sequence[NightUnit], outcomes: Sequence[StepOutcome], account: Account
) -> tuple[UnitOutcome, ...]:
    """Return the outcome of every unit, in the order of the plan."""
    by_unit: dict[str, list[StepOutcome]] = {unit.id: [] for unit in units}
    for outcome in outcomes:
        by_unit[outcome.step.unit].append(outcome)
    return tuple(_unit(unit, by_unit[unit.id], account.events.get(unit.id, [])) for unit in units)


def counts_of(outcomes: Iterable[StepOutcome]) -> dict[str, int]:
    """Return the number of steps by outcome; they sum to all (see ``NightVerdict``)."""
    counted = Counter(outcome.counted_as for outcome in outcomes)
    return {name: counted[name] for name in STATES_OF_COUNTS}


def exit_code_of(
    outcomes: Iterable[StepOutcome], arms: Iterable[ArmComparison], troubles: Iterable[Trouble]
) -> int:
    """Return the exit code: the code of the owner of the worst failure."""
    owners = {outcome.owner or Owner.HOST for outcome in outcomes if outcome.counts}
    owners |= {Owner.PRODUCT for arm in arms if not arm.passed}
    owners |= {trouble.owner for trouble in troubles}
    return next((code for owner, code in EXIT_CODES.items() if owner in owners), 0)


def _outcome(step: NightlyStep, account: Account) -> StepOutcome:
    attempts = tuple(account.attempts.get(step, ()))
    ended = ended_of(attempts)
    if not ended and (wrong := account.wrong.get(replace(step, repeat=0))) is not None:
        return StepOutcome(
            step=step, outcome="not run", owner=Owner.TEST, why=wrong.message, attempts=attempts
        )
    if not ended:
        last = _end(account.events.get(step.unit, []))
        owner, why = (last.owner or Owner.HOST, last.message) if last else (None, "not reached")
        return StepOutcome(step=step, outcome="not run", owner=owner, why=why, attempts=attempts)
    last_attempt = ended[-1]
    if last_attempt.outcome == "pass":
        return StepOutcome(step=step, outcome="pass", attempts=attempts)
    return StepOutcome(
        step=step,
        outcome="fail",
        owner=last_attempt.owner,
        why=last_attempt.message,
        attempts=attempts,
    )


def _unit(
    unit: NightUnit, outcomes: Sequence[StepOutcome], events: Sequence[UnitEvent]
) -> UnitOutcome:
    counts = counts_of(outcomes)
    not_run = sum(o.outcome == "not run" for o in outcomes)
    unreached = sum(o.outcome == "not run" and o.owner is not Owner.TEST for o in outcomes)
    last = _end(events)
    state = "well"
    if last is not None and (unreached or last.what == "benched"):
        state = last.what
    elif unreached:
        state = "interrupted"
    return UnitOutcome(
        unit=unit.id,
        board=unit.board.name,
        state=state,  # type: ignore[arg-type]
        owner=last.owner if last and state != "well" else None,
        why=last.message if last and state != "well" else "",
        passed=counts["pass"],
        flaky=sum(o.flaky for o in outcomes),
        regressions=counts["regression"],
        failed={owner: counts[str(owner)] for owner in EXIT_CODES if counts[str(owner)]},
        quarantined=counts["quarantined"],
        not_run=not_run,
        power_cycles=sum(event.what == "power cycled" for event in events),
        events=tuple(events),
    )


def _end(events: Sequence[UnitEvent]) -> UnitEvent | None:
    """Return the event that ended the work of a unit, unless it was well afterwards."""
    for event in reversed(events):
        if event.what in _ENDS:
            return event
        if event.what in ("well", "leased"):
            return None
    return None


def _causes(
    outcomes: Sequence[StepOutcome],
    arms: Sequence[ArmComparison],
    troubles: Sequence[Trouble],
    directory: str,
    units_file: Path | None,
    unit_states: Mapping[str, str],
) -> list[NightCause]:
    """Return why runs did not pass and what else failed, the worst first."""
    worse: dict[tuple[str, str, str], list[ArmComparison]] = {}
    for arm in arms:
        if not arm.passed:
            worse.setdefault((arm.board, arm.model, arm.after), []).append(arm)
    causes = []
    for (state, owner, why), same in alike(o for o in outcomes if not o.pending).items():
        units = tuple(dict.fromkeys(outcome.step.unit for outcome in same))
        models = tuple(dict.fromkeys(outcome.step.model for outcome in same))
        command, attempts = "", ended_of([one for outcome in same for one in outcome.attempts])
        if state == "regression":
            steps = {(o.step.board, o.step.model, o.step.variant) for o in same}
            command = bisect_command(next(arm for key in steps for arm in worse[key]))
            worse = {key: found for key, found in worse.items() if key not in steps}
        elif state == "infrastructure" and owner != str(Owner.HOST):
            lab = [f"--units={units_file}"] if units_file is not None else []
            command = command_words("etharness lab health", *lab, *units[:_MOST_NAMED])
        elif state not in ("set-up", "infrastructure") and same[0].attempts:
            run = Path(directory, same[0].attempts[-1].directory)
            command = command_words("etharness check", str(run))
        hints = [] if command else [one.hint for one in attempts if one.hint]
        causes.append(
            NightCause(
                state=state,
                owner=Owner(owner) if owner else None,
                why=why,
                sentence=_sentence(state, why, same, unit_states),
                command=command,
                hint=hints[-1] if hints else "",
                runs=len(same),
                not_made=sum(outcome.outcome == "not run" for outcome in same),
                attempts=len(attempts),
                units=units,
                models=models,
            )
        )
    for arm in (arm for left in worse.values() for arm in left):
        why = regression_sentence(arm)
        causes.append(
            NightCause(
                state="regression",
                owner=Owner.PRODUCT,
                why=why,
                sentence=why,
                command=bisect_command(arm),
            )
        )
    for trouble in troubles:
        state, why = STATES_OF_COUNTS[str(trouble.owner)], trouble.message
        causes.append(
            NightCause(state=state, owner=trouble.owner, why=why, sentence=why, hint=trouble.hint)
        )
    return sorted(causes, key=lambda cause: urgency(cause.state, str(cause.owner or "")))


def _sentence(
    state: StepState, why: str, same: Sequence[StepOutcome], unit_states: Mapping[str, str]
) -> str:
    """Say what runs that ended alike are of, and why they did not pass."""
    if state == "regression":
        return why
    why = why or "no reason was recorded"
    units, models, boards = (
        [*dict.fromkeys(getattr(outcome.step, name) for outcome in same)]
        for name in ("unit", "model", "board")
    )
    on = _named(units, "units")
    if state == "infrastructure":
        if any(unit_states[unit] == "benched" for unit in units):
            return f"{on} {why}"  # what it did: "failed its health check"
        return why if len(units) == 1 and units[0] in why else f"{on}: {why}"
    if len(models) == len(boards) == 1 and models[0] in why and boards[0] in why:
        return why
    return f"{_named(models, 'models')} on {on}: {why}"


def _pairs(outcomes: Sequence[StepOutcome]) -> Iterator[NightPair]:
    """Yield the planned runs of each model on each unit."""
    found: dict[tuple[str, str, str], list[StepOutcome]] = {}
    for outcome in outcomes:
        step = outcome.step
        found.setdefault((step.unit, step.board, step.model), []).append(outcome)
    for (unit, board, model), own in found.items():
        whys = [why for _, _, why in alike(own)]
        yield NightPair(
            unit=unit,
            board=board,
            model=model,
            counts={name: count for name, count in counts_of(own).items() if count},
            made=sum(outcome.outcome != "not run" for outcome in own),
            why=whys[0] if whys else "",
        )


def _headline(night: NightDocument) -> str:
    """Return the verdict in a sentence, which names the worst cause."""
    if night.passed:
        passed = night.counts["pass"]
        part = f"all {night.steps:,}" if passed == night.steps else f"{passed:,} of {night.steps:,}"
        parts = ["the run passed" if night.steps == passed == 1 else f"{part} runs passed"]
        parts += [f"{night.flaky:,} after a retry"] if night.flaky else []
        known = night.counts["quarantined"]
        parts += [counted(known, "known failure")] if known else []
        parts += [f"{night.counts['not run']:,} not run"] if night.counts["not run"] else []
        return f"PASS: {', '.join(parts)}"
    worst = night.causes[0]
    more = sum(cause.fails for cause in night.causes) - 1
    others = f"; and {counted(more, 'more cause')}" if more else ""
    text = printable(worst.sentence)
    text = text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}..."
    return f"FAIL: {text}{_runs_text(worst, night.steps)}{others}"


def _named(names: Sequence[str], plural: str) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names):,} {plural}"


def _runs_text(cause: NightCause, steps: int) -> str:
    """Say how many runs a cause concerns."""
    if not cause.runs:
        return ""
    runs = f"{cause.runs:,} of {counted(steps, 'run')}"
    if cause.not_made == cause.runs:
        return f" ({runs} not made)"
    if cause.state == "regression":
        return f" ({runs})"
    return f" ({runs} failed{f', {cause.not_made:,} not made' if cause.not_made else ''})"


READY: Final = 10
"""Passes in a row after which an entry without ``reprove`` may be removed."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


STATUS: Final = list[QuarantineStatus]
"""What ``--quarantine-status --json`` prints."""


class QuarantineEntry(Strict, frozen=True, kw_only=True):
    """A known failure.

    Attributes:
        owner: Person or team responsible for it.
        reason: Why it does not count.
        expires: The last day on which it does not count.
        issue: Link to the issue.
        unit: Pattern of units.
        board: Pattern of board types.
        model: Pattern of models.
        failures: Owners of the failures that do not count; empty for all.
        reprove: Passes in a row after which it counts again; None for only after its last day.
    """

    owner: _Text
    reason: _Text
    expires: date
    issue: str = ""
    unit: str = "*"
    board: str = "*"
    model: str = "*"
    failures: tuple[Owner, ...] = ()
    reprove: Positive | None = None

    def covers(self, step: NightlyStep) -> bool:
        """Whether the entry applies to a step."""
        return (
            fnmatchcase(step.unit, self.unit)
            and fnmatchcase(step.board, self.board)
            and fnmatchcase(step.model, self.model)
        )

    def excuses(self, owner: Owner | None) -> bool:
        """Whether the entry applies to failures of this owner."""
        return not self.failures or owner in self.failures

    @property
    def title(self) -> str:
        """The patterns and owners of the entry in one line; "" if it restricts nothing."""
        about = [
            f"{name} {value}"
            for name in ("unit", "board", "model")
            if (value := getattr(self, name)) != "*"
        ]
        kinds = [str(owner) for owner in self.failures]
        return ", ".join([*about, *kinds])


class QuarantineFile(Strict, frozen=True):
    """A quarantine file."""

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    quarantine: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The entries of a quarantine file, with their passes so far.

    Attributes:
        file: The file, for messages.
        entries: The entries with their line numbers.
        passes: Passes in a row before this nightly run, by entry.
        today: The date of this nightly run.
    """

    file: str
    entries: tuple[tuple[QuarantineEntry, int], ...]
    passes: tuple[int, ...]
    today: date

    def entry_for(self, outcome: StepOutcome) -> str:
        """Return a description of the entry that applies to a failure; "" without one."""
        for index, (entry, line) in enumerate(self.entries):
            about = entry.covers(outcome.step) and entry.excuses(outcome.owner)
            if about and self._applies(index):
                return self._known_as(entry, line)
        return ""

    def status(self, tonight: Sequence[StepOutcome]) -> tuple[QuarantineStatus, ...]:
        """Return the status of each entry after this nightly run."""
        found = []
        for index, (entry, line) in enumerate(self.entries):
            passes = passes_in_a_row(entry, [tonight], self.passes[index])
            wanted = entry.reprove or READY
            state = "applies"
            if entry.expires < self.today:
                state = "expired"
            elif not self._applies(index):
                state = "proved"
            elif passes >= wanted:
                state = "ready"
            found.append(
                QuarantineStatus(
                    line=line,
                    about=entry.title or "everything",
                    owner=entry.owner,
                    reason=entry.reason,
                    issue=entry.issue,
                    expires=entry.expires.isoformat(),
                    state=state,  # type: ignore[arg-type]
                    passes=passes,
                    wanted=wanted,
                    excused=sum(o.quarantine == self._known_as(entry, line) for o in tonight),
                )
            )
        return tuple(found)

    def _known_as(self, entry: QuarantineEntry, line: int) -> str:
        issue = f", {entry.issue}" if entry.issue else ""
        return f"{entry.reason} ({entry.owner}, until {entry.expires}{issue}; {self.file}:{line})"

    def _applies(self, index: int) -> bool:
        entry = self.entries[index][0]
        proved = entry.reprove is not None and self.passes[index] >= entry.reprove
        return self.today <= entry.expires and not proved


def load_quarantine(file: Path) -> tuple[Document, tuple[tuple[QuarantineEntry, int], ...]]:
    """Read the entries of a file, each with its line number.

    Raises:
        UsageError: The file is missing or invalid, or an entry applies to every failure.
    """
    document = read_document(file)
    entries = document.as_(QuarantineFile).quarantine
    found = []
    for index, entry in enumerate(entries):
        key = ("quarantine", index)
        if not entry.title:
            raise UsageError(
                f"{document.where(key)}: this entry applies to every failure of every unit",
                hint="restrict it by unit, board, model or failures",
            )
        found.append((entry, document.line(key)))
    return document, tuple(found)


def with_passes(file: Path, earlier: Sequence[Sequence[StepOutcome]], today: date) -> Quarantine:
    """Read a file, and count the passes in earlier nightly runs, oldest first.

    Raises:
        UsageError: As for ``load_quarantine``.
    """
    document, entries = load_quarantine(file)
    passes = tuple(passes_in_a_row(entry, earlier) for entry, _ in entries)
    return Quarantine(str(document.path), entries, passes, today)


def passes_in_a_row(
    entry: QuarantineEntry, nights: Iterable[Iterable[StepOutcome]], before: int = 0
) -> int:
    """Return the number of passes of an entry's steps since the last failure that it covers.

    Args:
        entry: The entry.
        nights: The outcomes of each nightly run, oldest first.
        before: Passes in a row before these.
    """
    for night in nights:
        about = [outcome for outcome in night if entry.covers(outcome.step)]
        for outcome in sorted(about, key=_when):
            if any(entry.excuses(attempt.owner) for attempt in outcome.failures):
                before = 0
            elif outcome.outcome == "pass":
                before += 1
    return before


def _when(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].started_utc if outcome.attempts else ""


def outcomes_of_nights(documents: Iterable[NightDocument]) -> list[Sequence[StepOutcome]]:
    """Return the outcomes of each nightly run, oldest first."""
    ordered = sorted(documents, key=lambda night: night.started_utc)
    return [night.outcomes for night in ordered]


_NO_RESULT: Final = "no complete run"
_MOST: Final = 50
"""Largest number of changed metrics recorded for a comparison."""


@dataclass(frozen=True, slots=True)
class _ArmResults:
    """The sound results of a variant of a model on a type of board, and their limits."""

    measured: tuple[Measured, ...]
    limits: HistoryLimits
    verdicts: Mapping[Path, tuple[str, VerdictRecord]] = field(default_factory=dict)
    """Ids and verdicts of the results by their run directories."""
    compared: tuple[tuple[Provenance, History], ...] = ()
    """Those that have compared themselves, with what they were compared with."""


@dataclass(frozen=True, slots=True)
class ComparedArm:
    """A comparison of an arm, and what it rests on.

    Attributes:
        arm: The comparison, as reports show it.
        comparison: The comparison, metric by metric; None if there was nothing to compare.
        pairs_decide: A change is open that pairs with the baseline would decide.
        of_baseline: It is one with earlier nightly runs.
    """

    arm: ArmComparison
    comparison: HistoryComparison | None
    pairs_decide: bool = False
    of_baseline: bool = False
    results: _ArmResults | None = None

    def store_verdicts(self, baseline: HistoryRef) -> None:
        """Record a failed or disturbed comparison with the results of the arm in the history.

        Each of them passed when it was added. Without this they would become the baseline of later
        nights, in which the regression would disappear.
        """
        if self.comparison is None or self.results is None or not self.of_baseline:
            return
        checks, disturbed = [*history_checks(self.comparison)], self.comparison.disturbed
        failed = any(check.failed for check in checks)
        if not failed and not disturbed:
            return
        with baseline.open() as store:
            for directory, (own_id, verdict) in self.results.verdicts.items():
                # A run that looked again has compared itself, but not with all of the night.
                own = [check for check in verdict.checks if not check.code.startswith("H")]
                whole = replace(
                    verdict,
                    passed=not failed and not any(check.failed for check in own),
                    checks=(*own, *checks),
                    disturbed=disturbed,
                )
                save_verdict(directory, whole)
                store.record_verdict(own_id, whole)


def compare_arms(
    directory: Path,
    outcomes: Sequence[StepOutcome],
    variants: Sequence[str],
    baseline: HistoryRef | None,
    tonight: Collection[str],
) -> Iterator[ComparedArm]:
    """Yield the comparisons of every model on every type of board.

    Args:
        directory: The folder of the nightly run.
        outcomes: The outcome of each step.
        variants: Labels of the variants; the others are compared with the first.
        baseline: Baseline of earlier nightly runs to compare with; None for none.
        tonight: Ids of all results of this nightly run.
    """
    if len(variants) == 1 and baseline is None:
        return
    pairs = dict.fromkeys((o.step.board, o.step.model) for o in outcomes)
    for board, model in pairs:
        of_pair = [
            o for o in outcomes if o.attempts and (o.step.board, o.step.model) == (board, model)
        ]
        results = {
            label: _load_results(directory, [o for o in of_pair if o.step.variant == label])
            for label in variants
        }
        first = variants[0]
        for label in variants[1:]:
            old, new = results[first], results[label]
            compared = _compare_tonight(old, new, first)
            arm = _arm_comparison((board, model, first, label), compared, _NO_RESULT)
            yield ComparedArm(arm, compared)
        if baseline is not None:
            for label in variants:
                names = (board, model, str(baseline.baseline), label)
                compared, decide = _compare_with_baseline(results[label], baseline, tonight)
                missing = "no earlier results" if results[label].measured else _NO_RESULT
                arm = _arm_comparison(names, compared, missing)
                yield ComparedArm(arm, compared, decide, True, results[label])


def _load_results(directory: Path, outcomes: Sequence[StepOutcome]) -> _ArmResults:
    """Load the measurements of the runs that completed and lost no events."""
    limits: HistoryLimits | None = None
    measured = []
    verdicts: dict[Path, tuple[str, VerdictRecord]] = {}
    compared: list[tuple[Provenance, History]] = []
    for outcome in outcomes:
        run = RunDirectory(directory / outcome.attempts[-1].directory)
        try:
            result = run.read_result()
            subject, damage = read_subject(run, result)
        except (HarnessError, OSError):
            continue  # reported when it is added to the history
        if subject is None or damage or result.failure is not None or _lossy(subject.trace.losses):
            continue
        limits = limits or _limits(run, result)
        measured.append(measured_of(result, subject, limits))
        if (history := load_history(run.path)) is not None:
            compared.append((measured[-1].provenance, history))
        if result.verdict is not None:
            verdicts[run.path] = (result.id, result.verdict)
    measured.sort(key=lambda item: item.provenance.started_utc)
    return _ArmResults(tuple(measured), limits or DEFAULT_LIMITS, verdicts, tuple(compared))


def _lossy(losses: Losses) -> bool:
    return bool(losses.events or losses.blocks or losses.chunks or losses.records or losses.damaged)


def _limits(run: RunDirectory, result: Result) -> HistoryLimits:
    file = used_budget(run, result.verdict)
    if file is None:
        return DEFAULT_LIMITS
    model = result.model.known_as if result.model else ""
    return Budget.load(file, result.board, model, result.unit).history


def _compare_tonight(old: _ArmResults, new: _ArmResults, label: str) -> HistoryComparison | None:
    """Compare the new arm with the old one, by the results of this nightly run alone."""
    if not old.measured or not new.measured:
        return None
    places = tuple(range(len(old.measured)))
    empty = History(baseline=places, description=f"{label} of the same nightly run")
    history = with_results(empty, old.measured)
    return compare_with_history(history, new.measured, new.limits)


def _compare_with_baseline(
    arm: _ArmResults, baseline: HistoryRef, tonight: Collection[str]
) -> tuple[HistoryComparison | None, bool]:
    """Compare an arm with earlier nightly runs; also return whether pairs would say more."""
    if not arm.measured:
        return None, False
    history = baseline.fetch(arm.measured[-1].provenance, arm.limits, also=tonight)
    if not history.baseline:
        return None, False
    for tested, known in arm.compared:
        history = with_further_runs(history, known, tested)
    compared = compare_with_history(history, arm.measured, arm.limits)
    of_unit = {item.provenance.unit: item.provenance for item in arm.measured}
    at_hand = any(_can_pair(one, history) for one in of_unit.values())
    return compared, at_hand and unsure(compared)


def _can_pair(tested: Provenance, history: History) -> bool:
    """Return whether what the baseline ran differs from what a result ran, and is kept here."""
    newest = history.newest_of_baseline(tested.unit)
    if newest is None:
        return False
    if newest.build_id not in ("", tested.build_id):
        image = kept_image(tested.board, newest.build_id)
        if image is not None and newest.model_sha256 == tested.model_sha256:
            return True
    if newest.model_sha256 in ("", tested.model_sha256):
        return False
    return kept_model(newest.model_sha256) is not None


def _arm_comparison(
    names: tuple[str, str, str, str], comparison: HistoryComparison | None, missing: str
) -> ArmComparison:
    """Return what a comparison found; without one, what was missing for it."""
    board, model, before, after = names
    if comparison is None:
        summary = f"not compared: {missing}"
        return ArmComparison(
            board=board, model=model, before=before, after=after, passed=True, summary=summary
        )
    arm = compared_arm(names, comparison)
    failed = any(check.failed for check in history_checks(comparison))
    return replace(
        arm,
        passed=not failed,
        summary=_summarize(comparison, worse_numbers(arm)),
        changed=arm.changed[:_MOST],
    )


def _summarize(comparison: HistoryComparison, worse: Sequence[Changed]) -> str:
    """Summarize the changes in a sentence, what got worse first."""
    counts: Counter[str] = Counter(number.judgement for number in comparison.numbers)
    total = counted(len(comparison.numbers), "number")
    found = []
    if worse:
        on = f" on {worse[0].unit}" if len(comparison.units) > 1 else ""
        found += [f"{growth_sentence(worse[0])}{on}"]
        found += [f"{len(worse) - 1:,} more of {total} worse"] if len(worse) > 1 else []
    found += [
        f"all operators {100 * common.change.value:+.1f} % ({common.board_unit})"
        for common in comparison.common
        if common.judgement in ("regression", "suspect", "improvement")
    ]
    found += [
        f"most operators off by {100 * common.typical:.1f} % ({common.board_unit})"
        for common in comparison.common
        if common.judgement == "scattered"
    ]
    names = {"suspect": "of these suspect", "improvement": "better"}
    names |= {kind: word for kind, word in OTHER_WORDS.items() if kind != "same"}
    found += [f"{counts[kind]:,} {name}" for kind, name in names.items() if counts[kind]]
    undecided = sum(any(step.undecided for step in number.steps) for number in comparison.numbers)
    if undecided:
        found.append(f"{counted(undecided, 'increase')} that nobody accepted")
    return ", ".join(found if worse else [f"none of {total} worse", *found])
