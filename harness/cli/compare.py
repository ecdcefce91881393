"""``etharness compare``: two traces op by op."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, output_options
from harness.lab.source import load_source
from harness.view.compare import EXECUTIONS, STATISTICS, Executions, Statistic, compare


@click.command(name="compare")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--statistic",
    type=click.Choice(STATISTICS),
    default="p50",
    show_default=True,
    help="What of an operator's times is compared.",
)
@click.option(
    "--executions",
    type=click.Choice(EXECUTIONS),
    default="all",
    show_default=True,
    help="Cold: the first execution after loading; warm: later ones.",
)
@output_options
def command(
    before: Path, after: Path, statistic: Statistic, executions: Executions, output: Output
) -> None:
    """Compare two traces operator by operator.

    The operator that became slower by most comes first. BEFORE and AFTER are what decode takes: run
    directories, device logs, ED00 files.
    """
    traces = [load_source(path).trace for path in (before, after)]
    found = compare(*traces, statistic=statistic, executions=executions)
    if output.json:
        from harness.report.compare import comparison_document

        click.echo(comparison_document([str(before), str(after)], traces, found), nl=False)
        return
    from harness.report.compare import print_comparison

    print_comparison(output.console(), traces, found, detailed=output.verbosity > 0)
