"""The test sets of a bundled program on the terminal: a row each, then the verdict of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.records.check_codes import OUTPUTS
from harness.report.description import RunDescription, describe
from harness.report.run import print_verdict
from harness.report.terminal import print_header, show_table
from harness.runs.evaluation import EvaluatedRun

if TYPE_CHECKING:
    from rich.console import Console

_HEADERS = ["method", "test set", "executions", "median execution", "outputs", "verdict"]


def print_test_sets(console: Console, run: EvaluatedRun, *, verbosity: int = 0) -> None:
    """Print the run of a bundled program.

    Args:
        console: Where to print.
        run: The run, with those of its test sets.
        verbosity: Negative for the verdict alone; positive to list every check.
    """
    whole = describe(run)
    if verbosity >= 0:
        print_header(console, {fact.label: fact.text for fact in whole.facts if fact.essential})
        rows = [_row(describe(each)) for each in run.test_sets]
        show_table(console, _HEADERS, rows, title="Test sets", numbers=(1, 2, 3))
    print_verdict(console, whole.verdict, verbosity=verbosity)


def _row(found: RunDescription) -> list[str]:
    result, figures = found.run.result, {fact.label: fact.text for fact in found.figures}
    outputs = [check for check in found.run.verdict.checks if check.code == OUTPUTS]
    wrong = sum(not check.passed for check in outputs)
    state = f"{wrong:,} of {len(outputs):,} differ" if wrong else "match"
    return [
        result.model.method if result and result.model else "",
        str(result.test_set) if result else "",
        figures.get("executions", ""),
        figures.get("median execution", "-"),
        state if outputs else "not compared",
        "ERROR" if found.failure else "FAIL" if found.verdict.outcome == "fail" else "pass",
    ]
