"""What subcommands share: output options, progress on a terminal, failures as text or JSON."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from harness.lab.run import Outcome

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks.

    Attributes:
        json: Print one JSON document instead of text.
        verbosity: 0 normal, positive says more, negative says only failures and the verdict.
        progress: Show progress of long waits (only ever on a terminal).
    """

    json: bool
    verbosity: int
    progress: bool

    def console(self) -> Console:
        """Where results are printed."""
        from rich.console import Console

        return Console()

    @contextlib.contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a function of (stage, done, total) that shows how far a stage is."""
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


def output_options(function: _F) -> _F:
    """Add ``--json -v -q --no-progress`` and pass them as one ``output`` argument."""

    def collect(
        *args: Any, as_json: bool, verbose: int, quiet: int, no_progress: bool, **kwargs: Any
    ) -> Any:
        verbosity = verbose - quiet
        level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}
        logging.basicConfig(
            level=level.get(max(verbosity, -1), logging.DEBUG),
            format="%(levelname)s %(name)s: %(message)s",
        )
        return function(*args, output=Output(as_json, verbosity, not no_progress), **kwargs)

    collect.__doc__ = function.__doc__
    collect.__name__ = function.__name__
    collect.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--no-progress", is_flag=True, help="Show no progress bars."),
        click.option("-q", "--quiet", count=True, help="Say less."),
        click.option("-v", "--verbose", count=True, help="Say more; twice: everything."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON (schema/*.schema.json)."),
    ):
        collect = option(collect)
    return collect  # type: ignore[return-value]


def show_outcome(output: Output, outcome: Outcome, directory: Path) -> None:
    """Print a finished run that is kept in ``directory``."""
    if output.json:
        from harness.result import encode

        click.echo(encode(outcome.result), nl=False)
        return
    from harness.report.run import show_run

    show_run(
        output.console(),
        outcome.result,
        outcome.trace,
        str(directory),
        verbosity=output.verbosity,
    )


def report_failure(error: HarnessError) -> None:
    """Print a failure and its remedy on standard error."""
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"  try: {error.hint}", err=True)
