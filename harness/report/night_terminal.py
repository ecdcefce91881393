"""A nightly run on the terminal: progress, then the outcome."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from harness.formatting import printable
from harness.records.nightly import Attempt, NightDocument, NightlyStep, UnitEvent
from harness.report.night_tables import headline, tables
from harness.report.terminal import show_line, show_table

if TYPE_CHECKING:
    from rich.console import Console

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
