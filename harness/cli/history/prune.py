"""``etharness history prune``: remove old results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.history.options import history_option, opened, selection_options, with_known_model
from harness.cli.options import PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="prune", cls=PanelCommand)
@panel(
    "Removal",
    option(
        "--keep",
        type=click.IntRange(0),
        required=True,
        metavar="N",
        help="Keep the newest N results of each board, unit, model and method.",
    ),
    option("--dry-run", is_flag=True, help="Print the number of results without removing them."),
)
@selection_options
@history_option
@output_options
def command(
    keep: int, dry_run: bool, selection: Selection, url: str | None, output: OutputOptions
) -> None:
    """Remove old results.

    Results of named baselines stay. Options such as --board limit the command to the selected
    results; --keep then counts among them.
    """
    with opened(url) as store:
        removed = store.prune(keep, with_known_model(store, selection), dry_run=dry_run)
        left = store.info().rows["results"]
    if output.json:
        from harness.report.history import pruned_document

        click.echo(pruned_document(removed, left, dry_run=dry_run), nl=False)
        return
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{removed:,} results {verb}; the history has {left:,}")
