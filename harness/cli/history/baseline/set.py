"""``etharness history baseline set``: name results as a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.history.options import history_option, opened, selection_options, with_known_model
from harness.cli.options import SELECTION, PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="set", cls=PanelCommand)
@click.argument("name")
@click.argument("ids", nargs=-1)
@selection_options
@panel(
    SELECTION,
    option("--all", "unsound", is_flag=True, help="Include results that failed or lost events."),
)
@history_option
@output_options
def command(
    name: str,
    ids: tuple[str, ...],
    unsound: bool,
    selection: Selection,
    url: str | None,
    output: OutputOptions,
) -> None:
    """Name results as a baseline; a baseline that had the name is replaced.

    Select the results by IDS, or by options such as --commit or --last 20 --board native. Options
    select results that failed, were cut off or lost events only with --all.
    """
    from dataclasses import replace

    from harness.history.entries import Selection

    if bool(ids) == (selection != Selection()):
        raise UsageError(
            "no results are selected, or both by IDS and by options",
            hint="give IDS (see `etharness history list --json`), or options such as --commit",
        )
    with opened(url) as store:
        if not ids:
            chosen = with_known_model(store, selection)
            chosen = chosen if unsound else replace(chosen, sound=True)
            ids = tuple(entry.provenance.id for entry in store.results(chosen))
        store.set_baseline(name, ids)
        [found] = [item for item in store.baselines() if item.name == name]
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document([found]), nl=False)
        return
    from harness.formatting import printable

    click.echo(f"name:{printable(name)} has {found.results:,} results")
