"""Summarizes a nightly run: outcomes of steps and units, counts, exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from harness.errors import Owner
from harness.nightly.journal import Progress, ended_of
from harness.nightly.plan import NightUnit
from harness.records.nightly import (
    EXIT_CODES,
    ArmComparison,
    NightlyStep,
    StepOutcome,
    Trouble,
    UnitEvent,
    UnitOutcome,
)

Quarantined = Callable[[StepOutcome], str]
"""Returns a description of the entry that applies to a failure; "" without one."""

_ENDS = ("not leased", "benched", "out of time", "lost")
"""Events that end the work of a unit early."""


def outcomes_of(
    steps: Iterable[NightlyStep], progress: Progress, quarantined: Quarantined = lambda _: ""
) -> tuple[StepOutcome, ...]:
    """Return the outcome of every step."""
    found = []
    for step in steps:
        outcome = _outcome(step, progress)
        if outcome.outcome == "fail":
            outcome = replace(outcome, quarantine=quarantined(outcome))
        found.append(outcome)
    return tuple(found)


def units_summary(
    units: Sequence[NightUnit], outcomes: Sequence[StepOutcome], progress: Progress
) -> tuple[UnitOutcome, ...]:
    """Return the outcome of every unit, in the order of the plan."""
    by_unit: dict[str, list[StepOutcome]] = {unit.id: [] for unit in units}
    for outcome in outcomes:
        by_unit[outcome.step.unit].append(outcome)
    return tuple(_unit(unit, by_unit[unit.id], progress.events.get(unit.id, [])) for unit in units)


def counts_of(outcomes: Sequence[StepOutcome]) -> dict[str, int]:
    """Return the numbers of steps: passed, flaky, failed by owner, quarantined, not run."""
    counted = dict.fromkeys(["pass", "flaky", *map(str, EXIT_CODES), "quarantined", "not run"], 0)
    for outcome in outcomes:
        if outcome.outcome == "pass":
            counted["pass"] += 1
            counted["flaky"] += outcome.flaky
        elif outcome.outcome == "not run":
            counted["not run"] += 1
        elif outcome.quarantine:
            counted["quarantined"] += 1
        else:
            counted[str(outcome.owner or Owner.HOST)] += 1
    return counted


def exit_code_of(
    outcomes: Iterable[StepOutcome],
    units: Iterable[UnitOutcome],
    arms: Iterable[ArmComparison],
    troubles: Iterable[Trouble],
    *,
    not_run_fails: bool,
) -> int:
    """Return the exit code: the code of the owner of the worst failure.

    A nightly run in which nothing ran fails in any case: it tested no model.
    """
    outcomes = list(outcomes)
    nothing_ran = all(outcome.outcome == "not run" for outcome in outcomes)
    owners = {outcome.owner or Owner.HOST for outcome in outcomes if outcome.counts}
    owners |= {Owner.PRODUCT for arm in arms if not arm.passed}
    owners |= {trouble.owner for trouble in troubles}
    if not_run_fails or nothing_ran:
        owners |= {unit.owner or Owner.HOST for unit in units if unit.not_run}
    return next((code for owner, code in EXIT_CODES.items() if owner in owners), 0)


def _outcome(step: NightlyStep, progress: Progress) -> StepOutcome:
    attempts = tuple(progress.attempts.get(step, ()))
    ended = ended_of(attempts)
    if not ended:
        last = _end(progress.events.get(step.unit, []))
        owner, why = (last.owner, f"{last.what}: {last.message}") if last else (None, "not reached")
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
    failed = Counter(o.owner or Owner.HOST for o in outcomes if o.counts)
    not_run = sum(o.outcome == "not run" for o in outcomes)
    last = _end(events)
    state = "well"
    if last is not None and (not_run or last.what == "benched"):
        state = last.what
    elif not_run:
        state = "interrupted"
    return UnitOutcome(
        unit=unit.id,
        board=unit.board.name,
        state=state,  # type: ignore[arg-type]
        owner=last.owner if last and state != "well" else None,
        why=last.message if last and state != "well" else "",
        passed=sum(o.outcome == "pass" for o in outcomes),
        flaky=sum(o.flaky for o in outcomes),
        failed=dict(failed),
        quarantined=sum(bool(o.quarantine) for o in outcomes),
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
