"""``etharness history list``: list the stored results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.history.options import history_option, opened, selection_options, with_known_model
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="list", cls=PanelCommand)
@selection_options
@history_option
@output_options
def command(selection: Selection, url: str | None, output: OutputOptions) -> None:
    """List results, oldest first."""
    with opened(url) as store:
        found = store.results(with_known_model(store, selection))
    if output.json:
        from harness.report.history import entries_document

        click.echo(entries_document(found), nl=False)
        return
    from harness.report.history import print_entries

    print_entries(output.console(), found, detailed=output.verbosity > 0)
