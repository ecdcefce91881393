"""``etharness history info``: location, version and size of the history."""

from __future__ import annotations

import click

from harness.cli.history.options import history_option, opened
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="info", cls=PanelCommand)
@history_option
@output_options
def command(url: str | None, output: OutputOptions) -> None:
    """Show the location, version and size of the history.

    Like every command, this upgrades a history of an earlier version.
    """
    with opened(url) as store:
        info = store.info()
    if output.json:
        output.print_json(info)
        return
    from harness.report.terminal import print_header

    rows = {table: f"{count:,}" for table, count in info.rows.items()}
    print_header(output.console(), {"history": info.place, "version": info.version, **rows})
