"""``etharness site``: a static site of all results of a history."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.command import (
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    absolute_history,
    option,
    output_options,
    panel,
)
from harness.printing import counted
from harness.records.store_address import StoreAddress


@click.command(name="site", cls=PanelCommand)
@click.argument("url", metavar="[HISTORY]", required=False, callback=absolute_history)
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "directory",
        required=True,
        metavar="DIR",
        type=FilePath(),
        help="Folder of the site: a new or empty one, or that of a site to bring up to date.",
    ),
    option(
        "--title",
        default="Results",
        show_default=True,
        metavar="NAME",
        help="Title of the first page.",
    ),
)
@output_options
def command(url: StoreAddress | None, directory: Path, title: str, output: OutputOptions) -> None:
    """Write a static site of all results of a history.

    HISTORY is an SQLite file or postgresql:// URL, by default the same as for `etharness history`.
    The site needs no server: open DIR/index.html, or publish the folder. Only files whose content
    changed are written.
    """
    from harness.config.project import default_history
    from harness.extensions.web.site.writer import write_site
    from harness.history import open_store

    with open_store(url or default_history(), create=False) as store, output.stages() as stages:
        changes = write_site(store, directory, title, progress=stages)
    if output.json:
        output.print_json(changes)
        return
    if output.verbosity > 0:
        for name in changes.written:
            output.print_line(f"written: {name}")
    for name in changes.removed:
        output.print_line(f"removed: {name}")
    output.print_line(
        f"{changes.directory}/index.html: {counted(changes.results, 'result')}; "
        f"{counted(len(changes.written), 'file')} written, {changes.unchanged:,} unchanged, "
        f"{len(changes.removed):,} removed"
    )


command.section = "Boards over time"
