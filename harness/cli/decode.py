"""``etharness decode``: what a trace holds."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, Reading, output_options, reading_options


@click.command(name="decode")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--tree", is_flag=True, help="Print the call tree, with total and self times.")
@reading_options
@output_options
def command(path: Path, tree: bool, reading: Reading, output: Output) -> None:
    """Print what an ETDump, a console capture, a log or a run directory holds."""
    source = reading.load(path)
    qualities = source.result.clock_quality if source.result is not None else ()
    if output.json:
        from harness.report.document import trace_document

        document = trace_document(
            source.trace, qualities, tree=tree, dumps=len(source.dumps), damage=source.damage
        )
        click.echo(document, nl=False)
        return
    from harness.report.terminal import print_damage, print_run

    console = output.console()
    detailed = output.verbosity > 0
    if tree:
        from harness.report.tree import print_tree

        print_tree(console, source.trace, detailed=detailed)
    else:
        print_run(console, source.trace, detailed=detailed, qualities=qualities)
    print_damage(console, source.damage, detailed=detailed)
    if len(source.dumps) > 1:
        click.echo(f"{len(source.dumps)} dumps, one behind the other in the file")
