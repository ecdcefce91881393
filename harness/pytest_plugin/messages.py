"""What a failed test says."""

from __future__ import annotations

import io
import shlex
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# pytest offers no other way to shorten a traceback.
from _pytest._code.code import TerminalRepr, Traceback

import harness
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.pytest_plugin.cases import CaseUnit
    from harness.runs.baseline import HistoryRef
    from harness.runs.judged_run import JudgedRun

_OURS = Path(harness.__file__).parent


class ChecksFailedError(AssertionError):
    """Checks of a run do not hold."""


# As pytest shows it: by its own name alone.
ChecksFailedError.__module__ = "builtins"


def failure_text(run: JudgedRun, unit: CaseUnit, against: HistoryRef | None) -> str:
    """Say which checks do not hold and why, of what run, and where that is."""
    from rich.console import Console

    from harness.history.database import without_password
    from harness.report.description import describe_verdict
    from harness.report.run import print_verdict

    out = io.StringIO()
    console = Console(file=out, color_system=None, force_terminal=False)
    print_verdict(console, describe_verdict(run.verdict, run.failure), verbosity=-1)
    result = run.result
    model = Path(result.model.file).name if result and result.model else "nothing"
    build = f", firmware {result.target.build_id}" if result and result.target else ""
    where = unit.board.name if unit.port is None else f"{unit.board.name} ({unit.name})"
    again = ["etharness", "check", str(run.directory)]
    again += ["--budget", run.budget] if run.budget else []
    place = ""
    if against is not None:
        place = without_password(against.url)
        again += ["--history", place, "--baseline", str(against.baseline)]
    lines = [
        *out.getvalue().strip().splitlines(),
        f"{model} on {where}{build}",
        f"budget: {run.budget or 'none'}",
        *([f"beside: {against.baseline.description} of {place}"] if against else []),
        f"kept in: {run.directory}",
        f"again: {shlex.join(again)}",
    ]
    return "\n".join(lines)


def readable(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str | TerminalRepr:
    """A failure of ours as the test's author sees it: no frames of this package.

    Returns:
        What a report has as ``longrepr``.
    """
    error = excinfo.value
    assert isinstance(error, HarnessError)
    hint = f"try: {error.hint}" if error.hint else ""
    theirs = [
        *takewhile(
            lambda entry: not _is_ours(entry.path),
            dropwhile(lambda entry: _is_pytests(entry.path), excinfo.traceback),
        )
    ]
    if not theirs:
        return "\n  ".join(filter(None, [f"{type(error).__name__}: {error.message}", hint]))
    if hint and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    excinfo.traceback = Traceback(theirs)
    short = item.config.getoption("tbstyle") in ("short", "line", "native", "no")
    return excinfo.getrepr(style="short" if short else "long", chain=False, tbfilter=False)


def _is_ours(path: Path | str) -> bool:
    return Path(path).is_relative_to(_OURS)


def _is_pytests(path: Path | str) -> bool:
    parts = Path(path).parts
    return "_pytest" in parts or "pluggy" in parts
