"""``etharness history prune``: less of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened, selection_options

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="prune")
@click.option(
    "--keep",
    type=click.IntRange(0),
    required=True,
    help="How many results stay, the newest, of each board, unit, model and method.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many would go.")
@selection_options
@history_option
@output_options
def command(
    keep: int, dry_run: bool, selection: Selection, url: str | None, output: OutputOptions
) -> None:
    """Remove old results.

    Those of baselines with a name stay. With --board and the like only these are looked at, and
    --keep counts among them.
    """
    with opened(url) as store:
        removed = store.prune(keep, selection, dry_run=dry_run)
        left = store.info().rows["results"]
    if output.json:
        from harness.report.history import pruned_document

        click.echo(pruned_document(removed, left, dry_run=dry_run), nl=False)
        return
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{removed:,} results {verb}, {left:,} are there")
