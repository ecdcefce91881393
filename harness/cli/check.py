"""``etharness check``: a trace against a budget."""

from __future__ import annotations

from pathlib import Path

import click

from harness.check.checks import Verdict
from harness.cli.common import Output, Reading, output_options, reading_options
from harness.lab.judge import judge


@click.command(name="check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--budget",
    type=click.Path(path_type=Path),
    help="Budget file.  [default: the one the run directory was checked against, if any]",
)
@reading_options
@output_options
def command(path: Path, budget: Path | None, reading: Reading, output: Output) -> int:
    """Check a run or an ETDump: what always holds, and a budget."""
    source = reading.load(path)
    result = source.result
    if budget is None and result is not None and result.verdict is not None:
        budget = Path(result.verdict.budget) if result.verdict.budget else None
    verdict = judge(source.trace, result, budget)
    if output.json:
        from harness.result import encode

        click.echo(encode(verdict), nl=False)
    else:
        from harness.report.terminal import print_verdict

        print_verdict(output.console(), Verdict(verdict.checks), detailed=output.verbosity >= 0)
    return 0 if verdict.passed else 1
