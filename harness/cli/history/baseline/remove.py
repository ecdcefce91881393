"""``etharness history baseline remove``: remove the name of a baseline."""

from __future__ import annotations

import click

from harness.cli.history.options import history_option, opened
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions
from harness.errors import UsageError


@click.command(name="remove", cls=PanelCommand)
@click.argument("name")
@history_option
@output_options
def command(name: str, url: str | None, output: OutputOptions) -> None:
    """Remove the name of a baseline, but not its results."""
    with opened(url) as store:
        if not store.remove_baseline(name):
            raise UsageError(
                f"baseline {name!r} not found",
                hint="`etharness history baseline list` lists the names",
            )
        left = store.baselines()
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document(left), nl=False)
        return
    from harness.formatting import printable

    output.print_line(f"removed the name {printable(name)}; its results stay in the history")
