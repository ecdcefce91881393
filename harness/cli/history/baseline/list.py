"""``etharness history baseline list``: which names there are."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened


@click.command(name="list")
@history_option
@output_options
def command(url: str | None, output: OutputOptions) -> None:
    """List baselines that have a name."""
    with opened(url) as store:
        found = store.baselines()
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document(found), nl=False)
        return
    from harness.report.history import print_baselines

    print_baselines(output.console(), found)
