"""Tables of a nightly run, shared by all reports."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.formatting import printable
from harness.records.nightly import (
    EXIT_CODES,
    Attempt,
    NightDocument,
    NightlyStep,
    QuarantineStatus,
    StepOutcome,
    UnitEvent,
    worst_first,
)
from harness.report.matrix import Matrix, MatrixCell, MatrixLink, latest_with_numbers, matrix_of
from harness.report.summaries import (
    STATES,
    URGENCY,
    RunState,
    RunSummary,
    counts_of_states,
    state_of_owner,
)
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class NightTable:
    """A table.

    Attributes:
        title: Heading.
        headers: One per column.
        rows: Cells.
        numbers: Columns of numbers.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NightFailure:
    """Steps that failed alike, or were not run for one reason.

    Attributes:
        state: How they ended.
        owner: Owner of the failure; empty when unknown.
        why: The reason, in a sentence.
        steps: A link to each, or its run directory where the page does not show it.
        attempts: How often they were tried.
    """

    state: RunState
    owner: str
    why: str
    steps: tuple[MatrixLink, ...]
    attempts: int


@dataclass(frozen=True, slots=True)
class NightSummary:
    """A nightly run at a glance.

    Attributes:
        counts: How many steps ended in each state, the most urgent first; they sum to all.
        flaky: How many of those that passed did so only after a failed attempt.
        failures: Steps that did not pass, by state, one entry for each reason.
        matrix: Models by boards.
    """

    counts: Mapping[RunState, int]
    flaky: int
    failures: Mapping[RunState, tuple[NightFailure, ...]]
    matrix: Matrix


def describe_night(
    night: NightDocument, runs: Mapping[str, RunSummary], anchors: Mapping[str, str]
) -> NightSummary:
    """Describe a nightly run.

    Args:
        night: The nightly run.
        runs: Runs of it with their numbers, by the ids of their results.
        anchors: Where these are shown, likewise.
    """
    states = [state_of_step(outcome) for outcome in night.outcomes]
    return NightSummary(
        counts=counts_of_states(states),
        flaky=sum(outcome.flaky for outcome in night.outcomes),
        failures=failures_of(night.outcomes, anchors),
        matrix=_matrix(night, states, runs, anchors),
    )


def state_of_step(outcome: StepOutcome) -> RunState:
    """Return how a step ended."""
    if outcome.outcome == "pass":
        return "pass"
    if outcome.outcome == "not run":
        return "not run"
    return "quarantined" if outcome.quarantine else state_of_owner(outcome.owner)


def failures_of(
    outcomes: Sequence[StepOutcome], anchors: Mapping[str, str]
) -> dict[RunState, tuple[NightFailure, ...]]:
    """Return what did not pass, by state, the worst owner first.

    Args:
        outcomes: Outcomes of steps.
        anchors: Where runs are shown, by the ids of their results.
    """
    alike: dict[tuple[RunState, str, str], list[StepOutcome]] = {}
    for outcome in outcomes:
        if (state := state_of_step(outcome)) != "pass":
            why = f"{outcome.why}; known as: {outcome.quarantine}" if outcome.quarantine else ""
            key = state, str(outcome.owner or ""), why or outcome.why
            alike.setdefault(key, []).append(outcome)
    found: dict[RunState, list[NightFailure]] = {state: [] for state in STATES}
    for (state, owner, why), same in alike.items():
        steps = tuple(_link(outcome, state, anchors) for outcome in same)
        attempts = sum(len(outcome.failures) for outcome in same)
        found[state].append(NightFailure(state, owner, why, steps, attempts))
    rank = {str(owner): place for place, owner in enumerate(EXIT_CODES)}
    return {
        state: tuple(sorted(items, key=lambda item: rank.get(item.owner, len(rank))))
        for state, items in found.items()
        if items
    }


def _link(outcome: StepOutcome, state: RunState, anchors: Mapping[str, str]) -> MatrixLink:
    """Return a link to the last attempt at a step."""
    href = anchors.get(outcome.attempts[-1].result, "") if outcome.attempts else ""
    about = f"{outcome.step}: {outcome.told}"
    where = _place(outcome)
    return MatrixLink(state, str(outcome.step), href, f"{about} ({where})" if where else about)


def _matrix(
    night: NightDocument,
    states: Sequence[RunState],
    runs: Mapping[str, RunSummary],
    anchors: Mapping[str, str],
) -> Matrix:
    places: dict[tuple[str, str], list[int]] = {}
    for place, outcome in enumerate(night.outcomes):
        places.setdefault((outcome.step.model, outcome.step.board), []).append(place)
    regressed: dict[tuple[str, str], list[str]] = {}
    for arm in night.arms:
        if not arm.passed:
            text = f"{arm.after} beside {arm.before}: {arm.summary}"
            regressed.setdefault((arm.model, arm.board), []).append(text)
    cells = {}
    for key, chosen in places.items():
        urgent = sorted(chosen, key=lambda n: URGENCY.index(states[n]))
        outcomes = [night.outcomes[n] for n in chosen]
        shown = [runs[a.result] for o in outcomes for a in o.attempts[-1:] if a.result in runs]
        cells[key] = MatrixCell(
            counts=counts_of_states(states[n] for n in chosen),
            latest=latest_with_numbers(shown),
            links=tuple(_link(night.outcomes[n], states[n], anchors) for n in urgent),
            regressions=tuple(regressed.get(key, ())),
        )
    return matrix_of(cells)


def headline(night: NightDocument) -> str:
    """Return the outcome of a nightly run in a sentence."""
    counts = night.counts
    parts = [f"{counts['pass']:,} of {night.steps:,} steps passed"]
    parts += [f"{count:,} {name}" for name, count in counts.items() if count and name != "pass"]
    slower = sum(not arm.passed for arm in night.arms)
    parts += [f"{slower} comparisons with regressions"] if slower else []
    text = ", ".join(parts)
    return f"PASS: {text}" if night.passed else f"FAIL ({night.exit_code}): {text}"


def tables(night: NightDocument) -> Iterator[NightTable]:
    """Yield the tables of a nightly run that are not empty, the most important first."""
    for table in (_failed(night), _not_run(night), _troubles(night), _sides(night)):
        if table.rows:
            yield table
    yield _units(night)
    for table in (_flaky(night), _quarantined(night), quarantine_table(night.quarantine)):
        if table.rows:
            yield table


def _units(night: NightDocument) -> NightTable:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ("unit", "board", "state", "pass", "flaky", *owners, "quarantined", "not run")
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.passed, unit.flaky, *(failed.get(owner, 0) for owner in owners)]
        numbers += [unit.quarantined, unit.not_run, unit.power_cycles]
        rows.append((unit.unit, unit.board, unit.state, *(f"{count:,}" for count in numbers)))
    headers = (*headers, "power cycles")
    return NightTable("Units", headers, tuple(rows), tuple(range(3, len(headers))))


def _failed(night: NightDocument) -> NightTable:
    rows = [
        (str(o.owner or ""), str(o.step), str(len(o.failures)), o.why, _place(o))
        for o in worst_first(night.outcomes)
    ]
    headers = ("owner", "step", "attempts", "why", "directory")
    return NightTable("What failed", headers, tuple(rows), (2,))


def _not_run(night: NightDocument) -> NightTable:
    rows = [
        (unit.unit, unit.state, str(unit.owner or ""), unit.why, f"{unit.not_run:,}")
        for unit in night.units
        if unit.not_run or unit.state != "well"
    ]
    headers = ("unit", "state", "owner", "why", "steps not run")
    return NightTable("Units that did not do all", headers, tuple(rows), (4,))


def _troubles(night: NightDocument) -> NightTable:
    rows = [(str(t.owner), t.message, t.hint) for t in night.troubles]
    return NightTable("What went wrong besides", ("owner", "what", "try"), tuple(rows))


def _sides(night: NightDocument) -> NightTable:
    rows = [
        ("pass" if s.passed else "FAIL", s.board, s.model, s.before, s.after, s.summary)
        for s in night.arms
    ]
    headers = ("", "board", "model", "before", "after", "what changed")
    return NightTable("Comparison", headers, tuple(rows))


def _flaky(night: NightDocument) -> NightTable:
    rows = [
        (str(o.step), o.told, o.failures[-1].message, _place(o)) for o in night.outcomes if o.flaky
    ]
    headers = ("step", "how", "what failed before", "directory")
    return NightTable("Passed, but not at once", headers, tuple(rows))


def _quarantined(night: NightDocument) -> NightTable:
    rows = [
        (str(o.owner or ""), str(o.step), o.why, o.quarantine)
        for o in night.outcomes
        if o.quarantine
    ]
    headers = ("owner", "step", "why", "known as")
    return NightTable("Failures that are known and do not count", headers, tuple(rows))


def quarantine_table(entries: Sequence[QuarantineStatus]) -> NightTable:
    """Return the status of quarantine entries."""
    said = {
        "applies": "applies",
        "ready": "ready to be removed",
        "proved": "proved: counts again, remove it",
        "expired": "expired: counts again",
    }
    rows = [
        (
            *(said[e.state], e.about, e.reason, e.owner, e.issue, e.expires),
            *(f"{e.passes} of {e.wanted}", str(e.excused)),
        )
        for e in entries
    ]
    headers = ("state", "about", "reason", "owner", "issue", "until", "passes", "excused tonight")
    return NightTable("Quarantine", headers, tuple(rows), (7,))


def _place(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].directory if outcome.attempts else ""


_QUIET: Final = ("leased", "well")
"""What happens to every unit, and is worth no line."""

_MOST: Final = 20
"""Failures that are told unless all are asked for."""


class ProgressPrinter:
    """Prints a line for each event; usable from any thread."""

    def __init__(self, steps: int, *, quiet: bool) -> None:
        """Expect this number of steps; print nothing if ``quiet``."""
        self._steps, self._quiet = steps, quiet
        self._done: set[NightlyStep] = set()
        self._lock = threading.Lock()

    def ended(self, step: NightlyStep, attempt: Attempt) -> None:
        """Print how an attempt ended."""
        if attempt.outcome != "interrupted":
            self._done.add(step)
        how = (
            attempt.outcome if attempt.outcome != "fail" else f"FAIL {attempt.owner or ''}".strip()
        )
        again = f" (attempt {attempt.number})" if attempt.number > 1 else ""
        why = f": {attempt.message}" if attempt.message else ""
        seconds = f" {attempt.duration_s:.1f} s" if attempt.duration_s else ""
        self.say(f"{len(self._done)}/{self._steps} {step}{again}: {how}{seconds}{why}")

    def happened(self, event: UnitEvent) -> None:
        """Print an event of a unit."""
        if event.what not in _QUIET:
            self.say(f"{event.unit}: {event.what}{f': {event.message}' if event.message else ''}")

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            with self._lock:
                print(printable(text), flush=True)


def show_schedule(console: Console, steps: Sequence[NightlyStep], output: str) -> None:
    """Print the schedule of a nightly run."""
    places: dict[str, int] = {}
    rows = []
    for step in steps:
        places[step.unit] = places.get(step.unit, 0) + 1
        row = (step.unit, str(places[step.unit]), step.board, step.model, step.variant)
        rows.append((*row, str(step.repeat)))
    headers = ["unit", "", "board", "model", "variant", "repeat"]
    show_table(console, headers, rows, title="Schedule", numbers=(1, 5))
    units = len(places)
    show_line(console, f"{len(steps)} steps on {units} units; nights are kept in {output}")


def show_night(console: Console, night: NightDocument, *, verbosity: int = 0) -> None:
    """Print the outcome of a nightly run: the most important tables last, then the verdict."""
    show_line(console, f"{night.night}: {night.attempts} attempts at {night.steps} steps")
    if verbosity >= 0:
        for table in reversed([*tables(night)]):
            left_out = 0 if verbosity > 0 or table.title == "Units" else len(table.rows) - _MOST
            shown = table.rows[:_MOST] if left_out > 0 else table.rows
            show_table(
                console, table.headers, shown[::-1], title=table.title, numbers=table.numbers
            )
            if left_out > 0:
                show_line(console, f"and {left_out:,} more; -v shows all")
        for note in night.notes:
            show_line(console, f"note: {note}", style="yellow")
    show_line(console, headline(night), style="bold green" if night.passed else "bold red")
