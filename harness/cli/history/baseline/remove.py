"""``etharness history baseline remove``: a name is forgotten."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened
from harness.errors import UsageError


@click.command(name="remove")
@click.argument("name")
@history_option
@output_options
def command(name: str, url: str | None, output: OutputOptions) -> None:
    """Forget a name, but not its results."""
    with opened(url) as store:
        if not store.remove_baseline(name):
            raise UsageError(
                f"baseline {name!r} not found", hint="`etharness history baseline list`"
            )
        left = store.baselines()
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document(left), nl=False)
        return
    from harness.formatting import printable

    click.echo(f"{printable(name)} is forgotten; its results are still there")
