"""A night on the terminal: what happens while it goes on, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from harness.report.night import EXIT_CODES, Attempt, NightDocument, Step, StepOutcome, UnitEvent
from harness.report.terminal import show_line, show_table
from harness.report.text import printable

if TYPE_CHECKING:
    from rich.console import Console

_QUIET: Final = ("leased", "well")
"""What happens to every unit, and is worth no line."""

_MOST: Final = 20
"""Failures that are told unless all are asked for."""


class Teller:
    """Prints a line for everything that happens, from any thread."""

    def __init__(self, steps: int, *, quiet: bool) -> None:
        """Make one for a night of so many steps; a quiet one prints nothing."""
        self._steps, self._quiet = steps, quiet
        self._done: set[Step] = set()
        self._lock = threading.Lock()

    def ended(self, step: Step, attempt: Attempt) -> None:
        """Say how an attempt ended."""
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
        """Say what happened to a unit."""
        if event.what not in _QUIET:
            self.say(f"{event.unit}: {event.what}{f': {event.message}' if event.message else ''}")

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            with self._lock:
                print(printable(text), flush=True)


def show_schedule(console: Console, steps: Sequence[Step], output: str) -> None:
    """Print what a night would do, in order."""
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
    """Print what came of a night: units by what they did, then what failed and why, worst last."""
    if verbosity >= 0:
        _show_units(console, night)
    most = None if verbosity > 0 else _MOST
    _show_outcomes(console, "Flaky", [o for o in night.outcomes if o.flaky], most)
    _show_outcomes(console, "Quarantined", [o for o in night.outcomes if o.quarantine], most)
    for note in night.notes:
        show_line(console, f"note: {note}", style="yellow")
    for unit in night.units:
        if unit.state != "well":
            text = f"{unit.unit}: {unit.state} ({unit.owner or 'nobody'}): {unit.why}"
            show_line(console, f"{text}; {unit.not_run} not run", style="yellow")
    _show_outcomes(console, "Failed", _worst_last(night.outcomes), most)
    for trouble in night.troubles:
        show_line(console, f"{trouble.owner}: {trouble.message}", style="bold red")
    for side in night.sides:
        style = None if side.passed else "bold red"
        text = f"{side.after} against {side.before}, {side.model} on {side.board}: {side.said}"
        show_line(console, text, style=style)
    _show_verdict(console, night)


def _show_units(console: Console, night: NightDocument) -> None:
    owners = [str(owner) for owner in EXIT_CODES]
    headers = ["unit", "board", "state", "pass", "flaky", *owners, "quarantined", "not run"]
    rows = []
    for unit in night.units:
        failed = {str(owner): count for owner, count in unit.failed.items()}
        numbers = [unit.passed, unit.flaky, *(failed.get(owner, 0) for owner in owners)]
        numbers += [unit.quarantined, unit.not_run]
        rows.append([unit.unit, unit.board, unit.state, *map(str, numbers)])
    title = f"{night.night}: {night.attempts} attempts at {night.steps} steps"
    show_table(console, headers, rows, title=title, numbers=range(3, len(headers)))


def _show_outcomes(
    console: Console, title: str, outcomes: Sequence[StepOutcome], most: int | None
) -> None:
    if not outcomes:
        return
    shown = outcomes if most is None else outcomes[-most:]
    rows = [
        [str(o.owner or ""), str(o.step), o.told, o.quarantine, o.attempts[-1].directory]
        for o in shown
    ]
    show_table(console, ["owner", "step", "why", "quarantine", "directory"], rows, title=title)
    if len(shown) < len(outcomes):
        show_line(console, f"and {len(outcomes) - len(shown):,} more; -v shows all")


def _worst_last(outcomes: Iterable[StepOutcome]) -> list[StepOutcome]:
    rank = {owner: place for place, owner in enumerate(reversed(EXIT_CODES))}
    failed = [outcome for outcome in outcomes if outcome.counts]
    return sorted(failed, key=lambda o: rank.get(o.owner, -1) if o.owner else -1)


def _show_verdict(console: Console, night: NightDocument) -> None:
    counts = night.counts
    parts = [f"{counts['pass']} of {night.steps} steps passed"]
    parts += [f"{count} {name}" for name, count in counts.items() if count and name != "pass"]
    text = ", ".join(parts)
    if night.passed:
        show_line(console, f"PASS: {text}", style="bold green")
    else:
        show_line(console, f"FAIL ({night.exit_code}): {text}", style="bold red")
