"""Several judged runs on the terminal: a line each, those that did not pass last, and a count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report.terminal import show_line, show_table
from harness.runs.judged_run import JudgedRun

if TYPE_CHECKING:
    from rich.console import Console


def print_overview(console: Console, runs: Sequence[JudgedRun]) -> None:
    """Print how every run ended."""
    ordered = sorted(runs, key=lambda run: not run.passed)  # stable: otherwise as given
    headers = ["run", "board", "model", "verdict", "why"]
    show_table(console, headers, [_row(run) for run in ordered], title="Runs")
    bad = sum(not run.passed for run in runs)
    if bad:
        show_line(console, f"FAIL: {bad} of {len(runs)} runs did not pass", style="bold red")
    else:
        show_line(console, f"PASS: all {len(runs)} runs", style="bold green")


def _row(run: JudgedRun) -> list[str]:
    board = run.result.board if run.result else ""
    model = run.result.model.file if run.result and run.result.model else ""
    return [run.title, board, model, outcome(run), why(run)]


def outcome(run: JudgedRun) -> str:
    """How a run ended, in a word."""
    if run.failure is not None:
        return "failed"
    return "pass" if run.passed else "FAIL"


def why(run: JudgedRun) -> str:
    """What kept a run from passing, in a sentence; of a run that passed how many checks held."""
    total = len(run.verdict.checks)
    if run.failure is not None:
        return run.failure.message
    if failures := run.verdict.failures:
        first, more = failures[0], len(failures) - 1
        text = f"{first.code} {first.subject}: {first.reason}"
        return f"{text}; and {more} checks more" if more else text
    warned = len(run.verdict.warnings)
    return f"{total - warned} of {total} checks hold"
