"""Options about the history that a run is compared with or added to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.output import report_failure
from harness.cli.panels import option
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef
    from harness.runs.judged_run import JudgedRun

_F = TypeVar("_F", bound=Callable[..., Any])


def baseline_option(function: _F) -> _F:
    """Add ``--baseline``, passed as a ``BaselineRef``, or None without the option."""
    return option(
        "--baseline",
        metavar="REF",
        callback=baseline_of,
        help="Compare with this baseline from the history: last:20, name:NAME or commit:PREFIX "
        "(docs/verdicts.md).",
    )(function)


def baseline_of(_: click.Context, __: click.Parameter, text: str | None) -> BaselineRef | None:
    """Parse the value of ``--baseline``."""
    if text is None:
        return None
    from harness.check.history.baseline import parse_baseline

    return parse_baseline(text)


@dataclass(slots=True)
class HistoryKeeper:
    """Adds a finished run to a history; a failure of the history does not lose the run.

    Attributes:
        url: Path or URL of the history; None to add nothing.
        exit_code: 0, or the exit code of the failure, which has been printed.
    """

    url: str | None
    exit_code: int = 0

    def add(self, run: JudgedRun) -> None:
        """Add a run, whether it passed or failed."""
        if self.url is None:
            return
        from harness.runs.add_results import add_reported

        try:
            add_reported(self.url, run)
        except HarnessError as error:
            report_failure(error)
            self.exit_code = error.exit_code
