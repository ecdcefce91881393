"""``etharness check``: a trace against a budget."""

from __future__ import annotations

from pathlib import Path

import click

from harness.check.budget import load_budget
from harness.check.verdict import evaluate
from harness.cli.common import Output, Reading, output_options, reading_options
from harness.errors import UsageError


@click.command(name="check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--budget",
    type=click.Path(path_type=Path),
    help="Budget file; without it, the one the run directory was checked against.",
)
@reading_options
@output_options
def command(path: Path, budget: Path | None, reading: Reading, output: Output) -> int:
    """Check a run or an ETDump against a budget."""
    source = reading.load(path)
    if budget is None:
        if source.result is None or source.result.verdict is None:
            raise UsageError(f"{path} names no budget", hint="give one with --budget")
        budget = Path(source.result.verdict.budget)
    verdict = evaluate(load_budget(budget), source.trace)
    if output.json:
        from harness.report.document import verdict_document

        click.echo(verdict_document(verdict, str(budget)), nl=False)
    else:
        from harness.report.terminal import print_verdict

        print_verdict(output.console(), verdict, detailed=output.verbosity >= 0)
    return 0 if verdict.passed else 1
