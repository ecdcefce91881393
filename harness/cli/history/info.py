"""``etharness history info``: where it is and how much it holds."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened


@click.command(name="info")
@history_option
@output_options
def command(url: str | None, output: OutputOptions) -> None:
    """Say where the history is and how much it holds.

    As every command, this brings a history of an earlier version to this one.
    """
    with opened(url) as store:
        info = store.info()
    if output.json:
        from harness.records.result import encode

        click.echo(encode(info), nl=False)
        return
    from harness.report.terminal import print_header

    rows = {what: f"{count:,}" for what, count in info.rows.items()}
    print_header(output.console(), {"history": info.place, "version": info.version, **rows})
