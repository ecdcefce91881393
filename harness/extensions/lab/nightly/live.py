"""A nightly run for people: on the terminal, and on a site that is updated while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from harness.config.project import HISTORY_VARIABLE
from harness.errors import UsageError
from harness.extensions.lab.nightly.commands import Children
from harness.extensions.lab.nightly.journal import Account, Ended, Record
from harness.extensions.lab.nightly.night import Night, Prepared, quarantine_tonight, verdict_of
from harness.extensions.lab.nightly.verdict import Quarantine
from harness.files import write_atomic
from harness.plugins import EXPLANATIONS, SITES, load_extension, load_plugin
from harness.printing import print_text, printable
from harness.records.nightly import (
    Attempt,
    NightDocument,
    NightlyStep,
    NightSoFar,
    StepUnderWay,
    UnitEvent,
)
from harness.records.result import encode, now_utc
from harness.report.nightly import compared_with, counts_sentence, runs_text, tables
from harness.report.terminal import show_line, show_table
from harness.report.words import counted, word_of

if TYPE_CHECKING:
    from rich.console import Console

_QUIET: Final = ("leased", "well")
"""What happens to every unit, and is worth no line."""

_MOST: Final = 20
"""Failures that are told unless all are asked for."""


class ProgressPrinter:
    """Prints a line for each event; usable from any thread."""

    def __init__(self, steps: Iterable[NightlyStep], *, quiet: bool) -> None:
        """Expect these steps, and those that start beyond them; print nothing if ``quiet``."""
        self._steps, self._quiet = {*steps}, quiet
        self._done: set[NightlyStep] = set()
        self._lock = threading.Lock()

    def started(self, step: NightlyStep) -> None:
        """Count a step that measures again what was suspect."""
        self._steps.add(step)

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
        self.say(f"{len(self._done)}/{len(self._steps)} {step}{again}: {how}{seconds}{why}")

    def happened(self, event: UnitEvent) -> None:
        """Print an event of a unit."""
        if event.what == "benched":
            self.say(f"{event.unit} {event.message}; no more runs are made on it")
        elif event.what not in _QUIET:
            self.say(f"{event.unit}: {event.what}{f': {event.message}' if event.message else ''}")

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            with self._lock:
                print_text(printable(text))


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
    what = f"{counted(len(steps), 'run')} on {counted(units, 'unit')}"
    show_line(console, f"{what}; nights are kept in {output}")


def show_night(console: Console, night: NightDocument, *, verbosity: int = 0) -> None:
    """Print the outcome of a nightly run: tables, what failed and what to do, then the verdict."""
    if verbosity >= 0:
        for table in reversed([*tables(night)]):
            left_out = 0 if verbosity > 0 or table.title == "Units" else len(table.rows) - _MOST
            shown = table.rows[:_MOST] if left_out > 0 else table.rows
            show_table(
                console, table.headers, shown[::-1], title=table.title, numbers=table.numbers
            )
            if left_out > 0:
                show_line(console, f"and {left_out:,} more; -v shows all")
        explain: Any = load_plugin(EXPLANATIONS, "compare")
        for arm in night.arms:
            first, *lines = explain.text_of(arm.program) if explain and arm.program else ("",)
            if first:
                about = f"{arm.model} on {arm.board}, compared with {compared_with(arm.before)}"
                show_line(console, f"{about}: {first}")
            for line in lines:
                show_line(console, f"  {line}")
        for note in night.notes:
            show_line(console, f"note: {note}", style="yellow")
        _show_causes(console, night, None if verbosity > 0 else _MOST)
    show_line(console, f"{night.night}: {counts_sentence(night)}; attempts: {night.attempts:,}")
    show_line(console, night.headline, style="bold green" if night.passed else "bold red")


def _show_causes(console: Console, night: NightDocument, most: int | None) -> None:
    """Print why runs did not pass and what to do, the worst last; empty lines are around them."""
    shown = night.causes[:most]
    if len(night.causes) > len(shown):
        show_line(
            console, f"and {counted(len(night.causes) - len(shown), 'more cause')}; -v shows all"
        )
    for cause in reversed(shown):
        runs = runs_text(cause)
        what = f"{word_of(cause.state)}: {cause.sentence}{f' ({runs})' if runs else ''}"
        show_line(console, what, style="red" if cause.fails else "yellow")
        if cause.command:
            show_line(console, f"  next: {cause.command}", indent=8)
        elif cause.hint:
            show_line(console, f"  try: {cause.hint}", indent=7)


_log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
"""Shortest pause between two updates of the whole site."""

SHARE: Final = 0.1
"""The largest part of the time in which the site may be written, and the page of the night."""

_PAGE_PAUSE_S: Final = 0.5
"""Shortest pause between two updates of the page of the running night."""

_ALIVE_S: Final = 30.0
"""Longest pause between them: a page that is older is of a night that was killed."""

_UPDATE_S: Final = 600.0
"""Longest time for an update."""

_END_S: Final = 300.0
"""Longest wait for the last update when the night has ended."""

_REQUEST: Final = "site.json"
_LOG: Final = "site.log"


class LiveSite:
    """The site of a history, with the results of a running night as they come in.

    What happens is only noted by the threads of the night. One further thread writes the page of
    the running night, which takes no longer when the history is large. Another one starts a process
    that adds results to the history and writes the whole site. What fails there is a warning and a
    number.

    Attributes:
        updates: How often the site was to be written.
        failures: How often it could not be.
        reason: Why, the last time.
    """

    def __init__(self, prepared: Prepared, directory: Path) -> None:
        """Check that the site can be written, before the night begins.

        Args:
            prepared: The plan of the night.
            directory: Folder of the site.

        Raises:
            UsageError: The plan has no history, the folder is not one of a site, or a library is
                not installed.
        """
        if prepared.history is None:
            raise UsageError(
                f"{prepared.document.path} has no history for the site to show",
                hint='add one to the plan: history = "results.sqlite"',
            )
        self._command, self._write_page = _site_command(directory)
        self.updates, self.failures, self.reason = 0, 0, ""
        self._url = prepared.history.url
        self._night: Night | None = None
        self._quarantine: Quarantine | None = None
        self._stored = 0
        self._happened = (threading.Event(), threading.Event())  # since the page, since the site
        self._over = threading.Event()
        self._document: NightDocument | None = None
        self._children = Children()
        of_page = self._update_page, self._happened[0], _ALIVE_S
        of_site = self._update, self._happened[1], None
        self._threads = [
            threading.Thread(target=self._work, args=of_page, name="page", daemon=True),
            threading.Thread(target=self._work, args=of_site, name="site", daemon=True),
        ]

    def begin(self, night: Night) -> None:
        """Show a night that has been opened, and what happened in it before it was resumed."""
        self._night, self._quarantine = night, quarantine_tonight(night)
        self._wake()
        for thread in self._threads:
            thread.start()

    def learn(self, _record: Record) -> None:
        """Note that something happened, which the journal has; takes no time."""
        self._wake()

    def finish(self, document: NightDocument) -> None:
        """Show the end of the night."""
        self._document = document

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Write the site a last time."""
        self._over.set()
        self._wake()
        begun = [thread for thread in self._threads if thread.ident is not None]
        for thread in begun:
            thread.join(_END_S)
        if begun:
            self._update()

    def _wake(self) -> None:
        for event in self._happened:
            event.set()

    def _work(
        self, update: Callable[[], float], happened: threading.Event, longest_s: float | None
    ) -> None:
        """Update until the night is over: when something happened, or after ``longest_s``."""
        while not self._over.is_set():
            happened.clear()
            began = time.monotonic()
            pause_s = update()
            took_s = time.monotonic() - began
            self._over.wait(max(pause_s, took_s * (1 / SHARE - 1)))
            happened.wait(longest_s)

    def _update_page(self) -> float:
        """Write the page of the running night; return how long to wait at least."""
        try:
            self._write_page(self._so_far())
        except Exception as error:  # never the end of a night
            _log.warning("the page of the running night was not written: %s", error)
        return _PAGE_PAUSE_S

    def _update(self) -> float:
        """Write the whole site; return how long to wait at least."""
        self.updates += 1
        try:
            reason = self._write_site()
        except Exception as error:  # never the end of a night
            reason = str(error)
        if reason:
            self.failures, self.reason = self.failures + 1, reason
            _log.warning("the site was not written: %s", reason)
        return PAUSE_S

    def _so_far(self, directories: Sequence[Path] = ()) -> NightSoFar:
        """Return the night as far as it is, with run directories to add to the history first."""
        assert self._night is not None
        account = Account(self._night.journal.records)
        document = self._document or verdict_of(self._night, account, self._quarantine)
        under_way = [
            StepUnderWay(step, started.number, started.utc)
            for step, started in account.under_way.items()
        ]
        interrupted = self._over.is_set() and self._document is None
        return NightSoFar(document, under_way, now_utc(), interrupted, tuple(map(str, directories)))

    def _write_site(self) -> str:
        """Write the site in a process; return why that failed, or nothing."""
        assert self._night is not None
        records, directory = self._night.journal.records, self._night.directory
        ended = [record.attempt for record in records if isinstance(record, Ended)]
        results = [directory / each.directory for each in ended if each.result]
        file = directory / _REQUEST
        write_atomic(file, encode(self._so_far(results[self._stored :])))
        ending = self._children.run(
            [*self._command, str(file)],
            _UPDATE_S,
            log=directory / _LOG,
            environment={HISTORY_VARIABLE: self._url.with_secrets()},
        )
        if ending.expired or ending.code != 0:
            return (ending.output.splitlines() or [ending.text])[-1]
        # The night adds them again at its end, which does no harm.
        self._stored = len(results)
        return ""


def _site_command(directory: Path) -> tuple[list[str], Callable[[NightSoFar], None]]:
    """Return what updates a site and the page of a running night, after a look at its folder."""
    command: Callable[[Path], tuple[list[str], Callable[[NightSoFar], None]]] = load_extension(
        SITES, "static", "sites are", "web, or leave out --site"
    )
    return command(directory)
