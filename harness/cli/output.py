"""What commands print, write and add to the history: text or JSON, progress, reports, failures."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from harness.errors import HarnessError
from harness.files import display_path

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from harness.runs.evaluation import EvaluatedRun
    from harness.runs.run import FinishedRun


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What the user asked a command to print.

    Attributes:
        json: Print one JSON document instead of text.
        verbosity: 0 by default; 1 and more add details, -1 and less print failures and the
            verdict only.
        progress: Show the progress of long waits, if standard error is a terminal.
    """

    json: bool
    verbosity: int
    progress: bool

    def console(self) -> Console:
        """Return a console on standard output; it has no colours in a pipe or with NO_COLOR."""
        from rich.console import Console

        return Console()

    def print_line(self, text: str) -> None:
        """Print a line on standard output, folded into the width of a terminal."""
        from harness.report.terminal import show_line

        show_line(self.console(), text)

    def print_json(self, record: object) -> None:
        """Print a record or a list of records as one JSON document."""
        from harness.records.result import encode

        click.echo(encode(record), nl=False)

    @contextlib.contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a function that shows the progress of a stage, given (stage, done, total)."""
        if not self.progress or self.json or self.verbosity < 0 or not sys.stderr.isatty():
            yield lambda _stage, _done, _total: None
            return
        from rich.console import Console
        from rich.progress import Progress, TaskID

        with Progress(console=Console(stderr=True), transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def show(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=None)
                bars.update(tasks[stage], completed=done, total=total or None)

            yield show


def show_outcome(output: OutputOptions, outcome: FinishedRun, directory: Path) -> None:
    """Print a finished run and the run directory that keeps it."""
    if output.json:
        output.print_json(outcome.result)
        return
    if outcome.trace is None:
        from harness.report.test_sets import print_test_sets
        from harness.runs.evaluation import evaluate_test_sets

        title = display_path(directory)
        run = evaluate_test_sets(title, outcome.result, outcome.test_sets, directory)
        print_test_sets(output.console(), run, verbosity=output.verbosity)
        return
    from harness.report.run import show_run

    show_run(
        output.console(),
        outcome.result,
        outcome.trace,
        display_path(directory),
        verbosity=output.verbosity,
        comparison=outcome.comparison,
    )


def write_reports(files: Sequence[Path], runs: Sequence[EvaluatedRun]) -> None:
    """Write a report of ``runs`` to every file.

    Raises:
        HarnessError: A report failed. After a failed run it is only printed, as the run's own
            failure decides the exit code.
    """
    from harness.report.formats import write_report

    for file in files:
        try:
            write_report(file, runs)
        except HarnessError as error:
            if all(run.failure is None for run in runs):
                raise
            report_failure(error)


def print_annotations(
    output: OutputOptions, system: str | None, runs: Sequence[EvaluatedRun]
) -> None:
    """Print findings as annotations, each on a line that must not be folded.

    With --json they go to standard error, which a CI system reads as well.
    """
    if system is None:
        return
    from harness.report.findings import github_annotations

    for line in github_annotations(runs):
        click.echo(line, err=output.json)


@dataclass(slots=True)
class HistoryKeeper:
    """Adds a finished run to a history; a failure of the history does not lose the run.

    Attributes:
        url: Path or URL of the history; None to add nothing.
        exit_code: 0, or the exit code of the failure, which has been printed.
    """

    url: str | None
    exit_code: int = 0

    def add(self, run: EvaluatedRun) -> None:
        """Add a run, whether it passed or failed."""
        if self.url is None:
            return
        from harness.runs.add_results import add_reported

        try:
            add_reported(self.url, run)
        except HarnessError as error:
            report_failure(error)
            self.exit_code = error.exit_code


def report_failure(error: HarnessError) -> None:
    """Print a failure and what to try on standard error."""
    _print_failure(error.message, error.hint)


def report_usage_error(error: click.ClickException) -> None:
    """Print an error of click's parser as our own errors are printed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    _print_failure(error.format_message(), f"{context.command_path} --help" if context else "")


def _print_failure(message: str, hint: str) -> None:
    lines = [f"error: {message}", *[f"  try: {hint}"] * bool(hint)]
    if sys.stderr.isatty():
        from harness.report.terminal import wrapped

        width = shutil.get_terminal_size().columns
        lines = [part for line in lines for part in wrapped(line, width)]
    for line in lines:
        click.echo(line, err=True)
