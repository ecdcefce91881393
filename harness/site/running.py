"""A night that is under way, as a page shows it: how far it is, what runs where, what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.nightly.finish import outcomes_of, units_summary
from harness.nightly.journal import Account
from harness.nightly.orchestrator import Prepared
from harness.records.nightly import NightDocument, StepOutcome, UnitOutcome
from harness.report.nightly import NightFailure, failures_of, headline, state_of_step
from harness.report.summaries import RunState, counts_of_states

PAGE: Final = "tonight.html"

REFRESH_S: Final = 10
"""How often an open page is loaded again while the night runs."""


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """A unit of a running night.

    Attributes:
        outcome: What its steps have come to.
        step: The step that it runs; empty if it runs none.
        attempt: Number of the attempt at it.
        since: When that began.
        done: Number of its steps that have ended.
        steps: Number of its steps.
    """

    outcome: UnitOutcome
    step: str
    attempt: int
    since: str
    done: int
    steps: int

    @property
    def state(self) -> str:
        """What it does, in a word or two."""
        if self.step:
            return "runs"
        if self.done == self.steps:
            return "done"
        # Steps that were not reached yet are no interruption before the end.
        return "waits" if self.outcome.state in ("well", "interrupted") else self.outcome.state


@dataclass(frozen=True, slots=True)
class RunningNight:
    """A night while it runs, and its end.

    Attributes:
        name: Its name.
        began: When it began.
        changed: When something last happened.
        ended: Its outcome in a sentence; empty while it runs.
        passed: Whether it passed, once it has ended.
        interrupted: It ended before all steps had, and can be resumed.
        done: Number of steps that have ended.
        steps: Number of planned steps.
        counts: How steps ended that have ended.
        failures: Failures so far, one entry for each reason, by state.
        units: Its units.
    """

    name: str
    began: str
    changed: str
    ended: str
    passed: bool
    interrupted: bool
    done: int
    steps: int
    counts: Mapping[RunState, int]
    failures: Mapping[RunState, tuple[NightFailure, ...]]
    units: tuple[RunningUnit, ...]

    @property
    def over(self) -> bool:
        """Whether nothing changes any more."""
        return bool(self.ended) or self.interrupted

    @property
    def sentence(self) -> str:
        """How far it is, or how it ended."""
        if self.ended:
            return self.ended
        failed = self.counts["failed"] + self.counts["set-up"]
        parts = [f"{self.done:,} of {self.steps:,} steps done", f"{failed:,} failed"]
        if count := self.counts["infrastructure"]:
            parts.append(f"{count:,} infrastructure failure{'s' if count > 1 else ''}")
        running = sum(bool(unit.step) for unit in self.units)
        parts.append("interrupted" if self.interrupted else f"{running:,} running")
        return ", ".join(parts)


def running_night(
    prepared: Prepared,
    name: str,
    times: tuple[str, str],
    account: Account,
    document: NightDocument | None = None,
    *,
    interrupted: bool = False,
) -> RunningNight:
    """Describe a night as far as it is.

    Args:
        prepared: Its plan.
        name: Its name.
        times: When it began, and when something last happened.
        account: What has happened.
        document: Its summary, once it has ended.
        interrupted: It was ended early.
    """
    outcomes = outcomes_of(prepared.all_steps, account) if document is None else document.outcomes
    units = units_summary(prepared.units, outcomes, account)
    done = [
        outcome
        for outcome in outcomes
        if outcome.outcome != "not run" or document is not None or _never_runs(outcome, units)
    ]
    return RunningNight(
        name=name,
        began=times[0],
        changed=times[1],
        ended="" if document is None else headline(document),
        passed=document is not None and document.passed,
        interrupted=interrupted,
        done=len(done),
        steps=len(outcomes),
        counts=counts_of_states(map(state_of_step, done)),
        failures=failures_of(done, {}),
        units=tuple(_unit(unit, outcomes, account) for unit in units),
    )


def _never_runs(outcome: StepOutcome, units: Sequence[UnitOutcome]) -> bool:
    """Whether the unit of a step that was not run has been given up."""
    gone = {unit.unit for unit in units if unit.state not in ("well", "interrupted")}
    return outcome.step.unit in gone


def _unit(unit: UnitOutcome, outcomes: Sequence[StepOutcome], account: Account) -> RunningUnit:
    own = [outcome for outcome in outcomes if outcome.step.unit == unit.unit]
    started = next((s for step, s in account.under_way.items() if step.unit == unit.unit), None)
    return RunningUnit(
        outcome=unit,
        step="" if started is None else str(started.step),
        attempt=0 if started is None else started.number,
        since="" if started is None else started.utc,
        done=sum(outcome.outcome != "not run" for outcome in own),
        steps=len(own),
    )
