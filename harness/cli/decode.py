"""``etharness decode``: what a trace holds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from harness.cli.common import Output, output_options
from harness.lab.source import load_source
from harness.timebase import ClockDomain


@click.command(name="decode")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--clock-hz",
    type=float,
    help="Ticks per second, where the file does not say (ED00 files are taken as nanoseconds).",
)
@click.option(
    "--clock-bits", default=64, show_default=True, type=click.IntRange(8, 64), help="Counter width."
)
@click.option("--tree", is_flag=True, help="Print the call tree, with total and self times.")
@output_options
def command(
    path: Path, clock_hz: float | None, clock_bits: int, tree: bool, output: Output
) -> None:
    """Print what an ETDump, a device log or a run directory holds."""
    clock = ClockDomain("given", Fraction(clock_hz), clock_bits) if clock_hz else None
    source = load_source(path, clock)
    qualities = source.result.clock_quality if source.result is not None else ()
    if output.json:
        from harness.report.document import trace_document

        click.echo(trace_document(source.trace, qualities, tree=tree), nl=False)
        return
    if tree:
        from harness.report.tree import print_tree

        print_tree(output.console(), source.trace, detailed=output.verbosity > 0)
        return
    from harness.report.terminal import print_run

    detailed = output.verbosity > 0
    print_run(output.console(), source.trace, detailed=detailed, qualities=qualities)
