"""``etharness compare``: compare two traces operator by operator."""

from __future__ import annotations

from pathlib import Path

import click

from harness.analyze.compare import EXECUTIONS, STATISTICS, Executions, Statistic, compare
from harness.cli.options import (
    FilePath,
    PanelCommand,
    ReadingOptions,
    option,
    output_options,
    panel,
    reading_options,
)
from harness.cli.output import OutputOptions
from harness.files import display_path


@click.command(name="compare", cls=PanelCommand)
@click.argument("before", type=FilePath())
@click.argument("after", type=FilePath())
@panel(
    "Comparison",
    option(
        "--statistic",
        type=click.Choice(STATISTICS),
        metavar="NAME",
        default="p50",
        show_default=True,
        help=f"Statistic of an operator's times to compare: {', '.join(STATISTICS)}.",
    ),
    option(
        "--executions",
        type=click.Choice(EXECUTIONS),
        default="all",
        show_default=True,
        help="Executions to compare: all, the first after loading (cold), or later ones (warm).",
    ),
)
@reading_options
@output_options
def command(
    before: Path,
    after: Path,
    statistic: Statistic,
    executions: Executions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Compare two traces operator by operator.

    The largest slowdown comes first. BEFORE and AFTER are run directories, device logs or ED00
    files.
    """
    sources = [reading.load(path) for path in (before, after)]
    traces = [source.trace for source in sources]
    found = compare(*traces, statistic=statistic, executions=executions)
    if output.json:
        from harness.report.compare import comparison_document, side

        old, new = (
            side(display_path(path), source.trace, source.damage, source.later_dumps)
            for path, source in zip((before, after), sources, strict=True)
        )
        click.echo(comparison_document(old, new, found), nl=False)
        return
    from harness.report.compare import print_comparison
    from harness.report.terminal import print_damage

    console, detailed = output.console(), output.verbosity > 0
    print_comparison(console, traces, found, detailed=detailed)
    for source in sources:
        print_damage(console, source.damage, detailed=detailed)
