"""The text of a failed verdict: which checks failed and why, of which run, and where it is."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

from harness.runs.baseline import HistoryRef
from harness.runs.judged_run import JudgedRun


def failure_text(run: JudgedRun, against: HistoryRef | None = None) -> str:
    """Return the failed checks of a run, what ran, and the command that checks it again."""
    from rich.console import Console

    from harness.report.description import describe_verdict
    from harness.report.run import print_verdict

    out = io.StringIO()
    console = Console(file=out, color_system=None, force_terminal=False)
    print_verdict(console, describe_verdict(run.verdict, run.failure), verbosity=-1)
    place = str(run.directory or run.title)
    again = ["etharness", "check", place]
    again += ["--budget", run.budget] if run.budget else []
    history = ""
    if against is not None:
        from harness.history.database import without_password  # needs the extra `history`

        history = without_password(against.url)
        again += ["--history", history, "--baseline", str(against.baseline)]
    lines = [
        *out.getvalue().strip().splitlines(),
        *_what_ran(run),
        f"budget: {run.budget or 'none'}",
        *([f"beside: {against.baseline.description} of {history}"] if against else []),
        f"kept in: {place}",
        f"again: {shlex.join(again)}",
    ]
    return "\n".join(lines)


def _what_ran(run: JudgedRun) -> list[str]:
    result = run.result
    if result is None:
        return []
    model = Path(result.model.file).name if result.model else "nothing"
    build = f", firmware {result.target.build_id}" if result.target else ""
    where = result.board if result.port is None else f"{result.board} ({result.unit})"
    return [f"{model} on {where}{build}"]
