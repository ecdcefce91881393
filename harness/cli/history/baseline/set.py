"""``etharness history baseline set``: results get a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened, selection_options
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="set")
@click.argument("name")
@click.argument("ids", nargs=-1)
@click.option("--all", "unsound", is_flag=True, help="Results that failed or lost events, too.")
@selection_options
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
    """Give results a name, instead of those that had it.

    Either IDS say which results, or options do, such as --commit or --last 20 --board native. Of
    what options choose, results that failed, were cut off or lost events count only with --all.
    """
    from dataclasses import replace

    from harness.history.entries import Selection

    if bool(ids) == (selection != Selection()):
        raise UsageError(
            "say which results, by ids or by options", hint="`etharness history list --json`"
        )
    with opened(url) as store:
        if not ids:
            chosen = selection if unsound else replace(selection, sound=True)
            ids = tuple(entry.provenance.id for entry in store.results(chosen))
        store.set_baseline(name, ids)
        [found] = [item for item in store.baselines() if item.name == name]
    if output.json:
        from harness.report.history import baselines_document

        click.echo(baselines_document([found]), nl=False)
        return
    from harness.formatting import printable

    click.echo(f"name:{printable(name)} is {found.results:,} results")
