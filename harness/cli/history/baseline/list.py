"""``etharness history baseline list``: list the named baselines."""

from __future__ import annotations

import click

from harness.cli.history.options import history_option, opened
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="list", cls=PanelCommand)
@history_option
@output_options
def command(url: str | None, output: OutputOptions) -> None:
    """List the named baselines."""
    with opened(url) as store:
        found = store.baselines()
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document(found), nl=False)
        return
    from harness.report.history import print_baselines

    print_baselines(output.console(), found)
